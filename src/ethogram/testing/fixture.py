"""The object that a marked test uses during an attempt: its recorder, its random numbers, its answer and its checks."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from ethogram.capture.draft import Draft
from ethogram.harness.handle import EpisodeHandle
from ethogram.plans import Episode
from ethogram.traces import Kind


class NotedCheck(msgspec.Struct, frozen=True):
    """One check that a test noted."""

    name: str
    passed: bool
    why: str
    required: bool


class EpisodeFixture:
    """The fixture `episode`: one attempt of a marked test. Model calls of known clients are recorded without it."""

    def __init__(self, planned: Episode) -> None:
        """Built by the plug-in for every attempt, before the fixtures of the test are."""
        self.attempt = planned.attempt
        """The number of this attempt, from 0."""
        self.seed = planned.seed
        """The seed of this attempt: the same for the same attempt of every session."""
        self.answer: Any = None
        """The final answer of the agent: text, or anything that JSON can hold."""
        self.checks: list[NotedCheck] = []
        self._begun: EpisodeHandle | None = None

    def __repr__(self) -> str:
        return f"<attempt {self.attempt}>"

    def begin(self, handle: EpisodeHandle) -> None:
        """The body is about to run; where the world failed and it runs once more, what it noted before is forgotten."""
        self._begun, self.answer, self.checks = handle, None, []

    @property
    def _handle(self) -> EpisodeHandle:
        if self._begun is None:
            raise RuntimeError("the attempt has not begun yet: use this in the body of the test, not in a fixture")
        return self._begun

    @property
    def rng(self) -> random.Random:
        """Randomness that follows from the seed."""
        return self._handle.rng

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables for a program that the test starts, so that its model calls are recorded too."""
        return self._handle.environment

    @property
    def meta(self) -> dict[str, Any]:
        """Facts that the trace keeps, e.g. the version of the agent."""
        return self._handle.meta

    def check(self, name: str, passed: bool, why: str = "", *, required: bool = True) -> bool:
        """Note what a check found; a required one that fails is a failed attempt, and the test goes on.

        Example: `episode.check("cites a source", "http" in answer, answer)`
        """
        self.checks.append(NotedCheck(name, bool(passed), why, required))
        return bool(passed)

    def tool(self, name: str, function: Callable[..., Any], **arguments: Any) -> Any:
        """Call a tool as a step of the trace; in a replay its recorded result is given. See also `eth.tool`."""
        record = self._handle.record
        return record.tool(name, record.own_tool(name, function), **arguments)

    def span(self, name: str, kind: Kind = "other") -> AbstractContextManager[Draft]:
        """A span around a part of the attempt, e.g. `with episode.span("plan"): …`."""
        return self._handle.record.span(name, kind)
