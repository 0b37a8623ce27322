"""`ethogram gate`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console

from ethogram.errors import BadUsage
from ethogram.questions.gate.behaviour import behaviour_of
from ethogram.questions.gate.ci import confirmed, github_lines, junit, markdown, needed_cells, variation
from ethogram.questions.gate.plan import GateSettings
from ethogram.questions.gate.question import gate_runs
from ethogram.questions.gate.results import GateResult
from ethogram.questions.gate.verdict import Look

from .compare import MetricOption, print_suites, versions
from .layers import print_layers
from .moved_tasks import print_moved
from .printing import (
    CommonTasksOption,
    HomeOption,
    JsonOption,
    print_json,
    signed,
    stderr,
    stdout,
    table,
    verdict_style,
)
from .running import (
    AllowUnmeteredOption,
    CaptureOption,
    CleanEnvOption,
    EngineOption,
    EnvOption,
    PriceOption,
    PricesOption,
    WorkersOption,
    metering,
)

MOST_LOOKS = 10
"""Up to this number, all looks are listed."""
CODES = {"pass": 0, "regression": 1, "undecided": 2}


def command(
    base: Annotated[str, typer.Argument(help="The baseline run: a directory, a name, or latest.")],
    candidate: Annotated[str, typer.Argument(help="The candidate run; with --buy it is created, or continued.")],
    margin: Annotated[
        float,
        typer.Option(help="The drop to detect: absolute for success and score, else a fraction of the mean."),
    ] = 0.05,
    alpha: Annotated[
        float, typer.Option(help="False-alarm rate: the probability of calling an unchanged version a regression.")
    ] = 0.05,
    power: Annotated[float, typer.Option(help="Power: the probability of detecting a drop of the margin.")] = 0.8,
    metric: MetricOption = "success",
    every: Annotated[
        float | None,
        typer.Option(
            help="How often to look, in attempts per task: 0.25 = after every quarter of the tasks "
            "(default; 0.5 below 40 tasks)."
        ),
    ] = None,
    min_coverage: Annotated[float, typer.Option(help="Below this share of scored attempts: undecided.")] = 0.8,
    quarantine: Annotated[
        Path | None, typer.Option(help="YAML list of tasks (task, until, reason) that do not count yet.")
    ] = None,
    monitor: Annotated[bool, typer.Option("--monitor", help="Monitor without a planned end (an e-process).")] = False,
    buy: Annotated[
        bool, typer.Option("--buy", help="Run the candidate stage by stage until there is a verdict.")
    ] = False,
    suite: Annotated[str | None, typer.Option(help="With --buy: the suite; by default the baseline's.")] = None,
    agent: Annotated[
        str | None, typer.Option(help="Which agent, where runs have several; with --buy: the one to run.")
    ] = None,
    base_agent: Annotated[
        str | None,
        typer.Option(help="Which agent of the baseline; with --buy: also run the baseline with it, interleaved."),
    ] = None,
    pilot: Annotated[str | None, typer.Option(help="With --base-agent: plan the looks from this run's rates.")] = None,
    max_runs: Annotated[int | None, typer.Option(help="With --buy: buy at most this many attempts.")] = None,
    max_usd: Annotated[float | None, typer.Option(help="With --buy: spend at most this many dollars.")] = None,
    workers: WorkersOption = 8,
    engine: EngineOption = "local",
    price: PriceOption = None,
    prices: PricesOption = None,
    allow_unmetered: AllowUnmeteredOption = False,
    env: EnvOption = None,
    clean_env: CleanEnvOption = False,
    capture: CaptureOption = "auto",
    confirm: Annotated[
        int,
        typer.Option(help="With --buy: further attempts at each task that moved; a confirmed drop is a regression."),
    ] = 0,
    allow_task: Annotated[
        list[str] | None, typer.Option("--allow-task", help="A task whose confirmed drop is allowed; may be repeated.")
    ] = None,
    missing: Annotated[
        str,
        typer.Option(
            help="Missing attempts: bounds (a pass must hold if they failed), failure (counted as failures), ignore."
        ),
    ] = "bounds",
    session_sd: Annotated[
        float | None,
        typer.Option(
            "--session-sd", help="Standard deviation between sessions, in the unit of --margin; by default measured."
        ),
    ] = None,
    behaviour: Annotated[
        bool,
        typer.Option("--behaviour", help="Also whether behaviour changed, compared with the baseline's noise floor."),
    ] = False,
    trust_judge: Annotated[
        bool, typer.Option("--trust-judge", help="Accept a judge's verdicts even if it is not calibrated.")
    ] = False,
    condition: Annotated[str | None, typer.Option(help="Which condition, where runs have several.")] = None,
    common_tasks: CommonTasksOption = False,
    junit_file: Annotated[Path | None, typer.Option("--junit", help="Write a JUnit file.")] = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", help="Write a comment for a pull request.")
    ] = None,
    github: Annotated[
        bool, typer.Option("--github", help="Print GitHub annotations, and write the step summary in GitHub Actions.")
    ] = False,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Give a pass / regression / undecided verdict on a candidate run, and what a decision would cost.

    The looks are planned in advance, so the command may be repeated at any time. Exit codes: 0 pass, 1 regression,
    2 undecided.

    Example: `ethogram gate main new-prompt --margin 0.1 --junit gate.xml`
    """
    settings = GateSettings(
        metric=metric,
        margin=margin,
        alpha=alpha,
        power=power,
        every=every,
        min_coverage=min_coverage,
        pilot=pilot,
        missing=cast(Any, missing),  # checked with the others
        confirm=confirm,
        session_sd=session_sd,
    )
    if buy:
        if monitor:
            raise BadUsage("--buy runs planned looks and --monitor has none; give one of the two")
        if common_tasks:
            raise BadUsage("--common-tasks is for two stored runs; --buy runs the suite of the baseline as it is")
        from ethogram.harness.environment import parse_environment
        from ethogram.questions.gate.buying import StageOptions, run_gate

        result = run_gate(
            base,
            candidate,
            settings,
            StageOptions(
                suite=suite,
                agent=agent,
                base_agent=base_agent,
                max_runs=max_runs,
                max_usd=max_usd,
                workers=workers,
                engine=engine,
                environment=parse_environment(tuple(env or ()), clean_env),
                capture=capture,
                metering=metering(price, prices, allow_unmetered),
                allow_tasks=tuple(allow_task or ()),
                trust_judge=trust_judge,
            ),
            home=home,
            condition=condition,
            quarantine=str(quarantine) if quarantine else (),
            progress=None if json else lambda text: stderr().print(text, style="dim", markup=False),
        )
    else:
        result = gate_runs(
            base,
            candidate,
            settings,
            home=home,
            quarantine=str(quarantine) if quarantine else (),
            monitor=monitor,
            condition=condition,
            agents=(base_agent or agent, agent),
            allow_tasks=allow_task or (),
            trust_judge=trust_judge,
            common_tasks=common_tasks,
        )
    if behaviour:
        result.behaviour = behaviour_of(result.base_run, result.candidate_run, common_tasks=common_tasks, home=home)
    _write(result, junit_file, markdown_file, github)
    if json:
        print_json(result)
    else:
        _print(result)
    return CODES[result.verdict]


