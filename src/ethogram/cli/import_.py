"""`ethogram import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ethogram.capture.readers import formats
from ethogram.questions.logs.imports import ImportOptions, ImportResult, read_logs
from ethogram.questions.logs.watch import watch_logs

from .printing import HomeOption, JsonOption, bytes_progress, plural, print_json, printable, stderr, stdout, table

OUTCOMES = {"table", "episodes"}
"""Formats of outcomes without traces."""


def command(
    paths: Annotated[list[Path], typer.Argument(help="Files, folders, archives, or - for standard input.")],
    run: Annotated[str | None, typer.Option(help="Name of the run; by default from the first path.")] = None,
    format: Annotated[
        str | None,
        typer.Option(help=f"Format of the logs, by default recognised by content: {', '.join(formats())}."),
    ] = None,
    task_from: Annotated[
        str | None, typer.Option(help="Where tasks come from: name:REGEX, meta:KEY, label:NAME or csv:FILE[:COLUMN].")
    ] = None,
    outcome_from: Annotated[
        str | None, typer.Option(help="Where outcomes come from, in the same forms; pass/fail, true/false or a number.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns of a table of results: task=case,score=acc/100,cost=usd; by default guessed, shown."
        ),
    ] = None,
    redact: Annotated[
        str, typer.Option(help="default, secrets (no personal data), or none (public data).")
    ] = "default",
    pattern: Annotated[list[str] | None, typer.Option(help="Also redact NAME=REGEX; may be repeated.")] = None,
    seal: Annotated[
        bool | None, typer.Option("--seal/--no-seal", help="Encrypt payloads; by default when a key is active.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Tag the run; may be repeated.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep importing as files appear and grow.")] = False,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Import logs of any supported harness; everything is redacted before it is written.

    Example: `ethogram import logs/ --run night --task-from 'name:(.*)_run'`
    """
    options = ImportOptions(
        run=run,
        format=format,
        task_from=task_from,
        outcome_from=outcome_from,
        redact=redact,
        patterns=tuple(pattern or ()),
        seal=seal,
        tags=tuple(tag or ()),
        columns=columns,
    )
    if watch:
        for result in watch_logs(paths, options, home=home):
            print_json(result) if json else _print(result)
        return 0
    with bytes_progress("import", quiet=json) as progress:
        result = read_logs(list(paths), options, home=home, progress=progress)
    print_json(result) if json else _print(result)
    if result.traces + result.unchanged + result.labels == 0:
        why = "the reasons are above" if result.skipped else "there is no file in it"
        stderr().print(f"ethogram import: nothing was imported; {why}", style="yellow", markup=False)
        return 64
    return 0


def _print(result: ImportResult) -> None:
    out = stdout()
    rows = [
        [r["source"], r["format"], r["traces"], r["spans"], r["unchanged"], r["skipped"], r["lost"]]
        for r in result.rows()
    ]
    shown = rows if len(rows) <= 40 else [*rows[:20], *rows[-20:]]
    out.print(table(["file", "format", "traces", "spans", "unchanged", "skipped", "lost"], shown))
    if len(rows) > len(shown):
        out.print(f"… and {len(rows) - len(shown)} more files", style="dim")
    if result.traces + result.unchanged + result.labels:
        added = f"{plural(result.traces, 'trace')}, {plural(result.spans, 'span')}"
        if result.formats.keys() <= OUTCOMES:
            added = "1 outcome without a trace" if result.traces == 1 else f"{result.traces:,} outcomes without traces"
        added += f", {plural(result.labels, 'label')} of other files" if result.labels else ""
        out.print(
            f"\nrun [bold]{result.run}[/bold]: {added} added; "
            f"{result.unchanged:,} unchanged, {result.superseded:,} superseded"
        )
    for line in dict.fromkeys(f.columns for f in result.files if f.columns):
        out.print(f"columns: {line}", markup=False)
    for note in dict.fromkeys(note for f in result.files for note in f.notes):
        out.print(f"note: {note}", markup=False)
    if result.redactions:
        found = ", ".join(f"{kind} {count}" for kind, count in result.redactions.items())
        out.print(f"redacted before writing: {found}", markup=False)
    if result.lost:
        out.print("could not be represented: " + ", ".join(f"{k} {v}" for k, v in result.lost.items()), markup=False)
    for skipped in result.skipped[:20]:
        out.print(f"skipped {printable(skipped.where)}: {printable(skipped.why)}", style="yellow", markup=False)
    more = sum(r["skipped"] for r in result.rows()) - len(result.skipped[:20])
    if more:
        out.print(f"… and {more:,} more; --json lists the first {len(result.skipped):,}", style="yellow")
    if result.traces:
        verb = "stats" if result.formats.keys() <= OUTCOMES else "show"
        out.print(f"next: ethogram {verb} {result.run}", style="dim")
