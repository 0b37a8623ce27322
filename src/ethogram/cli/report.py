"""`ethogram report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ethogram.viewer.report.report import report

from .printing import CommonTasksOption, HomeOption, JsonOption, print_json, size, stderr, stdout


def command(
    run: Annotated[str, typer.Argument(help="A run directory, a run's name, or latest.")] = "latest",
    candidate: Annotated[
        str | None, typer.Argument(help="A second run: the report is about it, and how it differs from the first.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The file to write; its suffix chooses the format.", show_default="report.html"
        ),
    ] = None,
    format_: Annotated[
        Literal["html", "md", "pdf"] | None,
        typer.Option(
            "--format",
            help="A page, Markdown for a pull request, or PDF (needs chromium); by default from the file's suffix.",
        ),
    ] = None,
    field: Annotated[str | None, typer.Option(help="A field of your own: path.py:Class or pkg.mod:Class.")] = None,
    states: Annotated[str | None, typer.Option(help="Milestones in YAML that name the stages of the task.")] = None,
    corridor: Annotated[str | None, typer.Option(help="A saved corridor to compare this run with.")] = None,
    rule: Annotated[
        Literal["visited", "reached"],
        typer.Option(help="Which attempts count at a state: those in it, or also those beyond it."),
    ] = "visited",
    reading: Annotated[
        Literal["steps", "messages"],
        typer.Option(help="What your own field gets as input: the trace, or its messages."),
    ] = "steps",
    preset: Annotated[
        str | None,
        typer.Option(help="Standard dimensions for an agent that codes, serves or browses: ethogram field --list."),
    ] = None,
    common_tasks: CommonTasksOption = False,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Write a report of a run: one HTML file that opens offline, and begins with why attempts fail.

    It has the pages of the viewer with the data inside: every dot of its grid of tasks and attempts opens that attempt.
    With two runs, the second is compared with the first.

    Example: `ethogram report latest -o report.html`
    """
    result = report(
        run,
        out or Path(f"report.{format_ or 'html'}"),
        format=format_,
        candidate=candidate,
        field=field,
        states=states,
        corridor=corridor,
        rule=rule,
        reading=reading,
        preset=preset,
        common_tasks=common_tasks,
        home=home,
    )
    if json:
        print_json(result)
        return 0
    for note in result.notes:
        stderr().print(note, style="dim", markup=False)
    held = [f"{len(result.sections)} sections", f"{result.pictures} pictures"]
    held += [f"{result.attempts:,} attempts"] if result.attempts else []
    stdout().print(f"{result.report}: {', '.join(held)}, {size(result.bytes)}", markup=False)
    return 0
