"""Formats of JSON schemas: what `format` demands is checked, also what jsonschema alone leaves to further packages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

UNCHECKED = frozenset({"iri", "iri-reference", "uri-reference", "uri-template"})
"""Formats of the standard that nothing here checks: a schema that demands one is refused, not passed over."""
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_CLOCK = re.compile(r"\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)")
_MOMENT = re.compile(rf"\d{{4}}-\d\d-\d\d[Tt]{_CLOCK.pattern}")
_DURATION = re.compile(r"P(?=.)(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+S)?)?)")


def format_checker() -> Any:
    """jsonschema's own checker, and ours for what it needs more packages for."""
    import jsonschema  # type: ignore[import-untyped]

    checker = jsonschema.FormatChecker()
    for name, test in TESTS.items():
        checker.checks(name)(lambda value, test=test: not isinstance(value, str) or test(value))
    return checker


def formats_in(schema: Any) -> set[str]:
    """The formats that a schema demands, at any depth."""
    return set(_formats(schema))


def _formats(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("format"), str):
            yield schema["format"]
        for key, value in schema.items():
            if key not in ("const", "enum", "default", "examples"):
                yield from _formats(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _formats(value)


def _is_moment(value: str) -> bool:
    if _MOMENT.fullmatch(value) is None:
        return False
    try:
        # Python knows no leap second
        datetime.fromisoformat(re.sub(r"^(.{17})60", r"\g<1>59", re.sub(r"\.\d+", "", value)).upper())
    except ValueError:
        return False
    return True


def _is_clock(value: str) -> bool:
    return _CLOCK.fullmatch(value) is not None and _is_moment(f"2000-01-01T{value}")


def _is_host(value: str) -> bool:
    name = value.removesuffix(".")
    return 0 < len(name) <= 253 and all(_LABEL.fullmatch(part) for part in name.split("."))


def _is_uri(value: str) -> bool:
    if not value.isascii() or re.search(r'[\s<>"{}|\\^`]', value):
        return False
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:
        return False
    return bool(parts.scheme) and bool(parts.netloc or parts.path)


TESTS = {
    "date-time": _is_moment,
    "time": _is_clock,
    "hostname": _is_host,
    "uri": _is_uri,
    "duration": lambda value: _DURATION.fullmatch(value) is not None,
}
