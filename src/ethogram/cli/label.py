"""`ethogram label`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ethogram.errors import BadUsage
from ethogram.questions.calibration.labels import CLASS_LABEL, LabelResult, label
from ethogram.store import short_id

from .printing import (
    HomeOption,
    JsonOption,
    LimitOption,
    at_home,
    first,
    plural,
    print_json,
    print_rest,
    printable,
    stderr,
    stdout,
    table,
)


def command(
    run: Annotated[str, typer.Argument(help="A run directory, a run's name, or latest.")] = "latest",
    trace: Annotated[
        str | None,
        typer.Argument(help="The trace: the start of its id, TASK/ATTEMPT, or ID:STEP.", show_default=False),
    ] = None,
    value: Annotated[
        str | None,
        typer.Argument(help="What it is: a failure class, or the value of the label.", show_default=False),
    ] = None,
    name: Annotated[str, typer.Option("--label", help="The label's name.")] = CLASS_LABEL,
    step: Annotated[int | None, typer.Option(min=0, help="The step that it is about.", show_default=False)] = None,
    why: Annotated[
        str | None, typer.Option(help="The reason; required for a failure class.", show_default=False)
    ] = None,
    by: Annotated[str | None, typer.Option(help="The author; by default your login.", show_default=False)] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Labels of a CSV: trace, or task and attempt; value; and perhaps step, name, by, why.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write a CSV of what is left to label, to be filled in.", show_default=False),
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option(help="Draw this many judged traces in all, to calibrate a judge (see calibrate).", metavar="N"),
    ] = None,
    audit_share: Annotated[
        float | None, typer.Option(help="Draw the standing audit: this share of all judged traces, such as 0.1.")
    ] = None,
    strata: Annotated[
        str, typer.Option(help="How --sample divides the traces: verdict, outcome, task, with commas between them.")
    ] = "verdict",
    limit: LimitOption = 30,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Label traces by hand, with who and why; a failure class set by hand overrides the rules of `ethogram why`.

    Example: `ethogram label night 4f1c22:10 loop --why "the same search three times" --by ada`
    """
    result = label(
        run,
        trace,
        value,
        name=name,
        step=step,
        why=why,
        by=by,
        csv_file=csv,
        out=out,
        sample=None if sample is None else _count(sample),
        audit_share=audit_share,
        strata=tuple(strata.split(",")),
        home=home,
    )
    if json:
        print_json(result)
    else:
        _print(result, limit, home)
    return 0


def _count(words: str) -> int:
    if not words.isdecimal() or int(words) < 1:
        raise BadUsage(f"--sample takes a number of traces such as 100, not {words!r}")
    return int(words)


def _print(result: LabelResult, limit: int, home: str | None) -> None:
    out = stdout()
    have = "still has" if result.left == 1 else "still have"
    left = f"{plural(result.left, 'trace')} {have} no {result.name} set by a person"
    told = f"{plural(result.labelled, 'label')} added; {left}"
    out.print(f"{result.run}  {told}", markup=False, style="bold")
    if result.sample is not None:
        drawn = ", ".join(f"{s.drawn} of {s.of:,} {printable(s.stratum)}" for s in result.sample.strata)
        out.print(f"sample: {drawn} ({result.sample.rule})", markup=False)
    if result.labels:
        rows = [[_place(x.trace, x.step), x.task, x.attempt, x.value, x.by, x.why] for x in first(result.labels, limit)]
        out.print(table(["trace", "task", "attempt", result.name, "by", "why"], rows))
        print_rest(out, result.labels, limit, "label")
    for skipped in result.skipped[:20]:
        stderr().print(f"skipped {printable(skipped.where)}: {printable(skipped.why)}", markup=False)
    if result.sheet is not None:
        out.print(f"fill in the column value of {printable(result.sheet)}", markup=False)
        out.print(f"next: {printable(result.next or '')}{at_home(home)}", style="dim", markup=False)


def _place(trace: str, step: int | None) -> str:
    short = short_id(trace, 10)
    return short if step is None else f"{short}:{step}"
