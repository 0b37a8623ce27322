"""The baseline against itself: spread within tasks, spread of sessions, and when neither can be known."""

from __future__ import annotations

import numpy as np
import pytest
from grids import grid_outcomes

from ethogram.measures.outcomes import Outcomes, outcomes_of
from ethogram.questions.gate.noise import SESSION_GAP_NS, outcome_floor, session_of


def made(passed: np.ndarray, at_ns: np.ndarray | None = None) -> Outcomes:
    return grid_outcomes(passed, at_ns=at_ns)


def hours(*each: float, tasks: int) -> np.ndarray:
    return np.repeat(np.array(each) * 3600e9, tasks).astype(np.int64)


def test_by_hand() -> None:
    found = outcome_floor(made(np.array([[1, 1, 0], [0, 1, 0]])))
    assert found.within == pytest.approx(0.5 / 3)  # one task of three has variance 1/2
    assert found.swing == pytest.approx(np.sqrt(0.5 / 9))
    assert (found.session, found.sessions, found.passes, found.tasks) == (None, 1, 2.0, 3)
    assert "one session" in found.why


def test_one_attempt_each_measures_nothing() -> None:
    found = outcome_floor(made(np.ones((1, 4))))
    assert (found.within, found.session, found.swing) == (None, None, None)
    assert "attempted once" in found.why
    assert outcome_floor(outcomes_of([])).swing is None
    assert outcome_floor(made(np.full((3, 4), np.nan))).swing is None


def test_sessions_are_parted_by_half_an_hour_whatever_the_order() -> None:
    outcomes = made(np.ones((4, 2)), hours(9, 9.4, 10, 0, tasks=2))
    assert session_of(outcomes).tolist() == [1, 1, 1, 1, 2, 2, 0, 0]
    just = np.array([0, SESSION_GAP_NS, 2 * SESSION_GAP_NS + 1, 2 * SESSION_GAP_NS + 1])
    assert session_of(made(np.ones((2, 2)), just)).tolist() == [0, 0, 1, 1]
    assert session_of(made(np.ones((2, 2)))).tolist() == [0, 0, 0, 0]


def test_sessions_that_differ_are_seen_and_those_that_do_not_are_not() -> None:
    rng = np.random.default_rng(1)
    times = hours(*range(12), tasks=200)
    same = outcome_floor(made(rng.random((12, 200)) < 0.5, times))
    rates = np.clip(0.5 + 0.15 * rng.standard_normal((12, 1)), 0.05, 0.95)
    moved = outcome_floor(made(rng.random((12, 200)) < rates, times))
    assert same.sessions == moved.sessions == 12
    assert same.why is None
    assert same.session < 0.001
    assert moved.session == pytest.approx(float(np.var(rates, ddof=1)), rel=0.5)
    assert moved.swing > same.swing


def test_missing_attempts_leave_the_rest() -> None:
    rng = np.random.default_rng(2)
    whole = (rng.random((20, 100)) < 0.7).astype(float)
    torn = np.where(rng.random(whole.shape) < 0.2, np.nan, whole)
    assert outcome_floor(made(torn)).within == pytest.approx(outcome_floor(made(whole)).within, rel=0.1)
