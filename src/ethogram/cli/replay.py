"""`ethogram replay`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ethogram.display.money import dollars
from ethogram.errors import BadUsage, NotFound
from ethogram.questions.replay.buying.redecisions import STOPPED, RedecideOptions, redecide
from ethogram.questions.replay.buying.replay import ReplayOptions, ReplayResult
from ethogram.questions.replay.buying.replay import replay as replay_trace
from ethogram.questions.replay.results import RedecidedTrace, RedecideResult
from ethogram.store import short_id

from .printing import HomeOption, JsonOption, cell, known, plural, print_json, printable, say, stderr, stdout, table
from .running import AllowUnmeteredOption, CaptureOption, PriceOption, PricesOption, metering

SHOWN_TRACES = 20


def command(
    trace: Annotated[str, typer.Argument(help="The trace's id, or its start; with --prompt or --model also a run.")],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[-- CMD]", help="The agent's command, after --.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="The agent: file.py:name, pkg.mod:name, 'cmd: …'; by default the recorded one.")
    ] = None,
    suite: Annotated[str | None, typer.Option(help="The suite of the task, where its run does not name it.")] = None,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Call models live after the first request that was not recorded.")
    ] = False,
    given: Annotated[
        Path | None, typer.Option("--input", help="What a command reads on stdin, where no suite is known.")
    ] = None,
    run: Annotated[str | None, typer.Option(help="Look in this run only.")] = None,
    prompt: Annotated[
        Path | None, typer.Option(help="Repeat every decision with the system prompt of this file.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Repeat every decision with this model.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="With --prompt or --model: repeat each decision this often.")] = 1,
    names: Annotated[
        bool,
        typer.Option(
            "--names", help="With --prompt or --model: the same tool with other arguments counts as the same decision."
        ),
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="With --prompt or --model: only the first N traces of a run.")
    ] = 0,
    again: Annotated[
        bool, typer.Option("--again", help="With --prompt or --model: ask anew also where the run keeps a reply.")
    ] = False,
    max_usd: Annotated[float | None, typer.Option(help="Spend at most this many dollars.")] = None,
    price: PriceOption = None,
    prices: PricesOption = None,
    allow_unmetered: AllowUnmeteredOption = False,
    capture: CaptureOption = "auto",
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Run an agent again with the recorded answers of a trace; or repeat its decisions with a change.

    Models, tools and the user answer from the trace, offline and free. A request that was not recorded ends a strict
    replay, shown as a diff; the exit code is 1 unless the agent did the same and gave the same answer.

    Example: `ethogram replay 4f1c22 --agent agent.py:solve`
    """
    if prompt is not None or model is not None:
        if agent is not None or words or lenient or suite is not None or given is not None:
            raise BadUsage("--prompt and --model ask models without an agent; leave out the agent and its options")
        options = RedecideOptions(
            prompt=None if prompt is None else _text(prompt).rstrip("\n"),
            model=model,
            k=k,
            compared="names" if names else "calls",
            limit=limit or None,
            again=again,
            max_usd=max_usd,
            metering=metering(price, prices, allow_unmetered),
        )
        decided = redecide(trace, options, run=run, home=home, progress=None if json else say)
        print_json(decided) if json else _print_decided(decided)
        return 0 if decided.summary.difference.value is not None else 2
    if words and agent is not None:
        raise BadUsage("name the agent once: with --agent, or its command after --")
    replay = replay_trace(
        trace,
        f"cmd: {shlex.join(words)}" if words else agent,
        suite=suite,
        run=run,
        options=ReplayOptions(
            mode="lenient" if lenient else "strict",
            capture=capture,
            max_usd=max_usd,
            metering=metering(price, prices, allow_unmetered),
            given="" if given is None else _text(given),
        ),
        home=home,
    )
    print_json(replay) if json else _print_replay(replay)
    went_live = lenient and replay.deviation is not None and replay.crash is None
    return 0 if replay.same or went_live else 1


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotFound(f"{str(path)!r} cannot be read: {error}", where=str(path)) from None


