"""The world of a fork: rebuilt by running it again up to the step, and left alone from then on.

Tools and the simulated user are called as they were, in a fresh workspace, and must give what they gave: only so is the
world after the step the one in which the trace went on. Tools that only look may answer from the trace.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Sequence, Set
from difflib import unified_diff
from typing import Any, Protocol

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.parse import to_json
from ethogram.prices import CapReached
from ethogram.store.redact import Redactor
from ethogram.traces import Missing, Span, Trace, canonical_json, cut_whole

from .episode_replay import ReplayDeviation, recorded_result
from .fork import ForkChange, ForkPolicy
from .playback import Deviation
from .recorded_tools import RecordedCall, RecordedTools, Redact, began

MOST_CHARS = 2000
"""Of a difference this much is kept with the outcome of an episode."""


class Reseeded(Protocol):
    """What a fork needs of an episode: another seed for all that it draws from then on."""

    def reseed(self, seed: int) -> None:
        """Go on with another seed."""
        ...


class EpisodeFork:
    """What answers in one continuation of a trace. May be used from several threads."""

    def __init__(
        self,
        trace: Trace,
        redactor: Redactor,
        at: int,
        change: ForkChange | None,
        *,
        seed: int,
        keep_answer: bool = False,
        read_only: Set[str] = frozenset(),
    ) -> None:
        """`seed` is what is drawn with from the step on; `read_only` are tools that may answer from the trace.

        The rest is as in `ForkPolicy`, which also says what this raises.
        """
        self.trace = trace
        self.policy = ForkPolicy(trace, redactor, at, change, keep_answer=keep_answer, seed=seed, on_live=self._go_live)
        self._redact: Redact = lambda value, field: redactor.redact(value, field).text
        self._read_only = read_only
        self._seed = seed
        self._episode: Reseeded | None = None
        step = trace.steps[self.policy.step]
        self._tools = RecordedTools(trace, self._redact, before=step)
        self._steps = {span.span_id: number for number, span in enumerate(trace.steps)}
        self._users = deque(
            s for s in trace.spans if s.kind == "user" and s.lane == "user" and s.output and began(s) < began(step)
        )

    @property
    def policies(self) -> Sequence[ForkPolicy]:
        """Recorded answers up to the step, one change there, live calls after it."""
        return (self.policy,)

    @property
    def over(self) -> bool:
        """Whether something before the step was not as it was recorded."""
        return self.policy.playback.deviation is not None

    def begin(self, episode: Reseeded) -> None:
        """The episode that is about to act: it draws with the recorded seed until the step."""
        self._episode = episode

    def stand_in(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The tool itself, whose result is held against the recorded one before the step."""
        if inspect.iscoroutinefunction(function):

            async def later(**arguments: Any) -> Any:
                call = self._recorded(name, arguments)
                if call is None:
                    return await function(**arguments)
                if self._is_served(call):
                    return recorded_result(call)
                try:
                    result = await function(**arguments)
                except Exception as error:
                    self._check_error(call, error)
                    raise
                return self._checked(call, result)

            return later

        def at_once(**arguments: Any) -> Any:
            call = self._recorded(name, arguments)
            if call is None:
                return function(**arguments)
            if self._is_served(call):
                return recorded_result(call)
            try:
                result = function(**arguments)
            except Exception as error:
                self._check_error(call, error)
                raise
            return self._checked(call, result)

        return at_once

    def reply(self, simulator: Callable[[Any, str], Any] | None) -> Callable[[Any, str], Any] | None:
        """The simulated user itself, whose words are held against the recorded ones before the step."""
        if simulator is None:
            return None

        def answered(episode: Any, text: str) -> Any:
            if self.policy.live:
                return simulator(episode, text)
            step = self._next_user(text)
            said = simulator(episode, text)
            return self._later(step, said) if inspect.isawaitable(said) else self._heard(step, said)

        return answered

    def close(self, trace: TraceBuilder) -> Missing | None:
        """Note where the trace comes from; gives a missing outcome where the step was not reached as recorded."""
        trace.meta.update(forked_from=self.trace.head.trace_id, forked_at=self.policy.step)
        deviation = self.policy.playback.deviation
        if deviation is None and not self.policy.live:
            deviation = Deviation(
                step=self.policy.step, why=f"the agent ended without the model call of step {self.policy.step}", live=""
            )
        if deviation is None:
            return None
        return Missing("deviation", cut_whole(f"{deviation.why}\n{deviation.diff}".strip(), MOST_CHARS))

    def _go_live(self) -> None:
        if self._episode is not None:
            self._episode.reseed(self._seed)

    def _is_served(self, call: RecordedCall) -> bool:
        return call.name in self._read_only and not call.unusable

    def _recorded(self, name: str, arguments: dict[str, Any]) -> RecordedCall | None:
        """The recorded call, or None where calls are live; raises where the record has none."""
        if self.policy.live:
            return None
        call = self._tools.answer(name, arguments)
        if call is None:
            left = [c for c in self._tools.left if c.name == name] or self._tools.left
            step = next((self._steps[c.span_id] for c in left if c.span_id in self._steps), self.policy.step)
            why = f"tool {name} was called with arguments that are not recorded up to step {self.policy.step}"
            raise self._deviates(step, why, self._tools.difference(name, arguments))
        return call

    def _checked(self, call: RecordedCall, result: Any) -> Any:
        got = self._redact(result if isinstance(result, str) else to_json(result), "result")
        if call.failed or call.result is None or canonical_json(got) != canonical_json(call.result):
            raise self._differs(call, got)
        return result

    def _check_error(self, call: RecordedCall, error: Exception) -> None:
        if isinstance(error, CapReached | ReplayDeviation):
            return
        got = self._redact(f"{type(error).__name__}: {error}", "error")
        if got != call.error:
            raise self._differs(call, got) from error

    def _differs(self, call: RecordedCall, got: str) -> ReplayDeviation:
        step = self._steps.get(call.span_id, self.policy.step)
        recorded = call.error if call.failed else call.result
        why = f"tool {call.name} {call.arguments} (step {step}) returned a different result"
        if recorded is None:
            why = f"tool {call.name} {call.arguments} (step {step}) returned a result that was not recorded"
        return self._deviates(step, why, _difference(recorded or "", got))

    def _next_user(self, text: str) -> Span:
        if not self._users:
            said = self._redact(text, "output")
            why = f"the agent asked the user something that is not recorded before step {self.policy.step}"
            raise self._deviates(self.policy.step, why, said)
        return self._users.popleft()

    async def _later(self, span: Span, said: Any) -> str:
        return self._heard(span, await said)

    def _heard(self, span: Span, said: Any) -> str:
        got, recorded = self._redact(str(said), "output"), self.trace.message(span.output[0]).text
        if got != recorded:
            step = self._steps.get(span.span_id, self.policy.step)
            why = f"the simulated user (step {step}) gave a different reply"
            raise self._deviates(step, why, _difference(recorded, got))
        return str(said)

    def _deviates(self, step: int, why: str, difference: str) -> ReplayDeviation:
        self.policy.playback.deviate(Deviation(step=step, why=why, live=difference, diff=difference))
        return ReplayDeviation(f"{why}\n{difference}".rstrip())


def _difference(recorded: str, got: str) -> str:
    return "\n".join(unified_diff(recorded.split("\n"), got.split("\n"), "recorded", "got", lineterm=""))
