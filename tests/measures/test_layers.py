"""Success by layer: counted by hand, what is missing and why, and what failing runs pass below the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.measures.layers import LayerScores, layer_gaps, layer_rates, look_in_one_run
from ethogram.measures.outcomes import outcomes_of
from ethogram.measures.reliability import estimate_reliability
from ethogram.traces import LAYERS, Layer

Row = tuple[str, float | None, Mapping[Layer, float | None]]
"""A task, an outcome, and what each layer says."""


def scored(
    rows: Sequence[Row], *, reasons: Mapping[int, str] | None = None, spoiled: Sequence[int] = ()
) -> LayerScores:
    told = dict(reasons or {})
    outcomes = outcomes_of([(t, i, v, told.get(i)) for i, (t, v, _) in enumerate(rows)])
    scores = {x: np.array([np.nan if (s := r[2].get(x)) is None else s for r in rows], dtype=float) for x in LAYERS}
    demands = {(layer, t): frozenset(("check",)) for t, _, own in rows for layer in own}
    marks = np.zeros(len(rows), dtype=bool)
    marks[list(spoiled)] = True
    return LayerScores(outcomes, scores, demands, marks, {})


def test_rates_are_those_of_reliability_and_absent_layers_say_so() -> None:
    rows: list[Row] = [
        ("a", 1.0, {"L0": 1.0, "L1": 0.0}),
        ("a", 0.0, {"L0": 0.0, "L1": 0.0}),
        ("b", 1.0, {"L0": 1.0}),
        ("b", 1.0, {"L0": None}),
    ]
    found = layer_rates(scored(rows))
    assert list(found) == ["L0", "L1", "L2", "L3"]
    assert found["L0"].value == pytest.approx((1 / 2 + 1 / 1) / 2), "tasks count alike"
    assert found["L0"].missing == {"unscored": 1}
    assert found["L0"].n == 2
    assert (found["L1"].value, found["L1"].n) == (0.0, 1), "only the task at which it was looked at"
    for layer in ("L2", "L3"):
        assert found[layer].value is None
        assert (found[layer].why or "").startswith("not measured: ")
    plain = outcomes_of([("a", 0, 1.0, None), ("a", 1, 0.0, None), ("b", 0, 1.0, None), ("b", 1, None, None)])
    expected = estimate_reliability(plain, [1]).pass_at["1"]
    assert (found["L0"].low, found["L0"].high) == (expected.low, expected.high)


def test_what_infrastructure_spoiled_is_missing_and_what_the_agent_spoiled_failed() -> None:
    rows: list[Row] = [
        ("a", 1.0, {"L1": 1.0}),
        ("a", None, {"L1": 1.0}),  # the network failed: whatever a check said of it does not count
        ("a", None, {"L1": 1.0}),  # only the verifier of another layer crashed
        ("a", 0.0, {}),  # the agent crashed
    ]
    reasons = {1: "infrastructure.network", 2: "infrastructure.verifier"}
    found = layer_rates(scored(rows, reasons=reasons, spoiled=[3]))["L1"]
    assert found.value == pytest.approx(2 / 3)
    assert found.missing == {"infrastructure.network": 1}


def test_of_the_runs_that_end_badly_some_pass_below() -> None:
    rows: list[Row] = [(f"t{i % 10}", 0.0, {"L1": float(i % 10 != 0), "L3": 0.0}) for i in range(40)]
    rows += [(f"t{i}", 1.0, {"L1": 1.0, "L3": 1.0}) for i in range(10)]
    (gap,) = layer_gaps(scored(rows))
    assert (gap.layer, gap.passed, gap.failed_at_end) == ("L1", 36, 40)
    assert gap.share.value == pytest.approx(0.9)
    assert "most of them make the correct tool calls, so look at the plan" in look_in_one_run([gap])
    assert "verifier" in look_in_one_run([gap])
    wrong: list[Row] = [(f"t{i % 10}", 0.0, {"L1": 0.0, "L3": 0.0}) for i in range(40)]
    assert "tool descriptions" in look_in_one_run(layer_gaps(scored(wrong)))
    half: list[Row] = [(f"t{i % 10}", 0.0, {"L1": float(i < 20), "L3": 0.0}) for i in range(40)]
    assert "does not show where to look" in look_in_one_run(layer_gaps(scored(half)))
    with_way: list[Row] = [(t, v, {**own, "L2": 1.0}) for t, v, own in wrong]
    told = look_in_one_run(layer_gaps(scored(with_way)))
    assert told.endswith("so look at the environment and the verifier"), "the way taken looks clean, the end does not"


def test_without_two_layers_nothing_points_anywhere() -> None:
    rows: list[Row] = [("a", 0.0, {"L0": 0.0})]
    assert layer_gaps(scored(rows)) == []
    assert look_in_one_run([]) == ""


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 1.0, None]), st.sampled_from([0.0, 1.0, None])),
        min_size=1,
        max_size=30,
    )
)
def test_rates_stay_inside_their_intervals_and_counts_add_up(
    drawn: list[tuple[str, float | None, float | None]],
) -> None:
    found = scored([(t, 1.0, {"L1": one, "L3": two}) for t, one, two in drawn])
    for layer, column in (("L1", 1), ("L3", 2)):
        rate = layer_rates(found)[layer]  # type: ignore[index]
        unknown = sum(row[column] is None for row in drawn)
        assert sum(rate.missing.values()) == unknown
        if rate.value is not None and rate.low is not None and rate.high is not None:
            assert 0 <= rate.low <= rate.value <= rate.high <= 1
    for gap in layer_gaps(found):
        bad = [row for row in drawn if row[2] == 0.0 and row[1] is not None]
        assert gap.failed_at_end == len(bad)
        assert gap.passed == sum(row[1] == 1.0 for row in bad)
