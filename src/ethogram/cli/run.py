"""`ethogram run`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ethogram.display.money import dollars
from ethogram.errors import BadUsage
from ethogram.harness.environment import parse_environment
from ethogram.harness.options import RunOptions, parse_bounds, parse_caps, parse_conditions, parse_meta
from ethogram.harness.planning import RunPlan
from ethogram.harness.run_result import PROVIDER, RunInterrupted, RunResult
from ethogram.harness.suites import plan_resume, plan_run, replay_run, resume_run, start_run

from .live import watcher
from .printing import HomeOption, JsonOption, plural, print_json, printable, spent, stdout, table
from .running import (
    CAPTURE,
    ENGINE,
    WORKERS,
    AllowUnmeteredOption,
    CleanEnvOption,
    EnvOption,
    PriceOption,
    PricesOption,
    metering,
)

_FLAGS = {"name": "--run", "tags": "--tag", "conditions": "--condition", "bounds": "--bound"}
"""Options whose name is not that of the setting."""


def command(
    suite: Annotated[
        str | None, typer.Argument(help="A suite: a folder, a YAML or JSONL file, or a Python module.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="pkg.mod:name, file.py:name, 'cmd: …' or http://…", show_default=False)
    ] = None,
    k: Annotated[
        int | None, typer.Option("-k", help="Attempts per task; 1 by default. With --resume: the new number.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Base of all seeds; by default 0.")] = None,
    name: Annotated[str | None, typer.Option("--run", help="Name of the run.")] = None,
    engine: Annotated[str | None, ENGINE] = None,
    workers: Annotated[int | None, WORKERS] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Run only the first N tasks; 0 runs all.")] = None,
    task: Annotated[
        list[str] | None, typer.Option(help="Only this task; with --resume -k, more attempts of it; may be repeated.")
    ] = None,
    condition: Annotated[
        list[str] | None,
        typer.Option(
            help="Run every task under these settings, name=value,…; repeat to compare them. perturb=OPERATOR disturbs."
        ),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Tag the run; may be repeated.")] = None,
    meta: Annotated[list[str] | None, typer.Option(help="A fact about the agent, key=value; may be repeated.")] = None,
    max_usd: Annotated[float | None, typer.Option(help="Maximum dollars of the whole experiment: a hard stop.")] = None,
    price: PriceOption = None,
    prices: PricesOption = None,
    allow_unmetered: AllowUnmeteredOption = False,
    max_steps: Annotated[int | None, typer.Option(help="Maximum steps of one episode.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Maximum tokens of one episode.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Maximum wall-clock seconds of one episode.")] = None,
    cap: Annotated[
        list[str] | None, typer.Option(help="Any other cap, LEVEL.RESOURCE=VALUE, e.g. task.usd=1; may be repeated.")
    ] = None,
    retries: Annotated[int | None, typer.Option(help="Retries of infrastructure failures; by default 2.")] = None,
    breaker: Annotated[
        int | None,
        typer.Option(min=0, help="Equal refusals of a provider in a row that stop the run; 12 by default, 0: none."),
    ] = None,
    redact: Annotated[
        str | None, typer.Option(help="What to redact: default, secrets (no personal data), or none.")
    ] = None,
    keep: Annotated[str | None, typer.Option(help="Keep workspaces: never (default), failure or always.")] = None,
    isolation: Annotated[
        str | None,
        typer.Option(
            help="Isolation of commands: auto (default; readonly where it works), none, readonly, bwrap, bwrap+network."
        ),
    ] = None,
    bound: Annotated[
        list[str] | None,
        typer.Option(help="What a command may use: disk_mib=512, processes=256, memory_mib=8192; may be repeated."),
    ] = None,
    env: EnvOption = None,
    clean_env: CleanEnvOption = False,
    capture: Annotated[str | None, CAPTURE] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="With --resume: release the kill switch of the run first.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its price; call nothing.")] = False,
    replay: Annotated[
        str | None, typer.Option(help="Repeat this run with its recorded answers, offline and free.")
    ] = None,
    resume: Annotated[str | None, typer.Option(help="Continue this run.")] = None,
    retry: Annotated[
        list[str] | None, typer.Option(help="With --resume: also re-run outcomes missing for this reason.")
    ] = None,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Run an agent K times on every task of a suite, within budgets; stop it and resume it at any moment.

    Exit codes: 0 done, 2 nothing was scored or the budget ended it before its plan, 64 bad input or a cap that could
    not be kept, 130 stopped.

    Example: `ethogram run suite/ --agent agent.py:solve -k 5 --max-usd 2`
    """
    named = {
        "experiment.usd": max_usd,
        "episode.steps": float(max_steps) if max_steps is not None else None,
        "episode.tokens": float(max_tokens) if max_tokens is not None else None,
        "episode.seconds": max_seconds,
    }
    caps = parse_caps(named, tuple(cap or ()))
    settled: dict[str, Any] = {
        "seed": seed,
        "name": name,
        "limit": limit or None,
        "tags": tuple(tag) if tag else None,
        "meta": parse_meta(tuple(meta)) if meta else None,
        "conditions": parse_conditions(tuple(condition)) if condition else None,
        "retries": retries,
        "breaker": breaker,
        "redact": redact,
        "keep": keep,
        "isolation": isolation,
        "bounds": parse_bounds(tuple(bound)) if bound else None,
    }
    settled = {option: value for option, value in settled.items() if value is not None}
    change: dict[str, Any] = {"k": k, "tasks": tuple(task or ()), "engine": engine, "capture": capture}
    change["caps"] = caps if caps.limited() else None
    change["metering"] = metering(price, prices, allow_unmetered) if price or prices or allow_unmetered else None
    change["environment"] = parse_environment(tuple(env or ()), clean_env) if env or clean_env else None
    if replay is not None and (resume is not None or retry or dry_run):
        raise BadUsage("--replay repeats a whole run at once; leave out --resume, --retry and --dry-run")
    if resume is not None:
        change["undo"] = undo
        if settled:
            option = next(iter(settled))
            raise BadUsage(f"{_FLAGS.get(option, f'--{option}')} cannot be changed when a run is resumed; leave it out")
        change |= {"retry": tuple(retry or ()), "suite": suite, "agent": agent, "home": home}
    elif undo:
        raise BadUsage("--undo releases the kill switch of a run that is resumed: name it with --resume RUN")
    elif replay is None and (suite is None or agent is None):
        raise BadUsage("name a suite and an agent: ethogram run SUITE --agent AGENT, or continue with --resume RUN")
    elif retry:
        raise BadUsage("--retry re-runs outcomes of an earlier run: name it with --resume RUN")
    options = RunOptions(**settled) if resume is not None else _options({**settled, **change}, workers)
    if dry_run:
        plan = (
            plan_resume(resume, **{k: v for k, v in change.items() if k != "undo"})
            if resume is not None
            else plan_run(str(suite), str(agent), options)
        )
        print_json(plan) if json else _print_plan(plan)
        return 0
    try:
        with watcher(quiet=json) as watching:
            if resume is not None:
                result = resume_run(resume, workers=workers, progress=watching, **change)
            elif replay is not None:
                said = {**settled, **change, "workers": workers, "tasks": change["tasks"] or None}
                result = replay_run(replay, suite=suite, agent=agent, changes=said, home=home, progress=watching)
            else:
                result = start_run(str(suite), str(agent), options, home=home, progress=watching)
    except RunInterrupted as interrupted:
        result = interrupted.result
    return _finish(result, json, conditions=len(options.conditions))


