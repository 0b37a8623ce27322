"""`ethogram run`."""

from __future__ import annotations

from typing import Annotated

import typer

from ethogram.errors import BadUsage
from ethogram.study.options import RunOptions, parse_caps, parse_meta
from ethogram.study.suites import RunPlan, RunResult, plan_run, resume_run, run_suite

from .live import watcher
from .out import HomeOption, JsonOption, print_json, stdout, table


def command(
    suite: Annotated[
        str | None, typer.Argument(help="A suite: a folder, a YAML or JSONL file, or a Python module.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="pkg.mod:name, file.py:name, 'cmd: …' or http://…", show_default=False)
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Attempts per task.")] = 1,
    seed: Annotated[int, typer.Option(help="Base of all seeds.")] = 0,
    name: Annotated[str | None, typer.Option("--run", help="Name of the run.")] = None,
    engine: Annotated[str | None, typer.Option(help="local or ray.")] = None,
    max_concurrency: Annotated[int | None, typer.Option(help="Episodes at once, at most; adapts to 429s.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first N tasks.")] = None,
    task: Annotated[list[str] | None, typer.Option(help="Only this task; may be repeated.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Tag the run; may be repeated.")] = None,
    meta: Annotated[list[str] | None, typer.Option(help="A fact about the agent, key=value; may be repeated.")] = None,
    max_usd: Annotated[float | None, typer.Option(help="Dollars of the whole experiment: a hard stop.")] = None,
    max_steps: Annotated[int | None, typer.Option(help="Steps of one episode.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Tokens of one episode.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Wall clock of one episode.")] = None,
    cap: Annotated[
        list[str] | None, typer.Option(help="Any other cap, LEVEL.RESOURCE=VALUE, e.g. task.usd=1; may be repeated.")
    ] = None,
    retries: Annotated[int, typer.Option(help="Retries of infrastructure failures.")] = 2,
    redact: Annotated[str, typer.Option(help="default, secrets, or none.")] = "default",
    keep: Annotated[str, typer.Option(help="Keep workspaces: never, failure or always.")] = "never",
    isolation: Annotated[str, typer.Option(help="none, or bwrap where it is installed.")] = "none",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its price; call nothing.")] = False,
    resume: Annotated[str | None, typer.Option(help="Go on with this run.")] = None,
    retry: Annotated[
        list[str] | None, typer.Option(help="With --resume: also re-run outcomes missing for this reason.")
    ] = None,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Run an agent K times on every task of a suite, within budgets; stop it and resume it at any moment.

    Example: `ethogram run suite/ --agent agent.py:solve -k 5 --max-usd 2`
    """
    named = {
        "experiment.usd": max_usd,
        "episode.steps": float(max_steps) if max_steps is not None else None,
        "episode.tokens": float(max_tokens) if max_tokens is not None else None,
        "episode.seconds": max_seconds,
    }
    caps = parse_caps(named, tuple(cap or ()))
    if resume is not None:
        with watcher(quiet=json) as watching:
            result = resume_run(
                resume,
                retry=tuple(retry or ()),
                engine=engine,
                max_concurrency=max_concurrency,
                caps=caps if caps.limited() else None,
                home=home,
                watcher=watching,
            )
        return _finish(result, json)
    if suite is None or agent is None:
        raise BadUsage("name a suite and an agent: ethogram run SUITE --agent AGENT, or go on with --resume RUN")
    options = RunOptions(
        k=k,
        seed=seed,
        name=name,
        engine=engine or "local",
        max_concurrency=max_concurrency or 8,
        limit=limit,
        tasks=tuple(task or ()),
        tags=tuple(tag or ()),
        meta=parse_meta(tuple(meta or ())),
        caps=caps,
        retries=retries,
        redact=redact,
        keep=keep,
        isolation=isolation,
    )
    if dry_run:
        plan = plan_run(suite, agent, options)
        print_json(plan) if json else _print_plan(plan)
        return 0
    with watcher(quiet=json) as watching:
        result = run_suite(suite, agent, options, home=home, watcher=watching)
    return _finish(result, json)


def _finish(result: RunResult, json: bool) -> int:
    if json:
        print_json(result)
        return 0
    out = stdout()
    missing = ", ".join(f"{reason} {count}" for reason, count in result.missing.items())
    out.print(
        f"run [bold]{result.run}[/bold]: {result.planned} planned, {result.scored} scored, "
        f"{sum(result.missing.values())} missing{f' ({missing})' if missing else ''}, {result.not_run} not run"
    )
    out.print(
        f"{result.successes} of {result.scored} scored succeeded; ${result.cost_usd:.4f}, {result.tokens:,} tokens"
    )
    if result.stopped:
        out.print(f"stopped: {result.stopped}; go on with: ethogram run --resume {result.run}", style="yellow")
    out.print(f"next: ethogram show {result.run}", style="dim")
    return 0


def _print_plan(plan: RunPlan) -> None:
    out = stdout()
    out.print(
        f"suite {plan.suite} ({plan.suite_digest}), agent {plan.agent}, seed {plan.seed}, engine {plan.engine}",
        markup=False,
    )
    out.print(table(["task", "attempts", "conditions"], [[*r.values()] for r in plan.rows()]))
    price = f"at most ${plan.cost_usd_at_most:.2f}" if plan.cost_usd_at_most is not None else plan.why
    out.print(f"{plan.planned} episodes; {price}; nothing was called", markup=False)
