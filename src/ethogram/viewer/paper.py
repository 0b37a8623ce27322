"""The report as one file: the pages of the viewer with their answers inside, deflated.

It opens from disk without a network. What stands in it: plain HTML for readers without scripts, the answers of
`/api/report` and of the run's overview, and attempts in chunks that are unpacked when they are opened, the most telling
ones first until the file is full. A policy forbids the page to load anything, and to run any script but its own.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Sequence, Set
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from .report.attempts import ID as ATTEMPTS
from .report.paper_run import Embedded
from .report.paper_trace import PaperTrace
from .report.static_html import report_html
from .report.views import Cell, MatrixRow, ReportView, Section

MOST_BYTES = 3_000_000
"""The size of a file that mails and pull requests still take."""
CHUNK = 24
CHUNK_BYTES = 300_000
"""Attempts that are packed together, and from how many bytes on before they are deflated fewer are."""
OF_AN_ATTEMPT = 100
"""Bytes that the index takes for an attempt."""
_APP = Path(__file__).parent / "paper_static"


class PaperFile(msgspec.Struct, frozen=True):
    """A page, and how many attempts it holds."""

    text: str
    attempts: int


class Inside(msgspec.Struct, frozen=True):
    """What `web/src/load.ts` reads: answers of pages, and in which chunk each attempt is."""

    answers: list[Embedded]
    chunks: dict[str, int]


def paper_page(
    view: ReportView,
    attempts: Iterable[Sequence[PaperTrace]],
    names: Set[str],
    *,
    pages: Sequence[Embedded] = (),
    most: int = MOST_BYTES,
) -> PaperFile:
    """The whole file; `pages` are answers of other pages that it holds, `names` are all attempts of the run.

    Groups of attempts are taken until `most` bytes are full; the others are not even read.
    """
    answers = [Embedded(path="/api/report", query={}, answer=view), *pages]
    room = most - len(_page(view, "", []).encode()) - len(_packed(Inside(answers, {})))
    held: dict[str, int] = {}
    chunks: list[str] = []
    for own, data in _chunks(attempts):
        room -= len(data) + OF_AN_ATTEMPT * len(own)
        if room < 0:
            break
        held |= dict.fromkeys(own, len(chunks))
        chunks.append(data)
    shown = _stated(view, held.keys(), len(names - held.keys()))
    answers[0] = Embedded(path="/api/report", query={}, answer=shown)
    return PaperFile(_page(shown, _packed(Inside(answers, held)), chunks), len(names & held.keys()))


def _chunks(attempts: Iterable[Sequence[PaperTrace]]) -> Iterator[tuple[list[str], str]]:
    """Attempts packed together, those of a group in one chunk."""
    names: list[str] = []
    parts: list[bytes] = []
    for group in attempts:
        names += [attempt.trace for attempt in group]
        parts += [msgspec.json.encode(attempt) for attempt in group]
        if len(parts) >= CHUNK or sum(map(len, parts)) >= CHUNK_BYTES:
            yield names, _deflated(b"[%b]" % b",".join(parts))
            names, parts = [], []
    if parts:
        yield names, _deflated(b"[%b]" % b",".join(parts))


def _packed(content: Any) -> str:
    return _deflated(msgspec.json.encode(content))


def _deflated(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _stated(view: ReportView, held: Set[str], left_out: int) -> ReportView:
    """The report without ways to attempts that the file does not hold; it says how many those are."""
    if not left_out:
        return view
    note = (
        f"{len(held):,} attempts can be opened here, those that failed first; {left_out:,} were left out to keep the "
        f"file small: look at them with: ethogram view {view.run}"
    )
    return msgspec.structs.replace(view, sections=[_held(s, held, note) for s in view.sections])


def _held(section: Section, held: Set[str], note: str) -> Section:
    notes = [*section.notes, note] if section.id == ATTEMPTS else section.notes
    return msgspec.structs.replace(section, matrix=[_row(r, held) for r in section.matrix], notes=notes)


def _row(row: MatrixRow, held: Set[str]) -> MatrixRow:
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
