"""The demonstration: import recorded logs that ship with the product, look at them, analyse them."""

from __future__ import annotations

import shutil
from importlib.resources import as_file, files
from pathlib import Path
from shlex import quote

from ethogram.errors import BadUsage, NotFound
from ethogram.questions.home.queries import QueryResult, sql
from ethogram.questions.home.runs import EpisodeRow, RunSummary, show
from ethogram.questions.logs.imports import ImportResult, import_logs
from ethogram.reading.traces import TraceTree, trace
from ethogram.result import Result
from ethogram.store import Home, home_of
from ethogram.traces import SUCCESS_AT

RUN = "demo"
QUERY = """SELECT tool, count(*) AS calls, count(*) FILTER (status = 'error') AS errors
FROM spans WHERE kind = 'tool' GROUP BY tool ORDER BY errors DESC, calls DESC LIMIT 6"""


class DemoResult(Result, kw_only=True):
    """What the demonstration did; `live` is the run of the agent, `settled` one whose causes were tried by experiment,
    `report` the page that was written."""

    run: str
    home: str
    report: str | None = None
    live: str | None = None
    settled: str | None = None
    imported: ImportResult
    shown: RunSummary
    trace: TraceTree
    query: str
    answer: QueryResult
    next: list[str]


class CopiedLogs(Result, kw_only=True):
    """Logs of the demonstration that were copied."""

    folder: str
    files: list[str]


def play_demo(*, home: Home | str | None = None) -> DemoResult:
    """Import the recorded logs into the home, then show the run, its most telling failure and one query.

    A second time adds nothing: the logs are known. A run of yours that is called `demo` is left alone.
    """
    lake = home_of(home)
    run = _run_name(lake)
    with as_file(files("ethogram") / "data" / "demo") as folder:
        imported = import_logs(sorted(folder.iterdir()), home=lake, run=run, tags=(RUN,))
    shown = show(run, home=lake)
    failure = max(shown.traces, key=_telling)
    tree = trace(failure.trace_id, run=run, home=lake)
    return DemoResult(
        run=run,
        home=lake.files.address,
        imported=imported,
        shown=shown,
        trace=tree,
        query=QUERY,
        answer=sql(QUERY, runs=[run], home=lake),
        next=_next(run, shown, f" --home {quote(home)}" if isinstance(home, str) else ""),
    )


def copy_demo_logs(folder: str | Path) -> CopiedLogs:
    """Copy the recorded logs into a folder, to try things on; existing files are never overwritten."""
    target = Path(folder)
    with as_file(files("ethogram") / "data" / "demo") as demo:
        places = {log: target / log.name for log in sorted(demo.iterdir())}
        known = [place for place in places.values() if place.exists()]
        if known or (target.exists() and not target.is_dir()):
            raise BadUsage(f"{known[0] if known else target} exists already; choose another folder")
        target.mkdir(parents=True, exist_ok=True)
        for log, place in places.items():
            shutil.copyfile(log, place)
    return CopiedLogs(folder=str(target), files=[str(place) for place in places.values()])


def _run_name(lake: Home) -> str:
    """`demo`, unless a run of that name exists that is not ours."""
    for number in range(1, 1000):
        name = RUN if number == 1 else f"{RUN}-{number}"
        try:
            if RUN in lake.resolve(name).info.tags:
                return name
        except NotFound:
            return name
    raise BadUsage("there are a thousand runs named demo; remove some with: ethogram rm demo")


def _telling(row: EpisodeRow) -> tuple[bool, int]:
    """A scored failure with many errors says most."""
    return row.score is not None and row.score < SUCCESS_AT, row.totals.errors or 0


def _next(run: str, shown: RunSummary, where: str) -> list[str]:
    """What to type now."""
    other = next(t for t in shown.traces if t.missing == "unscored")
    worst = "SELECT task, attempt, score, steps, errors FROM episodes ORDER BY errors DESC"
    return [
        f"ethogram trace {other.trace_id.removeprefix('b2:')[:8]}{where}",
        f'ethogram sql "{worst}" --run {run}{where}',
        f"ethogram export {run} --to inspect{where}",
        f"ethogram rm {run}{where}",
    ]
