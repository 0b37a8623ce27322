"""What is worth knowing before a run is paid for: nothing scores its attempts, or its agent answers nothing."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ethogram.checks import KINDS, label_names
from ethogram.display.shorten import shortened_list
from ethogram.plans import Check, Task

from .agents import Agent, PythonAgent
from .executor import EpisodeReport

SHOWN = 3
"""How many tasks a sentence names."""
_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_GIVES = (ast.Yield, ast.YieldFrom)


def before_start(tasks: Sequence[Task], agent: Agent) -> list[str]:
    """What the tasks and the code of the agent tell already."""
    notes = []
    open_ended = [t.id for t in tasks if not _deciding(t)]
    if open_ended:
        few = f"{len(open_ended)} of {len(tasks)} tasks" if len(tasks) > 1 else "the task"
        named = shortened_list(open_ended, SHOWN)
        notes.append(
            f"no required check decides about {few} ({named}), so no attempt gets a score; add one to its checks"
        )
    if isinstance(agent, PythonAgent) and _returns_nothing(agent.function) and any(map(_reads_answer, tasks)):
        notes.append(
            f"{agent.name} has no return with a value, so every answer is None; return the answer of the agent"
        )
    return notes


def after_first(task: Task, report: EpisodeReport) -> str | None:
    """What the first attempt tells: its agent answered None, and a check of the answer failed."""
    if report.answered or report.stopped_by is not None or report.passed is not False or not _reads_answer(task):
        return None
    return f"the agent returned None for task {task.id!r}, which failed; where checks look at the answer, return it"


def _deciding(task: Task) -> list[Check]:
    named = zip(task.checks, label_names((c.kind, c.name) for c in task.checks), strict=True)
    return [check for check, name in named if (check.required if task.outcome is None else name == task.outcome)]


def _reads_answer(task: Task) -> bool:
    return any(c.kind in KINDS and KINDS[c.kind].layer == "L0" for c in _deciding(task))


def _returns_nothing(function: Callable[..., Any]) -> bool:
    """Whether the code shows that no call of it returns a value; False where that cannot be seen."""
    try:
        read = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body[0]
    except (OSError, TypeError, SyntaxError):
        return False
    if not isinstance(read, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return not any(isinstance(node, _GIVES) or _has_value(node) for node in _own_nodes(read))


def _has_value(node: ast.AST) -> bool:
    if not isinstance(node, ast.Return) or node.value is None:
        return False
    return not (isinstance(node.value, ast.Constant) and node.value.value is None)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _INNER):
            yield child
            yield from _own_nodes(child)
