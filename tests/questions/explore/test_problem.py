"""Strategies, tube and stop rule: the first version to the last digit, the default by what it must not do."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ethogram.errors import BadInput, NotFound
from ethogram.questions.explore.acquisition import (
    V1Weights,
    apt_score,
    lsa_score,
    next_round,
    shared_out,
    straddle_score,
    top,
    v1_score,
)
from ethogram.questions.explore.certificate import certificate
from ethogram.questions.explore.problem import (
    ExploreProgress,
    Problem,
    StopRule,
    Tally,
    beta_posterior,
    call_unsafe,
    is_enough,
    posterior_of,
    progress,
)
from ethogram.questions.explore.shared_surface import SharedSurface
from ethogram.questions.explore.strategies import STRATEGIES, RoundSizes, make_strategy
from ethogram.questions.explore.surface import Axis, Belief
from ethogram.questions.explore.tube import (
    MISLEADS,
    against_truth,
    certainty,
    established,
    sets,
    tube_metrics,
    tube_status,
)

LEVELS = np.array(list(itertools.product(range(4), range(4), range(4))))
PROBLEM = Problem(LEVELS, tuple(Axis(4, True) for _ in range(3)), 0.2, 0.02)
TRUTH = np.where(LEVELS[:, 0] + LEVELS[:, 1] >= 4, 0.5, 0.05)


def tally_of(*pairs: tuple[int, int]) -> Tally:
    return Tally(np.array([n for n, _ in pairs]), np.array([f for _, f in pairs]))


def play(strategy, truth, rounds, seed=0):
    """A few rounds against known rates."""
    rng = np.random.default_rng(seed)
    tally = Tally.empty(len(truth))
    proposals = []
    for _ in range(rounds):
        proposal = strategy.propose(rng)
        n, fails = tally.n.copy(), tally.fails.copy()
        n[proposal.points] += proposal.episodes
        fails[proposal.points] += rng.binomial(proposal.episodes, truth[proposal.points])
        tally = Tally(n, fails)
        strategy.look(tally)
        proposals.append(proposal)
    return tally, proposals


def test_the_v1_score_by_hand():
    found = v1_score(tally_of((0, 0), (256, 51)), V1Weights())
    mean = 52 / 258
    assert found[0] == pytest.approx(1 / 12 + 0.5 * np.exp(-0.3 / 0.05), rel=1e-14)
    assert found[1] == pytest.approx(mean * (1 - mean) / 259 + 0.5 * np.exp(-abs(mean - 0.2) / 0.05), rel=1e-12)


def test_ties_go_to_the_lowest_index():
    assert top(np.array([1.0, 3.0, 3.0, 2.0, 3.0]), 3).tolist() == [1, 2, 4]
    first = make_strategy("v1", PROBLEM).propose(np.random.default_rng(0))
    assert first.points.tolist() == list(range(64))
    assert set(first.episodes.tolist()) == {256}


def test_the_first_round_of_v1_takes_64_of_1024_points():
    levels = np.array(list(itertools.product(range(4), repeat=5)))
    strategy = make_strategy("v1", Problem(levels, tuple(Axis(4, True) for _ in range(5)), 0.2, 0.02))
    assert strategy.propose(np.random.default_rng(0)).budget == 16_384


def test_a_small_grid_has_fewer_targets():
    small = Problem(LEVELS[:6], PROBLEM.axes, 0.2, 0.02)
    for name in ("v1", "uniform", "random"):
        proposal = make_strategy(name, small).propose(np.random.default_rng(0))
        assert sorted(proposal.points.tolist()) == list(range(6))
        assert set(proposal.episodes.tolist()) == {256}


def test_a_grid_that_does_not_fit_is_refused():
    huge = Problem(np.zeros((250_001, 3), dtype=np.int64), PROBLEM.axes, 0.2, 0.02)
    with pytest.raises(BadInput, match="at most 250,000 points"):
        make_strategy("default", huge)
    assert make_strategy("lsa", huge).propose(np.random.default_rng(0)).budget == 64


def test_v1_locks_in():
    """Points near tau keep their bonus for ever: an unvisited point cannot compete."""
    scores = v1_score(tally_of((0, 0), (100_000, 20_000), (100_000, 28_000)), V1Weights())
    assert scores[1] > scores[2] > scores[0]


def test_bandit_scores_by_hand():
    tally = tally_of((4, 2), (16, 0), (0, 0))
    assert apt_score(tally, 0.2, 0.02).tolist() == pytest.approx([-2 * 0.32, -4 * 0.22, 0])
    found = lsa_score(tally, 0.2, 4.0)
    assert found[:2].tolist() == pytest.approx([-(4 * 4 * 0.09 + 0.5 * np.log(4)), -(4 * 16 * 0.04 + 0.5 * np.log(16))])
    assert found[2] == np.inf
    assert straddle_score(tally, 0.2, 1.96)[2] == pytest.approx(1.96 * np.sqrt(1 / 12) - 0.3)


def test_a_budget_is_shared_out_evenly():
    assert shared_out(10, 4).tolist() == [3, 3, 2, 2]
    assert shared_out(2, 4).tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_spends_exactly_its_budget_on_distinct_points(name):
    strategy = make_strategy(name, PROBLEM, RoundSizes(targets=16, first=40, least=24))
    tally, proposals = play(strategy, TRUTH, 4)
    assert tally.spent == sum(p.budget for p in proposals)
    assert [p.budget for p in proposals] == [40, 24, 24, 24]
    for proposal in proposals:
        assert len(set(proposal.points.tolist())) == len(proposal.points)
        assert proposal.episodes.min() >= 1
    posterior = strategy.posterior()
    assert np.all((posterior.unsafe >= 0) & (posterior.unsafe <= 1))
    ends = strategy.intervals(0.95)
    assert np.all((ends.low >= 0) & (ends.low <= posterior.mean + 1e-9))
    assert np.all((posterior.mean <= ends.high + 1e-9) & (ends.high <= 1))
    assert np.all(posterior.surely_unsafe <= posterior.unsafe + 1e-12)


@pytest.mark.parametrize("name", STRATEGIES)
def test_strategies_are_functions_of_data_and_seed(name):
    one, two = (make_strategy(name, PROBLEM, RoundSizes(targets=16, first=40, least=24)) for _ in range(2))
    first, second = play(one, TRUTH, 5, seed=3), play(two, TRUTH, 5, seed=3)
    assert all(a.points.tolist() == b.points.tolist() for a, b in zip(first[1], second[1], strict=True))
    assert one.posterior().mean.tolist() == two.posterior().mean.tolist()


def test_an_unknown_strategy_is_named_with_its_neighbour():
    with pytest.raises(NotFound, match="did you mean 'uniform'"):
        make_strategy("unifrom", PROBLEM)


def test_uniform_keeps_all_points_within_one_episode():
    tally, _ = play(make_strategy("uniform", PROBLEM, RoundSizes(first=40, least=24)), TRUTH, 9)
    assert tally.n.max() - tally.n.min() <= 1


def test_the_default_covers_every_point_in_the_end():
    tally, _ = play(make_strategy("default", PROBLEM, RoundSizes(first=32, least=40)), TRUTH, 12)
    assert tally.n.min() >= 1


def test_the_default_learns_a_map_from_few_episodes():
    strategy = make_strategy("default", PROBLEM, RoundSizes(first=32, least=24))
    tally, _ = play(strategy, TRUTH, 10)
    known = against_truth(strategy.posterior(), TRUTH, PROBLEM, 0.95)
    plain = against_truth(beta_posterior(tally, PROBLEM), TRUTH, PROBLEM, 0.95)
    assert known.balanced_accuracy > 0.95
    assert known.balanced_accuracy > plain.balanced_accuracy


def test_a_dead_parameter_is_discovered():
    surface = SharedSurface(PROBLEM)
    rng = np.random.default_rng(1)
    n = np.zeros(64, dtype=np.int64)
    fails = np.zeros(64, dtype=np.int64)
    for _ in range(6):
        n += 6
        fails += rng.binomial(6, TRUTH)
        surface.look(Tally(n.copy(), fails.copy()))
    assert surface.kernel.rho[2] > max(surface.kernel.rho[:2])


def test_draws_have_the_moments_of_the_belief():
    surface = SharedSurface(PROBLEM)
    rng = np.random.default_rng(2)
    n = rng.integers(0, 4, 64)
    surface.look(Tally(n, rng.binomial(n, TRUTH)))
    draws = surface.draws(rng, 20_000)
    logits = np.log(draws / (1 - draws))
    assert logits.mean(axis=0) == pytest.approx(surface.belief.mean, abs=0.06)
    assert logits.var(axis=0) == pytest.approx(surface.belief.variance, rel=0.1)
    with pytest.raises(ValueError, match="before the first look"):
        SharedSurface(PROBLEM).draws(rng, 2)


def test_boxes_weigh_where_rates_are_constant_on_them_and_nothing_on_a_slope():
    rng = np.random.default_rng(4)
    n = np.full(64, 40)
    boxed = np.where((LEVELS[:, 0] >= 2) & (LEVELS[:, 1] >= 1) & (LEVELS[:, 2] < 3), 0.6, 0.19)
    slope = 1 / (1 + np.exp(2.5 - 0.7 * LEVELS.sum(axis=1)))
    shares = []
    for truth in (boxed, slope):
        surface = SharedSurface(PROBLEM)
        surface.look(Tally(n, rng.binomial(n, truth)))
        shares.append(sum(surface.shares[2:]))
        assert sum(surface.shares) == pytest.approx(1)
    assert shares[0] > 0.9
    assert shares[1] == 0
    draws = surface.draws(rng, 11)
    assert draws.shape == (11, 64)


def test_draws_of_boxes_have_the_moments_of_the_belief():
    surface = SharedSurface(PROBLEM)
    rng = np.random.default_rng(5)
    n = np.full(64, 12)
    surface.look(Tally(n, rng.binomial(n, np.where(LEVELS[:, 0] >= 2, 0.7, 0.1))))
    assert sum(surface.shares[2:]) > 0.5
    draws = surface.draws(rng, 4000)
    logits = np.log(draws / (1 - draws))
    assert logits.mean(axis=0) == pytest.approx(surface.belief.mean, abs=0.05)
    assert logits.var(axis=0) == pytest.approx(surface.belief.variance, rel=0.25)


def test_categories_and_single_values_can_be_explored():
    levels = np.array(list(itertools.product(range(3), range(1), range(2))))
    problem = Problem(levels, (Axis(3, False), Axis(1, True), Axis(2, False)), 0.2, 0.02)
    truth = np.where(levels[:, 0] == 1, 0.7, 0.02)
    strategy = make_strategy("default", problem, RoundSizes(first=12, least=12))
    play(strategy, truth, 8)
    assert (strategy.posterior().called == (truth > 0.2)).all()


def test_tube_metrics_by_hand():
    tally = tally_of((8, 0), (8, 1), (8, 4), (0, 0))
    found = tube_metrics(tally, 0.2, None, None)
    variance = [1 * 9 / (100 * 11), 2 * 8 / (100 * 11)]
    assert found.tube_var_sum == pytest.approx(sum(variance))
    assert (found.tube_points_total, found.tube_coverage) == (2, 0.5)
    assert (found.tube_var_delta_prev, found.tube_var_delta_baseline, tube_status(found)) == (None, None, "FIRST_ROUND")
    later = tube_metrics(tally, 0.2, 0.03, 0.01)
    assert later.tube_var_delta_prev == pytest.approx(0.03 - sum(variance))
    assert later.tube_var_delta_baseline == pytest.approx(0.01 - sum(variance))
    assert tube_status(later) == "IMPROVED"
    assert tube_status(tube_metrics(tally, 0.2, 0.01, 0.01)) == "REGRESSED"
    assert tube_status(tube_metrics(tally, 0.2, found.tube_var_sum, 0.01)) == "NO_CHANGE"


def test_an_unexplored_map_has_the_best_headline_figures():
    """Why the sentence stands beside them: nothing explored, tube_var_sum 0 and recall 100 %."""
    nothing = Tally.empty(64)
    assert tube_metrics(nothing, 0.2, None, None).tube_var_sum == 0.0
    known = against_truth(beta_posterior(nothing, PROBLEM), TRUTH, PROBLEM, 0.95)
    assert (known.recall.value, known.specificity.value, known.balanced_accuracy) == (1.0, 0.0, 0.5)
    assert "an unexplored map scores best" in MISLEADS
    assert "balanced accuracy" in MISLEADS


def test_three_sets_and_what_is_wrong_among_them():
    belief = Belief(np.log(0.25) + np.array([-4.0, 0.0, 4.0, -1.7]), np.ones(4))
    problem = Problem(LEVELS[:4], PROBLEM.axes, 0.2, 0.02)
    posterior = posterior_of([belief], problem, Tally.empty(4))
    found = sets(posterior, 0.95)
    assert found.safe.tolist() == [True, False, False, True]
    assert found.unsafe.tolist() == [False, False, True, False]
    known = certainty(posterior, tally_of((3, 0), (2, 1), (4, 4), (0, 0)), problem, 0.95)
    assert (known.safe, known.unsafe, known.undecided) == (2, 1, 1)
    assert known.expected_false_safe == pytest.approx(posterior.unsafe[[0, 3]].sum())
    assert (known.episodes, known.visited, known.episodes_per_point_min) == (9, 3, 0)
    sentences = established(
        known, certificate(posterior, tally_of((3, 0), (2, 1), (4, 4), (0, 0)), problem, 0.95), 4, 0.2
    )
    assert all(s.endswith(".") and s[0].isupper() | s[0].isdigit() for s in sentences)
    sentence = " ".join(sentences)
    assert "2 of 4 points are safe" in sentence
    assert "1 point was never visited" in sentence
    assert "not a bound on error rates" in sentence


def test_calls_lie_between_accuracy_and_prevalence():
    rare = np.array([0.3, *[0.01] * 30])
    assert call_unsafe(rare)[0]
    assert not call_unsafe(rare)[1:].any()
    even = np.array([0.4, 0.6])
    assert call_unsafe(even).tolist() == [False, True]


def test_posteriors_of_rates_integrate_the_logit():
    belief = Belief(np.array([-2.0]), np.array([1.5]))
    draws = 1 / (1 + np.exp(-(-2 + np.sqrt(1.5) * np.random.default_rng(0).standard_normal(400_000))))
    posterior = posterior_of([belief], Problem(LEVELS[:1], PROBLEM.axes, 0.2, 0.02), Tally.empty(1))
    assert posterior.mean[0] == pytest.approx(draws.mean(), abs=2e-3)
    assert posterior.variance[0] == pytest.approx(draws.var(), abs=2e-3)
    assert posterior.unsafe[0] == pytest.approx((draws > 0.2).mean(), abs=5e-3)


def at(balanced, undecided=0, misclassified=0.0, unvisited=0, unproven=0):
    return ExploreProgress(balanced, misclassified, undecided, unvisited, unproven)


@pytest.mark.parametrize(
    ("rule", "seen", "enough"),
    [
        (StopRule(), [at(0.99), at(0.985)], True),
        (StopRule(), [at(0.99)], False),
        (StopRule(), [at(0.97), at(0.99)], False),
        (StopRule(), [at(0.99), at(0.99, unvisited=1)], False),
        (StopRule(), [at(0.99), at(0.99, unproven=1)], False),
        (StopRule(balanced=None, undecided=1.0), [at(0.99), at(0.99, unproven=1)], False),
        (StopRule(), [at(None), at(None)], True),
        (StopRule(balanced=None, undecided=0.1), [at(0.5, undecided=6), at(0.5, undecided=6)], True),
        (StopRule(balanced=None, undecided=0.1), [at(0.5, undecided=7), at(0.5, undecided=7)], False),
        (StopRule(balanced=None, misclassified=0.01, in_a_row=1), [at(0.5, misclassified=0.005)], True),
        (StopRule(undecided=0.1), [at(0.99, undecided=9), at(0.99, undecided=9)], False),
        (StopRule(balanced=None), [at(1.0), at(1.0)], False),
    ],
)
def test_the_stop_rule(rule, seen, enough):
    assert is_enough(rule, seen, 64) is enough


def test_small_expected_error_alone_does_not_stop_on_a_rare_pocket():
    """All called safe after a few looks: the expected error rate is tiny, the expected balanced accuracy is not."""
    belief = Belief(np.where(np.arange(64) == 5, -1.6, -4.0), np.full(64, 0.3))
    looked = Tally(np.ones(64, dtype=np.int64), np.zeros(64, dtype=np.int64))
    posterior = posterior_of([belief], PROBLEM, Tally.empty(64))._replace(called=np.zeros(64, dtype=bool))
    found = progress(posterior, looked, PROBLEM, 0.95)
    assert found.misclassified < 0.01
    assert found.balanced < 0.6


def test_a_point_that_its_neighbours_do_not_explain_speaks_for_itself():
    """Both models are sure of 3 %; four failures of six overrule them, none of six does not."""
    belief = Belief(np.full(64, np.log(0.03 / 0.97)), np.full(64, 0.05))
    n, fails = np.full(64, 6), np.zeros(64, dtype=np.int64)
    fails[5] = 4
    posterior = posterior_of([belief, belief], PROBLEM, Tally(n, fails), belief.mean)
    own = beta_posterior(Tally(n, fails), PROBLEM)
    assert posterior.unsafe[5] == own.unsafe[5] > 0.95
    assert posterior.called.nonzero()[0].tolist() == [5]
    assert posterior.odd == 1
    assert posterior.unsafe[6] < 1e-6 < own.unsafe[6]


def test_own_data_choose_between_models_that_disagree():
    """One model says 5 %, the other 60 %: the average of both decides nothing, fifteen looks at the point do."""
    low, high = (Belief(np.full(64, np.log(p / (1 - p))), np.full(64, 0.1)) for p in (0.05, 0.6))
    n = np.where(np.arange(64) == 3, 15, 0)
    posterior = posterior_of([low, high], PROBLEM, Tally(n, np.zeros(64, dtype=np.int64)))
    assert posterior.unsafe[3] < 0.01
    assert posterior.unsafe[4] == pytest.approx(0.5, abs=0.01)


def test_what_a_certificate_says():
    """Six looks without a failure rule out a lone point that fails half of the time; a lower rate has its price."""
    belief = Belief(np.full(64, np.log(0.03 / 0.97)), np.full(64, 0.05))
    nothing = np.zeros(64, dtype=np.int64)
    short = Tally(np.where(np.arange(64) == 7, 5, 6), nothing)
    found = certificate(posterior_of([belief], PROBLEM, short, belief.mean), short, PROBLEM, 0.95)
    assert (found.pocket_rate, found.may_hide, found.looks, found.unproven, found.episodes) == (0.5, 3, 6, 1, 1)
    assert "1 point is undecided: its neighbours look safe" in " ".join(found.said())
    whole = Tally(nothing + 6, nothing)
    found = certificate(posterior_of([belief], PROBLEM, whole, belief.mean), whole, PROBLEM, 0.95)
    assert found.holds
    assert (found.lower_rate, found.lower_episodes) == (0.3, 64 * 6)  # twelve looks at .3
    assert "a lone point that fails less than half of the time" in " ".join(found.said())
    assert "takes about 384 more episodes (--pocket-rate 0.3)" in " ".join(found.said())
    lowest = PROBLEM._replace(pocket=0.1)
    assert lowest.pocket_rate == pytest.approx(0.22)
    assert certificate(posterior_of([belief], lowest, whole, belief.mean), whole, lowest, 0.95).lower_rate is None


def test_the_looks_of_a_certificate_are_bought_last():
    """While something is to be learned, rounds are the strategy's own; then only lacking looks are bought."""
    content, learning = at(0.99, unproven=60), at(0.9, unproven=60)
    strategy = make_strategy("default", PROBLEM, RoundSizes(targets=16, first=40, least=24))
    play(strategy, TRUTH, 8)
    own = strategy.propose(np.random.default_rng(0))
    for rule, seen in ((None, [content]), (StopRule(), [learning]), (StopRule(), [])):
        same = next_round(strategy, PROBLEM, rule, seen, np.random.default_rng(0))
        assert (same.points.tolist(), same.episodes.tolist()) == (own.points.tolist(), own.episodes.tolist())
    closing = next_round(strategy, PROBLEM, StopRule(), [learning, content], np.random.default_rng(0))
    assert 0 < closing.budget <= own.budget
    assert len(set(closing.points.tolist())) == len(closing.points)
    n, fails, safe = strategy.tally.n, strategy.tally.fails, ~strategy.posterior().called
    assert ((safe & ((n < 6) | (fails > 0))) | (n == 0))[closing.points].all()


