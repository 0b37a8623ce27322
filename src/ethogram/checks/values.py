"""Equality by meaning: numbers, dates, texts, lists and objects as tools understand them, not as they are spelled."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import msgspec

from .checks import short
from .matching import matching
from .patterns import find

MATCHERS = ("$any", "$regex", "$one_of", "$number", "$unordered", "$set", "$text", "$absent")
"""An object with one of these keys is not compared but fulfilled; `tolerance` and `relative` may stand by `$number`."""

_NUMERAL = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?")
_DATE = re.compile(r"\d{4}-?(?:\d{2}-?\d{2}|W\d{2}-?\d)(?!\d)")
_WORDS = {"true": True, "false": False}
_EXACT = Context(prec=200, Emax=10**9, Emin=-(10**9), traps=[])


class Absent:
    """An argument that was not given."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT = Absent()


class Loose(msgspec.Struct, frozen=True):
    """What does not matter in a comparison. `redact` gives the form in which a text was stored."""

    ignore_case: bool = False
    unordered: bool = False
    sets: bool = False
    tolerance: float = 0.0
    relative: float = 0.0
    redact: Callable[[str], str] | None = None


STRICT = Loose()


def same(expected: Any, actual: Any, loose: Loose = STRICT) -> bool:
    """Whether two values mean the same."""
    return difference(expected, actual, loose) is None


def difference(expected: Any, actual: Any, loose: Loose = STRICT, at: str = "") -> str | None:
    """The first place where two values do not mean the same, in words; None if there is none."""
    if isinstance(expected, dict) and (rule := next((k for k in expected if k in MATCHERS), None)) is not None:
        return _matched(rule, expected, actual, loose, at)
    if isinstance(expected, Absent | None) and isinstance(actual, Absent | None):
        return None
    if isinstance(expected, dict) and isinstance(actual, dict):
        return _objects(expected, actual, loose, at)
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        return _lists(expected, actual, loose, at)
    return None if _scalars(expected, actual, loose) else _said(at, f"{_named(actual)} is not {_named(expected)}")


def _objects(expected: dict[Any, Any], actual: dict[Any, Any], loose: Loose, at: str) -> str | None:
    for key, value in expected.items():
        found = difference(value, actual.get(key, ABSENT), loose, f"{at}.{key}" if at else str(key))
        if found is not None:
            return found
    extra = next((k for k, v in actual.items() if k not in expected and v is not None), None)
    return None if extra is None else _said(at, f"{extra!r} was not expected")


def _lists(expected: Sequence[Any], actual: Sequence[Any], loose: Loose, at: str) -> str | None:
    if loose.sets:
        lost = next((e for e in expected if not any(same(e, a, loose) for a in actual)), ABSENT)
        more = next((a for a in actual if not any(same(e, a, loose) for e in expected)), ABSENT)
    elif loose.unordered:
        pairs = matching(len(expected), len(actual), lambda i, j: same(expected[i], actual[j], loose))
        used = set(pairs.values())
        lost = next((e for i, e in enumerate(expected) if i not in pairs), ABSENT)
        more = next((a for j, a in enumerate(actual) if j not in used), ABSENT)
    else:
        for i, (one, other) in enumerate(zip(expected, actual, strict=False)):
            found = difference(one, other, loose, f"{at}[{i}]")
            if found is not None:
                return found
        if len(expected) != len(actual):
            return _said(at, f"{len(actual)} items where {len(expected)} were expected")
        return None
    if lost is not ABSENT:
        return _said(at, f"{_named(lost)} is not among {_named(list(actual))}")
    return None if more is ABSENT else _said(at, f"{_named(more)} was not expected")


