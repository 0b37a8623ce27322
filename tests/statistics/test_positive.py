"""Means of positive values with long tails: by hand, and as properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from ethogram.statistics import interval, positive

QUICK = settings(deadline=None, max_examples=60, derandomize=True)
suites = st.lists(st.tuples(st.integers(0, 5), st.floats(1e-6, 1e4)), min_size=4, max_size=30)


def test_one_task_by_hand() -> None:
    x = np.array([1.0, 2.0, 4.0, 8.0])
    low, high = positive.suite_mean(x, np.zeros(4), 1, 0.95)
    t = reference.t.ppf(0.975, 3)
    student = t * x.std(ddof=1) / 2
    s2 = np.log(x).var(ddof=1)
    cox = np.exp(t * np.sqrt(s2 / 4 + s2**2 / (2 * 2)))
    assert low == pytest.approx(min(3.75 - student, 3.75 / cox))
    assert high == pytest.approx(max(3.75 + student, 3.75 * cox))


def test_one_dear_task_decides_how_much_is_known() -> None:
    """Two attempts at each of ten tasks, one of them a thousand times dearer: one degree of freedom, not ten."""
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(10), 2)
    x = np.where(task == 0, 1000.0, 1.0) * rng.uniform(0.8, 1.2, 20)
    assert positive.within_df(x, task, 10) == pytest.approx(1.0, abs=0.01)
    alike = np.tile([1.0, 2.0], 10)
    assert positive.within_df(alike, task, 10) == pytest.approx(10.0)


def test_tasks_that_were_tried_once_lend_their_distance() -> None:
    x = np.array([1.0, 2.0, 3.0, 6.0])
    assert positive.within_df(x, np.arange(4), 4) == pytest.approx(3.0)
    low, high = positive.suite_mean(x, np.arange(4), 4, 0.95)
    plain = interval.student(x.mean(), x.var(ddof=1) / 4, 3, 0.95)
    assert low <= plain.low + 1e-12
    assert high >= plain.high - 1e-12


@given(suites, st.floats(0.1, 1000.0))
@QUICK
def test_units_do_not_matter_and_the_mean_lies_inside(rows: list[tuple[int, float]], unit: float) -> None:
    names, at = np.unique([r[0] for r in rows], return_inverse=True)
    x = np.array([r[1] for r in rows])
    own = np.array([x[at == i].mean() for i in range(names.size)])
    low, high = positive.suite_mean(x, at, names.size, 0.95)
    assert low <= own.mean() * (1 + 1e-12)
    assert high >= own.mean() * (1 - 1e-12)
    other = positive.suite_mean(unit * x, at, names.size, 0.95)
    np.testing.assert_allclose(other, (unit * low, unit * high), rtol=1e-6, atol=1e-9 * unit * own.mean())
    wide, tall = positive.population_mean(x, 0.95)
    assert wide <= x.mean() * (1 + 1e-12) <= tall * (1 + 1e-9)
