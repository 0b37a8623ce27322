"""The pictures of a field: what the text refuses is not drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethogram.questions.field.cloud import Cloud, CloudPoint
from ethogram.questions.field.question import field
from ethogram.questions.logs.imports import import_logs
from ethogram.store import Home
from ethogram.viewer.report.field import MOST_LINES, MOST_POINTS, cloud_charts, field_charts

DRIFT = "where failures leave the corridor, among attempts that visited each stage"
RATE = "how often attempts that visited a stage succeed"


def words(home: Home, folder: Path, attempts: int) -> list[str]:
    """The pictures of two tasks, tried so often each; every third attempt fails and searches longer."""
    log = []
    for task in range(2):
        for trial in range(attempts):
            good = trial % 3 > 0
            calls = ["search_orders"] * (1 + trial % 2 + (0 if good else 3 + trial)) + ["update_order"] * good
            talk = [{"role": "user", "content": "please"}]
            for i, name in enumerate(calls):
                asked = {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": "{}"}}
                talk.append({"role": "assistant", "content": None, "tool_calls": [asked]})
                talk.append({"role": "tool", "tool_call_id": f"c{i}", "name": name, "content": "ok"})
            log.append({"task_id": task, "trial": trial, "reward": float(good), "info": {}, "traj": talk})
    name = f"shop{attempts}"
    (folder / f"{name}.json").write_text(json.dumps(log))
    import_logs([folder / f"{name}.json"], run=name, home=home)
    found = field(name, home=home, draws=99)
    thin = found.horizons[0].estimates["drift"].low is None
    assert thin == (attempts == 3)
    return [chart.words for chart in field_charts(found)]


def test_drift_is_drawn_only_where_it_is_told(home: Home, tmp_path: Path) -> None:
    few, many = words(home, tmp_path, 3), words(home, tmp_path, 15)
    assert DRIFT in many
    assert DRIFT not in few
    assert RATE in few
    assert RATE in many


def _cloud(outcomes: list[str]) -> Cloud:
    points = [
        CloudPoint(trace_id=f"b2:{i}", task=f"t{i % 7}", outcome=o, x=i, y=0, values=dict.fromkeys("abc", 1.0))
        for i, o in enumerate(outcomes)
    ]
    return Cloud(run="r", explained=[0.5, 0.2], dimensions=[*"abc"], points=points)


@pytest.mark.parametrize(
    "outcomes",
    [
        ["failure"] * 2000 + ["success"] * 2000,
        ["failure", "success"] * 2000,  # every second point is a success
    ],
)
def test_a_part_of_a_cloud_has_every_outcome_and_says_so(outcomes: list[str]) -> None:
    points, lines = cloud_charts(_cloud(outcomes))
    drawn = [row["outcome"] for row in points.spec["data"]["values"]]
    assert (drawn.count("failure"), drawn.count("success")) == (MOST_POINTS / 2, MOST_POINTS / 2)
    assert points.words.startswith("2,000 of 4,000 attempts in two of their dimensions")
    by_run = {row["run"]: row["outcome"] for row in lines.spec["data"]["values"]}
    assert list(by_run.values()).count("success") == MOST_LINES / 2
    assert lines.words == "150 of 4,000 attempts over all dimensions"


def test_a_small_cloud_is_whole() -> None:
    cloud = _cloud(["failure", "success"] * 20)
    assert cloud.thinned(40) is cloud
    assert [p.trace_id for p in cloud.thinned(39).points] == sorted(
        (p.trace_id for p in cloud.thinned(39).points), key=lambda name: int(name[3:])
    )
    assert len(cloud.thinned(39).points) == len({p.trace_id for p in cloud.thinned(39).points}) == 39
    points, lines = cloud_charts(cloud)
    assert points.words.startswith("attempts in two")
    assert lines.words == "every attempt over all dimensions"
