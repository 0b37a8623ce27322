"""The report in a real browser: it opens from a file, in light and in dark, and nothing in it errs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ethogram.plan import Check, Suite, Task
from ethogram.run.suites import run_suite
from ethogram.show.report import report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (apt-get install chromium)"),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    tasks = tuple(Task(id=f"t{i}", prompt="say yes", expected="yes", checks=(Check(kind="equals"),)) for i in range(6))

    def coin(task: Task, episode: Any) -> str:
        return "yes" if episode.rng.random() < 0.6 else "no"

    run_suite(Suite(name="coins", tasks=tasks), coin, k=4, name="night", home=str(folder / "home"))
    report("night", folder / "report.html", home=str(folder / "home"))
    return folder / "report.html"


def lightness(color: str) -> float:
    parts = [float(x) for x in color[color.index("(") + 1 : -1].split(",")[:3]]
    return sum(parts) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opens_and_reads_well(browser: Any, page_file: Path, scheme: str) -> None:
    page = browser.new_page(color_scheme=scheme)
    problems: list[str] = []
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    page.on("request", lambda r: problems.append(r.url) if not r.url.startswith("file:") else None)
    page.goto(page_file.as_uri())
    assert page.title() == "night · Ethogram"
    assert page.locator("h2").first.inner_text() == "Is it reliable?"
    assert page.locator(".matrix i").count() == 24
    assert page.locator("figure svg").count() >= 1
    ink, paper = (page.evaluate(f"getComputedStyle(document.body).{p}") for p in ("color", "backgroundColor"))
    assert abs(lightness(ink) - lightness(paper)) > 120
    axis = page.locator("figure svg text").first
    drawn = axis.evaluate("e => getComputedStyle(e).fill")
    assert abs(lightness(drawn) - lightness(paper)) > 120, "words in pictures follow the page"
    assert problems == []
    page.close()


def test_narrow_screens_do_not_scroll_sideways(browser: Any, page_file: Path) -> None:
    page = browser.new_page(viewport={"width": 380, "height": 700})
    page.goto(page_file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    page.close()


def test_keyboard_reaches_every_section(browser: Any, page_file: Path) -> None:
    page = browser.new_page()
    page.goto(page_file.as_uri())
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**#reliability")
    assert page.evaluate("location.hash") == "#reliability"
    page.close()
