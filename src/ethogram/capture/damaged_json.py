"""JSON as exporters really write it: what strict parsers refuse is tried again, and of a document that is cut off the
part before the cut is kept."""

from __future__ import annotations

import json
import re
from typing import Any

import ijson
import msgspec
from ijson.common import ObjectBuilder

BAD_JSON = (ValueError, RecursionError, ijson.JSONError)
"""What parsers raise for bytes that are not JSON; msgspec's own errors are among the `ValueError`s."""
_COMMA = re.compile(rb'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)


def parse(data: bytes) -> Any:
    """The value of JSON bytes; NaN, integers of any length and half characters are read as Python reads them.

    Raises one of `BAD_JSON` for what is not JSON.
    """
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return json.loads(data)


def without_commas(data: bytes) -> tuple[bytes, int]:
    """The bytes without commas that stand before a closing bracket, and their number; strings are left alone."""
    count = 0

    def keep(match: re.Match[bytes]) -> bytes:
        nonlocal count
        if match.group().startswith(b'"'):
            return match.group()
        count += 1
        return b""

    mended = _COMMA.sub(keep, data)
    return mended, count


def before_the_cut(data: bytes) -> Any:
    """The value as far as it goes; None if not even its start is JSON."""
    builder = ObjectBuilder()
    try:
        for event, value in ijson.basic_parse(data, use_float=True):
            builder.event(event, value)
    except BAD_JSON:
        pass
    return getattr(builder, "value", None)


def documents(text: str) -> tuple[list[Any], str]:
    """Values that follow each other, the last one as far as it goes; and why reading stopped, if it did."""
    decoder = json.JSONDecoder()
    values: list[Any] = []
    at = len(text) - len(text.lstrip())
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except BAD_JSON as error:
            start = before_the_cut(text[at:].encode("utf-8", "replace"))
            return values if start is None else [*values, start], str(error) or type(error).__name__
        values.append(value)
        while at < len(text) and text[at].isspace():
            at += 1
    return values, ""