def _options(said: dict[str, Any], workers: int | None) -> RunOptions:
    said = {**said, "workers": workers}
    return RunOptions(**{option: value for option, value in said.items() if value is not None})


STOPPED = {
    "killed": "the kill switch is on",
    "interrupted": "interrupted from the keyboard",
    "cap.experiment": "the experiment's budget is used up",
}
HINTS = {
    "killed": " --undo",
    "cap.experiment": " --max-usd MORE",
    "unmetered": " --retry cap.experiment --allow-unmetered",
}
PRICE_HINT = " --retry cap.experiment --price MODEL=FRESH/OUTPUT"


def _finish(result: RunResult, json: bool, conditions: int = 1) -> int:
    """Tell what came of it: 130 if somebody stopped it, 64 if a cap was not kept, 2 if nothing can be measured, its
    budget ended it before its plan, or a provider went on refusing."""
    stopped = {"killed": 130, "interrupted": 130, "unmetered": 64, "cap.experiment": 2, PROVIDER: 2}
    code = stopped.get(result.stopped or "", 0 if result.measurable else 2)
    if result.replays is not None and not result.stopped:
        code = 1 if result.failures or result.not_run else 0
    if json:
        print_json(result)
        return code
    out = stdout()
    missing = ", ".join(f"{reason} {count}" for reason, count in result.missing.items())
    money = spent(result.cost_usd, result.at_least_usd, result.tokens, result.at_least_tokens)
    if result.cost_usd == 0 and not result.model_calls:
        money = "no model calls, $0"
    if result.repeated_usd:
        money += f"; {dollars(result.repeated_usd)} more for attempts that were repeated"
    succeeded = f"{result.successes} of {plural(result.scored, 'scored attempt')} succeeded"
    out.print(f"run [bold]{result.run}[/bold]: {succeeded}; {money}")
    out.print(
        f"{result.planned:,} planned, {sum(result.missing.values()):,} missing{f' ({missing})' if missing else ''}, "
        f"{result.not_run:,} not run"
    )
    if result.replays is not None:
        _print_failures(result)
    if result.crashed and result.crash:
        first = printable(result.crash.partition("\n")[0][:300])
        told = f"the agent crashed in {plural(result.crashed, 'episode')}, first with: {first}"
        out.print(told, style="yellow", markup=False)
        for frame in result.crash_at:
            out.print(f"  {printable(frame)}", style="yellow", markup=False, soft_wrap=True)
    if result.replays is None:
        for reason, detail in sorted(result.missing_details.items()):
            out.print(f"first {reason}: {printable(detail)}", style="yellow", markup=False, soft_wrap=True)
    if result.refused:
        out.print(result.refused, style="yellow", markup=False)
    if not result.scored and not result.stopped and result.replays is None:
        out.print("nothing was scored, so nothing can be measured", style="yellow")
    if result.stopped:
        more = PRICE_HINT if "has no price" in (result.why or "") else HINTS.get(result.stopped, "")
        why = result.why or STOPPED.get(result.stopped, result.stopped)
        told = f"stopped: {why}; resume with: ethogram run --resume {result.run}{more}"
        out.print(told, style="yellow", markup=False, soft_wrap=True)
    if result.cut_off:
        among = f", and {result.cut_off_successes:,} of them succeeded" if result.scored else ""
        told = f"note: a cap refused calls in {plural(result.cut_off, 'attempt')}{among}"
        out.print(told, style="yellow", markup=False)
    for told in result.unseen:
        out.print(f"note: {told}", style="yellow", markup=False, soft_wrap=True)
    for warning in result.warnings:
        out.print(f"note: {warning}", style="yellow", markup=False)
    if result.again and not result.stopped:
        out.print(f"to run infrastructure failures again: {result.again}", style="dim")
    effects = f"ethogram field {result.run} --ablate; " if conditions > 1 else ""
    out.print(f"next: {effects}ethogram show {result.run}", style="dim")
    return code


