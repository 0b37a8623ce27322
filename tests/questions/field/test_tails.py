"""The test of tails against SciPy's, the unseen share against an integral, and what an interval makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy import stats as reference

from ethogram.questions.field import features
from ethogram.statistics import spread


def of_runs(x: np.ndarray, group: np.ndarray, groups: int) -> spread.Width:
    centres = spread.cells(x, group, groups).mean
    return spread.width(spread.squared_distances(x, group, centres, np.ones(x.shape[1])), group, groups)


@pytest.mark.parametrize("rows", [20, 60, 500])
def test_one_feature_of_one_task_is_the_test_of_anscombe_and_glynn(rows):
    x = np.random.default_rng(rows).standard_t(6, (rows, 1))
    wanted = reference.kurtosistest(x[:, 0], alternative="greater").pvalue
    assert features.tails(x, np.zeros(rows, dtype=int), 1).p == pytest.approx(wanted)


@pytest.mark.parametrize("values", [5.0, 80.0, 4000.0])
def test_the_unseen_share_is_the_integral_beyond_the_largest_value(values):
    end = reference.t.isf(0.5 / values, 3)
    beyond = 2 * integrate.quad(lambda v: v * v * reference.t.pdf(v, 3), end, np.inf)[0] / 3
    assert features.unseen_share(values) == pytest.approx(beyond, rel=1e-5)


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(2, 9))
@settings(deadline=None, max_examples=40, derandomize=True)
def test_tasks_of_other_widths_and_levels_are_no_tails(seed, groups, runs):
    """Every task on its own scale: the shape within tasks is the same, so is the p-value of one feature."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), runs)
    x = rng.standard_normal((group.size, 1))
    other = x * rng.uniform(0.5, 5, groups)[group, None] + rng.normal(0, 9, groups)[group, None]
    assert features.tails(other, group, groups).p == pytest.approx(features.tails(x, group, groups).p, rel=1e-6)


@pytest.mark.parametrize("correlation", [0.0, 0.9])
@pytest.mark.parametrize(("groups", "runs"), [(1, 12), (6, 6)])
def test_normal_features_are_taken_for_long_tailed_as_often_as_stated(correlation, groups, runs):
    rng = np.random.default_rng(3)
    mix = np.linalg.cholesky(correlation * np.ones((3, 3)) + (1 - correlation) * np.eye(3))
    group = np.repeat(np.arange(groups), runs)
    found = [features.tails(rng.standard_normal((group.size, 3)) @ mix.T, group, groups).p for _ in range(1000)]
    share = float(np.mean(np.array(found) < features.ALPHA))
    assert share <= features.ALPHA + 2.33 * np.sqrt(features.ALPHA * (1 - features.ALPHA) / 1000)
    assert share >= 0.02


def test_one_run_far_out_leaves_no_interval_and_the_unseen_is_above_only():
    group = np.zeros(30, dtype=int)
    scores = reference.norm.ppf((np.arange(30) + 0.5) / 30)
    x = np.stack([scores, np.random.default_rng(1).permutation(scores)], axis=1)
    calm, seen = of_runs(x, group, 1), features.tails(x, group, 1)
    low, high = features.width_interval(calm, seen, 0.95)
    plain = spread.log_interval(calm.value, max(calm.log_variance, 2 / (seen.dimensions * 29)), calm.df, 0.95)
    assert low == pytest.approx(float(plain.low))
    assert high == pytest.approx(float(plain.high) * np.exp(seen.unseen))
    assert seen.unseen > 0
    x[0] = 12.0
    assert features.width_interval(of_runs(x, group, 1), features.tails(x, group, 1), 0.95) is None


def test_long_tails_that_hardly_matter_leave_the_interval():
    """Of thousands of runs the test sees the least excess; the jackknife has seen it too, and covers."""
    x = np.random.default_rng(2).standard_t(30, (20_000, 2))
    group = np.zeros(20_000, dtype=int)
    seen = features.tails(x, group, 1)
    assert seen.p < features.ALPHA
    assert seen.unseen < 0.001
    assert features.width_interval(of_runs(x, group, 1), seen, 0.95) is not None


def test_what_shows_no_tails_says_so_with_a_wide_margin():
    pairs = np.repeat(np.arange(5), 2)
    found = features.tails(np.random.default_rng(4).standard_normal((10, 2)), pairs, 5)
    assert found.p == 1.0
    assert found.unseen > 0.5
    still = features.tails(np.ones((6, 2)), np.zeros(6, dtype=int), 1)
    assert (still.dimensions, still.p) == (1.0, 1.0)
    assert features.tails(np.ones((3, 1)), np.arange(3), 3).p == 1.0
