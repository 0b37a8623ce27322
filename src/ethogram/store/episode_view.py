"""The `episodes` view: ledger segments that are Parquet are read by DuckDB in place, batches are expanded by it.

Only segments of few entries become rows in Python, and runs whose ledger takes something back: an outcome that was
revised, a trace that was superseded, an episode that two writers committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ethogram.arrays import arrow_table
from ethogram.plans import hashed_seeds

from . import ledger, ledger_file
from .batch import Batch, distinct
from .entry import Entry, Header, Segment
from .ledger_columns import ids_of
from .recount import recounted
from .scan import scan
from .stored_run import Run
from .tables import episode_schema, episode_table

_RUN = "string_split(filename, '/')[-3]"
"""The run of a ledger segment: the folder above the ledger's."""
_SEEDS = "_batch_seeds"
_BATCHES = f"""
SELECT *, id || ':' || i AS episode, first + i AS attempt, seeds_of_all[i + 1] AS seed,
  CASE letter WHEN '1' THEN 1.0::DOUBLE WHEN '0' THEN 0.0::DOUBLE END AS score,
  CASE WHEN letter <> '-' THEN scored_by END AS by, CASE letter WHEN '-' THEN missing END AS reason
FROM (
  SELECT *, {_SEEDS}(seeds, length(outcomes)) AS seeds_of_all,
    unnest(range(length(outcomes))) AS i, unnest(string_split(outcomes, '')) AS letter
  FROM _batches WHERE outcomes <> ''
)
"""


class _Columns(msgspec.Struct, frozen=True):
    """Of a segment that is Parquet, what tells whether all its entries count."""

    name: str
    header: Header
    episodes: Any
    supersedes: bool


def define_episodes(connection: Any, runs: Iterable[Run]) -> tuple[str, list[str]]:
    """The query behind the view, and the files that it reads; tables that it needs are registered."""
    urls: list[str] = []
    entries: list[tuple[str, Entry]] = []
    batches: list[tuple[str, Batch]] = []
    for run in runs:
        with ledger.gc_paused():
            segments = ledger.unreplaced(ledger.read_all(run.files, run.path, _decode))
        columns = [s for s in segments if isinstance(s, _Columns)]
        lines = [s for s in segments if isinstance(s, Segment)]
        if columns and _all_count(columns, lines):
            urls += [run.files.url(f"{run.path}/{ledger.FOLDER}/{s.name}") for s in columns]
            few = recounted(run.files, run.path, [e for s in lines for e in s.entries])
            entries += [(run.name, e) for e in few]
        elif columns or lines:
            standing = ledger.standing(ledger.in_force(lines)) if not columns else run.standing
            entries += [(run.name, e) for e in recounted(run.files, run.path, standing.live)]
        batches += [(run.name, b) for b in distinct(b for s in lines for b in s.batches)]
    connection.register("_episodes", episode_table(entries))
    parts = ["SELECT * FROM _episodes"]
    if urls:
        parts.append(_in_place(urls))
    if batches:
        connection.register("_batches", _batch_table(batches))
        connection.create_function(_SEEDS, hashed_seeds, ["VARCHAR", "BIGINT"], "UBIGINT[]")
        made = ("run", "task", "condition", "agent", "meta", "episode", "attempt", "seed", "score", "by", "reason")
        parts.append(f"SELECT {', '.join(_columns({n: _name(n) for n in made}))} FROM ({_BATCHES})")
    return " UNION ALL ".join(parts), urls


def _decode(name: str, data: bytes) -> Segment | _Columns:
    if not name.endswith(ledger_file.COLUMNS):
        return ledger_file.decode_segment(name, data)
    header, found = ledger_file.decode_columns(name, data, ("episode", "supersedes"))
    supersedes = found.column("supersedes")
    return _Columns(name, header, found.column("episode"), supersedes.null_count < len(supersedes))


def _all_count(columns: Sequence[_Columns], lines: Sequence[Segment]) -> bool:
    """Whether every entry stands as it was written and no episode was committed twice."""
    few = [e for s in lines for e in s.entries]
    if any(s.revisions for s in lines) or any(e.supersedes for e in few) or any(c.supersedes for c in columns):
        return False
    seen: set[Any] = set()
    for segment in columns:
        seen.update(segment.episodes.to_pylist())
    if few:
        seen = {i for c in columns for i in ids_of(c.episodes)} | {e.head.episode for e in few}
    return len(seen) == len(few) + sum(len(c.episodes) for c in columns)


def _in_place(urls: Sequence[str]) -> str:
    ids = {n: f"'b2:' || lower(hex({n}))" for n in ("episode", "trace_id", "answer")}
    plain = {n: _name(n) for n in episode_schema().names}
    return f"SELECT {', '.join(_columns(plain | ids | {'run': _RUN}))} FROM {scan(urls)}"


def _columns(known: dict[str, str]) -> Iterator[str]:
    """Every column of the view: what is known of it, else null."""
    for field in episode_schema():
        yield f"{known.get(field.name, 'NULL')}::{_TYPES[str(field.type)]} AS {_name(field.name)}"


_TYPES = {"string": "VARCHAR", "int64": "BIGINT", "uint64": "UBIGINT", "double": "DOUBLE"}


def _name(column: str) -> str:
    return f'"{column}"'


def _batch_table(batches: Sequence[tuple[str, Batch]]) -> Any:
    import pyarrow as pa

    text = ("run", "id", "task", "condition", "agent", "scored_by", "missing", "seeds", "outcomes", "meta")
    values: dict[str, list[Any]] = {
        **{n: [getattr(b, n) for _, b in batches] for n in ("id", "task", "condition", "agent", "missing", "seeds")},
        "outcomes": [b.outcomes for _, b in batches],
        "run": [run for run, _ in batches],
        "scored_by": [b.by for _, b in batches],
        "first": [b.first for _, b in batches],
        "meta": [msgspec.json.encode(b.meta).decode() if b.meta else None for _, b in batches],
    }
    return arrow_table(values, pa.schema([*((n, pa.string()) for n in text), ("first", pa.int64())]))
