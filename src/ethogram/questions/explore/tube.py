"""The tube: settings that are safe. The mean tube and figures of the first version, and the conservative tube."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec
import numpy as np

from ethogram.estimate import Estimate
from ethogram.statistics.interval import wilson

from .certificate import Certificate
from .levels import Scores, score_calls
from .problem import FEW, POCKET, Floats, Posterior, Problem, Tally, progress

RoundStatus = Literal["FIRST_ROUND", "IMPROVED", "REGRESSED", "NO_CHANGE"]
SAME = 1e-9
"""Changes of tube_var_sum smaller than this are none."""
MISLEADS = (
    "tube_var_sum counts only points already classified as safe, so an unexplored map scores best. Recall of unsafe "
    "points starts at 100 %, because every point starts as unsafe. Use balanced accuracy, recall with specificity, "
    "certified counts and coverage instead."
)


class TubeVariance(msgspec.Struct, frozen=True):
    """Posterior variance of the points in the tube."""

    mean: float = 0.0
    max: float = 0.0
    median: float = 0.0
    sum: float = 0.0


class TubeMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The mean tube {mean <= tau} of the first version; a positive change is an improvement."""

    tube_var_sum: float
    tube_coverage: float
    tube_points_total: int
    tube_definition: str
    tau: float
    tube_var_delta_prev: float | None
    tube_var_delta_baseline: float | None
    tube_var_baseline: float
    epistemic: TubeVariance
    misleads: str = MISLEADS


class Certainty(msgspec.Struct, frozen=True, kw_only=True):
    """What the posterior says at a level: three sets, what is wrong among them in expectation, and what it cost.

    The conservative tube is `safe`: points with P(rate > tau) below 1 - level.
    """

    level: float
    zone: float
    safe: int
    unsafe: int
    undecided: int
    expected_false_safe: float
    expected_false_unsafe: float
    expected_balanced_accuracy: float | None
    expected_misclassified: float
    episodes: int
    visited: int
    episodes_per_point_min: int
    episodes_per_point_median: float
    pocket_rate: float = POCKET
    unproven: int | None = None
    """Points that are called safe and whose own episodes do not rule out the rate of a pocket; None: not recorded."""


class AgainstTruth(msgspec.Struct, frozen=True, kw_only=True):
    """Scores where the truth is known. Points nearer to tau than `zone` do not count, but in `at_tau` they all do.

    `false_safe` counts truly unsafe points in the conservative tube.
    """

    zone: float
    balanced_accuracy: float | None
    recall: Estimate
    specificity: Estimate
    precision: float | None
    at_tau: dict[str, float | None]
    false_safe: int
    false_safe_beyond_zone: int


class Sets(NamedTuple):
    """Safe, unsafe, and neither, as masks."""

    safe: np.ndarray[tuple[int], np.dtype[np.bool_]]
    unsafe: np.ndarray[tuple[int], np.dtype[np.bool_]]
    undecided: np.ndarray[tuple[int], np.dtype[np.bool_]]


def tube_metrics(tally: Tally, tau: float, before: float | None, baseline: float | None) -> TubeMetrics:
    """The mean tube of Beta(1 + failures, 1 + successes); `before` and `baseline` are earlier sums."""
    alpha, beta = (tally.fails + 1).astype(np.float64), (tally.n - tally.fails + 1).astype(np.float64)
    total = alpha + beta
    mean = alpha / total
    variance = (alpha * beta) / (total**2 * (total + 1))
    inside = variance[mean <= tau]
    whole = float(np.sum(inside))
    spread = (
        TubeVariance(float(inside.mean()), float(inside.max()), float(np.median(inside)), whole)
        if inside.size
        else TubeVariance()
    )
    return TubeMetrics(
        tube_var_sum=whole,
        tube_coverage=inside.size / len(alpha),
        tube_points_total=int(inside.size),
        tube_definition="mean",
        tau=tau,
        tube_var_delta_prev=None if before is None else before - whole,
        tube_var_delta_baseline=None if baseline is None else baseline - whole,
        tube_var_baseline=whole if baseline is None else baseline,
        epistemic=spread,
    )