def test_looks_at_extremes_are_in_the_interval():
    """A surface never says 0 or 1; no failure of twenty looks leaves room for 0."""
    strategy = make_strategy("default", PROBLEM, RoundSizes(first=64, least=64))
    truth = np.where(LEVELS[:, 0] == 0, 0.0, np.where(LEVELS[:, 0] == 3, 1.0, 0.3))
    play(strategy, truth, 12)
    ends = strategy.intervals(0.95)
    assert ends.low[truth == 0].tolist() == [0.0] * 16
    assert ends.high[truth == 1].tolist() == [1.0] * 16


def test_what_lies_within_the_zone_is_not_asked_about_for_ever():
    """Half of the map is a plateau at tau: once that is known, episodes go to the other half, where calls count."""
    strategy = make_strategy("default", PROBLEM._replace(zone=0.05), RoundSizes(targets=16, first=64, least=64))
    truth = np.where(LEVELS[:, 0] >= 2, 0.2, np.where(LEVELS[:, 1] >= 2, 0.28, 0.12))
    play(strategy, truth, 40)
    worth, plateau = strategy._worth(), truth == 0.2
    before = make_strategy("default", PROBLEM._replace(zone=0.0), RoundSizes(targets=16, first=64, least=64))
    before.look(strategy.tally)
    assert worth[plateau].sum() < 0.7 * before._worth()[plateau].sum()
