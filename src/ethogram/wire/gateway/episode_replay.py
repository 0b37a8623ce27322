"""Everything that answered in a recorded episode, to answer again: models, tools and the simulated user.

Tools of the suite and of `eth.tool` are called through the recorder, which asks `EpisodeReplay.stand_in` for what to
call instead. Nothing outside the agent itself is called while the record has an answer.
"""

from __future__ import annotations

import builtins
import inspect
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from ethogram.store.redact import Redactor
from ethogram.traces import Trace
from ethogram.wire.recorder import RETURNED, SEEN

from .playback import Deviation, Mode, Playback
from .recorded_tools import RecordedCall, RecordedTools, Redact


class ReplayDeviation(Exception):
    """A tool or the user was asked for something that is not in the record."""


class RecordedToolError(Exception):
    """A tool failed in the record, with an error of a kind that does not exist here."""


class EpisodeReplay:
    """Answers of one recorded episode. May be used from several threads."""

    def __init__(self, trace: Trace, redactor: Redactor, mode: Mode = "strict") -> None:
        """Read a trace; raises what `Playback` raises for one that cannot be served."""
        self.trace = trace
        self.tools_served = 0
        self.redact: Redact = lambda value, field: redactor.redact(value, field).text
        """How words of the trace were stored."""
        self._tools = RecordedTools(trace, self.redact)
        self._steps = {span.span_id: step for step, span in enumerate(trace.steps)}
        self._users = deque(s for s in trace.spans if s.kind == "user" and s.output)
        self.has_user = bool(self._users)
        """Whether a user speaks in the record."""
        self.playback = Playback(trace, redactor, mode, may_be_empty=self.has_user or bool(self._tools.calls))

    @property
    def mode(self) -> Mode:
        """`strict` or `lenient`."""
        return self.playback.mode

    @property
    def deviation(self) -> Deviation | None:
        """The first request, call or question that is not in the record."""
        return self.playback.deviation

    @property
    def own_tools(self) -> int:
        """Recorded calls of tools of the agent's own: nobody can stand in for them, so it carries them out again."""
        return sum(SEEN in call.attributes for call in self._tools.calls)

    @property
    def recorded_tools(self) -> int:
        """Recorded calls of tools that can be answered."""
        return len(self._tools.calls) - self.own_tools

    def end(self, lost_tool: str | None = None) -> None:
        """The agent has ended: a model call that it never made again is a deviation too.

        `lost_tool` is why a call of a tool over MCP was not in the record, if there was such a call.
        """
        if lost_tool is not None:
            place = next(iter(self.playback.unserved), len(self.trace.steps))
            why, _, shown = lost_tool.partition("\n")
            self.playback.deviate(Deviation(step=place, why=why.rstrip(":"), live=shown, diff=shown))
        step = self.playback.first_divergence
        if step is not None:
            why = f"the agent ended without the model call of step {step}"
            if not self.playback.served:
                why += "; no call came to the gateway: if it asked a model, then live, at an address of its own"
            self.playback.deviate(Deviation(step=step, why=why, live=""))

    def stand_in(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """What is called in place of a tool: the same shape, answered from the record."""
        if inspect.iscoroutinefunction(function):

            async def later(**arguments: Any) -> Any:
                call = self._recorded(name, arguments)
                return await function(**arguments) if call is None else recorded_result(call)

            return later

        def at_once(**arguments: Any) -> Any:
            call = self._recorded(name, arguments)
            return function(**arguments) if call is None else recorded_result(call)

        return at_once

    def reply(self, simulator: Callable[[Any, str], Any] | None) -> Callable[[Any, str], Any]:
        """Who plays the user: the record, and after a lenient deviation the simulator."""

        def answered(episode: Any, text: str) -> Any:
            if not self.playback.live:
                if self._users:
                    return self.trace.message(self._users.popleft().output[0]).text
                step = next(iter(self.playback.unserved), len(self.trace.steps))
                self._deviate(step, "the agent asks the user once more than in the record", text)
            if simulator is None:
                raise LookupError("this task has no user simulator")
            return simulator(episode, text)

        return answered

    def _recorded(self, name: str, arguments: dict[str, Any]) -> RecordedCall | None:
        """The recorded call, or None where the tool itself is to be called."""
        if self.playback.live:
            return None
        call = self._tools.answer(name, arguments)
        if call is None:
            left = [c for c in self._tools.left if c.name == name] or self._tools.left
            step = next((self._steps[c.span_id] for c in left if c.span_id in self._steps), len(self.trace.steps))
            self._deviate(step, f"a call of {name} is not in the record", self._tools.difference(name, arguments))
            return None
        if call.unusable:
            step = self._steps.get(call.span_id, 0)
            self._deviate(step, f"the answer of {name} cannot be served again: {call.unusable}", "")
            return None
        self.tools_served += 1
        return call

    def _deviate(self, step: int, why: str, difference: str) -> None:
        """Remember a deviation; raises it unless the replay is lenient."""
        self.playback.deviate(Deviation(step=step, why=why, live=difference, diff=difference))
        if self.mode == "strict":
            raise ReplayDeviation(f"{why}\n{difference}".rstrip())


def recorded_result(call: RecordedCall) -> Any:
    """What a tool gave, or its error once more."""
    if call.failed and call.result is None:
        kind, _, words = (call.error or "").partition(": ")
        known = getattr(builtins, kind, None)
        if isinstance(known, type) and issubclass(known, Exception):
            try:
                error = known(words)
            except TypeError:  # UnicodeDecodeError and its like want more than words
                error = RecordedToolError(call.error or "")
            raise error
        raise (
            type(kind, (RecordedToolError,), {})(words) if kind.isidentifier() else RecordedToolError(call.error or "")
        )
    text = call.result or ""
    return msgspec.json.decode(text) if call.attributes.get(RETURNED) == "json" else text
