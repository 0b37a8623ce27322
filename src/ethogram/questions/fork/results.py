"""What a fork found: of one trace, or of several together."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from ethogram.display import Drawing, Presentation
from ethogram.estimate import Estimate
from ethogram.result import Result

from .buying.episodes import ArmOutcomes, Continuations, ForkSource
from .effect import EffectVerdict, ForkFinding, ForkLook, ForkPlan, PooledPlan, rate_of, traces_needed


class ForkAnswer(Result, kw_only=True):
    """What a change does to success, of one trace or of several; `effect` is changed minus unchanged."""

    run: str
    k: int
    verdict: EffectVerdict | None
    effect: Estimate
    unchanged: Estimate
    changed: Estimate | None
    looks: list[ForkLook]
    why: str
    missing: dict[str, int]
    cost_usd: float | None
    at_least_usd: float
    stopped: str | None
    notes: list[str]


class ForkResult(ForkAnswer, kw_only=True):
    """What one change at one step of a trace does to success; `effect` is changed minus unchanged.

    `step` is the model call from which on calls are live; `unchanged` and `changed` are the success rates of both arms.
    `missing` counts outcomes by reason, each taken at its worst, and `deviations` shows where a continuation was not
    as recorded before the step. Without a change, only `unchanged` is measured.
    """

    presentation: ClassVar[Presentation] = Presentation(
        headline="{verdict}: {why}",
        facts=("run", "trace", "task", "at", "change", "pairs", "missing", "cost_usd", "stopped"),
        drawing=Drawing("which", "value", "success rate", fields=("unchanged", "changed", "effect")),
    )

    trace: str
    source: str
    task: str
    at: int
    step: int
    change: str | None
    pairs: int
    deviations: list[str]

    @property
    def settled(self) -> bool:
        """Whether what was asked is measured: the interval of the effect excludes 0, or a rate has its interval."""
        return self.unchanged.value is not None if self.change is None else self.verdict != "undecided"

    def rows(self) -> list[dict[str, Any]]:
        """One row per look."""
        return [msgspec.to_builtins(look) for look in self.looks]


class ForkedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One of several traces: pairs that the change gained, lost and left alike, or why it could not be forked."""

    trace: str
    source: str
    task: str
    at: int
    step: int
    change: str
    pairs: int
    gained: int
    lost: int
    same: int
    missing: int
    refused: str | None = None


class PooledForkResult(ForkAnswer, kw_only=True):
    """What changes at steps of several traces do to success on average; pairs of one trace count once.

    `unchanged` and `changed` are the success rates of both arms. `refused` counts traces whose world could not be
    rebuilt: the effect is one on the others. `needed` is the number of traces that would settle it if others went as
    these did, where it is not settled.
    """

    verdict: EffectVerdict
    changed: Estimate
    traces: list[ForkedTrace]
    refused: int
    needed: int | None

    def rows(self) -> list[dict[str, Any]]:
        """One row per trace."""
        return [msgspec.to_builtins(trace) for trace in self.traces]


def result_of_fork(
    bought: Continuations, forked: ForkSource, plan: ForkPlan, finding: ForkFinding | None, seen: ArmOutcomes
) -> ForkResult:
    """What continuations of one trace say; without a change (`finding` is None) only how often they succeed."""
    head = forked.trace.head
    nothing = Estimate(value=None, level=plan.level, of="pairs", why="nothing was changed, so there is no effect")
    at_all = len(seen.unchanged)
    why = f"{at_all} continuations of what was recorded" if finding is None else finding.why
    if bought.stopped is not None:
        why = f"{why}; it was stopped ({bought.stopped})"
    return ForkResult(
        run=bought.name,
        trace=head.trace_id,
        source=forked.run.name,
        task=head.task,
        at=forked.point.at,
        step=forked.step,
        change=None if forked.point.change is None else str(forked.point.change),
        k=plan.pairs,
        pairs=finding.looks[-1].pairs if finding is not None and finding.looks else 0,
        verdict=None if finding is None else finding.verdict,
        effect=nothing if finding is None else finding.effect,
        unchanged=rate_of(seen.unchanged, plan.level, seen.missing_of("unchanged"), fixed=finding is None),
        changed=None if finding is None else rate_of(seen.changed, plan.level, seen.missing_of("changed"), fixed=False),
        looks=[] if finding is None else finding.looks,
        why=why,
        missing=seen.missing,
        deviations=seen.deviations,
        cost_usd=bought.cost_usd,
        at_least_usd=bought.at_least_usd,
        stopped=bought.stopped,
        notes=bought.notes,
    )


def result_of_forks(
    bought: Continuations,
    plan: PooledPlan,
    finding: ForkFinding,
    refused: dict[str, str],
    counts: dict[str, int],
    missing: dict[str, int],
) -> PooledForkResult:
    """What continuations of several traces say; `refused` has those whose world could not be rebuilt."""
    seen = {s.key: bought.outcomes(s, counts[s.key]) if s.key in counts else ArmOutcomes() for s in bought.sources}
    arms = [(o.unchanged, o.changed) for o in seen.values()]
    one, two = (rate_of([x for pair in arms for x in pair[i]], plan.level, missing, fixed=False) for i in (0, 1))
    return PooledForkResult(
        run=bought.name,
        k=plan.each,
        traces=[_forked(s, seen[s.key], refused.get(s.key)) for s in bought.sources],
        refused=len(refused),
        verdict=finding.verdict,
        effect=finding.effect,
        unchanged=one,
        changed=two,
        needed=traces_needed(arms, plan) if finding.verdict == "undecided" else None,
        looks=finding.looks,
        why=finding.why if bought.stopped is None else f"{finding.why}; it was stopped ({bought.stopped})",
        missing=missing,
        cost_usd=bought.cost_usd,
        at_least_usd=bought.at_least_usd,
        stopped=bought.stopped,
        notes=bought.notes,
    )


def _forked(source: ForkSource, seen: ArmOutcomes, refused: str | None) -> ForkedTrace:
    apart = [None if a is None or b is None else b - a for a, b in zip(seen.unchanged, seen.changed, strict=False)]
    return ForkedTrace(
        trace=source.trace.head.trace_id,
        source=source.run.name,
        task=source.trace.head.task,
        at=source.point.at,
        step=source.step,
        change=str(source.point.change),
        pairs=len(apart),
        gained=sum(d is not None and d > 0 for d in apart),
        lost=sum(d is not None and d < 0 for d in apart),
        same=sum(d == 0 for d in apart),
        missing=sum(d is None for d in apart),
        refused=refused,
    )
