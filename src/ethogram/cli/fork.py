"""`ethogram fork`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ethogram.display.money import dollars
from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.harness.environment import parse_environment
from ethogram.questions.fork.buying.fork import ForkInterrupted, ForkOptions, fork_trace
from ethogram.questions.fork.results import ForkResult

from .printing import HomeOption, JsonOption, known, print_json, signed, stderr, stdout, table
from .running import (
    AllowUnmeteredOption,
    CaptureOption,
    CleanEnvOption,
    EnvOption,
    LiveToolsOption,
    PriceOption,
    PricesOption,
    WorkersOption,
    metering,
)

VERDICTS = {
    "raises": "raises success",
    "lowers": "lowers success",
    "negligible": "does too little",
    "undecided": "is not settled",
}
MOST_CHARS = 4096
"""A value that is longer is no path."""


def command(
    trace: Annotated[str, typer.Argument(help="The trace's id, or the start of it.")],
    at: Annotated[str, typer.Option("--at", help="The step, as `ethogram trace` counts, or auto.")],
    k: Annotated[
        int, typer.Option("-k", help="At most this many pairs of continuations, with and without the change.")
    ] = 20,
    change: Annotated[
        str | None,
        typer.Option(
            "--set",
            help="What is changed: prompt=…, model=…, result=… (of a tool step) or answer=… (of a model step); the "
            "words, or a file with them; or answer_of=TRACE:STEP, result_of=TRACE:STEP: what another trace has there. "
            "Without it, only how often it succeeds from there is measured.",
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="pkg.mod:name, file.py:name, 'cmd: …' or http://…", show_default=False)
    ] = None,
    suite: Annotated[str | None, typer.Option(help="The suite whose tools rebuild the world.")] = None,
    name: Annotated[
        str | None, typer.Option("--run", help="Name of the run; one that was stopped is continued.")
    ] = None,
    level: Annotated[float, typer.Option(help="The level of the interval.")] = 0.95,
    max_usd: Annotated[float | None, typer.Option(help="Maximum dollars of the whole experiment: a hard stop.")] = None,
    price: PriceOption = None,
    prices: PricesOption = None,
    allow_unmetered: AllowUnmeteredOption = False,
    workers: WorkersOption = 8,
    env: EnvOption = None,
    clean_env: CleanEnvOption = False,
    capture: CaptureOption = "gateway",
    live_tools: LiveToolsOption = False,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Continue a recorded trace from one step, with one thing changed there and without it, and compare the outcomes.

    The suite's tools run again up to the step and must give what was recorded; model calls before it are answered
    from the trace. Continuations come in pairs and stop as soon as the interval of the effect excludes 0.

    Example: `ethogram fork 4f1c22 --at 3 -k 20 --set prompt=new.txt --max-usd 2`
    """
    options = ForkOptions(
        k=k,
        level=level,
        workers=workers,
        max_usd=max_usd,
        metering=metering(price, prices, allow_unmetered),
        environment=parse_environment(tuple(env or ()), clean_env),
        capture=capture,
        live_tools=live_tools,
    )
    try:
        found = fork_trace(
            trace,
            _step(at),
            None if change is None else _words(change),
            options,
            agent=agent,
            suite=suite,
            name=name,
            home=home,
            progress=None if json else lambda text: stderr().print(text, style="dim", markup=False),
        )
    except ForkInterrupted as stopped:
        stderr().print(f"interrupted; continue with --run {stopped.run}", style="yellow", markup=False)
        return 130
    print_json(found) if json else _print(found)
    if found.stopped == "killed":
        return 130
    return 0 if found.settled else 2


def _step(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        if text == "auto":
            return text
        raise BadUsage(f"--at {text!r} is not a step; give its number, as ethogram trace shows it, or auto") from None


def _words(change: str) -> str:
    """A change with the content of the file that it names, if it names one."""
    what, equals, value = change.partition("=")
    if not equals or what == "model" or not value or len(value) > MOST_CHARS or "\n" in value:
        return change
    path = Path(value)
    try:
        return f"{what}={path.read_text(encoding='utf-8').rstrip(chr(10))}" if path.is_file() else change
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(f"the file {value!r} of --set cannot be read as text: {error}") from None


def _print(found: ForkResult) -> None:
    out = stdout()
    place = f"trace {found.trace.removeprefix('b2:')[:12]} of {found.source}, task {found.task}, step {found.at}"
    out.print(f"{found.run}  {place}", style="bold", markup=False)
    if found.step != found.at:
        out.print(f"model calls are live from step {found.step} on", style="dim")
    if found.change is None:
        out.print(f"it succeeds from there with {found.unchanged}", markup=False)
    else:
        out.print(f"{found.change}: this {VERDICTS[found.verdict or 'undecided']}", markup=False)
        out.print(f"effect on success: {signed(found.effect)}", markup=False)
        out.print(f"without it {_rate(found.unchanged)}, with it {_rate(found.changed)}; {found.why}", markup=False)
        _print_looks(out, found)
    if found.missing:
        reasons = ", ".join(f"{reason} {n}" for reason, n in found.missing.items())
        out.print(f"missing outcomes, counted at their worst for each end of the interval: {reasons}", markup=False)
    for deviation in found.deviations:
        out.print(f"not as recorded before the step: {deviation}", style="dim", markup=False)
    for note in found.notes:
        out.print(f"note: {note}", style="dim", markup=False)
    cost = known(found.cost_usd, found.at_least_usd, dollars, "cost")
    out.print(f"{cost}; next: ethogram show {found.run}", style="dim", markup=False)


def _print_looks(out: Console, found: ForkResult) -> None:
    if not found.looks:
        return
    columns = ["look", "pairs", "gained", "lost", "same", "missing", "effect at least", "at most"]
    rows = [
        [k.look, k.pairs, k.gained, k.lost, k.same, k.missing, f"{k.low:+.3f}", f"{k.high:+.3f}"] for k in found.looks
    ]
    out.print()
    out.print(table(columns, rows))
    out.print()


def _rate(estimate: Estimate | None) -> str:
    return "unknown" if estimate is None or estimate.value is None else f"{estimate.value:.2f}"
