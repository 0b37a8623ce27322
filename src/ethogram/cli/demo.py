"""`ethogram demo`."""

from __future__ import annotations

import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from ethogram.harness.options import AllCaps, RunOptions
from ethogram.harness.suites import start_run
from ethogram.prices import Caps, Metering
from ethogram.prices.settings import price_list
from ethogram.questions.home.runs import show as show_run
from ethogram.questions.reliability.question import stats as reliability
from ethogram.questions.why.buying import SettleOptions, settle_causes
from ethogram.store import home_of, short_id
from ethogram.viewer.report.report import report
from ethogram.viewer.viewing import ViewResult, ViewSettings, view_until_stopped
from ethogram.worlds import desk
from ethogram.worlds.demo import DemoResult, copy_demo_logs, play_demo
from ethogram.worlds.practice import OPENAI, local_provider, practice, provided

from . import import_, show, stats, trace, why
from .live import watcher
from .printing import HomeOption, JsonOption, at_home, print_json, stdout, table

REPORT = "ethogram-demo.html"
LIVE_ATTEMPTS = 5
LIVE_USD = 1.0
DESK, DESK_ATTEMPTS = "ethogram.worlds.desk", 40
SHOWN = 6
"""Episodes that the tour lists."""


def command(
    logs: Annotated[
        Path | None, typer.Option("--logs", help="Only copy the demo's logs into this folder, to try things on.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Then run a real language model on this CPU on ten small tasks, K=5.")
    ] = False,
    view: Annotated[
        bool, typer.Option("--view", help="At the end, serve the viewer until Ctrl-C; in a pipe, only say how.")
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
        result.settled = _settle(home, json)
    written = report(result.live or result.run, REPORT, home=home)
    result.report = written.report
    if json:
        print_json(result)
    else:
        _part("Everything about it on one page, to open in a browser", f"report {written.run} -o {REPORT}")
        for note in written.notes:
            stdout().print(note, style="dim", markup=False)
        stdout().print(f"{written.report}: {len(written.sections)} sections, {written.pictures} pictures", markup=False)
        _view(result.settled or written.run, home, serve=view and sys.stdin.isatty() and sys.stdout.isatty())
    return 0


def _view(run: str, home: str | None, *, serve: bool) -> None:
    """The same and every trace, live in a browser: the command, or the viewer itself until it is stopped."""
    _part("The same live in a browser, with every trace", f"view {run}{at_home(home)}")
    if serve:
        view_until_stopped(home_of(home), ViewSettings(run=run), _opened, open_browser=False)


def _opened(result: ViewResult) -> None:
    stdout().print(f"open {result.address} in a browser; Ctrl-C ends it", markup=False, soft_wrap=True)


def _live(home: str | None, json: bool) -> str:
    """Five seeded attempts of every task of the shop; gives the name of the run."""
    chosen = practice()
    out = stdout()
    ordinary = chosen.agent == OPENAI
    caps = AllCaps(experiment=Caps(usd=LIVE_USD)) if ordinary else AllCaps()
    if not json:
        line = f"run SHOP --agent {chosen.agent} -k {LIVE_ATTEMPTS}" + (f" --max-usd {LIVE_USD:g}" if ordinary else "")
        _part(f"Now an agent at work: ten small tasks, {LIVE_ATTEMPTS} attempts each", line)
        if ordinary:
            words = "It is written with the openai package; its calls are recorded, priced and capped as they pass."
            out.print(f"{words}\nA real language model (SmolLM2-135M) on this CPU answers them.", style="dim")
        if chosen.why is not None:
            out.print(f"The real model is not used because {chosen.why}.", style="yellow", markup=False)
    options = RunOptions(k=LIVE_ATTEMPTS, workers=2, tags=("demo",), caps=caps)
    with local_provider() if ordinary else nullcontext(), watcher(quiet=json) as watching:
        done = start_run(chosen.suite, chosen.agent, options, home=home, progress=watching)
    if not json:
        _part("What came of it", f"show {done.run} --limit 12")
        show._print(show_run(done.run, home=home), 12)
        _part("How reliable is it?", f"stats {done.run}")
        stats._print(reliability(done.run, home=home), 12)
        out.print(f"\nThe run is {done.run}. Go on with: {_me()} show {done.run}", style="bold", markup=False)
    return done.run


def _settle(home: str | None, json: bool) -> str:
    """A world with a planted cause and a correlate: which is which, by experiment; gives the name of the run."""
    if not json:
        line = f"run {DESK} --agent {DESK}:clerk -k {DESK_ATTEMPTS}"
        _part("Why does it fail? Another agent, whose failures have one cause and one correlate", line)
        words = "Its model is scripted, so that the truth is known: looking the order up first is worth .45."
        stdout().print(words, style="dim", markup=False)
    priced = Metering(prices=price_list(None, ("*=2/8",)).own)
    options = RunOptions(k=DESK_ATTEMPTS, workers=2, tags=("demo",), metering=priced)
    with provided(desk.model):
        with watcher(quiet=json) as watching:
            done = start_run(DESK, f"{DESK}:clerk", options, home=home, progress=watching)
        if not json:
            _part("Causes by what is more frequent in failures, then tried", f"why {done.run} --settle --max-usd 2")
        found = settle_causes(done.run, SettleOptions(max_usd=2, workers=2, metering=priced), home=home)
    if not json:
        why._print(found, 3)
    return done.run


def _print(result: DemoResult, *, done: bool) -> None:
    """The tour: each part under the command that would have shown it."""
    _part("Import logs of three harnesses", f"import LOGS --run {result.run}")
    import_._print(result.imported)
    _part("Show the run", f"show {result.run} --limit {SHOWN}")
    show._print(result.shown, SHOWN)
    short = short_id(result.trace.trace_id)
    _part("Read the failed trace with most errors; equal marks are equal values", f"trace {short}")
    trace._print(stdout(), result.trace)
    _part("Query in SQL", f'sql "{" ".join(result.query.split())}"')
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
