"""Inputs of a field: the user's own class, milestones in YAML, corridors in JSON, and runs as trajectories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ethogram.cluster import Cluster
from ethogram.errors import BadInput, BadUsage, EthogramError, NotFound, Refused, first_line
from ethogram.estimate import Estimate
from ethogram.measures.milestones import Milestones, milestones_from
from ethogram.measures.sequence import READINGS
from ethogram.measures.standard import Standards, chosen, dimensions, of_preset, of_tally
from ethogram.measures.standard_states import default_states
from ethogram.reading.episode_costs import known_costs
from ethogram.reading.outcomes import chosen_entries
from ethogram.reading.samples import traced_run
from ethogram.reading.step_columns import StoredSteps
from ethogram.reading.task_names import task_name, without_task
from ethogram.store import Entry, Home, Run
from ethogram.store.batch import traceless
from ethogram.traces import SUCCESS_AT, File, Missing, Reasoning, Scored, Text, ToolCall, ToolResult, Trace

from .corridor import Corridor
from .field import Field

MOST_LABELLED = 20_000
"""Above this number of traces a preset's own states are not read unasked: labels are objects, one per step."""
NO_STEPS = "no steps"


class FieldOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How trajectories are measured: through a class of the user's own, or through the standard field."""

    field: str | type[Field] | None = None
    reading: str = "steps"
    preset: str = "standard"
    dimensions: tuple[str, ...] = ()
    states: Milestones | None = None

    def __post_init__(self) -> None:
        if self.reading not in READINGS:
            raise BadUsage(f"there is no reading {self.reading!r}; readings are: {', '.join(READINGS)}")
        if self.field is None and self.reading != "steps":
            raise BadUsage("the standard field counts steps; --reading messages is for a field of your own (--field)")
        if self.field is not None and (self.preset != "standard" or self.dimensions):
            raise BadUsage("a field of your own has its own dimensions; leave out --preset and --dimensions")
        if self.states is not None and self.reading == "messages":
            raise BadUsage("milestones name steps; with --reading messages give the field a state() of its own")

    @property
    def name(self) -> str:
        """What the field is called."""
        if self.field is None:
            return self.preset
        return self.field if isinstance(self.field, str) else self.field.__qualname__

    @property
    def names(self) -> list[str]:
        """The standard dimensions that are wanted."""
        return chosen(self.dimensions) if self.dimensions else of_preset(self.preset)


class MeasuredTraces:
    """Traces of one or several runs, measured: a field of the user's, or standard dimensions yet to be chosen."""

    def __init__(
        self, entries: Sequence[Entry], missing: Mapping[str, int], notes: list[str], threshold: float
    ) -> None:
        self.entries = entries
        self.missing = dict(sorted(missing.items()))
        self.notes = notes
        self.outcomes = np.array([_score(e, threshold) for e in entries], dtype=np.float64)
        self.own: Field | None = None
        self.standard: Standards | None = None
        self.labels: list[tuple[str, ...]] | None = None
        self.stones: Milestones | None = None

    def field(self, names: Sequence[str] | None = None, tasks: Sequence[str] | None = None) -> Field:
        """The field of these standard dimensions, or the user's own as it is."""
        if self.own is not None and tasks is None:
            return self.own
        whole = self.own
        known = dimensions()
        dims = whole.dimensions() if whole is not None else [known[n].dimension for n in names or ()]
        points = whole.points if whole is not None else self.standard.points(names or ())  # type: ignore[union-attr]
        made = Field.from_arrays(
            points,
            self.outcomes,
            dims,
            tasks=np.array(self.tasks if tasks is None else tasks),
            episodes=[e.head.trace_id for e in self.entries],
            states=self.labels,
            state_order=() if self.stones is None else self.stones.states,
        )
        if self.stones is not None:
            made.terminal_state = self.stones.terminal or ""
        return made

    @property
    def tasks(self) -> list[str]:
        """The task of each trace."""
        return [task_name(e.head) for e in self.entries]


