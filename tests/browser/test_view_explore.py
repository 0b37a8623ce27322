"""An exploration in a real browser: a slice with its uncertainty, the tube, and rounds that arrive while one looks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.questions.explore.buying.start import ExploreOptions
from ethogram.questions.explore.buying.world import begin_exploration
from ethogram.worlds.named import known_world

pytestmark = pytest.mark.xdist_group("browser")


def test_slices_and_rounds_that_arrive(
    open_page: Callable[..., Any], serve_home: Callable[[Path], str], tmp_path: Path
) -> None:
    world = known_world("toy_v1", synthetic=True)
    begin_exploration(world, ExploreOptions(max_episodes=100, name="toy"), home=str(tmp_path))
    page = open_page(f"{serve_home(tmp_path)}/#/explore?run=toy")
    page.wait_for_selector(".heat .value")
    assert page.locator(".tabs a[aria-current]").inner_text() == "Explore"
    assert page.locator(".heat .value").count() == 16, "four values by four"
    assert "95 % level" in page.locator("main").inner_text()
    page.get_by_label("memory_tokens").last.select_option("64")
    page.wait_for_url("**fixed=**memory_tokens**")
    page.get_by_label("across").select_option("verify_flip")
    page.locator(".heat .name", has_text="verify_flip →").wait_for()
    before = page.locator(".learning .one circle").count()
    begin_exploration(world, ExploreOptions(max_episodes=200, name="toy"), home=str(tmp_path))
    page.get_by_text("200 episodes").first.wait_for()
    assert page.locator(".learning .one circle").count() > before
    assert "--strategy uniform --run toy-uniform" in page.locator("main").inner_text()
    begin_exploration(world, ExploreOptions(max_episodes=200, name="plain", strategy="uniform"), home=str(tmp_path))
    page.locator(".learning .name.baseline", has_text="uniform").wait_for()
    page.get_by_role("link", name="Overview").click()
    page.get_by_text("keeps outcomes and no traces").wait_for()  # and asks for no answer that it has not
