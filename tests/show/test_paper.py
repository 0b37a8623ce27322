"""The report as one file: what is inside, how it is packed, and what is left out when it is full."""

from __future__ import annotations

import base64
import json
import random
import re
import zlib
from typing import Any

from ethogram.lab.why.opened import OpenRow, OpenStep, OpenText, OpenTrace
from ethogram.show.paper import CHUNK, paper_page
from ethogram.show.views import Cell, MatrixRow, ReportView, Section


def unpacked(text: str, name: str) -> Any:
    found = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', text)
    assert found is not None, name
    return json.loads(zlib.decompress(base64.b64decode(found[1])))


def attempt(number: int, chars: int) -> OpenTrace:
    """An attempt whose words do not compress."""
    words = random.Random(number).randbytes(chars // 2).hex()
    step = OpenStep(
        step=0,
        kind="tool",
        what="look",
        line="",
        failed=False,
        blamed=False,
        texts=[OpenText(kind="result", name="", text=words)],
    )
    facts: dict[str, Any] = {"condition": "", "state": "failed", "outcome": "score 0", "steps": 1}
    return OpenTrace(trace=f"b2:{number:08x}", task="t", attempt=number, rows=[OpenRow(own=step)], **facts)


def view(count: int) -> ReportView:
    cells = [Cell(mark="fail", words=f"attempt {n}", trace=f"b2:{n:08x}") for n in range(count)]
    grid = Section(id="attempts", title="Tasks", matrix=[MatrixRow(task="t", cells=cells, rate="0")])
    return ReportView(run="r", against=None, subtitle="", made="", cards=[], sections=[grid])


def shown(text: str) -> Any:
    (answer,) = unpacked(text, "ethogram-data")["answers"]
    assert (answer["path"], answer["query"]) == ("/api/report", {})
    return answer["answer"]["sections"][0]


def test_every_attempt_is_found_where_the_index_says() -> None:
    attempts = [attempt(n, 200) for n in range(CHUNK + 3)]
    page = paper_page(view(len(attempts)), attempts, 0)
    assert page.attempts == len(attempts)
    later = unpacked(page.text, "ethogram-data")["later"]
    assert [one["query"]["trace"] for one in later] == [a.trace for a in attempts]
    assert {one["chunk"] for one in later} == {0, 1}
    last = unpacked(page.text, "ethogram-words-1")
    assert [one["answer"]["attempt"] for one in last] == [CHUNK, CHUNK + 1, CHUNK + 2]
    assert {one["path"] for one in [*later, *last]} == {"/api/report/attempt"}
    assert shown(page.text)["notes"] == []


def test_a_full_file_says_what_it_left_out() -> None:
    attempts = [attempt(n, 20_000) for n in range(8 * CHUNK)]
    page = paper_page(view(len(attempts)), attempts, 100, most=1_500_000)
    assert len(page.text.encode()) <= 1_500_000
    assert 2 * CHUNK <= page.attempts < len(attempts)
    left = len(attempts) - page.attempts + 100
    section = shown(page.text)
    assert (
        f"{page.attempts} attempts can be opened here, those that failed first; {left} were left out"
        in section["notes"][0]
    )
    assert section["notes"][0] in page.text, "readers without scripts are told too"
    cells = section["matrix"][0]["cells"]
    assert [bool(cell["trace"]) for cell in cells] == [n < page.attempts for n in range(len(cells))]
    assert cells[-1]["words"].endswith("(not in this file)")
