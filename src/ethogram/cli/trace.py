"""`ethogram trace`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from ethogram.lab import TraceTree, show_trace

from .out import HomeOption, JsonOption, LimitOption, print_json, printable, stdout

_STYLE = {
    "model": "cyan",
    "tool": "green",
    "user": "magenta",
    "agent": "bold",
    "handoff": "yellow",
    "retrieval": "blue",
    "memory": "blue",
    "judge": "yellow",
}


def command(
    trace: Annotated[str, typer.Argument(help="The trace's id, or the start of it.")],
    run: Annotated[str | None, typer.Option(help="Look in this run only.")] = None,
    limit: LimitOption = 400,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Show one trace as a tree, with tokens, time and errors.

    Example: `ethogram trace 4f1c22 --run latest`
    """
    result = show_trace(trace, run=run, home=home, limit=limit or None)
    if json:
        print_json(result)
        return 0
    _print(result)
    return 0


def _print(result: TraceTree) -> None:
    out = stdout()
    task = printable(result.task) or "unknown"
    verdict = f"missing ({result.missing})" if result.missing else f"score {result.score:g}"
    out.print(
        f"{result.trace_id}  run {result.run}  task {task}  attempt {result.attempt}  {verdict}",
        style="bold",
        markup=False,
    )
    for row in result.spans:
        indent = "  " * min(row.depth, 20)
        line = Text(indent)
        line.append(f"{row.step:>3} " if row.step is not None else "  · ", style="dim")
        line.append(f"{row.kind} ", style=_STYLE.get(row.kind, "dim"))
        line.append(printable(row.name), style="bold" if row.kind == "tool" else "")
        if row.status == "error":
            line.append("  ✗ error", style="bold red")
        facts = []
        inputs = [t for t in (row.input_tokens, row.cache_read_tokens, row.cache_write_tokens) if t is not None]
        if inputs or row.output_tokens is not None:
            facts.append(f"{sum(inputs):,}→{row.output_tokens or 0:,} tok")
        if row.seconds is not None:
            facts.append(f"{row.seconds:.2f} s")
        if row.cost_usd is not None:
            facts.append(f"${row.cost_usd:.4f}")
        if facts:
            line.append("  " + ", ".join(facts), style="dim")
        if row.preview:
            line.append("  " + printable(row.preview))
        out.print(line, no_wrap=True, overflow="ellipsis")
        if row.error:
            for part in row.error.splitlines()[:3]:
                out.print(
                    Text("  " * min(row.depth, 20) + "      " + printable(part), style="red"), crop=True, no_wrap=True
                )
    if result.shown < result.of:
        out.print(f"… {result.of - result.shown:,} more spans; --limit 0 shows all", style="dim")
    if "crash" in result.meta:
        out.print(f"the agent crashed: {printable(str(result.meta['crash']))}", style="red", markup=False)
    for label in result.labels[:20]:
        why = str(label.get("why") or "").partition("\n")[0]
        said = f"label {label['name']} = {label.get('value')} (by {label['by']}){': ' if why else ''}{why[:300]}"
        out.print(printable(said), style="dim", markup=False)
    if "workspace" in result.meta:
        out.print(f"workspace kept at: {printable(str(result.meta['workspace']))}", markup=False)
    if result.answer:
        out.print(f"answer: {printable(result.answer[:500])}", markup=False)
