"""Sequences of steps of stored runs: from the columns of the lake where they suffice, else from whole traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import msgspec
import numpy as np

from ethogram.arrays import column, plain_numbers, text_scalar
from ethogram.errors import BadUsage, Sealed
from ethogram.measures.sequence import READINGS, Reading, named_signature, read_positions, takes_trace
from ethogram.reading.task_names import natural
from ethogram.store import Entry, Lake, Run
from ethogram.traces import SUCCESS_AT, Label, Missing, Outcome, Scored, Span, SpanId, TraceId
from ethogram.traces.signature import SIGNATURES

COLUMNS = ("trace_id", "step", "kind", "name", "tool", "status", "stop_reason", "requested", "agent", "lane")
UNKNOWN_TASK = "no task named"
"""Traces that do not say which task they are of cannot be repeats of each other."""
_BETWEEN = "\x1f"


class EpisodeReading(msgspec.Struct, frozen=True):
    """One committed episode, how it reads, and whether the agent's own crash ended it."""

    entry: Entry
    reading: Reading
    crashed: bool = False


class LoadedReadings(msgspec.Struct, frozen=True):
    """Episodes that show what an agent did, by task, in order of attempt; the others are counted by reason."""

    tasks: dict[str, list[EpisodeReading]]
    missing: dict[str, int]


class ReadingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to read: by steps or messages, with which signature, lane by lane or not."""

    reading: str = "steps"
    signature: str | Callable[..., str] = "structural"
    by_lane: bool = True

    @property
    def name(self) -> str:
        """What the signature is called."""
        return self.signature if isinstance(self.signature, str) else getattr(self.signature, "__name__", "own")

    def function(self) -> Callable[..., str]:
        """The signature function; `module:name` and `file.py:name` are the user's own."""
        if self.reading not in READINGS:
            raise BadUsage(f"there is no reading {self.reading!r}; readings are: {', '.join(READINGS)}")
        if not isinstance(self.signature, str):
            return self.signature
        if ":" not in self.signature:
            return named_signature(self.signature)
        from ethogram.loading import named_object

        found = named_object(self.signature)
        if not callable(found):
            raise BadUsage(f"{self.signature!r} is not a function; a signature takes a span and gives text")
        chosen: Callable[..., str] = found
        return chosen

    @property
    def columnar(self) -> bool:
        """Whether the columns of the lake say all that is needed."""
        mine = SIGNATURES.get(self.signature) if isinstance(self.signature, str) else None
        return self.reading == "steps" and mine is not None and not takes_trace(mine)


def load_readings(
    run: Run, how: ReadingOptions, *, condition: str | None = None, only: Collection[TraceId] | None = None
) -> LoadedReadings:
    """All episodes of a run that left behaviour to look at, as they read."""
    found = listed(run, condition=condition, only=only)
    wanted = [e.entry for episodes in found.tasks.values() for e in episodes]
    function = how.function()
    if how.columnar:
        columns = _from_columns(run, {e.head.trace_id for e in wanted}, function)
        readings = iter([columns.get(e.head.trace_id, EMPTY) for e in wanted])
    else:
        readings = iter([read_positions(run.trace(e), how.reading, function) for e in wanted])
    crashed = {label.trace_id for label in run.labels() if tells_of_crash(label)}
    tasks = {
        task: [EpisodeReading(e.entry, next(readings), e.entry.head.trace_id in crashed) for e in episodes]
        for task, episodes in found.tasks.items()
    }
    return LoadedReadings(tasks, found.missing)


def listed(run: Run, *, condition: str | None = None, only: Collection[TraceId] | None = None) -> LoadedReadings:
    """The same episodes as the ledger names them, not read yet.

    Forgotten traces are gone, and where infrastructure, a cap or the kill switch ended an episode, what it left is
    not what the agent would have done.
    """
    missing: Counter[str] = Counter()
    tasks: dict[str, list[EpisodeReading]] = {}
    for entry in run.entries:
        if condition is not None and entry.head.condition != condition:
            continue
        if only is not None and entry.head.trace_id not in only:
            continue
        reason = unusable(entry)
        if reason is not None:
            missing[reason] += 1
        else:
            tasks.setdefault(entry.head.task, []).append(EpisodeReading(entry, EMPTY))
    for episodes in tasks.values():
        episodes.sort(key=lambda e: (e.entry.head.attempt, e.entry.head.trace_id))
    return LoadedReadings({t: tasks[t] for t in sorted(tasks, key=natural)}, dict(sorted(missing.items())))


EMPTY = Reading(signatures=(), kinds=(), names=(), failed=(), agents=(), lanes=())


def unusable(entry: Entry) -> str | None:
    """Why an episode does not show what its agent does; None where it does."""
    if entry.forgotten:
        return "forgotten"
    if not entry.head.task:
        return UNKNOWN_TASK
    outcome = entry.head.outcome
    if isinstance(outcome, Missing) and outcome.reason != "unscored":
        return outcome.reason
    return None


