"""The report as one file: the pages of the viewer with their answers inside, deflated.

It opens from disk without a network. What stands in it: plain HTML for readers without scripts, the answers of
`/api/report` and of the run's overview, and attempts in chunks that are unpacked when they are opened, the most telling
ones first until the file is full. A policy forbids the page to load anything, and to run any script but its own.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Sequence
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from ethogram.lab.why.opened import OpenTrace

from .paper_run import Embedded
from .part_attempts import ID as ATTEMPTS
from .static_html import report_html
from .views import Cell, MatrixRow, ReportView, Section

MOST_BYTES = 3_000_000
"""The size of a file that mails and pull requests still take."""
CHUNK = 24
"""Attempts that are packed together."""
_APP = Path(__file__).parent / "paper_static"


class PaperFile(msgspec.Struct, frozen=True):
    """A page, and how many attempts it holds."""

    text: str
    attempts: int


def paper_page(
    view: ReportView,
    attempts: Sequence[OpenTrace],
    left_out: int,
    *,
    pages: Sequence[Embedded] = (),
    most: int = MOST_BYTES,
) -> PaperFile:
    """The whole file; `pages` are answers of other pages that it holds, and `left_out` attempts were never opened.

    What does not fit into `most` bytes is left out too.
    """
    frame = len(_page(view, "", []))
    packed = len(_packed(_inside(view, pages, [])))
    chunks: list[tuple[list[OpenTrace], str]] = []
    room = most - frame - packed - 100 * len(attempts)  # 100: the entry of an attempt in the index
    for own, data in _chunks(attempts):
        if len(data) > room:
            break
        room -= len(data)
        chunks.append((own, data))
    held = [attempt for own, _ in chunks for attempt in own]
    shown = _stated(view, {attempt.trace for attempt in held}, left_out + len(attempts) - len(held))
    head = _packed(_inside(shown, pages, [own for own, _ in chunks]))
    return PaperFile(_page(shown, head, [data for _, data in chunks]), len(held))


def _chunks(attempts: Sequence[OpenTrace]) -> Iterator[tuple[list[OpenTrace], str]]:
    for start in range(0, len(attempts), CHUNK):
        own = attempts[start : start + CHUNK]
        answers = [Embedded(path="/api/report/attempt", query={"trace": a.trace}, answer=a) for a in own]
        yield list(own), _packed(answers)


def _inside(view: ReportView, pages: Sequence[Embedded], chunks: Sequence[Sequence[OpenTrace]]) -> dict[str, Any]:
    """What `web/src/load.ts` reads: answers, and in which chunk the others are."""
    later = [
        {"path": "/api/report/attempt", "query": {"trace": attempt.trace}, "chunk": number}
        for number, own in enumerate(chunks)
        for attempt in own
    ]
    return {"answers": [Embedded(path="/api/report", query={}, answer=view), *pages], "later": later}


def _packed(content: Any) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(content), 9)).decode()


def _stated(view: ReportView, held: set[str], left_out: int) -> ReportView:
    """The report without ways to attempts that the file does not hold; it says how many those are."""
    if not left_out:
        return view
    note = (
        f"{len(held):,} attempts can be opened here, those that failed first; {left_out:,} were left out to keep the "
        f"file small: look at them with: ethogram view {view.run}"
    )
    return msgspec.structs.replace(view, sections=[_held(s, held, note) for s in view.sections])


def _held(section: Section, held: set[str], note: str) -> Section:
    notes = [*section.notes, note] if section.id == ATTEMPTS else section.notes
    return msgspec.structs.replace(section, matrix=[_row(r, held) for r in section.matrix], notes=notes)


def _row(row: MatrixRow, held: set[str]) -> MatrixRow:
    return msgspec.structs.replace(row, cells=[c if c.trace in held else _closed(c) for c in row.cells])


def _closed(cell: Cell) -> Cell:
    return Cell(mark=cell.mark, words=f"{cell.words} (not in this file)")


def _page(view: ReportView, head: str, chunks: Sequence[str]) -> str:
    script, style = (_asset(name) for name in ("app.js", "app.css"))
    policy = (
        f"default-src 'none'; script-src 'sha256-{_hash(script)}'; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )
    words = "".join(
        f'<script type="text/plain" id="ethogram-words-{number}">{data}</script>' for number, data in enumerate(chunks)
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" '
        f'content="light dark"><title>{escape(view.run)} · Ethogram</title><style>{style}</style></head><body>'
        f'<div id="app"><div class="on-report">{report_html(view)}</div></div>'
        f'<script type="text/plain" id="ethogram-data">{head}</script>{words}'
        f"<script>{script}</script></body></html>\n"
    )


def _asset(name: str) -> str:
    """A built file; `</` would end the element that holds it."""
    text = (_APP / name).read_text(encoding="utf-8")
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--") if name.endswith(".js") else text


def _hash(script: str) -> str:
    return base64.b64encode(sha256(script.encode()).digest()).decode()
