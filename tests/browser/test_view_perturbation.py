"""A paired experiment in a real browser: what the damage cost, how it showed, and pairs that open the diff."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.plans import Task
from ethogram.questions.experiment.buying.experiment import Experiment

pytestmark = pytest.mark.xdist_group("browser")


def adder(task: Task, episode: Any) -> str:
    """Adds up a column, and looks at the columns where it cannot."""
    for _ in range(2):
        try:
            return str(episode.tools["total"](name="t.csv", column="price"))
        except (RuntimeError, LookupError, ValueError):
            episode.tools["columns"](name="t.csv")
    return "unknown"


@pytest.fixture(scope="module")
def address(serve_home: Callable[[Path], str], night_home: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A duplicated row makes the sum wrong, an added column changes nothing."""
    table = tmp_path_factory.mktemp("table") / "t.csv"
    table.write_text("item,price\napple,3\nbread,4\nmilk,2\ntea,6\n")
    about: dict[str, Any] = {"question": "Sum?", "expected": 15, "score": "numeric", "run": "hurt"}
    operators = ["row_duplicate", "irrelevant_columns"]
    Experiment(agent=adder, files=table, operators=operators, k=2, home=str(night_home), **about).run()
    return serve_home(night_home)


def test_a_cell_lists_its_pairs_and_a_pair_opens_the_diff(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(f"{address}/#/run?run=hurt")
    page.locator(".tabs a", has_text="Perturbation").click()
    page.wait_for_selector(".heat-table")
    assert [row.inner_text().split() for row in page.locator(".heat-table tbody tr").all()] == [
        ["row_duplicate", "▼", "1.00"],
        ["irrelevant_columns", "=", "0"],
    ]
    shown = page.locator(".showings tbody").inner_text()
    assert "silent semantic corruption" in shown
    assert "no observable effect" in shown
    assert page.locator(".pairs tbody tr").count() == 4
    page.locator(".heat-table button").first.click()
    page.wait_for_url("**operator=row_duplicate**")
    page.get_by_text("only row_duplicate").wait_for()
    page.locator(".pairs tbody tr", has_text="irrelevant_columns").first.wait_for(state="detached")
    assert page.locator(".pairs tbody tr").count() == 2
    page.locator(".pairs tbody tr a.mono").first.click()
    page.wait_for_url("**#/diff?run=hurt**")


def test_other_runs_have_no_such_tab_and_say_what_to_type(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(f"{address}/#/run?run=night")
    page.wait_for_selector(".matrix .task")
    assert page.locator(".tabs a", has_text="Perturbation").count() == 0
    page.goto(f"{address}/#/perturbation?run=night")
    page.wait_for_selector(".failure")
    assert "ethogram perturb" in page.locator("main").inner_text()
    page.goto("about:blank")
    open_page.problems.clear()  # type: ignore[attr-defined]  # a browser names every answer with an error status
