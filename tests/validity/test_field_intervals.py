"""Simulated agents of known truth: every interval of a field covers as promised, the naive ones do not.

Set ETHOGRAM_LONG=1 for the long form; run with -s to read the tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

from ethogram.estimate import Estimate
from ethogram.questions.field.ablation import ablate
from ethogram.questions.field.field import Field
from ethogram.questions.field.fieldtests import compare_fields
from ethogram.questions.field.standardised import scale_of
from ethogram.statistics import spread

LONG = os.environ.get("ETHOGRAM_LONG") == "1"
REPLICATES = 2000 if LONG else 120
D = 10
MIX = np.linalg.cholesky(0.3 * np.ones((D, D)) + 0.7 * np.eye(D))
NAMES = [f"x{j}" for j in range(D)]
SLACK = 3.0
"""Standard errors of a simulated share that a bound is missed by before a test fails."""


def at_least(share: float, bound: float, n: int) -> bool:
    return share >= bound - SLACK * np.sqrt(bound * (1 - bound) / n)


class Suite(NamedTuple):
    """Tasks with levels of their own, which every agent meets."""

    tasks: int
    runs: int

    def logs(self, rng: np.random.Generator, levels: np.ndarray, sd: float = 0.4) -> np.ndarray:
        z = rng.normal(size=(self.tasks * self.runs, D)) @ MIX.T
        return np.repeat(levels, self.runs, axis=0) + sd * z

    def levels(self, rng: np.random.Generator) -> np.ndarray:
        return 6 + 0.7 * rng.normal(size=(self.tasks, D))

    def field(self, logs: np.ndarray, y: np.ndarray | None = None) -> Field:
        task = np.repeat(np.arange(self.tasks), self.runs)
        return Field.from_arrays(np.expm1(logs), y, NAMES, tasks=task)


def covers(estimate: Estimate, truth: float) -> bool:
    assert estimate.low is not None, estimate.why
    assert estimate.high is not None
    return estimate.low - 1e-9 <= truth <= estimate.high + 1e-9


def replicates(seed: int, n: int = REPLICATES) -> Iterator[np.random.Generator]:
    yield from np.random.default_rng(seed).spawn(n)


@pytest.mark.parametrize("suite", [Suite(1, 3), Suite(1, 5), Suite(1, 10), Suite(10, 2), Suite(10, 5)])
def test_width_and_its_ratio(suite: Suite) -> None:
    ratio = alone = 0
    for rng in replicates(1):
        levels = suite.levels(rng)
        first, second = suite.logs(rng, levels), suite.logs(rng, levels, 0.4 * np.sqrt(1.3))
        ratio += covers(compare_fields(suite.field(first), suite.field(second), draws=9).width_ratio, 1.3)
        found = suite.field(first).metrics().estimate("spread")
        alone += found.low is None or covers(found, D * 0.16)
    shares = [x / REPLICATES for x in (ratio, alone)]
    print(f"\nwidth, {suite}: ratio {shares[0]:.3f}, alone {shares[1]:.3f}")
    assert at_least(shares[0], 0.94, REPLICATES)
    assert at_least(shares[1], 0.93, REPLICATES)


TAILS = {
    "normal": lambda rng, size: (rng.standard_normal(size), 1.0),
    "t with 5 df": lambda rng, size: (rng.standard_t(5, size), 5 / 3),
    "exponential": lambda rng, size: (rng.exponential(1.0, size), 1.0),
    "t with 3 df": lambda rng, size: (rng.standard_t(3, size), 3.0),
}


@pytest.mark.parametrize("suite", [Suite(1, 10), Suite(1, 40), Suite(10, 2), Suite(10, 5)])
def test_spread_covers_or_is_refused_where_tails_are_long(suite: Suite) -> None:
    """Two log features with long tails: an interval that is given and wrong is what must be rare."""
    told, worst_before = [], 1.0
    for name, draw in TAILS.items():
        wrong = refused = before = 0
        for rng in replicates(12):
            x, variance = draw(rng, (suite.tasks * suite.runs, 2))
            task = np.repeat(np.arange(suite.tasks), suite.runs)
            field = Field.from_arrays(np.expm1(5 + 0.2 * x), None, ["a", "b"], tasks=task)
            found, truth = field.metrics().estimate("spread"), 2 * 0.04 * variance
            refused += found.low is None
            wrong += found.low is not None and not covers(found, truth)
            logs = 0.2 * x
            centres = spread.cells(logs, task, suite.tasks).mean
            old = spread.width(spread.squared_distances(logs, task, centres, np.ones(2)), task, suite.tasks)
            low, high = spread.log_interval(old.value, old.log_variance, old.df, 0.95)
            before += low <= truth <= high
        told.append(f"{name}: wrong {wrong / REPLICATES:.3f}, refused {refused / REPLICATES:.2f}")
        told[-1] += f", jackknife alone {before / REPLICATES:.3f}"
        worst_before = min(worst_before, before / REPLICATES)
        given = REPLICATES - refused
        assert at_least(1 - wrong / REPLICATES, 0.93, REPLICATES), told[-1]
        assert given == 0 or at_least(1 - wrong / given, 0.93, given), told[-1]
        if name == "normal":
            assert at_least(1 - refused / REPLICATES, 0.95, REPLICATES), told[-1]
    print(f"\nspread, {suite}: " + "; ".join(told))
    assert worst_before < 0.93


def bootstrap_widths(logs: np.ndarray, suite: Suite, rng: np.random.Generator) -> np.ndarray:
    """Widths of runs resampled within tasks, n - 1, as one would write it down."""
    picks = rng.integers(0, suite.runs, (300, suite.tasks, suite.runs))
    drawn = logs.reshape(suite.tasks, suite.runs, D)[np.arange(suite.tasks)[:, None], picks]
    return np.asarray(drawn.var(axis=2, ddof=1).sum(axis=2).mean(axis=1))


@pytest.mark.parametrize("tasks", [1, 5])
def test_bootstrap_of_widths_fails_at_three_runs(tasks: int) -> None:
    """Three new runs per task against a stored baseline of twenty: resampling shrinks the small arm by a third."""
    few, many = Suite(tasks, 3), Suite(tasks, 20)
    ours = naive = alone = 0
    for rng in replicates(11):
        levels = few.levels(rng)
        old, new = many.logs(rng, levels), few.logs(rng, levels)
        ours += covers(compare_fields(many.field(old), few.field(new), draws=9).width_ratio, 1.0)
        drawn = bootstrap_widths(new, few, rng)
        ratio = drawn / bootstrap_widths(old, many, rng)
        for values, truth in ((ratio, 1.0), (drawn, D * 0.16)):
            low, high = np.quantile(values, [0.025, 0.975])
            naive += truth == 1.0 and low <= truth <= high
            alone += truth != 1.0 and low <= truth <= high
    shares = [x / REPLICATES for x in (ours, naive, alone)]
    told = f"jackknife-t {shares[0]:.3f}, bootstrap {shares[1]:.3f}, of the width alone {shares[2]:.3f}"
    print(f"\n3 against 20 runs, {tasks} tasks: {told}")
    assert at_least(shares[0], 0.94, REPLICATES)
    assert shares[1] < 0.7
    assert shares[2] < 0.7


@pytest.mark.parametrize("suite", [Suite(1, 4), Suite(1, 10), Suite(10, 2), Suite(20, 4)])
@pytest.mark.parametrize("shift", ["none", "all alike", "three features"])
def test_centre_shift(suite: Suite, shift: str) -> None:
    delta = {"none": np.zeros(D), "all alike": np.full(D, 0.3), "three features": np.r_[[0.5] * 3, np.zeros(7)]}[shift]
    held = naive = 0
    for rng in replicates(2):
        levels = suite.levels(rng)
        a, b = suite.field(suite.logs(rng, levels)), suite.field(suite.logs(rng, levels) + delta)
        found = compare_fields(a, b, draws=99)
        # truth on the scale that was used: plain log shift over the pooled sd within task and field
        cells = [
            np.log1p(f.points).reshape(suite.tasks, suite.runs, D).var(axis=1, ddof=1).mean(axis=0) for f in (a, b)
        ]
        truth = float(np.sqrt(np.sum(delta**2 / np.mean(cells, axis=0)) / D))
        held += covers(found.centre_shift, truth)
        naive += found.centre_shift.value == 0
    share = held / REPLICATES
    print(f"\ncentre, {suite}, {shift}: {share:.3f}; printed as 0: {naive / REPLICATES:.2f}")
    assert at_least(share, 0.94, REPLICATES)
    if shift == "none":
        assert naive / REPLICATES > 0.3  # unbiased: about half of the squares are negative


@pytest.mark.parametrize(("tasks", "runs"), [(1, 5), (1, 10), (1, 40), (10, 2), (20, 5)])
def test_convergence(tasks: int, runs: int) -> None:
    worst = 1.0
    for rate in (0.1, 0.5, 0.8, 0.95):
        held = 0
        for rng in replicates(3):
            spread = rng.uniform(-1, 1, tasks) * min(rate, 1 - rate) * 0.5 if tasks > 1 else np.zeros(1)
            p = np.repeat(rate + spread - spread.mean(), runs)
            field = Field.from_arrays(
                rng.normal(size=(p.size, 1)), rng.random(p.size) < p, ["x"], tasks=np.repeat(np.arange(tasks), runs)
            )
            held += covers(field.metrics().estimate("convergence"), np.sqrt(rate / (1 - rate)))
        worst = min(worst, held / REPLICATES)
    print(f"\nconvergence, {tasks} × {runs}: worst {worst:.3f}")
    assert at_least(worst, 0.92, REPLICATES)


@pytest.mark.parametrize("suite", [Suite(1, 10), Suite(1, 20), Suite(10, 4), Suite(30, 4)])
def test_separation_skew_and_center(suite: Suite) -> None:
    apart = {0: 0, 1: 0}
    skew = center = n = m = 0
    for rng in replicates(4):
        levels = suite.levels(rng)
        hard = np.repeat(levels[:, 0] - 6, suite.runs) if suite.tasks > 1 else np.zeros(suite.runs)
        y = rng.random(hard.size) < 1 / (1 + np.exp(2 * hard))
        logs = suite.logs(rng, levels)
        logs[:, 1] += 0.5 * y
        field = suite.field(logs, y.astype(float))
        sd = scale_of(field).sd
        found = field.metrics().estimates("separation")
        if found["x0"].low is None:
            continue
        n += 1
        apart[0] += covers(found["x0"], 0.0)
        apart[1] += covers(found["x1"], 0.5 / sd[1])
        correlation = field.metrics().estimate("skew", "x2")
        if correlation.low is not None:
            m += 1
            skew += covers(correlation, 0.0)
        truth = np.mean(np.exp(levels[:, 3] + 0.08) - 1)
        center += covers(field.metrics().estimate("center", "x3"), float(truth))
    shares = [apart[0] / n, apart[1] / n, skew / m, center / n]
    print(f"\nseparation 0 and 0.5, skew 0, center; {suite}: {[round(s, 3) for s in shares]} of {n}")
    assert n > REPLICATES / 2
    for share, bound in zip(shares, (0.94, 0.94, 0.94, 0.9), strict=True):
        assert at_least(share, bound, m)


@pytest.mark.parametrize("successes", [3, 5, 10, 14])
def test_drift(successes: int) -> None:
    """Nothing differs: the essay's drift is positive all the same, the default's is nought on average."""
    suite = Suite(1, 20)
    seed_drift, honest, held, unqualified, width = [], [], 0, 0, D * 0.16
    for rng in replicates(5):
        y = np.arange(20) < successes
        logs = suite.logs(rng, suite.levels(rng))
        field = suite.field(logs, y.astype(float))
        plain = Field.from_arrays(logs, y.astype(float), NAMES)
        seed_drift.append((plain.metrics().width() - plain.success_region().metrics().width()) / width)
        found = field.metrics().estimate("drift")
        assert found.value is not None
        honest.append(found.value / D)
        unqualified += found.why is None
        held += found.low is not None and covers(found, 0.0)
    bias = 1 / successes - 1 / 20
    print(
        f"\ndrift, K+ = {successes}: ddof 0 {np.mean(seed_drift):+.3f} (formula {bias:+.3f}), positive in "
        f"{np.mean(np.array(seed_drift) > 0):.2f}; default {np.mean(honest):+.3f}, covers {held / REPLICATES:.3f}"
    )
    error = np.std(honest) / np.sqrt(REPLICATES)
    assert abs(np.mean(honest)) < 4 * error
    assert np.mean(seed_drift) == pytest.approx(bias, abs=4 * np.std(seed_drift) / np.sqrt(REPLICATES))
    if successes == 3:
        assert np.mean(np.array(seed_drift) > 0) > 0.75  # ddof 0 makes drift out of nothing
    if successes < 5:
        assert unqualified == held == 0
    else:
        assert at_least(held / REPLICATES, 0.94, REPLICATES)
        assert unqualified == (REPLICATES if successes >= 10 else 0)


def test_drift_that_is_there() -> None:
    """Successes half as wide: the interval holds the difference of widths, not only nought."""
    held = 0
    for rng in replicates(6):
        suite = Suite(5, 10)
        y = np.tile(np.arange(10) < 5, 5)
        levels = suite.levels(rng)
        off = suite.logs(rng, levels) - np.repeat(levels, 10, axis=0)
        logs = np.repeat(levels, 10, axis=0) + off * np.where(y, 0.5, 1.0)[:, None]
        field = suite.field(logs, y.astype(float))
        unit = 0.16 / scale_of(field).sd ** 2
        held += covers(field.metrics().estimate("drift"), float(np.sum(unit * (0.625 - 0.25))))
    print(f"\ndrift that is there: {held / REPLICATES:.3f}")
    assert at_least(held / REPLICATES, 0.94, REPLICATES)


def test_effects_of_factors() -> None:
    """A 2 × 2 design with a main effect on width, one on the centre and an interaction on the pass rate."""
    suite = Suite(6, 5)
    held = np.zeros(8)
    n = REPLICATES // 2
    for rng in replicates(7, n):
        levels, cells = suite.levels(rng), []
        for a in (0, 1):
            for b in (0, 1):
                logs = suite.logs(rng, levels, 0.4 * np.sqrt(2.0**a)) + np.r_[0.4 * b, np.zeros(D - 1)]
                y = rng.random(30) < 0.4 + 0.3 * a * b
                cells.append(({"a": a, "b": b}, suite.field(logs, y.astype(float))))
        found = ablate(cells)
        sd = np.sqrt(np.mean([np.log1p(f.points[:, 0]).reshape(6, 5).var(axis=1, ddof=1).mean() for _, f in cells]))
        a, b, both = found.effects
        held += [
            covers(a.width, 2.0),
            covers(b.width, 1.0),
            covers(both.width, 1.0),
            covers(b.dimensions["x0"], 0.4 / sd),
            covers(both.pass_rate, 0.3),
            covers(a.pass_rate, 0.15),
            covers(both.convergence, np.sqrt(0.7 / 0.3 * 0.6 / 0.4)),
            covers(a.convergence, (0.7 / 0.3 * 0.6 / 0.4) ** 0.25),
        ]
    print(f"\nfactors: width ×2, ×1, ×1, centre, both effects on rate and convergence: {np.round(held / n, 3)}")
    assert all(at_least(share, 0.93, n) for share in held / n)
