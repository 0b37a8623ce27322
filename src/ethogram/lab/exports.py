"""Out again: a run as Parquet, CSV, our JSON lines, ATIF, OTLP JSON or an Inspect log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ethogram.errors import BadUsage, NotFound
from ethogram.store import Entry, Home, Lake, Run, episode_table, open_home
from ethogram.trace import Trace

from .result import Result

FORMATS = ("parquet", "csv", "jsonl", "atif", "otlp", "inspect")
_ENDINGS = {"jsonl": ".jsonl", "atif": ".atif.jsonl", "otlp": ".otlp.jsonl", "inspect": ".eval"}


class ExportResult(Result, kw_only=True):
    """What was written, and what the format could not say."""

    run: str
    format: str
    files: list[str]
    traces: int
    lost: dict[str, int] = {}


def export_run(
    run: str = "latest",
    to: str = "parquet",
    *,
    out: str | Path | None = None,
    traces: Sequence[str] = (),
    home: Home | str | None = None,
) -> ExportResult:
    """Write a run, or some of its traces, in another format. An existing file is never overwritten."""
    if to not in FORMATS:
        raise NotFound.named("export format", to, list(FORMATS))
    lake = home if isinstance(home, Home) else open_home(home)
    found = lake.resolve(run)
    entries = [e for e in found.entries if not e.forgotten]
    if traces:
        entries = list({e.head.trace_id: e for e in map(found.find, traces)}.values())
    if to in ("parquet", "csv"):
        folder = Path(out or f"{found.name}-{to}")
        return _tables(found, to, folder, entries if traces else None)
    target = Path(out or found.name + _ENDINGS[to])
    if target.exists():
        raise BadUsage(f"{target} exists already; choose another name with --out")
    target.parent.mkdir(parents=True, exist_ok=True)
    lost = _write(to, (found.trace(e) for e in entries), target)
    return ExportResult(run=found.name, format=to, files=[str(target)], traces=len(entries), lost=lost)


def _write(to: str, traces: Iterable[Trace], target: Path) -> dict[str, int]:
    """Write through a draft, so that a crash leaves no half file under the final name."""
    writer = import_module(f"ethogram.capture.writers.{to}")
    draft = target.with_name(f".{target.name}.tmp")
    try:
        if to == "inspect":
            lost: dict[str, int] = writer.write(traces, draft)
        else:
            with draft.open("wb") as stream:
                lost = writer.write(traces, stream)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    return lost


def _tables(run: Run, to: str, folder: Path, chosen: Sequence[Entry] | None) -> ExportResult:
    """Episodes, spans, texts and labels as one file each, of chosen traces or of all; a crash leaves none of them."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        why = "is not empty" if folder.is_dir() else "is a file"
        raise BadUsage(f"{folder} {why}; choose another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    entries = run.entries if chosen is None else chosen
    files: list[Path] = []
    try:
        for name in ("episodes", "spans", "texts", "labels"):
            files.append(folder / f"{name}.{to}")
            table = _table(run, name, entries, all_of_it=chosen is None)
            if to == "parquet":
                import pyarrow.parquet as pq

                pq.write_table(table, files[-1], compression="zstd")
            else:
                _write_csv(table, files[-1])
    except BaseException:
        for file in files:
            file.unlink(missing_ok=True)
        raise
    return ExportResult(run=run.name, format=to, files=[str(f) for f in files], traces=len(entries))


def _table(run: Run, name: str, entries: Sequence[Entry], *, all_of_it: bool) -> Any:
    """One view of a run, or as much of it as belongs to some traces."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if name == "episodes":
        return episode_table((run.name, e) for e in entries)
    table = Lake([run]).sql(f"SELECT * FROM {name}")
    if all_of_it:
        return table
    column, wanted = "trace_id", {str(e.head.trace_id) for e in entries}
    if name == "texts":
        column, wanted = "ref", {str(ref) for e in entries for ref in run.all_refs(e)}
    return table.filter(pc.is_in(table[column], value_set=pa.array(sorted(wanted), pa.string())))


def _write_csv(table: Any, target: Path) -> None:
    import csv

    with target.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(table.column_names)
        for batch in table.to_batches(max_chunksize=4096):
            columns = [c.to_pylist() for c in batch.columns]
            writer.writerows([_cell(v) for v in row] for row in zip(*columns, strict=True))


def _cell(value: Any) -> Any:
    """A CSV cell; a leading sign that a spreadsheet would run as a formula is quoted."""
    if isinstance(value, list):
        value = " ".join(map(str, value))
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r", "\n"):
        return "'" + value
    return value
