"""The page with everything about a run: the same in the report and in the viewer."""

from __future__ import annotations

import msgspec

from ethogram.display.chart import Chart, can_draw
from ethogram.store import Run
from ethogram.viewer.library import Library
from ethogram.viewer.report.parts import report_view
from ethogram.viewer.report.views import Picture, ReportView, Section


class ReportQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which run, and the run to compare it with, if any."""

    run: str = "latest"
    against: str = ""


def report_page(library: Library, query: ReportQuery) -> ReportView:
    """Every part of the report of a run, its charts drawn."""

    def compute(run: Run) -> ReportView:
        first, second = (library.run(query.against), run) if query.against else (run, None)
        return with_pictures(report_view(first, second, home=library.home))

    return library.answer(query.run, ("report", query.against), compute)


def with_pictures(view: ReportView) -> ReportView:
    """A report whose charts are SVG; where they cannot be drawn here, their words stand alone."""
    if not can_draw():
        return view
    return msgspec.structs.replace(view, sections=[_with_svg(section) for section in view.sections])


def _with_svg(section: Section) -> Section:
    return msgspec.structs.replace(section, pictures=[_svg(picture) for picture in section.pictures])


def _svg(picture: Picture) -> Picture:
    spec = {k: v for k, v in picture.spec.items() if k not in ("$schema", "description")}
    return Picture(spec={}, words=picture.words, svg=Chart(spec, picture.words).svg(inline=True))
