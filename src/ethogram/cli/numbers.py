"""Numbers of the command line: whatever an option takes, NaN, infinities and counts beyond 2**53 are refused."""

from __future__ import annotations

import copy
import math
from typing import Any

from ethogram.arguments import MOST


def with_finite_numbers(command: Any) -> Any:
    """A command whose options of numbers, and those of its sub-commands, take finite ones only."""
    for sub in getattr(command, "commands", {}).values():
        with_finite_numbers(sub)
    for parameter in command.params:
        if parameter.type.name.split()[0] in ("int", "float"):
            parameter.type = _finite(parameter.type)
    return command


def _finite(kind: Any) -> Any:
    """The type of an option, of finite numbers only; ranges stay as they are."""
    checked = copy.copy(kind)

    def convert(value: Any, parameter: Any, context: Any) -> Any:
        number = kind.convert(value, parameter, context)
        if isinstance(number, float) and not math.isfinite(number):
            checked.fail(f"{value!r} is not a finite number.", parameter, context)
        if isinstance(number, int) and abs(number) > MOST:
            checked.fail(f"{value} is too large; give at most {MOST}.", parameter, context)
        return number

    checked.convert = convert
    return checked
