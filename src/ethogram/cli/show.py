"""`ethogram show`."""

from __future__ import annotations

from typing import Annotated

import typer

from ethogram.display.money import dollars
from ethogram.questions.home.runs import EpisodeRow, RunSummary, show
from ethogram.store import short_id

from .printing import (
    HomeOption,
    JsonOption,
    LimitOption,
    at_home,
    first,
    known,
    plural,
    print_json,
    print_rest,
    size,
    stdout,
    table,
    when,
)


def command(
    run: Annotated[str, typer.Argument(help="A run directory, a run's name, or latest.")] = "latest",
    limit: LimitOption = 30,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Show what is in a run: tasks, episodes, totals, and what could not be imported.

    Example: `ethogram show latest`
    """
    result = show(run, home=home)
    if json:
        print_json(result)
        return 0
    _print(result, limit, home)
    return 0


def _print(result: RunSummary, limit: int, home: str | None = None) -> None:
    out = stdout()
    out.print(
        f"[bold]{result.run}[/bold]  {result.kind}, {when(result.created_ns)} UTC, {size(result.bytes)} stored", end=""
    )
    out.print(f", redaction {result.redaction}{', sealed' if result.sealed else ''}")
    missing = ", ".join(f"{reason} {count}" for reason, count in result.missing.items())
    why = f" ({missing})" if missing else ""
    out.print(
        f"{plural(result.episodes, 'episode')}: {result.scored} scored, {sum(result.missing.values())} missing{why}"
    )
    if result.traces:
        _print_totals(result)
    out.print()
    tasks = [[t.task, t.attempts, t.scored, t.successes, t.mean, sum(t.missing.values())] for t in result.tasks]
    out.print(table(["task", "attempts", "scored", "successes", "mean score", "missing"], first(tasks, limit)))
    print_rest(out, tasks, limit, "task")
    for note in result.notes:
        out.print(f"note: {note}", style="dim", markup=False)
    if result.traces:
        _print_traces(result, limit)
    if result.lost or result.skipped:
        lost = ", ".join(f"{k} {v}" for k, v in result.lost.items()) or "nothing"
        out.print(f"\nnot represented: {lost}; records skipped: {result.skipped}", markup=False)
    if result.traces:
        out.print(f"next: ethogram trace {_short(result.traces[0])}{at_home(home)}", style="dim", markup=False)


def _print_totals(result: RunSummary) -> None:
    out, totals = stdout(), result.totals
    tokens = [
        f"{name} {value:,}"
        for name, value in (
            ("fresh input", totals.input_tokens),
            ("cache read", totals.cache_read_tokens),
            ("cache write", totals.cache_write_tokens),
            ("output", totals.output_tokens),
        )
        if value is not None
    ]
    out.print(
        f"{plural(totals.spans, 'span')}, {plural(totals.steps, 'step')}, {plural(totals.tool_calls, 'tool call')}, "
        f"{plural(totals.errors, 'error')}"
    )
    cost = known(result.cost_usd, result.at_least_usd, dollars)
    out.print(f"tokens: {', '.join(tokens) or 'unknown'}; cost: {cost}")


def _short(trace: EpisodeRow) -> str:
    return short_id(trace.trace_id)


def _print_traces(result: RunSummary, limit: int) -> None:
    """One row per attempt; with its condition where the run has any."""
    out = stdout()
    conditions = any(t.condition for t in result.traces)
    rows = [
        [
            _short(t),
            t.task or "unknown",
            *([t.condition or "baseline"] if conditions else []),
            t.attempt,
            t.score if t.missing is None else t.missing,
            t.totals.steps,
            t.totals.tool_calls,
            t.totals.errors,
            t.totals.output_tokens,
            dollars(t.cost_usd),
            None if t.seconds is None else round(t.seconds, 3),
        ]
        for t in first(result.traces, limit)
    ]
    out.print()
    columns = ["attempt", "score", "steps", "tools", "errors", "out tok", "cost", "seconds"]
    out.print(table(["trace", "task", *(["condition"] if conditions else []), *columns], rows))
    print_rest(out, result.traces, limit, "trace")
