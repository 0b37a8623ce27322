"""Which layer moved: the engine of compare, Holm over the layers, intervals that agree, and where patterns point."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pytest
from grids import grid_outcomes

from ethogram.estimate import Estimate
from ethogram.measures.comparison import compare_outcomes, one_look
from ethogram.measures.layer_changes import HOLDS, LayerChange, LayerState, compare_layers, where_to_look
from ethogram.measures.layers import NAMES, LayerScores
from ethogram.traces import LAYERS, Layer

TASKS, ATTEMPTS = 10, 10


def scores(
    passes: Mapping[Layer, int], *, tasks: int = TASKS, attempts: int = ATTEMPTS, who: str = "check"
) -> LayerScores:
    """Every task passes this often, at each layer."""
    columns = {}
    for layer in LAYERS:
        values = np.full((attempts, tasks), np.nan)
        if layer in passes:
            values[:] = 0.0
            values[: passes[layer]] = 1.0
        columns[layer] = values
    outcomes = grid_outcomes(next(iter(columns[layer] for layer in passes)))
    demands = {(layer, task): frozenset((who,)) for layer in passes for task in outcomes.tasks}
    return LayerScores(
        outcomes, {k: v.ravel() for k, v in columns.items()}, demands, np.zeros(tasks * attempts, bool), {}
    )


def test_the_numbers_are_those_of_compare_and_holm_by_hand() -> None:
    base, new = scores({"L0": 8, "L1": 8, "L3": 8}), scores({"L0": 8, "L1": 5, "L3": 7})
    found = compare_layers(base, new)
    p = {}
    for layer in ("L0", "L1", "L3"):
        names = list(base.outcomes.tasks)
        alone = compare_outcomes(base.of(layer, names), new.of(layer, names))  # type: ignore[arg-type]
        change = found.layers[layer]  # type: ignore[index]
        assert change.p == alone.p
        assert change.difference.value == alone.difference.value
        assert (change.base.value, change.candidate.value) == (alone.base.value, alone.candidate.value)
        p[layer] = alone.p
    ordered = sorted(p, key=lambda x: p[x])
    assert ordered == ["L1", "L3", "L0"]
    by_hand, least = {}, 0.0
    for place, layer in enumerate(ordered):
        least = max(least, min(1.0, (3 - place) * p[layer]))
        by_hand[layer] = least
    assert {k: found.layers[k].adjusted for k in by_hand} == pytest.approx(by_hand)
    assert found.moved == ["L1"]
    assert found.layers["L2"].state == "not measured"
    wide = one_look(base.of("L1", base.outcomes.tasks), new.of("L1", base.outcomes.tasks), level=1 - 0.05 / 3)
    assert (found.layers["L1"].difference.low, found.layers["L1"].difference.high) == (
        wide.difference.low,
        wide.difference.high,
    ), "intervals hold together"
    assert "simultaneous" in (found.layers["L1"].difference.method or "")


@pytest.mark.parametrize("fall", range(9))
@pytest.mark.parametrize("other", [8, 7, 6, 4])
def test_an_interval_leaves_zero_out_where_and_only_where_the_layer_moved(fall: int, other: int) -> None:
    found = compare_layers(scores({"L0": 8, "L1": 8, "L3": 8}), scores({"L0": 8, "L1": 8 - fall, "L3": other}))
    for change in found.layers.values():
        if change.state == "not measured":
            continue
        low, high, adjusted = change.difference.low, change.difference.high, change.adjusted
        assert low is not None
        assert high is not None
        assert adjusted is not None
        assert low <= (change.difference.value or 0.0) <= high
        if change.state == "fell":
            assert high <= 0
            assert adjusted <= 0.05
        else:
            assert low <= 0 <= high
            assert adjusted > 0.05
        if change.state == "held":
            assert max(-low, high) < HOLDS


def test_a_layer_that_one_version_lacks_is_not_measured_and_says_which() -> None:
    found = compare_layers(scores({"L1": 8, "L3": 8}), scores({"L3": 8}))
    assert found.layers["L1"].state == "not measured"
    assert found.layers["L1"].difference.why == "not measured: only the base has it"


def test_tasks_with_other_demands_are_left_out_and_counted() -> None:
    found = compare_layers(scores({"L0": 8}, who="equals@1"), scores({"L0": 2}, who="equals@2"))
    assert found.layers["L0"].state == "not measured"
    assert found.notes == ["L0: 10 tasks are left out, where the two versions were checked for different things"]


def test_only_named_tasks_count() -> None:
    base, new = scores({"L3": 8}), scores({"L3": 2})
    assert compare_layers(base, new, tasks=["t00", "t01"]).layers["L3"].difference.n == 2


def change(layer: Layer, state: LayerState) -> LayerChange:
    value = {"fell": -0.3, "rose": 0.3}.get(state, 0.0)
    ends = {"fell": (-0.5, -0.1), "rose": (0.1, 0.5), "held": (-0.05, 0.05), "unsure": (-0.2, 0.2)}.get(state)
    low, high = ends or (None, None)
    there = Estimate(value=None if ends is None else value, low=low, high=high)
    return LayerChange(layer=layer, name=NAMES[layer], state=state, base=there, candidate=there, difference=there)


def routed(*states: LayerState) -> tuple[list[str], str]:
    suspects, look = where_to_look({x: change(x, s) for x, s in zip(LAYERS, states, strict=True)})
    return list(suspects), look


@pytest.mark.parametrize(
    ("states", "suspects", "words"),
    [
        (("held", "held", "held", "fell"), ["environment", "verifier"], "the way taken looks clean"),
        (("held", "held", "fell", "fell"), ["plan"], "L1 held: look at the plan"),
        (("held", "fell", "fell", "fell"), ["tools"], "Single decisions went wrong"),
        (("fell", "held", "held", "held"), ["prompt"], "what was said changed, not what was done"),
        (("fell", "not measured", "not measured", "held"), ["prompt"], "L3 held"),
        (
            ("fell", "not measured", "not measured", "not measured"),
            ["prompt", "tools", "plan"],
            "read failing attempts",
        ),
        (("fell", "unsure", "held", "held"), ["prompt", "tools", "plan"], "L1 may have fallen by up to 0.20"),
        (("fell", "fell", "held", "held"), ["tools"], "narrower than the task; the answer may"),
        (("held", "unsure", "fell", "fell"), ["plan", "tools"], "L1 may have fallen by up to 0.20"),
        (("held", "held", "not measured", "fell"), ["plan", "environment", "verifier"], "L2 is not measured"),
        (("held", "not measured", "not measured", "fell"), ["tools", "plan", "environment", "verifier"], "not found"),
        (("held", "rose", "held", "held"), [], "no layer fell significantly"),
        (("unsure", "unsure", "not measured", "held"), [], "no layer changed significantly"),
    ],
)
def test_where_each_pattern_points(states: tuple[LayerState, ...], suspects: list[str], words: str) -> None:
    whom, look = routed(*states)
    assert whom == suspects
    assert words in look


def test_the_sentence_carries_the_interval() -> None:
    assert routed("held", "fell", "held", "held")[1].startswith("L1 (tool calls) fell by 0.30 [0.10, 0.50]. Single ")


@pytest.mark.parametrize(
    ("most", "suspects"), [(-0.09, ["plan", "environment", "verifier"]), (-0.11, ["tools", "plan"])]
)
def test_a_layer_that_cannot_have_fallen_as_far_is_not_suspected(most: float, suspects: list[str]) -> None:
    layers = {x: change(x, s) for x, s in zip(LAYERS, ("held", "unsure", "not measured", "fell"), strict=True)}
    there = Estimate(value=0.0, low=most, high=0.2)
    layers["L1"] = msgspec.structs.replace(layers["L1"], difference=there)
    assert where_to_look(layers)[0][: len(suspects)] == suspects
