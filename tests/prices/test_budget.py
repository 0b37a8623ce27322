from __future__ import annotations

import pickle
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.errors import BadUsage
from ethogram.prices import Amounts, Budget, CapReached, Caps
from ethogram.prices.budget import Unmetered


def nested(**caps: Caps) -> tuple[Budget, Budget, Budget]:
    experiment = Budget("experiment", caps.get("experiment", Caps()))
    task = Budget("task", caps.get("task", Caps()), experiment)
    return experiment, task, Budget("episode", caps.get("episode", Caps()), task)


def test_use_flows_to_every_level() -> None:
    experiment, task, episode = nested()
    episode.reserve(Amounts(usd=1.0))
    assert experiment.reserved.usd == 1.0
    episode.settle(Amounts(usd=1.0), Amounts(usd=0.4, tokens=100))
    for level in (experiment, task, episode):
        assert (level.used.usd, level.used.tokens, level.reserved.usd) == (0.4, 100, 0.0)


def test_the_outermost_exhausted_level_speaks() -> None:
    experiment, _, episode = nested(experiment=Caps(usd=1.0), episode=Caps(usd=1.0))
    episode.settle(Amounts(), Amounts(usd=1.0))
    with pytest.raises(CapReached, match="the experiment's cap of 1 usd is reached") as caught:
        episode.reserve(Amounts())
    assert (caught.value.level, caught.value.resource, caught.value.used) == ("experiment", "usd", 1.0)
    assert experiment.exhausted() is not None


def test_a_refused_reservation_leaves_nothing_behind() -> None:
    experiment, task, episode = nested(experiment=Caps(tokens=100), episode=Caps(tokens=10))
    with pytest.raises(CapReached) as caught:
        episode.reserve(Amounts(tokens=11))
    assert caught.value.level == "episode"
    assert experiment.reserved.tokens == task.reserved.tokens == 0


def test_remaining_is_the_least_over_levels() -> None:
    experiment, _, episode = nested(experiment=Caps(usd=1.0, steps=50), episode=Caps(usd=5.0, seconds=3))
    experiment.settle(Amounts(), Amounts(usd=0.75))
    assert episode.remaining() == {"usd": 0.25, "steps": 50, "seconds": 3}


def test_an_earlier_session_counts() -> None:
    experiment = Budget("experiment", Caps(usd=1.0), spent=Amounts(usd=0.9))
    with pytest.raises(CapReached):
        experiment.reserve(Amounts(usd=0.2))


@given(
    cap=st.floats(0.1, 10),
    calls=st.lists(st.tuples(st.floats(0, 2), st.floats(0, 2)), max_size=60),
)
def test_a_cap_is_never_passed_by_more_than_one_call(cap: float, calls: list[tuple[float, float]]) -> None:
    experiment, _, episode = nested(experiment=Caps(usd=cap))
    largest = 0.0
    for wanted, really in calls:
        try:
            episode.reserve(Amounts(usd=wanted))
        except CapReached:
            continue
        episode.settle(Amounts(usd=wanted), Amounts(usd=really))
        largest = max(largest, really)
    assert experiment.used.usd <= cap + largest + 1e-9
    assert abs(experiment.reserved.usd) < 1e-9


def test_honest_reservations_of_many_threads_never_pass_a_cap() -> None:
    experiment = Budget("experiment", Caps(tokens=1000))

    def work() -> None:
        budget = Budget("episode", Caps(), experiment)
        for _ in range(200):
            try:
                budget.reserve(Amounts(tokens=7))
            except CapReached:
                return
            budget.settle(Amounts(tokens=7), Amounts(tokens=7))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert experiment.used.tokens <= 1000
    assert experiment.used.tokens > 1000 - 7


def test_calls_whose_sum_is_the_cap_all_fit() -> None:
    budget = Budget("experiment", Caps(usd=1.0))
    for _ in range(20):
        budget.reserve(Amounts(usd=0.05))
        budget.settle(Amounts(usd=0.05), Amounts(usd=0.05))
    assert budget.used.usd == pytest.approx(1.0)
    with pytest.raises(CapReached):
        budget.reserve(Amounts())


@pytest.mark.parametrize("error", [CapReached("task", "usd", 1.0, 1.5), Unmetered("task", "usd", "no price")])
def test_a_reached_cap_travels_between_processes(error: CapReached) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
    assert (again.level, again.resource) == ("task", "usd")


def test_a_level_that_another_process_keeps_is_asked_for_every_call() -> None:
    asked: list[str] = []

    class Elsewhere(Budget):
        def take(self, want: Amounts) -> None:
            asked.append("take")
            if want.usd > 1:
                raise CapReached(self.level, "usd", 1.0, 0.0)

        def give_back(self, want: Amounts) -> None:
            asked.append("give back")

        def spend(self, want: Amounts, used: Amounts) -> None:
            asked.append("spend")

    episode = Budget("episode", Caps(steps=1), Elsewhere("experiment", Caps(usd=1.0)))
    episode.reserve(Amounts(steps=1))
    assert asked == ["take"]
    episode.settle(Amounts(steps=1), Amounts(steps=1))
    with pytest.raises(CapReached, match="experiment"):
        episode.reserve(Amounts(usd=2))
    with pytest.raises(CapReached, match="episode"):
        episode.reserve(Amounts(steps=1))
    assert asked == ["take", "spend", "take", "take", "give back"]


@pytest.mark.parametrize("cap", [float("nan"), -1.0])
def test_a_cap_that_could_stop_nothing_is_refused(cap: float) -> None:
    with pytest.raises(BadUsage, match=r"the cap experiment\.usd must be a number from 0 on"):
        Budget("experiment", Caps(usd=cap))