def _matched(rule: str, expected: dict[str, Any], actual: Any, loose: Loose, at: str) -> str | None:
    """Whether a value fulfils a matcher."""
    value = expected[rule]
    change = msgspec.structs.replace
    if rule == "$absent":
        return None if isinstance(actual, Absent | None) else _said(at, f"{_named(actual)} was not expected")
    if isinstance(actual, Absent):
        return _said(at, "is missing")
    if rule == "$any":
        return None
    if rule == "$regex":
        text = actual if isinstance(actual, str) else short(actual, 10_000)
        return None if find(str(value), text) is not None else _said(at, f"{_named(actual)} does not match {value!r}")
    if rule == "$one_of":
        fits = isinstance(value, list) and any(same(v, actual, loose) for v in value)
        return None if fits else _said(at, f"{_named(actual)} is none of {_named(value)}")
    if rule == "$number":
        limits = {k: expected[k] for k in ("tolerance", "relative") if k in expected}
        return difference(value, actual, change(loose, **limits), at)
    if rule == "$text":
        return difference(value, actual, change(loose, ignore_case=True), at)
    return difference(value, actual, change(loose, **{"$set": {"sets": True}}.get(rule, {"unordered": True})), at)


def _scalars(expected: Any, actual: Any, loose: Loose) -> bool:
    if isinstance(expected, Absent | None) or isinstance(actual, Absent | None):
        return False
    if isinstance(expected, bool) or isinstance(actual, bool):
        return _truth(expected) is not None and _truth(expected) == _truth(actual)
    if isinstance(expected, str) and isinstance(actual, str):
        return _texts(expected, actual, loose)
    if loose.redact is not None and isinstance(actual, str) and actual == loose.redact(str(expected)):
        return True
    one, other = _numeral(expected), _numeral(actual)
    return one is not None and other is not None and close(one, other, loose.tolerance, loose.relative)


def _texts(expected: str, actual: str, loose: Loose) -> bool:
    forms = {expected, loose.redact(expected)} if loose.redact is not None else {expected}
    tidy = _folded if loose.ignore_case else _tidy
    if tidy(actual) in {tidy(f) for f in forms}:
        return True
    return _same_moment(expected.strip(), actual.strip())


def _tidy(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", _tidy(text).casefold())


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return _WORDS.get(value.strip().lower()) if isinstance(value, str) else None


def _numeral(value: Any) -> Decimal | None:
    """A number, also when a text spells it; `007` and `+49` are names, not numbers."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        number = decimal(value)
        return number if number.is_finite() else None
    if isinstance(value, str) and _NUMERAL.fullmatch(value.strip()):
        return decimal(value.strip())
    return None


def decimal(value: str | float | Decimal) -> Decimal:
    """A number without rounding: a float counts as it is printed, so that 0.1 is a tenth."""
    try:
        return Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        return Decimal("NaN")


def close(expected: Decimal, actual: Decimal, tolerance: float = 0.0, relative: float = 0.0) -> bool:
    """Whether two numbers are equal, or as near as allowed; the limit itself is allowed."""
    if not expected.is_finite() or not actual.is_finite():
        return False
    if expected == actual:
        return True
    if not tolerance and not relative:
        return False
    gap = _EXACT.abs(_EXACT.subtract(actual, expected))
    near = _EXACT.multiply(decimal(relative), _EXACT.abs(expected))
    return gap.is_finite() and gap <= max(decimal(tolerance), near)


def _same_moment(one: str, other: str) -> bool:
    """Whether two texts are the same date or time in different spellings; a date is its own midnight."""
    if not (_DATE.match(one) and _DATE.match(other)) or (one.isdigit() and other.isdigit()):
        return False
    try:
        a, b = datetime.fromisoformat(one), datetime.fromisoformat(other)
    except ValueError:
        return False
    if a.tzinfo is None and b.tzinfo is None:
        return a == b
    if a.tzinfo is not None and b.tzinfo is not None:
        return a == b
    # a bare date fits a midnight of any zone; a bare time and one with a zone are different claims
    bare = one if a.tzinfo is None else other
    return len(bare) <= 10 and a.replace(tzinfo=None) == b.replace(tzinfo=None)


def at_path(value: Any, path: str) -> Any:
    """The value at `a.b[0].c` of a JSON value, or ABSENT."""
    for key, index in re.findall(r"([^.\[\]]+)|\[(-?\d+)\]", path):
        if key and isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and (number := index or key).lstrip("-").isdigit():
            position = int(number)
            if not -len(value) <= position < len(value):
                return ABSENT
            value = value[position]
        else:
            return ABSENT
    return value


def _named(value: Any) -> str:
    return repr(value) if isinstance(value, Absent) else short(value)


def _said(at: str, words: str) -> str:
    return f"{at}: {words}" if at else words
