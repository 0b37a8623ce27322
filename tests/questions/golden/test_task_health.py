"""The health of tasks: numbers by hand, an independent reference, and simulations with known truth."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy.stats import pearsonr

from ethogram.questions.golden.task_health import LEAST_RUNS, TaskRuns, fisher, needed_to_be_sure, negative, task_health

DRAWN = 400 if os.environ.get("ETHOGRAM_LONG") else 40


def task(name: str, passed: list[float], attempts: list[float], usd: float = 0.01, **more: int) -> TaskRuns:
    n = int(sum(attempts))
    cost = np.full(n, usd) * (1 + 0.01 * np.arange(n))
    return TaskRuns(name, np.array(passed, float), np.array(attempts, float), cost, np.full(n, np.nan), **more)


def test_a_task_that_always_passes_is_saturated_once_that_is_sure() -> None:
    assert needed_to_be_sure() == 35, "35 of 35: Wilson's lower end is 35 / (35 + 1.96²) = 0.901"
    (few,) = task_health([task("t", [10], [10])], {})
    assert (few.findings, few.advice) == ([], "keep")
    assert few.needs[0] == "25 more attempts like these to call it saturated"
    (sure,) = task_health([task("t", [40], [40])], {})
    assert (sure.findings, sure.advice) == (["saturated"], "retire")
    (guard,) = task_health([task("t", [40], [40])], {"t": ["2026-01-02-001"]})
    assert (guard.advice, guard.findings) == ("keep", ["saturated"]), "what guards an incident is never retired"
    (dead,) = task_health([task("t", [0], [40])], {})
    assert (dead.findings, dead.advice) == (["dead"], "split")


def test_nothing_is_said_of_a_task_that_nobody_ran() -> None:
    (found,) = task_health([task("t", [0], [0])], {})
    assert found.success.value is None
    assert found.usd.value is None
    assert found.findings == []
    assert "a scored attempt" in found.needs


def test_one_contradiction_is_proof() -> None:
    (found,) = task_health([task("t", [3], [6], alike=4, contradicted=2)], {})
    assert (found.findings, found.advice) == (["flaky"], "fix the check")
    assert found.same_end_other_verdict.value == 0.5
    (none,) = task_health([task("t", [3], [6])], {})
    assert none.same_end_other_verdict.value is None
    assert "ended in the same way" in (none.same_end_other_verdict.why or "")


def test_a_task_that_costs_more_than_it_tells_is_costly() -> None:
    cheap = [task(f"t{i}", [50], [100]) for i in range(5)]
    found = task_health([*cheap, task("costly", [93], [100], usd=0.2)], {})
    assert found[-1].findings == ["costly"]
    assert found[-1].advice == "split"
    assert all(not f.findings for f in found[:-1])
    # by hand: 0.2 of 0.25 dollars, 0.0651 of 1.3151 of what is told
    expected = (0.2 / 0.25) / (0.0651 / 1.3151)
    assert found[-1].usd_for_its_worth.value == pytest.approx(expected, rel=1e-6)
    assert found[-1].seconds_for_its_worth.value is None, "no attempt tells its time"
    worth_it = task_health([*cheap, task("long", [50], [100], usd=0.02)], {})
    assert not worth_it[-1].findings


def test_the_correlation_is_pearsons_and_its_interval_fishers() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=12), rng.normal(size=12)
    theirs = pearsonr(x, y)
    ours = negative(x, y, 999, rng)
    low, high = fisher(ours.r, 12, 0.95)
    assert ours.r == pytest.approx(theirs.statistic, abs=1e-12)
    assert (float(low), float(high)) == pytest.approx(tuple(theirs.confidence_interval(0.95)), abs=1e-9)
    assert negative(x, -x, 999, rng).p == pytest.approx(1 / 1000), "as low as can be"
    assert negative(x, np.ones(12), 99, rng).p == 1.0, "what does not vary says nothing"


def suite_of(rng: np.random.Generator, runs: int, odd: bool) -> list[TaskRuns]:
    """Ten tasks over runs of versions of different ability; one of them may get worse when the others get better."""
    ability = rng.normal(0, 1, runs)
    found = []
    for i in range(10):
        slope = -2.0 if odd and i == 0 else 0.7
        p = 1 / (1 + np.exp(-(slope * ability + rng.normal(0, 0.5))))
        found.append(task(f"t{i}", rng.binomial(5, p).tolist(), [5] * runs))
    return found


def test_an_honest_suite_is_rarely_accused_and_an_odd_task_is_found() -> None:
    rng = np.random.default_rng(11)
    accused = sum(any("at_odds" in t.findings for t in task_health(suite_of(rng, 12, False), {})) for _ in range(DRAWN))
    assert accused <= 0.05 * DRAWN, "one family of all tasks, at 5 %"
    found = [task_health(suite_of(rng, 24, True), {}) for _ in range(12)]
    assert sum("at_odds" in f[0].findings for f in found) >= 8
    assert sum("at_odds" in t.findings for f in found for t in f[1:]) <= 1


def test_pure_noise_is_accused_no_more_than_one_time_in_twenty() -> None:
    rng = np.random.default_rng(5)

    def noise() -> list[TaskRuns]:
        return [task(f"t{i}", rng.binomial(1, 0.5, LEAST_RUNS).tolist(), [1] * LEAST_RUNS) for i in range(5)]

    draws = 3 * DRAWN
    accused = sum(any("at_odds" in t.findings for t in task_health(noise(), {})) for _ in range(draws))
    assert accused <= 0.05 * draws + 2 * np.sqrt(0.05 * 0.95 * draws)
    # the wrong method, which tests every task at 5 % by itself, accuses far too often
    naive = 0
    for _ in range(draws):
        x = rng.binomial(1, 0.5, (5, LEAST_RUNS)).astype(float)
        rest = [(x.sum(0) - row) / 4 for row in x]
        with np.errstate(invalid="ignore", divide="ignore"):
            r = [np.corrcoef(row, other)[0, 1] for row, other in zip(x, rest, strict=True)]
        naive += any(fisher(v, LEAST_RUNS, 0.90)[1] < 0 for v in r if not np.isnan(v))
    assert naive > 0.05 * draws + 2 * np.sqrt(0.05 * 0.95 * draws)


def test_too_few_runs_are_a_refusal_that_says_how_many() -> None:
    found = task_health([task(f"t{i}", [1, 2, 3], [5, 5, 5]) for i in range(5)], {})
    assert found[0].item_rest.value is None
    said = "to compare this task with the others: 3 runs attempt it and 3 or more other tasks; 8 are needed"
    assert said in found[0].needs
    (alone,) = task_health([task("t", [1], [2])], {})
    assert alone.item_rest.why == "the suite has 1 task, and a comparison needs 4"
