"""Simulated forks with a known effect: the interval covers it though one stops as soon as it leaves 0 out.

Forks of several traces are drawn from traces that differ: the interval covers the mean effect on all of them.
Beside the simulation of the whole path the coverage is computed without one, over all counts that pairs can reach.
Set ETHOGRAM_LONG=1 for the long form; run with -s to read the figures.
"""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest

from ethogram.questions.fork.effect import ForkPlan, PooledPlan, find_effect, find_pooled_effect
from ethogram.statistics import anytime

LONG = os.environ.get("ETHOGRAM_LONG") == "1"
DRAWS = 4000 if LONG else 60
PAIRS = 60 if LONG else 24
ARMS = [(0.5, 0.5), (0.2, 0.8), (0.7, 0.4), (0.05, 0.05), (0.95, 0.99), (0.1, 0.5)]
"""Success without and with the change."""

Ends = tuple[np.ndarray, np.ndarray]
Table = dict[int, Ends]
"""Both ends of the interval after a number of pairs, by how many of them were gained and lost."""


def counts(most: int, pairs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    gained, lost = np.meshgrid(np.arange(most + 1.0), np.arange(most + 1.0), indexing="ij")
    return gained, np.maximum(pairs - gained - lost, 0), lost


@cache
def always_valid(pairs: int) -> Table:
    bets = anytime.bets_within(pairs, 0.95)
    return {n: anytime.pair_interval(*counts(pairs, n), 0.95, bets) for n in range(1, pairs + 1)}


@cache
def usual(pairs: int) -> Table:
    """The interval of a number of pairs that was fixed beforehand."""
    table = {}
    for n in range(1, pairs + 1):
        gained, _, lost = counts(pairs, n)
        mean = (gained - lost) / n
        half = 1.959964 * np.sqrt(np.maximum((gained + lost) / n - mean**2, 1e-12) / n)
        table[n] = mean - half, mean + half
    return table


def exact_coverage(p: float, q: float, looks: tuple[int, ...], table: Table) -> tuple[float, float, float]:
    """Coverage where it stops, the chance that 0 is left out, and the mean number of pairs: all counts, no draws."""
    up, down = q * (1 - p), p * (1 - q)
    n = looks[-1]
    mass = np.zeros((n + 1, n + 1))
    mass[0, 0] = 1.0
    covered = decided = spent = 0.0
    for pair in range(1, n + 1):
        grown = mass * (1 - up - down)
        grown[1:] += mass[:-1] * up
        grown[:, 1:] += mass[:, :-1] * down
        mass = grown
        if pair not in looks:
            continue
        low, high = table[pair]
        out = (low > 0) | (high < 0)
        stops = out | (pair == n)
        covered += float(mass[stops & (low <= q - p + 1e-9) & (high >= q - p - 1e-9)].sum())
        decided += float(mass[out].sum())
        spent += pair * float(mass[stops].sum())
        mass = np.where(stops, 0.0, mass)
    return covered, decided, spent


@pytest.mark.parametrize("every", [1, 4])
def test_coverage_with_early_stops_computed(every: int) -> None:
    plan = ForkPlan(pairs=PAIRS, every=every)
    worst = 1.0
    for p, q in ARMS:
        covered, decided, spent = exact_coverage(p, q, plan.looks, always_valid(PAIRS))
        told = f"covers {covered:.4f}, decides {decided:.3f}, {spent:.1f} of {PAIRS} pairs"
        print(f"\n{p:.2f} -> {q:.2f}, a look after every {every}: {told}")
        worst = min(worst, covered)
    assert worst >= 0.95


def test_a_usual_interval_at_each_look_fails() -> None:
    looks = tuple(range(8, PAIRS + 1, 4))
    covered = {arms: exact_coverage(*arms, looks, usual(PAIRS))[0] for arms in ARMS}
    print(f"\nthe usual interval, stopped where it leaves 0 out: {covered}")
    assert covered[0.5, 0.5] < 0.9
    assert min(covered.values()) < 0.8


def test_the_whole_path() -> None:
    rng = np.random.default_rng(160)
    plan = ForkPlan(pairs=24, every=3)
    for p, q in ARMS[:3]:
        held, seen = [], []
        for _ in range(DRAWS):
            one, two = ((rng.random(plan.pairs) < rate).astype(float) for rate in (p, q))
            found = find_effect(one.tolist(), two.tolist(), plan)
            effect = found.effect
            assert effect.low is not None
            assert effect.high is not None
            held.append(effect.low <= q - p <= effect.high)
            seen.append(found.looks[-1].pairs)
        print(f"\n{p:.2f} -> {q:.2f}: covers {np.mean(held):.3f} of {DRAWS}, {np.mean(seen):.1f} of {plan.pairs} pairs")
        assert np.mean(held) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / DRAWS)
        if q - p > 0.5:
            assert np.mean(seen) < 0.75 * plan.pairs


