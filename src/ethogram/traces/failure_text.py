"""Whether a text that a tool returned is an error: one rule for spans, for messages and for what a gateway saw."""

from __future__ import annotations

import re

_ERROR = re.compile(
    r"\s*(?:"
    r"Error\b|Exception:|Traceback \(most recent call last\)"
    r"|(?:\w{1,60}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception):"  # `ValueError: …`, also with the module in front of it
    r")"
)


def begins_as_error(text: str) -> bool:
    """Whether the result of a tool is an error by its first words: the convention of logs that give no status.

    Example: `begins_as_error("ValueError: no such day")` is true, `begins_as_error("Errors: 0")` is not.
    """
    return _ERROR.match(text) is not None
