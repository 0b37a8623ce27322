"""`ethogram export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ethogram.questions.home.exports import export, export_formats

from .printing import HomeOption, JsonOption, print_json, stdout


def command(
    run: Annotated[str, typer.Argument(help="A run directory, a run's name, or latest.")] = "latest",
    to: Annotated[str, typer.Option(help=f"{', '.join(export_formats())}.")] = "parquet",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File or folder to write; an existing one is never overwritten.")
    ] = None,
    trace: Annotated[list[str] | None, typer.Option(help="Only these traces; may be repeated.")] = None,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Write a run in another format.

    Example: `ethogram export latest --to inspect -o night.eval`
    """
    result = export(run, to, out=out, traces=trace or (), home=home)
    if json:
        print_json(result)
        return 0
    console = stdout()
    for file in result.files:
        console.print(f"wrote {file}", markup=False)
    if result.lost:
        lost = ", ".join(f"{k} {v}" for k, v in result.lost.items())
        console.print(f"the format could not say: {lost}", markup=False)
    return 0
