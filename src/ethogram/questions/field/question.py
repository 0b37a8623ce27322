"""The behaviour field of a stored run: width, convergence, separation, skew, stages, advice."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from ethogram.arguments import at_least, check_level, choice_of
from ethogram.cluster import Cluster, check_engine
from ethogram.errors import BadUsage, NotFound, Refused
from ethogram.estimate import Estimate
from ethogram.measures.columns import NO_LABEL
from ethogram.measures.milestones import Milestones
from ethogram.measures.standard import chosen
from ethogram.plans import Condition
from ethogram.questions.explore.exploration import Rounds
from ethogram.reading.outcomes import chosen_entries
from ethogram.reading.samples import traced_run
from ethogram.store import Entry, Home, Run
from ethogram.traces import SUCCESS_AT

from . import ablation
from .ablation import Ablation, conditions_of
from .chain import Chain, HorizonReading, summarise, walk
from .corridor import Corridor
from .field import Field
from .fieldtests import compare_fields
from .files import (
    CorridorFile,
    FieldOptions,
    MeasuredTraces,
    load_corridor,
    measure_traces,
    milestones_file,
    usable_names,
    write_corridor,
)
from .horizon import RULES, MembershipRule, NotMonotone
from .metrics import FieldMetrics, FieldReport
from .results import CorridorCheck, DimensionRow, FieldResult, HorizonRow, PlainDimension

NOT_SET = "not set"
EXPLORE = "explore"
LEAST_OF_POINT = 3
"""From this number of runs of a task under one setting, its spread within the task is known."""
T = TypeVar("T")


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the analysis: level, membership rule, draws, seed."""

    rule: MembershipRule = "visited"
    level: float = 0.95
    draws: int = 999
    seed: int = 0

    def __post_init__(self) -> None:
        choice_of("rule", self.rule, RULES)
        check_level(self.level)
        at_least("draws", self.draws, 99)
        at_least("seed", self.seed)


def field(
    run: str | Run = "latest",
    *,
    home: Home | str | None = None,
    field: str | type[Field] | None = None,
    rule: MembershipRule = "visited",
    reading: str = "steps",
    preset: str | None = None,
    dimensions: Sequence[str] = (),
    states: str | Path | Milestones | None = None,
    condition: str | None = None,
    agent: str | None = None,
    traces: Sequence[str] = (),
    join: Sequence[str | Run] = (),
    against: str | Run | None = None,
    corridor: str | Path | CorridorFile | None = None,
    save_corridor: str | Path | None = None,
    ablate: bool = False,
    level: float = 0.95,
    draws: int = 999,
    seed: int = 0,
    engine: str = "local",
) -> FieldResult:
    """The field of a run, summarised in words; if asked, compared with another run or a corridor, or ablated.

    `preset` and `dimensions` choose among the standard dimensions; `field` is your own (a class, or `file.py:Class`).
    `states` names the stages of a task, `rule` says which attempts count at a stage. `condition`, `agent` and `traces`
    choose traces, `join` adds other runs. Differences are `run` minus `against`. `corridor` is a file to compare the
    attempts with, `save_corridor` writes one; `ablate` gives the effects of the factors that
    conditions set. With the engine `ray` the workers of a cluster read the files; the numbers are the same.

    Raises `Refused` where fewer than two traces are scored, `BadUsage` for options that exclude each other.

    Example: `field("night", preset="coding").dimensions["errors"].estimates["separation"]`
    """
    if ablate and (against is not None or corridor is not None or save_corridor is not None):
        raise BadUsage("--ablate cannot be combined with --against, --corridor or --save-corridor")
    ask = Ask(rule=rule, level=level, draws=draws, seed=seed)
    ruler = load_corridor(corridor) if isinstance(corridor, str | Path) else corridor
    stones = milestones_file(states) if isinstance(states, str | Path) else states
    how = _how(field, reading, preset, dimensions, stones, ruler)
    place = _engine(engine, how)
    runs = [traced_run(r, home, "field") for r in (run, *join)]
    every = condition is None and ablate
    other = None if against is None else traced_run(against, home, "field")
    picked = [_some(_entries(r, condition, agent, every), traces, r) for r in runs]
    with place as cluster:
        mine = measure_traces(runs, picked, how, cluster)
        loaded = [mine]
        if other is not None:
            loaded.append(measure_traces([other], [_entries(other, condition, agent, every)], how, cluster))
    wanted = None if ruler is None or how.field is not None else _of_corridor(ruler)
    names, left_out = ([], {}) if how.field is not None else usable_names(loaded, how, wanted)
    tasks = _strata(mine) if ablate else None
    whole = mine.field(names, tasks)
    _refuse_one(whole, runs[0])
    said, found = _quietly(lambda: _read(whole, ask))
    notes = [*mine.notes, *_mixture(mine), *said]
    result = _result(
        found, ask, how, runs=runs, condition=condition, missing=mine.missing, left_out=left_out, notes=notes
    )
    if other is not None:
        result.against = other.name
        result.comparison = compare_fields(loaded[1].field(names), whole, level=level, draws=draws, seed=seed)
    if ruler is not None:
        file = str(corridor) if isinstance(corridor, str | Path) else ruler.corridor.name
        result.corridor = _against_corridor(file, ruler, whole, left_out, ask)
    if ablate:
        result.ablation = _ablated(mine, names, runs, level)
    if save_corridor is not None:
        write_corridor(save_corridor, _corridor(whole, runs), how)
        result.saved_corridor = str(save_corridor)
    return result


