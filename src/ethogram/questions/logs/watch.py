"""Import again and again, as files appear and grow."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ethogram.store import Home

from .imports import ImportOptions, ImportResult, read_logs


def watch_logs(
    paths: str | Path | Sequence[str | Path],
    options: ImportOptions,
    *,
    home: Home | str | None = None,
    seconds: float = 2.0,
    rounds: int | None = None,
) -> Iterator[ImportResult]:
    """Import again and again as files appear and grow; only what changed is read. Ends after `rounds`, or never."""
    many = [Path(p) for p in ([paths] if isinstance(paths, str | Path) else paths)]
    seen: dict[Path, tuple[int, int]] = {}
    count = 0
    while rounds is None or count < rounds:
        count += 1
        changed = [p for p in _files(many) if _stamp(p) != seen.get(p)]
        if changed:
            seen.update({p: stamp for p in changed if (stamp := _stamp(p)) is not None})
            yield read_logs(many, options, home=home)
        if rounds is None or count < rounds:
            time.sleep(seconds)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
