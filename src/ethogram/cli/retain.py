"""`ethogram retain`."""

from __future__ import annotations

from typing import Annotated

import typer

from ethogram.errors import BadUsage
from ethogram.questions.home.maintenance import retain

from .printing import HomeOption, JsonOption, print_json, size, stdout, table


def command(
    runs: Annotated[list[str] | None, typer.Argument(help="Runs to go through; by default all.")] = None,
    keep_all: Annotated[str, typer.Option(help="Keep everything younger than this age.")] = "14d",
    keep_failures: Annotated[
        bool, typer.Option("--keep-failures/--drop-failures", help="Keep failures and missing outcomes permanently.")
    ] = True,
    sample: Annotated[str, typer.Option(help="Keep this share of the rest.")] = "5%",
    apply: Annotated[bool, typer.Option("--apply", help="Do it; without this it is a dry run.")] = False,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Delete spans and texts of old successes; outcomes and totals stay. A dry run unless --apply is given.

    Example: `ethogram retain --keep-all 14d --keep-failures --sample 5%`
    """
    result = retain(
        runs or (), keep_all=keep_all, keep_failures=keep_failures, sample=_share(sample), apply=apply, home=home
    )
    if json:
        print_json(result)
        return 0
    out = stdout()
    verb = "would delete" if result.dry_run else "deleted"
    rows = [
        [
            r.run,
            r.kept,
            len(r.forgotten),
            size(r.bytes_before),
            size(r.bytes_after) if r.bytes_after is not None else None,
        ]
        for r in result.runs
    ]
    out.print(table(["run", "kept", verb, "bytes before", "bytes after"], rows))
    if result.dry_run and result.forgotten:
        out.print("this was a dry run; --apply does it, and keeps a record in the run", style="dim")
    return 0


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise BadUsage(f"{text!r} is not a share; write for example 5% or 0.05")
    return share
