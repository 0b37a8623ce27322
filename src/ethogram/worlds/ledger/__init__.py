"""The ledger: a table of six rows and two questions about it, to damage and to see what an agent does then.

It is a suite: `ethogram perturb --suite ethogram.worlds.ledger --agent ethogram.worlds.local_model:agent`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any

from ethogram.plans import Check, FileRef, Suite, Task

TABLE = "ledger.csv"


def _task(name: str, prompt: str, expected: int) -> Task:
    return Task(
        id=name,
        prompt=prompt,
        files={TABLE: FileRef(TABLE, "")},
        tools=("largest", "total"),
        expected=expected,
        checks=(Check(kind="numeric"),),
    )


SUITE = Suite(
    name="ledger",
    tasks=(
        _task("largest-stock", "What is the largest stock?", 30),
        _task("largest-price", "How much is the largest price?", 9),
    ),
)


def tools(task: Task, episode: Any) -> dict[str, Callable[..., str]]:
    """Tools on the table as it lies in the episode's own folder."""

    def numbers(column: str) -> list[float]:
        with (episode.workspace / TABLE).open(encoding="utf-8", errors="replace", newline="") as file:
            rows = [{k.strip().lower(): (v or "").strip() for k, v in r.items() if k} for r in csv.DictReader(file)]
        if not rows:
            raise ValueError("the table is empty")
        if column.strip().lower() not in rows[0]:
            raise LookupError(f"there is no column {column!r}; columns are: {', '.join(rows[0])}")
        return [float(row[column.strip().lower()].replace(",", "")) for row in rows]

    def total(column: str) -> str:
        """the sum of a column"""
        return f"{sum(numbers(column)):.12g}"

    def largest(column: str) -> str:
        """the largest number in a column"""
        return f"{max(numbers(column)):.12g}"

    return {"largest": largest, "total": total}