SHOWN_FAILURES = 5


def _print_failures(result: RunResult) -> None:
    """What came of a replay: whether every episode passed, and how the first of the others did not."""
    out = stdout()
    if not any(failure.reason == "deviation" for failure in result.failures):
        out.print(f"no deviation from {result.replays}: every request was recorded", style="green", markup=False)
    for failure in result.failures[:SHOWN_FAILURES]:
        where = f"task {failure.task} attempt {failure.attempt}{f' {failure.condition}' if failure.condition else ''}"
        words, *lines = failure.why.splitlines() or [""]
        out.print(f"{printable(where)}: {failure.reason}: {printable(words)}", style="red", markup=False)
        for line in lines:
            out.print(f"  {printable(line)}", markup=False, soft_wrap=True)
    if len(result.failures) > SHOWN_FAILURES:
        out.print(f"and {len(result.failures) - SHOWN_FAILURES} more; --json lists all", style="dim")


def _print_plan(plan: RunPlan) -> None:
    out = stdout()
    out.print(
        f"suite {plan.suite} ({plan.suite_digest}), agent {plan.agent}, seed {plan.seed}, engine {plan.engine}",
        markup=False,
    )
    even = plan.planned == len(plan.tasks) * plan.attempts * len(plan.conditions)
    columns = ["task", "attempts" if even else "attempts, at most", "conditions"]
    out.print(table(columns, [[*r.values()] for r in plan.rows()]))
    price = f"at most {dollars(plan.cost_usd_at_most)}" if plan.cost_usd_at_most is not None else plan.why
    left = "" if plan.remaining == plan.planned else f", {plan.remaining} of them still to run"
    out.print(f"{plan.planned} episodes{left}; {price}; nothing was called", markup=False)
