"""The effect of one change: against numbers worked out here, against every course of few pairs, and by properties."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize

from ethogram.errors import BadUsage
from ethogram.questions.fork.effect import (
    ForkPlan,
    PooledPlan,
    fewest_traces,
    find_effect,
    find_pooled_effect,
    rate_of,
    traces_needed,
)
from ethogram.statistics import anytime

QUICK = settings(deadline=None, max_examples=30, derandomize=True)
OUTCOMES = st.lists(st.sampled_from([0.0, 1.0, None]), min_size=1, max_size=24)


def low_end(differences: list[float], pairs: int, level: float = 0.95) -> float:
    """The low end by its definition: bets spread evenly, one product for each, integrated and solved by scipy."""
    first = min(np.sqrt(4 * np.log(2 / (1 - level)) / pairs) / 2, 0.5)

    def capital(mean: float) -> float:
        def of(size: float) -> float:
            return float(np.prod([1 + size * (d - mean) / (1 + mean) for d in differences]))

        return float(integrate.quad(of, first, 0.99)[0] / (0.99 - first))

    if capital(-1 + 1e-9) < 2 / (1 - level):
        return -1.0
    return float(optimize.brentq(lambda m: capital(m) - 2 / (1 - level), -1 + 1e-9, 1 - 1e-9, xtol=1e-10))


@pytest.mark.parametrize(
    ("unchanged", "changed"),
    [
        ([0.0] * 9, [1.0] * 9),
        ([0.0, 0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0, 0.0]),
        ([1.0] * 12, [0.0] * 6 + [1.0] * 6),
    ],
)
def test_the_interval_is_the_one_of_its_definition(unchanged: list[float], changed: list[float]) -> None:
    n = len(unchanged)
    found = find_effect(unchanged, changed, ForkPlan(pairs=n, every=n)).effect
    apart = [b - a for a, b in zip(unchanged, changed, strict=True)]
    assert found.low == pytest.approx(low_end(apart, n), abs=1e-6)
    assert found.high == pytest.approx(-low_end([-d for d in apart], n), abs=1e-6)
    assert found.value == pytest.approx(sum(apart) / n)
    assert (found.n, found.of, found.method) == (n, "pairs", "betting confidence sequence")


def test_it_stops_where_the_interval_leaves_zero_out() -> None:
    found = find_effect([0.0] * 20, [1.0] * 20, ForkPlan(pairs=20))
    assert (found.verdict, found.done, len(found.looks)) == ("raises", True, 7)
    assert [look.low > 0 for look in found.looks] == [False] * 6 + [True]
    assert found.effect.n == 7
    assert "excludes 0 after 7 pairs" in found.why
    assert find_effect([1.0] * 20, [0.0] * 20, ForkPlan(pairs=20)).verdict == "lowers"


def test_it_stops_where_no_pair_that_is_left_could_decide() -> None:
    found = find_effect([1.0] * 30, [1.0] * 30, ForkPlan(pairs=30))
    left = 30 - found.looks[-1].pairs
    assert found.done
    assert found.verdict == "undecided"
    assert "could not change that" in found.why
    rescued = find_effect([1.0] * (30 - left) + [0.0] * left, [1.0] * 30, ForkPlan(pairs=30, every=30))
    assert rescued.verdict == "undecided"
    earlier = find_effect([1.0] * (29 - left) + [0.0] * (left + 1), [1.0] * 30, ForkPlan(pairs=30, every=30))
    assert earlier.verdict == "raises"


def test_looks_are_where_they_were_planned() -> None:
    assert ForkPlan(pairs=10, every=4).looks == (4, 8, 10)
    assert ForkPlan(pairs=3, every=8).looks == (3,)
    found = find_effect([0.0, 1.0] * 5, [1.0, 0.0] * 5, ForkPlan(pairs=60, every=4))
    assert [look.pairs for look in found.looks] == [4, 8]
    assert not found.done
    assert (
        find_effect([0.0], [1.0], ForkPlan(pairs=20, every=4)).effect.why
        == "the first look needs 4 pairs, and 1 are there"
    )


def test_missing_outcomes_are_taken_at_their_worst_for_each_end() -> None:
    unchanged, changed = [0.0] * 6 + [None, 0.0], [1.0] * 6 + [1.0, None]
    plan = ForkPlan(pairs=40, every=8)
    found = find_effect(unchanged, changed, plan, {"infrastructure.network": 2}).effect
    worst = find_effect([0.0] * 6 + [1.0, 0.0], [1.0] * 6 + [1.0, 0.0], plan).effect
    best = find_effect([0.0] * 8, [1.0] * 8, plan).effect
    assert (found.low, found.high) == (pytest.approx(worst.low), pytest.approx(best.high))
    assert found.value == pytest.approx(1.0)
    assert found.missing == {"infrastructure.network": 2}
    assert "2 pairs with a missing outcome" in (found.why or "")


def test_nothing_known_is_no_number() -> None:
    found = find_effect([None] * 3, [1.0] * 3, ForkPlan(pairs=3))
    assert found.effect.value is None
    assert found.effect.why == "one arm has no known outcome"
    assert (found.effect.low, found.effect.high) == (pytest.approx(-1, abs=0.05), 1.0)


def test_plans_that_are_none_are_refused() -> None:
    for plan in (
        ForkPlan(pairs=0),
        ForkPlan(pairs=2, every=0),
        ForkPlan(pairs=2, level=0.2),
        ForkPlan(pairs=2, level=1),
    ):
        with pytest.raises(BadUsage):
            plan.checked()


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.5), (0.1, 0.9), (0.9, 0.3), (0.05, 0.05), (0.3, 0.6)])
def test_the_level_holds_over_every_course(p: float, q: float) -> None:
    """No simulation: all courses of seven pairs with their probabilities, looked at after every pair."""
    chances = {1.0: q * (1 - p), -1.0: p * (1 - q), 0.0: p * q + (1 - p) * (1 - q)}
    bets = anytime.bets_within(7, 0.8)
    courses = np.array(list(product(chances, repeat=7)))
    weight = np.prod(np.vectorize(chances.get)(courses), axis=1)
    assert weight.sum() == pytest.approx(1)
    counts = np.stack([np.cumsum(courses == v, axis=1) for v in (1.0, 0.0, -1.0)])
    distinct, where = np.unique(counts.reshape(3, -1), axis=1, return_inverse=True)
    gained, same, lost = distinct
    low, high = (end[where].reshape(courses.shape) for end in anytime.pair_interval(gained, same, lost, 0.8, bets))
    ever = np.any((low > q - p + 1e-9) | (high < q - p - 1e-9), axis=1)
    assert weight[ever].sum() <= 0.2


@given(OUTCOMES, OUTCOMES, st.integers(1, 6))
@QUICK
def test_properties(one: list[float | None], two: list[float | None], every: int) -> None:
    n = min(len(one), len(two))
    plan = ForkPlan(pairs=24, every=every)
    found, mirrored = find_effect(one, two, plan), find_effect(two, one, plan)
    opposite = {"raises": "lowers", "lowers": "raises", "undecided": "undecided"}
    assert mirrored.verdict == opposite[found.verdict]
    if not found.looks:
        assert n < every
        return
    at = found.looks[-1]
    assert at.gained + at.lost + at.same + at.missing == at.pairs <= n
    assert found.effect.low == pytest.approx(-(mirrored.effect.high or 0.0), abs=1e-9)
    assert -1 <= at.low <= at.high <= 1
    # more was seen later, but what a look said stands
    again = find_effect(one[: at.pairs], two[: at.pairs], plan)
    assert again.looks == found.looks
    assert again.verdict == found.verdict


@given(OUTCOMES, st.data())
@QUICK
def test_whatever_was_missing_the_interval_holds_it(one: list[float | None], data: st.DataObject) -> None:
    two = data.draw(st.lists(st.sampled_from([0.0, 1.0, None]), min_size=len(one), max_size=len(one)))
    filled = [[data.draw(st.sampled_from([0.0, 1.0])) if x is None else x for x in arm] for arm in (one, two)]
    plan = ForkPlan(pairs=len(one), every=len(one))
    found, known = find_effect(one, two, plan).effect, find_effect(*filled, plan).effect
    assert found.low is not None
    assert found.high is not None
    assert known.low is not None
    assert known.high is not None
    assert found.low <= known.low + 1e-9
    assert found.high >= known.high - 1e-9


Arms = tuple[list[float | None], list[float | None]]
THREE: list[Arms] = [([0.0, 0.0], [1.0, 1.0]), ([0.0, 1.0], [1.0, 1.0]), ([1.0, 1.0], [1.0, 0.0])]
"""Three traces with two pairs: on average the change gains 1, 1/2 and loses 1/2."""


def test_pairs_of_one_trace_are_one_observation() -> None:
    found = find_pooled_effect(THREE, PooledPlan(traces=3, each=2, every=3)).effect
    means = [1.0, 0.5, -0.5]
    assert found.low == pytest.approx(low_end(means, 3), abs=1e-6)
    assert found.high == pytest.approx(-low_end([-d for d in means], 3), abs=1e-6)
    assert found.value == pytest.approx(1 / 3)
    assert (found.n, found.of) == (3, "traces")
    look = find_pooled_effect(THREE, PooledPlan(traces=3, each=2, every=3)).looks[0]
    assert (look.traces, look.pairs, look.gained, look.lost, look.same) == (3, 6, 3, 1, 2)
    flat = find_effect([0.0, 0.0, 0.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 0.0], ForkPlan(pairs=6, every=6))
    assert (flat.effect.low or 0.0) > (found.low or 0.0), "six pairs of three traces say less than six traces would"


def test_one_pair_of_each_trace_is_a_fork_of_pairs() -> None:
    one, two = [0.0, 1.0, 0.0, None], [1.0, 1.0, 0.0, 1.0]
    pooled = find_pooled_effect([([a], [b]) for a, b in zip(one, two, strict=True)], PooledPlan(traces=9))
    single = find_effect(one, two, ForkPlan(pairs=9))
    assert [(k.low, k.high) for k in pooled.looks] == [(k.low, k.high) for k in single.looks]


def test_a_trace_counts_once_all_its_pairs_are_there() -> None:
    plan = PooledPlan(traces=9, each=2)
    begun: list[Arms] = [*THREE[:2], ([0.0], [1.0]), THREE[2]]
    assert find_pooled_effect(begun, plan).looks == find_pooled_effect(THREE[:2], plan).looks
    nothing = find_pooled_effect([([0.0], [])], plan)
    assert nothing.effect.why == "the first look needs 1 traces, and 0 are there"
    assert not nothing.done


def test_pooled_forks_stop_early_both_ways() -> None:
    good: list[Arms] = [([0.0, 0.0], [1.0, 1.0])] * 20
    found = find_pooled_effect(good, PooledPlan(traces=20, each=2))
    assert (found.verdict, found.done, found.effect.n) == ("raises", True, 7)
    none: list[Arms] = [([1.0, 0.0], [1.0, 0.0])] * 20
    idle = find_pooled_effect(none, PooledPlan(traces=20, each=2))
    assert (idle.verdict, idle.done) == ("undecided", True)
    assert "the traces that are left could not change that" in idle.why
    left = 20 - idle.looks[-1].traces
    assert find_pooled_effect([*none[left:], *good[:left]], PooledPlan(traces=20, each=2)).verdict == "undecided"
    assert (
        find_pooled_effect([*none[left + 1 :], *good[: left + 1]], PooledPlan(traces=20, each=2, every=20)).verdict
        == "raises"
    )


@given(
    st.lists(st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, None])] * 2), min_size=3, max_size=3), max_size=8),
    st.data(),
)
@QUICK
def test_whatever_was_missing_a_pooled_interval_holds_it(
    drawn: list[list[tuple[float | None, float | None]]], data: st.DataObject
) -> None:
    plan = PooledPlan(traces=8, each=3, every=8)
    padded = [*drawn, *[[(0.0, 1.0)] * 3] * (8 - len(drawn))]
    seen: list[Arms] = [([a for a, _ in pairs], [b for _, b in pairs]) for pairs in padded]
    filled: list[Arms] = [
        (
            [data.draw(st.sampled_from([0.0, 1.0])) if a is None else a for a in one],
            [data.draw(st.sampled_from([0.0, 1.0])) if b is None else b for b in two],
        )
        for one, two in seen
    ]
    (found,), (known,) = find_pooled_effect(seen, plan).looks, find_pooled_effect(filled, plan).looks
    assert found.low <= known.low + 1e-9
    assert found.high >= known.high - 1e-9


def test_pooled_plans_that_are_none_are_refused() -> None:
    for plan in (PooledPlan(traces=0), PooledPlan(traces=2, each=0), PooledPlan(traces=2, level=1)):
        with pytest.raises(BadUsage):
            plan.checked()


def test_a_rate_from_a_fixed_number_of_continuations() -> None:
    found = rate_of([1.0, 0.0, 1.0, None], 0.95, {"killed": 1}, fixed=True)
    assert found.value == pytest.approx(2 / 3)
    assert found.low == pytest.approx(0.06758, abs=1e-4)  # 2 of 4
    assert found.high == pytest.approx(0.99369, abs=1e-4)  # 3 of 4
    assert (found.n, found.missing, found.method) == (3, {"killed": 1}, "clopper-pearson")
    assert rate_of([None], 0.95, {}, fixed=True).why == "no continuation has an outcome"
    assert rate_of([1.0], 0.95, {}, fixed=False).low is None


def high_of_zeros(count: int, level: float = 0.95) -> float:
    """The high end by its definition, where nothing ever changed: bets on a mean below u each win λu / (1 - u)."""
    first = min(np.sqrt(4 * np.log(2 / (1 - level)) / count) / 2, 0.5)

    def capital(high: float) -> float:
        won = integrate.quad(lambda size: (1 + size * high / (1 - high)) ** count, first, 0.99)[0]
        return float(won / (0.99 - first))

    return float(optimize.brentq(lambda u: capital(u) - 2 / (1 - level), 1e-6, 0.5))


def test_an_effect_below_the_smallest_that_matters_ends_it() -> None:
    """Traces that all stay as they were: the upper end is the one of its definition, and it is negligible or not."""
    for count, smallest, verdict in ((60, 0.1, "negligible"), (60, 0.05, "undecided"), (30, 0.1, "undecided")):
        plan = PooledPlan(traces=count, each=2, every=count, smallest=smallest)
        found = find_pooled_effect([([1.0, 0.0], [1.0, 0.0])] * count, plan)
        assert found.effect.high == pytest.approx(high_of_zeros(count), abs=1e-5)
        assert found.verdict == verdict
    harm = find_pooled_effect([([1.0], [0.0])] * 20, PooledPlan(traces=20, every=20, smallest=0.1))
    assert harm.verdict == "lowers"
    with pytest.raises(BadUsage, match="smallest effect"):
        PooledPlan(traces=3, smallest=0.0).checked()


def test_how_many_traces_would_settle_it() -> None:
    for level in (0.95, 0.99):
        fewest = fewest_traces(level)
        assert low_end([1.0] * fewest, fewest, level) > 0 >= low_end([1.0] * (fewest - 1), fewest - 1, level)
    plan = PooledPlan(traces=30, every=30, smallest=0.1)
    needed = traces_needed([([1.0], [1.0])] * 30, plan)
    assert needed is not None
    assert high_of_zeros(needed) < 0.1 <= high_of_zeros(int(needed / 1.3))
    assert traces_needed([], plan) is None
    assert traces_needed([([0.0], [1.0])] * 12, plan) == 12, "settled as it is"
