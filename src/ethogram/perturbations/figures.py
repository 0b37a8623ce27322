"""Numbers as people write them: read with their sign, grouping, currency and decimals, written the same way."""

from __future__ import annotations

import re
from decimal import Decimal

import msgspec

_NUMBER = re.compile(
    r"(?P<head>\s*(?:[A-Z]{3}\s|[^\w\s.,+\-()'\"#]{1,3})?\s*)"
    r"(?P<sign>[+\-]?)"
    r"(?P<whole>\d{1,3}(?:,\d{3})+|\d+)(?P<rest>\.\d+)?(?P<power>[eE][+\-]?\d{1,3})?"
    r"(?P<tail>\s*(?:%|[^\W\d_]{1,3})?\s*)"
)
_COMMA = re.compile(
    r"(?P<head>\s*(?:[A-Z]{3}\s|[^\w\s.,+\-()'\"#]{1,3})?\s*)"
    r"(?P<sign>[+\-]?)"
    r"(?P<whole>\d{1,3}(?:\.\d{3})+|\d+)(?P<rest>,\d+)(?P<power>)"
    r"(?P<tail>\s*(?:%|[^\W\d_]{1,3}|€)?\s*)"
)
_PLAIN = re.compile(rb"\s*[+\-]?\d+(?:\.\d+)?\s*")

NUMBERS = re.compile(r"(?<![\w.])(?<!\d,)\d+(?:[.,]\d+)*(?![\w])")
"""Numbers in running text; digits inside words and identifiers are left alone."""


class WrittenNumber(msgspec.Struct, frozen=True):
    """A number and the way it was written."""

    value: Decimal
    decimals: int
    head: str = ""
    tail: str = ""
    grouped: bool = False
    comma: bool = False

    @property
    def padded(self) -> bool:
        """Whether it began with zeros that a number would not have: an identifier."""
        return self.decimals < 0

    def write(self, value: Decimal) -> str:
        """Another value, written the same way, in full."""
        text = f"{value:{',' if self.grouped else ''}f}"
        if self.comma:
            text = text.translate({ord(","): ".", ord("."): ","})
        return f"{self.head}{text}{self.tail}"


def figure(text: str, comma: bool = False) -> WrittenNumber | None:
    """The number that a cell holds, or None; `comma` allows 12,5."""
    found = _COMMA.fullmatch(text) if comma else None
    is_comma = found is not None
    found = found or _NUMBER.fullmatch(text)
    if found is None:
        return None
    whole, rest, power = found["whole"], found["rest"] or "", found["power"] or ""
    digits = whole.replace("." if is_comma else ",", "")
    if len(digits) > 30:
        return None  # an identifier; no measured number is that long
    value = Decimal(f"{found['sign']}{digits}{rest.replace(',', '.')}{power}")
    decimals = max(len(rest) - 1, 0)
    if len(digits) > 1 and digits.startswith("0"):
        decimals = -1
    return WrittenNumber(value, decimals, found["head"], found["tail"], len(digits) != len(whole), is_comma)


def is_number(raw: bytes, text: str, comma: bool = False) -> bool:
    """Whether a cell holds a number; most are plain, and that is fast to see."""
    return _PLAIN.fullmatch(raw) is not None or figure(text, comma) is not None
