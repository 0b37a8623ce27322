"""A small filter language for lists: `pass<0.5 cost>1 tag:nightly -kind:import refund`.

Terms are joined by "and". `field<number` compares, `field:text` looks for a text in a field, a bare word looks in
the names, `"two words"` too, and a minus in front turns a term round. A filter that cannot be read is an error that
names the term and its place; it never shows everything.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from ethogram.errors import BadUsage

FieldKind = Literal["number", "text", "words"]
"""`words` are texts inside traces: looking for them costs more than looking at a name."""
WORDS = "words"
"""The field of texts inside traces: a row is not asked for them, see `ListFilter.words`."""
FilterValue = float | str | Sequence[str] | None
_TERM = re.compile(r'(-?)(?:([A-Za-z_]+)(<=|>=|!=|<|>|=|:))?("[^"]*"?|\S+|)')
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}


class FilterTerm(msgspec.Struct, frozen=True, kw_only=True):
    """One term: a bare word has no field."""

    field: str | None
    sign: str
    text: str
    number: float | None = None
    without: bool = False


class ListFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter that was understood."""

    terms: tuple[FilterTerm, ...] = ()

    def matches(self, value: Callable[[str], FilterValue], names: Sequence[str]) -> bool:
        """Whether a row passes: `value` gives its fields, `names` is where bare words are looked for.

        What is unknown (None) passes no comparison, not even a negated one.
        """
        return all(_holds(term, value, names) for term in self.terms if term.field != WORDS)

    @property
    def words(self) -> list[FilterTerm]:
        """The terms about texts inside traces."""
        return [term for term in self.terms if term.field == WORDS]


def parse_filter(text: str, fields: Mapping[str, FieldKind]) -> ListFilter:
    """A filter from what was typed; raises `BadUsage` that names the term that cannot be read, and its place.

    Example: `parse_filter("pass<0.5 tag:nightly", {"pass": "number", "tag": "text"})`
    """
    terms = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _TERM.match(text, at)
        assert found is not None  # every part of the pattern may be empty
        terms.append(_term(found, fields))
        at = max(found.end(), at + 1)
    return ListFilter(terms=tuple(terms))


def _term(found: re.Match[str], fields: Mapping[str, FieldKind]) -> FilterTerm:
    minus, field, sign, said = found.groups()
    place = f"at character {found.start() + 1}"
    whole = found.group(0)
    if said.startswith('"'):
        if len(said) < 2 or not said.endswith('"'):
            raise BadUsage(f"the filter has a quotation mark that is never closed, {place}: {whole}")
        said = said[1:-1]
    if field is None:
        return FilterTerm(field=None, sign=":", text=said.casefold(), without=minus == "-")
    kind = fields.get(field)
    if kind is None:
        raise BadUsage(f"the filter knows no field {field!r}, {place}; it knows: {', '.join(fields)}")
    if not said:
        raise BadUsage(
            f"the filter says nothing after {field}{sign}, {place}; write for example {_example(field, kind)}"
        )
    if kind == "number":
        try:
            number = float(said.removesuffix("%")) / (100 if said.endswith("%") else 1)
        except ValueError:
            raise BadUsage(f"{said!r} is not a number, {place}; write for example {_example(field, kind)}") from None
        sign = "=" if sign == ":" else sign
        return FilterTerm(field=field, sign=sign, text=said, number=number, without=minus == "-")
    if sign not in (":", "=", "!="):
        raise BadUsage(f"{field} is a text and has no order, {place}; write for example {_example(field, kind)}")
    return FilterTerm(field=field, sign=sign, text=said.casefold(), without=(minus == "-") != (sign == "!="))


def _example(field: str, kind: FieldKind) -> str:
    return f"{field}<0.5" if kind == "number" else f"{field}:night"


def _holds(term: FilterTerm, value: Callable[[str], FilterValue], names: Sequence[str]) -> bool:
    if term.number is not None and term.field is not None:
        known = value(term.field)
        if not isinstance(known, int | float):
            return False
        return _COMPARE[term.sign](known, term.number) != term.without
    held = names if term.field is None else value(term.field)
    texts = [held] if isinstance(held, str) else [] if held is None or isinstance(held, int | float) else held
    if term.sign == ":":
        return any(term.text in t.casefold() for t in texts) != term.without
    return any(term.text == t.casefold() for t in texts) != term.without
