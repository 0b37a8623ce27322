"""A corridor of good runs: gaps per horizon, adherence of each run, an alarm for all of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ethogram.errors import BadInput, BadUsage
from ethogram.questions.field.corridor import Corridor
from ethogram.questions.field.field import Field

NAMES = ["messages", "calls", "bugs"]


def runs(
    seed: int, K: int = 24, *, more: float = 0.0, spread: float = 0.2, good: float = 0.5, tasks: int = 1, first: int = 0
) -> Field:
    rng = np.random.default_rng(seed)
    points = np.exp(3 + more + spread * rng.normal(size=(K, 3)))
    y = (np.arange(K) < good * K).astype(float)
    states = ["ab" if i % 4 else "a" for i in range(K)]
    task = [f"t{first + i % tasks}" for i in range(K)]
    episodes = [f"e{i}" for i in range(K)]
    return Field.from_arrays(points, y, NAMES, tasks=task, states=states, episodes=episodes)


def test_it_is_made_of_successes_or_of_what_was_selected() -> None:
    strong, people = runs(1, good=0.75), runs(2, K=8, good=1.0)
    assert Corridor.of(strong).K == 18
    assert Corridor.of(strong, people, name="golden").K == 26
    assert Corridor.of(strong.subset([0, 1, 20]), successes=False).K == 3
    with pytest.raises(BadInput, match="there are none"):
        Corridor.of(runs(1, good=0.0))
    with pytest.raises(BadUsage, match="at least one field"):
        Corridor.of()


def test_it_survives_json() -> None:
    corridor = Corridor.of(runs(1), name="ruler")
    again = Corridor.from_dict(json.loads(json.dumps(corridor.to_dict())))
    assert again.to_dict() == corridor.to_dict()
    assert again.name == "ruler"
    assert again.gaps(runs(2)) == corridor.gaps(runs(2))


@pytest.mark.parametrize(
    "data", [{}, {"format": 9}, {"format": 1, "runs": [{}], "dimensions": []}, {"format": 1, "runs": 3}]
)
def test_what_is_not_a_corridor_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"corridor|dimension"):
        Corridor.from_dict(data)


def test_gaps_are_the_essays_differences_with_intervals_beside() -> None:
    corridor, weak = Corridor.of(runs(1, good=0.8)), runs(2, more=0.5, spread=0.5)
    rows = corridor.gaps(weak, "visited")
    assert [(r.state, r.K, r.rule) for r in rows] == [("a", 24, "visited"), ("b", 18, "visited")]
    part = weak.horizon("b")
    assert rows[1].width_gap == pytest.approx(part.metrics().width() - corridor.field.metrics().width())
    center = part.metrics().center() - corridor.field.metrics().center()
    assert list(rows[1].centroid_gap.values()) == pytest.approx(center.tolist())
    ratio = rows[0].width_ratio
    assert ratio.low is not None
    assert ratio.low > 1
    assert ratio.value == pytest.approx(6.25, rel=0.6)
    assert rows[0].p is not None
    assert rows[0].p <= 0.01
    assert all(d.shift.low is not None and d.shift.low > 0 for d in rows[0].dimensions)


def test_other_tasks_have_plain_gaps_only() -> None:
    row = Corridor.of(runs(1)).gaps(runs(2, first=5))[0]
    assert row.width_gap == pytest.approx(row.width - Corridor.of(runs(1)).field.metrics().width())
    assert row.width_ratio.value is None
    assert "none of these tasks" in str(row.width_ratio.why)


def test_adherence_of_each_run() -> None:
    corridor = Corridor.of(runs(1, K=60))
    near, far = corridor.adherence(runs(2)), corridor.adherence(runs(3, more=2.0))
    assert sum(a.inside is False for a in near) <= 4
    assert all(a.inside is False for a in far)
    assert far[0].p == pytest.approx(1 / 31)
    assert far[0].episode == "e0"
    assert (far[0].reference, far[0].n) == ("task", 30)
    assert far[0].distance is not None
    assert far[0].distance > 2


def test_a_small_corridor_cannot_exclude_and_says_so() -> None:
    found = Corridor.of(runs(1, K=20)).adherence(runs(2, more=3.0))[0]
    assert found.inside is None
    assert "it needs 19" in str(found.why)
    assert Corridor.of(runs(1, K=20)).adherence(runs(2, more=3.0), alpha=0.1)[0].inside is False


def test_tasks_with_few_runs_are_held_against_all() -> None:
    found = Corridor.of(runs(1, K=60, tasks=4)).adherence(runs(2, K=4, tasks=2))
    assert {a.reference for a in found} == {"all tasks"}


def test_the_alarm() -> None:
    corridor = Corridor.of(runs(1, K=40, tasks=4))
    calm, loud = corridor.alarm(runs(2, K=12, tasks=4)), corridor.alarm(runs(3, K=12, tasks=4, more=0.4))
    assert calm.raised is False
    assert loud.raised is True
    assert loud.p is not None
    assert loud.p <= 0.05
    wide = corridor.alarm(runs(4, K=24, tasks=4, spread=0.5))
    assert wide.raised is True


def test_no_alarm_without_grounds() -> None:
    corridor = Corridor.of(runs(1))
    elsewhere = corridor.alarm(runs(2, first=7))
    assert elsewhere.raised is None
    assert elsewhere.untested == 24
    few = Corridor.of(runs(1, K=4)).alarm(runs(2, K=1))
    assert few.raised is None
    assert "too few attempts to raise an alarm" in str(few.why)
    with pytest.raises(BadUsage, match="measure both alike"):
        corridor.alarm(Field.from_arrays([[1.0]], [1], ["x"]))


@pytest.mark.parametrize("tasks", [1, 4])
def test_the_distance_leaves_out_0_exactly_where_its_test_rejects(tasks: int) -> None:
    """Shifts from none to clear: one distribution decides both what p says and where the interval begins."""
    rejected = 0
    for seed in range(40):
        corridor = Corridor.of(runs(seed, K=16, good=1.0, tasks=tasks))
        new = runs(500 + seed, K=16, more=0.02 * (seed % 8), good=1.0, tasks=tasks)
        for gap in corridor.gaps(new, draws=199):
            assert gap.p is not None
            assert gap.distance.low is not None
            assert (gap.distance.low > 0) == (gap.p <= 0.05), (seed, gap.state)
            rejected += gap.p <= 0.05
    assert 5 < rejected < 75
