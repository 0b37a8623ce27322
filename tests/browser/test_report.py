"""The report in a real browser: from disk with the network off, in light and in dark, and nothing in it errs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ethogram.viewer.report.report import report

pytestmark = pytest.mark.xdist_group("browser")
REFUSED = "Error: the dictionary is <b>closed</b> today"
Opened = Callable[..., Any]


@pytest.fixture(scope="module")
def page_file(night_home: Path) -> Path:
    report("night", night_home.parent / "report.html", home=str(night_home))
    return night_home.parent / "report.html"


@pytest.fixture
def opened(chromium: Any, page_file: Path) -> Iterator[Opened]:
    """Opens the file without a network; what errs, or asks for anything, fails the test."""
    problems: list[str] = []
    contexts: list[Any] = []

    def open_file(at: str = "", **how: Any) -> Any:
        context = chromium.new_context(offline=True, **{"viewport": {"width": 1280, "height": 800}, **how})
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda r: problems.append(r.url) if not r.url.startswith(("file:", "blob:")) else None)
        page.goto(page_file.as_uri() + at)
        contexts.append(context)
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert problems == []


def lightness(color: str) -> float:
    parts = [float(x) for x in color[color.index("(") + 1 : -1].split(",")[:3]]
    return sum(parts) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opens_and_reads_well(opened: Opened, scheme: str) -> None:
    page = opened(color_scheme=scheme)
    page.wait_for_selector(".report-head nav")
    assert page.title() == "night · Ethogram"
    assert page.locator("h2").first.inner_text() == "Why does it fail?"
    assert page.locator(".tries i").count() == 24
    page.wait_for_selector("figure svg")
    ink, paper = (
        page.evaluate(f"getComputedStyle(document.documentElement).{p}") for p in ("color", "backgroundColor")
    )
    assert abs(lightness(ink) - lightness(paper)) > 120
    drawn = page.locator("figure svg text").first.evaluate("e => getComputedStyle(e).fill")
    assert abs(lightness(drawn) - lightness(paper)) > 120, "words in pictures follow the page"


def test_the_overview_is_inside_and_its_grid_opens_attempts(opened: Opened) -> None:
    page = opened()
    page.locator(".report-head nav").get_by_text("Overview").click()
    page.wait_for_selector(".run .headline")
    assert "12 of 24 attempts failed" in page.locator(".headline").inner_text()
    assert page.locator(".matrix .dots a").count() == 24
    assert page.locator(".chart").count() > 0
    shaped = page.locator(".figures").evaluate("e => getComputedStyle(e).display")
    assert shaped == "grid", "styles of other pages, which the file holds too, leave this one alone"
    assert page.get_by_label("Filter attempts").count() == 0, "a filter needs a server"
    page.locator(".matrix .dots a").nth(2).click()
    page.wait_for_selector(".trace .step")
    page.go_back()
    page.locator(".reasons .examples a").first.click()
    page.wait_for_selector(".trace .step.current")


def test_without_scripts_the_headline_and_the_tables_are_there(opened: Opened) -> None:
    page = opened(java_script_enabled=False)
    assert page.locator("h1").inner_text() == "night"
    assert page.locator(".card").count() >= 2
    assert "12 of 24 attempts failed" in page.locator(".lead").first.inner_text()
    assert page.locator("table").count() >= 2
    assert page.locator(".tries i").count() == 24


def test_narrow_screens_do_not_scroll_sideways(opened: Opened) -> None:
    page = opened(viewport={"width": 380, "height": 700})
    page.wait_for_selector(".report-head nav")
    page.locator(".tries a:has(i.fail)").first.click()
    page.wait_for_selector(".passing .step")
    assert page.evaluate("document.documentElement.scrollWidth") <= 380


def test_a_dot_opens_its_attempt_beside_one_that_passed(opened: Opened) -> None:
    page = opened()
    page.wait_for_selector(".report-head nav")
    assert page.locator("pre").count() == 0, "words are unpacked when they are asked for"
    page.locator(".tries a:has(i.fail)").first.click()
    page.wait_for_selector(".passing .step.differs")
    assert page.locator(".cards-pane pre", has_text=REFUSED).first.is_visible(), "one click reads the words"
    assert page.locator(".passing pre", has_text="found it").first.is_visible()
    assert page.locator(".step.current .tag", has_text="the first difference").count() == 2, "on both sides"
    assert "First difference: step " in page.locator(".beside-line").inner_text()
    before = page.url
    page.keyboard.press("ArrowRight")
    page.wait_for_function("before => location.href !== before", arg=before)
    again = opened(before[before.index("#") :])
    again.wait_for_selector(".passing .step.differs")
    page.keyboard.press("b")
    page.wait_for_selector(".outline .outline-row")
    assert page.locator(".passing").count() == 0


def test_an_attempt_is_searched_and_filtered_in_the_file(opened: Opened) -> None:
    page = opened()
    page.locator(".lead a").first.click()
    page.wait_for_selector(".trace .step.current")
    step = page.url.partition("step=")[2].partition("&")[0]
    assert page.locator(f"#step-{step}.current").is_visible(), "the headline leads to the step that it quotes"
    rows = page.locator(".outline .outline-row").count()
    page.keyboard.press("/")
    page.keyboard.type("DICTIONARY is")
    page.wait_for_selector("text=1 of 1")
    assert page.locator(".step mark", has_text="dictionary is").count() >= 1
    page.get_by_role("button", name="Tools", exact=True).click()
    page.wait_for_selector(".hidden-steps")
    assert page.locator(".card .step:not(.tool)").count() == 0
    assert 0 < page.locator(".outline .outline-row").count() < rows
    page.get_by_role("button", name="All", exact=True).click()
    page.wait_for_selector(".step.model")
    assert page.locator(".siblings a").count() == 4
    assert page.get_by_text("of 24", exact=False).count() == 1
    page.keyboard.press("Escape")
    page.locator(".siblings a").first.click()
    page.wait_for_selector(".verdict.passed")


def test_it_prints_as_pdf(night_home: Path, chromium: Any) -> None:
    made = report("night", night_home.parent / "r.pdf", home=str(night_home))
    data = (night_home.parent / "r.pdf").read_bytes()
    assert data.startswith(b"%PDF-")
    assert len(data) == made.bytes > 20_000


def test_the_same_page_on_glass(open_page: Opened, serve_home: Callable[[Path], str], night_home: Path) -> None:
    page = open_page(f"{serve_home(night_home)}/#/report?run=night")
    page.wait_for_selector("figure svg")
    page.locator(".tries a:has(i.fail)").first.click()
    page.wait_for_selector(".passing .step.differs")
    assert page.locator(".cards-pane pre", has_text=REFUSED).first.is_visible()
