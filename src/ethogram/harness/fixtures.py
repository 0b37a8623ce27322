"""Tasks with a fixture: their tools answer from recorded observations, while models are asked live."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.errors import BadInput
from ethogram.plans import Task
from ethogram.traces import Missing
from ethogram.wire.fixture import FixturePlayer, UnrecordedCall, read_fixture
from ethogram.wire.gateway.call import CallPolicy

from .answers import SERVED_TOOLS, Simulator
from .handle import EpisodeHandle


class FixtureAnswers:
    """The answers of a task's fixture in one try.

    An agent that calls a tool in a way that nobody recorded gets no further: what the tool would have said is not
    known, so the outcome is missing and not the agent's fault.
    """

    def __init__(self, task: Task, root: Path) -> None:
        """Read the fixture; raises `BadInput` for one that cannot be used."""
        assert task.fixture is not None
        self.task = task
        try:
            data = (root / task.fixture.path).read_bytes()
        except OSError as error:
            raise BadInput(
                f"the fixture {task.fixture.path!r} cannot be read: {error.strerror}", where=str(task.fixture.path)
            ) from None
        self.fixture = read_fixture(data, task.fixture.path)
        self.player = FixturePlayer(self.fixture)

    @property
    def policies(self) -> Sequence[CallPolicy]:
        """Model calls are live."""
        return ()

    @property
    def over(self) -> bool:
        """Whether a call was made that is not recorded."""
        return self.player.unrecorded is not None

    def begin(self, episode: EpisodeHandle) -> None:
        """Tools over MCP answer from the fixture too."""
        if episode.capture is not None:
            episode.capture.answer_some_tools(self.player)

    def stand_in(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The recorded observations in place of a tool; one that the fixture does not know stays as it is."""
        if name not in self.fixture.tools:
            return function
        if inspect.iscoroutinefunction(function):

            async def later(**arguments: Any) -> Any:
                return self.player.call(name, arguments)

            return later

        def at_once(**arguments: Any) -> Any:
            return self.player.call(name, arguments)

        return at_once

    def reply(self, simulator: Simulator | None) -> Simulator | None:
        """The user of the task."""
        return simulator

    def tools(self, own: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
        """The tools of the suite, and those that only the fixture knows."""
        return {**{name: _recorded_tool(name) for name in self.fixture.tools}, **own}

    def close(self, trace: TraceBuilder) -> Missing | None:
        """Note what was answered; an unrecorded call leaves nothing to judge."""
        if self.player.served:
            trace.meta[SERVED_TOOLS] = self.player.served
        if self.player.unrecorded is None:
            return None
        assert self.task.fixture is not None
        return Missing("deviation", f"{self.player.unrecorded}; add the observation to {self.task.fixture.path}")


def _recorded_tool(name: str) -> Callable[..., Any]:
    """A tool that exists in the record alone: it is always stood in for."""

    def recorded(**arguments: Any) -> Any:
        raise UnrecordedCall(f"{name} answers from the fixture only")

    recorded.__name__ = name
    recorded.__doc__ = f"{name}, answered from recorded observations."
    return recorded
