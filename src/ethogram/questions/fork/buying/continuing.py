"""Continue a run whose episodes were chosen one by one."""

from __future__ import annotations

from collections.abc import Sequence

from ethogram.harness.agents import Agent
from ethogram.harness.answers import AnswersFor
from ethogram.harness.options import RunOptions
from ethogram.harness.planning import SuiteSpec, check_meters, suite_of
from ethogram.harness.run_result import Quiet, RunResult, Watcher
from ethogram.harness.session import Session
from ethogram.plans import Episode
from ethogram.store import Home, home_of
from ethogram.store.lease import check_idle
from ethogram.store.stop import release


def more_episodes(
    run: str,
    suite: SuiteSpec,
    agent: Agent,
    episodes: Sequence[Episode],
    options: RunOptions,
    *,
    answers_for: AnswersFor,
    retry: Sequence[str] = (),
    resume: bool = True,
    home: Home | str | None = None,
    progress: Watcher | None = None,
) -> RunResult:
    """Run those of some episodes that a run of `run_episodes` lacks, and those missing for a reason of `retry`.

    The suite, the agent and the options are those with which the run began; caps and prices may have changed. The ids
    of the episodes are used as they are. To `resume` is to go on though the kill switch of the run was pulled earlier.
    """
    options = options.resolved()
    lake = home_of(home)
    found, loaded = lake.resolve(run), suite_of(suite)
    check_meters(agent, options, loaded.suite)
    check_idle(found.files, found.path)
    if resume:
        release(found.files, found.path)
    session = Session(lake, found, loaded, agent, agent.name, options, answers_for)
    return session.go(tuple(episodes), retry, progress or Quiet())