def usable_names(
    loaded: Sequence[MeasuredTraces], how: FieldOptions, wanted: Sequence[str] | None = None
) -> tuple[list[str], dict[str, str]]:
    """Standard dimensions that every part records and that occur in one of them; the others with the reason."""
    names = list(wanted) if wanted is not None else how.names
    left: dict[str, str] = {}
    parts = [part.standard for part in loaded if part.standard is not None]
    for part in parts:
        left |= part.gaps(names)
    kept = [n for n in names if n not in left]
    if wanted is None and not how.dimensions:
        idle = set.intersection(*(set(p.idle(kept)) for p in parts))
        left |= {n: "0 in every trace" for n in kept if n in idle}
        left |= _twins([n for n in kept if n not in idle], parts)
        kept = [n for n in kept if n not in left]
    if not kept:
        shown = "; ".join(f"{n}: {why}" for n, why in list(left.items())[:4])
        raise Refused(
            f"none of the dimensions can be measured here ({shown}); choose others with --dimensions",
            have=0,
            need=1,
            of="dimensions",
        )
    return kept, left


def _twins(names: Sequence[str], parts: Sequence[Standards]) -> dict[str, str]:
    """Dimensions that repeat an earlier one number by number: they would only count it twice."""
    seen: dict[bytes, str] = {}
    found = {}
    for name in names:
        first = seen.setdefault(b"".join(p.values[name].tobytes() for p in parts), name)
        if first != name:
            found[name] = f"the same as {first} in every trace"
    return found


def measure_traces(
    runs: Sequence[Run], entries: Sequence[Sequence[Entry]], how: FieldOptions, cluster: Cluster | None = None
) -> MeasuredTraces:
    """Measure the scored traces of some runs, here or on a cluster; what cannot be used is counted by reason."""
    cls = None if how.field is None else field_class(how.field)
    gone: Counter[str] = Counter()
    kept: list[tuple[Run, Entry]] = []
    for run, own in zip(runs, entries, strict=True):
        for entry in own:
            reason = _unusable(entry)
            if reason is None:
                kept.append((run, entry))
            else:
                gone[reason] += 1
    _refuse_twice([e for _, e in kept])
    if not kept:
        counts = ", ".join(f"{reason} {n}" for reason, n in gone.items())
        batched = traceless(batch for run in runs for batch in run.batches)
        told = ", ".join(filter(None, (counts, batched))) or "it is empty"
        next_ = f"the ways to score it are listed by: ethogram why {runs[0].name}"
        if batched and not counts:
            next_ = f"what is known of them is shown by: ethogram show {runs[0].name}"
        raise Refused(
            f"run {runs[0].name!r} has no scored trace to measure ({told}); {next_}",
            have=0,
            need=1,
            of="scored traces",
            estimate=Estimate(value=None, of="traces", missing=dict(gone), why="no trace is scored"),
        )
    notes: list[str] = []
    loaded = MeasuredTraces([e for _, e in kept], gone, notes, _threshold(runs, notes))
    if note := without_task(loaded.tasks):
        notes.append(note)
    if cls is not None:
        _through_own(loaded, kept, cls, how)
    else:
        _through_columns(loaded, kept, how, cluster)
    return loaded


def field_class(wanted: str | type[Field]) -> type[Field]:
    """The user's field class: `path.py:Class`, `pkg.mod:Class`, or the class itself."""
    if isinstance(wanted, str):
        from ethogram.loading import named_object

        try:
            found = named_object(wanted)
        except EthogramError:
            raise
        except Exception as error:  # it is the user's code
            raise BadInput(
                f"{wanted!r} cannot be imported: {type(error).__name__}: {error}; fix that file", where=str(wanted)
            ) from error
    else:
        found = wanted
    if not isinstance(found, type) or not issubclass(found, Field):
        kind = found.__name__ if isinstance(found, type) else type(found).__name__
        raise BadUsage(f"{wanted!r} is {kind}, not a subclass of ethogram.Field; name one that is")
    return found


