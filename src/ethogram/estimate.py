"""A number with its uncertainty: what every analysis returns and every screen shows."""

from __future__ import annotations

import math
from html import escape
from typing import Any

import msgspec


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its uncertainty: `value` between `low` and `high` at the confidence `level`, by `method`.

    `low` and `high` are None where no valid interval exists, and `why` says so. `n` counts what `of` names (tasks,
    attempts, traces, …); `missing` counts what is not in it, by reason.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    method: str = ""
    n: int = 0
    of: str = ""
    missing: dict[str, int] = {}
    why: str | None = None

    def __post_init__(self) -> None:
        """NaN is not a number anyone can act on: absence is None, with a reason."""
        for name in ("value", "low", "high"):
            number = getattr(self, name)
            if number is not None and math.isnan(number):
                raise ValueError(f"the {name} of an estimate cannot be NaN; use None and say why")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"the interval [{self.low}, {self.high}] is upside down")

    def __str__(self) -> str:
        """`0.42 [0.31, 0.54] (95 %, wilson, n = 50 tasks; missing 3)`."""
        if self.value is None:
            return f"unknown ({self.why})" if self.why else "unknown"
        interval = "" if self.low is None or self.high is None else f" [{_short(self.low)}, {_short(self.high)}]"
        facts = [f"{100 * self.level:g} %" if interval else "no interval"]
        if self.method:
            facts.append(self.method)
        facts.append(f"n = {self.n}{' ' + self.of if self.of else ''}")
        absent = sum(self.missing.values())
        tail = f"; missing {absent}" if absent else ""
        reason = f"; {self.why}" if self.why else ""
        return f"{_short(self.value)}{interval} ({', '.join(facts)}{tail}{reason})"

    def _repr_html_(self) -> str:
        return f"<span>{escape(str(self))}</span>"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: infinities are strings, NaN never appears."""
        result = {
            "value": json_number(self.value),
            "low": json_number(self.low),
            "high": json_number(self.high),
            "level": self.level,
            "method": self.method,
            "n": self.n,
            "of": self.of,
            "missing": self.missing,
        }
        return {**result, "why": self.why} if self.why else result


def json_number(value: float | None) -> float | str | None:
    """A number as JSON can say it; raises `ValueError` for NaN, which is no number."""
    if value is None or math.isfinite(value):
        return value
    if math.isnan(value):
        raise ValueError("NaN cannot be written: a number that is not known is None, with a reason")
    return "inf" if value > 0 else "-inf"


def _short(value: float) -> str:
    return f"{value:.3g}"
