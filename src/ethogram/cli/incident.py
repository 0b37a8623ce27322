"""`ethogram incident` and its sub-commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from ethogram.display.money import dollars
from ethogram.questions.incident.closing import close_incident
from ethogram.questions.incident.closing import incident as show_incident
from ethogram.questions.incident.incident import Incident
from ethogram.questions.incident.opening import open_incident
from ethogram.questions.incident.records import IncidentResult, list_incidents

from .golden import ByOption, WhyOption
from .printing import HomeOption, JsonOption, plural, print_json, stdout, table

IncidentArgument = Annotated[str, typer.Argument(help="An incident by its name, or latest.")]

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="""Record failures in production, and close them only with a golden task that guards against them.

    Example: `ethogram incident open --trace 4f1c22 --why "a customer got the wrong price"`
    """,
)


@app.command("open")
def open_command(
    trace: Annotated[str, typer.Option("--trace", help="The failing trace: the start of its id.")],
    why: WhyOption = None,
    run: Annotated[str | None, typer.Option("--run", help="Where to look for the trace.", show_default=False)] = None,
    passing: Annotated[
        str | None,
        typer.Option(
            "--passing", help="A passing trace to compare with; by default the nearest one.", show_default=False
        ),
    ] = None,
    failure: Annotated[
        str | None, typer.Option("--class", help="The class of failure; else what the rules of why find.")
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="The owner; by default from owners.toml.")] = None,
    playbook: Annotated[
        Path | None,
        typer.Option(
            "--playbook",
            help="The playbook; by default playbook.yaml in the working folder, beside the suite, or in the home.",
        ),
    ] = None,
    by: ByOption = None,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Record a failure: its class and owner, the evidence, what it cost, and the command to roll back.

    Example: `ethogram incident open --trace 4f1c22 --why "a customer got the wrong price"`
    """
    found = open_incident(
        trace,
        why=why or "",
        run=run,
        passing=passing,
        failure=failure,
        owner=owner,
        playbook=playbook,
        by=by,
        home=home,
    )
    print_json(found) if json else _print_incident(found)
    return 0


@app.command("list")
def list_command(
    state: Annotated[
        Literal["open", "closed"] | None,
        typer.Option("--state", help="Only incidents in this state.", show_default=False),
    ] = None,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """List incidents, the newest first. Exit code 1: some are open.

    Example: `ethogram incident list --state open`
    """
    found = list_incidents(state=state, home=home)
    if json:
        print_json(found)
    else:
        out = stdout()
        rows = [[*row.values()] for row in found.rows()]
        if rows:
            out.print(table(["incident", "state", "class", "owner", "task", "guarded by"], rows))
        out.print(f"{plural(len(found.incidents), 'incident')}, {found.open} open")
    return 1 if found.open else 0


@app.command("show")
def show_command(incident: IncidentArgument = "latest", json: JsonOption = False, home: HomeOption = None) -> int:
    """Show an incident with its history.

    Example: `ethogram incident show latest`
    """
    found = show_incident(incident, home=home)
    print_json(found) if json else _print_incident(found)
    return 0


@app.command("close")
def close_command(
    incident: IncidentArgument = "latest",
    task: Annotated[
        str | None, typer.Option("--task", help="The golden task that guards against it.", show_default=False)
    ] = None,
    suite: Annotated[str | None, typer.Option("--suite", help="The golden set.", show_default=False)] = None,
    why: WhyOption = None,
    by: ByOption = None,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Close an incident with a golden task that fails the recorded failure.

    Example: `ethogram incident close latest --task wrong-price --suite suite/`
    """
    found = close_incident(incident, task=task, suite=suite, why=why or "", by=by, home=home)
    print_json(found) if json else _print_incident(found)
    return 0


def _print_incident(found: IncidentResult) -> None:
    out, one = stdout(), found.incident
    facts = one.facts
    style = "yellow" if one.state == "open" else "green"
    out.print(f"incident [bold]{one.id}[/bold]: [{style}]{one.state}[/{style}]")
    out.print(one.title, markup=False)
    others = [c for c in facts.classes if c != facts.class_]
    more = f" (also {', '.join(others)})" if others else ""
    out.print(
        f"class: {facts.class_ or 'unknown (no rule matches)'}{more}; owner: {facts.owner or 'nobody'}", markup=False
    )
    out.print(f"try first: {facts.try_}", markup=False)
    _print_evidence(one)
    cost = facts.cost
    tokens = "tokens unknown" if cost.tokens is None else f"{cost.tokens:,} tokens"
    seconds = "time unknown" if cost.seconds is None else f"{cost.seconds:.3g} s"
    usd = "dollars unknown" if cost.usd is None else dollars(cost.usd)
    out.print(f"cost of the failure: {usd}, {tokens}, {seconds}", markup=False)
    out.print(f"rollback: {facts.rollback or 'none'} ({facts.rollback_why})", markup=False)
    if one.guard is not None:
        told = f"guarded by task {one.guard.task} of {one.guard.suite} since {one.guard.version}"
        out.print(f"{told}: the recorded failure scores {one.guard.failure_score:g}", markup=False)
    whys = [None if e.event == "opened" and e.why == one.title else e.why for e in one.history]  # the title says it
    rows = [[e.at[:16].replace("T", " "), e.event, e.by, why] for e, why in zip(one.history, whys, strict=True)]
    out.print(table(["when", "event", "by", "why"], rows))
    out.print(f"next: {found.next}", style="dim", markup=False)


def _print_evidence(one: Incident) -> None:
    out, pair = stdout(), one.facts.evidence
    failing = f"{pair.failing.removeprefix('b2:')[:12]} of {pair.failing_run}, {one.facts.outcome}"
    out.print(f"failing: {failing}", markup=False)
    for message in re.split(r"; (?=[\w.\-]+: )", one.facts.said) if one.facts.said else ():
        out.print(f"  - {message}", markup=False)
    if pair.passing is None:
        out.print(f"passing: none; {pair.why}", markup=False)
        return
    out.print(f"passing: {pair.passing.removeprefix('b2:')[:12]} of {pair.passing_run}", markup=False)
    if pair.t_star is None:
        out.print(f"t*: none; {pair.why}", markup=False)
        return
    out.print(f"t* = step {pair.t_star}{f'; {pair.why}' if pair.why else ''}", markup=False)
    out.print(f"  failing: {pair.failing_step or 'no such step'}", markup=False)
    out.print(f"  passing: {pair.passing_step or 'no such step'}", markup=False)
