"""Two attempts side by side in a real browser: where they part, the words there, keys, and distances of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.store import open_home

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def address(serve_home: Callable[[Path], str], night_home: Path) -> str:
    return serve_home(night_home)


def pair(home: Path) -> str:
    """A passing and a failing attempt of one task, as the address names them."""
    entries = open_home(str(home)).run("night").entries
    by = {(e.head.task, e.head.attempt): e.head.trace_id for e in entries}
    return f"#/diff?run=night&trace={by['0', 0]}&other={by['0', 3]}"


def test_two_attempts_part_at_a_step_with_the_words_of_each(
    open_page: Callable[..., Any], address: str, night_home: Path
) -> None:
    page = open_page(f"{address}/{pair(night_home)}")
    page.wait_for_selector(".words pre")
    assert page.locator("h1").inner_text() == "They part at step 2"
    parting = page.locator(".step.parting")
    assert parting.locator(".sign").inner_text() == "~"
    assert "tool:look_up:error" in parting.inner_text()
    words = [side.inner_text() for side in page.locator(".words").all()]
    assert "found it" in words[0]
    assert "<b>closed</b>" in words[1], "markup of a trace is shown as text"
    page.keyboard.press("j")
    page.wait_for_url("**row=3**")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**row=2**")
    again = open_page(page.url)
    again.wait_for_selector(".step.active")
    assert again.locator(".step.active").inner_text() == parting.inner_text()


def test_repeats_of_a_run_are_measured_by_task(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(f"{address}/#/diff?run=night")
    page.wait_for_selector(".bars")
    assert page.locator("h1").inner_text() == "Repeats of night"
    assert page.locator(".bars tr").count() == 6
    assert "noise floor" in page.locator(".part h2").first.inner_text()


def test_a_trace_that_is_not_there_is_one_sentence(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(f"{address}/#/diff?run=night&trace=ffff&other=eeee")
    failed = page.locator(".failure")
    failed.wait_for()
    assert "ffff" in failed.inner_text()
    open_page.problems.clear()  # the browser itself notes the answer 404
