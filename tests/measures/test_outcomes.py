"""Outcomes as columns: what is counted, what is missing, and what order does not change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.errors import NotFound
from ethogram.measures.metrics import METRICS, metric
from ethogram.measures.outcomes import NOT_RUN, Outcomes, outcomes_of

ROWS = [
    ("a", 0, 1.0, None),
    ("a", 1, 0.0, None),
    ("b", 0, None, "infrastructure.timeout"),
    ("b", 1, 0.7, None),
    ("c", 0, None, None),
]


def test_counts_by_hand() -> None:
    found = outcomes_of(ROWS, planned={"b": 3, "d": 2})
    assert found.tasks == ("a", "b", "c", "d")
    assert found.attempts.tolist() == [2, 1, 0, 0]
    assert found.successes.tolist() == [1, 1, 0, 0]
    assert found.planned.tolist() == [2, 3, 1, 2]
    assert found.missing_per_task.tolist() == [0, 2, 1, 2]
    assert found.missing() == {"infrastructure.timeout": 1, NOT_RUN: 3, "unscored": 1}
    assert not found.binary
    assert outcomes_of(ROWS[:2]).binary


def test_success_begins_where_the_suite_says() -> None:
    assert outcomes_of(ROWS, success_at=0.8).successes.tolist() == [1, 0, 0]
    assert outcomes_of(ROWS).metric("success")[[0, 1, 3]].tolist() == [1.0, 0.0, 1.0]
    assert np.isnan(outcomes_of(ROWS).metric("success")[[2, 4]]).all()
    assert outcomes_of(ROWS).metric("score")[3] == 0.7


def test_a_figure_that_nobody_recorded_is_unknown_and_never_zero() -> None:
    found = outcomes_of(ROWS)
    assert np.isnan(found.metric("cost")).all()
    paid = Outcomes(**{**vars(found), "figures": {"cost": np.arange(5.0)}})
    assert paid.metric("cost")[0] == 0.0
    assert np.isnan(paid.metric("cost")[2]), "the cost of an attempt that was cut off is no measurement of the agent"
    assert paid.metric("cost")[4] == 4.0, "of an attempt that ended, only the verdict is missing"
    assert paid.missing("cost") == {"infrastructure.timeout": 1}
    assert paid.missing() == {"infrastructure.timeout": 1, "unscored": 1}


def test_choosing_tasks_keeps_those_without_an_episode() -> None:
    found = outcomes_of(ROWS, planned={"d": 2}).only(("d", "b", "new"))
    assert found.tasks == ("d", "b", "new")
    assert found.planned.tolist() == [2, 2, 0]
    assert found.attempts.tolist() == [0, 1, 0]
    assert found.reason.tolist() == ["infrastructure.timeout", None]


def test_the_first_attempts_by_their_numbers() -> None:
    found = outcomes_of(ROWS).upto(np.array([1, 2, 0]))
    assert found.attempts.tolist() == [1, 1, 0]
    assert found.planned.tolist() == [1, 2, 0]
    assert found.missing() == {"infrastructure.timeout": 1}


def test_a_grid_has_a_row_per_pass() -> None:
    grid = outcomes_of(ROWS).grid("success")
    np.testing.assert_array_equal(grid, [[1.0, np.nan, np.nan], [0.0, 1.0, np.nan]])
    assert outcomes_of([]).grid("success").shape == (0, 0)


rows = st.lists(
    st.tuples(st.sampled_from("abcde"), st.integers(0, 4), st.sampled_from([0.0, 1.0, 0.3, None])),
    unique_by=lambda r: r[:2],
    max_size=25,
)


@given(rows, st.randoms(use_true_random=False))
def test_the_order_of_episodes_changes_nothing(listed: list[tuple[str, int, float | None]], random) -> None:
    full = [(t, k, v, "external.judge") for t, k, v in listed]
    mixed = list(full)
    random.shuffle(mixed)
    one, two = outcomes_of(full), outcomes_of(mixed).only(outcomes_of(full).tasks)
    for name in ("attempts", "successes", "missing_per_task", "planned"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    np.testing.assert_array_equal(one.grid("success"), two.grid("success"))
    assert one.missing() == two.missing()


@given(rows)
def test_every_planned_attempt_is_scored_or_missing(listed: list[tuple[str, int, float | None]]) -> None:
    found = outcomes_of([(t, k, v, None) for t, k, v in listed], planned={"a": 7, "z": 2})
    assert int(found.attempts.sum()) + sum(found.missing().values()) == int(found.planned.sum())
    assert np.all(found.successes <= found.attempts)


def test_metrics_are_defined_once_and_know_which_way_is_worse() -> None:
    assert set(METRICS) >= {"success", "score", "cost", "steps", "tokens", "seconds"}
    assert [metric(n).worse_sign for n in ("success", "score", "cost", "steps", "tokens", "seconds")] == [-1, -1] + [
        1
    ] * 4
    assert all(m.formula and m.unit and m.version >= 1 for m in METRICS.values())
    with pytest.raises(NotFound, match="cost"):
        metric("costs")
