"""`ethogram compare`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from rich.markup import escape

from ethogram.questions.compare.question import CompareResult, compare
from ethogram.reading.metric_means import metric_names
from ethogram.reading.suite_versions import SuiteVersions

from .layers import print_layers
from .moved_tasks import print_moved
from .printing import (
    CommonTasksOption,
    HomeOption,
    JsonOption,
    LimitOption,
    first,
    p_value,
    print_json,
    print_rest,
    signed,
    stdout,
    table,
    verdict_style,
)

LEAST_FLIPPED = 5
"""Pairs with another outcome; below this number their ratio says nothing."""
MetricOption = Annotated[str, typer.Option(help=f"What is compared: {metric_names()}.")]


def command(
    base: Annotated[str, typer.Argument(help="The run to compare with: a directory, a name, or latest.")],
    candidate: Annotated[str, typer.Argument(help="The candidate run.")],
    metric: MetricOption = "success",
    design: Annotated[
        Literal["within", "between"],
        typer.Option(
            help="The claim is about exactly these tasks (within), or about the population they come from (between)."
        ),
    ] = "within",
    level: Annotated[float, typer.Option(help="The confidence level.", min=0.5, max=0.999)] = 0.95,
    condition: Annotated[str | None, typer.Option(help="Which condition, where runs have several.")] = None,
    agent: Annotated[str | None, typer.Option(help="Which agent, where runs have several.")] = None,
    base_agent: Annotated[
        str | None, typer.Option(help="Which agent of the baseline, if it is a different one.")
    ] = None,
    common_tasks: CommonTasksOption = False,
    limit: LimitOption = 15,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Compare two versions on the same tasks: difference with interval, changed outcomes, and which tasks
    moved.

    For one planned comparison: to look repeatedly while attempts come in, use `ethogram gate`.

    Example: `ethogram compare before after`
    """
    result = compare(
        base,
        candidate,
        home=home,
        metric=metric,
        level=level,
        design=design,
        condition=condition,
        agent=agent,
        base_agent=base_agent,
        common_tasks=common_tasks,
    )
    if json:
        print_json(result)
    else:
        _print(result, limit)
    return 2 if result.difference.low is None or (result.refused and result.verdict == "undecided") else 0


def _print(result: CompareResult, limit: int) -> None:
    out = stdout()
    style = verdict_style(result.verdict)
    compared = versions(result.base_run, result.base_agent, result.candidate_run, result.agent)
    out.print(f"[{style}]{result.verdict.upper()}[/{style}]  {compared}")
    if result.refused:
        out.print(result.refused, style="yellow", markup=False)
    before, after = result.base.value, result.candidate.value
    if before is not None and after is not None:
        out.print(f"{result.metric} ({result.unit}) {before:.4g} → {after:.4g}, mean over {result.difference.n} tasks")
    out.print(f"difference {signed(result.difference)}", markup=False)
    if result.difference.why and result.difference.low is not None:
        out.print(result.difference.why, style="dim", markup=False)
    tests = [
        f"p {p_value(result.p)}" if result.p is not None else "",
        f"exact p {p_value(result.p_exact)}" if result.p_exact is not None else "",
    ]
    out.print(", ".join(t for t in tests if t), style="dim")
    if result.pairs is not None:
        p = result.pairs
        columns = ["pairs", "same seed", "passed → failed", "failed → passed", "both passed", "both failed", "ratio"]
        out.print()
        ratio = str(p.odds) if p.lost + p.gained >= LEAST_FLIPPED else None
        out.print(table(columns, [[p.pairs, p.same_seed, p.lost, p.gained, p.both_passed, p.both_failed, ratio]]))
    if result.bounds is not None and result.difference.missing:
        ends = f"{result.bounds[0]:+.3f} to {result.bounds[1]:+.3f}"
        out.print(f"missing attempts are left out; with them the difference lies anywhere from {ends}")
    print_suites(result.suite)
    differ = {k: v for k, v in result.facts.items() if v[0] != v[1]}
    for name, (one, two) in differ.items():
        out.print(f"{name}: {one} → {two}", markup=False)
    ranked = sorted(result.tasks, key=lambda t: (t.q is None, t.q or 0.0, -abs(t.difference or 0.0)))
    rows = [
        [t.task, "yes" if t.moved else "no", t.base, t.candidate, t.difference, t.n_base, t.n_candidate, t.q]
        for t in first(ranked, limit)
    ]
    out.print()
    out.print(table(["task", "moved", "base", "candidate", "difference", "n base", "n cand", "q"], rows))
    print_rest(out, ranked, limit, "task")
    print_moved(out, result.moved)
    print_layers(out, result.layers)
    alone = len(result.only_base), len(result.only_candidate)
    if any(alone):
        out.print(f"not compared: {alone[0]} tasks only in the base, {alone[1]} only in the candidate", style="dim")


def print_suites(suites: SuiteVersions | None) -> None:
    """What a reader must know of the versions of the suite: that they differ, or that one was edited."""
    if suites is None:
        return
    out = stdout()
    if suites.differ:
        told = f"only the {suites.same} tasks that are the same in both: {suites.base} → {suites.candidate}"
        out.print(f"{told}; {suites.differ}", markup=False)
    for side in (suites.base, suites.candidate):
        if side.unrecorded:
            told = f"note: {side.run} ran {side.name} with changes that version {side.version} does not have"
            out.print(f"{told}: {side.unrecorded}", style="yellow", markup=False)


def versions(base: str, base_agent: str | None, candidate: str, agent: str | None) -> str:
    """Two runs, with the agents that were chosen from them."""
    one, two = (f"{run} ({who})" if who else run for run, who in ((base, base_agent), (candidate, agent)))
    return f"[bold]{escape(one)}[/bold] → [bold]{escape(two)}[/bold]"
