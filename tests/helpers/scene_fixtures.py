"""Small traces for tests of detectors: a model that says something and calls tools, one after the other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.memory import MemorySink
from ethogram.traces import Message, Origin, Outcome, Text, ToolCall, ToolResult, Trace, episode_id, trace_id


class Scene:
    """Builds a trace step by step: `Scene("Book it").calls("search", {"to": "SEA"}, "HAT136").says("Done.")`."""

    def __init__(self, prompt: str = "Help the customer.", format: str = "run", **meta: Any) -> None:
        self._done: list[Trace] = []
        intake = Intake(lambda _: MemorySink(self._done), Origin(format), SourceReport(source="test"))
        self.builder = TraceBuilder(intake, trace_id("test", "scene"), episode_id("t", "0"))
        self.builder.task = "t"
        self.builder.meta = meta
        self._unread: list[Message] = []
        if prompt:
            self.user(prompt)

    def user(self, words: str) -> Scene:
        message = Message("user", (Text(words),))
        self.builder.add(Draft(kind="user", name="user", output=(message,)))
        self._unread.append(message)
        return self

    def says(self, words: str, stop: str = "stop", agent: str = "", failed: str | None = None) -> Scene:
        output = (Message("assistant", (Text(words),)),) if words else ()
        self._model(output, stop, agent, failed)
        return self

    def calls(
        self, tool: str, arguments: Any, result: str | None = "ok", *, failed: bool = False, words: str = ""
    ) -> Scene:
        """A model step that asks for a tool, and the tool's step; `result` is None where it never came back."""
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        said = (Text(words),) if words else ()
        self._model((Message("assistant", (*said, ToolCall(tool, written))),), "tool_calls", "", None)
        draft = Draft(kind="tool", name=tool, tool=tool, arguments=written)
        if result is not None:
            answer = Message("tool", (ToolResult(result, tool, failed=failed),))
            draft.result, draft.output, draft.status = result, (answer,), "error" if failed else "ok"
            self._unread.append(answer)
        self.builder.add(draft)
        return self

    def done(self, outcome: Outcome | None = None) -> Trace:
        if outcome is not None:
            self.builder.outcome = outcome
        self.builder.close()
        return self._done[0]

    def _model(self, output: tuple[Message, ...], stop: str, agent: str, failed: str | None) -> None:
        given = tuple(self._unread)
        self._unread = []
        self.builder.add(
            Draft(
                kind="model",
                name="chat",
                input=given,
                growing=True,
                output=output,
                stop_reason=stop,
                agent=agent,
                lane=agent,
                error=failed,
            )
        )


@pytest.fixture
def scene() -> type[Scene]:
    """Builds small traces."""
    return Scene
