"""The report as one file: what is inside, how it is packed, and what is left out when it is full."""

from __future__ import annotations

import base64
import json
import random
import re
import zlib
from typing import Any

import msgspec
import pytest

from ethogram.questions.logs.imports import import_logs
from ethogram.questions.why.question import why
from ethogram.questions.why.side_by_side import BesideReader
from ethogram.store import open_home
from ethogram.viewer.models.cards import PartView
from ethogram.viewer.paper import CHUNK, paper_page
from ethogram.viewer.report.paper_trace import PaperLimits, PaperTrace, paper_traces
from ethogram.viewer.report.views import Cell, MatrixRow, ReportView, Section


def unpacked(text: str, name: str) -> Any:
    found = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', text)
    assert found is not None, name
    return json.loads(zlib.decompress(base64.b64decode(found[1])))


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> PaperTrace:
    """One attempt as a report holds it."""
    folder = tmp_path_factory.mktemp("paper")
    talk = [{"role": "user", "content": "say yes"}, {"role": "assistant", "content": "no"}]
    log = [{"task_id": "t", "trial": 0, "reward": 0.0, "info": {}, "traj": talk}]
    (folder / "log.json").write_text(json.dumps(log))
    import_logs(folder / "log.json", run="r", home=str(folder / "home"), format="tau-bench")
    run = open_home(str(folder / "home")).run("r")
    ((one,),) = paper_traces(BesideReader(run, why(run)), None, PaperLimits())
    return one


def attempts(sample: PaperTrace, count: int, chars: int) -> list[list[PaperTrace]]:
    """Attempts whose words do not compress, each a group of its own."""

    def made(number: int) -> PaperTrace:
        words = random.Random(number).randbytes(chars // 2).hex()
        part = PartView(kind="result", name="", text=words, chars=len(words), step=None)
        card = sample.cards[0]
        step = msgspec.structs.replace(card.steps[0], parts=[part])
        cards = [msgspec.structs.replace(card, steps=[step])]
        return msgspec.structs.replace(sample, trace=f"b2:{number:08x}", cards=cards)

    return [[made(n)] for n in range(count)]


def names(count: int) -> set[str]:
    return {f"b2:{n:08x}" for n in range(count)}


def view(count: int) -> ReportView:
    cells = [Cell(mark="fail", words=f"attempt {n}", trace=f"b2:{n:08x}") for n in range(count)]
    grid = Section(id="attempts", title="Tasks", matrix=[MatrixRow(task="t", cells=cells, rate="0")])
    return ReportView(run="r", against=None, subtitle="", made="", cards=[], sections=[grid])


def shown(text: str) -> Any:
    (answer,) = unpacked(text, "ethogram-data")["answers"]
    assert (answer["path"], answer["query"]) == ("/api/report", {})
    return answer["answer"]["sections"][0]


def test_every_attempt_is_found_where_the_index_says(sample: PaperTrace) -> None:
    count = CHUNK + 3
    page = paper_page(view(count), attempts(sample, count, 200), names(count))
    assert page.attempts == count
    chunks = unpacked(page.text, "ethogram-data")["chunks"]
    assert set(chunks) == names(count)
    assert set(chunks.values()) == {0, 1}
    for number in (0, 1):
        inside = unpacked(page.text, f"ethogram-words-{number}")
        assert {one["trace"] for one in inside} == {name for name, chunk in chunks.items() if chunk == number}
        assert all(one["head"]["attempt"]["task"] == "t" for one in inside)
    assert shown(page.text)["notes"] == []


def test_large_attempts_are_packed_in_smaller_chunks(sample: PaperTrace) -> None:
    page = paper_page(view(5), attempts(sample, 5, 400_000), names(5))
    assert page.attempts == 5
    assert sorted(unpacked(page.text, "ethogram-data")["chunks"].values()) == [0, 1, 2, 3, 4]


def test_attempts_of_a_group_lie_in_one_chunk_and_another_run_is_not_counted(sample: PaperTrace) -> None:
    ((own,),) = attempts(sample, 1, 200)
    other = msgspec.structs.replace(own, trace="b2:of-another-run")
    page = paper_page(view(1), [[own, other]], names(1))
    assert page.attempts == 1
    assert unpacked(page.text, "ethogram-data")["chunks"] == {own.trace: 0, other.trace: 0}


def test_a_full_file_says_what_it_left_out(sample: PaperTrace) -> None:
    count = 8 * CHUNK
    page = paper_page(view(count), attempts(sample, count, 20_000), names(count + 100), most=1_500_000)
    assert len(page.text.encode()) <= 1_500_000
    assert 2 * CHUNK <= page.attempts < count
    left = count - page.attempts + 100
    section = shown(page.text)
    assert (
        f"{page.attempts} attempts can be opened here, those that failed first; {left} were left out"
        in section["notes"][0]
    )
    assert section["notes"][0] in page.text, "readers without scripts are told too"
    cells = section["matrix"][0]["cells"]
    assert [bool(cell["trace"]) for cell in cells] == [n < page.attempts for n in range(len(cells))]
    assert cells[-1]["words"].endswith("(not in this file)")
