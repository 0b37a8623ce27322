"""The corner shop: a world whose tools behave as the point of the grid says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from ethogram.harness.planning import suite_of
from ethogram.plans import Task
from ethogram.questions.explore.buying.start import ExploreOptions
from ethogram.questions.explore.buying.suite import explore_suite, load_grid
from ethogram.questions.explore.maps import map_exploration
from ethogram.store import Home
from ethogram.worlds.local_model import available

CORNER = Path(str(files("ethogram.worlds"))) / "corner"


def honest(task: Task, episode: Any) -> str:
    """Asks once, and says so when it was turned away."""
    try:
        return str(episode.tools["price"](item="lamp"))
    except RuntimeError:
        return "the till was busy"


def test_suite_and_grid_are_ready() -> None:
    assert [t.id for t in suite_of(CORNER).suite.tasks] == ["a-lamp", "the-lamp"]
    grid = load_grid(CORNER / "grid.yaml")
    assert grid.names == ("temperature", "busy", "other_tools")
    assert len(grid) == 24


def test_the_till_is_as_busy_as_the_point_says(home: Home, tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text("parameters: {busy: [0.0, 0.5, 1.0]}")
    found = explore_suite(
        CORNER, honest, str(tmp_path / "g.yaml"), ExploreOptions(max_episodes=150, name="corner"), home=home
    )
    never, often, always = map_exploration(found.run, home=home).points
    assert (never.failures, always.failures) == (0, always.episodes)
    assert 0.2 < often.failures / often.episodes < 0.8


def test_other_tools_stand_beside_the_price_list(home: Home, tmp_path: Path) -> None:
    seen: dict[int, set[tuple[str, ...]]] = {}

    def looks(task: Task, episode: Any) -> str:
        seen.setdefault(episode.condition["other_tools"], set()).add(tuple(episode.tools))
        told = [episode.tools[name](item="lamp") for name in episode.tools]
        with pytest.raises(LookupError):
            episode.tools["price"](item="unicorn")
        return str(told[0])

    (tmp_path / "g.yaml").write_text("parameters: {other_tools: [0, 2, 4]}")
    found = explore_suite(
        CORNER, looks, str(tmp_path / "g.yaml"), ExploreOptions(max_episodes=64, name="corner"), home=home
    )
    assert {n: {len(names) for names in each} for n, each in seen.items()} == {0: {1}, 2: {3}, 4: {5}}
    assert found.metrics.tube.tube_points_total == 3


@pytest.mark.skipif(available() is not None, reason=f"the local model cannot run: {available()}")
def test_the_real_model_answers_at_every_point(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text("parameters: {temperature: [0.1], busy: [0.0, 1.0]}")
    asked = [
        "--agent",
        "ethogram.worlds.local_model:agent",
        "--grid",
        "g.yaml",
        "--max-episodes",
        "4",
        "--workers",
        "2",
    ]
    done = subprocess.run(
        [Path(sys.executable).with_name("ethogram"), "explore", str(CORNER), *asked, "--json"],
        cwd=tmp_path,
        env={**os.environ, "ETHOGRAM_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2, done.stderr  # four episodes are not enough to decide anything
    found = json.loads(done.stdout)
    assert found["episodes"] == 4
    assert found["metrics"]["counts"]["missing"] == {}
