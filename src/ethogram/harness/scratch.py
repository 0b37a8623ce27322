"""Temporary folders of this process in one place, so that a later one can remove what a killed one left.

`<tmp>/ethogram-<pid>-<random>/lock` is locked while its process lives. The lock, not the number in the name, says
whether it does: numbers are used again, and mean nothing in another container that shares the folder.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # not a Unix: nothing can be locked, so nothing is swept
    fcntl = None  # type: ignore[assignment]

PREFIX = "ethogram-"
LOCK = "lock"
_making = threading.Lock()
_bases: dict[tuple[int, str], Path] = {}


def new_folder(kind: str) -> Path:
    """A new, empty folder that is swept if this process dies before it removes it."""
    return Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=_base())).resolve()


@contextmanager
def scratch_folder(kind: str) -> Iterator[Path]:
    """A folder for the length of a block."""
    folder = new_folder(kind)
    try:
        yield folder
    finally:
        remove(folder)


def kept_folder(folder: Path) -> Path:
    """Move a folder out of what is swept, under a name of its own."""
    kept = Path(tempfile.mkdtemp(prefix=f"{PREFIX}kept-")).resolve()
    return folder.rename(kept / folder.name)


def sweep_scratch() -> list[Path]:
    """Remove the folders of processes that are gone, and say which these were."""
    if fcntl is None:
        return []
    gone = []
    for base in Path(tempfile.gettempdir()).glob(f"{PREFIX}[0-9]*-*"):
        with suppress(OSError):
            if base not in _bases.values() and _is_abandoned(base):
                _remove_base(base)
                gone.append(base)
    return gone


def _base() -> Path:
    """The folder of this process, made and locked when first asked for; a forked child makes its own."""
    place = (os.getpid(), tempfile.gettempdir())
    with _making:
        base = _bases.get(place)
        if base is None or not base.is_dir():
            base = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")).resolve()
            _hold(base)
            _bases[place] = base
            atexit.register(_leave, os.getpid(), base)
        return base


def _hold(base: Path) -> None:
    """Lock the folder for the life of this process; it can be swept only once its lock has its final name."""
    if fcntl is None:
        return
    handle = os.open(base / "new", os.O_RDWR | os.O_CREAT, 0o600)  # never closed: the lock goes with it
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.rename(base / "new", base / LOCK)


def _leave(pid: int, base: Path) -> None:
    if pid == os.getpid():
        with suppress(OSError):
            _remove_base(base)


def _is_abandoned(base: Path) -> bool:
    """Whether nobody holds the lock of a folder that is ours to remove."""
    facts = base.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
        return False
    handle = os.open(base / LOCK, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(handle)
    return True


def _remove_base(base: Path) -> None:
    """The lock goes last: what could not be removed is found by the next sweep."""
    for folder in base.iterdir():
        if folder.name != LOCK:
            remove(folder)
    if {p.name for p in base.iterdir()} <= {LOCK}:
        (base / LOCK).unlink(missing_ok=True)
        base.rmdir()


def remove(folder: Path) -> None:
    """Remove a folder, also where an agent took its own rights away; what will not go is left to the system."""

    def mend(function: Callable[..., Any], path: str, info: Any) -> None:
        try:
            os.chmod(os.path.dirname(path), stat.S_IRWXU)
            if not os.path.islink(path):
                os.chmod(path, stat.S_IRWXU)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                function(path)
        except OSError:
            return

    shutil.rmtree(folder, onerror=mend)
