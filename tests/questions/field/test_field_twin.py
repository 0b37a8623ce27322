"""The default reading beside the essay's: what it corrects, what it refuses, what it reports."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from ethogram.questions.field.field import Field
from ethogram.questions.field.metrics import FieldReport


def suite(seed: int = 0, tasks: int = 8, runs: int = 8, effect: float = 0.0) -> Field:
    """Runs whose length and success both hang on the difficulty of their task; `effect` acts within tasks."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(tasks), runs)
    hard = rng.normal(size=tasks)[task]
    y = rng.random(task.size) < 1 / (1 + np.exp(2 * hard))
    steps = np.exp(2 + hard + 0.3 * rng.normal(size=task.size) - effect * y)
    chars = 1000 * np.exp(hard + 0.3 * rng.normal(size=task.size))
    reads = rng.poisson(4, task.size)
    return Field.from_arrays(np.column_stack([steps, chars, reads]), y, ["steps", "chars", "reads"], tasks=task)


def test_no_unit_makes_one_dimension_loud() -> None:
    field = suite()
    louder = Field.from_arrays(field.points * [1, 1000, 1], field.outcomes, field.names, tasks=field.task_index)
    assert louder.metrics().width() / field.metrics().width() > 1e5
    for name in ("width", "spread"):
        a, b = field.metrics().estimate(name), louder.metrics().estimate(name)
        assert a.value == pytest.approx(b.value, rel=0.01)


def test_a_whole_field_is_its_own_ruler_and_its_parts_are_measured_by_it() -> None:
    field = suite(runs=12)
    assert field.metrics().estimate("width").value == pytest.approx(3.0, rel=1e-9)
    tight = field.subset(np.abs(np.log(field.points[:, 0])) < 2.2)
    assert tight.metrics().estimate("width").value != pytest.approx(3.0, rel=1e-3)
    assert tight.root is field


def test_pooled_values_echo_difficulty_and_the_default_does_not() -> None:
    m = suite(3, tasks=30).metrics()
    skew = m.skew("steps")
    assert skew is not None
    assert skew < -0.2
    honest = m.estimate("skew", "steps")
    assert honest.low is not None
    assert honest.high is not None
    assert honest.low < 0 < honest.high
    test = m.separation_test(draws=499)
    assert min(test.adjusted.values()) > 0.05


def test_an_effect_within_tasks_is_found() -> None:
    m = suite(4, tasks=20, effect=0.5).metrics()
    test = m.separation_test(draws=499)
    assert test.adjusted["steps"] <= 0.05
    assert test.adjusted["reads"] > 0.05
    estimate = m.estimate("separation", "steps")
    assert estimate.high is not None
    assert estimate.high < 0


@pytest.mark.parametrize(("plus", "minus", "known"), [(2, 9, False), (3, 9, True), (9, 2, False), (5, 5, True)])
def test_few_of_a_class_are_refused_with_the_estimate(plus: int, minus: int, known: bool) -> None:
    rng = np.random.default_rng(1)
    field = Field.from_arrays(rng.normal(5, 1, (plus + minus, 2)), [1.0] * plus + [0.0] * minus, ["x", "y"])
    estimate = field.metrics().estimate("separation", "x")
    assert estimate.value is not None
    assert (estimate.low is not None) is known
    assert bool(field.metrics().separation_test(99).p) is known
    if min(plus, minus) < 5:
        assert f"{plus} successes and {minus} failures" in str(estimate.why)


def test_perfect_correlation_has_a_value_and_no_interval() -> None:
    edits = [3.0] * 6 + [4.0] * 4
    field = Field.from_arrays([[e] for e in edits], [1.0] * 6 + [0.0] * 4, ["num_edits"])
    assert field.metrics().skew("num_edits") == pytest.approx(-1.0)
    estimate = field.metrics().estimate("skew", "num_edits")
    assert estimate.value == pytest.approx(-1.0)
    assert estimate.low is None
    assert estimate.why


def test_convergence_is_the_pass_rate_in_other_words() -> None:
    field = Field.from_arrays(np.arange(10.0)[:, None], np.arange(10) < 6, ["x"])
    rate, convergence = (field.metrics().estimate(n) for n in ("pass_rate", "convergence"))
    assert rate.value == pytest.approx(0.6)
    for end in ("value", "low", "high"):
        p = getattr(rate, end)
        assert getattr(convergence, end) == pytest.approx(math.sqrt(p / (1 - p)))


