"""Tests of one session, each by itself and all together, share one alpha: an unchanged version is rarely blamed.

Sessions are simulated at the level of outcomes: a baseline and a candidate of the same tests, judged as
`gate_each_task` judges them. Set ETHOGRAM_LONG=1 for the long form; run with -s to read the figures.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from grids import grid_outcomes

from ethogram.measures.outcomes import Outcomes
from ethogram.questions.gate.allocation import plan_gate
from ethogram.questions.gate.confirmation import confirm_moved
from ethogram.questions.gate.plan import GateSettings
from ethogram.questions.gate.verdict import judgement
from ethogram.statistics import exact

LONG = os.environ.get("ETHOGRAM_LONG") == "1"
BASELINES, EACH = (200, 20) if LONG else (20, 15)
"""Sessions that are held against one baseline share its plan, which takes longest."""
ALPHA = 0.05
SETTINGS = GateSettings(margin=0.3, alpha=ALPHA, confirm=1)


def attempts(rng: np.random.Generator, rates: np.ndarray, k: int) -> Outcomes:
    drawn = (rng.random((k, rates.size)) < rates).astype(float)
    return grid_outcomes(drawn, tasks=[f"test-{i}" for i in range(rates.size)])


def share(found: list[list[bool]]) -> tuple[float, float]:
    """A share, and its standard error over baselines."""
    means = np.array([np.mean(x) for x in found])
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(means.size))


def test_an_unchanged_version_is_blamed_no_more_often_than_alpha() -> None:
    rng = np.random.default_rng(20261117)
    assert (SETTINGS.looks_alpha, SETTINGS.confirm_alpha) == pytest.approx((0.045, 0.005))
    blamed, single = [], []
    for _ in range(BASELINES):
        rates = rng.choice([0.4, 0.6, 0.9], 12)
        base = attempts(rng, rates, 10)
        plan = plan_gate(base, SETTINGS, base.tasks)
        blamed.append([])
        single.append([])
        for _ in range(EACH):
            new = attempts(rng, rates, 10)
            verdict = judgement(base, new, plan, SETTINGS, take_all=True).verdict
            tests = confirm_moved(base, new, dict.fromkeys(base.tasks, 0), SETTINGS.confirm_alpha)
            single[-1].append(any(t.confirmed for t in tests))
            blamed[-1].append(verdict == "regression" or single[-1][-1])
    figures = {"blamed": share(blamed), "by itself": share(single)}
    print(figures)
    assert figures["blamed"][0] <= ALPHA + 2.33 * figures["blamed"][1]
    assert figures["by itself"][0] <= 0.005 + 2.33 * max(figures["by itself"][1], 0.003)


def test_every_test_at_the_whole_alpha_would_blame_too_often() -> None:
    rng = np.random.default_rng(7)
    blamed = []
    for _ in range(400):
        rates = rng.choice([0.4, 0.6, 0.9], 12)
        base, new = attempts(rng, rates, 20), attempts(rng, rates, 20)
        alone = exact.task_tests(base.successes, base.attempts, new.successes, new.attempts).less
        blamed.append(bool((alone <= ALPHA).any()))
    print(f"every test at alpha: {np.mean(blamed):.3f}")
    assert np.mean(blamed) > 3 * ALPHA


def test_one_broken_test_among_many_is_found_by_itself() -> None:
    rng = np.random.default_rng(5)
    rates = np.full(12, 0.9)
    broken = np.where(np.arange(12) == 0, 0.0, rates)
    found = 0
    for _ in range(40):
        base, new = attempts(rng, rates, 20), attempts(rng, broken, 10)
        found += confirm_moved(base, new, dict.fromkeys(base.tasks, 0), SETTINGS.confirm_alpha)[0].confirmed
    assert found >= 36
