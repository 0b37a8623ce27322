"""Caps of the experiment inside one executor, as on a worker that was given a batch before the cap was reached."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ethogram.harness.agents import load_agent
from ethogram.harness.executor import EpisodeReport, Work
from ethogram.harness.executors import make_executor
from ethogram.harness.options import RunOptions
from ethogram.plans import Check, Suite, Task, plan_episodes
from ethogram.prices import Amounts, Budget, Caps
from ethogram.store import Home
from ethogram.suites.load import LoadedSuite
from ethogram.traces import Missing

SUITE = Suite(name="one", tasks=(Task(id="t", prompt="?", expected="42", checks=(Check(kind="equals"),)),))


def batch(home: Home, tmp_path: Path, agent: Any, budget: Budget, count: int) -> list[EpisodeReport]:
    acting = load_agent(agent)
    loaded = LoadedSuite(SUITE, tmp_path)
    run = home.create("a", "run")
    executor = make_executor(
        home, run, loaded, acting, RunOptions(), budget, lambda task: Budget("task", Caps(), budget)
    )

    async def all_of_them() -> list[EpisodeReport]:
        episodes = plan_episodes(("t",), acting.name, count, 0)
        return [await executor.execute(Work(e)) for e in episodes]

    found = asyncio.run(all_of_them())
    executor.writer.close()
    return found


def test_an_episode_that_begins_when_the_experiments_cap_is_reached_is_missing_not_failed(
    home: Home, tmp_path: Path
) -> None:
    budget = Budget("experiment", Caps(usd=1.0), spent=Amounts(usd=1.0))
    (found,) = batch(home, tmp_path, lambda task, episode: "42", budget, 1)
    assert isinstance(found.outcome, Missing)
    assert found.outcome.reason == "cap.experiment"


def test_after_a_call_that_cannot_be_priced_no_further_episode_of_a_batch_begins(home: Home, tmp_path: Path) -> None:
    calls = []

    def unpriced(task: Task, episode: Any) -> str:
        calls.append(episode.attempt)
        with episode.record.model(model="of-our-own") as call:
            call.done("42", input_tokens=1, output_tokens=1)
        return "42"

    found = batch(home, tmp_path, unpriced, Budget("experiment", Caps(usd=1.0)), 5)
    assert calls == [0]
    assert {getattr(r.outcome, "reason", None) for r in found} == {"cap.experiment"}
    assert {r.stopped_by for r in found} == {"unmetered.usd"}
