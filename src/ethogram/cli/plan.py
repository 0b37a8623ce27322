"""`ethogram plan`."""

from __future__ import annotations

from typing import Annotated

import typer

from ethogram.display.money import dollars
from ethogram.questions.gate.planning import PlanResult, plan

from .printing import HomeOption, JsonOption, plural, print_json, stdout, table


def command(
    pilot: Annotated[str | None, typer.Argument(help="A run to learn the tasks' rates and price from.")] = None,
    drop: Annotated[
        float | None, typer.Option(help="The drop to detect; by default 0.05 unless a budget is given.")
    ] = None,
    power: Annotated[float, typer.Option(help="Power: the probability of detecting such a drop.")] = 0.8,
    alpha: Annotated[
        float, typer.Option(help="False-alarm rate: the probability of reporting a drop if nothing changed.")
    ] = 0.05,
    stored: Annotated[float, typer.Option(help="Attempts per task of a stored baseline; 0: both arms are run.")] = 0,
    tasks: Annotated[int, typer.Option(max=1_000_000, help="Without a pilot: how many tasks.")] = 50,
    rate: Annotated[float, typer.Option(help="Without a pilot: their mean pass rate.")] = 0.7,
    spread: Annotated[float, typer.Option(help="Without a pilot: standard deviation of the tasks' rates.")] = 0.25,
    usd_per_run: Annotated[
        float | None, typer.Option(help="Dollars per attempt; by default what the pilot cost.")
    ] = None,
    max_runs: Annotated[
        int | None, typer.Option(help="A budget in attempts: gives the drop that it can detect.")
    ] = None,
    max_usd: Annotated[
        float | None, typer.Option(help="A budget in dollars: gives the drop that it can detect.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulation that checks the plan.")] = 0,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Plan a comparison: attempts and dollars needed to detect a drop, or the drop that a budget can detect.

    Example: `ethogram plan --drop 0.1 --stored 20 --usd-per-run 0.05`
    """
    budgeted = max_runs is not None or max_usd is not None
    result = plan(
        pilot,
        home=home,
        tasks=tasks,
        rate=rate,
        spread=spread,
        seed=seed,
        drop=drop if drop is not None or budgeted else 0.05,
        power=power,
        alpha=alpha,
        stored=stored,
        usd_per_run=usd_per_run,
        max_runs=max_runs,
        max_usd=max_usd,
    )
    if json:
        print_json(result)
    else:
        _print(result)
    return 0


def _print(result: PlanResult) -> None:
    out, seen = stdout(), result.simulated
    looks = f"{result.attempts_per_task} per task, {plural(len(result.looks), 'look')}"
    cost = "" if result.cost_usd is None else f", {dollars(result.cost_usd)}"
    out.print(
        f"[bold]at most {plural(result.runs, 'attempt')}[/bold] ({looks}){cost}, "
        f"to detect a drop of {result.drop:.3g} on {plural(result.tasks, 'task')}"
    )
    arms = f"candidate only, {result.stored:g} stored attempts per task" if result.stored else "both arms are run"
    out.print(f"power {result.target_power:g}, {result.alpha:.0%} false alarms; {arms}", style="dim")
    sizes = {
        "at most": result.runs,
        "mean if the drop is real": result.expected_if_dropped,
        "mean if nothing changed": result.expected_if_unchanged,
        "without stages": result.fixed_runs,
    }
    priced = result.price is not None
    rows = [[name, round(n), *_cost(n, result.price)] for name, n in sizes.items() if n is not None]
    out.print()
    out.print(table(["", "attempts", "cost"] if priced else ["", "attempts"], rows))
    out.print()
    shares = (seen.power, seen.false_alarms, seen.passed_in_error, seen.undecided)
    columns = ["simulated", "power", "false alarms", "passed in error", "undecided"]
    out.print(table(columns, [[f"{seen.draws:,} times", *(f"{share:.3f}" for share in shares)]]))
    if result.price is None:
        out.print("price unknown: give --usd-per-run, or a pilot that recorded its cost", style="dim")


def _cost(attempts: float, price: float | None) -> list[str]:
    return [] if price is None else [dollars(attempts * price)]
