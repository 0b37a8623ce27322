"""The harness runs on its own event loop; the body of a test runs in the main thread, where pytest is.

The agent of the run hands every attempt over as a turn, with the context in which its calls are recorded, and waits
until pytest has played it.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal, NamedTuple, TypeVar

from ethogram.checks import CheckScore, Evidence
from ethogram.checks.verdicts import CheckResult, combine
from ethogram.harness.agents import OWN_METERS, Answer, answer_of
from ethogram.harness.executor import Wrap
from ethogram.harness.handle import EpisodeHandle
from ethogram.plans import Suite, Task
from ethogram.traces import Label, Missing, Outcome, digest

from .fixture import EpisodeFixture

T = TypeVar("T")
BODY = "test"
"""The check that the body of a test is: it fails where an assertion does."""


class PlayedBody(NamedTuple):
    """What became of the body in one attempt; `error` is what it raised, unless that was a failed assertion.

    `unscored` ones were skipped by their body.
    """

    episode: EpisodeFixture
    result: Literal["passed", "failed", "unscored"]
    why: str = ""
    error: Exception | None = None


class Turn(NamedTuple):
    """An attempt that is to be played now, in this context."""

    handle: EpisodeHandle
    context: contextvars.Context
    played: Future[PlayedBody]


class TestBody:
    """The agent of the run: the body of a test."""

    name = "pytest"
    meters: frozenset[str] = OWN_METERS

    def __init__(self) -> None:
        self.turns: SimpleQueue[Turn | None] = SimpleQueue()
        self.latest: PlayedBody | None = None

    async def act(self, task: Task, episode: EpisodeHandle) -> Answer:
        """Hand the attempt over, and wait until it was played."""
        turn = Turn(episode, contextvars.copy_context(), Future())
        self.latest = None
        self.turns.put(turn)
        self.latest = played = await asyncio.wrap_future(turn.played)
        if played.error is not None:
            raise played.error  # whose fault it was is the harness's to say
        return answer_of(played.episode.answer)


class TestWorld:
    """Tests as the suite of an executor: the body and the checks that it noted decide."""

    def __init__(self, suite: Suite, body: TestBody) -> None:
        self.suite = suite
        self.root = Path.cwd()
        self.files: Sequence[Path] = ()
        self._body = body

    def tools(self, task: Task, handle: EpisodeHandle) -> dict[str, Callable[..., Any]]:
        """A test brings its own."""
        return {}

    def check_unchanged(self, task: str | None = None) -> None:
        """Tests are code of this process, which was read once."""

    def simulator(self, task: Task) -> None:
        """Nobody plays a user."""

    def judge(self, task: Task, evidence: Evidence, wrap: Wrap) -> tuple[list[Label], Outcome]:
        """What the body and its checks say of the attempt that was played last."""
        played = self._body.latest
        if played is None or played.result == "unscored":
            return [], Missing("unscored", "the body was not played" if played is None else played.why)
        definition = digest(str(task.meta.get("source")))[-8:]
        passed = played.result == "passed"
        results = [_check(BODY, "pytest", definition, passed, played.why)]
        results += [_check(c.name, "noted", definition, c.passed, c.why, c.required) for c in played.episode.checks]
        return [r.label() for r in results], combine(results)

    def judges_at_once(self, task: Task) -> bool:
        """It is known already."""
        return True


class Loop:
    """An event loop in a thread of its own, for as long as the session lasts."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ethogram-tests", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin something there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Cancel what is left, and end."""
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join()
        self._loop.close()

    def _end(self) -> None:
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        gathered = asyncio.gather(*left, return_exceptions=True)
        gathered.add_done_callback(lambda _: self._loop.stop())


def _check(name: str, kind: str, definition: str, passed: bool, why: str, required: bool = True) -> CheckResult:
    verdict = CheckScore(float(passed), why)
    return CheckResult(name=name, kind=kind, definition=definition, required=required, verdict=verdict)