def _how(
    field: str | type[Field] | None,
    reading: str,
    preset: str | None,
    dimensions: Sequence[str],
    states: Milestones | None,
    ruler: CorridorFile | None,
) -> FieldOptions:
    """As asked; what was not said is taken from the corridor, so that both are measured alike."""
    if ruler is not None and field is None and preset is None and not dimensions:
        field, preset = ruler.field, ruler.preset
        reading = ruler.reading if reading == "steps" else reading
    how = FieldOptions(
        field=field, reading=reading, preset=preset or "standard", dimensions=tuple(dimensions), states=states
    )
    if field is None:
        how.names  # noqa: B018 - an unknown preset is told before anything is read
    return how


def _engine(name: str, how: FieldOptions) -> AbstractContextManager[Cluster | None]:
    """Where the lake is read; a cluster is joined only once it is entered."""
    check_engine(name)
    if name == "local":
        return nullcontext()
    if how.field is not None:
        raise BadUsage("a field of your own measures trace after trace on this machine; leave out --engine ray")
    return Cluster()


def _of_corridor(ruler: CorridorFile) -> list[str]:
    """The standard dimensions that a corridor was measured on."""
    if ruler.field is not None:
        raise BadUsage(f"the corridor was measured through {ruler.field}; leave out --preset and --dimensions")
    return chosen(ruler.corridor.field.names)


def _entries(run: Run, condition: str | None, agent: str | None, every: bool) -> list[Entry]:
    """The episodes that are meant; all conditions only where they are to be told apart."""
    return (
        [e for e in run.entries if agent is None or e.head.agent == agent]
        if every
        else chosen_entries(run, condition, agent)
    )


def _some(entries: Sequence[Entry], wanted: Sequence[str], run: Run) -> list[Entry]:
    """Only traces whose ids begin like these; each must name some."""
    if not wanted:
        return list(entries)
    for start in wanted:
        if not any(e.head.trace_id.startswith(start) for e in entries):
            raise NotFound(
                f"no trace of run {run.name!r} has an id that begins with {start!r}",
                where=f"run {run.name!r}",
                what="trace",
                name=start,
            )
    return [e for e in entries if e.head.trace_id.startswith(tuple(wanted))]


def _strata(loaded: MeasuredTraces) -> list[str]:
    """Task and condition together: runs under other settings are no repeats of each other."""
    return [f"{e.head.task} under {e.head.condition or 'no condition'}" for e in loaded.entries]


def _mixture(loaded: MeasuredTraces) -> list[str]:
    agents = sorted({e.head.agent for e in loaded.entries})
    if len(agents) < 2:
        return []
    return [
        f"{len(agents)} agents are read as one ({', '.join(agents[:4])}{', …' * (len(agents) > 4)}); --agent chooses"
    ]