def _print_replay(result: ReplayResult) -> None:
    out = stdout()
    tools = ""
    if result.recorded_tools:
        tools = f" and {result.served_tools} of {plural(result.recorded_tools, 'tool call')}"
    out.print(
        f"replay of [bold]{short_id(result.replays)}[/bold] ({cell(result.recorded_run)}, task {cell(result.task)}): "
        f"{result.served} of {plural(result.recorded_calls, 'model call')}{tools} answered from the record"
    )
    if result.own_tools:
        out.print(f"{plural(result.own_tools, 'call')} of the agent's own tools, which it carries out itself")
    found = result.deviation
    if found is None:
        out.print("no deviation: every request was recorded", style="green")
    else:
        live = "live from there on" if result.mode == "lenient" else "the replay ends there"
        out.print(f"deviation at step {found.step}: {printable(found.why)}; {live}", style="red", markup=False)
        for line in found.diff.splitlines():
            style = {"+": "green", "-": "red", "@": "dim"}.get(line[:1], "")
            out.print(f"  {printable(line)}", style=style, markup=False, soft_wrap=True)
    out.print("answer: " + ("changed" if result.answer_changed else "the same"))
    steps = "none: the steps are the same" if result.t_star is None else f"{result.t_star}"
    distance = "unavailable" if result.d_norm is None else f"{result.d_norm:.3f}"
    out.print(f"d_norm {distance}; t* {steps}")
    verdict = f"missing ({result.missing})" if result.score is None else f"score {result.score:g}"
    was = "none" if result.recorded_score is None else f"{result.recorded_score:g}"
    out.print(f"{verdict}; recorded score {was}")
    if result.crash:
        out.print(f"the agent crashed: {printable(result.crash.partition(chr(10))[0][:300])}", markup=False)
    for one in result.unusable:
        out.print(f"step {one.step} cannot be served: {printable(one.why)}", style="yellow", markup=False)
    for told in result.warnings:
        stderr().print(f"warning: {printable(told)}", style="yellow", markup=False)
    out.print(f"next: ethogram diff {short_id(result.replays)} {short_id(result.trace)}", style="dim")


def _print_decided(result: RedecideResult) -> None:
    out = stdout()
    change = " and ".join(f"{name} ({cell(' '.join(value.split())[:60])})" for name, value in result.change.items())
    kept = f"; {plural(result.kept, 'answer')} of an earlier call (--again asks anew)" if result.kept else ""
    out.print(f"repeated with another {change}: {plural(result.calls, 'call')}, {_money(result)}{kept}", markup=False)
    if len(result.traces) == 1:
        _print_steps(result, result.traces[0])
    else:
        _print_traces(result)
    for why, count in result.missing.items():
        out.print(f"{plural(count, 'decision')} missing: {printable(why)}", style="yellow", markup=False)
    if result.redacted:
        out.print(
            f"{plural(result.redacted, 'request')} had words that were redacted when they were stored", style="yellow"
        )
    if result.stopped:
        out.print(f"stopped: {STOPPED[result.stopped]}", style="yellow")
    out.print(result.control, style="dim")


def _money(result: RedecideResult) -> str:
    return known(result.cost_usd, result.at_least_usd, dollars, "cost")


def _print_steps(result: RedecideResult, trace: RedecidedTrace) -> None:
    out = stdout()
    rows = [
        [
            step.step,
            step.recorded,
            step.changed_to or ("the same" if step.draws else step.why),
            f"{step.changed_departs} of {step.draws}",
            f"{step.control_departs} of {step.draws}",
            "caused by the change" if step.moved else None,
        ]
        for step in trace.steps
    ]
    out.print(table(["step", "recorded", "new decision", "differs", "differs (control)", ""], rows))
    first = "none" if trace.first_divergence is None else f"step {trace.first_divergence}"
    caused = "none" if trace.first_moved is None else f"step {trace.first_moved}"
    out.print(f"first different decision: {first}; caused by the change: {caused}", style="bold")


def _print_traces(result: RedecideResult) -> None:
    out = stdout()
    rows = [
        [short_id(t.trace), t.task, t.length, t.first_divergence, t.first_control, t.first_moved]
        for t in result.traces[:SHOWN_TRACES]
    ]
    out.print(table(["trace", "task", "steps", "differs at", "differs at (control)", "caused by the change at"], rows))
    if len(result.traces) > SHOWN_TRACES:
        out.print(f"and {len(result.traces) - SHOWN_TRACES} more traces", style="dim")
    summary = result.summary
    by = [
        [row.decision, row.changed.value, row.changed.low, row.changed.high, row.control.value]
        for row in summary.departed_by
    ]
    out.print(table(["by decision", "traces that differ", "low", "high", "control"], by))
    out.print(f"traces that differ: {summary.changed}; control: {summary.control}", markup=False)
    out.print(f"decisions that differ beyond the control: {summary.difference}", markup=False, style="bold")
    if summary.first.median is not None:
        out.print(
            f"t*/T: median {summary.first.median:.2f}; {summary.first.never} of {summary.first.pairs} never differ"
        )
