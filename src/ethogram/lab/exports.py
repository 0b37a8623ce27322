"""Out again: a run as Parquet, CSV, our JSON lines, ATIF, OTLP JSON or an Inspect log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ethogram.errors import BadUsage, NotFound
from ethogram.store import Home, Lake, Run, episode_table, open_home
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
    entries = [found.find(t) for t in traces] if traces else [e for e in found.entries if not e.forgotten]
    if to in ("parquet", "csv"):
        folder = Path(out or f"{found.name}-{to}")
        return _tables(found, to, folder)
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


def _tables(run: Run, to: str, folder: Path) -> ExportResult:
    """Episodes, spans, texts and labels as one file each."""
    if folder.exists() and any(folder.iterdir()):
        raise BadUsage(f"{folder} is not empty; choose another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    lake = Lake([run])
    files = []
    for name in ("episodes", "spans", "texts", "labels"):
        table: Any = (
            episode_table((run.name, e) for e in run.entries)
            if name == "episodes"
            else lake.sql(f"SELECT * FROM {name}")
        )
        target = folder / f"{name}.{to}"
        if to == "parquet":
            import pyarrow.parquet as pq

            pq.write_table(table, target, compression="zstd")
        else:
            _write_csv(table, target)
        files.append(str(target))
    return ExportResult(run=run.name, format=to, files=files, traces=len(run.entries))


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
        return " ".join(map(str, value))
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value
