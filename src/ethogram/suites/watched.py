"""Files of a suite while it is run: what is measured must not change under the measurement."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

from ethogram.errors import BadUsage

from .load import LoadedSuite

_IN_SUITE = re.compile(r"\{suite\}/([\w./-]+)")


def files_of_suite(loaded: LoadedSuite) -> list[Path]:
    """The files that say what a suite asks and expects: those of its tasks, tools, checks and golden set."""
    root = loaded.root
    names = ["suite.yaml", "suite.yml", "tasks.yaml", "tasks.yml", "tasks.jsonl"] if loaded.is_folder else []
    found = [root / name for name in names]
    found += [p for p in (root / "tasks").glob("*") if loaded.is_folder and p.suffix in (".yaml", ".yml", ".jsonl")]
    found += [Path(loaded.spec)] if loaded.spec else []
    found += [Path(str(file)) for file in (getattr(loaded.module, "__file__", None), loaded.golden_file) if file]
    found += [root / name for name in _named(loaded)]
    return sorted({path.resolve() for path in found if path.is_file()})


def _named(loaded: LoadedSuite) -> Iterator[str]:
    for task in loaded.suite.tasks:
        yield from (ref.path for ref in task.files.values())
        yield (task.simulator or "").rpartition(":")[0]
        if task.fixture is not None:
            yield task.fixture.path
        for check in task.checks:
            yield from check.settings.get("sources", {})
            yield from _IN_SUITE.findall(str(check.settings))


class WatchedFiles:
    """Files as they were when a session began."""

    def __init__(self, files: Iterable[Path]) -> None:
        """Every file is read once: its hash decides where its time alone has changed."""
        self.files = tuple(files)
        self._hashes = {path: _hash(path) for path in self.files}
        self._stamps = {path: _stamp(path) for path in self.files}

    def check_unchanged(self, read: bool = False) -> None:
        """Raise `BadUsage` for a file that was edited; `read` reads all of them, not only those of another time."""
        for path in self.files:
            stamp = _stamp(path)
            if not read and stamp == self._stamps[path]:
                continue
            if _hash(path) != self._hashes[path]:
                raise BadUsage(
                    f"the suite was edited while it ran: {path.name!r} is not what it was when the run began; what was "
                    "scored before is kept: restore the file and resume, or begin a new run",
                    where=str(path),
                )
            self._stamps[path] = stamp


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns


def _hash(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            found = blake2b(digest_size=16)
            while part := file.read(1 << 20):
                found.update(part)
            return found.digest()
    except OSError:
        return None
