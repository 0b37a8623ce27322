"""Simulated comparisons at one look: false alarms, coverage of the difference, power as planned; naive ways fail.

Set ETHOGRAM_LONG=1 for the long form; run with -s to read the tables.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from ethogram.questions.gate import power
from ethogram.statistics import exact
from ethogram.statistics import stratified as s

LONG = os.environ.get("ETHOGRAM_LONG") == "1"
DRAWS = 12_000 if LONG else 2000
RATES = {
    "beta 1.4 0.6": lambda rng, size: rng.beta(1.4, 0.6, size),
    "beta 9 0.5": lambda rng, size: rng.beta(9, 0.5, size),
    "beta 7 3": lambda rng, size: rng.beta(7, 3, size),
    "beta 0.5 0.5": lambda rng, size: rng.beta(0.5, 0.5, size),
    "mixture": lambda rng, size: rng.choice([0.98, 0.5, 0.02], size=size),
}
DESIGNS = ((1, 1), (4, 4), (10, 10), (20, 1), (20, 4), (10, 2))
Counts = tuple[np.ndarray, np.ndarray]


def error(rate: float, draws: int = DRAWS) -> float:
    return float(3 * np.sqrt(rate * (1 - rate) / draws))


def drawn(
    rng: np.random.Generator, first: np.ndarray, second: np.ndarray, design: tuple[int, int]
) -> tuple[s.Sums, s.Sums]:
    counts = (rng.binomial(n, p) for n, p in zip(design, (first, second), strict=True))
    one, two = (s.sums_of_counts(c, n) for c, n in zip(counts, design, strict=True))
    return one, two


def report(title: str, found: dict[str, float], worst_is_low: bool) -> tuple[float, float]:
    ranked = sorted(found.items(), key=lambda item: item[1], reverse=not worst_is_low)
    mean = float(np.mean(list(found.values())))
    print(f"\n{title}: {len(found)} cells of {DRAWS}, mean {mean:.4f}, worst {ranked[0][1]:.4f}")
    for name, value in ranked[:4]:
        print(f"  {value:.4f}  {name}")
    return mean, ranked[0][1]


def test_false_alarms_of_one_look() -> None:
    rng = np.random.default_rng(30)
    two, less = {}, {}
    for name, rates in RATES.items():
        for tasks in (20, 50, 200):
            for design in DESIGNS if tasks < 200 or LONG else DESIGNS[:2]:
                p = rates(rng, (DRAWS, tasks))
                arms = drawn(rng, p, p, design)
                found = s.difference(*arms, 0.95, equal=False, step=1.0)
                cell = f"{name}, {tasks} tasks, {design[0]} against {design[1]}"
                two[cell] = float(np.mean(found.two_sided <= 0.05))
                less[cell] = float(np.mean(found.less <= 0.05))
    for title, alarms in (("two-sided", two), ("one-sided", less)):
        mean, worst = report(f"false alarms, {title}", alarms, worst_is_low=False)
        assert mean <= 0.055
        assert worst <= 0.055 + error(0.055)


def test_a_stored_arm_without_the_correction_of_skewness_fails() -> None:
    rng = np.random.default_rng(36)
    draws = 5 * DRAWS
    p = RATES["beta 9 0.5"](rng, (draws, 20))
    bare = s.score(*drawn(rng, p, p, (20, 1)), equal=False, step=0.0, reach=0.0)
    plain = bare.difference / np.sqrt(np.where(bare.variance > 0, bare.variance, 1.0))
    straight = s.score(*drawn(rng, p, p, (20, 1)), equal=False, step=1.0, reach=1.64).z
    alarms = [float(np.mean(z <= -1.644854)) for z in (plain, straight)]
    print(f"\n20 stored attempts against 1 at a pass rate of 0.95: plain z {alarms[0]:.3f}, ours {alarms[1]:.3f}")
    assert alarms[0] > 0.06
    assert alarms[1] <= 0.055


def test_the_interval_of_the_difference_covers() -> None:
    rng = np.random.default_rng(31)
    found, suites = {}, 10
    for name, rates in RATES.items():
        for tasks in (20, 50):
            for design in DESIGNS:
                for drop in (0.0, 0.05, 0.2):
                    p = rates(rng, (suites, tasks))
                    p = p[p.mean(axis=1) > drop + 0.05]
                    if not len(p):
                        continue
                    q = power.shifted(p, drop) if drop else p
                    size = (DRAWS // 2 // len(p), *p.shape)
                    arms = drawn(rng, np.broadcast_to(p, size), np.broadcast_to(q, size), design)
                    ends = s.difference(*arms, 0.95, equal=False, step=1.0)
                    truth = (q - p).mean(axis=1)
                    cell = f"{name}, {tasks} tasks, {design[0]} against {design[1]}, drop {drop}"
                    found[cell] = float(np.mean((ends.low <= truth) & (truth <= ends.high)))
                    assert np.all(ends.high > ends.low)
    mean, worst = report("coverage of the difference", found, worst_is_low=True)
    assert mean >= 0.945
    assert worst >= 0.93 - error(0.93, DRAWS // 2)


@pytest.mark.parametrize("kind", ["cost", "steps"])
def test_scores_of_any_kind(kind: str) -> None:
    """Tasks of very different size, values with a long tail, one arm larger by 0 or 35 %."""
    rng = np.random.default_rng([37, len(kind)])
    alarms, found = {}, {}
    for tasks in (20, 50):
        for design in ((1, 1), (4, 4), (10, 2)):
            for factor in (1.0, 1.35):
                size = np.exp(rng.standard_normal((DRAWS, tasks, 1)))
                arms = []
                for n, scale in zip(design, (1.0, factor), strict=True):
                    mean = np.broadcast_to(5 * scale * size, (DRAWS, tasks, n))
                    x = rng.poisson(mean) if kind == "steps" else mean * rng.lognormal(-0.125, 0.5, mean.shape)
                    arms.append(
                        s.Sums(np.full((DRAWS, tasks), float(n)), *((x.astype(float) ** k).sum(-1) for k in (1, 2, 3)))
                    )
                ends = s.difference(*arms, 0.95, equal=True, step=0.0)
                truth = 5 * (factor - 1) * size[..., 0].mean(axis=1)
                cell = f"{kind}, {tasks} tasks, {design[0]} against {design[1]}, factor {factor}"
                found[cell] = float(np.mean((ends.low <= truth) & (truth <= ends.high)))
                if factor == 1.0:
                    alarms[cell] = float(np.mean(ends.two_sided <= 0.05))
    _, worst = report(f"false alarms, {kind}", alarms, worst_is_low=False)
    assert worst <= 0.055 + error(0.055)
    mean, worst = report(f"coverage of the difference, {kind}", found, worst_is_low=True)
    assert mean >= 0.945
    assert worst >= 0.92 - error(0.92)


@pytest.mark.parametrize("design", [(1, 1), (4, 4), (20, 2)])
def test_power_as_planned(design: tuple[int, int], pooled_z: Any) -> None:
    rng = np.random.default_rng(32)
    off, naive = {}, {}
    for name, rates in RATES.items():
        for drop in (0.05, 0.1, 0.2):
            p = rates(rng, (DRAWS, 50))
            p = p[p.mean(axis=1) > drop + 0.02]
            q = power.shifted(p, drop)
            effect = power.effect_between(p, q, 50)
            planned = float(power.score_power(effect, *design, 0.05))
            arms = drawn(rng, p, q, design)
            seen = float(np.mean(s.difference(*arms, 0.9, equal=False, step=1.0).less <= 0.05))
            # with one attempt each, the few pairs that differ make the plan cautious: only a shortfall counts
            miss = max(planned - seen, 0.0) if design == (1, 1) else abs(seen - planned)
            off[f"{name}, drop {drop}: planned {planned:.3f}, seen {seen:.3f}"] = miss
            naive[f"{name}, drop {drop}"] = planned - float(np.mean(pooled_z(*arms) <= -1.644854))
    mean, worst = report(f"power off plan, {design}", off, worst_is_low=False)
    assert mean <= 0.02
    assert worst <= 0.03 + error(0.5) / 3
    # the two-proportion test has not the power that pairing buys
    _, worst = report(f"power that forgetting the tasks loses, {design}", naive, worst_is_low=False)
    assert worst > 0.15


def test_forgetting_the_tasks_alarms_when_hard_tasks_are_missing_more_often(pooled_z: Any) -> None:
    rng = np.random.default_rng(33)
    p = rng.beta(1.4, 0.6, (DRAWS, 50))
    # the second arm times out on the easy tasks more often; nothing else differs
    n = rng.binomial(4, np.clip(1.2 - p, 0.1, 1.0))
    one, two = s.sums_of_counts(rng.binomial(4, p), 4), s.sums_of_counts(rng.binomial(n, p), n)
    paired = float(np.mean(s.difference(one, two, 0.9, equal=False, step=1.0).less <= 0.05))
    pooled = float(np.mean(pooled_z(one, two) <= -1.644854))
    print(f"\nunequal attempts: stratified {paired:.3f}, pooled {pooled:.3f}")
    assert paired <= 0.055 + error(0.055)
    assert pooled > 0.3


def test_the_t_test_takes_real_differences_between_tasks_for_noise() -> None:
    rng = np.random.default_rng(34)
    p = np.clip(rng.beta(1.4, 0.6, (DRAWS, 50)), 0.02, 0.98)
    broken = np.argsort(rng.random(p.shape), axis=1) < 5
    arms = drawn(rng, p, np.where(broken, 0.0, p), (6, 6))
    ours = float(np.mean(s.difference(*arms, 0.9, equal=False, step=1.0).less <= 0.05))
    paired = float(np.mean(s.difference_between_tasks(*arms, 0.9).less <= 0.05))
    print(f"\nfive tasks of fifty break: stratified finds {ours:.3f}, paired t {paired:.3f}")
    assert ours > paired + 0.05


def test_flags_per_task_keep_their_share_of_false_finds() -> None:
    from ethogram.statistics.multiplicity import benjamini_hochberg

    rng = np.random.default_rng(35)
    draws, shares = DRAWS // 10, []
    p = rng.beta(1.4, 0.6, (draws, 60))
    broken = np.arange(60) < 6
    a, b = rng.binomial(10, p), rng.binomial(10, np.where(broken, 0.1 * p, p))
    flagged = benjamini_hochberg(exact.task_tests(a, 10, b, 10).two_sided) <= 0.1
    shares = (flagged & ~broken).sum(axis=1) / np.maximum(flagged.sum(axis=1), 1)
    print(f"\nflags: {flagged[:, :6].mean():.2f} of the broken found, false share {shares.mean():.3f}")
    assert shares.mean() <= 0.1 + error(0.1, draws)
    assert flagged[:, :6].mean() > 0.2
