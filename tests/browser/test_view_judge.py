"""Labels by keyboard in a real browser: asked blind, written to the run, and read by the calibration."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from ethogram.questions.calibration.labels import label
from ethogram.questions.calibration.question import calibrate
from ethogram.questions.judging.buying.runs import judge_run
from ethogram.questions.judging.buying.session import JudgeOptions
from ethogram.questions.logs.imports import import_logs
from ethogram.store import open_home

from .conftest import attempt
from .test_axe import AXE, faults

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of the same log: one drawn for labelling, one only judged, one as it was imported."""
    folder = tmp_path_factory.mktemp("judge")
    log = folder / "log.json"
    log.write_text(json.dumps([attempt(t, k) for t in range(3) for k in (0, 3)]))
    place = str(folder / "home")
    for name in ("night", "judged", "plain"):
        import_logs(log, run=name, home=place)
    for name in ("night", "judged"):
        judge_run(name, JudgeOptions(judge="rule"), home=place)
    label("night", sample=6, home=place)
    return folder / "home"


@pytest.fixture(scope="module")
def address(serve_home: Callable[[Path], str], home: Path) -> str:
    return serve_home(home)


def hand_labels(home: Path) -> list[Any]:
    return [x for x in open_home(str(home)).run("night").labels() if x.source == "hand"]


def test_the_labelling_loop_writes_what_the_calibration_reads(
    open_page: Callable[..., Any], address: str, home: Path
) -> None:
    page = open_page(f"{address}/#/judge?run=night&by=ada")
    page.wait_for_selector(".turn-cards .card")
    of = int(page.locator(".progress > span").inner_text().split(" of ")[1])
    assert page.locator(".question").inner_text() == "Was this tool a defensible choice at this point?"
    page.keyboard.press("w")
    page.keyboard.type("nobody asked <b>it</b>")
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.get_by_text(f"1 of {of}", exact=True).wait_for()
    page.get_by_text("question 2 of").wait_for()
    assert page.locator(".told").count() == 0, "outcome and verdicts would sway the other answers on this attempt"
    asked = sum(row["trace"] == queue(address)["rows"][0]["trace"] for row in queue(address)["rows"])
    for done in range(2, asked + 1):
        page.keyboard.press("u" if done == 2 else "y")
        page.get_by_text(f"{done} of {of}", exact=True).wait_for()
    page.get_by_text(f"question {asked + 1} of").wait_for()
    assert page.locator(".told").count() == 0
    page.keyboard.press("b")
    page.get_by_text(f"question {asked} of").wait_for()
    page.wait_for_selector(".told")
    assert "Outcome:" in page.locator(".told").inner_text()
    page.keyboard.press("k")
    page.get_by_text(f"question {asked - 1} of").wait_for()
    page.keyboard.press("s")
    page.get_by_text(f"question {asked + 1} of").wait_for()
    labels = hand_labels(home)
    assert [x.by for x in labels] == ["ada"] * asked
    assert [x.value for x in labels[:3]] == [False, "unclear", True]
    found = {i.item: i for i in calibrate("night", home=str(home)).items}
    assert found[labels[0].name].labels == 1
    assert found[labels[1].name].labels == 0, "who is unsure says neither yes nor no"
    page.wait_for_function("() => document.querySelector('.trust')?.innerText.includes('1 label')")
    if AXE.is_file():
        assert faults(page) == []


def queue(address: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{address}/api/judge/queue?run=night&by=ada").json()
    return found


def test_the_server_tells_nothing_before_it_is_labelled(address: str) -> None:
    row = next(r for r in queue(address)["rows"] if not r["answered"])
    asked = {"run": "night", "trace": row["trace"], "item": row["item"], "by": "ada"}
    answer = httpx.get(f"{address}/api/judge/question", params=asked).json()
    assert answer["question"]["told"] is None
    assert all(step["labels"] == [] for card in answer["cards"]["cards"] for step in card["steps"])
    assert "verdict" not in json.dumps(queue(address))


def test_only_what_was_drawn_can_be_labelled(address: str, home: Path) -> None:
    before = len(hand_labels(home))
    row = queue(address)["rows"][0]
    for wrong in ({"item": "outcome"}, {"answer": "maybe"}, {"trace": "b2:0"}, {"why": "x" * 5000}):
        sent = {"run": "night", "trace": row["trace"], "item": row["item"], "answer": "yes", "by": "ada", **wrong}
        reply = httpx.post(f"{address}/api/judge/label", json=sent, headers={"origin": address})
        assert reply.status_code in (400, 404)
        assert reply.json()["error"]
    fine = {"run": "night", "trace": row["trace"], "item": row["item"], "answer": "yes"}
    assert httpx.post(f"{address}/api/judge/label", json=fine).status_code == 403, "no page of this server sent it"
    assert len(hand_labels(home)) == before


def test_without_verdicts_or_a_sample_the_page_says_what_to_type(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(f"{address}/#/judge?run=plain")
    assert page.locator(".empty code").inner_text() == "ethogram judge plain --judge rule"
    page.goto(f"{address}/#/judge?run=judged")
    assert page.locator(".no-sample code").inner_text() == "ethogram label judged --sample 100"
    page.wait_for_selector(".trust .item")
    assert page.locator(".trust .item").count() >= 3, "the raw rates are there all the same"