def _refuse_one(field: Field, run: Run) -> None:
    if field.K < 2:
        raise Refused(
            f"run {run.name!r} has only one scored trace, so its variation is unknown; "
            "run each task several times (ethogram run -k 10)",
            have=field.K,
            need=2,
            of="scored traces",
        )


def _quietly(work: Callable[[], T]) -> tuple[list[str], T]:
    """What is warned of on the way becomes a note."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotMonotone)
        found = work()
    for warning in caught:
        if not issubclass(warning.category, NotMonotone):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return list(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, NotMonotone))), found


class _Reading(NamedTuple):
    """Everything about one field, in both readings."""

    report: FieldReport
    chain: Chain
    horizons: list[HorizonRow]
    mean_outcome: float


def _read(field: Field, ask: Ask) -> _Reading:
    report = field.metrics().report(level=ask.level, draws=ask.draws, seed=ask.seed)
    chain = summarise(field, report, rule=ask.rule, alpha=round(1 - ask.level, 9))
    return _Reading(report, chain, _horizons(field, ask), float(np.mean(field.outcomes)))


def _result(
    found: _Reading,
    ask: Ask,
    how: FieldOptions,
    *,
    runs: Sequence[Run],
    condition: str | None,
    missing: dict[str, int],
    left_out: dict[str, str],
    notes: list[str],
) -> FieldResult:
    """The report with what was asked; a result is no report: it names dimensions by keys, and is no frozen record."""
    report, chain = found.report, found.chain
    return FieldResult(
        run=runs[0].name,
        joined=[r.name for r in runs[1:]],
        condition=condition,
        field=how.name,
        reading=how.reading,
        rule=ask.rule,
        level=ask.level,
        K=report.K,
        d=report.d,
        tasks=report.tasks,
        successes=report.successes,
        failures=report.failures,
        mean_outcome=found.mean_outcome,
        width=report.width,
        convergence=report.convergence,
        dimensions={d.name: msgspec.convert(d, DimensionRow, from_attributes=True) for d in report.dimensions},
        horizons=found.horizons,
        estimates=report.estimates,
        advice=chain.advice,
        advice_text=chain.advice_text,
        chain=chain,
        missing=missing,
        left_out=left_out,
        constant=list(report.constant),
        notes=notes,
        draws=report.draws,
        seed=report.seed,
        test_method=report.test_method,
    )


def _horizons(field: Field, ask: Ask) -> list[HorizonRow]:
    if field.states == [NO_LABEL]:
        return []
    return [_horizon(field.horizon(r.state, ask.rule), r) for r in walk(field, ask.rule, level=ask.level)]


def _horizon(part: Field, reading: HorizonReading) -> HorizonRow:
    plain = FieldMetrics(part).summary()["dimensions"] if part.K else {}
    keys = ("mean", "variance", "separation", "skew")
    return HorizonRow(
        **msgspec.structs.asdict(reading),
        mean_outcome=float(np.mean(part.outcomes)) if part.K else None,
        dimensions={name: PlainDimension(**{k: values[k] for k in keys}) for name, values in plain.items()},
    )


def _corridor(field: Field, runs: Sequence[Run]) -> Corridor:
    if not bool((field.outcomes >= SUCCESS_AT).any()):
        raise Refused(
            f"run {runs[0].name!r} has no success, and a corridor is made of successes; choose another run",
            have=0,
            need=1,
            of="successes",
            estimate=Estimate(value=0.0, n=field.K, of="scored traces", why="no success was recorded"),
        )
    return Corridor.of(field, name=", ".join(r.name for r in runs))


def _against_corridor(
    file: str, ruler: CorridorFile, field: Field, left_out: dict[str, str], ask: Ask
) -> CorridorCheck:
    """Measured on the dimensions that both have."""
    corridor = ruler.corridor
    gone = {n: why for n, why in left_out.items() if n in corridor.field.names}
    if gone:
        kept = [n for n in corridor.field.names if n not in gone]
        places = [corridor.field.names.index(n) for n in kept]
        old = corridor.field
        part = Field.from_arrays(
            old.points[:, places], old.outcomes, [old.dimensions()[i] for i in places],
            tasks=[old.tasks[i] for i in old.task_index], episodes=old.episodes,
        )  # fmt: skip
        corridor = Corridor(part, corridor.name)
    alpha = round(1 - ask.level, 9)
    _, gaps = _quietly(lambda: corridor.gaps(field, ask.rule, level=ask.level, draws=ask.draws, seed=ask.seed))
    return CorridorCheck(
        file=Path(file).name,
        name=corridor.name,
        K=corridor.K,
        dimensions=corridor.field.names,
        not_compared=gone,
        rule=ask.rule,
        gaps=gaps,
        adherence=corridor.adherence(field, alpha),
        alarm=corridor.alarm(field, alpha, draws=ask.draws, seed=ask.seed),
    )


def _ablated(loaded: MeasuredTraces, names: Sequence[str], runs: Sequence[Run], level: float) -> Ablation:
    settings = _settings(runs, sorted({e.head.condition for e in loaded.entries}))
    field = loaded.field(names, loaded.tasks)
    parts = conditions_of(field, [settings[e.head.condition] for e in loaded.entries])
    notes: list[str] = []
    if any(r.info.kind == EXPLORE for r in runs):
        parts, notes = _well_bought(parts)
    found = ablation.ablate(parts, level=level)
    return msgspec.structs.replace(found, notes=(*found.notes, *notes))


def _well_bought(parts: list[tuple[dict[str, str], Field]]) -> tuple[list[tuple[dict[str, str], Field]], list[str]]:
    """The points of an exploration that were bought often enough at every task to know their spread."""
    tasks = {t for _, field in parts for t in field.tasks}
    kept = [
        (s, f) for s, f in parts if set(f.tasks) == tasks and int(np.bincount(f.task_index).min()) >= LEAST_OF_POINT
    ]
    if len(kept) < 2:
        raise Refused(
            f"{len(kept)} of {len(parts)} settings were bought {LEAST_OF_POINT} times or more at each of "
            f"{len(tasks)} tasks, and an ablation needs two; explore with more rounds, or run the settings that matter "
            "with: ethogram run SUITE --agent AGENT -k 6 --condition name=value",
            have=len(kept),
            need=2,
            of="settings",
        )
    gone = len(parts) - len(kept)
    told = (
        f"{gone} of {len(parts)} settings were bought fewer than {LEAST_OF_POINT} times at some task and are left out"
    )
    chose = (
        "an exploration chooses how often it runs each setting by the outcomes it sees; for effects that decide, run "
        "the settings anew: ethogram run SUITE --agent AGENT -k 6 --condition name=value"
    )
    return kept, [told, chose] if gone else [chose]


def _settings(runs: Sequence[Run], conditions: Sequence[str]) -> dict[str, dict[str, str]]:
    """What each condition sets: from the run's plan or its grid, else from names such as `tests=on, model=a`."""
    planned: dict[str, Mapping[str, Any]] = {}
    for run in runs:
        for name, given in _planned_settings(run, conditions).items():
            if planned.setdefault(name, given) != given:
                raise BadUsage(f"the condition {name!r} has other settings in run {run.name!r}; ablate the runs apart")
    found = {name: {k: str(v) for k, v in (planned.get(name) or _named_settings(name)).items()} for name in conditions}
    factors = list(dict.fromkeys(f for s in found.values() for f in s))
    if len(conditions) < 2 or not factors:
        raise BadUsage(
            f"run {runs[0].name!r} has no two conditions that set factors, so there is nothing to ablate; run it under "
            "some: ethogram run SUITE --agent AGENT -k 6 --condition tests=on --condition tests=off"
        )
    return {name: {f: s.get(f, NOT_SET) for f in factors} for name, s in found.items()}


def _planned_settings(run: Run, conditions: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """The settings that a run keeps with its conditions; an exploration keeps them with its grid."""
    if run.info.kind == EXPLORE:
        metadata = Rounds(run).metadata()
        if metadata is None:
            return {}
        points = (metadata.grid.condition(i) for i in range(len(metadata.grid)))
        return {c.name: c.settings for c in points if c.name in conditions}
    options = run.info.plan.get("options")
    listed = options.get("conditions", []) if isinstance(options, dict) else []
    return {c.name: c.settings for c in msgspec.convert(listed, list[Condition])}


def _named_settings(name: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in name.split(",") if part.strip()]
    return {k.strip(): v.strip() for k, eq, v in pairs if eq and k.strip()}
