"""`ethogram demo`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from ethogram.lab import show_run
from ethogram.lab.home.demo import DemoResult, copy_demo_logs, play_demo
from ethogram.lab.outcomes.reliability import reliability
from ethogram.run.options import RunOptions
from ethogram.run.suites import start_run
from ethogram.show.report import report
from ethogram.worlds.practice import practice

from . import import_, show, stats, trace
from .live import watcher
from .out import HomeOption, JsonOption, print_json, stdout, table

REPORT = "ethogram-demo.html"
LIVE_ATTEMPTS = 5
SHOWN = 6
"""Episodes that the story lists."""


def command(
    logs: Annotated[
        Path | None, typer.Option("--logs", help="Only copy the demo's logs into this folder, to try things on.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Then let a real language model on this CPU work on ten small tasks, K=5.")
    ] = False,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Import recorded logs of three harnesses into the home, look at them, ask a question, and write a report.

    Example: `ethogram demo --live`
    """
    if logs is not None:
        copied = copy_demo_logs(logs)
        if json:
            print_json(copied)
        else:
            stdout().print("\n".join(f"wrote {file}" for file in copied.files), markup=False)
        return 0
    result = play_demo(home=home)
    if not json:
        _print(result, done=not live)
    if live:
        result.live = _live(home, json)
    written = report(result.live or result.run, REPORT, home=home)
    result.report = written.report
    if json:
        print_json(result)
    else:
        _part("Everything about it on one page, to open in a browser", f"report {written.run} -o {REPORT}")
        for note in written.notes:
            stdout().print(note, style="dim", markup=False)
        stdout().print(f"{written.report}: {len(written.sections)} sections, {written.pictures} pictures", markup=False)
    return 0


def _live(home: str | None, json: bool) -> str:
    """Five seeded attempts of every task of the shop; gives the name of the run."""
    chosen = practice()
    out = stdout()
    if not json:
        what = "a real language model (SmolLM2-135M) on this CPU" if chosen.why is None else "a scripted agent"
        line = f"run SHOP --agent {chosen.agent} -k {LIVE_ATTEMPTS}"
        _part(f"Now an agent at work: {what}, ten small tasks, {LIVE_ATTEMPTS} attempts each", line)
        if chosen.why is not None:
            out.print(f"The real model is not used because {chosen.why}.", style="yellow", markup=False)
    options = RunOptions(k=LIVE_ATTEMPTS, workers=2, tags=("demo",))
    with watcher(quiet=json) as watching:
        done = start_run(chosen.suite, chosen.agent, options, home=home, watcher=watching)
    if not json:
        _part("What came of it", f"show {done.run} --limit 12")
        show._print(show_run(done.run, home=home), 12)
        _part("How reliable is it?", f"stats {done.run}")
        stats._print(reliability(done.run, home=home), 12)
        out.print(f"\nThe run is {done.run}. Go on with: {_me()} show {done.run}", style="bold", markup=False)
    return done.run


def _print(result: DemoResult, *, done: bool) -> None:
    """The story: each part under the command that would have shown it."""
    _part("Logs of three harnesses, in three formats, into one place", f"import LOGS --run {result.run}")
    import_._print(result.imported)
    _part("What is there now", f"show {result.run} --limit {SHOWN}")
    show._print(result.shown, SHOWN)
    short = result.trace.trace_id.removeprefix("b2:")[:12]
    _part("The failure with most errors. By the marks: not the address that the customer gave", f"trace {short}")
    trace._print(result.trace)
    _part("Any question in SQL", f'sql "{" ".join(result.query.split())}"')
    out = stdout()
    out.print(table(result.answer.columns, [[r[c] for c in result.answer.columns] for r in result.answer.records]))
    if not done:
        return
    out.print(f"\nThe run is {result.run}, in {result.home}. Next:", style="bold", markup=False)
    for line in result.next:
        out.print(f"  {line.replace('ethogram', _me(), 1)}", markup=False, soft_wrap=True)


def _part(title: str, line: str) -> None:
    out = stdout()
    out.print(f"\n{title}", style="bold", markup=False)
    out.print(f"$ {_me()} {line}\n", style="dim", markup=False, soft_wrap=True)


def _me() -> str:
    """How this command can be called again: by its name, or by its path when it is not on the search path."""
    return "ethogram" if shutil.which("ethogram") or not sys.argv[0].endswith("ethogram") else sys.argv[0]
