"""`ethogram golden` and its sub-commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ethogram.errors import BadUsage
from ethogram.questions.golden.promotion import PromoteResult, WantedCheck, promote
from ethogram.questions.golden.question import golden
from ethogram.questions.golden.versions import GoldenDiff, GoldenResult, add_tasks, freeze, golden_diff, remove_task

from .golden_screens import print_check
from .printing import HomeOption, JsonOption, LimitOption, plural, print_json, stderr, stdout, table
from .running import AllowUnmeteredOption, CaptureOption, PriceOption, PricesOption, WorkersOption, metering

CODES = {"no alarm": 0, "alarm": 1, "not measured": 2}
SuiteArgument = Annotated[str, typer.Argument(help="A suite: a folder, a file, or a module.")]
WhyOption = Annotated[str | None, typer.Option("--why", help="The reason, in words; it is kept.", show_default=False)]
ByOption = Annotated[str | None, typer.Option("--by", help="Who makes the change; by default the current user.")]

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="""Freeze a suite as a golden set, record every change to it, check it, and make tasks of failed traces.

    The version and the history of all changes are in `golden.json` beside the suite.

    Example: `ethogram golden freeze suite/`
    """,
)


@app.command("freeze")
def freeze_command(
    suite: SuiteArgument,
    why: WhyOption = None,
    version: Annotated[
        str | None, typer.Option("--version", help="The first version; by default 1.0.0.", show_default=False)
    ] = None,
    by: ByOption = None,
    json: JsonOption = False,
) -> int:
    """Freeze a suite, or record all that changed since as a new version.

    A removed or changed task makes a major version and needs --why; an added task makes a minor one, words a patch.

    Example: `ethogram golden freeze suite/ --why "prices of the new list"`
    """
    found = freeze(suite, why=why, by=by, version=version)
    print_json(found) if json else _print_golden(found)
    return 0


@app.command("add")
def add_command(
    suite: SuiteArgument,
    file: Annotated[
        list[Path] | None, typer.Option("--from", help="A YAML file with a task, or with several; may be repeated.")
    ] = None,
    why: WhyOption = None,
    by: ByOption = None,
    json: JsonOption = False,
) -> int:
    """Add tasks from files, or record those that you added to the suite yourself: a minor version.

    Example: `ethogram golden add suite/ --from new-task.yaml`
    """
    found = add_tasks(suite, list(file or ()), why=why, by=by)
    print_json(found) if json else _print_golden(found)
    return 0


@app.command("remove")
def remove_command(
    suite: SuiteArgument,
    task: Annotated[str, typer.Argument(help="The id of the task.")],
    why: WhyOption = None,
    by: ByOption = None,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Remove a task, with a written reason: a major version. Incidents that it guarded are open again.

    Example: `ethogram golden remove suite/ tea --why "the shop no longer sells tea"`
    """
    found = remove_task(suite, task, why=why, by=by, home=home)
    print_json(found) if json else _print_golden(found)
    return 0


@app.command("diff")
def diff_command(
    suite: SuiteArgument,
    since: Annotated[
        str | None, typer.Option("--since", help="Show the history from after this version on.", show_default=False)
    ] = None,
    json: JsonOption = False,
) -> int:
    """Show what changed since the suite was frozen, and its history. Exit code 1: there are unrecorded changes.

    Example: `ethogram golden diff suite/ --since 1.0.0`
    """
    found = golden_diff(suite, since=since)
    print_json(found) if json else _print_diff(found)
    return 1 if found.changes else 0


