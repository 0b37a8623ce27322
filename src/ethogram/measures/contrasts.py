"""Events that differ between failures and successes of the same tasks: exact tests, adjusted as one family.

An event is anything that a run shows or does not show. Inside a task, outcomes could have fallen on any of its attempts
if the event had nothing to do with them (Fisher 1935), so the number of failed runs that show it has a known law; tasks
are put together by adding those numbers up. Tasks whose attempts all ended alike say nothing here: what differs between
tasks is never a cause. All events are decided at one level by Holm's rule for counted p-values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ethogram.estimate import Estimate
from ethogram.statistics import exact, multiplicity, shares, stratified

from .columns import Bools, Floats, Ints

ALPHA = 0.025
"""The chance that anything is called a cause though nothing is: one side of 5 %, for only more frequent counts."""
LARGE = 20_000
"""From this number of runs on, the law of a total is as good as normal, and the exact one slow."""


class ContrastEvent(NamedTuple):
    """Something that happens in some runs: `rows` are those runs, `among` those in which it could (None: all)."""

    name: str
    rows: Ints
    among: Ints | None = None


class ContrastRuns(NamedTuple):
    """Runs of a contrast: whether each failed, the group within which attempts are alike, and its task."""

    failed: Bools
    group: Ints
    task: Ints


class EventContrast(msgspec.Struct, frozen=True, kw_only=True):
    """One event in failures against successes.

    `share` is of the failed runs. `lift` is how many times as often failed runs show the event as successful runs of
    the same tasks; None where no task has both. `excess` is the number of failed runs with the event beyond what the
    lift leaves to chance. `p` is one-sided and exact, `adjusted` holds over the whole family; None where no task can
    tell.
    """

    name: str
    failed_with: int
    succeeded_with: int
    share: Estimate
    lift: float | None
    excess: float
    tasks: int
    p: float | None
    adjusted: float | None

    @property
    def is_cause(self) -> bool:
        """Whether the one test over all events finds it more frequent in failures."""
        return self.adjusted is not None and self.adjusted <= ALPHA


class ContrastFamily(NamedTuple):
    """All events as they were decided together.

    `each` is what either end of one interval may miss with, so that all intervals hold together (Dunn 1961): those of
    the test's own rule for counted p-values would do for one end only.
    """

    contrasts: list[EventContrast]
    each: float
    tested: int


class _Table(NamedTuple):
    """Per group with both outcomes: successes and failures that could show the event, and those that did."""

    n_ok: Ints
    n_bad: Ints
    ok: Ints
    bad: Ints


def contrast_events(events: Sequence[ContrastEvent], runs: ContrastRuns, level: float = 0.95) -> ContrastFamily:
    """Every event against the outcome, within groups and pooled over them, adjusted over all events at once.

    Events that the same runs show are one test. Runs without an outcome must not be among `runs`.
    """
    tables = [_table(e, runs) for e in events]
    places: dict[tuple[bytes, ...], int] = {}
    kept: list[_Table] = []
    of = [places.setdefault(_key(e, runs), len(places)) for e in events]
    for own, place in zip(tables, of, strict=True):
        if place == len(kept):
            kept.append(own)
    tests = [_test(table) for table in kept]
    able = [i for i, t in enumerate(tests) if t is not None]
    found = [tests[i] for i in able]
    p = np.array([t[0] for t in found if t is not None])
    attainable = [t[1] for t in found if t is not None]
    adjusted = dict(zip(able, multiplicity.holm_discrete(p, attainable).tolist(), strict=True)) if able else {}
    out = []
    for event, table, place in zip(events, tables, of, strict=True):
        test = tests[place]
        out.append(_contrast(event, table, runs, level, None if test is None else test[0], adjusted.get(place)))
    return ContrastFamily(out, ALPHA / max(len(able), 1), len(able))


def fall(event: ContrastEvent, runs: ContrastRuns, each: float, level: float = 0.95) -> Estimate:
    """The success rate of runs that show the event minus that of the others, within groups.

    The interval holds together with those of all events of the family, of which `each` is the part of one end.
    """
    table = _table(event, runs)
    with_n, n = table.ok + table.bad, table.n_ok + table.n_bad
    return _difference(table.n_ok - table.ok, n - with_n, table.ok, with_n, each, level)


def rise(event: ContrastEvent, runs: ContrastRuns, each: float, level: float = 0.95) -> Estimate:
    """The share of failed runs that show the event minus that of the others, within groups, as `fall`."""
    table = _table(event, runs)
    return _difference(table.ok, table.n_ok, table.bad, table.n_bad, each, level)


def _difference(first: Ints, n_first: Ints, second: Ints, n_second: Ints, each: float, level: float) -> Estimate:
    used = (n_first > 0) & (n_second > 0)
    count = int((n_first + n_second)[used].sum())
    method = "difference within tasks, score interval, simultaneous over all events"
    if not count:
        why = "no task has attempts on both sides"
        return Estimate(value=None, level=level, method=method, n=0, of="runs", why=why)
    found = stratified.difference(
        stratified.sums_of_counts(first[used], n_first[used]),
        stratified.sums_of_counts(second[used], n_second[used]),
        1 - 2 * each,
        equal=False,
        step=1.0,
    )
    value, low, high = (float(np.clip(x, -1, 1)) for x in (found.value, found.low, found.high))
    return Estimate(
        value=value, low=min(low, value), high=max(high, value), level=level, method=method, n=count, of="runs"
    )


def given(event: ContrastEvent, runs: ContrastRuns, known: Ints) -> float | None:
    """The p-value of an event when runs that show what is known already are groups of their own; None: no group can
    tell. Large where the event adds nothing to what is known."""
    shown = np.zeros(runs.failed.size, dtype=np.int64)
    shown[known] = 1
    test = _test(_table(event, runs._replace(group=runs.group * 2 + shown)))
    return None if test is None else test[0]


def share_of(hits: Ints, of: Ints, level: float) -> Estimate:
    """A share of runs, clustered by task: `hits` and `of` per task."""
    return shares.share_estimate(hits, of, level, "failed runs", nothing="no attempt failed")


def _contrast(
    event: ContrastEvent, table: _Table, runs: ContrastRuns, level: float, p: float | None, adjusted: float | None
) -> EventContrast:
    bad = event.rows[runs.failed[event.rows]]
    tasks = int(runs.task.max(initial=-1)) + 1
    failed = np.bincount(runs.task[runs.failed], minlength=tasks).astype(np.int64)
    hits = np.bincount(runs.task[bad], minlength=tasks).astype(np.int64)
    lift = float(exact.common_ratio(table.ok, table.n_ok, table.bad, table.n_bad)) if table.bad.size else np.nan
    # of the failed runs with the event, one in `lift` would show it without failing for it
    excess = bad.size * (1 - 1 / lift) if lift > 1 else 0.0
    return EventContrast(
        name=event.name,
        failed_with=int(bad.size),
        succeeded_with=int(event.rows.size - bad.size),
        share=share_of(hits, failed, level),
        lift=None if np.isnan(lift) else lift,
        excess=float(excess),
        tasks=int(np.sum((table.ok + table.bad > 0) & (table.ok + table.bad < table.n_ok + table.n_bad))),
        p=p,
        adjusted=adjusted,
    )


def _table(event: ContrastEvent, runs: ContrastRuns) -> _Table:
    groups = int(runs.group.max(initial=-1)) + 1
    among = np.arange(runs.failed.size) if event.among is None else event.among

    def counts(rows: Ints, failed: bool) -> Ints:
        return np.bincount(runs.group[rows[runs.failed[rows] == failed]], minlength=groups).astype(np.int64)

    n_ok, n_bad = counts(among, False), counts(among, True)
    both = (n_ok > 0) & (n_bad > 0)
    return _Table(n_ok[both], n_bad[both], counts(event.rows, False)[both], counts(event.rows, True)[both])


def _key(event: ContrastEvent, runs: ContrastRuns) -> tuple[bytes, ...]:
    return (event.rows.tobytes(), b"" if event.among is None else event.among.tobytes())


def _test(table: _Table) -> tuple[float, Floats | None] | None:
    """The one-sided p-value and all that it could have been; None where no group can tell."""
    shown, n = table.ok + table.bad, table.n_ok + table.n_bad
    use = (shown > 0) & (shown < n)
    if not use.any():
        return None
    if int(n[use].sum()) > LARGE:
        found = stratified.difference(
            stratified.sums_of_counts(table.ok[use], table.n_ok[use]),
            stratified.sums_of_counts(table.bad[use], table.n_bad[use]),
            0.95,
            equal=False,
            step=1.0,
        )
        return float(found.greater), None
    least, law = exact.total_law(table.n_ok[use], table.n_bad[use], shown[use])
    tail = np.minimum(np.cumsum(law[::-1])[::-1], 1.0)
    return float(tail[int(table.bad[use].sum()) - least]), tail