def tube_status(tube: TubeMetrics) -> RoundStatus:
    """How the sum changed since the round before."""
    change = tube.tube_var_delta_prev
    if change is None:
        return "FIRST_ROUND"
    return "IMPROVED" if change > SAME else "REGRESSED" if change < -SAME else "NO_CHANGE"


def sets(posterior: Posterior, level: float) -> Sets:
    """Safe, unsafe and undecided points at a level; the safe ones are the conservative tube."""
    safe, unsafe = posterior.unsafe < 1 - level, posterior.unsafe > level
    return Sets(safe, unsafe, ~safe & ~unsafe)


def certainty(posterior: Posterior, tally: Tally, problem: Problem, level: float) -> Certainty:
    """What is established, and at what price."""
    found = sets(posterior, level)
    seen = progress(posterior, tally, problem, level)
    return Certainty(
        level=level,
        zone=problem.zone,
        safe=int(found.safe.sum()),
        unsafe=int(found.unsafe.sum()),
        undecided=int(found.undecided.sum()),
        expected_false_safe=float(posterior.unsafe[found.safe].sum()),
        expected_false_unsafe=float((1 - posterior.unsafe[found.unsafe]).sum()),
        expected_balanced_accuracy=seen.balanced,
        expected_misclassified=seen.misclassified,
        episodes=tally.spent,
        visited=problem.points - seen.unvisited,
        episodes_per_point_min=int(tally.n.min()),
        episodes_per_point_median=float(np.median(tally.n)),
        pocket_rate=problem.pocket_rate,
        unproven=seen.unproven,
    )


def against_truth(posterior: Posterior, truth: Floats, problem: Problem, level: float) -> AgainstTruth:
    """Score the calls and the conservative tube against known rates."""
    called = posterior.called
    found, strict = score_calls(called, truth, problem.tau, problem.zone), score_calls(called, truth, problem.tau, 0.0)
    safe = sets(posterior, level).safe
    gap = np.round(truth - problem.tau, 12)
    return AgainstTruth(
        zone=problem.zone,
        balanced_accuracy=found.balanced,
        recall=_share(found.recall, found.above, "unsafe points"),
        specificity=_share(found.specificity, found.below, "safe points"),
        precision=found.precision,
        at_tau=_plain(strict),
        false_safe=int(np.sum(safe & (gap > 0))),
        false_safe_beyond_zone=int(np.sum(safe & (gap >= problem.zone) & (gap > 0))),
    )


def established(known: Certainty, certificate: Certificate, points: int, tau: float) -> tuple[str, ...]:
    """What may be claimed: sentences that stay true whenever one stops looking."""
    claim = (
        f"At the {100 * known.level:g} % level {known.safe} of {points} points are safe (failure rate at most "
        f"{tau:g}), {known.unsafe} unsafe and {known.undecided} undecided after {known.episodes:,} episodes."
    )
    expected = known.expected_balanced_accuracy
    if expected is None:
        side = f"Fewer than {FEW:g} points on both sides are expected beyond the zone."
    else:
        side = f"Expected balanced accuracy: {expected:.3f}, for points outside {tau:g} ± {known.zone:g}."
    unseen = points - known.visited
    rests = f"{unseen} points were never visited: their verdicts rest on the neighbours or on the prior alone."
    if unseen == 1:
        rests = "1 point was never visited: its verdict rests on the neighbours or on the prior alone."
    return (
        claim,
        side,
        *((rests,) if unseen else ()),
        *certificate.said(),
        "The counts are posterior statements, given the model: they may be read after any round, but they are not a "
        "bound on error rates over repeated explorations.",
    )


def _share(value: float | None, n: int, of: str) -> Estimate:
    if value is None:
        return Estimate(value=None, n=0, of=of, why=f"there are no {of} beyond the zone")
    # the truth is known here, so the share is exact for this map: the interval is that of one more such map
    ends = wilson(round(value * n), n, 0.95)
    return Estimate(value=value, low=float(ends.low), high=float(ends.high), method="wilson", n=n, of=of)


def _plain(found: Scores) -> dict[str, float | None]:
    f1 = None
    if found.precision and found.recall:
        f1 = 2 * found.precision * found.recall / (found.precision + found.recall)
    return {
        "recall": found.recall,
        "specificity": found.specificity,
        "precision": found.precision,
        "f1": f1,
        "balanced_accuracy": found.balanced,
    }
