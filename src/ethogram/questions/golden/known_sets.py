"""The golden sets that a home knows of: those that its runs ran, with versions, history and the health of their tasks.

Only `golden.json` is read, never the suite itself: a suite may hold code, and looking at a home must run none.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from ethogram.errors import EthogramError
from ethogram.plans.golden import GoldenChange, GoldenSet
from ethogram.reading.suite_versions import RanSuite, golden_mark_of, ran_suite
from ethogram.result import Result
from ethogram.store import Home, home_of
from ethogram.store.lake import FORK, REPLAY
from ethogram.suites.golden import golden_path, read_golden

from .guards import guards_of
from .health import counted_runs, runs_of_tasks
from .task_health import TaskHealth, task_health


class KnownGolden(msgspec.Struct, frozen=True, kw_only=True):
    """A golden set by its name. `version`, `digest`, `history` and `health` are those of the file beside its suite;
    where `problem` says why it cannot be read, only what runs kept is known. `runs` are the newest first."""

    suite: str
    place: str
    version: str | None
    digest: str | None
    tasks: int | None
    history: list[GoldenChange]
    health: list[TaskHealth]
    runs: list[RanSuite]
    problem: str | None = None


class KnownGoldens(Result, kw_only=True):
    """All golden sets that runs of a home ran, by name."""

    sets: list[KnownGolden]


class _Place(NamedTuple):
    """Where a golden set lies, and what a run called it."""

    name: str
    spec: str


def known_goldens(*, home: Home | str | None = None, level: float = 0.95) -> KnownGoldens:
    """The golden sets that runs of the home ran, with their history and the health of each task.

    Health counts attempts at tasks as they are frozen now. Verdicts that contradict each other need the suite itself:
    `golden` looks for them.

    Example: `known_goldens().sets[0].version`
    """
    lake = home_of(home)
    ran: dict[_Place, list[RanSuite]] = {}
    for run in lake.runs():
        plan = run.info.plan
        suite = ran_suite(run)
        if run.info.kind in (REPLAY, FORK) or suite is None or golden_mark_of(plan) is None:
            continue
        ran.setdefault(_Place(suite.name, str(plan.get("suite") or "")), []).append(suite)
    return KnownGoldens(sets=[_known(place, runs, lake, level) for place, runs in sorted(ran.items())])


def _known(place: _Place, runs: list[RanSuite], home: Home, level: float) -> KnownGolden:
    golden, problem = _read(place)
    health: list[TaskHealth] = []
    if golden is not None:
        now = {task: frozen.digest for task, frozen in golden.tasks.items()}
        counted = counted_runs(now, runs_of_tasks(now, home))
        health = task_health(counted, guards_of(golden.suite, home), level)
    return KnownGolden(
        suite=place.name,
        place=place.spec,
        version=golden.version if golden is not None else None,
        digest=golden.digest if golden is not None else None,
        tasks=len(golden.tasks) if golden is not None else None,
        history=list(reversed(golden.history)) if golden is not None else [],
        health=health,
        runs=list(reversed(runs)),
        problem=problem,
    )


def _read(place: _Place) -> tuple[GoldenSet | None, str | None]:
    """The set that lies there, or why there is none."""
    path = Path(place.spec)
    if not place.spec or not path.exists():
        return None, f"there is no suite at {place.spec!r} from here: start the viewer in the folder where it was run"
    try:
        golden = read_golden(golden_path(path))
    except EthogramError as error:
        return None, error.cli_message
    if golden is None:
        return None, f"{golden_path(path)} is gone; restore it from your repository"
    if golden.suite != place.name:
        return None, f"at {place.spec!r} lies another golden set now: {golden.suite}"
    return golden, None
