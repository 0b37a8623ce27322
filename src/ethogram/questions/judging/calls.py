"""Model calls of judges, as they are stored with a run: request, model and cost."""

from __future__ import annotations

from typing import Any

import msgspec

from ethogram.result import Result
from ethogram.store import Home, Run, run_of
from ethogram.traces import TraceId

CALLS = "judge-calls"
"""The folder of a run that holds them, one line each."""


class JudgeCallRow(msgspec.Struct, frozen=True, kw_only=True):
    """One call. The words are in the run's cache of replies under `request`; a sealed run keeps none."""

    about: TraceId
    by: str
    model: str
    request: str
    temperature: float
    seed: int
    reading: int
    start_ns: int
    seconds: float
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    error: str | None = None


class JudgeCallList(Result, kw_only=True):
    """All calls that judges made about traces of a run, in order of time."""

    run: str
    calls: list[JudgeCallRow]

    def rows(self) -> list[dict[str, Any]]:
        """One row per call."""
        return [msgspec.to_builtins(call) for call in self.calls]


def judge_calls(run: str | Run = "latest", *, home: Home | str | None = None) -> JudgeCallList:
    """The recorded calls of judges about a run; raises `NotFound` for a run that does not exist.

    Example: `sum(call.cost_usd or 0 for call in judge_calls("night").calls)`
    """
    found = run_of(run, home)
    calls = [msgspec.json.decode(line, type=JudgeCallRow) for _, line in found.notes(CALLS)]
    return JudgeCallList(run=found.name, calls=sorted(calls, key=lambda call: call.start_ns))
