"""Files and texts inside a query for DuckDB."""

from __future__ import annotations

import re
from collections.abc import Sequence

_GLOB = re.compile(r"[*?\[]")


def scan(urls: Sequence[str]) -> str:
    """Parquet files as a table; folders that look like `date=2026` are names, not columns."""
    return f"read_parquet({list_of([literal(u) for u in urls])}, filename=true, hive_partitioning=false)"


def literal(url: str) -> str:
    """A path in which `*`, `?` and `[` mean themselves."""
    return _GLOB.sub(r"[\g<0>]", url)


def quote(text: str) -> str:
    """A text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def list_of(texts: Sequence[str]) -> str:
    """Texts as a literal list."""
    return "[" + ", ".join(quote(t) for t in texts) + "]"
