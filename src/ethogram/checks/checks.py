"""Checks: functions from what an agent left to a verdict. Pure: they see an answer, calls and a folder's name, and
nothing here runs anything (patterns are matched in processes of their own, for the sake of the clock)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ethogram.plugins import Known
from ethogram.traces import ToolCall, Trace, cut_whole, is_all_marked, is_marked


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What a check may look at. `trace` is there when a stored run is scored again, `workspace` right after an episode.

    `redact` is there when the texts were redacted before they were stored: what is expected passes through it too.
    `root` is the folder of the suite, for checks that name a file of it.
    """

    answer: str | None
    expected: Any = None
    inputs: dict[str, Any] = {}
    calls: tuple[ToolCall, ...] = ()
    workspace: Path | None = None
    trace: Trace | None = None
    redact: Callable[[str], str] | None = None
    root: Path | None = None


class CheckScore(msgspec.Struct, frozen=True):
    """What a check found: a score from 0 to 1, and why. None means that this evidence does not decide it."""

    score: float | None
    why: str = ""


CheckFunction = Callable[[Evidence, dict[str, Any]], CheckScore]


def _plugged() -> dict[str, CheckFunction]:
    from .settings import plugged_checks

    return {name: added.check for name, added in plugged_checks().values().items()}


_own: dict[str, CheckFunction] = {}
CHECKS: Known[CheckFunction] = Known(_own, _plugged)
"""The function of every kind of check that looks at the answer, the calls or the trace."""


def register(kind: str) -> Callable[[CheckFunction], CheckFunction]:
    """Enter a check under its kind; a second one of the same kind is a mistake."""

    def enter(function: CheckFunction) -> CheckFunction:
        if kind in _own:
            raise ValueError(f"there is a check of kind {kind!r} already")
        _own[kind] = function
        return function

    return enter


def answered(evidence: Evidence) -> str | CheckScore:
    """The answer, or the verdict on its absence: an agent without one failed; a log without one is unknown."""
    answer = evidence.answer
    if answer is not None:
        return CheckScore(None, "the answer was not kept: redaction replaced it") if is_all_marked(answer) else answer
    origin = evidence.trace.head.origin if evidence.trace is not None else None
    if origin is not None and origin.format != "run":
        return CheckScore(None, "the log has no final answer")
    return CheckScore(0.0, "there is no answer")


def is_veiled(evidence: Evidence) -> bool:
    """Whether redaction took something out of the answer, so that a pattern that does not fit proves nothing."""
    return evidence.redact is not None and evidence.answer is not None and is_marked(evidence.answer)


def spellings(text: str, evidence: Evidence) -> tuple[str, ...]:
    """The forms that an expected text may have in the answer: as it is, and redacted."""
    if evidence.redact is None:
        return (text,)
    return tuple(dict.fromkeys((text, evidence.redact(text))))


def wanted(given: Any, evidence: Evidence) -> Any:
    """What a check compares with: its own setting, else what the task expects."""
    return evidence.expected if given is msgspec.UNSET else given


def short(value: Any, width: int = 80) -> str:
    """A value in a sentence."""
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    line = " ".join(cut_whole(text, 4 * width).split())
    cut = line if len(line) <= width else cut_whole(line, width - 1) + "…"
    return repr(cut) if isinstance(value, str) else cut
