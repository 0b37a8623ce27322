"""The page of a trace in a real browser: keys, search, deep links, foreign words that attack, 300,000 spans."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ethogram.questions.logs.imports import import_logs
from ethogram.store import Policy, Redactor, open_home
from ethogram.traces import Head, Scored, Span
from ethogram.traces.ids import SpanId, episode_id, trace_id

pytestmark = pytest.mark.xdist_group("browser")
SPANS = 300_000 if os.environ.get("ETHOGRAM_LONG") else 60_000
"""Writing 300,000 spans takes longer than looking at them."""
MOST_NODES = 1_500
SCRIPT = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"
TURNED = "user \u202e txt.exe \u2066 \x00\x1b[31m red \x07"
LINE = "z" * 5_000_000 + " needle at the end"


def hostile_log(folder: Path) -> Path:
    call = {"name": "<b>tool</b>", "arguments": json.dumps({"path": SCRIPT})}
    talk = [
        {"role": "user", "content": SCRIPT},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "c", "name": "<b>tool</b>", "content": LINE},
        {"role": "assistant", "content": TURNED + " مرحبا بالعالم"},
    ]
    log = folder / "hostile.json"
    log.write_text(json.dumps([{"task_id": SCRIPT, "trial": 0, "reward": 0.0, "info": {}, "traj": talk}]))
    return log


def large_spans(trace: Any) -> Iterator[Span]:
    for i in range(SPANS):
        start = 1_700_000_000_000_000_000 + i * 50_000_000
        common: dict[str, Any] = {"trace_id": trace, "span_id": SpanId(f"s{i}"), "seq": i, "start_ns": start}
        common["end_ns"] = start + 40_000_000
        if i % 2 == 0:
            yield Span(kind="model", name="chat", model="m", status="ok", input_tokens=i, output_tokens=9, **common)
        else:
            yield Span(kind="tool", name="look", tool="look", status="error" if i % 1001 == 0 else "ok", **common)


@pytest.fixture(scope="module")
def address(serve_home: Callable[[Path], str], night_home: Path) -> str:
    import_logs(hostile_log(night_home.parent), run="hostile", redact="none", home=str(night_home))
    home = open_home(str(night_home))
    with home.create("large", "import").writer(Redactor(b"k", Policy(kinds=())), window=None) as writer:
        name = trace_id("large", "0")
        sink = writer.trace(name)
        for span in large_spans(name):
            sink.span(span)
        sink.finish(Head(trace_id=name, episode=episode_id("large", "0"), task="t", outcome=Scored(0.0, "test")), ())
    return serve_home(night_home)


def traces(home: Path, run: str) -> list[str]:
    return [entry.head.trace_id for entry in open_home(str(home)).resolve(run).entries]


def text_of(page: Any, selector: str) -> str:
    return str(page.locator(selector).first.inner_text())


def nodes(page: Any) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


def test_from_the_cause_to_its_step_and_on_along_the_list(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(f"{address}/#/run?run=night")
    page.wait_for_selector(".headline")
    assert "12 of 24 attempts failed" in text_of(page, ".headline")
    assert page.locator(".reasons li.cause").count() >= 1
    assert page.locator(".matrix .dots a").count() == 24
    page.locator(".examples a").first.click()
    page.wait_for_selector(".step.current")
    assert page.locator(".step.current .text.error, .step.current .text.result").count() >= 1
    first = page.url
    page.keyboard.press("k")
    page.wait_for_selector(".step.model.current")
    assert page.url != first, "the address follows the step"
    again = open_page(page.url)
    again.wait_for_selector(".step.model.current")
    page.goto(f"{address}/#/run?run=night&filter=is%3Afailed")
    page.wait_for_selector("text=12 of 24 attempts")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=1 of 12")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("text=2 of 12")
    assert page.locator(".verdict.failed").count() == 1


def test_two_dots_open_their_difference(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(f"{address}/#/run?run=night")
    page.wait_for_selector(".matrix .dots a")
    page.keyboard.press("x")
    page.locator(".matrix .dots a").nth(0).click()
    page.locator(".matrix .dots a").nth(3).click()
    page.wait_for_selector("text=t*")
    assert "#/diff?run=night" in page.url


def test_words_are_found_on_the_server_and_marked(
    open_page: Callable[..., Any], address: str, night_home: Path
) -> None:
    page = open_page(f"{address}/#/trace?run=hostile&trace={traces(night_home, 'hostile')[0]}")
    page.wait_for_selector(".step")
    page.keyboard.press("/")
    page.keyboard.type("NEEDLE at")
    page.wait_for_selector("text=– of 1")
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.wait_for_selector("text=1 of 1")
    assert "find=NEEDLE" in page.url


def test_foreign_words_stay_words(open_page: Callable[..., Any], address: str, night_home: Path) -> None:
    page = open_page(f"{address}/#/trace?run=hostile&trace={traces(night_home, 'hostile')[0]}")
    page.wait_for_selector(".step.tool")
    assert "Ethogram" in page.title()
    assert page.locator("main script, main img").count() == 0
    assert SCRIPT in text_of(page, ".step.user pre")
    assert "<b>tool</b>" in text_of(page, ".step.tool > header")
    shown = page.locator(".cards-pane").inner_text()
    assert "\u202e" not in shown
    assert "⟨202E⟩" in shown
    assert "␛[31m" in shown
    assert "Show all 5,000,018 characters" in shown
    assert len(shown) < 20_000, "the long line is folded"
    page.locator(".unfold", has_text="5,000,018").click()
    page.wait_for_selector("text=Next 100,000 of 5,000,018 characters")
    page.goto(f"{address}/#/run?run=hostile")
    page.wait_for_selector(".matrix .dots a")
    assert page.locator("main script, main img").count() == 0


def test_a_huge_trace_stays_small_in_the_page(open_page: Callable[..., Any], address: str, night_home: Path) -> None:
    trace = traces(night_home, "large")[0]
    last = SPANS - 2
    page = open_page(f"{address}/#/trace?run=large&trace={trace}&step={last}")
    page.wait_for_selector(f"#step-{last}")
    page.wait_for_selector(f".outline > header :text('{SPANS:,} spans')")
    assert nodes(page) < MOST_NODES
    page.locator(".cards").hover()
    for _ in range(5):
        page.mouse.wheel(0, -30_000)
        page.wait_for_timeout(50)
    page.wait_for_selector(".card .step.model")
    assert nodes(page) < MOST_NODES
    page.keyboard.press("f")
    page.keyboard.press("f")
    page.keyboard.press("f")
    page.wait_for_selector(".step.bad-step")
    assert "only=errors" in page.url
    assert page.locator(".card .step:not(.bad-step)").count() == 0
    assert nodes(page) < MOST_NODES


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)])
def test_it_reads_well_in_both_schemes_and_on_a_phone(
    open_page: Callable[..., Any], address: str, night_home: Path, scheme: str, width: int
) -> None:
    place = f"{address}/#/trace?run=night&trace={traces(night_home, 'night')[0]}&step=1"
    page = open_page(place, color_scheme=scheme, viewport={"width": width, "height": 844})
    page.wait_for_selector(".step.current")
    ink, paper = (
        page.evaluate(f"getComputedStyle(document.documentElement).{p}") for p in ("color", "backgroundColor")
    )
    assert abs(lightness(ink) - lightness(paper)) > 120
    assert (lightness(paper) > 128) == (scheme == "light")
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing stands out to the side"
    page.keyboard.press("Shift+T")
    turned = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (lightness(turned) > 128) == (scheme == "dark")


def lightness(color: str) -> float:
    parts = [float(x) for x in color[color.index("(") + 1 : -1].split(",")[:3]]
    return sum(parts) / 3
