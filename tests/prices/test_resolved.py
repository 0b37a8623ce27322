"""Cost per resolved task: by hand, against the bootstrap, at the edges, and by simulation beside the naive ratio."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from ethogram.estimate import Estimate
from ethogram.prices.resolved import WIDEST, PricedEpisodes, cost_share, per_resolved, per_run, product, resolution
from ethogram.statistics import interval, passk, positive, ratio

LEVEL = 0.95


def drawn(seed: int, tasks: int = 40, attempts: int = 3) -> PricedEpisodes:
    rng = np.random.default_rng(seed)
    p = rng.beta(1.4, 0.6, tasks)
    task = np.repeat(np.arange(tasks), attempts)
    resolved = (rng.random(task.size) < p[task]).astype(float)
    cost = np.exp(0.5 * rng.standard_normal(tasks))[task] * np.where(resolved > 0, 1.0, 1.6)
    return PricedEpisodes(task, cost, resolved)


def test_it_is_the_proved_ratio_over_tasks():
    episodes = drawn(1)
    x, y = (v.reshape(40, 3).mean(axis=1) for v in (episodes.cost, episodes.resolved))
    achieved = passk.population(y[:, None], np.full(40, 3), [1], LEVEL)
    wanted = ratio.mover_ratio(
        ratio.cluster_means(x, y),
        positive.population_mean(x, LEVEL),
        interval.Interval(achieved.low[0], achieved.high[0]),
    )
    found = per_resolved(episodes, LEVEL)
    assert found.value == pytest.approx(x.mean() / y.mean())
    assert (found.low, found.high) == (pytest.approx(float(wanted.low)), pytest.approx(float(wanted.high)))
    assert (found.n, found.of, found.method) == (40, "tasks", "mover-r population")


def test_an_independent_method_agrees_where_there_is_much_data():
    episodes = drawn(2, tasks=400, attempts=4)
    x, y = (v.reshape(400, 4).mean(axis=1) for v in (episodes.cost, episodes.resolved))
    low, high = bootstrap(
        (x, y),
        lambda a, b, axis: a.mean(axis=axis) / b.mean(axis=axis),
        paired=True,
        vectorized=True,
        method="BCa",
        confidence_level=LEVEL,
        n_resamples=4000,
        rng=np.random.default_rng(3),
    ).confidence_interval
    found = per_resolved(episodes, LEVEL)
    width = float(high - low)
    assert abs(found.low - low) < 0.15 * width
    assert abs(found.high - high) < 0.15 * width


def test_few_tasks_speak_of_themselves_only():
    found = per_resolved(drawn(3, tasks=8), LEVEL)
    assert found.method == "mover-r suite"
    assert found.low < found.value < found.high < np.inf
    assert per_run(drawn(3, tasks=8), LEVEL).method == "t and Cox suite"
    assert per_run(drawn(3, tasks=20), LEVEL).method == "t and Cox population"


def test_nothing_resolved_costs_at_least_something():
    episodes = drawn(4)._replace(resolved=np.zeros(120))
    found = per_resolved(episodes, LEVEL)
    assert (found.value, found.high) == (None, np.inf)
    assert found.low > 1.0
    assert "nothing was resolved in 120 attempts" in (found.why or "")


def test_an_interval_that_says_nothing_is_refused_with_what_is_needed():
    """Four unlike tasks, run once: a lognormal tail fitted to them reaches a million dollars."""
    few = PricedEpisodes(np.arange(4), np.array([0.001, 0.2, 0.03, 0.9]), np.ones(4))
    for found in (per_run(few, 0.95), per_resolved(few, 0.95)):
        assert found.value == pytest.approx(0.28275)
        assert (found.low, found.high) == (None, None)
        assert found.why is not None
        assert found.why.startswith("4 attempts at 4 tasks cannot show how far costs reach: an interval would end at $")
        assert found.why.endswith("a useful one needs about 32 tasks like these")
    enough = PricedEpisodes(np.arange(32), np.tile(few.cost, 8), np.ones(32))
    assert per_resolved(enough, 0.95).high < WIDEST * 0.28275
    alike = PricedEpisodes(np.arange(4), np.array([0.1, 0.1, 0.12, 0.11]), np.ones(4))
    assert per_resolved(alike, 0.95).high < 0.25


def test_everything_resolved_keeps_its_width():
    found = per_resolved(drawn(5)._replace(resolved=np.ones(120), cost=np.ones(120)), LEVEL)
    assert found.value == 1.0
    assert found.low == pytest.approx(1.0)
    assert found.high > 1.02


def test_what_is_missing_is_counted_and_left_out():
    episodes = drawn(6)
    cost, resolved = episodes.cost.copy(), episodes.resolved.copy()
    cost[:6], resolved[3:12] = np.nan, np.nan
    found = per_resolved(episodes._replace(cost=cost, resolved=resolved), LEVEL)
    assert found.missing == {"outcome missing": 9, "cost unknown": 3}
    assert found.n == 36
    rest = PricedEpisodes(episodes.task[12:], episodes.cost[12:], episodes.resolved[12:])
    assert found.value == pytest.approx(per_resolved(rest.where(np.ones(108, dtype=bool)), LEVEL).value)
    assert per_run(episodes._replace(cost=cost), LEVEL).missing == {"cost unknown": 6}
    assert resolution(episodes._replace(resolved=resolved), LEVEL).missing == {"outcome missing": 9}


@pytest.mark.parametrize(
    ("cost", "resolved", "why"),
    [
        ([np.nan, np.nan], [1.0, 0.0], "the cost of all 2 scored episodes is unknown"),
        ([1.0, 2.0], [np.nan, np.nan], "no outcome is scored"),
        ([1.0], [0.0], "nothing was resolved"),
        ([1.0], [1.0], "one attempt is too few for an interval: 4 are needed, ideally 3 per task"),
        (
            [1.0, 2.0, 1.5],
            [1.0, 0.0, 1.0],
            "3 attempts are too few for an interval: 4 are needed, ideally 3 per task",
        ),
    ],
)
def test_too_little_says_why(cost, resolved, why):
    found = per_resolved(PricedEpisodes(np.arange(len(cost)), np.asarray(cost), np.asarray(resolved)), LEVEL)
    assert (found.low, found.high, found.why) == (None, None, why)
    assert (found.value is None) == ("too few for an interval" not in why)


def test_tasks_weigh_equally_whatever_their_attempts():
    episodes = PricedEpisodes(
        np.asarray([0, 0, 0, 1]), np.asarray([1.0, 1.0, 1.0, 3.0]), np.asarray([1.0, 1.0, 1.0, 0.0])
    )
    assert per_run(episodes, LEVEL).value == 2.0
    assert resolution(episodes, LEVEL).value == 0.5
    assert per_resolved(episodes, LEVEL).value == 4.0


def test_a_cheaper_price_scales_everything():
    episodes = drawn(7)
    found = cost_share(episodes, 0.25 * episodes.cost, LEVEL)
    assert (found.value, found.low, found.high) == (0.25, pytest.approx(0.25), pytest.approx(0.25))
    even = product(found, resolution(episodes, LEVEL), LEVEL)
    rate = resolution(episodes, LEVEL)
    assert even.value == pytest.approx(0.25 * rate.value)
    assert (even.low, even.high) == (pytest.approx(0.25 * rate.low), pytest.approx(0.25 * rate.high))


def test_the_share_of_a_few_tasks_has_a_value_and_no_interval():
    """Nineteen tasks whose share takes two values: an interval within tasks covered .92 or less in such cells."""
    episodes = drawn(7, tasks=19)
    other = episodes.cost * np.where(np.arange(episodes.cost.size) % 3 == 0, 0.1, 1.0)
    found = cost_share(episodes, other, LEVEL)
    why = "19 tasks cannot show how far the share reaches; an interval needs 20 tasks"
    assert found.value == pytest.approx(other.sum() / episodes.cost.sum())
    assert (found.low, found.high, found.why, found.n) == (None, None, why, 19)
    rate = resolution(episodes, LEVEL)
    even = product(found, rate, LEVEL)
    assert even.value == pytest.approx(found.value * rate.value)
    assert (even.low, even.high, even.why) == (None, None, why)
    enough = drawn(7, tasks=20)
    other = enough.cost * np.where(np.arange(enough.cost.size) % 3 == 0, 0.1, 1.0)
    assert cost_share(enough, other, LEVEL).low is not None


def test_a_product_by_hand():
    a, b = (Estimate(value=v, low=v / 2, high=v * 3, n=9, of="tasks") for v in (0.5, 0.4))
    found = product(a, b, LEVEL)
    assert found.value == pytest.approx(0.2)
    assert found.low == pytest.approx(0.2 * np.exp(-np.sqrt(2) * np.log(2)))
    assert found.high == pytest.approx(0.2 * np.exp(np.sqrt(2) * np.log(3)))
    assert product(a, Estimate(value=0.0, low=0.0, high=0.1), LEVEL).value is None


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(1, 4))
@settings(deadline=None, max_examples=60, derandomize=True)
def test_the_value_lies_in_its_interval(seed, tasks, attempts):
    episodes = drawn(seed, tasks, attempts)
    for found in (per_run(episodes, LEVEL), per_resolved(episodes, LEVEL), resolution(episodes, LEVEL)):
        if found.value is not None and found.low is not None:
            assert 0 <= found.low <= found.value <= found.high


@pytest.mark.parametrize("tasks", [8, 50])
def test_it_covers_and_the_naive_ratio_does_not(tasks):
    """Total dollars over resolved runs, with runs as if independent and money as if fixed: far too sure of itself."""
    rng = np.random.default_rng(11)
    p = rng.beta(1.4, 0.6, tasks)
    base = np.exp(rng.standard_normal(tasks))
    task = np.repeat(np.arange(tasks), 4)
    ours = naive = 0
    draws = 400
    for _ in range(draws):
        if tasks >= 20:
            p, base = rng.beta(1.4, 0.6, tasks), np.exp(rng.standard_normal(tasks))
        resolved = (rng.random(task.size) < p[task]).astype(float)
        cost = base[task] * np.where(resolved > 0, 1.0, 1.6) * np.exp(0.3 * rng.standard_normal(task.size))
        if tasks >= 20:
            truth = np.exp((1 + 0.09) / 2) * (0.7 + 1.6 * 0.3) / 0.7
        else:
            truth = float(np.mean(base * (p + 1.6 * (1 - p)) * np.exp(0.045)) / p.mean())
        found = per_resolved(PricedEpisodes(task, cost, resolved), LEVEL)
        ours += found.low <= truth <= found.high
        rate = interval.wilson(resolved.sum(), resolved.size, LEVEL)
        naive += bool(cost.mean() / rate.high <= truth <= cost.mean() / rate.low)
    assert ours / draws >= 0.90
    if tasks >= 20:
        assert naive / draws < 0.7
