"""Freezing a suite, and recording every change to it with its reason; the suite's files are what people edit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from ethogram.errors import BadUsage, NotFound
from ethogram.plans.golden import (
    FIRST_VERSION,
    GoldenChange,
    GoldenSet,
    SuiteChanges,
    changes_since,
    first_frozen,
    frozen_again,
    new_canary,
    next_version,
)
from ethogram.reading.dates import now, person
from ethogram.result import Result
from ethogram.store import Home
from ethogram.store.shown_texts import shown
from ethogram.suites.files import read_yaml
from ethogram.suites.frozen import known_golden
from ethogram.suites.golden import write_golden
from ethogram.suites.load import LoadedSuite, load_suite

from .guards import lose_guard
from .suite_edits import add_canary, cut_task, write_task


class GoldenResult(Result, kw_only=True):
    """A golden set after a change; `change` is the newest entry of its history, `files` what was written.

    `reopened` are incidents that lost the task that guarded them.
    """

    suite: str
    version: str
    before: str | None
    digest: str
    tasks: int
    canary: str
    change: GoldenChange
    files: list[str]
    reopened: list[str] = []


class GoldenDiff(Result, kw_only=True):
    """What a suite is now against its golden set; `next_version` is what recording it would make.

    With two versions, what changed between them according to the history.
    """

    suite: str
    version: str
    digest: str
    changes: SuiteChanges
    next_version: str | None
    history: list[GoldenChange]
    words: str

    def rows(self) -> list[dict[str, Any]]:
        """One row per version."""
        return [msgspec.to_builtins(entry) for entry in self.history]


def freeze(suite: str, *, why: str | None = None, by: str | None = None, version: str | None = None) -> GoldenResult:
    """Freeze a suite for the first time, or record all that changed since as one new version.

    `version` is the first one, by default 1.0.0. A removed or changed task needs `why`, words alone and added tasks do
    not. Gives the set with its newest change. Raises `BadUsage` for a missing reason, `BadInput` if nothing changed.

    Example: `freeze("suite", why="the shop has a new price list").version`
    """
    loaded = load_suite(suite)
    if loaded.golden is None:
        canary = new_canary(loaded.suite.name, os.urandom(16).hex())
        made = first_frozen(loaded.suite, version or FIRST_VERSION, _who(why or "first frozen", by), canary)
        return _stored(loaded, made, add_canary(loaded, canary))
    if version is not None:
        raise BadUsage(
            f"{suite!r} is frozen at {loaded.golden.version} already; its next version follows from what changed"
        )
    changes = changes_since(loaded.golden, loaded.suite)
    if changes.bump == "major" and not (why or "").strip():
        raise BadUsage(
            f"{changes.words()}: scores mean something else afterwards, which needs a written reason; give --why"
        )
    return _recorded(loaded, why or f"recorded: {changes.words()}", by)


def add_tasks(suite: str, files: list[Path], *, why: str | None = None, by: str | None = None) -> GoldenResult:
    """Record tasks that were added to a frozen suite; `files` are YAML files whose tasks are written into it first.

    Raises `BadUsage` where more than added tasks changed, `BadInput` for a file that holds no task.
    """
    loaded = known_golden(suite)
    written = []
    for file in files:
        found = read_yaml(file, file.name)
        for raw in found if isinstance(found, list) else [found]:
            if not isinstance(raw, dict):
                raise BadUsage(f"{file.name} holds no task: a task is a mapping with an id, a prompt and checks")
            task = {"id": raw.get("id", file.stem), **raw}
            written.append(write_task(loaded, task, loaded.golden.canary if loaded.golden else None))
            loaded = load_suite(suite)
    assert loaded.golden is not None
    changes = changes_since(loaded.golden, loaded.suite)
    if changes.bump != "minor":
        said = "no task was added" if changes.bump is None else f"more than added tasks changed ({changes.words()})"
        raise BadUsage(f"{said}; record other changes with: ethogram golden freeze {suite} --why REASON")
    return _recorded(loaded, why or f"added {', '.join(changes.added)}", by, written)


def remove_task(
    suite: str, task: str, *, why: str | None, by: str | None = None, home: Home | str | None = None
) -> GoldenResult:
    """Take a task out of a golden set, with a written reason; incidents that it guarded are open again.

    Raises `BadUsage` without a reason, `NotFound` for a task that the set does not have.
    """
    if not (why or "").strip():
        raise BadUsage(f"a golden set only grows: removing {task!r} needs a written reason; give --why")
    loaded = known_golden(suite)
    golden = loaded.golden
    assert golden is not None
    assert why is not None
    if task not in golden.tasks:
        raise NotFound.named("task", task, list(golden.tasks), where=f"the golden set {golden.suite!r}")
    changes = changes_since(golden, loaded.suite)
    gone = task in changes.removed
    others = msgspec.structs.replace(changes, removed=[t for t in changes.removed if t != task])
    if others:
        raise BadUsage(
            f"the suite has other changes too ({others.words()}); record them first with: ethogram golden freeze "
            f"{suite} --why REASON"
        )
    written = [] if gone else [_cut(loaded, task)]
    made = _recorded(load_suite(suite), why, by, written)
    made.reopened = lose_guard(golden.suite, task, why, made.change.by, home)
    return made


def golden_diff(suite: str, *, since: str | None = None) -> GoldenDiff:
    """What changed in a suite since it was frozen, or with `since` since that version."""
    loaded = known_golden(suite)
    golden = loaded.golden
    assert golden is not None
    history = golden.history
    changes = changes_since(golden, loaded.suite)
    if since is not None:
        known = [entry.version for entry in history]
        if since not in known:
            raise NotFound.named(f"version of {golden.suite!r}", since, known)
        history = history[known.index(since) + 1 :]
    bump = changes.bump
    return GoldenDiff(
        suite=golden.suite,
        version=golden.version,
        digest=golden.digest,
        changes=changes,
        next_version=next_version(golden.version, bump) if bump is not None else None,
        history=history,
        words=changes.words(),
    )


def _cut(loaded: LoadedSuite, task: str) -> Path:
    if len(loaded.suite.tasks) == 1:
        raise BadUsage(f"{task!r} is the only task of the suite, and a suite without tasks cannot be run")
    cut = cut_task(loaded, task)
    if cut is None:
        raise BadUsage(
            f"task {task!r} cannot be edited here (Python, or another form); remove it by hand, then repeat "
            "this command"
        )
    return cut


def _recorded(loaded: LoadedSuite, why: str, by: str | None, written: list[Path] | None = None) -> GoldenResult:
    assert loaded.golden is not None
    return _stored(loaded, frozen_again(loaded.golden, loaded.suite, _who(why, by)), written or [])


def _stored(loaded: LoadedSuite, golden: GoldenSet, written: list[Path]) -> GoldenResult:
    assert loaded.golden_file is not None
    write_golden(loaded.golden_file, golden)
    return GoldenResult(
        suite=golden.suite,
        version=golden.version,
        before=loaded.golden.version if loaded.golden is not None else None,
        digest=golden.digest,
        tasks=len(golden.tasks),
        canary=golden.canary,
        change=golden.history[-1],
        files=[shown_path(path) for path in (loaded.golden_file, *written)],
    )


def shown_path(path: Path) -> str:
    """A path as people type it: below the working folder without what leads there."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _who(why: str, by: str | None) -> dict[str, str]:
    """Date, person and reason of a change; secrets do not belong into a file that is shared."""
    return {"at": now(), "by": shown(person(by)), "why": shown(why.strip())}
