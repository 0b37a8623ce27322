"""The order of a gate's attempts: random samples of tasks, fixed by their names alone."""

from __future__ import annotations

import numpy as np

from ethogram.questions.gate.order import attempts_by_look, equal_attempts, passes, runs_by_look

NAMES = [f"t{i:02d}" for i in range(50)]


def test_every_pass_takes_every_task_once_in_an_order_of_its_own() -> None:
    order = passes(NAMES, 150).reshape(3, 50)
    assert all(sorted(part) == list(range(50)) for part in order.tolist())
    assert not np.array_equal(order[0], order[1])
    assert not np.array_equal(order[0], np.arange(50))
    np.testing.assert_array_equal(passes(NAMES, 70), order.ravel()[:70], "a longer order begins like a shorter one")


def test_the_order_does_not_depend_on_the_order_of_a_file() -> None:
    turned = NAMES[::-1]
    here, there = ([names[i] for i in passes(names, 120)] for names in (NAMES, turned))
    assert here == there
    assert passes([f"u{i:02d}" for i in range(50)], 50).tolist() != passes(NAMES, 50).tolist()
    fewer = [name for name in NAMES if name != "t07"]
    assert [fewer[i] for i in passes(fewer, 49)] == [name for name in here[:50] if name != "t07"]


def test_the_draw_is_kept_for_ever() -> None:
    """Written down once: a run that was begun with one release is gone on with by the next."""
    assert passes(["b", "a", "c", "d"], 8).tolist() == [2, 1, 3, 0, 2, 3, 0, 1]


def test_half_a_pass_is_a_fair_sample_of_the_tasks() -> None:
    seen = np.zeros(20)
    for suite in range(400):
        names = [f"{suite}-{i}" for i in range(20)]
        seen[passes(names, 10)] += 1
    assert np.all(np.abs(seen - 200) < 5 * np.sqrt(400 * 0.25))


def test_attempts_are_counted_along_the_order() -> None:
    found = attempts_by_look([2, 0, 0, 1, 2], [0, 2, 3, 5], 4)
    np.testing.assert_array_equal(found, [[0, 0, 0, 0], [1, 0, 1, 0], [2, 0, 1, 0], [2, 1, 2, 0]])
    assert runs_by_look([0.5, 1.0, 1.5], 4) == [2, 4, 6]
    due = equal_attempts([0.5, 1.0, 1.5], 4)
    np.testing.assert_array_equal(due.sum(axis=1), [2, 4, 6])
    np.testing.assert_array_equal(due[1], [1, 1, 1, 1])
    assert passes(["a"], 0).size == 0
