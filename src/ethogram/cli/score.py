"""`ethogram score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ethogram.questions.scoring.question import ScoreResult
from ethogram.questions.scoring.question import score as rescore

from .printing import HomeOption, JsonOption, print_json, printable, stderr, stdout, table


def command(
    run: Annotated[str, typer.Argument(help="A run directory, a run's name, or latest.")] = "latest",
    suite: Annotated[
        str | None,
        typer.Option(help="Score by the checks of this suite; by default the run's own.", show_default=False),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Score by a CSV with trace, or source, or task and attempt; and value.", show_default=False),
    ] = None,
    score: Annotated[
        str | None, typer.Option(help="Let the label of this name be the outcome.", show_default=False)
    ] = None,
    outcome_from: Annotated[
        str | None,
        typer.Option(
            help="As for an import: csv:FILE[:COLUMN] is --labels, label:NAME is --score; meta:KEY is a fact.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option(help="Score by a check, KIND=SETTINGS, without a suite; may be repeated.", show_default=False),
    ] = None,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Score or re-score stored traces without running the agent; labels and outcomes are added, never edited.

    Traces about which a check raises an exception keep what they have; if all do, the exit code is 2.

    Example: `ethogram score night --suite suite/`
    """
    result = rescore(
        run, suite=suite, labels=labels, score=score, outcome_from=outcome_from, checks=check or (), home=home
    )
    if json:
        print_json(result)
    else:
        _print(result)
    return 2 if result.crashed and not result.judged else 0


def _print(result: ScoreResult) -> None:
    out = stdout()
    missing = ", ".join(f"{reason} {count}" for reason, count in result.missing.items())
    why = f" ({missing})" if missing else ""
    out.print(f"[bold]{result.run}[/bold]  {result.scored} scored, {sum(result.missing.values())} missing{why}")
    out.print(f"{result.changed} outcomes changed, {result.labels} labels added\n", style="dim")
    rows = [[t.task, t.attempts, t.scored, t.successes, t.mean, sum(t.missing.values())] for t in result.tasks]
    out.print(table(["task", "attempts", "scored", "successes", "mean score", "missing"], rows))
    notes = stderr()
    if result.crash is not None:
        traces = "a trace" if result.crashed == 1 else f"{result.crashed:,} traces"
        notes.print(f"a check raised an exception about {traces}, which keep what they had:", style="yellow")
        notes.print(f"  {printable(result.crash)}", style="yellow", markup=False, soft_wrap=True)
    for note in result.notes:
        notes.print(f"note: {note}", markup=False)
    if result.unmatched:
        shown = ", ".join(result.unmatched[:8]) + (", …" if len(result.unmatched) > 8 else "")
        notes.print(f"\nnot matched, and left as they were: {shown}", markup=False)
    for skipped in result.skipped[:20]:
        notes.print(f"skipped {skipped.where}: {skipped.why}", markup=False)
    if len(result.skipped) > 20:
        notes.print(f"… and {len(result.skipped) - 20} more rows")
