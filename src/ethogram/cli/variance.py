"""`ethogram variance`."""

from __future__ import annotations

from typing import Annotated

import typer

from ethogram.display.money import dollars
from ethogram.questions.calibration.variance import VarianceResult, variance
from ethogram.questions.calibration.variance_ledger import UnitPrices, VarianceEntry

from .printing import CommonTasksOption, HomeOption, JsonOption, plural, print_json, printable, stdout, table


def command(
    runs: Annotated[list[str], typer.Argument(help="Runs of the same tasks: directories, names, or latest.")],
    item: Annotated[
        str | None, typer.Option("--item", help="Verdicts on this item of the rubric.", show_default=False)
    ] = None,
    score: Annotated[
        str | None, typer.Option("--score", help="Verdicts of this name; by default the outcome.", show_default=False)
    ] = None,
    run_usd: Annotated[
        float | None, typer.Option("--run-usd", help="Dollars per attempt; by default as recorded.", show_default=False)
    ] = None,
    label_usd: Annotated[
        float | None, typer.Option("--label-usd", help="Dollars per label by hand.", show_default=False)
    ] = None,
    task_usd: Annotated[float, typer.Option("--task-usd", help="Dollars to write a new task.")] = 0.0,
    common_tasks: CommonTasksOption = False,
    level: Annotated[float, typer.Option(help="The confidence level of the intervals.", min=0.5, max=0.999)] = 0.95,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Show the sources of variance (task, agent, judge, environment, infrastructure), and what to buy next.

    Repeats separate them: attempts at a task, runs or conditions as sessions, several verdicts on a trace.

    Example: `ethogram variance monday tuesday --score model_graded_qa --label-usd 2`
    """
    prices = UnitPrices(run=run_usd, label=label_usd, task=task_usd)
    result = variance(runs, item=item, score=score, prices=prices, common_tasks=common_tasks, level=level, home=home)
    if json:
        print_json(result)
    else:
        _print(result)
    return 0


def _print(result: VarianceResult) -> None:
    out, ledger = stdout(), result.ledger
    known = [e for e in ledger.entries if e.share is not None]
    most = max(known, key=lambda e: e.share or 0.0, default=None)
    buy = f"; best next purchase: {ledger.buy}" if ledger.buy else ""
    if most is None:
        told = f"{printable(result.what)} does not vary here: there is no spread to divide"
    else:
        told = f"largest source of variance in {printable(result.what)}: {_source(most)} ({most.share:.0%}){buy}"
    out.print(f"{', '.join(result.runs)}  {told}", style="bold", markup=False)
    error = ledger.variance_of_mean**0.5
    out.print(
        f"mean {ledger.mean:.3f}, standard error {error:.3f}; {plural(ledger.tasks, 'task')}, "
        f"{plural(ledger.traces, 'trace')}"
    )
    rows = [[_source(e), e.share, e.variance.value, _interval(e), e.of_mean, e.meaning] for e in ledger.entries]
    cells = [[r[0], "–" if r[1] is None else f"{r[1]:.0%}", *r[2:]] for r in rows]
    out.print(table(["source", "share", "variance", "interval", "in the mean", "what it is"], cells))
    for entry in ledger.entries:
        if entry.variance.why:
            out.print(f"  {_source(entry)}: {entry.variance.why}", style="dim", markup=False)
    out.print()
    bought = [
        [p.what, p.unit, dollars(p.price_usd), p.takes, None if p.per_usd is None else f"{p.per_usd:.3g}", p.why]
        for p in ledger.purchases
    ]
    out.print(table(["buy", "unit", "price", "variance removed", "per dollar", ""], bought))
    for note in result.notes:
        out.print(f"note: {printable(note)}", style="dim", markup=False)


def _source(entry: VarianceEntry) -> str:
    return "attempts" if entry.source == "agent" else entry.source


def _interval(entry: VarianceEntry) -> str | None:
    e = entry.variance
    return None if e.low is None or e.high is None else f"[{e.low:.3g}, {e.high:.3g}]"
