"""Runs of a home: list them, show one, remove one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from ethogram.display import Drawing, Presentation
from ethogram.reading.episode_costs import EpisodeCost, kept_costs, run_cost
from ethogram.reading.task_names import without_task
from ethogram.reading.task_rows import TaskRow, task_rows
from ethogram.result import Result
from ethogram.store import Entry, Home, Run, home_of, run_of
from ethogram.store.batch import SCORED, tally, traceless
from ethogram.store.lake import EXPLORED, SOURCES
from ethogram.traces import Missing, Scored, Totals, metered


class RunRow(msgspec.Struct, kw_only=True):
    """One run in a list."""

    run: str
    kind: str
    created_ns: int
    episodes: int
    scored: int
    missing: int
    tags: tuple[str, ...] = ()
    problem: str | None = None


class RunList(Result, kw_only=True):
    """All runs of a home, newest last."""

    presentation: ClassVar[Presentation] = Presentation(
        columns=("run", "kind", "episodes", "scored", "missing", "tags", "problem"),
        drawing=Drawing("run", "episodes", "episodes", "bars"),
    )

    home: str
    runs: list[RunRow]

    def rows(self) -> list[dict[str, Any]]:
        """One row per run."""
        return [msgspec.to_builtins(r) for r in self.runs]


class EpisodeRow(msgspec.Struct, kw_only=True):
    """One episode of a run. `totals` are what was recorded; `tokens`, `seconds` and `cost_usd` are the metrics, which
    are unknown where a part of them is."""

    trace_id: str
    task: str
    attempt: int
    condition: str
    agent: str
    score: float | None
    missing: str | None
    totals: Totals
    tokens: int | None
    seconds: float | None
    forgotten: str | None = None
    cost_usd: float | None = None


class RunSummary(Result, kw_only=True):
    """What is in a run. `totals` are what was recorded; `cost_usd` is priced as `ethogram cost` does it.

    It is unknown unless every call is priced and, in a live run, the agent records all its use; `at_least_usd` is what
    is known of it.
    """

    presentation: ClassVar[Presentation] = Presentation(
        title="Run",
        headline="{run}: {scored} of {episodes} episodes scored",
        facts=(
            "kind",
            "tags",
            "formats",
            "missing",
            "cost_usd",
            "at_least_usd",
            "redaction",
            "sealed",
            "skipped",
            "lost",
        ),
        columns=("task", "attempt", "condition", "score", "missing", "steps", "cost_usd", "seconds"),
        drawing=Drawing("task", "mean", "mean score", source="tasks"),
    )

    run: str
    kind: str
    created_ns: int
    version: str
    tags: tuple[str, ...]
    redaction: str
    sealed: bool
    episodes: int
    scored: int
    missing: dict[str, int]
    forgotten: int
    formats: dict[str, int]
    totals: Totals
    tasks: list[TaskRow]
    traces: list[EpisodeRow]
    skipped: int
    lost: dict[str, int]
    bytes: int
    notes: list[str] = []
    cost_usd: float | None = None
    at_least_usd: float = 0.0

    def rows(self) -> list[dict[str, Any]]:
        """One row per episode, totals flat."""
        built = []
        for trace in self.traces:
            row = msgspec.to_builtins(trace)
            row.update({f: getattr(trace.totals, f) for f in Totals.__struct_fields__ if f != "cost_usd"})
            del row["totals"]
            built.append(row)
        return built


def load(run: str = "latest", *, home: Home | str | None = None) -> Run:
    """Open a stored run, by its name, its directory or `latest`; only its ledger is read, traces are loaded on demand.

    Raises `NotFound` for a run that does not exist.

    Example: `[trace.head.task for trace in load("night").traces()]`
    """
    return run_of(run, home)


def runs(*, home: Home | str | None = None, tag: str | None = None) -> RunList:
    """All runs of a home, or those with a tag: what was scored and what is missing.

    A damaged run is listed with its problem instead of raising.

    Example: `[row.run for row in runs(tag="nightly").runs]`
    """
    lake = home_of(home)
    rows = []
    for run in lake.runs():
        if tag is not None and tag not in run.info.tags:
            continue
        row = RunRow(
            run=run.name,
            kind=run.info.kind,
            created_ns=run.info.created_ns,
            episodes=0,
            scored=0,
            missing=0,
            tags=run.info.tags,
        )
        try:
            outcomes = run_outcomes(run)
            row.episodes, row.scored = outcomes.total(), outcomes[SCORED]
            row.missing = row.episodes - row.scored
        except Exception as error:  # one damaged run must not hide the others
            row.problem = str(error)
        rows.append(row)
    return RunList(home=lake.files.address, runs=rows)


def show(run: str | Run = "latest", *, home: Home | str | None = None) -> RunSummary:
    """What is in a run: tasks, episodes, totals, and what could not be imported."""
    found = run_of(run, home)
    entries = found.entries
    reasons = run_outcomes(found)
    scored = reasons.pop(SCORED, 0)
    formats = Counter(e.head.origin.format for e in entries if e.head.origin)
    lost, skipped = _losses(found)
    tasks = task_rows(entries, found.batches, found.success_at)
    note = without_task(t.task for t in tasks)
    costs = kept_costs(found)
    return RunSummary(
        run=found.name,
        kind=found.info.kind,
        created_ns=found.info.created_ns,
        version=found.info.version,
        tags=found.info.tags,
        redaction=found.info.redaction,
        sealed=any(f.key for f in found.standing.files),
        episodes=scored + reasons.total(),
        scored=scored,
        missing=dict(sorted(reasons.items())),
        forgotten=sum(e.forgotten is not None for e in entries),
        formats=dict(sorted(formats.items())),
        totals=_sum(e.totals for e in entries),
        tasks=tasks,
        traces=[_row(e, costs[e.head.trace_id]) for e in entries],
        skipped=skipped,
        lost=dict(sorted(lost.items())),
        bytes=sum(f.bytes for f in found.standing.files),
        notes=[n for n in (note, _without_traces(found)) if n],
        cost_usd=run_cost(found, costs),
        at_least_usd=sum(c.at_least_usd for c in costs.values()),
    )


def _without_traces(run: Run) -> str | None:
    words = traceless(run.batches)
    return f"{words}: their steps, tokens and cost are not known" if words else None


def _losses(run: Run) -> tuple[Counter[str], int]:
    """What could not be represented when logs were imported, by field, and how many records were skipped."""
    lost: Counter[str] = Counter()
    skipped = 0
    if run.standing.named(f"{SOURCES}/"):
        from ethogram.capture.register import read_files  # needs what reads logs

        for read in read_files(run):
            lost.update(read.report.lost)
            skipped += len(read.report.skipped) + read.report.skipped_more
    return lost, skipped


def run_outcomes(run: Run) -> Counter[str]:
    """Episodes that were scored, and the others by what is missing."""
    outcomes = (e.head.outcome for e in run.entries)
    found = Counter(o.reason if isinstance(o, Missing) else SCORED for o in outcomes) + tally(run.batches)
    if run.standing.named(f"{EXPLORED}/") and not run.entries:  # those of a suite are entries, and noted once more
        from ethogram.questions.explore.point_outcomes import counted_notes  # needs arrays

        found += counted_notes(run)
    return found


def _row(entry: Entry, cost: EpisodeCost) -> EpisodeRow:
    head = entry.head
    return EpisodeRow(
        trace_id=head.trace_id,
        task=head.task,
        attempt=head.attempt,
        condition=head.condition,
        agent=head.agent,
        score=head.outcome.value if isinstance(head.outcome, Scored) else None,
        missing=head.outcome.reason if isinstance(head.outcome, Missing) else None,
        totals=entry.totals,
        tokens=metered(head, entry.totals).tokens,
        seconds=head.seconds,
        forgotten=entry.forgotten,
        cost_usd=cost.cost_usd,
    )


def _sum(totals: Iterator[Totals]) -> Totals:
    sums: dict[str, Any] = dict.fromkeys(Totals.__struct_fields__)
    uncounted: set[str] = set()
    for one in totals:
        for field in sums:
            value = getattr(one, field)
            if value is not None:
                sums[field] = (sums[field] or 0) + value
            else:
                uncounted.add(field)
    # a part of the episodes must not be read as all of them
    counts = {
        f: None if f in uncounted else sums[f] or 0 for f in ("spans", "steps", "model_calls", "tool_calls", "errors")
    }
    return Totals(**{**sums, **counts})


class Removed(Result, kw_only=True):
    """A run that was removed."""

    run: str
    episodes: int
    bytes: int


def rm(run: str, *, home: Home | str | None = None) -> Removed:
    """Remove a run with everything in it."""
    from ethogram.errors import Locked

    found = run_of(run, home)
    busy = found.busy()
    if busy:
        raise Locked(f"run {found.name!r} is being written by {len(busy)} writer(s); stop them first", where=found.name)
    size = sum(f.bytes for f in found.standing.files)
    removed = Removed(run=found.name, episodes=run_outcomes(found).total(), bytes=size)
    found.files.delete(found.path)
    if found.path == f"runs/{found.name}":
        found.files.delete(f"suites/{found.name}")  # copies of files that an experiment was about
    return removed
