"""The object that an agent uses while it works on an episode."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ethogram.errors import NotFound
from ethogram.plans import Task, derived_seed
from ethogram.prices import Budget, CapReached
from ethogram.traces import Message, Text
from ethogram.wire.recorder import Recorder

from .faults import OtherFault, fault_of
from .processes import CommandBounds

if TYPE_CHECKING:
    from .live import EpisodeCapture


class Tools(Mapping[str, Callable[..., Any]]):
    """The tools of a task, by name; every call is recorded and counted."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]], record: Recorder | None) -> None:
        """`functions` are the plain tools; where there are none, no recorder is needed."""
        self._functions = dict(functions)
        self._record = record

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name not in self._functions:
            # a LookupError, not one of ours: asking for a tool that is not there is the agent's own doing
            raise LookupError(str(NotFound.named("tool", name, list(self._functions))))
        function = self._functions[name]

        def call(**arguments: Any) -> Any:
            assert self._record is not None
            return self._record.tool(name, function, **arguments)

        call.__doc__ = function.__doc__
        call.__name__ = name
        return call

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def plain(self, name: str) -> Callable[..., Any]:
        """The function behind a tool, for its signature and its words."""
        return self._functions[name]


_NO_TOOLS = Tools({}, None)


class EpisodeHandle:
    """One attempt at one task: its tools, its recorder, its own randomness, and what is left of its budget."""

    def __init__(
        self,
        task: Task,
        seed: int,
        record: Recorder,
        budget: Budget,
        *,
        workspace: Path | None = None,
        condition: Mapping[str, Any] | None = None,
        attempt: int = 0,
        environment: Mapping[str, str] | None = None,
        wrap: Callable[..., list[str]] | None = None,
        bounds: CommandBounds | None = None,
        capture: EpisodeCapture | None = None,
    ) -> None:
        """Built by the harness; `task` is what the agent may see of it (`Task.for_agent`).

        `environment` is what a program may know of ours; `wrap` and `bounds` isolate and limit it, for agents that
        start one; `capture` is where its model calls are seen.
        """
        self.task = task
        self.seed = seed
        self.attempt = attempt
        self.record = record
        self.tools = _NO_TOOLS
        self.workspace = workspace
        self.condition: Mapping[str, Any] = condition or {}
        self.capture = capture
        self._environment: Mapping[str, str] = environment or {}
        self.meta: dict[str, Any] = {}
        self.bounds = bounds or CommandBounds()
        self.wrap: Callable[..., list[str]] = wrap or (lambda argv, folders, programs=(): list(argv))
        self._budget = budget
        self._simulator: Callable[[EpisodeHandle, str], Any] | None = None

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """The variables of a program that the agent starts."""
        return self._environment if self.capture is None else {**self._environment, **self.capture.variables}

    @cached_property
    def _drawn(self) -> WeakKeyDictionary[random.Random, str]:
        """Who draws by now, and for what."""
        return WeakKeyDictionary()

    @cached_property
    def rng(self) -> random.Random:
        """The agent's own randomness, seeded by its episode."""
        return self.random("agent")

    def attach(
        self, tools: Mapping[str, Callable[..., Any]], simulator: Callable[[EpisodeHandle, str], Any] | None
    ) -> None:
        """Give the agent its tools (they may need the episode themselves) and its user."""
        self.tools = Tools(tools, self.record) if tools else _NO_TOOLS
        self._simulator = simulator

    def ask_user(self, text: str) -> Any:
        """Say something to the simulated user: an async agent awaits the reply, a plain function gets it at once."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._ask(text))
        return self._ask(text)

    async def _ask(self, text: str) -> str:
        """The reply, recorded in the user's own lane."""
        if self._simulator is None:
            # a LookupError, as with tools: to ask where nobody is there to answer is the agent's own doing
            raise LookupError(f"task {self.task.id!r} has no user simulator")
        with self.record.span("user", "user", lane="user") as span:
            try:
                reply = self._simulator(self, text)
                said = str(await reply if inspect.isawaitable(reply) else reply)
            except CapReached:
                raise
            except Exception as error:
                if fault_of(error) is not None:
                    raise
                raise OtherFault(f"the simulated user crashed: {type(error).__name__}: {error}") from error
            span.output = (Message("user", (Text(said),)),)
        return said

    @property
    def remaining(self) -> dict[str, float]:
        """What is left of each limited resource: an agent may look, summarise and stop in good order."""
        return {str(k): v for k, v in self._budget.remaining().items()}

    def random(self, purpose: str) -> random.Random:
        """Randomness for one purpose, the same on every machine and in any order."""
        drawn = random.Random(derived_seed(self.seed, purpose))
        self._drawn[drawn] = purpose
        return drawn

    def reseed(self, seed: int) -> None:
        """Draw with another seed from here on, also where something draws already: what was drawn stays."""
        self.seed = seed
        for drawn, purpose in list(self._drawn.items()):
            drawn.seed(derived_seed(seed, purpose))
