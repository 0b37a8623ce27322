"""Tasks in the order people count in."""

from __future__ import annotations


def natural(task: str) -> tuple[int, int, str]:
    """Tasks that are numbers in the order of numbers, then the others by name."""
    return (0, int(task), "") if task.isdecimal() and len(task) < 400 else (1, 0, task)