def _write(result: GateResult, junit_file: Path | None, markdown_file: Path | None, github: bool) -> None:
    if junit_file is not None:
        junit_file.write_text(junit(result), encoding="utf-8")
    if markdown_file is not None:
        markdown_file.write_text(markdown(result), encoding="utf-8")
    if github:
        # commands are read from either stream; stdout may hold the JSON document
        for line in github_lines(result):
            typer.echo(line, err=True)
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if summary:
            with open(summary, "a", encoding="utf-8") as file:
                file.write(markdown(result))


def _print(result: GateResult) -> None:
    out, style = stdout(), verdict_style(result.verdict)
    compared = versions(result.base_run, result.base_agent, result.candidate_run, result.agent)
    out.print(f"[{style}]{result.verdict.upper()}[/{style}]  {compared}")
    out.print(result.evidence.why, markup=False)
    out.print(f"{result.settings.metric}: difference {signed(result.difference)}", markup=False)
    floor = result.evidence.noise_floor
    if floor.swing is not None:
        out.print(
            f"baseline variation: {variation(floor.swing, floor.passes, floor.sessions)}",
            style="dim",
        )
    gone = {**result.evidence.missing_base, **result.evidence.missing_candidate}
    if gone and result.evidence.bounds is not None:
        low, high = result.evidence.bounds
        out.print(f"missing attempts are left out; with them the difference lies between {low:+.3f} and {high:+.3f}")
    if result.evidence.looks:
        planned = result.evidence.planned_looks
        rows = [_row(k, planned) for k in _folded(result.evidence.looks)]
        out.print()
        word = result.worse_word
        columns = ["look", "attempts", "scored", "z", "bound", word, f"largest {word}", "margin", "decision"]
        out.print(table(columns, rows, title=f"planned looks (largest {word}: the largest that is not ruled out yet)"))
    if result.evidence.watched:
        rows = [
            [w.passes, w.worse, w.better, w.same, f"{w.e:.3g}", f"{w.bound:.3g}"] for w in result.evidence.watched[-12:]
        ]
        out.print()
        out.print(table(["repeat", "worse", "better", "same", "e-value", "alarm at"], rows))
    print_suites(result.suite)
    print_moved(out, result.tasks)
    print_layers(out, result.layers, brief=True)
    if result.behaviour is not None:
        b = result.behaviour
        apart = "unknown" if b.distance is None else f"{b.distance:.3f}"
        floor_mean = "not measured" if b.noise_floor.mean is None else f"{b.noise_floor.mean:.3f}"
        out.print(
            f"behaviour: {b.verdict}; distance {apart}, noise floor {floor_mean}; {b.evidence}",
            markup=False,
        )
    for again in result.confirmations:
        word = confirmed(again)
        out.print(f"{again.task}: {again.attempts} more attempts, {again.again:.3g}: {word}", markup=False)
    for rest in result.quarantined:
        word = "quarantine is over, counts again" if rest.expired else f"in quarantine until {rest.until}, not counted"
        out.print(f"{rest.task}: {word} ({rest.reason})", style="dim", markup=False)
    for warning in result.warnings:
        out.print(f"note: {warning}", style="dim", markup=False)
    if result.verdict == "undecided":
        _print_needed(out, result)


