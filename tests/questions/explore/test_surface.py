"""Surfaces, look-ahead and level sets: against closed forms, dense linear algebra and simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.questions.explore.levels import chance_above, expected_scores, score_calls
from ethogram.questions.explore.strategies import expected_gain, most_gain, straddle, wrong
from ethogram.questions.explore.surface import (
    Axis,
    Belief,
    average,
    believe,
    contrasts,
    drawn_weights,
    effect_features,
    fit,
    kernel_axes,
    kernel_features,
    level_means,
    one_thread,
    renewed_variances,
    shares,
    spread,
)

AXES = (Axis(4, True), Axis(3, False), Axis(2, True))
LEVELS = np.array(list(itertools.product(range(4), range(3), range(2))))


def dense_kernel(rho):
    """The product kernel, point by point."""
    ours = np.ones((len(LEVELS), len(LEVELS)))
    for d, axis in enumerate(AXES):
        gap = np.abs(LEVELS[:, None, d] - LEVELS[None, :, d])
        step = gap * 3 / (axis.size - 1)
        ours *= rho[d] ** (step**2) if axis.ordered else np.where(gap > 0, rho[d], 1.0)
    return ours


def test_features_rebuild_the_kernel():
    rho = (0.8, 0.5, 0.9)
    full = kernel_features(LEVELS, AXES, rho, 1000)
    assert full.z @ np.diag(full.prior) @ full.z.T == pytest.approx(dense_kernel(rho), abs=1e-8)
    assert full.left == pytest.approx(np.zeros(24), abs=1e-8)
    few = kernel_features(LEVELS, AXES, rho, 5)
    lost = np.diag(dense_kernel(rho) - few.z @ np.diag(few.prior) @ few.z.T)
    assert few.left == pytest.approx(lost, abs=1e-8)
    assert few.prior.tolist() == sorted(full.prior, reverse=True)[:5]


def test_an_axis_that_does_nothing_has_one_eigenvalue():
    values, _ = kernel_axes((Axis(4, True),), (0.999999,))[0]
    assert values[0] == pytest.approx(4, abs=1e-3)
    assert values[1:].sum() < 1e-3


def test_the_fit_is_the_posterior_of_a_gaussian_process():
    """With a flat likelihood at its mode, mean and variance are those of the dense formula with its weights."""
    rng = np.random.default_rng(3)
    rho, own, offset = (0.8, 0.5, 0.9), 0.3, -1.0
    n = rng.integers(1, 9, 24).astype(float)
    fails = rng.binomial(n.astype(int), 0.3).astype(float)
    sampled = np.array([0, 3, 5, 8, 13, 20, 21])
    found_features = kernel_features(LEVELS, AXES, rho, 1000)
    effect = np.full(24, own)
    found = fit(
        found_features.z[sampled],
        2.0 * found_features.prior,
        effect[sampled],
        n[sampled],
        fails[sampled],
        np.full(7, offset),
        offset,
        60,
    )
    belief = believe(found_features.z, found, effect, sampled, offset)
    prior = 2.0 * dense_kernel(rho) + own * np.eye(24)
    p = 1 / (1 + np.exp(-found.logit))
    noise = np.diag(1 / (n[sampled] * p * (1 - p)))
    gain = prior[:, sampled] @ np.linalg.inv(prior[np.ix_(sampled, sampled)] + noise)
    working = (
        found.logit - offset + (fails[sampled] - n[sampled] * p) / np.diag(1 / noise.diagonal()[:, None] * np.eye(7))
    )
    assert belief.mean == pytest.approx(offset + gain @ working, abs=1e-5)
    assert belief.variance == pytest.approx(np.diag(prior - gain @ prior[sampled]), abs=1e-5)
    # the mode: prior pull and data balance
    residual = np.linalg.solve(prior[np.ix_(sampled, sampled)], found.logit - offset)
    assert fails[sampled] - n[sampled] * p == pytest.approx(residual, abs=1e-4)


def test_evidence_is_the_dense_laplace_evidence():
    rng = np.random.default_rng(5)
    rho, own, offset = (0.7, 0.6, 0.9), 0.2, -0.5
    n = np.full(24, 6.0)
    fails = rng.binomial(6, 0.4, 24).astype(float)
    features = kernel_features(LEVELS, AXES, rho, 1000)
    found = fit(features.z, features.prior, np.full(24, own), n, fails, np.full(24, offset), offset, 60)
    prior = dense_kernel(rho) + own * np.eye(24)
    p = 1 / (1 + np.exp(-found.logit))
    weight = n * p * (1 - p)
    root = np.sqrt(weight)
    b = np.eye(24) + root[:, None] * prior * root
    dense = np.sum(fails * found.logit - n * np.logaddexp(0, found.logit))
    dense -= 0.5 * (found.logit - offset) @ np.linalg.solve(prior, found.logit - offset)
    dense -= 0.5 * np.linalg.slogdet(b)[1]
    assert found.evidence == pytest.approx(dense, abs=1e-4)


def test_own_data_overrules_the_neighbours():
    features = kernel_features(LEVELS, AXES, (0.99, 0.99, 0.99), 160)
    n = np.full(24, 400.0)
    fails = np.full(24, 20.0)
    fails[7] = 360
    found = fit(features.z, 2 * features.prior, np.full(24, 0.5), n, fails, np.full(24, -1.4), -1.4, 40)
    p = 1 / (1 + np.exp(-found.logit))
    assert p[7] > 0.8
    assert np.delete(p, 7).max() < 0.15


@pytest.mark.parametrize("axis", [Axis(4, True), Axis(9, True), Axis(3, False), Axis(2, True)])
def test_contrasts_are_orthogonal_and_of_unit_variance(axis):
    basis = contrasts(axis)
    assert basis.T @ basis / axis.size == pytest.approx(np.eye(basis.shape[1]), abs=1e-10)
    assert basis.sum(axis=0) == pytest.approx(np.zeros(basis.shape[1]), abs=1e-10)
    assert basis.shape[1] == min(3, axis.size - 1) if axis.ordered else axis.size - 1


def test_effects_of_the_first_version_have_105_columns():
    levels = np.array(list(itertools.product(range(4), repeat=5)))
    columns, effects, group = effect_features(levels, tuple(Axis(4, True) for _ in range(5)))
    assert columns.shape == (1024, 105)
    assert (len(effects), len(group)) == (15, 105)
    assert np.linalg.matrix_rank(columns) == 105


def test_variances_follow_the_effects_that_are_there():
    rng = np.random.default_rng(1)
    columns, effects, group = effect_features(LEVELS, AXES)
    truth = -1 + 1.5 * columns[:, 0]
    n = np.full(24, 500.0)
    fails = rng.binomial(500, 1 / (1 + np.exp(-truth))).astype(float)
    prior, logit = np.full(len(group), 0.3), np.full(24, -1.0)
    for _ in range(30):
        found = fit(columns, prior, np.full(24, 0.02), n, fails, logit, -1.0, 10)
        prior, logit = renewed_variances(found, prior, group, 1e-4, 25.0), found.logit
    by_effect = {effects[g]: prior[group == g][0] for g in range(len(effects))}
    assert max(by_effect, key=lambda e: by_effect[e]) == (0,)
    assert all(v < by_effect[(0,)] / 5 for e, v in by_effect.items() if e != (0,))


def test_drawn_weights_have_the_posterior_covariance():
    features = kernel_features(LEVELS, AXES, (0.8, 0.5, 0.9), 6)
    n = np.full(24, 5.0)
    found = fit(features.z, features.prior, np.full(24, 0.1), n, n * 0.4, np.full(24, -0.4), -0.4, 20)
    draws = drawn_weights(found, np.random.default_rng(0), 40_000)
    expected = np.linalg.inv(found.factor @ found.factor.T)
    assert np.cov(draws.T) == pytest.approx(expected, abs=0.02)
    assert draws.mean(axis=0) == pytest.approx(found.weights, abs=0.02)


def test_two_opinions_that_disagree_are_less_certain():
    one, two = Belief(np.array([0.0, 1.0]), np.array([1.0, 1.0])), Belief(np.array([0.0, -1.0]), np.array([1.0, 1.0]))
    both = average((one, two), (0.5, 0.5))
    assert both.mean.tolist() == [0.0, 0.0]
    assert both.variance.tolist() == [1.0, 2.0]


@settings(max_examples=25, deadline=None)
@given(st.floats(-2, 2), st.floats(0.2, 2.5), st.sampled_from([1, 4, 16, 64]))
def test_the_gain_is_what_simulation_gives(distance, deviation, more):
    threshold = float(np.log(0.25))
    belief = Belief(np.array([threshold + distance]), np.array([deviation**2]))
    p = 1 / (1 + np.exp(-belief.mean[0]))
    after = 1 / (1 / deviation**2 + more * p * (1 - p))
    nodes = np.linspace(-9, 9, 20_001)  # the error has a kink at the threshold, so a fine grid and not a quadrature
    weights = np.exp(-0.5 * nodes**2)
    moved = distance + nodes * np.sqrt(deviation**2 - after)
    from scipy.special import ndtr

    then = (ndtr(-np.abs(moved) / np.sqrt(after)) * weights).sum() / weights.sum()
    gain = (ndtr(-abs(distance) / deviation) - then) / more
    assert expected_gain(belief, threshold, (more,))[0] == pytest.approx(gain, abs=1e-4 / more)


def test_scores_of_points():
    belief = Belief(np.array([0.0, 2.0]), np.array([1.0, 1.0]))
    assert straddle(belief, 0.0, 1.96) == pytest.approx([1.96, -0.04])
    assert wrong(belief, 0.0) == pytest.approx([0.5, 0.02275], abs=1e-5)
    assert chance_above(Belief(np.array([np.log(0.25)]), np.array([4.0])), 0.2) == pytest.approx([0.5])
    assert chance_above(belief, -0.1).tolist() == [1.0, 1.0]


def test_level_set_scores_by_hand():
    truth = np.array([0.1, 0.19, 0.2, 0.21, 0.3, 0.4])
    called = np.array([False, True, False, False, True, False])
    whole = score_calls(called, truth, 0.2, 0.0)
    assert (whole.recall, whole.specificity, whole.precision) == pytest.approx((1 / 3, 2 / 3, 1 / 2))
    zoned = score_calls(called, truth, 0.2, 0.02)
    assert (zoned.recall, zoned.specificity, zoned.balanced, zoned.above, zoned.below) == (0.5, 1.0, 0.75, 2, 1)
    nobody = score_calls(called, np.full(6, 0.05), 0.2, 0.02)
    assert (nobody.recall, nobody.balanced) == (None, pytest.approx(4 / 6))


def test_expected_scores_weigh_both_sides():
    above, below = np.array([0.9, 0.2, 0.0]), np.array([0.05, 0.7, 1.0])
    found = expected_scores(np.array([True, False, False]), above, below, 0.05)
    assert found.recall == pytest.approx(0.9 / 1.1)
    assert found.specificity == pytest.approx(1.7 / 1.75)
    empty = expected_scores(np.array([False] * 3), np.full(3, 0.001), np.ones(3), 0.05)
    assert (empty.recall, empty.balanced) == (None, 1.0)


def test_effects_of_an_additive_surface():
    levels = np.array(list(itertools.product(range(3), range(4))))
    rates = (0.1 * levels[:, 0] + 0.02 * levels[:, 1])[None, :]
    assert level_means(rates, levels[:, 0], 3)[0] == pytest.approx([0.03, 0.13, 0.23])
    main = [shares(rates, levels, (3, 4), (d,))[0] for d in range(2)]
    assert sum(main) == pytest.approx(1.0)
    assert shares(rates, levels, (3, 4), (0, 1))[0] == pytest.approx(0.0, abs=1e-12)
    crossed = (levels[:, 0] == 2) * (levels[:, 1] == 3) * 0.5
    assert shares(crossed[None, :].astype(float), levels, (3, 4), (0, 1))[0] > 0.4


def test_one_thread_gives_the_threads_back():
    from ethogram.questions.explore.surface import _controls

    before = [read() for read, _ in _controls()]
    with one_thread():
        assert all(read() == 1 for read, _ in _controls())
    assert [read() for read, _ in _controls()] == before


def test_the_best_points_are_found_without_looking_at_all():
    rng = np.random.default_rng(4)
    belief = Belief(rng.normal(-1.4, 1.5, 3000), rng.uniform(0.05, 2.0, 3000))
    counts = rng.uniform(0.0, 1.0, 3000)
    whole = counts * expected_gain(belief, -1.4, (4, 16, 64))
    part = most_gain(belief, -1.4, (4, 16, 64), 20, counts)
    assert np.argsort(-whole)[:20].tolist() == np.argsort(-part)[:20].tolist()
    assert np.sort(part)[-20:].tolist() == np.sort(whole)[-20:].tolist()
    assert (part == 0).sum() > 1000


@pytest.mark.parametrize("size", [1, 31, 33, 161])
def test_spreads_are_quadratic_forms(size):
    rng = np.random.default_rng(size)
    factor = np.tril(rng.normal(size=(size, size))) + 6 * np.eye(size)
    rows = rng.normal(size=(5000, size))
    expected = np.einsum("ij,ij->i", rows, np.linalg.solve(factor @ factor.T, rows.T).T)
    assert spread(rows, factor) == pytest.approx(expected, rel=1e-8)
    assert spread(rows.astype(np.float32), factor) == pytest.approx(expected, rel=1e-3)