@app.command("check")
def check_set_command(
    suite: SuiteArgument,
    corpus: Annotated[
        list[Path] | None,
        typer.Option("--corpus", help="A file or folder of texts that a model may have seen; may be repeated."),
    ] = None,
    traces: Annotated[
        list[str] | None,
        typer.Option("--traces", help="A run of something else, whose messages count as texts; may be repeated."),
    ] = None,
    run: Annotated[
        list[str] | None, typer.Option("--run", help="Read health from this run only; may be repeated.")
    ] = None,
    probe: Annotated[
        str | None, typer.Option("--probe", help="Probe the memory of this agent.", show_default=False)
    ] = None,
    probe_model: Annotated[
        str | None, typer.Option("--probe-model", help="Probe the memory of this model of a provider.")
    ] = None,
    probe_tasks: Annotated[int, typer.Option("--probe-tasks", min=1, help="The most tasks to probe.")] = 50,
    max_usd: Annotated[float | None, typer.Option(help="With a probe: spend at most this many dollars.")] = None,
    price: PriceOption = None,
    prices: PricesOption = None,
    allow_unmetered: AllowUnmeteredOption = False,
    workers: WorkersOption = 4,
    capture: CaptureOption = "auto",
    limit: LimitOption = 15,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Check a golden set: unrecorded changes, contamination (canary, overlap, memory), and the health of each task.

    Exit codes: 0 no alarm, 1 alarm, 2 nothing was there to look at.

    Example: `ethogram golden check suite/ --corpus prompts/ --probe agent.py:solve --max-usd 1`
    """
    if probe is not None and probe_model is not None:
        raise BadUsage("--probe names an agent and --probe-model a model; give one of the two")
    tell = None if json else lambda text: stderr().print(text, style="dim", markup=False)
    found = golden(
        suite, corpus=corpus or (), traces=tuple(traces or ()), runs=tuple(run or ()), progress=tell, home=home
    )
    if probe is not None or probe_model is not None:
        from ethogram.questions.golden.buying import AskProbed, ProbeOptions, probe_memory

        options = ProbeOptions(
            most=probe_tasks,
            max_usd=max_usd,
            workers=workers,
            metering=metering(price, prices, allow_unmetered),
            capture=capture,
        )
        agent = probe if probe is not None else AskProbed(str(probe_model))
        found = probe_memory(found, suite, agent, options, home=home)
    print_json(found) if json else print_check(found, limit)
    return CODES[found.verdict]


@app.command("promote")
def promote_command(
    trace: Annotated[str, typer.Argument(help="The failing trace: the start of its id.")],
    suite: Annotated[str, typer.Option("--suite", help="The golden set: a suite in a folder.")],
    reference: Annotated[
        str | None, typer.Option("--reference", help="A passing trace of the same task.", show_default=False)
    ] = None,
    expected: Annotated[str | None, typer.Option("--expected", help="The right answer.", show_default=False)] = None,
    check: Annotated[
        list[str] | None, typer.Option("--check", help="A check, KIND=SETTINGS as in a suite; may be repeated.")
    ] = None,
    question: Annotated[
        str | None, typer.Option("--question", help="The prompt, where the trace does not have it.", show_default=False)
    ] = None,
    name: Annotated[str | None, typer.Option("--id", help="The id of the new task.", show_default=False)] = None,
    run: Annotated[str | None, typer.Option("--run", help="Where to look for the trace.", show_default=False)] = None,
    why: WhyOption = None,
    by: ByOption = None,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Make a golden task of a failing trace: what was asked, what the tools gave, and a check that fails it.

    What is right comes from a passing trace (--reference), an answer (--expected) or --check; without one of them
    nothing is made.

    Example: `ethogram golden promote 4f1c22 --suite suite/ --reference a07be1`
    """
    wanted = WantedCheck(id=name, reference=reference, expected=expected, checks=tuple(check or ()), prompt=question)
    found = promote(trace, suite, wanted, run=run, why=why, by=by, home=home)
    print_json(found) if json else _print_promoted(found)
    return 0


def _print_golden(found: GoldenResult) -> None:
    out = stdout()
    before = f"{found.before} → " if found.before else ""
    out.print(
        f"[bold]{before}{found.version}[/bold] of {found.suite}: {plural(found.tasks, 'task')}, {found.digest[:15]}"
    )
    if found.before:
        out.print(found.change.changes.words(), markup=False)
    out.print(f"by {found.change.by}: {found.change.why}", style="dim", markup=False)
    for name in found.reopened:
        out.print(f"incident {name} is open again: nothing guards against it now", style="yellow", markup=False)
    for file in found.files:
        out.print(f"wrote {file}", style="dim", markup=False)


def _print_diff(found: GoldenDiff) -> None:
    out = stdout()
    if found.next_version is None:
        out.print(f"{found.suite} is {found.version} ({found.digest[:15]}), unchanged", markup=False)
    else:
        told = f"{found.suite} has changed since {found.version}: {found.words}"
        out.print(f"{told}; recording it makes {found.next_version}", style="yellow", markup=False)
    rows = [[e.version, e.at[:16].replace("T", " "), e.by, e.changes.words(), e.why] for e in found.history]
    if rows:
        out.print(table(["version", "date", "by", "changes", "why"], rows))


def _print_promoted(found: PromoteResult) -> None:
    out = stdout()
    kinds = ", ".join(str(c["kind"]) for c in found.checks)
    out.print(f"task [bold]{found.task}[/bold], checked by {kinds}", highlight=False)
    out.print(f"the recorded failure fails it (score {found.failure_score:g}): {found.said}", markup=False)
    if found.reference_score is not None:
        out.print(f"the reference passes it (score {found.reference_score:g})", markup=False)
    if found.fixture is not None:
        out.print(f"{plural(found.observations, 'recorded observation')} in {found.fixture}", markup=False)
    for lost in found.lost:
        out.print(f"not taken over: {lost}", style="yellow", markup=False)
    for note in found.notes:
        out.print(f"note: {note}", style="dim", markup=False)
    _print_golden(found.golden)
