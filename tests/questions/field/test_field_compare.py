"""Two fields against each other, and factors of the environment."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from ethogram.errors import BadInput, BadUsage
from ethogram.questions.field import standardised
from ethogram.questions.field.ablation import Ablation, ablate, conditions_of
from ethogram.questions.field.field import Field
from ethogram.questions.field.fieldtests import FieldComparison, compare_fields

NAMES = ["steps", "reads", "writes"]


def runs(
    seed: int,
    tasks: int = 10,
    each: int = 4,
    shift: float = 0.0,
    spread: float = 1.0,
    rate: float = 0.5,
    first: int = 0,
) -> Field:
    """Log-normal features; every task has its own level, the same in all fields."""
    levels = np.random.default_rng(99).normal(2, 0.8, (60, 3))
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(first, first + tasks), each)
    noise = rng.normal(size=(task.size, 3)) * 0.4 * np.sqrt(spread)
    points = np.expm1(np.maximum(levels[task] + noise + [shift * 0.4, 0, 0], 0.01))
    return Field.from_arrays(points, (rng.random(task.size) < rate).astype(float), NAMES, tasks=[f"t{t}" for t in task])


def test_nothing_changed() -> None:
    found = compare_fields(runs(1), runs(2))
    assert found.width_ratio.low is not None
    assert found.width_ratio.high is not None
    assert found.width_ratio.low < 1 < found.width_ratio.high
    assert found.centre_shift.low == 0
    assert all(t.p is not None and t.p > 0.05 for t in found.tests)
    assert [t.of for t in found.tests] == ["width", "centre", "centre per task", "convergence"]
    assert all(d.adjusted is not None and d.adjusted > 0.05 for d in found.dimensions)


def test_every_change_is_found_where_it_is() -> None:
    found = compare_fields(runs(1, rate=0.3), runs(2, shift=1.5, spread=4.0, rate=0.9))
    assert found.test("width").p is not None
    assert found.test("width").p < 0.01  # type: ignore[operator]
    assert found.width_ratio.value == pytest.approx(4.0, rel=0.5)
    moved = found.dimensions[0]
    assert moved.adjusted is not None
    assert moved.adjusted <= 0.05
    assert moved.difference > 0
    assert found.test("centre").p is not None
    assert found.test("centre").p <= 0.05  # type: ignore[operator]
    assert found.pass_rate_difference.low is not None
    assert found.pass_rate_difference.low > 0


def test_plain_values_are_the_essays() -> None:
    a, b = runs(1), runs(2)
    found = compare_fields(a, b)
    assert found.widths == (a.metrics().width(), b.metrics().width())
    assert found.dimensions[1].difference == pytest.approx(b.metrics().center()[1] - a.metrics().center()[1])
    assert found.convergences[0] == a.metrics().estimate("convergence")


def test_tasks_that_only_one_has_are_left_out_and_named() -> None:
    found = compare_fields(runs(1, tasks=6), runs(2, tasks=6, first=2))
    assert found.tasks == 4
    assert found.only_in_first == ("t0", "t1")
    assert found.only_in_second == ("t6", "t7")
    with pytest.raises(BadUsage, match="share no task"):
        compare_fields(runs(1, tasks=3), runs(2, tasks=3, first=20))
    with pytest.raises(BadUsage, match="same dimensions"):
        compare_fields(runs(1), Field.from_arrays([[1.0]], [1], ["x"]))


def test_one_task_has_one_centre_test_and_too_few_runs_say_so() -> None:
    found = compare_fields(runs(1, tasks=1, each=6), runs(2, tasks=1, each=6))
    assert [t.of for t in found.tests] == ["width", "centre", "convergence"]
    tiny = compare_fields(runs(1, tasks=1, each=2), runs(2, tasks=1, each=2))
    assert tiny.width_ratio.low is None
    assert tiny.width_ratio.why
    assert "cannot be below" in str(tiny.test("centre").why)
    single = compare_fields(runs(1, tasks=4, each=1), runs(2, tasks=4, each=1))
    assert single.centre_shift.value is None
    assert single.width_ratio.value is None
    still = Field.from_arrays(np.ones((4, 2)), [1, 0, 1, 0], ["a", "b"])
    flat = compare_fields(still, still)
    assert flat.test("centre").p is None
    assert all(d.shift.value is None for d in flat.dimensions)


def test_identical_agents_are_not_root_two_over_k_apart() -> None:
    distances = [compare_fields(runs(i, 1, 5), runs(i + 500, 1, 5), draws=19).centre_shift.value for i in range(60)]
    naive = np.sqrt(2 / 5)
    assert np.median([d for d in distances if d is not None]) < naive / 2


def test_separation_change_has_an_interval() -> None:
    found = compare_fields(runs(1, each=8), runs(2, each=8))
    change = found.dimensions[0].separation
    assert change.low is not None
    assert change.high is not None
    assert change.low < change.high
    assert found.dimensions[0].separation_p is not None


def test_a_comparison_survives_json() -> None:
    found = compare_fields(runs(1), runs(2), draws=99, seed=3)
    assert msgspec.json.decode(msgspec.json.encode(found), type=FieldComparison) == found
    assert (found.draws, found.seed) == (99, 3)


def design(effects: dict[str, float], seed: int = 0, tests_rate: float = 0.4) -> list[tuple[dict[str, Any], Field]]:
    """A 2 × 2 design: `long` widens by a factor, `tests` shifts steps, together they do more."""
    out = []
    for i, long in enumerate(("no", "yes")):
        for j, tests in enumerate(("off", "on")):
            field = runs(
                seed + 10 * i + j,
                tasks=6,
                each=6,
                shift=effects.get("tests", 0) * j + effects.get("both", 0) * i * j,
                spread=effects.get("long", 1.0) ** i,
                rate=0.4 + tests_rate * j,
            )
            out.append(({"long": long, "tests": tests}, field))
    return out


def test_main_effects_and_interaction_are_told_apart() -> None:
    found = ablate(design({"long": 3.0, "tests": 1.0, "both": 1.5}))
    assert found.factors == {"long": ["no", "yes"], "tests": ["off", "on"]}
    assert [e.name for e in found.effects] == ["long=yes", "tests=on", "long=yes × tests=on"]
    long, tests, both = found.effects
    assert long.width.value == pytest.approx(3.0, rel=0.4)
    assert long.adjusted["width"] < 0.01
    assert tests.adjusted["width"] > 0.05
    assert tests.pass_rate.low is not None
    assert tests.pass_rate.low > 0
    assert tests.dimensions["steps"].value is not None
    assert tests.dimensions["steps"].value > 0.5
    assert tests.adjusted["centre"] < 0.01
    assert both.dimensions["steps"].low is not None
    assert both.dimensions["steps"].low > 0
    assert tests.dimensions["writes"].low is not None
    assert tests.dimensions["writes"].low < 0.6


def test_effects_are_contrasts_of_conditions() -> None:
    cells = design({"long": 2.0})
    found = ablate(cells)
    logs = [np.log(c.width.value) for c in found.cells if c.width.value is not None]
    rates = [c.pass_rate.value for c in found.cells]
    assert found.effects[0].width.value == pytest.approx(np.exp((logs[2] + logs[3] - logs[0] - logs[1]) / 2))
    assert found.effects[2].width.value == pytest.approx(np.exp(logs[3] - logs[2] - logs[1] + logs[0]))
    assert None not in rates
    assert found.effects[1].pass_rate.value == pytest.approx((rates[1] + rates[3] - rates[0] - rates[2]) / 2)  # type: ignore[operator]


def passes(count: int, of: int = 10) -> Field:
    """One task, `passes` of ten passed; the points only vary."""
    points = np.random.default_rng(count).gamma(2.0, 1.0, (of, 3))
    return Field.from_arrays(points, np.array([1.0] * count + [0.0] * (of - count)), NAMES, tasks=["t"] * of)


def test_convergence_is_ablated_as_a_ratio() -> None:
    found = ablate([({"tests": "off"}, passes(5)), ({"tests": "on"}, passes(8))])
    effect = found.effects[0].convergence
    assert effect.value == pytest.approx(2.0)  # √(.8 / .2) over √(.5 / .5)
    off, on = (np.log([c.convergence.low, c.convergence.value, c.convergence.high]) for c in found.cells)  # type: ignore[list-item]
    assert effect.low == pytest.approx(np.exp(np.log(2) - np.hypot(on[1] - on[0], off[2] - off[1])), rel=1e-6)
    assert effect.high == pytest.approx(np.exp(np.log(2) + np.hypot(on[2] - on[1], off[1] - off[0])), rel=1e-6)
    assert found.effects[0].p["convergence"] == pytest.approx(found.effects[0].adjusted["convergence"])


def test_conditions_that_always_pass_have_no_finite_ratio() -> None:
    one = ablate([({"tests": "off"}, passes(5)), ({"tests": "on"}, passes(10))]).effects[0]
    assert (one.convergence.value, one.convergence.high) == (np.inf, np.inf)
    assert one.convergence.low is not None
    assert one.convergence.low > 0
    both = ablate([({"tests": "off"}, passes(10)), ({"tests": "on"}, passes(10))]).effects[0]
    assert both.convergence.value is None
    assert "not defined" in (both.convergence.why or "")
    assert both.p["convergence"] == 1.0


def test_effects_on_convergence_are_contrasts_of_conditions() -> None:
    found = ablate(design({"tests": 1.0}))
    logs = [np.log(c.convergence.value) for c in found.cells if c.convergence.value is not None]
    assert found.effects[1].convergence.value == pytest.approx(np.exp((logs[1] + logs[3] - logs[0] - logs[2]) / 2))
    assert found.effects[2].convergence.value == pytest.approx(np.exp(logs[3] - logs[2] - logs[1] + logs[0]))


def test_three_levels_and_a_named_reference() -> None:
    cells = [({"size": s}, runs(i, tasks=5, each=5)) for i, s in enumerate(("s", "m", "l"))]
    found = ablate(cells, reference={"size": "m"})
    assert [e.name for e in found.effects] == ["size=s", "size=l"]
    assert found.reference == {"size": "m"}
    with pytest.raises(BadInput, match="not among the conditions"):
        ablate(cells, reference={"size": "xl"})


def test_an_incomplete_design_says_what_it_cannot_tell() -> None:
    cells = [c for c in design({}) if c[0] != {"long": "yes", "tests": "on"}]
    found = ablate(cells)
    assert [e.kind for e in found.effects] == ["main", "main"]
    assert "interactions are unknown" in found.notes[0]
    confounded = [cells[0], ({"long": "yes", "tests": "on"}, runs(4, tasks=6, each=6))]
    found = ablate(confounded)
    assert found.effects == ()
    assert any("cannot be separated" in n for n in found.notes)


def test_bad_designs_are_refused() -> None:
    one = runs(1)
    with pytest.raises(BadUsage, match="two conditions"):
        ablate([({"a": 1}, one)])
    with pytest.raises(BadInput, match="same settings"):
        ablate([({"a": 1}, one), ({"a": 1}, one)])
    with pytest.raises(BadInput, match="same factors"):
        ablate([({"a": 1}, one), ({"b": 1}, one)])
    with pytest.raises(BadUsage, match="every condition"):
        ablate([({"a": 1}, runs(1, tasks=2)), ({"a": 2}, runs(2, tasks=2, first=30))])


def test_conditions_come_from_settings_per_trajectory_and_json_holds_all() -> None:
    field = runs(1, tasks=4, each=8)
    cells = conditions_of(field, [{"prompt": "short" if i % 2 else "long"} for i in range(field.K)])
    assert [c.K for _, c in cells] == [16, 16]
    found = ablate(cells)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Ablation) == found
    with pytest.raises(BadInput, match="32 trajectories but 1 settings"):
        conditions_of(field, [{"prompt": "x"}])


def test_the_centre_shift_leaves_out_0_exactly_where_its_test_rejects() -> None:
    rejected = 0
    for seed in range(30):
        found = compare_fields(runs(seed), runs(seed + 1000, shift=0.1 * (seed % 9)), draws=199)
        p = found.test("centre").p
        assert p is not None
        assert found.centre_shift.low is not None
        assert (found.centre_shift.low > 0) == (p <= 0.05)
        rejected += p <= 0.05
    assert 0 < rejected < 30


def test_the_separation_test_names_its_method_below_and_above_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    field = runs(3, tasks=20, each=6)
    dealt = field.metrics().separation_test(999, 1)
    assert dealt.method == "outcomes permuted within tasks, 999 draws; max-T over dimensions"
    assert field.metrics().report(draws=999, seed=1).test_method == dealt.method
    monkeypatch.setattr(standardised, "LARGE", 100)
    drawn = field.metrics().separation_test(999, 1)
    assert drawn.method.startswith(
        "normal limit of outcomes permuted within tasks (120 attempts, above 100), 9999 draws"
    )
    assert drawn.draws == 9999
    # and the two say the same
    for name, p in dealt.adjusted.items():
        assert drawn.adjusted[name] == pytest.approx(p, abs=0.06)
