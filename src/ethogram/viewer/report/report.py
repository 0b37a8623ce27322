"""`ethogram report`: everything about a run in one file that opens offline, as a page, as Markdown or as PDF."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Literal, get_args

from ethogram.arguments import choice_of, path_of
from ethogram.display.chart import can_draw
from ethogram.errors import BadUsage, MachineFailure
from ethogram.questions.field.field import Field
from ethogram.questions.field.horizon import MembershipRule
from ethogram.questions.why.side_by_side import BesideReader
from ethogram.result import Result
from ethogram.store import Home, Run
from ethogram.viewer.models.report import with_pictures
from ethogram.viewer.paper import MOST_BYTES, PaperFile, paper_page

from .causes import RunAnswers
from .field import FieldReading
from .markdown import report_markdown
from .paper_run import overview_inside
from .paper_trace import PaperLimits, paper_traces
from .parts import report_of, run_answers
from .views import ReportView

ReportFormat = Literal["html", "md", "pdf"]
MOST_CHARACTERS = 5 * MOST_BYTES // 2
"""Characters of attempts that a file holds, about: deflated and in base64 words take about half, or less."""
PDF_SECONDS = 120
PAINT_MILLISECONDS = 10_000

_NO_PICTURES = "pictures were left out; draw them with: pip install 'ethogram[charts]'"


class ReportFile(Result, kw_only=True):
    """Where a report was written."""

    run: str
    report: str
    bytes: int
    sections: list[str]
    pictures: int
    attempts: int = 0
    notes: list[str]


def report(
    run: str | Run = "latest",
    out: str | Path = "report.html",
    *,
    candidate: str | Run | None = None,
    format: ReportFormat | None = None,
    field: str | type[Field] | None = None,
    states: str | Path | None = None,
    corridor: str | Path | None = None,
    rule: MembershipRule = "visited",
    reading: str = "steps",
    preset: str | None = None,
    common_tasks: bool = False,
    home: Home | str | None = None,
) -> ReportFile:
    """Write everything about a run as one file that opens without a network.

    With a `candidate` the report is about that run, and begins with how it differs from `run`. `format` is by default
    that of `out`: a page (html), Markdown (md), or PDF, for which chromium is needed. `field`, `states`, `corridor`,
    `rule`, `reading` and `preset` are those of `ethogram field`: by which field its behaviour is read. Runs of other
    versions of a suite are refused, unless `common_tasks` compares only tasks that are the same in both.

    Gives the file, its sections and the number of its pictures. Raises `BadUsage` for a path whose ending is another
    format's or that cannot be written, `NotFound` for a run that does not exist.

    Example: `report("night", "night.html").sections`
    """
    place = path_of("out", out)
    chosen = _format(place, format)
    browser = _chromium() if chosen == "pdf" else ""
    behaviour = FieldReading(field=field, states=states, corridor=corridor, rule=rule, reading=reading, preset=preset)
    answers = run_answers(run, candidate, common_tasks=common_tasks, home=home)
    view = report_of(answers, None if behaviour == FieldReading() else behaviour)
    attempts = 0
    if chosen == "md":
        data = report_markdown(view).encode()
    else:
        view = with_pictures(view)
        page = _page(view, answers, with_attempts=chosen == "html")
        attempts = page.attempts
        data = page.text.encode() if chosen == "html" else _pdf(browser, page.text)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    except OSError as error:
        raise BadUsage(f"{place} cannot be written: {error.strerror}; choose another place with -o") from None
    has_pictures = chosen != "md" and can_draw()
    return ReportFile(
        run=view.run,
        report=str(place),
        bytes=len(data),
        sections=[s.id for s in view.sections],
        pictures=sum(len(s.pictures) for s in view.sections) if has_pictures else 0,
        attempts=attempts,
        notes=[] if chosen == "md" or can_draw() else [_NO_PICTURES],
    )


def _format(place: Path, wanted: ReportFormat | None) -> ReportFormat:
    if wanted is not None:
        choice_of("format", wanted, get_args(ReportFormat))
    ending = {".html": "html", ".htm": "html", ".md": "md", ".pdf": "pdf"}.get(place.suffix.lower())
    known: tuple[ReportFormat, ...] = get_args(ReportFormat)
    chosen = next((one for one in known if one == (wanted or ending)), None)
    if chosen is None or ending != chosen:
        kind = chosen or "html"
        raise BadUsage(
            f"a report ends in .html, .md or .pdf; name it {place.stem}.{kind}, not {place.name}",
            option="out",
            value=str(place),
            choices=(".html", ".md", ".pdf"),
        )
    return chosen


def _page(view: ReportView, answers: RunAnswers, *, with_attempts: bool) -> PaperFile:
    if not with_attempts or not answers.run.entries:
        return paper_page(view, [], set())
    if not answers.has_traces:
        return paper_page(view, [], set(), pages=overview_inside(answers))
    reader = BesideReader(answers.run, answers.told, answers.base)
    limits = PaperLimits.sharing(MOST_CHARACTERS, reader.most_failed)
    attempts = paper_traces(reader, answers.base, limits)
    return paper_page(view, attempts, reader.traces, pages=overview_inside(answers))


def _chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        raise BadUsage("a PDF is printed by chromium, which is not installed here; write .html instead and print that")
    return found


def _pdf(browser: str, page: str) -> bytes:
    """The page as chromium prints it, in a folder and with a profile that are gone afterwards."""
    with tempfile.TemporaryDirectory() as scratch:
        source, printed = Path(scratch) / "report.html", Path(scratch) / "report.pdf"
        source.write_text(page, encoding="utf-8")
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
        command += [f"--user-data-dir={scratch}/profile", f"--virtual-time-budget={PAINT_MILLISECONDS}"]
        command += [f"--print-to-pdf={printed}", source.as_uri()]
        try:
            subprocess.run(command, capture_output=True, check=False, timeout=PDF_SECONDS)  # noqa: S603 - no shell
            return printed.read_bytes()
        except (OSError, subprocess.TimeoutExpired):
            raise MachineFailure("chromium printed no PDF; write .html instead and print that") from None
