"""Tasks and outcomes for logs that have none: from a pattern, a meta value, a label or a CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from ethogram.errors import BadUsage, NotFound, Unreadable
from ethogram.traces import Head, Label

ValueSource = Callable[[Head, Sequence[Label]], str | None]
VALUE = "value"
"""The column of a CSV that is taken where there is none of the usual name: sheets that are filled in have it."""
FORMS = "name:REGEX, meta:KEY, label:NAME or csv:FILE[:COLUMN]"


def value_source(spec: str, column: str) -> ValueSource:
    """A function from a trace to a value; `column` is what a CSV column is called unless the spec says so."""
    form, _, rest = spec.partition(":")
    if form == "name" and rest:
        return _by_name(rest)
    if form == "meta" and rest:
        return lambda head, labels: _text(head.meta.get(rest))
    if form == "label" and rest:
        return lambda head, labels: next((_text(x.value) for x in labels if x.name == rest), None)
    if form == "csv" and rest:
        return _by_csv(rest, column)
    raise BadUsage(f"{spec!r} does not say where to take the {column} from; write {FORMS}")


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _by_name(pattern: str) -> ValueSource:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise BadUsage(f"{pattern!r} is not a regular expression: {error}") from None

    def find(head: Head, labels: Sequence[Label]) -> str | None:
        match = compiled.search(head.origin.name if head.origin else "")
        if match is None:
            return None
        return match.group(1) if compiled.groups else match.group(0)

    return find


def _by_csv(rest: str, column: str) -> ValueSource:
    """Rows are matched by `trace` (also as screens print it), by `source` (a file name, folders and endings optional),
    or by task and attempt."""
    file, _, named = rest.partition(":")
    wanted = named or column
    path = Path(file)
    if not path.is_file():
        raise NotFound(f"no CSV file at {file!r}", where=file)
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            fields = reader.fieldnames or []
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Unreadable(f"{file} cannot be read as CSV in UTF-8: {error}", where=file) from None
    if not named and wanted not in fields and VALUE in fields:
        wanted = VALUE
    if wanted not in fields:
        raise BadUsage(f"{file} has no column {wanted!r}; it has: {', '.join(fields) or 'none'}", where=file)
    keys = [k for k in ("trace", "source", "task") if k in fields and k != wanted]
    if not keys:
        raise BadUsage(f"{file} needs a column 'trace', 'source' or 'task' to match rows to traces", where=file)
    table = {_csv_key(row, keys): row[wanted] for row in rows}

    def find(head: Head, labels: Sequence[Label]) -> str | None:
        for candidate in _candidates(head, keys):
            if candidate in table:
                return table[candidate] or None
        return None

    return find


def _csv_key(row: dict[str, str], keys: list[str]) -> tuple[str, ...]:
    key = keys[0]
    return (row[key], row["attempt"]) if key == "task" and "attempt" in row else (row[key],)


def _candidates(head: Head, keys: list[str]) -> list[tuple[str, ...]]:
    if keys[0] == "trace":
        bare = head.trace_id.removeprefix("b2:")
        return [(head.trace_id,), (bare,), (bare[:12],), (bare[:10],)]
    if keys[0] == "task":
        return [(head.task, str(head.attempt)), (head.task,)]
    return [(name,) for name in source_names(head)]


def source_names(head: Head) -> list[str]:
    """The names that a CSV may call the file of a trace by: folders and endings are optional."""
    name = head.origin.name if head.origin else ""
    path = PurePosixPath(name)
    return list(dict.fromkeys((name, path.name, path.stem, path.name.split(".")[0])))