def tells_of_crash(label: Label) -> bool:
    """Whether a label says that the agent's own crash ended its episode."""
    return label.name == "stopped_by" and str(label.value).startswith("crash.")


def passed(run: Run | None, outcome: Outcome) -> bool | None:
    """Whether an outcome is a success, as its run counts, or by default without one; None where there is none."""
    if not isinstance(outcome, Scored):
        return None
    return outcome.success(SUCCESS_AT if run is None else run.success_at)


def usual_signature(entries: Iterable[Entry], reading: str = "steps") -> str:
    """The signature that is meant where none is named: that of traxr for its own logs, else the structural one."""
    formats = {e.head.origin.format if e.head.origin is not None else "" for e in entries}
    return "traxr" if formats == {"traxr"} and reading == "steps" else "structural"


def final_answer(run: Run, entry: Entry) -> tuple[str | None, bool]:
    """The final answer of an episode, where the log has one, and whether it can be read: steps can without a key."""
    ref = entry.head.answer
    if ref is None:
        return None, True
    try:
        return run.texts.get(ref, entry.texts), True
    except Sealed:
        return None, False


def _from_columns(run: Run, wanted: set[TraceId], function: Callable[..., str]) -> dict[TraceId, Reading]:
    """Signatures of every step from the columns: the function is called once per distinct combination of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not wanted:
        return {}
    chosen = column(sorted(wanted), pa.string()) if len(wanted) < len(run.entries) else None

    def is_wanted(batch: Any) -> Any:
        steps = batch.column("step").is_valid()
        return steps if chosen is None else pc.and_(steps, pc.is_in(batch.column("trace_id"), value_set=chosen))

    batches = [b for b in Lake([run]).spans(COLUMNS, where=is_wanted) if b.num_rows]
    if not batches:
        return {}
    table = pa.Table.from_batches(batches).combine_chunks()
    traces, trace = _coded(table.column("trace_id"))
    values, codes = _distinct(table)
    spans = [_span(*v) for v in values]
    signs = [function(s) for s in spans]
    facts: dict[str, list[Any]] = {
        "signatures": signs,
        "kinds": [s.kind for s in spans],
        "names": [s.tool or s.name for s in spans],
        "failed": [s.status == "error" for s in spans],
        "agents": [s.agent for s in spans],
        "lanes": [s.lane for s in spans],
    }
    order = np.lexsort((plain_numbers(table.column("step"), -1), trace))
    cuts = np.flatnonzero(np.diff(trace[order])) + 1
    found = {}
    for part in np.split(order, cuts):
        name = TraceId(traces[int(trace[part[0]])])
        if name in wanted:
            here = codes[part].tolist()
            found[name] = Reading(**{k: tuple([values[c] for c in here]) for k, values in facts.items()})
    return found


def _coded(values: Any) -> tuple[list[Any], Any]:
    """The distinct values of a column and, for each row, which one it is."""
    import pyarrow as pa

    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    encoded = (whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole).dictionary_encode()
    return encoded.dictionary.to_pylist(), plain_numbers(encoded.indices, -1)


def _distinct(table: Any) -> tuple[list[tuple[str, ...]], Any]:
    """The distinct combinations of the columns that describe a step, and which one each row is."""
    import pyarrow.compute as pc

    names = COLUMNS[2:]
    parts = []
    codes = np.zeros(table.num_rows, dtype=np.int64)
    for name in names:
        given = table.column(name)
        if name == "requested":
            given = pc.binary_join(given, text_scalar(_BETWEEN))
        values, index = _coded(pc.fill_null(given, text_scalar("")))
        parts.append((values, index))
        _, codes = np.unique(codes * max(len(values), 1) + index, return_inverse=True)
    _, first = np.unique(codes, return_index=True)
    combinations = [tuple(str(values[int(index[row])]) for values, index in parts) for row in first]
    return combinations, codes


def _span(kind: str, name: str, tool: str, status: str, stop: str, requested: str, agent: str, lane: str) -> Span:
    """A span that stands for all spans with these fields; a signature that needs more is read from traces."""
    return Span(
        trace_id=TraceId(""),
        span_id=SpanId(""),
        seq=0,
        kind=kind,  # type: ignore[arg-type]
        name=name,
        tool=tool or None,
        status=status or "unset",  # type: ignore[arg-type]
        stop_reason=stop or None,
        requested=tuple(requested.split(_BETWEEN)) if requested else (),
        agent=agent,
        lane=lane,
    )


def by_version(episodes: list[EpisodeReading]) -> Iterator[list[EpisodeReading]]:
    """Episodes of one task that are repeats of each other: the same condition and the same agent."""
    groups: dict[tuple[str, str], list[EpisodeReading]] = {}
    for episode in episodes:
        groups.setdefault((episode.entry.head.condition, episode.entry.head.agent), []).append(episode)
    return iter(groups.values())
