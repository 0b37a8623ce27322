"""A report is one file that holds everything, loads nothing, and lets no foreign word become markup."""

from __future__ import annotations

import base64
import re
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ethogram.display.chart import can_draw
from ethogram.errors import BadUsage
from ethogram.harness.suites import run
from ethogram.plans import Check, Suite, Task
from ethogram.viewer.report.parts import report_view
from ethogram.viewer.report.report import report

EVIL = "<script>alert('x')</script>"


def suite(*names: str) -> Suite:
    return Suite(
        name="coins",
        tasks=tuple(Task(id=n, prompt="say yes", expected="yes", checks=(Check(kind="equals"),)) for n in names),
    )


def coin(task: Task, episode: object) -> str:
    return "yes" if episode.rng.random() < 0.6 else "no"  # type: ignore[attr-defined]


class Links(HTMLParser):
    """Every tag, and every address that a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and value and not value.startswith("#"):
                self.fetched.append(value)
            if name == "id" and value:
                self.ids.append(value)


@pytest.fixture
def home(tmp_path: Path) -> str:
    where = str(tmp_path / "home")
    run(suite("easy", EVIL), coin, k=5, run="night", home=where)
    return where


def test_one_file_that_fetches_nothing_and_runs_its_own_script_alone(home: str, tmp_path: Path) -> None:
    made = report("night", tmp_path / "sub" / "r.html", home=home)
    text = (tmp_path / "sub" / "r.html").read_text()
    page = Links()
    page.feed(text)
    assert made.sections[:4] == ["why", "layers", "attempts", "reliability"]
    assert page.fetched == []
    scripts = re.findall(r"<script(.*?)>(.*?)</script>", text, re.DOTALL)
    assert page.tags.count("script") == len(scripts)
    assert [kind for kind, _ in scripts if kind != ""] == [
        ' type="text/plain" id="ethogram-data"',
        ' type="text/plain" id="ethogram-words-0"',
    ]
    (own,) = [body for kind, body in scripts if kind == ""]
    named = base64.b64encode(sha256(own.encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{named}'; style-src 'unsafe-inline'; base-uri 'none'" in text
    assert EVIL not in text
    assert "&lt;script&gt;" in text
    assert re.search(r"url\(", text) is None
    for place, body in scripts:
        if "text/plain" in place:
            assert re.fullmatch(r"[A-Za-z0-9+/=]+", body)
    assert (made.pictures > 0) is can_draw()
    assert ("<svg" in text) is can_draw()


def test_the_view_holds_what_the_page_shows(home: str) -> None:
    view = report_view("night", home=home)
    by_id = {s.id: s for s in view.sections}
    cells = [c for row in by_id["attempts"].matrix for c in row.cells]
    passed = sum(c.mark == "pass" for c in cells)
    assert len(cells) == 10
    assert f"{passed} of 10 scored attempts succeeded" in by_id["reliability"].paragraphs[0]
    assert any("about exactly these 2 tasks" in note for note in by_id["reliability"].notes)
    assert by_id["cost"].notes, "what has no price says so"
    assert (by_id["reliability"].title, by_id["cost"].title) == ("Is it reliable?", "What does it cost?")
    assert view.cards[0].label == "pass@1"


def test_missing_attempts_have_a_section(tmp_path: Path) -> None:
    def broken(task: Task, episode: object) -> str:
        if task.id == "b":
            raise ConnectionError("the network went away")
        return "yes"

    run(suite("a", "b"), broken, k=4, run="night", home=str(tmp_path), retries=0)
    view = report_view("night", home=str(tmp_path))
    missing = next(s for s in view.sections if s.id == "missing")
    assert "4 of 8 planned attempts" in missing.paragraphs[0]
    assert "0.500" in missing.paragraphs[1]
    assert "1.000" in missing.paragraphs[1]


def test_wrong_name_is_refused(home: str, tmp_path: Path) -> None:
    for name, kind, better in (("r.txt", None, "r.html"), ("r.html", "md", "r.md"), ("r", "pdf", "r.pdf")):
        with pytest.raises(BadUsage, match=f"name it {better}, not {name}"):
            report("night", tmp_path / name, format=kind, home=home)


def test_markdown_for_a_pull_request(home: str, tmp_path: Path) -> None:
    made = report("night", tmp_path / "r.md", home=home)
    text = (tmp_path / "r.md").read_text()
    assert (made.pictures, made.attempts) == (0, 0)
    assert text.startswith("# night\n")
    assert "## Why does it fail?" in text
    assert re.search(r"\| pass\\@1 \| \d+% \|", text)
    assert re.search(r"\| easy \| [●○]{5} \| \d/5 \|", text)
    assert not re.search(r"(?<!\\)<script", text), "no word of a trace becomes markup"
    assert "\\<script\\>" in text


def test_no_pdf_without_chromium(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadUsage, match="printed by chromium, which is not installed here"):
        report("night", tmp_path / "r.pdf", home=home)


def test_a_second_run_is_compared_with_the_first(home: str, tmp_path: Path) -> None:
    def never(task: Task, episode: object) -> str:
        return "no"

    run(suite("easy", EVIL), never, k=5, run="worse", home=home)
    made = report("night", tmp_path / "r.html", candidate="worse", home=home)
    assert (made.run, made.sections[:4]) == ("worse", ["compare", "why", "layers", "attempts"])
    text = (tmp_path / "r.html").read_text()
    assert "Did the change break it?" in text
    assert EVIL not in text
    first = report_view("night", "worse", home=home).sections[0]
    assert {row[0] for row in first.tables[0].rows} <= {"easy", EVIL}
    assert "from night to worse, over 2 tasks" in first.lead
    other = Suite(name="coins", tasks=(Task(id="x", prompt="p", expected="y", checks=(Check(kind="equals"),)),))
    run(other, never, run="other", home=home)
    with pytest.raises(BadUsage, match="not compared"):
        report_view("night", "other", home=home)
