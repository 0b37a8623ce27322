"""Variance components: by hand, and where a level was not repeated."""

from __future__ import annotations

import numpy as np
import pytest

from ethogram.questions.calibration.components import LEVELS, components


def grid(shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    task, session, trace, judge, _ = np.indices(shape).reshape(5, -1)
    return task, session, trace, judge


def test_one_way_by_hand() -> None:
    # three tasks of two attempts: within (1 + 1 + 4) / 2 / 3 = 1, means 1.5, 4.5, 8
    values = np.array([1.0, 2.0, 4.0, 5.0, 7.0, 9.0])
    task = np.repeat([0, 1, 2], 2)
    found = components(values, (task, np.zeros(6), np.tile([0, 1], 3), np.zeros(6)), 0.95)
    within = (0.5 + 0.5 + 2.0) / 3
    assert found.levels["agent"].value == pytest.approx(within)
    assert found.levels["task"].value == pytest.approx(np.var([1.5, 4.5, 8.0], ddof=1) - within / 2)
    assert [found.levels[n].value for n in ("environment", "judge", "repeat")] == [None] * 3
    assert found.levels["task"].low is None, "three tasks have no interval"
    assert found.weights["task"] == pytest.approx(1 / 3)
    assert found.weights["agent"] == pytest.approx(1 / 6)


def test_every_level_is_found_without_bias() -> None:
    truth = {"task": 1.0, "environment": 0.4, "agent": 0.6, "judge": 0.3, "repeat": 0.2}
    rng = np.random.default_rng(2)
    shape = (400, 2, 3, 2, 2)
    values = sum(rng.normal(0, truth[name] ** 0.5, (*shape[: i + 1], *(1,) * (4 - i))) for i, name in enumerate(LEVELS))
    kept = rng.random(np.prod(shape)) > 0.2
    found = components(np.asarray(values).ravel()[kept], tuple(x[kept] for x in grid(shape)), 0.95)
    for name, variance in truth.items():
        part = found.levels[name]
        assert part.value == pytest.approx(variance, rel=0.25), name
        assert part.low is not None
        assert part.high is not None
        assert part.low < variance < part.high, name
    assert found.total == pytest.approx(sum(truth.values()), rel=0.1)
