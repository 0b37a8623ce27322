"""Tools on the one table of the suite, as it lies in the episode's own folder."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any

TABLE = "ledger.csv"


def tools(task: Any, episode: Any) -> dict[str, Callable[..., Any]]:
    """Tools of one episode."""

    def rows() -> list[dict[str, str]]:
        with (episode.workspace / TABLE).open(encoding="utf-8", errors="replace", newline="") as file:
            return [{k.strip().lower(): (v or "").strip() for k, v in row.items() if k} for row in csv.DictReader(file)]

    def numbers(column: str) -> list[float]:
        table = rows()
        if not table:
            raise ValueError("the table is empty")
        if column.strip().lower() not in table[0]:
            raise LookupError(f"there is no column {column!r}; columns are: {', '.join(table[0])}")
        return [float(row[column.strip().lower()].replace(",", "")) for row in table]

    def columns() -> str:
        """the names of the columns"""
        return ", ".join(rows()[0])

    def total(column: str) -> str:
        """the sum of a column"""
        return f"{sum(numbers(column)):.12g}"

    def largest(column: str) -> str:
        """the largest number in a column"""
        return f"{max(numbers(column)):.12g}"

    every = {f.__name__: f for f in (total, largest, columns)}
    return {name: every[name] for name in task.tools or every}
