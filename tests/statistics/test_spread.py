"""Moments, widths and distances against numpy, scipy and plain leave-one-out loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as peer

from ethogram.questions.field import features
from ethogram.statistics import interval, spread


def cloud(seed: int = 0, sizes: tuple[int, ...] = (4, 6, 3), d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(sizes)), sizes)
    order = rng.permutation(group.size)
    return rng.normal(size=(group.size, d)) * [1.0, 2.0, 0.5] + group[:, None], group[order]


@given(st.integers(1, 40), st.integers(1, 60), st.integers(0, 10_000))
def test_cells_are_numpys_moments(groups: int, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, group = rng.normal(100, 3, (rows, 2)), rng.integers(0, groups, rows)
    found = spread.cells(x, group, groups)
    for g in range(groups):
        own = x[group == g]
        assert found.n[g] == len(own)
        if len(own):
            assert found.mean[g] == pytest.approx(own.mean(axis=0))
            assert found.squares[g] == pytest.approx(own.var(axis=0) * len(own), abs=1e-9)


def test_cells_do_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    x, group = 1e6 + rng.normal(size=(5000, 3)), rng.integers(0, 4, 5000)
    whole = spread.cells(x, group, 4, np.square)
    monkeypatch.setattr(spread, "_CHUNK", 7)
    parts = spread.cells(x, group, 4, np.square)
    assert parts.mean == pytest.approx(whole.mean, rel=1e-12)
    assert parts.squares == pytest.approx(whole.squares, rel=1e-9)
    assert whole.squares[2] == pytest.approx(np.var(x[group == 2] ** 2, axis=0) * np.sum(group == 2), rel=1e-9)


def test_merged_cells_are_the_cells_of_the_union() -> None:
    x, group = cloud(sizes=(4, 6, 3, 5))
    joined = spread.merged(spread.cells(x, group, 4), 2)
    direct = spread.cells(x, group // 2, 2)
    for a, b in zip(joined, direct, strict=True):
        assert a == pytest.approx(b)


def test_log_features_keep_signs() -> None:
    assert spread.log_features(np.array([-np.expm1(1.0), 0.0, np.expm1(2.0)])) == pytest.approx([-1, 0, 2])


def plain_width(x: np.ndarray, group: np.ndarray) -> float:
    return float(np.mean([np.var(x[group == g], axis=0, ddof=1).sum() for g in np.unique(group)]))


def squared(x: np.ndarray, group: np.ndarray) -> np.ndarray:
    groups = int(group.max()) + 1
    return spread.squared_distances(x, group, spread.cells(x, group, groups).mean, np.ones(x.shape[1]))


def test_width_is_the_jackknife_over_runs() -> None:
    x, group = cloud()
    found = spread.width(squared(x, group), group, 3)
    assert found.value == pytest.approx(plain_width(x, group))
    variance = 0.0
    for g in range(3):
        rows = np.flatnonzero(group == g)
        left = np.array([np.log(plain_width(np.delete(x, i, 0), np.delete(group, i))) for i in rows])
        variance += (rows.size - 1) / rows.size * np.sum((left - left.mean()) ** 2)
    assert found.log_variance == pytest.approx(variance)
    assert (found.df, found.groups, found.rows, found.by) == (10, 3, 13, "runs")


def test_width_leaves_out_tasks_where_some_have_two_runs() -> None:
    x, group = cloud(sizes=(2, 3, 2, 4, 2))
    found = spread.width(squared(x, group), group, 5)
    left = np.array([np.log(plain_width(x[group != g], group[group != g])) for g in range(5)])
    assert found.log_variance == pytest.approx(4 / 5 * np.sum((left - left.mean()) ** 2))
    assert (found.by, found.df) == ("tasks", 4)


def test_width_with_too_little() -> None:
    x, group = cloud(sizes=(2, 2))
    pair = spread.width(squared(x, group), group, 2)
    assert pair.value == pytest.approx(plain_width(x, group))
    assert np.isnan(pair.log_variance)
    assert np.isnan(spread.width([0.0, 0.0], [0, 1], 2).value)
    x, group = cloud(sizes=(2, 4))
    assert spread.width(squared(x, group), group, 2).rows == 4
    assert spread.width(np.zeros(5), np.zeros(5, dtype=int), 1).value == 0.0


def test_width_ratio_adds_the_arms() -> None:
    x, group = cloud(1)
    y, other = cloud(2)
    found = spread.width_ratio(squared(x, group), group, squared(y, other), other, 3)
    a, b = spread.width(squared(x, group), group, 3), spread.width(squared(y, other), other, 3)
    assert found.value == pytest.approx(b.value / a.value)
    assert found.log_variance == pytest.approx(a.log_variance + b.log_variance)
    low, high = spread.log_interval(found.value, found.log_variance, found.df, 0.95)
    assert float(low) * float(high) == pytest.approx(found.value**2)
    p = spread.log_test(found.value, found.log_variance, found.df)
    edge = spread.log_interval(found.value, found.log_variance, found.df, 1 - p)
    assert min(abs(float(edge.low) - 1), abs(float(edge.high) - 1)) < 1e-9


def test_gap_by_hand() -> None:
    x, group = cloud(3, sizes=(7, 6, 4))
    chosen = np.zeros(17, dtype=bool)
    for g, n in ((0, 4), (1, 3)):
        chosen[np.flatnonzero(group == g)[:n]] = True
    chosen[group == 2] = True  # all of them: says nothing
    found = spread.gap(x, group, 3, chosen)

    def drift(x: np.ndarray, group: np.ndarray, chosen: np.ndarray) -> float:
        return plain_width(x, group) - plain_width(x[chosen], group[chosen])

    use = group < 2
    xs, gs, cs = x[use], group[use], chosen[use]
    assert found.value == pytest.approx(drift(xs, gs, cs))
    variance = 0.0
    for g in range(2):
        rows = np.flatnonzero(gs == g)
        left = np.array([drift(*(np.delete(v, i, 0) for v in (xs, gs, cs))) for i in rows])
        variance += (rows.size - 1) / rows.size * np.sum((left - left.mean()) ** 2)
    assert found.variance == pytest.approx(variance)
    assert (found.rows, found.groups, found.df) == (7, 2, 5)


def test_the_square_of_a_shift_is_unbiased() -> None:
    rng = np.random.default_rng(0)
    naive, honest = [], []
    for _ in range(600):
        x, y = rng.normal(size=(5, 10)), rng.normal(size=(5, 10))
        group = np.zeros(5, dtype=int)
        found = spread.shift(
            spread.cells(x, group, 1),
            spread.cells(y, group, 1),
            spread.pooled_covariance(x, group, 1),
            spread.pooled_covariance(y, group, 1),
        )
        honest.append(found.square / 10)
        naive.append(float(found.vector @ found.vector) / 10)
    assert np.mean(naive) == pytest.approx(2 / 5, abs=0.03)  # identical agents are √(2/K) widths apart
    assert np.mean(honest) == pytest.approx(0.0, abs=0.03)
    assert min(honest) < 0


def test_norm_interval_is_the_noncentral_f_turned_round() -> None:
    found = spread.Shift(np.array([1.0, 2.0, 0.5]), np.eye(3) * 0.2, 8.0, 0.0, 1)
    low, high = spread.norm_interval(found, 0.9)
    ratio, df = float(found.vector @ found.vector) / 0.6, 8 * np.sqrt(3)
    # near 0 the error lies on one side, far from it on both alike; together it is a tenth at every length
    extra = [0.05 * np.exp(-float(end) / 0.6) for end in (low, high)]
    assert peer.ncf.sf(ratio, 3, df, float(low) / 0.2) == pytest.approx(0.05 + extra[0], abs=1e-4)
    assert peer.ncf.cdf(ratio, 3, df, float(high) / 0.2) == pytest.approx(0.05 - extra[1], abs=1e-4)
    near = spread.norm_interval(found._replace(vector=np.array([0.1, 0.0, 0.0])), 0.9)
    assert float(near.low) == 0.0
    weak = found._replace(vector=np.array([1.0, 0.6, 0.2]))
    for p in (0.0005, 0.02, 0.0999, 0.1001, 0.4):
        assert (float(spread.norm_interval(weak, 0.9, p).low) > 0) == (p <= 0.1)
    sure = spread.norm_interval(found._replace(covariance=np.zeros((3, 3))), 0.9)
    assert float(sure.low) == float(sure.high) == pytest.approx(5.25)


def test_class_difference_is_welch_with_one_task() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(9, 2)), rng.normal(size=(9, 2))
    label = np.array([0, 1, 0, 1, 1, 1, 0, 1, 0])
    found = features.class_difference(spread.cells(x + y, label, 2))
    reference = peer.ttest_ind((x + y)[label == 1], (x + y)[label == 0], equal_var=False)
    assert features.contrast_test(found) == pytest.approx(reference.pvalue)
    low, high = interval.student(found.value, found.variance, found.df, 0.95)
    theirs = reference.confidence_interval(0.95)
    assert low == pytest.approx(theirs.low)
    assert high == pytest.approx(theirs.high)


def test_class_difference_stays_within_tasks() -> None:
    group = np.repeat([0, 1, 2], 4)
    label = np.array([0, 0, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1])
    x = (10.0 * group + label)[:, None] + 1e-3 * np.arange(12)[:, None] % 2e-3
    found = features.class_difference(spread.cells(x, group * 2 + label, 6))
    assert found.groups == 2
    assert found.value == pytest.approx([1.0], abs=2e-3)
    nothing = features.class_difference(spread.cells(x[8:], label[8:], 2))
    assert nothing.groups == 0
    assert np.isnan(nothing.value[0])


def test_correlation_within_groups() -> None:
    rng = np.random.default_rng(5)
    group = np.repeat([0, 1, 2], 6)
    x, y = rng.normal(size=(18, 2)) + 5 * group[:, None], rng.normal(size=18) - 3 * group
    r, variance, df = features.correlation_left_out(x, y, group, 3)
    centred = [v - np.array([v[group == g].mean(axis=0) for g in range(3)])[group] for v in (x, y)]
    assert r[1] == pytest.approx(np.corrcoef(centred[0][:, 1], centred[1])[0, 1])
    assert df == 14
    assert np.all(variance > 0)
    low, high = features.bounded_interval(r, variance, df, 0.95)
    assert np.all((low < r) & (r < high) & (low > -1) & (high < 1))
    assert np.isnan(features.correlation_left_out(x, x[:, 0], group, 3)[1][0])


def test_scores_and_products_are_sums() -> None:
    x, group = cloud(6)
    y = np.arange(13.0)
    centres = spread.cells(x, group, 3).mean
    score, covariance = spread.scores(x, y, group, centres)
    xs, ys = x - centres[group], y - np.array([y[group == g].mean() for g in range(3)])[group]
    assert score == pytest.approx(ys @ xs)
    expected = sum(
        np.sum(ys[group == g] ** 2) * (xs[group == g].T @ xs[group == g]) / (np.sum(group == g) - 1) for g in range(3)
    )
    assert covariance == pytest.approx(expected)
    assert spread.products(x, x.mean(axis=0)) == pytest.approx(np.cov(x, rowvar=False) * 12)
    assert spread.products(x, np.zeros(3), y) == pytest.approx(y @ x)


def test_welch_df() -> None:
    assert spread.welch_df([1.0, 1.0], [5.0, 5.0]) == pytest.approx(10)
    assert spread.welch_df([1.0, 0.0], [5.0, 7.0]) == pytest.approx(5)
    assert spread.welch_df([0.0, 0.0], [5.0, 7.0]) == 12
