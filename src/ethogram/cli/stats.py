"""`ethogram stats`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from rich.markup import escape

from ethogram.estimate import Estimate
from ethogram.questions.reliability.question import ReliabilityResult, read_k, stats

from .printing import HomeOption, JsonOption, LimitOption, band, first, plural, print_json, print_rest, stdout, table


def command(
    run: Annotated[str, typer.Argument(help="A run directory, a run's name, or latest.")] = "latest",
    k: Annotated[
        str | None, typer.Option("--k", help="Which k: 1,2,4 or 1-8; default: 1 to the number of attempts per task.")
    ] = None,
    missing: Annotated[
        Literal["bounds", "failure"],
        typer.Option(help="A missing attempt is unknown and bounded, or counts as a failure."),
    ] = "bounds",
    target: Annotated[
        Literal["population", "suite"] | None,
        typer.Option(help="A claim about the tasks' population (from 20 tasks on), or about exactly this suite."),
    ] = None,
    level: Annotated[float, typer.Option(help="The confidence level of the intervals.", min=0.5, max=0.999)] = 0.95,
    naive: Annotated[bool, typer.Option("--naive", help="Also show the biased textbook estimates.")] = False,
    condition: Annotated[str | None, typer.Option(help="Which condition, where a run has several.")] = None,
    agent: Annotated[str | None, typer.Option(help="Which agent, where a run has several.")] = None,
    limit: LimitOption = 30,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Show how reliable an agent is: pass@k and pass^k with intervals, per task, and what is missing.

    Example: `ethogram stats latest --k 1,2,4`
    """
    result = stats(
        run,
        read_k(k) if k else (),
        home=home,
        condition=condition,
        agent=agent,
        level=level,
        missing=missing,
        target=target,
        naive=naive,
    )
    if json:
        print_json(result)
    else:
        _print(result, limit)
    return 0 if result.n else 2


def _print(result: ReliabilityResult, limit: int) -> None:
    out, episodes = stdout(), result.episodes
    facts = "; ".join(f"{name}: {value}" for name, value in result.facts.items())
    out.print(f"[bold]{escape(result.run)}[/bold]  {escape(_answer(result))}")
    ks = ", ".join(result.pass_at) or "none"
    counts = f"n {plural(result.n, 'attempt')}, c {result.c:,} success{'' if result.c == 1 else 'es'}"
    out.print(f"{counts}; k {ks}; {escape(facts)}", style="dim", soft_wrap=True)
    gone = ", ".join(f"{reason} {count}" for reason, count in episodes.missing.items())
    out.print(
        f"{episodes.planned} planned: {episodes.scored} scored ({episodes.coverage:.0%}), "
        f"{sum(episodes.missing.values())} missing{f' ({gone})' if gone else ''}"
    )
    if episodes.missing and result.convention == "bounds" and result.bounds.worst is not None:
        out.print(
            f"pass@1 if all missing attempts failed: {result.bounds.worst:.3f}; if all passed: {result.bounds.best:.3f}"
        )
    elif episodes.missing:
        out.print("missing attempts are counted as failures (--missing failure)")
    out.print()
    out.print(_curves(result))
    _say_why(result)
    if result.score is not None:
        out.print(f"score, mean over tasks {result.score}", markup=False)
    if result.compounding is not None:
        c = result.compounding
        columns = [
            "steps without an error",
            "steps per attempt",
            "expected success if an error ended the attempt",
            "success rate",
        ]
        figures = [f"{c.per_step:.4f}", f"{c.steps:.1f}", f"{c.predicted:.3f}", f"{c.observed:.3f}"]
        out.print()
        out.print(table(columns, [figures], title="errors per step"))
    out.print()
    rows = [[t.task, t.n, t.c, t.missing, *_cells(t.rate)] for t in first(result.tasks, limit)]
    out.print(
        table(
            ["task", "scored", "succeeded", "missing", "rate", "95 %" if result.level == 0.95 else "interval", ""], rows
        )
    )
    print_rest(out, result.tasks, limit, "task")
    out.print(f"next: ethogram compare {result.run} CANDIDATE", style="dim", markup=False)


def _answer(result: ReliabilityResult) -> str:
    """The estimate with the smallest k, and the counts that it comes from."""
    counts = f"{result.c} of {plural(result.n, 'scored attempt')} succeeded"
    k, at = next(iter(result.pass_at.items()), ("1", None))
    if at is None or at.value is None:
        return f"pass@{k} unknown, {counts}"
    ends = "" if at.low is None or at.high is None else f" [{at.low:.3f}, {at.high:.3f}]"
    return f"pass@{k} {at.value:.3f}{ends}, {counts}"


def _curves(result: ReliabilityResult) -> object:
    if result.naive_at is None or result.naive_hat is None or result.pass_ratio is None:
        rows = [
            [int(k), *_tasks_of(result, at), *_cells(at), *_cells(result.pass_hat[k])]
            for k, at in result.pass_at.items()
        ]
        return table([*_k_columns(result), "pass@k", "interval", "", "pass^k", "interval", ""], rows)
    compared = []
    for k, at in result.pass_at.items():
        told, naive_at, naive_hat = (x.get(k) for x in (result.pass_ratio, result.naive_at, result.naive_hat))
        # the pictures make room for the comparison
        compared.append(
            [
                int(k),
                *_tasks_of(result, at),
                *_cells(at)[:2],
                None if naive_at is None else f"{naive_at:.3f}",
                *_cells(result.pass_hat[k])[:2],
                None if naive_hat is None else f"{naive_hat:.3f}",
                None if told is None else f"{told:.2f}×",
            ]
        )
    columns = ["pass@k", "interval", "naive", "pass^k", "interval", "naive", "pass@k / pass@1"]
    return table([*_k_columns(result), *columns], compared)


def _k_columns(result: ReliabilityResult) -> list[str]:
    return ["k"] if result.same_tasks else ["k", "tasks"]


def _tasks_of(result: ReliabilityResult, estimate: Estimate) -> list[int]:
    return [] if result.same_tasks else [estimate.n]


def _cells(estimate: Estimate) -> list[str | None]:
    """Value, interval and a picture of both."""
    if estimate.value is None:
        return [None, None, None]
    value = f"{estimate.value:.3f}"
    if estimate.low is None or estimate.high is None:
        return [value, "none", None]
    return [value, f"{estimate.low:.3f}–{estimate.high:.3f}", band(estimate)]


def _say_why(result: ReliabilityResult) -> None:
    """What a reader of the curves must know, each thing once."""
    out = stdout()
    curves = (result.pass_at, result.pass_hat)
    most = max(e.n for curve in curves for e in curve.values())
    told = dict.fromkeys(e.why for curve in curves for e in curve.values() if e.why and e.n in (0, most))
    if not result.same_tasks:
        told["each k uses only the tasks with k attempts, so the tasks differ between k and pass^k may rise with k"] = (
            None
        )
    for why in (*told, *result.notes):
        out.print(f"note: {why}", style="dim", markup=False)
