"""`ethogram perturb`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ethogram.lab.experiments import Aggregate, ExperimentResults, experiment_results
from ethogram.study.experiment import Experiment, ExperimentPlan
from ethogram.study.options import RunOptions, parse_caps

from .live import watcher
from .out import HomeOption, JsonOption, print_json, signed, stdout, table


def command(
    agent: Annotated[str | None, typer.Option(help="pkg.mod:name, file.py:name, 'cmd: …' or http://…")] = None,
    file: Annotated[list[Path] | None, typer.Option(help="A file the question is about; may be repeated.")] = None,
    question: Annotated[str, typer.Option(help="What is asked about the files.")] = "",
    expected: Annotated[str | None, typer.Option(help="The right answer, if there is one.")] = None,
    suite: Annotated[str | None, typer.Option(help="A whole suite instead of files and a question.")] = None,
    operators: Annotated[
        str, typer.Option(help="Which changes, separated by commas; by default all that fit the files.")
    ] = "",
    k: Annotated[int, typer.Option("-k", help="Pairs per operator.")] = 1,
    noise_floor: Annotated[
        int | None, typer.Option(help="Re-runs of the clean task; by default 5, and 0 for a scripted agent.")
    ] = None,
    intensities: Annotated[str, typer.Option(help="Strengths from 0 to 1, such as 0.2,0.5,1: a dose-response.")] = "1",
    scorer: Annotated[str, typer.Option(help="equality, numeric, contains, one-of, or file.py:function.")] = "equality",
    seed: Annotated[int, typer.Option(help="Seed of attempts and changes.")] = 0,
    run: Annotated[str | None, typer.Option("--run", help="Name of the run; one that was stopped goes on.")] = None,
    results: Annotated[str | None, typer.Option(help="Show the results of a stored experiment; run nothing.")] = None,
    max_usd: Annotated[float | None, typer.Option(help="Hard stop of the whole experiment.")] = None,
    max_concurrency: Annotated[int, typer.Option(help="Episodes at once.")] = 8,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    csv: Annotated[Path | None, typer.Option(help="Also write one row per pair to this file.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its price; call nothing.")] = False,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Damage what an agent reads, one change at a time, and see whether it does something else.

    Clean and disturbed attempts share their seeds; each pair is held against the agent's own restlessness.

    Example: `ethogram perturb --agent a.py:solve --file sales.csv --question "What is the total?" --expected 42`
    """
    if results is not None:
        return _show(experiment_results(results, home=home), csv, json)
    if agent is None:
        from ethogram.errors import BadUsage

        raise BadUsage("an experiment needs an agent: give --agent, or --results RUN to look at a stored one")
    made = Experiment(
        agent=agent,
        files=[str(f) for f in file or ()],
        question=question,
        expected_answer=expected,
        suite=suite,
        operators=[o.strip() for o in operators.split(",") if o.strip()],
        k=k,
        noise_floor=noise_floor,
        intensities=[float(x) for x in intensities.split(",")],
        scorer=scorer,
        seed=seed,
        name=run,
        options=RunOptions(
            max_concurrency=max_concurrency, engine=engine, caps=parse_caps({"experiment.usd": max_usd}, ())
        ),
        home=home,
    )
    if dry_run:
        planned = made.plan()
        print_json(planned) if json else _plan(planned)
        return 0
    with watcher(quiet=json) as watching:
        found = made.run(watcher=watching)
    assert isinstance(found, ExperimentResults)
    return _show(found, csv, json)


def _show(found: ExperimentResults, csv: Path | None, json: bool) -> int:
    if csv is not None:
        found.to_df().to_csv(csv, index=False)
    print_json(found) if json else _print(found)
    return 0 if found.pairs else 2


def _plan(planned: ExperimentPlan) -> None:
    out = stdout()
    out.print(
        f"{planned.suite} with {planned.agent}: {planned.k} pairs per change, {planned.reruns} re-runs", markup=False
    )
    rows = [[c.operator, c.task, c.file or "", f"{c.intensity:g}", c.summary] for c in planned.changes]
    out.print(table(["operator", "task", "file", "intensity", "what it does"], rows))
    for refused in planned.not_applicable:
        out.print(f"not applicable: {refused.operator} on {refused.task}: {refused.why}", style="dim", markup=False)
    price = f"at most ${planned.cost_usd_at_most:.2f}" if planned.cost_usd_at_most is not None else planned.why
    out.print(f"{planned.episodes} episodes; {price}; nothing was called", markup=False)


def _print(found: ExperimentResults) -> None:
    out = stdout()
    floor = found.noise_floor
    out.print(f"[bold]{escape(found.run)}[/bold]  {len(found.pairs)} pairs, agent {escape(found.agent)}")
    if floor.measured:
        out.print(
            f"noise floor: clean runs are {floor.mean:.3f} apart on average, at most {floor.max:.3f} "
            f"({floor.pairs} pairs, {floor.reruns} re-runs)"
        )
    for warning in found.warnings:
        out.print(f"WARNING: {warning}", style="bold", markup=False)
    out.print()
    rows = [
        [
            p.operator,
            p.pair.task,
            p.attempt,
            f"{p.pair.d_norm:.3f}",
            p.pair.t_star,
            p.pair.manifestation.replace("_", " "),
            {True: "within", False: "above", None: "unmeasured"}[p.pair.within_noise_floor],
            _scores(p.score_clean, p.score_perturbed),
        ]
        for p in found.pairs
    ]
    columns = ["operator", "task", "attempt", "d_norm", "t*", "what it showed as", "floor", "score"]
    out.print(table(columns, rows))
    out.print()
    columns = ["operator", "pairs", "mean d", "max d", "recovered", "tokens ×", "accuracy lost"]
    out.print(table(columns, [_aggregate(a) for a in found.aggregates]))
    if found.dose_response:
        doses = [
            [d.operator, f"{d.intensity:g}", d.pairs, d.mean_d_norm, d.accuracy_perturbed, signed(d.accuracy_lost)]
            for d in found.dose_response
        ]
        out.print()
        out.print(table(["operator", "intensity", "pairs", "mean d", "accuracy", "lost"], doses))
    for refused in found.not_applicable:
        out.print(f"not applicable: {refused.operator} on {refused.task}: {refused.why}", style="dim", markup=False)


def _aggregate(a: Aggregate) -> list[object]:
    back = a.recovery_rate
    lost = a.accuracy_lost
    return [
        a.name,
        a.pairs,
        a.mean_d_norm,
        a.max_d_norm,
        None if back.value is None else f"{back.value:.2f}",
        a.token_overhead if isinstance(a.token_overhead, str) else f"{a.token_overhead:.2f}",
        None
        if lost.value is None
        else f"{lost.value:+.2f}" + ("" if lost.low is None else f" [{lost.low:+.2f}, {lost.high:+.2f}]"),
    ]


def _scores(before: float | None, after: float | None) -> str:
    one, two = ("–" if s is None else f"{s:g}" for s in (before, after))
    return f"{one} → {two}"
