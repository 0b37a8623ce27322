"""One task in a real browser: the tree of its attempts, what a choice is worth, and the way to traces and forks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.questions.logs.imports import import_logs

from .conftest import attempt, wait_for_count

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def address(serve_home: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two tasks of twelve attempts each: a word is found in six of them, and refused in the others."""
    folder = tmp_path_factory.mktemp("task")
    rows = [{**attempt(t, 0 if k % 2 else 3), "trial": k} for t in range(2) for k in range(12)]
    (folder / "log.json").write_text(json.dumps(rows))
    import_logs(folder / "log.json", run="night", home=str(folder / "home"))
    return serve_home(folder / "home")


def settled(page: Any, element: Any) -> None:
    """Wait until an element has stayed where it is: parts of a page that load later move it from under the pointer."""
    places = [None]
    for _ in range(50):
        places.append(element.bounding_box())
        if places[-4:] == [places[-1]] * 4:
            return
        page.wait_for_timeout(200)


def test_the_grid_leads_to_the_tree_of_a_task(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(f"{address}/#/run?run=night")
    link = page.locator(".matrix .task a").first
    settled(page, link)
    link.click()
    page.wait_for_url("**#/task?run=night&task=0")
    branches = page.locator(".tree button")
    branches.first.wait_for()
    assert branches.count() == 3, "a stem, and two ways on"
    assert "6/12" in branches.nth(0).inner_text()
    ways = [branches.nth(i).inner_text() for i in (1, 2)]
    failing = next(i for i, words in enumerate(ways, 1) if "look_up fails" in words)
    assert "0/6" in branches.nth(failing).inner_text()
    branches.nth(failing).click()
    page.wait_for_url(f"**branch={failing}")
    wait_for_count(page.locator(".task-attempts tr"), 6)
    assert "6 of 12" in page.locator("h2").last.inner_text()
    point = page.locator(".points tbody tr").first
    assert "look_up fails" in point.inner_text()
    assert "−100%" in point.inner_text()
    page.locator(".task-attempts a").first.click()
    page.wait_for_url("**#/trace?run=night&trace=*step=2")


def test_neighbours_and_what_to_type(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(f"{address}/#/task?run=night&task=0")
    page.wait_for_selector(".tree")
    assert "ethogram fork" in page.locator(".command", has_text="fork").first.inner_text()
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**task=1")
    page.goto(f"{address}/#/task?run=night&task=none")
    page.wait_for_selector(".failure", timeout=15_000)
    assert "none" in page.locator(".failure").inner_text()
    page.goto("about:blank")
    open_page.problems.clear()  # type: ignore[attr-defined]  # a browser names every answer with an error status
