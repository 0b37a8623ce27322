"""`ethogram trace`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ethogram.reading.traces import TraceTree
from ethogram.reading.traces import trace as show_trace

from .printing import HomeOption, JsonOption, LimitOption, paged, plural, print_json, printable, say
from .step_words import print_step, span_facts, span_line


def command(
    trace: Annotated[str, typer.Argument(help="The trace's id or the start of it, TASK/ATTEMPT, or ID:STEP.")],
    run: Annotated[str | None, typer.Option(help="Look in this run only.")] = None,
    step: Annotated[int | None, typer.Option(help="Show the texts of this step.", show_default=False)] = None,
    around: Annotated[int, typer.Option(min=0, help="With --step: also this number of steps before and after it.")] = 0,
    find: Annotated[
        str | None, typer.Option(help="Show the steps that contain this text, ignoring case.", show_default=False)
    ] = None,
    only: Annotated[str | None, typer.Option(help="errors, tools or model.", show_default=False)] = None,
    full: Annotated[bool, typer.Option("--full", help="Show full texts; without --step those of all steps.")] = False,
    limit: LimitOption = 400,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Show one trace as a tree, with tokens, time and errors, or the words of its steps.

    Example: `ethogram trace 4f1c22 --step 10 --around 1`
    """
    result = show_trace(
        trace, run=run, home=home, limit=limit or None, step=step, around=around, find=find, only=only, full=full
    )
    known = result.totals.steps is not None
    if json:
        print_json(result)
        return 0 if known else 2
    with paged() as out:
        _print(out, result, full)
    if not known:
        say(f"ethogram trace: {trace} is an outcome without a trace, as a table gives it: there is no step to show")
    return 0 if known else 2


def _print(out: Console, result: TraceTree, full: bool = False) -> None:
    task = printable(result.task) or "unknown"
    verdict = f"missing ({result.missing})" if result.missing else f"score {result.score:g}"
    out.print(
        f"{result.trace_id}  run {result.run}  task {task}  attempt {result.attempt}  {verdict}",
        style="bold",
        markup=False,
    )
    if result.missing_detail:
        out.print(f"why it is missing: {printable(result.missing_detail)}", style="yellow", markup=False)
    if result.words or result.found is not None:
        _print_words(out, result, full)
    else:
        _print_tree(out, result)


def _print_words(out: Console, result: TraceTree, full: bool) -> None:
    found = result.found
    for number, step in enumerate(result.words, 1):
        out.print()
        if found is not None:
            out.print(f"{number} of {found.steps}", style="dim")
        print_step(out, step, (result.totals.steps or 0) - 1, full=full, find=None if found is None else found.text)
    out.print()
    if found is not None:
        times = "" if found.times == found.steps else f", {found.times} times in all"
        told = f"{found.steps} of {plural(found.of, 'step')} hold {printable(found.text)!r}{times}"
        out.print(told, style="bold", markup=False)
    left = result.words_of - len(result.words)
    if left:
        out.print(f"… {left:,} more steps; --limit 0 shows all", style="dim")
    if full and found is None and result.words_of == result.totals.steps:  # the whole trace was asked for
        _print_rest(out, result, full)


def _print_tree(out: Console, result: TraceTree) -> None:
    belief = result.belief.first
    refused = [j for j in result.judgements if j.value is False]
    for row in result.spans:
        indent = "  " * min(row.depth, 20)
        line = Text(indent)
        line.append(f"{row.step:>3} " if row.step is not None else "  · ", style="dim")
        line.append_text(span_line(row))
        if belief is not None and row.span_id == belief.span_id:
            line.append(f"  ◆ no observation returned this {belief.kind}", style="bold yellow")
        if facts := span_facts(row):
            line.append("  " + facts, style="dim")
        if row.preview:
            line.append("  " + printable(row.preview))
        out.print(line, no_wrap=True, overflow="ellipsis")
        if row.error:
            for part in row.error.splitlines()[:3]:
                words = Text(indent + "      " + printable(part), style="red")
                out.print(words, no_wrap=True, overflow="ellipsis")
        for said in refused:
            if said.span_id == row.span_id:
                verdict = printable(f"{indent}      ✗ {said.item} (by {said.by}) {said.why}")
                out.print(Text(verdict, style="bold orange1"), no_wrap=True, overflow="ellipsis")
    if result.shown < result.of:
        out.print(f"… {result.of - result.shown:,} more spans; --limit 0 shows all", style="dim")
    _print_rest(out, result)


def _print_rest(out: Console, result: TraceTree, full: bool = False) -> None:
    """What is known of the whole trace: belief, crash, verdicts, labels, answer."""
    belief = result.belief.first
    if belief is not None:
        said = f"◆ step {belief.step} is the first that uses an unobserved value: no earlier observation returned the "
        out.print(f"{said}{belief.kind} {printable(belief.value)!r}", style="yellow", markup=False)
    if "crash" in result.meta:
        out.print(f"the agent crashed: {printable(str(result.meta['crash']))}", style="red", markup=False)
    if result.judgements:
        no = sum(j.value is False for j in result.judgements)
        out.print(f"judged: {plural(len(result.judgements), 'verdict')} on steps, {no} of them no", style="dim")
    for label in result.labels[:20]:
        why = str(label.get("why") or "").partition("\n")[0]
        said = f"label {label['name']} = {label.get('value')} (by {label['by']}){': ' if why else ''}{why[:300]}"
        out.print(printable(said), style="dim", markup=False)
    if "workspace" in result.meta:
        out.print(f"workspace kept at: {printable(str(result.meta['workspace']))}", markup=False)
    if result.answer:
        out.print(f"answer: {printable(result.answer if full else result.answer[:500])}", markup=False)
