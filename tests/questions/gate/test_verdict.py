"""The gate on arrays: planned looks, verdicts that stand, nothing that passes in silence."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ethogram.errors import BadUsage, NotFound
from ethogram.measures.outcomes import Outcomes, outcomes_of
from ethogram.questions.gate import power
from ethogram.questions.gate.allocation import plan_gate
from ethogram.questions.gate.noise import outcome_floor
from ethogram.questions.gate.plan import GateSettings, believed_rates, missing_share, planning_rates, session_variance
from ethogram.questions.gate.verdict import Judgement, judgement

Made = Callable[..., Outcomes]
TABLE = {1: 1.64, 2: 1.74, 3: 1.80, 4: 1.83, 5: 1.86, 6: 1.87, 8: 1.90, 10: 1.93, 15: 1.95, 20: 1.98}


def asked(base: Outcomes, candidate: Outcomes, **given: Any) -> Judgement:
    promised = GateSettings(**{"margin": 0.1, **given})
    return judgement(base, candidate, plan_gate(base, promised, base.tasks), promised)


@pytest.fixture(scope="module")
def rates() -> np.ndarray:
    return np.random.default_rng(2).beta(1.4, 0.6, 50)


@pytest.fixture(scope="module")
def base(made: Made, rates: np.ndarray) -> Outcomes:
    return made(np.random.default_rng(3).random((20, 50)) < rates)


def test_bounds_are_those_of_the_table(made: Made) -> None:
    """c t^(-1/4) with the constants that were found elsewhere, for looks at equal steps of information."""
    plan = power.staged(power.effect_on(np.full(400, 0.7), 0.05, 400), 0.05, 0.8, np.arange(1, 6), 0.25, 0.0)
    assert plan.upper[-1] == pytest.approx(TABLE[5], abs=0.01)
    seen = {}
    for margin in (0.1, 0.12, 0.15, 0.2):
        pilot = made(np.tile([[1.0] * 25 + [0.0] * 25, [0.0] * 25 + [1.0] * 25], (4, 1)))
        promised = GateSettings(margin=margin, fresh=True, every=1.0)
        plan = plan_gate(pilot, promised, pilot.tasks)
        seen[len(plan.looks)] = plan.upper[-1]
        np.testing.assert_allclose(plan.upper, plan.upper[-1] * np.array(plan.fractions) ** -0.25, rtol=1e-6)
    checked = [looks for looks in seen if looks in TABLE]
    assert len(checked) >= 2
    for looks in checked:
        assert seen[looks] == pytest.approx(TABLE[looks], abs=0.02)


@pytest.mark.parametrize("stored", [0.0, 20.0])
def test_a_hundred_looks_have_bounds_like_any_other(stored: float) -> None:
    """Small margins need many looks; once the grid between them was too coarse and no z could ever reach its bound."""
    effect = power.effect_on(np.linspace(0.3, 0.99, 50), 0.04, 50)
    few, many = (
        power.staged(effect, 0.05, 0.8, e * np.arange(1, n + 1), 0.25, stored) for e, n in ((1.0, 30), (0.25, 120))
    )
    assert few.upper[-1] < many.upper[-1] < few.upper[-1] + 0.1
    assert many.power == pytest.approx(few.power, abs=0.02)
    assert many.expected_with < few.expected_with


def test_a_broken_candidate_is_found_at_the_first_look(made: Made, base: Outcomes) -> None:
    found = asked(base, made(np.zeros((20, 50))))
    assert (found.verdict, found.decided_at, len(found.looks)) == ("regression", 1, 1)
    assert found.difference.high < 0
    assert found.looks[0].z >= found.looks[0].bound
    assert found.looks[0].worst_case <= 1.0
    assert found.why.startswith("success fell by ")
    assert "; a drop above 0 is established at look 1 of " in found.why
    assert (found.next_runs, found.remaining_runs) == (0, 0)


def test_a_better_candidate_passes_and_says_what_is_ruled_out(made: Made, base: Outcomes) -> None:
    found = asked(base, made(np.ones((20, 50))))
    assert found.verdict == "pass"
    assert found.looks[-1].worst_case < 0.1
    assert "a drop of 0.1 is ruled out at look" in found.why


def test_too_few_runs_are_undecided_and_counted(made: Made, base: Outcomes, rates: np.ndarray) -> None:
    some = made(np.random.default_rng(5).random((20, 50)) < rates)
    promised = GateSettings(margin=0.05, every=0.5)
    plan = plan_gate(base, promised, base.tasks)
    due = plan.attempts()
    none = judgement(base, some.where(some.attempt < 0), plan, promised)
    assert none.verdict == "undecided"
    assert (none.next_runs, none.remaining_runs) == (int(due[0].sum()), int(due[-1].sum()))
    assert "not all there yet" in none.why
    assert none.difference.value is None
    # all but one attempt of the first look: the look has not come
    order = np.array(plan.order[: plan.runs[0]])
    almost = (some.attempt == 0) & np.isin(some.task, order[:-1])
    short = judgement(base, some.where(almost), plan, promised)
    assert (short.verdict, short.looks, short.next_runs) == ("undecided", [], 1)


def test_a_used_up_plan_never_passes_in_silence(made: Made, base: Outcomes, rates: np.ndarray) -> None:
    """Half the margin is neither nothing nor too much: what is still possible is said."""
    rng = np.random.default_rng(8)
    said = []
    promised = GateSettings(margin=0.1)
    plan = plan_gate(base, promised, base.tasks)
    for _ in range(120):
        found = judgement(base, made(rng.random((20, 50)) < power.shifted(rates, 0.06)), plan, promised)
        said.append(found.verdict)
        if found.verdict == "undecided":
            assert found.looks[-1].worst_case >= 0.1 or "calls it a regression" in found.why
            assert "is still possible" in found.why or "; but compare" in found.why
        if found.verdict == "pass":
            assert found.looks[-1].worst_case < 0.1
    assert "undecided" in said


def test_all_missing_is_undecided(made: Made, base: Outcomes) -> None:
    found = asked(base, made(np.full((20, 50), np.nan)))
    assert found.verdict == "undecided"
    assert found.why == "no attempt that is due has a score on both sides"
    assert found.difference.value is None
    with pytest.raises(BadUsage, match="no attempt with a known success"):
        asked(made(np.full((20, 50), np.nan)), base)


def test_low_coverage_is_undecided_however_clear_the_rest(made: Made, base: Outcomes) -> None:
    torn = np.where(np.arange(1000).reshape(20, 50) % 10 < 3, np.nan, 0.0)
    found = asked(base, made(torn), every=1.0)
    assert found.verdict == "undecided"
    assert re.fullmatch("only 70% of the attempts due have a score; 80% are needed", found.why)
    assert asked(base, made(torn), min_coverage=0.6).verdict == "regression"


@pytest.mark.parametrize("value", [1.0])
def test_all_pass_passes(made: Made, value: float) -> None:
    sure = made(np.full((20, 50), value))
    assert asked(sure, sure).verdict == "pass"
    assert asked(sure, made(np.zeros((20, 50)))).verdict == "regression"


def test_where_no_such_drop_is_possible_the_margin_is_refused(made: Made) -> None:
    with pytest.raises(BadUsage, match="is possible; choose a smaller margin"):
        asked(made(np.zeros((20, 50))), made(np.zeros((20, 50))))


def test_one_task_and_few_tasks_have_looks_without_attempts(made: Made) -> None:
    """Half a pass over one task is none: that look is skipped."""
    one = made(np.ones((30, 1)))
    sure = asked(one, one, margin=0.5)
    assert sure.verdict in ("pass", "undecided")
    assert all(look.runs > 0 for look in sure.looks)
    assert asked(one, made(np.zeros((30, 1))), margin=0.5).verdict == "regression"
    three = made(np.ones((30, 3)))
    often = asked(three, made(np.zeros((30, 3))), margin=0.3, every=0.2)
    assert often.verdict == "regression"
    assert len({look.runs for look in often.looks}) == len(often.looks), "a look without a new attempt is no look"


def test_a_baseline_that_is_too_small_is_said_to_be(made: Made, rates: np.ndarray) -> None:
    small = made(np.random.default_rng(9).random((2, 50)) < rates)
    plan = plan_gate(small, GateSettings(margin=0.05), small.tasks)
    assert not plan.reachable
    assert plan.power < 0.8
    assert plan.looks[-1] == 4.0
    assert plan_gate(small, GateSettings(margin=0.05, fresh=True), small.tasks).reachable


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"margin": 0.0}, "margin"),
        ({"margin": -1.0}, "margin"),
        ({"margin": 5.0}, "margin must be at most 1, not 5: it is a change of a success rate; 5 % is 0.05"),
        ({"margin": 5.0, "metric": "steps"}, "margin must be at most 1, not 5: .* the mean of steps"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": 0.5}, "alpha"),
        ({"power": 0.5}, "power"),
        ({"power": 1.0}, "power"),
        ({"min_coverage": 1.1}, "min_coverage"),
        ({"every": 0.0}, "every"),
    ],
)
def test_settings_that_make_no_sense(given: dict[str, float], word: str) -> None:
    with pytest.raises(BadUsage, match=word):
        GateSettings(**given).checked()
    assert GateSettings(min_coverage=0.0).checked().min_coverage == 0.0
    with pytest.raises(NotFound):
        GateSettings(metric="costs").checked()


@pytest.mark.parametrize("name", ["cost", "steps", "tokens", "seconds"])
def test_what_one_pays_is_gated_by_its_share(made: Made, name: str) -> None:
    rng = np.random.default_rng(10)
    level = rng.uniform(1, 9, 40)

    def paid(factor: float) -> Outcomes:
        return made(np.ones((20, 40)), **{name: factor * level * rng.gamma(9, 1 / 9, (20, 40))})

    before = paid(1.0)
    promised = GateSettings(margin=0.1, metric=name)
    plan = plan_gate(before, promised, before.tasks)
    assert plan.margin == pytest.approx(0.1 * float(level.mean()), rel=0.1)
    assert asked(before, paid(1.3), metric=name).verdict == "regression"
    assert asked(before, paid(0.9), metric=name).verdict == "pass"
    assert asked(before, paid(1.3), metric=name).difference.low > 0


def test_metrics_that_nobody_recorded(made: Made) -> None:
    rng = np.random.default_rng(11)
    before = made(np.ones((20, 40)), cost=rng.gamma(9, 1, (20, 40)))
    with pytest.raises(BadUsage, match="says nothing of seconds"):
        asked(before, before, metric="seconds")
    silent = asked(before, made(np.ones((20, 40))), metric="cost")
    assert (silent.verdict, silent.why) == (
        "undecided",
        "no attempt that is due has a known value of cost on both sides",
    )
    half = rng.random((20, 40)) < 0.5
    partly = asked(before, made(np.ones((20, 40)), cost=np.where(half, np.nan, 9.0)), metric="cost")
    assert partly.verdict == "undecided"
    assert "have a known value of cost; 80% are needed" in partly.why


def test_figures_without_any_spread(made: Made) -> None:
    three = made(np.ones((20, 40)), steps=np.full((20, 40), 3.0))
    assert asked(three, three, metric="steps").verdict == "pass"
    assert asked(three, made(np.ones((20, 40)), steps=np.full((20, 40), 4.0)), metric="steps").verdict == "regression"


def test_two_identical_fresh_arms_never_alarm(made: Made) -> None:
    rng = np.random.default_rng(12)
    for _ in range(4):
        arm = made(rng.random((30, 20)) < rng.beta(1.4, 0.6, 20))
        promised = GateSettings(margin=0.15, fresh=True)
        plan = plan_gate(arm, promised, arm.tasks)
        found = judgement(arm, arm, plan, promised)
        assert found.verdict != "regression"
        assert all(look.z == 0.0 and look.change == 0.0 for look in found.looks)


def test_the_interval_is_without_zero_exactly_at_an_alarm(made: Made, base: Outcomes, rates: np.ndarray) -> None:
    rng = np.random.default_rng(13)
    seen = set()
    promised = GateSettings(margin=0.1)
    plan = plan_gate(base, promised, base.tasks)
    for drop in np.linspace(0.001, 0.15, 25):
        found = judgement(base, made(rng.random((20, 50)) < power.shifted(rates, drop)), plan, promised)
        seen.add(found.verdict)
        assert found.difference.level == pytest.approx(0.9)
        assert (found.difference.high < 0) == (found.verdict == "regression")
        assert found.difference.low <= found.difference.value <= found.difference.high
    assert {"regression", "pass"} <= seen


def test_rates_to_plan_by_are_drawn_together(made: Made) -> None:
    rng = np.random.default_rng(14)
    true = rng.beta(1.4, 0.6, 4000)
    few = planning_rates(made(rng.random((4, 4000)) < true))
    assert few.mean() == pytest.approx(true.mean(), abs=0.01)
    assert np.std(few) == pytest.approx(np.std(true), rel=0.05)
    assert np.std((rng.random((4, 4000)) < true).mean(axis=0)) > 1.1 * np.std(true), "which the raw rates do not"
    single = planning_rates(made(rng.random((1, 500)) < 0.7))
    assert np.ptp(single) == 0.0, "one attempt each: all alike is the worst case"
    np.testing.assert_array_equal(planning_rates(outcomes_of([], planned={"a": 1, "b": 1})), [0.5, 0.5])


def test_sessions_widen_the_verdict_of_a_stored_baseline_only(made: Made, rates: np.ndarray) -> None:
    rng = np.random.default_rng(15)
    logit = np.log(rates / (1 - rates)) + 0.8 * rng.standard_normal((20, 1))
    values = rng.random((20, 50)) < 1 / (1 + np.exp(-logit))
    times = np.repeat(np.arange(20) * 3_600_000_000_000, 50)
    apart, together = made(values, at_ns=times), made(values)
    promised = GateSettings(margin=0.1)
    plan = plan_gate(together, promised, together.tasks)  # sessions this far apart leave no plan that is soon made
    floor = outcome_floor(apart)
    assert floor.session is not None

    def extra_of(measured: Any) -> float:
        return session_variance(measured, promised, plan, 0.002, 2.0)

    extra = extra_of(floor)
    assert extra > floor.session * (1 + 1 / 20), "twenty sessions leave some doubt about how far they differ"
    few = msgspec.structs.replace(floor, session_error=3 * (floor.session_error or 0.0))
    assert extra_of(few) > extra
    assert extra_of(outcome_floor(together)) == extra_of(None) == 0.0
    stated = msgspec.structs.replace(promised, session_sd=0.04)
    assert session_variance(outcome_floor(together), stated, plan, 0.002, 2.0) == pytest.approx(2 * 0.04**2)
    later = made(rng.random((20, 50)) < power.shifted(rates, 0.08))
    wide, narrow = (judgement(o, later, plan, promised).looks[0] for o in (apart, together))
    assert abs(wide.z) < abs(narrow.z)
    assert wide.worst_case > narrow.worst_case


@st.composite
def arrivals(draw: Any) -> tuple[np.ndarray, np.ndarray, list[int], bool]:
    tasks = draw(st.integers(2, 8))
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    rates = rng.beta(1.4, 0.6, tasks)
    drop = draw(st.sampled_from([0.0, 0.3, 0.6]))
    first = (rng.random((12, tasks)) < rates).astype(float)
    second = (rng.random((12, tasks)) < rates * (1 - drop)).astype(float)
    second[rng.random(second.shape) < 0.1] = np.nan
    order = list(rng.permutation(second.size)) if draw(st.booleans()) else list(range(second.size))
    return first, second, order, draw(st.booleans())


@settings(deadline=None, max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(arrivals())
def test_asking_after_every_episode_never_takes_back_a_look_or_a_regression(
    made: Made, drawn: tuple[np.ndarray, np.ndarray, list[int], bool]
) -> None:
    first, second, order, fresh = drawn
    base, whole = made(first), made(second)
    promised = GateSettings(margin=0.3, fresh=fresh, min_coverage=0.5)
    if base.successes.sum() / base.attempts.sum() <= 0.35:
        return
    plan = plan_gate(base, promised, base.tasks)
    final = judgement(base, whole, plan, promised)
    verdict, looks = "undecided", []
    step = max(len(order) // 15, 1)
    for count in [*range(0, len(order), step), len(order)]:
        keep = np.zeros(len(order), dtype=bool)
        keep[order[:count]] = True
        found = judgement(base, whole.where(keep), plan, promised)
        again = judgement(base, whole.where(keep), plan, promised)
        assert again == found
        now = [msgspec.structs.replace(look, decision="undecided") for look in found.looks]
        assert now[: len(looks)] == looks, "a look once taken is taken for good; only a pass may have to hold later too"
        if verdict == "regression":
            assert found.verdict == verdict
        verdict, looks = found.verdict, now
    assert verdict == final.verdict


def test_a_closed_log_is_judged_with_what_it_has(made: Made, base: Outcomes) -> None:
    """An imported log gets no more attempts: one missing line must not keep the gate from looking."""
    promised = GateSettings(margin=0.1)
    plan = plan_gate(base, promised, base.tasks)
    broken = made(np.zeros((20, 50)))
    holed = broken.where(~((broken.task == plan.order[0]) & (broken.attempt == 0)))
    assert judgement(base, holed, plan, promised).verdict == "undecided"
    assert judgement(base, holed, plan, promised, closed=True).verdict == "regression"


def test_tasks_at_the_end_of_a_file_are_not_left_for_last(made: Made) -> None:
    """Fifty tasks that always passed; the last twelve of the file fail every attempt of the candidate."""
    before = made(np.ones((20, 50)))
    after = np.ones((3, 50))
    after[:, 38:] = 0.0
    for margin in (0.05, 0.1, 0.2):
        assert asked(before, made(after), margin=margin).verdict == "regression"


def test_no_pass_before_every_task_was_attempted(made: Made) -> None:
    sure = made(np.ones((20, 50)))
    promised = GateSettings(margin=0.2)
    plan = plan_gate(sure, promised, sure.tasks)
    assert plan.looks[-1] >= 1.0, "a plan that ends before could never pass"
    said = {}
    for k, due in enumerate(plan.attempts()):
        found = judgement(sure, sure.upto(due), plan, promised)
        said[plan.looks[k]] = found.verdict
        if plan.looks[k] < 1.0 and found.looks[-1].worst_case < 0.2:
            assert "tasks have no attempt yet, and a pass needs every task" in found.why
    assert {v for at, v in said.items() if at < 1.0} == {"undecided"}
    assert said[1.0] == "pass"
    absent = judgement(sure, sure, plan, promised, absent=["gone"])
    assert absent.verdict == "undecided"
    assert "1 task of the baseline has no attempt by the candidate (gone)" in absent.why


def test_a_part_of_a_large_suite_may_pass_and_says_what_was_not_attempted(made: Made) -> None:
    rng = np.random.default_rng(21)
    rates = rng.beta(1.4, 0.6, 1000)
    before = made(rng.random((20, 1000)) < rates)
    promised = GateSettings(margin=0.1)
    plan = plan_gate(before, promised, before.tasks)
    assert plan.looks[0] < 1.0
    found = judgement(
        before, made(rng.random((1, 1000)) < np.maximum(rates, 0.9)).upto(plan.attempts()[0]), plan, promised
    )
    assert found.verdict == "pass"
    assert f"{1000 - plan.runs[0]:,} of 1,000 tasks were not attempted" in found.why


def test_a_pass_must_hold_at_the_latest_look(made: Made) -> None:
    """A candidate that breaks after its first passes: what is recorded is not left out."""
    sure = made(np.ones((20, 50)))
    promised = GateSettings(margin=0.1, every=1.0)
    plan = plan_gate(sure, promised, sure.tasks)
    after = np.ones((20, 50))
    assert judgement(sure, made(after[: int(plan.looks[0])]), plan, promised).verdict == "pass"
    after[int(plan.looks[-1]) :, :9] = 0.0
    whole = made(after)
    assert judgement(sure, whole, plan, promised).verdict == "undecided"
    assert "compare on all recorded attempts calls it a regression" in judgement(sure, whole, plan, promised).why
    taken = judgement(sure, whole, plan, promised, take_all=True)
    assert taken.verdict == "regression", "the last look takes all that is recorded"
    assert taken.looks[-1].runs == 1000


def test_an_agent_that_never_answers_some_tasks_does_not_pass(made: Made) -> None:
    """It times out on every attempt at 6 of 40 tasks."""
    rng = np.random.default_rng(22)
    before = made(rng.random((20, 40)) < 0.85)
    silent = (rng.random((20, 40)) < 0.95).astype(float)
    silent[:, :6] = np.nan
    found = asked(before, made(silent))
    assert found.verdict == "undecided"
    assert "the candidate misses 15% of its attempts where the baseline misses 0%" in found.why
    assert asked(before, made(silent), missing="ignore").verdict == "pass"
    assert asked(before, made(silent), missing="failure").verdict == "regression"
    # where the baseline misses as many, they say nothing against the candidate
    holed = (rng.random((20, 40)) < 0.85).astype(float)
    holed[rng.random(holed.shape) < 0.16] = np.nan
    assert asked(made(holed), made(silent)).verdict == "pass"


def test_lost_failures_do_not_pass(made: Made) -> None:
    """A quarter of the failures and one success in fifty are never scored."""
    rng = np.random.default_rng(23)
    rates = rng.beta(1.4, 0.6, 50)
    said = []
    for _ in range(12):
        before = made(rng.random((20, 50)) < rates)
        after = (rng.random((20, 50)) < power.shifted(rates, 0.1)).astype(float)
        after[rng.random(after.shape) < np.where(after > 0, 0.02, 0.25)] = np.nan
        said.append(asked(before, made(after)).verdict)
    assert said.count("pass") <= 3, "at most what one minus the power allows"


@pytest.mark.parametrize("name", ["cost", "seconds"])
def test_figures_that_are_not_recorded_do_not_pass_either(made: Made, name: str) -> None:
    rng = np.random.default_rng(24)
    paid = rng.gamma(9, 1 / 9, (20, 40))
    before = made(np.ones((20, 40)), **{name: paid})
    hidden = rng.gamma(9, 1 / 9, (20, 40))
    hidden[:, :6] = np.nan
    found = asked(before, made(np.ones((20, 40)), **{name: hidden}), metric=name)
    assert found.verdict == "undecided"
    assert "taken as the worst seen" in found.why
    assert asked(before, made(np.ones((20, 40)), **{name: hidden}), metric=name, missing="ignore").verdict == "pass"


def test_the_sentence_of_a_pass_says_which_error_it_spends(made: Made, base: Outcomes) -> None:
    found = asked(base, made(np.ones((20, 50))), power=0.9)
    assert "with an error of 0.1 (1 − power)" in found.why
    assert "assumes" not in found.why
    assert "the verdict assumes none (state a value with --session-sd)" in (found.assumes or "")
    given = asked(base, made(np.zeros((20, 50))), session_sd=0.04, every=5.0)
    assert "assumes that sessions differ by 0.04" in (given.assumes or "")
    fresh = GateSettings(margin=0.1, fresh=True)
    plan = plan_gate(base, fresh, base.tasks)
    assert judgement(base, made(np.zeros((20, 50))), plan, fresh).assumes is None


@pytest.mark.parametrize("ahead", [0, 3])
def test_where_the_baseline_misses_attempts_the_plan_allows_for_as_many(
    made: Made, rates: np.ndarray, ahead: int
) -> None:
    """The same scored attempts, and as many again without a score: the power that was asked for takes longer."""
    values = (np.random.default_rng(3).random((20, 50)) < rates).astype(float)
    whole, torn = made(values), made(np.vstack([values, np.full(values.shape, np.nan)]))
    promised = GateSettings(margin=0.1, every=1, ahead=ahead)
    plain, longer = (plan_gate(base, promised, base.tasks) for base in (whole, torn))
    assert (missing_share(whole), missing_share(torn)) == (0.0, 0.5)
    assert min(plain.power, longer.power) >= 0.8
    assert longer.runs[-1] > 1.4 * plain.runs[-1]


def test_attempts_of_the_baseline_that_were_never_run_are_not_missing(made: Made, base: Outcomes) -> None:
    """A baseline that was stopped half-way says nothing of how often attempts go missing, and excuses none."""
    stopped = replace(base, planned=2 * base.planned)
    assert missing_share(stopped) == 0.0
    values = np.ones((20, 50))
    values[np.add.outer(np.arange(20), np.arange(50)) % 3 == 0] = np.nan
    told = asked(stopped, made(values), min_coverage=0.5)
    assert told.verdict != "pass"
    assert "where the baseline misses 0%" in told.why


def test_confirmations_take_their_share_of_alpha() -> None:
    plain, shared = GateSettings(), GateSettings(confirm=10)
    assert (plain.looks_alpha, plain.confirm_alpha) == (0.05, 0.0)
    assert (shared.looks_alpha, shared.confirm_alpha) == (pytest.approx(0.045), pytest.approx(0.005))


def test_rates_that_may_lie_behind_counts() -> None:
    """Tasks that never pass are believed never to, where the suite has many such; a single one is not."""
    rng = np.random.default_rng(25)
    n = np.full(50, 20)
    many = believed_rates(np.array([0] * 20 + [20] * 10 + [10] * 20), n, 500, rng)
    assert many.shape == (500, 50)
    assert np.mean(many[:, :20] == 0.0) > 0.5
    assert many[:, 30:].mean() == pytest.approx(0.5, abs=0.05)
    few = believed_rates(np.array([1, 0]), np.array([1, 1]), 500, rng)
    assert 0.55 < few[:, 0].mean() < 0.95
    np.testing.assert_array_equal(believed_rates(np.zeros(2, int), np.zeros(2, int), 3, rng), np.full((3, 2), 0.5))


def test_counts_of_a_task_are_not_used_twice() -> None:
    """Of two unlike tasks each is at least as uncertain as its own attempts leave it (Jeffreys' posterior)."""
    rng = np.random.default_rng(6)
    drawn = believed_rates(np.array([12, 3]), np.array([20, 20]), 4000, rng)
    alone = [np.sqrt(a * b / (a + b) ** 2 / (a + b + 1)) for a, b in ((12.5, 8.5), (3.5, 17.5))]
    assert np.all(drawn.std(axis=0) > 0.95 * np.array(alone))
    assert np.all(drawn.std(axis=0) < 1.3 * np.array(alone))
