"""Checks of arguments: each gives the value, or raises `BadUsage` with the parameter, the value and the choices."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from .errors import BadUsage

T = TypeVar("T")
N = TypeVar("N", int, float)

MOST = 2**53
"""The most that a count may be: what every JSON reader and every array of numbers holds exactly."""


def choice_of(option: str, value: T, choices: Sequence[str]) -> T:
    """The value, which must be one of the choices.

    Example: `choice_of("missing", "failures", ("bounds", "failure"))` raises `missing must be …`.
    """
    if value in choices:
        return value
    *others, last = choices
    either = f"{', '.join(others)} or {last}" if others else last
    raise BadUsage.about(option, f"must be {either}, not {_written(value)}", value, choices)


def check_level(value: float, option: str = "level") -> float:
    """The confidence level of intervals, from 0.5 to less than 1."""
    _check_number(option, value)
    if not 0.5 <= value < 1:
        raise BadUsage.about(option, f"must lie between 0.5 and 1, such as 0.95, not {_written(value)}", value)
    return value


def between(option: str, value: float, low: float, high: float) -> float:
    """A number strictly between two others."""
    _check_number(option, value)
    if not low < value < high:
        raise BadUsage.about(option, f"must lie between {low:g} and {high:g}, not {_written(value)}", value)
    return value


def at_least(option: str, value: N, least: int = 0) -> N:
    """A finite number that is not below the least; whole numbers are counts, of at most 2**53."""
    if not _is_number(value) or not math.isfinite(value):
        raise BadUsage.about(option, f"must be a finite number, not {_written(value)}", value)
    if value < least:
        raise BadUsage.about(option, f"must be at least {least}, not {_written(value)}", value)
    if isinstance(value, int) and value > MOST:
        raise BadUsage.about(option, f"must be at most {MOST}, not {value}", value)
    return value


def above_zero(option: str, value: N) -> N:
    """A finite number above 0, such as a budget."""
    _check_number(option, value)
    if not 0 < value < math.inf:
        raise BadUsage.about(option, f"must be more than 0, not {_written(value)}", value)
    return value


def path_of(option: str, value: object) -> Path:
    """A path given as text or as a path.

    Example: `path_of("out", 3)` raises `out must be a path, not 3`.
    """
    return Path(address_of(option, value, "a path"))


def address_of(option: str, value: object, kinds: str) -> str:
    """An address (a path, a name or `s3://…`) as text; `kinds` says in words what it may be."""
    if not isinstance(value, str | os.PathLike):
        raise BadUsage.about(option, f"must be {kinds}, not {_written(value)}", value)
    return str(value)


def _check_number(option: str, value: object) -> None:
    if not _is_number(value):
        raise BadUsage.about(option, f"must be a number, not {_written(value)}", value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _written(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)
