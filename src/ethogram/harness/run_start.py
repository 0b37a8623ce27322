"""The start of a run: write its plan, then execute its episodes in one session."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ethogram.errors import BadInput, NotFound
from ethogram.plans import Episode, Suite
from ethogram.store import Home, home_of
from ethogram.store.lake import GOLDEN, METERS, TASK_DIGESTS
from ethogram.store.redact import policy_from
from ethogram.suites.golden import golden_mark
from ethogram.traces import EpisodeId, Head, episode_id

from .answers import AnswersFor
from .options import RunOptions
from .planning import (
    AgentSpec,
    SuiteSpec,
    agent_for,
    check_meters,
    first_episodes,
    fresh_name,
    is_captured,
    meters_of,
    suite_of,
)
from .run_result import Quiet, RunResult, Watcher
from .session import Session


def run_episodes(
    suite: SuiteSpec,
    agent: AgentSpec,
    episodes: Sequence[Episode],
    options: RunOptions,
    *,
    answers_for: AnswersFor,
    kind: str = "run",
    home: Home | str | None = None,
    progress: Watcher | None = None,
    more: Mapping[str, Any] | None = None,
) -> RunResult:
    """Run some episodes of a suite, answered by what `answers_for` gives for each, into a new run.

    `episodes` are used as they are, but for the name of the agent and what follows from it: `again` makes one of a
    recorded head. `kind` is `REPLAY` for a run whose answers are all recorded, so that no verb counts its episodes as
    samples; `more` is what `run.json` keeps about the plan. The rest is as in `run_suite`.
    """
    return begin_run(suite, agent, options, home, progress, more, episodes=episodes, answers_for=answers_for, kind=kind)


def again(head: Head, attempt: int | None = None) -> Episode:
    """The episode of a recorded trace, to be run once more with the same seed; `attempt` tells repeats apart."""
    number = head.attempt if attempt is None else attempt
    return _named(
        Episode(
            id=EpisodeId(""), task=head.task, agent="", attempt=number, seed=head.seed or 0, condition=head.condition
        ),
        head.agent,
    )


def _named(episode: Episode, agent: str) -> Episode:
    """The episode with another agent: its id follows from that."""
    made = episode_id("plan", agent, episode.condition, episode.task, str(episode.attempt))
    return msgspec.structs.replace(episode, id=made, agent=agent)


def begin_run(
    suite: SuiteSpec,
    agent: AgentSpec,
    options: RunOptions,
    home: Home | str | None = None,
    progress: Watcher | None = None,
    more: Mapping[str, Any] | None = None,
    episodes: Sequence[Episode] | None = None,
    answers_for: AnswersFor | None = None,
    kind: str = "run",
) -> RunResult:
    """A new run, from its first episode to its last."""
    options = options.resolved()
    lake = home_of(home)
    loaded, acting = suite_of(suite), agent_for(agent, options)
    planned = first_episodes(loaded, acting.name, options)
    if episodes is not None:
        known = [t.id for t in loaded.suite.tasks]
        if lost := next((e.task for e in episodes if e.task not in known), None):
            raise NotFound.named("task", lost, known, where=f"suite {loaded.suite.name}")
        planned = tuple(_named(e, acting.name) for e in episodes)
    check_meters(acting, options, loaded.suite)
    policy_from(options.redact)
    spec = agent if isinstance(agent, str) else acting.name
    mark = golden_mark(loaded.golden, loaded.suite)
    record = {
        **suite_record(loaded.suite, len(planned)),
        "suite": loaded.suite.name if isinstance(suite, Suite) else str(suite),
        **({} if mark is None else {GOLDEN: msgspec.to_builtins(mark)}),
        "tasks": list(dict.fromkeys(e.task for e in planned)),
        "agent": spec,
        METERS: sorted(meters_of(acting, options)),
        "captured": is_captured(acting, options),
        "options": options.recorded(),
        **(more or {}),
    }
    run = lake.create(
        options.name or fresh_name(lake, loaded.suite.name),
        kind,
        tags=options.tags,
        redaction=options.redact,
        meta=dict(options.meta),
        plan=record,
    )
    try:
        session = Session(lake, run, loaded, acting, spec, options, answers_for)
        result = session.go(planned, (), progress or Quiet())
    except BadInput:
        if not run.segments():  # it was refused before anything was done: there is no run to go on with
            lake.files.delete(run.path)
        raise
    if mark is not None and mark.unrecorded:
        result.warnings = (
            *result.warnings,
            f"the suite has changes that its version {mark.version} does not have ({mark.unrecorded.words()}): no gate "
            f"will accept this run; record them with: ethogram golden freeze {record['suite']} --why REASON",
        )
    return result


def suite_record(suite: Suite, planned: int) -> dict[str, Any]:
    """What `run.json` keeps of every suite: its versions, by which runs may be compared, and which code ran it."""
    return {
        "suite_name": suite.name,
        "suite_digest": suite.digest,
        TASK_DIGESTS: suite.task_digests(),
        "success_at": suite.success_at,
        "tasks": [t.id for t in suite.tasks],
        "planned": planned,
        "provenance": _provenance(),
    }


def _provenance() -> dict[str, str]:
    """Which code ran: enough to run it again."""
    facts = {"python": platform.python_version(), "system": platform.system()}
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607 - the user's own git
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=5,
            check=False,
            cwd=Path.cwd(),
        )
        if asked.returncode == 0:
            facts["git_commit"] = asked.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        pass
    return facts
