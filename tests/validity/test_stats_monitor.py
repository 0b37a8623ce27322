"""Simulated watching without an end: the e-process stays below its alarm for ever, and finds a drop when there is one.

Set ETHOGRAM_LONG=1 for the long form; run with -s to read the figures.
"""

from __future__ import annotations

import os

import numpy as np

from ethogram.questions.gate.power import shifted
from ethogram.statistics import anytime as e

LONG = os.environ.get("ETHOGRAM_LONG") == "1"
DRAWS = 6000 if LONG else 800
PASSES = 400 if LONG else 100
BETS = e.uniform_bets(0.05, 0.9, 24)
WIDE = e.geometric_bets(0.005, 0.95, 24)
ALARM = np.log(20)


def error(rate: float, draws: int = DRAWS) -> float:
    return float(3 * np.sqrt(rate * (1 - rate) / draws))


def watched(p: np.ndarray, q: np.ndarray, passes: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The highest log e-value and the first pass with an alarm (infinite if none), looking after every single pair."""
    highest, first = np.full(len(p), -np.inf), np.full(len(p), np.inf)
    capital = np.zeros((len(p), BETS.sizes.size))
    for number in range(1, passes + 1):
        drops = (rng.random(p.shape) < p).astype(float) - (rng.random(q.shape) < q)
        course = capital[:, None, :] + e.pair_capital(np.cumsum(drops == 1, 1), np.cumsum(drops == -1, 1), BETS)
        top = e.log_e(course, BETS).max(axis=1)
        first = np.where((top >= ALARM) & np.isinf(first), number, first)
        highest, capital = np.maximum(highest, top), course[:, -1]
    return highest, first


def test_false_alarms_for_ever() -> None:
    rng = np.random.default_rng(50)
    for name, p in (("beta 1.4 0.6", rng.beta(1.4, 0.6, (DRAWS, 20))), ("coins", np.full((DRAWS, 20), 0.5))):
        highest, _ = watched(p, p, PASSES, rng)
        alarms = float(np.mean(highest >= ALARM))
        print(f"\n{name}: alarms in {PASSES} passes over 20 tasks, looked at after every pair: {alarms:.4f}")
        assert alarms <= 0.05
        assert float(np.mean(highest >= np.log(5))) <= 0.2 + error(0.2)


def test_tasks_that_moved_both_ways_raise_no_alarm() -> None:
    rng = np.random.default_rng(51)
    p, q = np.full((DRAWS, 20), 0.5), np.full((DRAWS, 20), 0.5)
    p[:, ::2], q[:, ::2] = 0.8, 0.6
    p[:, 1::2], q[:, 1::2] = 0.4, 0.6
    capital = np.zeros((DRAWS, BETS.sizes.size))
    highest = np.full(DRAWS, -np.inf)
    for _ in range(PASSES):
        drops = (rng.random(p.shape) < p).astype(float) - (rng.random(q.shape) < q)
        capital = capital + e.pair_capital((drops == 1).sum(1), (drops == -1).sum(1), BETS)
        highest = np.maximum(highest, e.log_e(capital, BETS))
    alarms = float(np.mean(highest >= ALARM))
    print(f"\ntasks that moved by 20 points both ways, seen after whole passes: {alarms:.4f}")
    assert alarms <= 0.05


def test_a_drop_is_found() -> None:
    rng = np.random.default_rng(52)
    for drop, within in ((0.1, 40), (0.05, 120)):
        p = rng.beta(1.4, 0.6, (DRAWS // 4, 20))
        _, first = watched(p, shifted(p, drop), within, rng)
        found = float(np.mean(np.isfinite(first)))
        print(f"\ndrop {drop}: found in {within} passes over 20 tasks {found:.3f}, median pass {np.median(first):.0f}")
        assert found > 0.9


def test_a_fixed_test_after_every_pass_fails() -> None:
    rng = np.random.default_rng(53)
    p = rng.beta(1.4, 0.6, (DRAWS, 20))
    lost, gained = np.zeros(DRAWS), np.zeros(DRAWS)
    alarmed = np.zeros(DRAWS, dtype=bool)
    for _ in range(PASSES):
        drops = (rng.random(p.shape) < p).astype(int) - (rng.random(p.shape) < p)
        lost, gained = lost + (drops == 1).sum(axis=1), gained + (drops == -1).sum(axis=1)
        alarmed |= (lost - gained) >= 1.644854 * np.sqrt(np.maximum(lost + gained, 1))
    print(f"\nMcNemar after each of {PASSES} passes: {alarmed.mean():.3f}")
    assert alarmed.mean() > 0.2


def test_the_confidence_sequence_covers_at_all_times() -> None:
    rng = np.random.default_rng(54)
    draws, drop = DRAWS // 4, 0.1
    moves = rng.choice([1.0, 0.0, -1.0], p=[0.19, 0.72, 0.09], size=(draws, 2000))
    times = np.unique(np.geomspace(20, 2000, 30).astype(int))
    counts = [np.cumsum(moves == v, axis=1)[:, times - 1] for v in (1.0, 0.0, -1.0)]
    low, high = e.pair_interval(*counts, 0.95, WIDE)
    missed = float(np.mean(np.any((low > drop) | (high < drop), axis=1)))
    widths = np.mean(high - low, axis=0)
    print(
        f"\nconfidence sequence: ever missed {missed:.4f}; width {widths[0]:.2f} at 20, {widths[-1]:.3f} at 2000 pairs"
    )
    assert missed <= 0.05
    assert np.all(np.diff(widths) < 0.01)
    assert widths[-1] < 0.12
    # an ordinary interval at every look does not cover at all of them
    mean = (counts[0] - counts[2]) / times
    error_ = np.sqrt(((counts[0] + counts[2]) / times - mean**2) / times)
    assert np.mean(np.any(np.abs(mean - drop) > 1.959964 * error_, axis=1)) > 0.15
