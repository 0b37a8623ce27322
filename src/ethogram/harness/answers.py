"""Recorded answers in place of models, tools and the simulated user: a whole record, or one up to a step.

A run is given `answers_for`, which is asked once for every try at an episode. What it gives is asked first about every
model call of that try (at the gateway), every call of a tool of the suite or of `eth.tool` (by the recorder), and every
question to the simulated user, whether the agent is a function, a command or isolated. None leaves an episode live.

    answers_for = lambda episode: MyAnswers(…)
    run_episodes(suite, agent, episodes, options, answers_for=answers_for, home=home)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ethogram.capture.builder import TraceBuilder
from ethogram.plans import Episode
from ethogram.traces import Missing
from ethogram.wire.gateway.call import CallPolicy

from .handle import EpisodeHandle

Simulator = Callable[[Any, str], Any]
"""Who plays the user: from the episode and what the agent says to the user's reply, or an awaitable of it."""
SERVED_TOOLS = "served_tools"
"""A fact in the head of a trace: how many calls of tools were answered without being carried out."""


class Answers(Protocol):
    """What answers in one try at one episode. Used from several threads: the gateway's, and those of the agent."""

    @property
    def policies(self) -> Sequence[CallPolicy]:
        """Decide about each model call at the gateway, the first that has an opinion."""
        ...

    @property
    def over(self) -> bool:
        """Whether the agent can get no further: what it raises from now on is a consequence, and not its fault."""
        ...

    def begin(self, episode: EpisodeHandle) -> None:
        """The episode is about to act."""
        ...

    def stand_in(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """What is called in place of a tool; `function` itself leaves it as it is."""
        ...

    def reply(self, simulator: Simulator | None) -> Simulator | None:
        """Who plays the user in place of the simulator of the task, which may have none."""
        ...

    def close(self, trace: TraceBuilder) -> Missing | None:
        """The agent has ended: note in its trace what was answered; gives the outcome where nothing can be judged."""
        ...


AnswersFor = Callable[[Episode], Answers | None]
"""Gives fresh answers for each try at an episode, or None to leave it live.

May raise `BadInput`: the outcome of the episode is then missing, with that sentence.
"""
