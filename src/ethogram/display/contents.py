"""The parts of a result that are shown: headline, facts, estimates, tables, notes. HTML and text use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ethogram.estimate import Estimate

from .cells import NOTHING, Bar, bar_of, text, with_bars, within, words
from .presentation import Presentable

ENDS = ("low", "high", "method", "why", "of")
"""What belongs to a number that is shown, whichever columns are chosen."""
LONGEST = 600
"""A headline may be a paragraph."""
NOTES = ("notes", "warnings", "problems")
"""Fields whose sentences stand below everything else."""


MOST_ROWS = 200
"""More rows are counted and not shown: a notebook keeps what it shows, and `to_df()` has them all."""


class Listing(NamedTuple):
    """The first rows of a table, each cell a bar or something for `cells.text`, and how many rows there are."""

    title: str
    columns: list[str]
    rows: list[dict[str, Any]]
    total: int


class Contents(NamedTuple):
    """What a result holds, in the order in which it is shown."""

    title: str
    headline: str
    facts: list[tuple[str, str]]
    estimates: list[tuple[str, Bar]]
    table: Listing | None
    details: list[Listing]
    notes: list[str]


def contents_of(result: Presentable) -> Contents:
    """Take a result apart as its class declares, or as its fields suggest."""
    how = result.presentation
    fields = {n: getattr(result, n) for n in result.__struct_fields__ if n not in ("schema_version", *how.hidden)}
    table = _main(result)
    estimated = fields if how.estimates is None else how.estimates
    details = [_detail(name, value, name in estimated) for name, value in fields.items() if name not in NOTES]
    return Contents(
        how.title or _title(type(result).__name__),
        _headline(how.headline, fields),
        _facts(fields, how.facts),
        [pair for name in estimated for pair in _estimates(name, fields[name])],
        table,
        [d for d in details if d is not None and not _repeats(d, table)],
        [" ".join(str(line).split()) for name in NOTES for line in fields.get(name, ())],
    )


def listing(title: str, rows: Sequence[Any], only: Sequence[str] = ()) -> Listing | None:
    """A table of these records without columns that are empty throughout; None where nothing is left.

    `only` are the columns to show, of those that are there.
    """
    records = [_record(row) for row in rows[:MOST_ROWS]]
    if only:
        records = [{**{k: row[k] for k in row if k.endswith(ENDS)}, **_chosen(row, only)} for row in records]
    folded = [with_bars(row) for row in records]
    names = dict.fromkeys(name for row in folded for name in row)
    columns = [n for n in names if any(text(row.get(n)) != NOTHING for row in folded)]
    if only:
        order = [path.rpartition(".")[2] for path in only]
        columns = [n for n in order if n in columns]
    return Listing(title, columns, folded, len(rows)) if columns else None


def _chosen(row: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    return {path.rpartition(".")[2]: cell for path in paths if (cell := within(row, path)) is not None}


def _repeats(detail: Listing, table: Listing | None) -> bool:
    """Whether the main table is made of these records."""
    if table is None or detail.total != table.total:
        return False
    return len(set(detail.rows[0]) & set(table.rows[0])) >= min(2, len(table.columns))


def _main(result: Presentable) -> Listing | None:
    of_its_own = type(result).rows
    if of_its_own.__qualname__ == "Result.rows":
        return None  # the whole document is one row, which the rest shows better
    told = (of_its_own.__doc__ or "").strip().rstrip(".").replace("`", "")
    return listing(told[:1].lower() + told[1:], result.rows(), result.presentation.columns)


def _title(name: str) -> str:
    """`ReliabilityResult` is `Reliability`, `RunList` is `Run list`."""
    bare = name.removesuffix("Results").removesuffix("Result") or name
    spaced = "".join(f" {c.lower()}" if c.isupper() and i else c for i, c in enumerate(bare))
    return spaced[:1].upper() + spaced[1:]


def _headline(sentence: str, fields: Mapping[str, Any]) -> str:
    said = fields.get("headline")
    if not sentence and isinstance(said, str):
        return " ".join(said.split())
    return sentence.format_map({name: text(value, LONGEST) for name, value in fields.items()})


def _facts(fields: Mapping[str, Any], only: Sequence[str] | None) -> list[tuple[str, str]]:
    names = [n for n in fields if n not in ("headline", *NOTES)] if only is None else only
    plain = [n for n in names if only is not None or isinstance(fields[n], str | int | float) or _counts(fields[n])]
    return [(words(n), said) for n in plain if (said := text(fields[n])) != NOTHING]


def _counts(value: Any) -> bool:
    """Whether this is a small mapping of counts or words, such as what is missing by reason."""
    if not isinstance(value, Mapping) or not 0 < len(value) <= 4:
        return False
    return all(isinstance(v, str | int | float) for v in value.values())


def _estimates(name: str, value: Any) -> list[tuple[str, Bar]]:
    if isinstance(value, Estimate):
        bar = bar_of(value)
        return [(words(name), bar)] if bar else []
    if isinstance(value, Mapping):
        lead = "" if name == "estimates" else f"{words(name)} "
        bars = [(f"{lead}{words(str(k))}", bar_of(v)) for k, v in value.items() if isinstance(v, Estimate)]
        return [(label, bar) for label, bar in bars if bar]
    return []


def _detail(name: str, value: Any, shown: bool) -> Listing | None:
    """Records below the main table: a list, a mapping or a single one; estimates where nothing else shows them."""
    if isinstance(value, msgspec.Struct) and not isinstance(value, Estimate):
        return listing(words(name), [{"": words(k), "value": v} for k, v in msgspec.to_builtins(value).items()])
    if isinstance(value, Mapping) and value and not _counts(value):
        rows = [(k, v) for k, v in value.items() if not (shown and isinstance(v, Estimate))]
        return listing(words(name), [{"": k, **_record(v)} for k, v in rows]) if rows else None
    if isinstance(value, Sequence) and not isinstance(value, str | bytes) and value:
        return listing(words(name), value)
    return None


def _record(value: Any) -> dict[str, Any]:
    built = msgspec.to_builtins(value)
    return dict(built) if isinstance(built, Mapping) else {"value": built}