def milestones_file(path: str | Path) -> Milestones:
    """Milestones from a YAML file."""
    import yaml

    place = Path(path)
    try:
        data = yaml.safe_load(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotFound(f"no milestones at {str(path)!r}: {error.strerror}", where=str(path)) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(f"{place.name} is not YAML: {first_line(error)}", where=str(place)) from None
    try:
        return milestones_from(data)
    except BadInput as error:
        raise BadInput(f"{place.name}: {error.cli_message}", where=str(place)) from None


class CorridorFile(msgspec.Struct, frozen=True, kw_only=True):
    """A corridor and how its runs were measured."""

    corridor: Corridor
    field: str | None
    preset: str
    reading: str


def write_corridor(path: str | Path, corridor: Corridor, how: FieldOptions) -> None:
    """Write a corridor with what is needed to measure others alike."""
    data = {
        "kind": "ethogram corridor",
        "field": None if how.field is None else how.name,
        "preset": how.preset,
        "reading": how.reading,
        **corridor.to_dict(),
    }
    place = Path(path)
    draft = place.with_name(f".{place.name}.part")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")
    draft.replace(place)


def load_corridor(path: str | Path) -> CorridorFile:
    """Read what `write_corridor` wrote."""
    place = Path(path)
    try:
        data = msgspec.json.decode(place.read_bytes())
    except OSError as error:
        raise NotFound(f"no corridor at {str(path)!r}: {error.strerror}", where=str(path)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{place.name} is not JSON ({error}); save a corridor with --save-corridor", where=str(place)
        ) from None
    if not isinstance(data, dict) or data.get("kind") != "ethogram corridor":
        raise BadInput(f"{place.name} is not a corridor; save one with --save-corridor", where=str(place))
    return CorridorFile(
        corridor=Corridor.from_dict(data),
        field=data.get("field"),
        preset=data.get("preset") or "standard",
        reading=data.get("reading") or "steps",
    )


def as_messages(trace: Trace) -> list[dict[str, Any]]:
    """A trace as the list of plain messages that chat logs have; each tool result is a message of its own."""
    out: list[dict[str, Any]] = []
    for message in trace.messages:
        results = [p for p in message.parts if isinstance(p, ToolResult)]
        for result in results:
            told: dict[str, Any] = {"role": "tool", "content": result.content}
            named = {"name": result.name or message.name, "tool_call_id": result.call_id}
            out.append(told | {k: v for k, v in named.items() if v is not None})
        words = [p.text for p in message.parts if isinstance(p, Text)]
        others = [p for p in message.parts if not isinstance(p, ToolResult)]
        if results and not others:
            continue
        plain: dict[str, Any] = {"role": message.role, "content": "\n".join(words) if words else None}
        if message.name is not None:
            plain["name"] = message.name
        thoughts = [p.text for p in others if isinstance(p, Reasoning)]
        if thoughts:
            plain["reasoning_content"] = "\n".join(thoughts)
        files = [msgspec.to_builtins(p) for p in others if isinstance(p, File)]
        if files:
            plain["files"] = files
        calls = [p for p in others if isinstance(p, ToolCall)]
        if calls:
            plain["tool_calls"] = [
                {"id": c.call_id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in calls
            ]
        out.append(plain)
    return out


def _unusable(entry: Entry) -> str | None:
    if entry.forgotten:
        return "forgotten"
    if isinstance(entry.head.outcome, Missing):
        return entry.head.outcome.reason
    return None if entry.totals.steps else NO_STEPS


def _refuse_twice(entries: Sequence[Entry]) -> None:
    counts = Counter(e.head.trace_id for e in entries)
    twice = next((t for t, n in counts.items() if n > 1), None)
    if twice is not None:
        raise BadUsage(f"trace {twice} is in two of these runs and would be counted twice; leave one run out")


def _threshold(runs: Sequence[Run], notes: list[str]) -> float:
    """From which score on a run is a success; where suites differ from the default, scores become passes."""
    said = sorted({r.success_at for r in runs})
    if len(said) > 1:
        raise BadUsage(
            f"these runs call a success by different scores ({', '.join(map(str, said))}); measure them apart"
        )
    if said[0] != SUCCESS_AT:
        notes.append(f"scores are read as passed or failed at {said[0]:g}, as the suite says")
    return said[0]


def _score(entry: Entry, threshold: float) -> float:
    """What a field takes as the outcome, so that `SUCCESS_AT` parts successes from failures in it."""
    assert isinstance(entry.head.outcome, Scored)
    value = entry.head.outcome.value
    return value if threshold == SUCCESS_AT else float(value >= threshold)


def _through_own(
    loaded: MeasuredTraces, kept: Sequence[tuple[Run, Entry]], cls: type[Field], how: FieldOptions
) -> None:
    """Add every trace to a field of the user's class; what goes wrong there names the trace."""
    made = cls if how.states is None else how.states.on(cls)
    try:
        field = made()
        field.d  # noqa: B018 - asks for the dimensions, which may be missing or wrong
    except EthogramError:
        raise
    except Exception as error:  # it is the user's code
        raise BadInput(f"{how.name} cannot be made: {type(error).__name__}: {error}", where=how.name) from error
    for (run, entry), outcome in zip(kept, loaded.outcomes.tolist(), strict=True):
        trace = run.trace(entry)
        trajectory = as_messages(trace) if how.reading == "messages" else trace
        try:
            field.add(trajectory, outcome, task=task_name(entry.head), episode=entry.head.trace_id)
        except EthogramError as error:
            raise BadInput(
                f"{how.name} on trace {entry.head.trace_id} (task {entry.head.task!r}): {error.cli_message}",
                where=f"trace {entry.head.trace_id}",
            ) from error
        except Exception as error:  # it is the user's code
            said = f"{type(error).__name__}: {error}"
            raise BadInput(
                f"{how.name} failed on trace {entry.head.trace_id} (task {entry.head.task!r}): {said}",
                where=f"trace {entry.head.trace_id}",
            ) from error
    loaded.own = field


def _through_columns(
    loaded: MeasuredTraces, kept: Sequence[tuple[Run, Entry]], how: FieldOptions, cluster: Cluster | None
) -> None:
    """The standard dimensions and states, from the columns of the lake."""
    how.names  # noqa: B018 - a name that is wrong should cost no reading
    entries, columns = loaded.entries, StoredSteps(kept, cluster)
    costs = np.array(known_costs(kept), dtype=np.float64)
    loaded.standard = of_tally(columns.tally(), [e.head for e in entries], [e.totals for e in entries], costs)
    stones = how.states
    if stones is None:
        if len(entries) > MOST_LABELLED:
            loaded.notes.append(f"states are not read unasked in more than {MOST_LABELLED} traces; name them: --states")
            return
        stones = default_states(how.preset, loaded.standard.tools)
    if stones is not None:
        loaded.labels = columns.labels(stones)
        loaded.stones = stones


def run_corridor(run: str | Run, *, preset: str = "standard", home: Home | str | None = None) -> CorridorFile:
    """What `field_of` takes as a corridor: the successes of a run. Raises `BadInput` where it has none."""
    found, how = traced_run(run, home, "field"), FieldOptions(preset=preset)
    loaded = measure_traces([found], [chosen_entries(found, None, None)], how)
    names, _ = usable_names([loaded], how, None)
    return CorridorFile(
        corridor=Corridor.of(loaded.field(names), name=found.name), field=None, preset=preset, reading=how.reading
    )
