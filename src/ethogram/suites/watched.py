"""Files of a suite while it is run: what is measured must not change under the measurement."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

from ethogram.errors import BadUsage
from ethogram.plans import Task

from .load import LoadedSuite

SHARE = 0.05
"""The most of the time that is spent on looking at files that were read once, when the suite was loaded."""
_IN_SUITE = re.compile(r"\{suite\}/([\w./-]+)")


def _files_of(loaded: LoadedSuite) -> list[Path]:
    """The files that say what a suite asks and expects, which were read when it was loaded."""
    root = loaded.root
    names = ["suite.yaml", "suite.yml", "tasks.yaml", "tasks.yml", "tasks.jsonl"] if loaded.is_folder else []
    named = [root / name for name in names]
    named += [p for p in (root / "tasks").glob("*") if loaded.is_folder and p.suffix in (".yaml", ".yml", ".jsonl")]
    named += [Path(loaded.spec)] if loaded.spec else []
    named += [Path(str(file)) for file in (getattr(loaded.module, "__file__", None), loaded.golden_file) if file]
    return _real(named)


def _named(task: Task) -> Iterator[str]:
    """What an attempt at a task reads of the suite's folder."""
    yield from (ref.path for ref in task.files.values())
    yield (task.simulator or "").rpartition(":")[0]
    if task.fixture is not None:
        yield task.fixture.path
    for check in task.checks:
        yield from check.settings.get("sources", {})
        yield from _IN_SUITE.findall(str(check.settings))


def _real(files: Iterable[Path]) -> list[Path]:
    return sorted({path.resolve() for path in files if path.is_file()})


class WatchedFiles:
    """The files of a suite as they were when a session began."""

    def __init__(self, loaded: LoadedSuite, clock: Callable[[], float] = time.monotonic) -> None:
        """Every file is read once: its hash decides where its time alone has changed."""
        self._of_task = {t.id: _real(loaded.root / name for name in _named(t)) for t in loaded.suite.tasks}
        self.files: Sequence[Path] = sorted(
            {*_files_of(loaded), *(f for files in self._of_task.values() for f in files)}
        )
        self._hashes = {path: _hash(path) for path in self.files}
        self._stamps = {path: _stamp(path) for path in self.files}
        self._clock, self._next = clock, 0.0

    def check_unchanged(self, task: str | None = None) -> None:
        """Raise `BadUsage` for a file that was edited.

        Without a task all files are read. With one, the sizes and times of what its attempts read are compared; those
        of the other files too, but the more there are, the more seldom.
        """
        if task is None:
            self._compare(self.files, read=True)
            return
        self._compare(self._of_task[task])
        began = self._clock()
        if began >= self._next:
            self._compare(self.files)
            ended = self._clock()
            self._next = ended + (ended - began) / SHARE

    def _compare(self, files: Sequence[Path], read: bool = False) -> None:
        for path in files:
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
        facts = os.stat(path)
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