def _print_needed(out: Console, result: GateResult) -> None:
    """What stands in the way of a decision, and what it takes."""
    need, cells, why = result.needed, needed_cells(result), result.needed.why
    if not cells:
        out.print(f"to decide: {why or 'unknown'}", markup=False)
        return
    if need.baseline_runs:
        told = f"More baseline attempts are needed: {need.baseline_runs:,}{f' ({why})' if why else ''}."
    elif why:
        told = f"{why[0].upper()}{why[1:]}."
    else:
        told = f"More attempts are needed: at most {need.runs:,}."
    out.print()
    out.print(told, markup=False)
    if not need.runs and not need.baseline_runs:
        return
    out.print(table(["to decide", "amount"], [[*pair] for pair in cells.items()]))


def _folded(looks: list[Look]) -> list[Look | None]:
    """The first looks and the last: the middle of a long wait says little."""
    return [*looks[:2], None, *looks[-6:]] if len(looks) > MOST_LOOKS else [*looks]


def _row(look: Look | None, planned: int) -> list[Any]:
    if look is None:
        return ["…"] + [""] * 8
    figures = (look.z, look.bound, look.change, look.worst_case, look.margin)
    return [f"{look.look} of {planned}", look.runs, look.scored, *(f"{x:.3g}" for x in figures), look.decision]
