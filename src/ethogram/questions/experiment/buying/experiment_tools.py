"""Tools of an experiment on files: what an agent may do with the files of its own episode. Copied into its suite."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ethogram.errors import MissingExtra

MOST = 20_000
"""How many characters of a file are given at once."""


def tools(task: Any, episode: Any) -> dict[str, Callable[..., Any]]:
    """Tools of one episode."""
    folder: Path = episode.workspace

    def list_files() -> str:
        """the names of the files"""
        return "\n".join(sorted(p.name for p in folder.iterdir() if p.is_file()))

    def read_file(name: str) -> str:
        """the content of a file"""
        return _text(_inside(folder, name))[:MOST]

    def columns(name: str) -> str:
        """the names of the columns of a table"""
        return ", ".join(_rows(_inside(folder, name))[0])

    def total(name: str, column: str) -> str:
        """the sum of a column of a table"""
        return f"{sum(_numbers(_inside(folder, name), column)):.12g}"

    def largest(name: str, column: str) -> str:
        """the largest number in a column of a table"""
        return f"{max(_numbers(_inside(folder, name), column)):.12g}"

    everything = {f.__name__: f for f in (list_files, read_file, columns, total, largest)}
    return {name: everything[name] for name in task.tools or everything}


def _inside(folder: Path, name: str) -> Path:
    path = (folder / name.strip()).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ValueError(f"{name!r} lies outside the workspace")
    if not path.is_file():
        raise LookupError(f"there is no file {name!r}")
    return path


def _text(path: Path) -> str:
    if path.suffix.lower() in (".xlsx", ".xlsm"):
        return "\n".join(",".join(row) for row in _rows(path))
    if path.suffix.lower() == ".pdf":
        raise ValueError("this reads text, tables and data; give the agent a tool of its own for PDF")
    return path.read_bytes().decode("utf-8", errors="replace")


def _rows(path: Path) -> list[list[str]]:
    if path.suffix.lower() in (".xlsx", ".xlsm"):
        try:
            import openpyxl
        except ImportError:
            raise MissingExtra.needed("files", "reading a workbook") from None

        sheet = openpyxl.load_workbook(path, data_only=True).active
        return [["" if cell is None else str(cell) for cell in row] for row in sheet.iter_rows(values_only=True)]
    rows = list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig", errors="replace"))))
    if not rows:
        raise ValueError(f"{path.name} is empty")
    return rows


def _numbers(path: Path, column: str) -> list[float]:
    head, *rows = _rows(path)
    names = [name.strip().lower() for name in head]
    if column.strip().lower() not in names:
        raise LookupError(f"there is no column {column!r}; columns are: {', '.join(head)}")
    at = names.index(column.strip().lower())
    found = []
    for row in rows:
        if at < len(row) and row[at].strip():
            found.append(float(row[at].replace(",", "").strip()))
    if not found:
        raise ValueError(f"the column {column!r} is empty")
    return found


def same_set(answer: str | None, expected: list[Any]) -> tuple[float, str]:
    """Whether an answer names exactly what was expected, in whatever order; for the scorer `set`."""
    wanted, given = {_item(v) for v in expected}, {_item(v) for v in _items(answer or "")}
    lost, extra = sorted(wanted - given), sorted(given - wanted)
    why = [f"{word} {', '.join(names)}" for word, names in (("missing:", lost), ("too much:", extra)) if names]
    return float(not why), "; ".join(why) or "the same set"


def _items(answer: str) -> list[Any]:
    try:
        value = json.loads(answer)
        if isinstance(value, list):
            return value
    except ValueError:
        pass
    parts = re.split(r"[,;\n]|\band\b", answer)
    return [p for p in (part.strip().lstrip("-*•").strip(" \t.'\"[]") for part in parts) if p]


def _item(value: Any) -> str:
    text = " ".join(unicodedata.normalize("NFKC", str(value)).casefold().split())
    try:
        return repr(float(text))
    except ValueError:
        return text
