"""`ethogram divergence`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from ethogram.questions.divergence.question import DivergenceResult, divergence

from .diff import LanesOption, ReadingOption, SignatureOption
from .printing import (
    AgainstOption,
    CommonTasksOption,
    HomeOption,
    JsonOption,
    LimitOption,
    first,
    plural,
    print_json,
    print_rest,
    printable,
    stderr,
    stdout,
    table,
)

NOT_MEASURABLE = 2


def command(
    run: Annotated[str, typer.Argument(help="A run: its name, its directory, or latest.")] = "latest",
    against: AgainstOption = None,
    condition: Annotated[str | None, typer.Option(help="Only episodes under this condition.")] = None,
    against_condition: Annotated[
        str | None, typer.Option(help="Only episodes of the other run under this condition.")
    ] = None,
    common_tasks: CommonTasksOption = False,
    reading: ReadingOption = "steps",
    signature: SignatureOption = None,
    lanes: LanesOption = True,
    draws: Annotated[int, typer.Option(help="Random permutations of the test.")] = 9999,
    seed: Annotated[int, typer.Option(help="The seed of the permutations.")] = 0,
    limit: LimitOption = 20,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Show distances between repeats of a task, or between two runs, and whether they exceed the noise floor.

    Example: `ethogram divergence candidate --against main`
    """
    result = divergence(
        run,
        against,
        condition=condition,
        against_condition=against_condition,
        common_tasks=common_tasks,
        reading=reading,
        signature=signature,
        lanes=lanes,
        draws=draws,
        seed=seed,
        home=home,
    )
    if json:
        print_json(result)
    else:
        _print(result, limit)
    return 0 if any(t.pairs for t in result.tasks.values()) else NOT_MEASURABLE


def _print(result: DivergenceResult, limit: int) -> None:
    out = stdout()
    out.print(_title(result), style="bold", markup=False)
    if result.baseline is not None:
        p = "" if result.p_value is None else f" (p = {result.p_value:.2g})"
        style = "bold red" if result.verdict == "different" else "bold yellow"
        tested = result.comparison
        told = f": {printable(result.evidence or '')}"
        if tested is not None and result.verdict == "different" and (most := tested.mostly):
            told = f", mostly in {printable(most)}"
        out.print(f"{result.verdict}{p}{told}", style=style, markup=False)
        if tested is not None:
            out.print(table(["test", "p"], tested.tests.rows()))
            out.print()
    _print_distances(out, result)
    _print_tasks(out, result, limit)
    if result.baseline is not None:
        _print_comparison(out, result, limit)
    if result.missing:
        left = ", ".join(f"{reason} {n}" for reason, n in result.missing.items())
        out.print(f"not compared: {left}", style="dim", markup=False)
    for told in result.warnings:
        stderr().print(f"warning: {printable(told)}", style="bold yellow", markup=False)


def _title(result: DivergenceResult) -> str:
    """What is compared; of repeats, how far they are apart, for there is no verdict."""
    how = f"({result.reading}, {result.signature})"
    if result.baseline:
        return f"{result.run} against {result.baseline} {how}"
    if result.mean_of_means is None:
        return f"{result.run}: no distance between repeats can be measured {how}"
    tasks = plural(sum(bool(task.pairs) for task in result.tasks.values()), "task")
    return f"{result.run}: mean distance between repeats {result.mean_of_means:.3f}, over {tasks} {how}"


def _print_distances(out: Console, result: DivergenceResult) -> None:
    """Distances between attempts, and between repeats of an unchanged version: the noise floor."""
    floor, rows = result.noise_floor, []
    if result.mean_of_means is not None:
        what = "repeats" if result.baseline is None else "the two runs"
        pairs = sum(task.pairs for task in result.tasks.values())
        rows.append([f"{what}, mean over tasks", result.mean_of_means, None, None, pairs])
    if floor.measured:
        rows.append(["noise floor", floor.mean, floor.q95, floor.max, floor.pairs])
    if rows:
        out.print(table(["distance (d_norm)", "mean", "95th percentile", "largest", "pairs"], rows))
        out.print()


def _print_tasks(out: Console, result: DivergenceResult, limit: int) -> None:
    compared = result.comparison.tasks if result.comparison else {}
    rows = [
        [
            name or "unknown",
            task.baseline_runs or None,
            task.runs,
            task.pairs,
            task.mean,
            task.max,
            compared[name].p_value if name in compared else None,
            compared[name].q_value if name in compared else None,
        ]
        for name, task in result.tasks.items()
    ]
    columns = ["task", "base attempts", "attempts", "pairs", "mean d_norm", "max", "p", "q"]
    if result.baseline is None:
        columns, rows = [c for c in columns if c not in ("base attempts", "p", "q")], [[r[0], *r[2:6]] for r in rows]
    out.print(table(columns, first(rows, limit)))
    print_rest(out, rows, limit, "task")


def _print_comparison(out: Console, result: DivergenceResult, limit: int) -> None:
    seen = {k: v for k, v in result.prevalence.items() if v.value}
    within = result.prevalence_within_floor
    rows = [
        [name, v.value, v.low, v.high, within[name].value if name in within else None]
        for name, v in sorted(seen.items(), key=lambda kv: -(kv[1].value or 0))
    ]
    if rows:
        out.print()
        out.print(table(["manifestation", "share", "low", "high", "within the floor"], rows))
    tested = result.comparison
    out.print()
    if tested is not None:
        steps = [
            [
                s.signature,
                s.base,
                s.candidate,
                f"{round(s.z, 2) + 0.0:.2f}",
                s.p_value,
                s.edited_between,
                s.edited_within,
            ]
            for s in tested.steps[: min(limit or 8, 8)]
        ]
        columns = ["step", "base per attempt", "candidate", "z", "adjusted p", "edited between", "edited within"]
        out.print(table(columns, steps, title="steps with the largest difference"))
        out.print(f"between the runs: {tested.between}", markup=False)
        out.print(f"further apart than repeats by: {tested.effect}", markup=False)
        spread = tested.t_star_between
        if spread.median is not None:
            out.print(
                f"t*/T between: median {spread.median:.2f}, 10–90 % {spread.q10:.2f}–{spread.q90:.2f}; "
                f"{spread.never} of {spread.pairs} pairs never differ"
            )
