"""Stored forks of some traces, and the effects of their changes on success: read, not run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from ethogram.estimate import Estimate
from ethogram.store import Home, Run
from ethogram.store.lake import FORK
from ethogram.traces import Missing, Scored

from .effect import EffectVerdict, ForkPlan, find_effect

UNCHANGED, CHANGED = "unchanged", "changed"
"""The conditions of both arms; in a fork of several traces the id of a trace follows."""


class StoredFork(msgspec.Struct, frozen=True, kw_only=True):
    """A fork of one trace: at which step, what kind of change, and its effect on success (changed minus unchanged).

    `traces` counts the traces that its run forks; the effect is that on this one alone. `change` is None where only
    the rate without a change was measured.
    """

    run: str
    trace: str
    at: int
    change: str | None
    traces: int
    pairs: int
    unchanged_passed: int
    changed_passed: int
    effect: Estimate
    verdict: EffectVerdict
    why: str


def stored_forks(home: Home, traces: Collection[str]) -> list[StoredFork]:
    """The forks of these traces, in the order of their runs; a fork that is still going on is read as far as it is."""
    found = []
    for run in home.runs():
        if run.info.kind != FORK:
            continue
        promise: Mapping[str, Any] = run.info.plan.get(FORK, {})
        forked = [one for one in promise.get("of", []) if one.get("trace") in traces]
        found += [_stored(run, promise, one) for one in forked]
    return found


def _stored(run: Run, promise: Mapping[str, Any], one: Mapping[str, Any]) -> StoredFork:
    several = len(promise["of"]) > 1
    key = f" {one['trace'].removeprefix('b2:')[:12]}" if several else ""
    missing: Counter[str] = Counter()
    unchanged, changed = (list(_outcomes(run, arm + key, missing)) for arm in (UNCHANGED, CHANGED))
    plan = ForkPlan(pairs=int(promise["k"]), every=int(promise["every"]), level=float(promise["level"]))
    finding = find_effect(unchanged, changed, plan, dict(missing), ended=True)
    change = one.get("change")
    return StoredFork(
        run=run.name,
        trace=one["trace"],
        at=int(one["at"]),
        change=None if change is None else str(change["what"]),
        traces=len(promise["of"]),
        pairs=min(len(unchanged), len(changed)),
        unchanged_passed=sum(outcome == 1.0 for outcome in unchanged),
        changed_passed=sum(outcome == 1.0 for outcome in changed),
        effect=finding.effect,
        verdict=finding.verdict,
        why=finding.why,
    )


def _outcomes(run: Run, condition: str, missing: Counter[str]) -> Iterator[float | None]:
    """Outcomes of attempts 0, 1, … of an arm, up to the first that was not run."""
    ended = {e.head.attempt: e.head.outcome for e in run.entries if e.head.condition == condition}
    threshold = run.success_at
    for attempt in range(len(ended)):
        outcome = ended.get(attempt)
        if outcome is None:
            return
        if isinstance(outcome, Missing):
            missing[outcome.reason] += 1
        yield float(outcome.success(threshold)) if isinstance(outcome, Scored) else None
