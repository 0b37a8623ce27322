"""Agents by what the user typed: which callables are agents, and what is said of those that are not."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from ethogram.errors import BadUsage
from ethogram.harness.agents import load_agent
from ethogram.harness.suites import run
from ethogram.plans import Check, Suite, Task
from ethogram.store import Home

SUITE = Suite(name="one", tasks=(Task(id="t", prompt="say yes", expected="yes", checks=(Check(kind="equals"),)),))


def of_task(task: Any) -> str:
    return "yes" if task.prompt == "say yes" else "no"


async def of_task_async(task: Any) -> str:
    return of_task(task)


def with_default(task: Any, episode: Any = None) -> str:
    return "yes" if episode is not None else "no"


class Callable:
    def __call__(self, task: Any) -> str:
        return of_task(task)


def of_three(model: str, task: Any, episode: Any) -> str:
    return f"{model}" if task and episode else ""


@pytest.mark.parametrize(
    "agent",
    [of_task, of_task_async, with_default, Callable(), functools.partial(of_three, "yes"), lambda *given: "yes"],
)
def test_a_function_of_the_task_alone_is_an_agent(home: Home, agent: Any) -> None:
    found = run(SUITE, agent, home=home)
    assert (found.scored, found.successes) == (1, 1)


def test_what_cannot_be_called_is_refused_before_anything_runs(home: Home) -> None:
    with pytest.raises(BadUsage, match=r"of_three\(model: 'str', task: 'Any', episode: 'Any'\) -> 'str' cannot be"):
        run(SUITE, of_three, home=home)
    with pytest.raises(BadUsage, match="is a int, not an agent"):
        load_agent(5)  # type: ignore[arg-type]
    assert home.names() == []
