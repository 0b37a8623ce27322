"""Pages can be used without a mouse and without eyes: axe-core finds no serious fault, in light and in dark."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from ethogram.store import open_home
from ethogram.viewer.report.report import report

AXE = resources.files("axe_playwright_python") / "axe.min.js"
GRAVE = ("serious", "critical")
pytestmark = pytest.mark.xdist_group("browser")
PAGES = {
    "runs": ("#/runs", "td.name"),
    "run": ("#/run?run=night", "main *"),
    "report": ("#/report?run=night", "figure svg"),
    "trace": ("#/trace?run=night&trace={trace}", "main *"),
    "beside": ("#/trace?run=night&trace={trace}&beside=yes", ".passing .step"),
    "diff": ("#/diff?run=night&trace={trace}&other={other}", "main *"),
    "gate": ("#/gate?run=night", "main *"),
    "task": ("#/task?run=night&task=0", ".tree"),
    "field": ("#/field?run=night", ".cloud"),
    "nowhere": ("#/nowhere", ".empty"),
}


def faults(page: Any) -> list[str]:
    """What axe finds that keeps people out, each with the first element that it means."""
    page.evaluate(AXE.read_text(encoding="utf-8"))  # not a script of the page: its policy would refuse that
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{one['id']}: {one['nodes'][0]['html'][:160]}" for one in found["violations"] if one["impact"] in GRAVE]


@pytest.fixture(scope="module")
def address(serve_home: Callable[[Path], str], night_home: Path) -> str:
    return serve_home(night_home)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_no_serious_fault(
    open_page: Callable[..., Any], address: str, night_home: Path, name: str, scheme: str
) -> None:
    other, trace = (e.head.trace_id for e in open_home(str(night_home)).run("night").entries[2:4])
    where, ready = PAGES[name]
    page = open_page(f"{address}/{where.format(trace=trace, other=other)}", color_scheme=scheme)
    page.wait_for_selector(ready)
    page.locator(".ghost").first.wait_for(state="detached")
    assert faults(page) == []


def test_no_serious_fault_on_paper(chromium: Any, night_home: Path, tmp_path: Path) -> None:
    report("night", tmp_path / "r.html", home=str(night_home))
    page = chromium.new_page()
    page.goto((tmp_path / "r.html").as_uri())
    page.wait_for_selector("figure svg")
    assert faults(page) == []
    page.close()
