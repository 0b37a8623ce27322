"""One value as text: numbers of three digits, intervals as bars, nested records shortened."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ethogram.estimate import Estimate

from .shorten import shortened

WIDEST = 160
"""Longer texts are cut: a table is to be read, `to_df()` has all of it."""
NOTHING = "–"
_OF_AN_ESTIMATE = {"value", "low", "high"}
_FOLDED_INTO_A_BAR = ("low", "high", "level", "method", "of", "why")


class Bar(NamedTuple):
    """A number with its interval, where it has one; `words` say how it was made."""

    value: float | None
    low: float | None = None
    high: float | None = None
    words: str = ""

    def __str__(self) -> str:
        if self.value is None:
            return "unknown"
        interval = "" if self.low is None or self.high is None else f" [{number(self.low)}, {number(self.high)}]"
        return f"{number(self.value)}{interval}"


def signed_estimate(estimate: Estimate) -> str:
    """A difference with its interval, each with its sign; `unknown` where it has no interval."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "unknown"
    return f"{estimate.value:+.2f} [{estimate.low:+.2f}, {estimate.high:+.2f}]"


def bar_of(value: Any) -> Bar | None:
    """The bar of an estimate, as a record or as the dict that JSON has of it; None of anything else."""
    if isinstance(value, Estimate):
        return Bar(value.value, value.low, value.high, " ".join(str(value).split()))
    if isinstance(value, Mapping) and value.keys() >= _OF_AN_ESTIMATE and all(map(_is_number, _ends(value))):
        facts = [str(value[k]) for k in ("method", "why") if value.get(k)]
        if value.get("n"):
            facts.insert(0, f"n = {value['n']} {value.get('of', '')}".rstrip())
        middle, low, high = map(_known, _ends(value))
        return Bar(middle, low, high, " ".join("; ".join(facts).split()))
    return None


def _ends(row: Mapping[str, Any], name: str = "value", prefix: str = "") -> list[Any]:
    return [row[name], row[f"{prefix}low"], row[f"{prefix}high"]]


def with_bars(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose number and its `low` and `high` are one bar; so are `share`, `share_low` and `share_high`.

    The number stands under `value`, or directly before `low`.
    """
    names = list(row)
    folded = dict(row)
    if row.keys() >= {"low", "high"}:
        name = "value" if "value" in row else names[max(0, names.index("low") - 1)]
        whole = bar_of({**row, "value": row[name]})
        if whole is not None:
            folded = {k: v for k, v in row.items() if k not in _FOLDED_INTO_A_BAR} | {name: whole}
    for name in [n for n in folded if f"{n}_low" in folded and f"{n}_high" in folded]:
        numbers = _ends(folded, name, f"{name}_")
        if all(map(_is_number, numbers)):
            del folded[f"{name}_low"], folded[f"{name}_high"]
            middle, low, high = map(_known, numbers)
            folded[name] = Bar(middle, low, high)
    return {k: bar_of(v) or v for k, v in folded.items()}


def within(row: Mapping[str, Any], path: str) -> Any:
    """The cell of a column; a dot leads into a nested record."""
    value: Any = row
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def number(value: float) -> str:
    """Three digits that count, thousands apart."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "nan"
    if isinstance(value, int) or (abs(value) >= 1000 and value == int(value)):
        return f"{int(value):,}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def text(value: Any, widest: int = WIDEST) -> str:
    """Any value in one line."""
    if value is None or value in ("", [], {}, ()):
        return NOTHING
    if isinstance(value, float | int):
        return number(value)
    bar = bar_of(value)
    if bar is not None:
        return str(bar)
    if isinstance(value, Mapping):
        return _cut(", ".join(f"{text(k)} {text(v)}" for k, v in list(value.items())[:12]))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        if all(isinstance(v, str | int | float) for v in value):
            return _cut(", ".join(text(v) for v in value[:12]) + (" …" if len(value) > 12 else ""))
        return f"{len(value)} records"
    return _cut(" ".join(str(value).split()), widest)


def words(name: str) -> str:
    """The name of a field as a reader would write it."""
    return " ".join(name.replace("_", " ").split())


def _cut(line: str, widest: int = WIDEST) -> str:
    return shortened(line, widest)


def _is_number(value: Any) -> bool:
    """Whether this is a number or none: a query may have columns of any name and type."""
    return value is None or isinstance(value, float | int) or value in ("inf", "-inf")


def _known(value: Any) -> float | None:
    """A number, also where JSON says infinity in words; NaN, which a query may give, is none."""
    return None if value is None or math.isnan(float(value)) else float(value)