def test_graded_scores_have_a_convergence_of_their_own() -> None:
    rng = np.random.default_rng(2)
    scores = rng.uniform(0.2, 0.9, 30)
    m = Field.from_arrays(np.arange(30.0)[:, None], scores, ["x"]).metrics()
    assert m.convergence() == pytest.approx(scores.mean() / scores.std())
    estimate = m.estimate("convergence")
    assert estimate.value == pytest.approx(scores.mean() / scores.std(ddof=1))
    assert estimate.low is not None
    assert estimate.value is not None
    assert estimate.low < estimate.value
    same = Field.from_arrays(np.arange(4.0)[:, None], [0.7] * 4, ["x"]).metrics().estimate("convergence")
    assert same.value == math.inf
    assert same.low is None


def test_many_trajectories_take_the_normal_limit() -> None:
    rng = np.random.default_rng(3)
    y = (rng.random(30_000) < 0.5).astype(float)
    points = rng.gamma(2.0, 1.0, (30_000, 3))
    points[:, 0] *= 1 + 0.05 * y
    test = Field.from_arrays(points, y, ["a", "b", "c"]).metrics().separation_test(draws=99)
    assert test.adjusted["a"] <= 0.001
    assert test.adjusted["b"] > 0.01


def test_the_report_holds_both_readings_and_survives_json() -> None:
    report = suite(4, effect=0.5).metrics().report(draws=199, seed=7)
    again = msgspec.json.decode(msgspec.json.encode(report), type=FieldReport)
    assert again == report
    assert (report.K, report.d, report.tasks, report.seed, report.draws) == (64, 3, 8, 7, 199)
    assert set(report.estimates) == {"width", "spread", "convergence", "pass_rate", "drift"}
    row = report.dimensions[0]
    assert row.separation is not None
    assert row.estimates["separation"].value is not None
    assert set(row.estimates) == {"center", "variance", "separation", "skew"}
    sure = Field.from_arrays(np.arange(4.0)[:, None], [1] * 4, ["x"]).metrics().report()
    assert sure.convergence == "inf"
    assert sure.notes


def test_the_same_seed_gives_the_same_numbers() -> None:
    a, b = (suite(5).metrics().report(draws=99, seed=1) for _ in range(2))
    other = suite(5).metrics().report(draws=99, seed=2)
    assert a == b
    assert [d.p for d in a.dimensions] != [d.p for d in other.dimensions]


def test_the_variance_of_a_dimension_is_that_within_tasks_by_hand() -> None:
    x = np.array([1.0, 2, 3, 10, 14, 18])
    m = Field.from_arrays(x[:, None], [1, 0, 1, 0, 1, 0], ["steps"], tasks=[0, 0, 0, 1, 1, 1]).metrics()
    found = m.estimate("variance", "steps")
    assert found.value == pytest.approx((1.0 + 16.0) / 2), "the mean of both tasks' variances, n - 1"
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    alone = Field.from_arrays(x[:2, None], [1, 0], ["steps"], tasks=[0, 1]).metrics().estimate("variance", "steps")
    assert (alone.value, alone.low) == (None, None)
    assert "at least twice" in (alone.why or "")


def test_its_interval_holds_the_truth_and_the_pooled_variance_does_not() -> None:
    """Tasks of different means, a variance of 4 within each: the interval must hold it in about 95 of 100 fields."""
    rng, held, pooled, asked = np.random.default_rng(5), 0, 0, 0
    task = np.repeat(np.arange(6), 8)
    for _ in range(200):
        x = 30 * rng.normal(size=6)[task] + 2 * rng.normal(size=task.size)
        m = Field.from_arrays(x[:, None], rng.random(task.size) < 0.5, ["steps"], tasks=task).metrics()
        found = m.estimate("variance", "steps")
        if found.low is None or found.high is None:
            continue
        asked += 1
        held += found.low <= 4 <= found.high
        pooled += found.low <= float(m.variance()[0]) <= found.high
    assert asked >= 180
    assert held / asked >= 0.92
    assert pooled / asked < 0.05
