"""`ethogram report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ethogram.show.report import report

from .out import HomeOption, JsonOption, print_json, size, stderr, stdout


def command(
    run: Annotated[str, typer.Argument(help="A run directory, a run's name, or latest.")] = "latest",
    candidate: Annotated[
        str | None, typer.Argument(help="A second run: the report is about it, and how it differs from the first.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path("report.html"),
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Write a report of a run: one HTML file that opens offline.

    With two runs, the second is compared with the first.

    Example: `ethogram report latest -o report.html`
    """
    result = report(run, out, candidate=candidate, home=home)
    if json:
        print_json(result)
        return 0
    for note in result.notes:
        stderr().print(note, style="dim", markup=False)
    stdout().print(
        f"{result.report}: {len(result.sections)} sections, {result.pictures} pictures, {size(result.bytes)}",
        markup=False,
    )
    return 0
