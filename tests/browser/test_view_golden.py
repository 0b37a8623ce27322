"""Golden sets and incidents in a real browser: history with reasons, evidence that opens, and the task that guards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.harness.suites import run as run_suite
from ethogram.questions.golden.promotion import WantedCheck, promote
from ethogram.questions.golden.versions import freeze
from ethogram.questions.incident.closing import close_incident
from ethogram.questions.incident.opening import open_incident
from ethogram.questions.incident.records import list_incidents
from ethogram.store import open_home

from .conftest import wait_for_count
from .test_axe import AXE, faults

pytestmark = pytest.mark.xdist_group("browser")
TASKS = """
- {id: tea, prompt: "What does tea cost?", checks: [{contains: "6"}]}
- {id: ale, prompt: "What does ale cost?", checks: [{contains: "4"}]}
"""


def good(task: Any) -> str:
    return "It costs 6." if "tea" in task.prompt else "It costs 4."


def bad(task: Any) -> str:
    return "I do not know."


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A golden set with two versions; one incident that its second version guards against, and one that is open."""
    folder = tmp_path_factory.mktemp("golden")
    suite, home = folder / "shop", str(folder / "home")
    suite.mkdir()
    (suite / "tasks.yaml").write_text(TASKS)
    (folder / "playbook.yaml").write_text("other:\n  rollback: git revert --no-edit HEAD\n")
    freeze(str(suite), why="prices of May", by="ada")
    run_suite(str(suite), good, run="before", home=home)
    run_suite(str(suite), bad, run="after", home=home)
    traces = {
        (run, e.head.task): e.head.trace_id for run in ("before", "after") for e in open_home(home).run(run).entries
    }
    for task, title in (("tea", "no price for tea"), ("ale", "no price for <b>ale</b>")):
        open_incident(traces["after", task], why=title, owner="shop team", by="bo", home=home)
    wanted = WantedCheck(id="tea-again", reference=traces["before", "tea"])
    promote(traces["after", "tea"], str(suite), wanted, by="ada", home=home)
    named = {i.title: i.id for i in list_incidents(home=home).incidents}
    close_incident(named["no price for tea"], task="tea-again", suite=str(suite), by="ada", home=home)
    return folder / "home"


@pytest.fixture(scope="module")
def address(serve_home: Callable[[Path], str], home: Path) -> str:
    return serve_home(home)


def test_history_health_and_incidents(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(f"{address}/#/runs")
    page.get_by_text("Golden sets and incidents").click()
    page.wait_for_selector(".golden-set")
    history = page.locator(".golden-set .history li")
    assert history.count() == 2
    assert "1.1.0" in history.nth(0).inner_text()
    assert "added tea-again" in history.nth(0).inner_text()
    assert "prices of May" in history.nth(1).inner_text()
    assert "ada" in history.nth(1).inner_text()
    rows = page.locator(".health tbody tr")
    assert [rows.nth(i).locator("td").first.inner_text() for i in range(3)] == ["tea", "ale", "tea-again"]
    assert "50%" in rows.nth(0).inner_text()
    assert "not run yet" in rows.nth(2).inner_text()
    open_one, closed = page.locator(".incident.open"), page.locator(".incident.closed")
    assert "no price for <b>ale</b>" in open_one.inner_text()
    assert "nothing yet" in open_one.inner_text()
    assert "ethogram incident close" in open_one.inner_text()
    assert "git revert --no-edit HEAD" in open_one.inner_text()
    assert "tea-again of shop 1.1.0" in closed.inner_text()
    if AXE.is_file():
        assert faults(page) == []
    page.locator(".golden select").select_option("open")
    page.wait_for_url("**state=open**")
    wait_for_count(closed, 0)
    open_one.get_by_text("side by side").click()
    page.wait_for_url("**#/diff?run=before**against=after**")
    page.wait_for_selector("main h1, main .failure")
    assert page.locator("main .failure").count() == 0


def test_a_home_without_either_says_what_to_type(
    open_page: Callable[..., Any], serve_home: Callable[[Path], str], tmp_path: Path
) -> None:
    open_home(str(tmp_path / "empty"))
    page = open_page(f"{serve_home(tmp_path / 'empty')}/#/golden")
    assert page.locator(".empty code").first.inner_text() == "ethogram golden freeze SUITE"


def test_a_set_that_is_gone_is_told_with_what_runs_kept(
    open_page: Callable[..., Any], address: str, home: Path
) -> None:
    file = home.parent / "shop" / "golden.json"
    kept = file.read_text()
    file.unlink()
    try:
        page = open_page(f"{address}/#/golden")
        assert "golden.json is gone" in page.locator(".golden-set .failure").inner_text()
        assert page.locator(".ran li").count() == 2
    finally:
        file.write_text(kept)
