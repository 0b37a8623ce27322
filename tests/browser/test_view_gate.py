"""The verdict on two runs in a real browser: what moved, where to read it, and how to choose a baseline."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.questions.logs.imports import import_logs

from .conftest import attempt

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def address(serve_home: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Baseline: everything passes; candidate: task 3 never does."""
    folder = tmp_path_factory.mktemp("gate")
    for name, broken in (("main", -1), ("change", 3)):
        rows = [
            {**attempt(t, 0), "trial": k} if t != broken else {**attempt(t, 3), "trial": k}
            for t in range(5)
            for k in range(8)
        ]
        (folder / f"{name}.json").write_text(json.dumps(rows))
        import_logs(folder / f"{name}.json", run=name, home=str(folder / "home"))
    return serve_home(folder / "home")


def test_a_regression_names_the_task_and_the_step(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(f"{address}/#/gate?run=change&against=main")
    page.wait_for_selector(".verdict")
    assert page.locator("h1").inner_text() == "The change made it worse"
    moved = page.locator(".moved article")
    assert moved.count() == 1
    assert "8/8 → 0/8" in moved.inner_text()
    assert "tool:look_up:error" in moved.inner_text()
    assert page.locator(".dumbbells tr").first.locator(".name").inner_text() == "3", "the worst task stands first"
    moved.locator("a").first.click()
    page.wait_for_url("**#/trace?run=change&trace=*step=2")


def test_without_a_baseline_the_runs_are_offered(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(f"{address}/#/gate?run=change")
    page.locator(".choices a", has_text="main").click()
    page.wait_for_url("**against=main**")
    page.locator("select").first.select_option("steps")
    page.wait_for_url("**metric=steps**")
    page.wait_for_selector(".verdict")


def test_two_choices_in_one_moment_are_both_kept(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(f"{address}/#/gate?run=change&against=main")
    page.wait_for_selector(".verdict")
    page.evaluate("""for (const [place, value] of [[0, "steps"], [1, "0.1"]]) {
        const choice = document.querySelectorAll("main select")[place];
        choice.value = value;
        choice.dispatchEvent(new Event("change", {bubbles: true}));
    }""")
    page.wait_for_url("**margin=0.1**")
    assert "metric=steps" in page.url
