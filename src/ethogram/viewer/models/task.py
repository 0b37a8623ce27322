"""The page of one task: the tree of its attempts, decision points, forks and their effects."""

from __future__ import annotations

import msgspec

from ethogram.questions.why.attempts import TaskReading, read_task
from ethogram.store.lake import FORK
from ethogram.viewer.library import Library


class TaskQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A task of a run."""

    run: str = "latest"
    task: str = ""


def task_view(library: Library, query: TaskQuery) -> TaskReading:
    """The attempts at a task; read again when a fork of the home changes."""
    forks = [f"{run.name} {library.state(run.name)}" for run in library.home.runs() if run.info.kind == FORK]
    return library.answer(
        query.run, ("task", query.task, *forks), lambda run: read_task(run, query.task, home=library.home)
    )
