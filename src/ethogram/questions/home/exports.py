"""Export of a run as Parquet, CSV, our JSON lines, ATIF, OTLP JSON or an Inspect log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from ethogram.arrays import column
from ethogram.capture.writers import Writer, plugged_writers
from ethogram.errors import BadInput, BadUsage, EthogramError
from ethogram.plugins import Plugged
from ethogram.result import Result
from ethogram.store import Entry, Home, Lake, Run, episode_table, run_of
from ethogram.store.segment import SPAN_COLUMNS, span_schema, text_schema
from ethogram.store.tables import label_table
from ethogram.traces import Trace

GROUP_BYTES, GROUP_BATCHES = 16 << 20, 128
FORMATS = ("parquet", "csv", "jsonl", "atif", "otlp", "inspect")
_ENDINGS = {"jsonl": ".jsonl", "atif": ".atif.jsonl", "otlp": ".otlp.jsonl", "inspect": ".eval"}


class ExportResult(Result, kw_only=True):
    """What was written, and what the format could not say."""

    run: str
    format: str
    files: list[str]
    traces: int
    lost: dict[str, int] = {}


def export(
    run: str | Run = "latest",
    to: str = "parquet",
    *,
    out: str | Path | None = None,
    traces: Sequence[str] = (),
    home: Home | str | None = None,
) -> ExportResult:
    """Write a run, or some of its traces, in another format. An existing file is never overwritten.

    `to` is one of `FORMATS` or the name of a writer of an installed package, `out` the file or folder (by default named
    after the run), `traces` ids or starts of ids. Gives what was written and what the format could not hold. Raises
    `NotFound` for a format, run or trace that does not exist, `BadUsage` for a place that is taken.

    Example: `export("night", "csv", out="night-csv")`
    """
    writer = None if to in FORMATS else _plugged(to)
    found = run_of(run, home)
    entries = [e for e in found.entries if not e.forgotten]
    if traces:
        entries = list({e.head.trace_id: e for e in map(found.find, traces)}.values())
    if to in ("parquet", "csv"):
        folder = Path(out or f"{found.name}-{to}")
        return _tables(found, to, folder, entries if traces else None)
    target = Path(out or found.name + (_ENDINGS[to] if writer is None else writer.ending))
    if target.exists():
        raise BadUsage(f"{target} exists already; choose another name with --out")
    target.parent.mkdir(parents=True, exist_ok=True)
    lost = _write(to, writer, (found.trace(e) for e in entries), target)
    return ExportResult(run=found.name, format=to, files=[str(target)], traces=len(entries), lost=lost)


def export_formats() -> list[str]:
    """The formats of Ethogram and of installed packages."""
    return [*FORMATS, *plugged_formats().values()]


def plugged_formats() -> Plugged[Writer]:
    """The formats that installed packages add."""
    return plugged_writers(FORMATS)


def _plugged(to: str) -> Writer:
    added = plugged_formats()
    found = added.values().get(to)
    if found is None:
        raise added.missing(to, export_formats(), "export format")
    return found


def _write(to: str, writer: Writer | None, traces: Iterable[Trace], target: Path) -> dict[str, int]:
    """Write through a draft, so that a crash leaves no half file under the final name."""
    write: Any = import_module(f"ethogram.capture.writers.{to}").write if writer is None else writer.write
    draft = target.with_name(f".{target.name}.tmp")
    try:
        if to == "inspect":
            lost: dict[str, int] = write(traces, draft)
        else:
            with draft.open("wb") as stream:
                lost = _written(to, write, traces, stream, ours=writer is None)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    return lost


def _written(to: str, write: Any, traces: Iterable[Trace], stream: BinaryIO, *, ours: bool) -> dict[str, int]:
    """What a writer could not say; the failure of one that is not ours is one sentence."""
    try:
        return dict(write(traces, stream) or {})
    except (EthogramError, OSError):
        raise
    except Exception as error:
        if ours:
            raise
        raise BadInput(
            f"the writer {to!r} failed: {type(error).__name__}: {error}", where=f"the writer {to!r}"
        ) from error


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
            schema, batches = _batches(run, name, entries, all_of_it=chosen is None)
            (_write_parquet if to == "parquet" else _write_csv)(schema, batches, files[-1])
    except BaseException:
        for file in files:
            file.unlink(missing_ok=True)
        raise
    return ExportResult(run=run.name, format=to, files=[str(f) for f in files], traces=len(entries))


def _batches(run: Run, name: str, entries: Sequence[Entry], *, all_of_it: bool) -> tuple[Any, Iterator[Any]]:
    """The schema and the batches of one view of a run, or of as much of it as belongs to some traces."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lake = Lake([run])
    if name in ("episodes", "labels"):
        table = label_table([run])
        if name == "episodes":
            chosen = episode_table((run.name, e) for e in entries)
            table = lake.sql("SELECT * FROM episodes") if all_of_it else chosen
        schema, batches = table.schema, iter(table.to_batches(max_chunksize=4096))
    else:
        texts = name == "texts"
        plain, rows = (text_schema(), lake.texts()) if texts else (span_schema(), lake.spans(tuple(SPAN_COLUMNS)))
        schema = plain.insert(0, pa.field("run", pa.string()))
        batches = (
            pa.RecordBatch.from_arrays([column([run.name] * b.num_rows, pa.string()), *b.columns], schema=schema)
            for b in rows
        )
    if all_of_it or name == "episodes":
        return schema, batches
    key, wanted = "trace_id", {str(e.head.trace_id) for e in entries}
    if name == "texts":
        key, wanted = "ref", {str(ref) for e in entries for ref in run.all_refs(e)}
    values = column(sorted(wanted), pa.string())
    return schema, (b.filter(pc.is_in(b.column(key), value_set=values)) for b in batches)


def _write_parquet(schema: Any, batches: Iterator[Any], target: Path) -> None:
    """Row groups of some megabytes: small enough to hold, large enough to read fast."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    held: list[Any] = []
    size = 0
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size >= GROUP_BYTES or len(held) >= GROUP_BATCHES:
                writer.write_table(pa.Table.from_batches(held, schema))
                held, size = [], 0
        if held:
            writer.write_table(pa.Table.from_batches(held, schema))


def _write_csv(schema: Any, batches: Iterator[Any], target: Path) -> None:
    import csv

    with target.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(schema.names)
        for batch in batches:
            columns = [c.to_pylist() for c in batch.columns]
            writer.writerows([_cell(v) for v in row] for row in zip(*columns, strict=True))


def _cell(value: Any) -> Any:
    """A CSV cell; a leading sign that a spreadsheet would run as a formula is quoted."""
    if isinstance(value, list):
        value = " ".join(map(str, value))
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r", "\n"):
        return "'" + value
    return value