def test_outcomes_that_go_missing_because_of_what_they_are() -> None:
    """Half of the failures of the changed arm are lost: left out, they would make the change look good."""
    rng = np.random.default_rng(161)
    plan = ForkPlan(pairs=60, every=10)
    p = q = 0.5
    held, left_out = [], []
    for _ in range(DRAWS):
        one, two = ((rng.random(plan.pairs) < rate).astype(float) for rate in (p, q))
        gone = (two == 0) & (rng.random(plan.pairs) < 0.5)
        seen = [None if lost else float(x) for x, lost in zip(two, gone, strict=True)]
        effect = find_effect(one.tolist(), seen, plan).effect
        held.append((effect.low or 0.0) <= 0 <= (effect.high or 0.0))
        kept = find_effect(
            one[~gone].tolist(), two[~gone].tolist(), ForkPlan(pairs=int((~gone).sum()), every=10)
        ).effect
        left_out.append((kept.low or 0.0) <= 0 <= (kept.high or 0.0))
    print(f"\nwith missing at their worst: covers {np.mean(held):.3f}; with missing left out: {np.mean(left_out):.3f}")
    assert np.mean(held) >= 0.95
    assert np.mean(left_out) < 0.95


def test_seeds_that_tie_the_arms_together_keep_the_level() -> None:
    """Both arms of a pair draw from one seed: the level holds whatever ties them, and pairs need fewer."""
    rng = np.random.default_rng(162)
    plan = ForkPlan(pairs=30, every=3)
    held, pairs = [], []
    for _ in range(DRAWS):
        drawn = rng.random(plan.pairs)
        effect = find_effect((drawn < 0.3).astype(float).tolist(), (drawn < 0.7).astype(float).tolist(), plan)
        held.append((effect.effect.low or 0.0) <= 0.4 <= (effect.effect.high or 0.0))
        pairs.append(effect.looks[-1].pairs)
    print(f"\ntied arms 0.3 -> 0.7: covers {np.mean(held):.3f}, {np.mean(pairs):.1f} pairs")
    assert np.mean(held) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / DRAWS)


Drawn = tuple[list[float], list[float]]


def drawn_traces(
    rng: np.random.Generator, kinds: list[tuple[float, float, float]], count: int, each: int
) -> list[Drawn]:
    """Traces of several kinds (how common, success without and with the change), with their pairs."""
    which = rng.choice(len(kinds), size=count, p=[share for share, _, _ in kinds])
    return [
        tuple((rng.random(each) < rate).astype(float).tolist() for rate in kinds[kind][1:])
        for kind in which  # type: ignore[misc]
    ]


def pooled_coverage(
    kinds: list[tuple[float, float, float]], seed: int, *, ignoring: bool = False
) -> tuple[float, float]:
    """How often the interval covers the mean effect where it stops, and how often it says that the change raises.

    `ignoring` takes pairs as if each were of a trace of its own.
    """
    rng = np.random.default_rng(seed)
    truth = sum(share * (q - p) for share, p, q in kinds)
    held, found = [], []
    for _ in range(DRAWS):
        traces = drawn_traces(rng, kinds, POOLED.traces, POOLED.each)
        if ignoring:
            one, two = ([x for arms in traces for x in arms[i]] for i in (0, 1))
            judged = find_effect(one, two, ForkPlan(pairs=len(one), every=POOLED.each))
        else:
            judged = find_pooled_effect(traces, POOLED)
        held.append((judged.effect.low or 0.0) <= truth <= (judged.effect.high or 0.0))
        found.append(judged.verdict == "raises")
    return float(np.mean(held)), float(np.mean(found))


POOLED = PooledPlan(traces=16, each=4)
ALLOWED = 3 * np.sqrt(0.05 * 0.95 / DRAWS)
MIXED = [(0.5, 0.0, 1.0), (0.5, 1.0, 0.0)]
"""Half of the traces are mended by the change and half are spoiled: no effect on average."""
PLANTED = [(0.8, 0.05, 0.95), (0.2, 0.1, 0.1)]
"""The change removes what made most of these traces fail."""
CORRELATE = [(0.5, 0.1, 0.1), (0.5, 0.6, 0.6)]
"""What the change removes stood in failed traces, and did nothing."""


@pytest.mark.parametrize(("kinds", "seed"), [(MIXED, 163), (PLANTED, 164), (CORRELATE, 165)])
def test_forks_of_several_traces_cover_the_mean_effect(kinds: list[tuple[float, float, float]], seed: int) -> None:
    held, found = pooled_coverage(kinds, seed)
    print(f"\n{POOLED.traces} traces with {POOLED.each} pairs: covers {held:.3f}, says that it raises {found:.3f}")
    assert held >= 0.95 - ALLOWED
    if kinds is PLANTED:
        assert found > 0.8, "a planted cause is found"
    else:
        assert found <= 0.025 + ALLOWED, "what has no effect is not"


def test_pairs_that_ignore_their_trace_fail() -> None:
    held, found = pooled_coverage(MIXED, 166, ignoring=True)
    print(f"\npairs as if each were of a trace of its own: covers {held:.3f}, says that it raises {found:.3f}")
    assert held < 0.8
    assert found > 0.2


def test_a_usual_interval_over_traces_at_each_look_fails() -> None:
    """The mean of the traces with Student's interval, looked at after every trace from the fifth on."""
    rng = np.random.default_rng(167)
    held = []
    for _ in range(DRAWS):
        means = np.array([np.mean(two) - np.mean(one) for one, two in drawn_traces(rng, MIXED, 40, 4)])
        low = high = 0.0
        for n in range(5, 41):
            half = 2.02 * means[:n].std(ddof=1) / np.sqrt(n)
            low, high = means[:n].mean() - half, means[:n].mean() + half
            if low > 0 or high < 0:
                break
        held.append(low <= 0 <= high)
    print(f"\nStudent's interval at each look covers {np.mean(held):.3f}")
    assert np.mean(held) < 0.88
