"""The list of runs in a real browser: lines, filter, its errors, picking two."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.questions.logs.imports import import_logs

from .conftest import wait_for_count

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def address(serve_home: Callable[[Path], str], night_home: Path) -> str:
    talk = [{"role": "user", "content": "a refund please"}, {"role": "assistant", "content": "no"}]
    other = [{"task_id": t, "trial": 0, "reward": 0.0, "info": {}, "traj": talk} for t in range(3)]
    log = night_home.parent / "other.json"
    log.write_text(json.dumps(other))
    import_logs(log, run="morning", home=str(night_home))
    return serve_home(night_home)


def names(page: Any) -> list[str]:
    return [cell.inner_text() for cell in page.locator("td.name > a").all()]


def test_runs_are_filtered_and_the_address_holds_it(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(address)
    wait_for_count(page.locator("td.name"), 2)
    assert names(page) == ["morning", "night"], "newest first"
    assert page.locator("tr", has_text="night").locator(".rate").inner_text().startswith("50%")
    page.keyboard.press("/")
    page.keyboard.type("words:refund pass<0.5")
    wait_for_count(page.locator("td.name"), 1)
    assert names(page) == ["morning"]
    assert "filter=words%3Arefund+pass%3C0.5" in page.url
    again = open_page(page.url)
    again.wait_for_selector("td.name")
    assert names(again) == ["morning"]


def test_a_filter_that_cannot_be_read_says_so_and_shows_nothing(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(f"{address}/#/runs?filter=pas<0.5")
    problem = page.locator(".filter [role=alert]")
    problem.wait_for()
    assert "knows no field 'pas'" in problem.inner_text()
    assert names(page) == []


def test_two_runs_are_picked_by_key_and_compared(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(address)
    wait_for_count(page.locator("td.name"), 2)
    page.keyboard.press("x")  # a key acts on what is drawn: each waits for what the one before it did
    page.wait_for_selector("tbody tr:nth-child(1) input:checked")
    page.keyboard.press("j")
    page.wait_for_selector("tbody tr:nth-child(2).active")
    page.keyboard.press("x")
    link = page.locator("a.button.strong")
    link.wait_for()
    assert link.inner_text() == "Compare morning → night"
    page.keyboard.press("?")
    assert "previous run" in page.locator(".sheet").inner_text()


def test_a_home_without_runs_says_what_to_type(
    open_page: Callable[..., Any], serve_home: Callable[[Path], str], tmp_path: Path
) -> None:
    page = open_page(serve_home(tmp_path / "empty"))
    page.wait_for_selector(".empty")
    assert "ethogram import PATH" in page.locator(".empty").inner_text()
