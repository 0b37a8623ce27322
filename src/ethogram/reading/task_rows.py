"""One row for each task of a run: attempts, successes and missing outcomes."""

from __future__ import annotations

import msgspec


class TaskRow(msgspec.Struct, kw_only=True):
    """One task of a run."""

    task: str
    attempts: int = 0
    scored: int = 0
    successes: int = 0
    mean: float | None = None
    missing: dict[str, int] = {}
