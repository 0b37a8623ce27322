"""`ethogram operators`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ethogram.questions.experiment.operators import BUILT_IN, list_operators

from .printing import JsonOption, print_json, stdout, table


def command(
    file: Annotated[Path | None, typer.Argument(help="Also say which of them can change this file.")] = None,
    format: Annotated[str | None, typer.Option(help="Only those for csv, xlsx, txt, md, pdf, json or yaml.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only table, text, pdf, data, tool, prompt or model.")] = None,
    load: Annotated[list[str] | None, typer.Option(help="Your own: file.py:NAME or pkg.mod:NAME; repeatable.")] = None,
    json: JsonOption = False,
) -> int:
    """List the operators that perturb files, tools, prompts and model calls; with a file, which fit it, and why not.

    Example: `ethogram operators sales.csv`
    """
    result = list_operators(format=format, kind=kind, file=file, load=tuple(load or ()))
    if json:
        print_json(result)
        return 0
    columns = ["operator", "kind", "formats", "what it does", "at full intensity"]
    rows = [[r.name, r.kind, r.formats, r.does, r.dose] for r in result.operators]
    if any(r.source != BUILT_IN for r in result.operators):
        columns.append("from")
        rows = [[*row, r.source] for row, r in zip(rows, result.operators, strict=True)]
    if result.file is not None:
        columns.append(f"on {Path(result.file).name}")
        rows = [[*row, r.why_not or "applicable"] for row, r in zip(rows, result.operators, strict=True)]
    stdout().print(table(columns, rows))
    return 0
