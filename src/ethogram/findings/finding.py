"""Findings of rules in one trace: the records that detectors return, and their further inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import msgspec

from ethogram.checks.settings import ExpectedCall, ToolCallsCheck
from ethogram.display.shorten import shortened

FailureClass = Literal["wrong_tool", "bad_args", "hallucinated_state", "gave_up", "loop", "budget", "infrastructure"]
FAILURE_CLASSES: tuple[str, ...] = get_args(FailureClass)
FindingSource = Literal["verifier", "reference", "class", "event", "template"]
Category = Literal["wrong_arguments", "other_call", "missing_call", "extra_call", "same_calls"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
"""How the calls of a run differ from the reference; each run has the first of these that fits."""

MOST_WORDS = 300
"""Findings quote no more characters than this."""


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that a rule found in a trace.

    `name` is the same in every trace where the same thing happens, so that it can be counted: `loop:search_flights`,
    `error:1f3a9c02`, `wrong_arguments:cancel_reservation.user_id`. `step` is a position in `trace.steps`; None where
    the finding is about the whole trace. `text` holds words of the trace itself. Of all sources only `verifier` says
    anything about the outcome.
    """

    name: str
    source: FindingSource
    text: str = ""
    cls: FailureClass | None = None
    step: int | None = None
    detail: dict[str, Any] = {}


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known beside a trace.

    `expected` are the calls of the reference, None where there is none; `compare` says how their arguments are compared
    and which calls may be missing or extra. `changing` are the tools that change the world, None where nobody declared
    them: then names decide. `reads_count` says that expected calls count although they only read, as in the checks of a
    suite. `offered` are the tools that models could ask for, empty where that is unknown. `redact` gives the form in
    which a text of the suite is stored.
    """

    expected: tuple[ExpectedCall, ...] | None = None
    compare: ToolCallsCheck = msgspec.field(default_factory=lambda: ToolCallsCheck(mode="unordered"))
    changing: frozenset[str] | None = None
    reads_count: bool = False
    offered: frozenset[str] = frozenset()
    redact: Callable[[str], str] | None = None


class Blamed(msgspec.Struct, frozen=True, kw_only=True):
    """The step that rules blame for a failure, the agent that took it, and the finding that the choice rests on."""

    step: int
    agent: str = ""
    finding: Finding | None = None


def quoted(text: str, width: int = MOST_WORDS) -> str:
    """Words of a trace on one line, cut to a width."""
    line = " ".join(text[: 4 * width].split())
    return shortened(line, width)
