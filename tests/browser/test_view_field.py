"""A behaviour field in a real browser: what it says, points that lead to traces, and another rule and corridor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import wait_for_count

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def address(serve_home: Callable[[Path], str], night_home: Path) -> str:
    return serve_home(night_home)


def test_points_are_chosen_by_a_rectangle_and_by_keys(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(f"{address}/#/run?run=night")
    page.locator(".tabs a", has_text="Field").click()
    page.wait_for_selector(".cloud circle")
    assert "24 scored attempts of 6 tasks, 12 passed" in page.locator(".head").inner_text()
    assert "errors" in page.locator(".advice").inner_text()
    assert page.locator(".dimensions tbody tr").first.locator("td").first.inner_text().startswith("errors")
    plot = page.locator(".cloud")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] - 2, steps=3)
    page.mouse.up()
    page.wait_for_url("**box=**")
    wait_for_count(page.locator(".chosen-traces li"), 24)
    plot.press("ArrowRight")
    page.wait_for_url("**trace=**")
    wait_for_count(page.locator(".chosen-traces li"), 1)
    plot.press("Enter")
    page.wait_for_url("**#/trace?run=night&trace=**")


def test_another_rule_and_a_corridor(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(f"{address}/#/field?run=night&rule=reached&against=night")
    page.wait_for_selector(".dimensions")
    corridor = page.locator("section.part", has_text="Corridor").last
    assert "12 successes of night" in corridor.inner_text()
    assert "came to it, or further" in page.locator("section.part", has_text="Horizons").last.inner_text()
