"""The kill switch: a flag in the store that every run looks at before it begins an episode."""

from __future__ import annotations

from ethogram.result import Result
from ethogram.store import Home, home_of
from ethogram.store.stop import pull, release


class Killed(Result, kw_only=True):
    """The kill switch was set, or released."""

    run: str | None
    at_ns: int | None
    why: str
    released: bool = False


def kill(run: str | None = None, *, why: str = "", undo: bool = False, home: Home | str | None = None) -> Killed:
    """Halt new episodes of one run, or of all; those in flight may finish."""
    lake = home_of(home)
    found = lake.resolve(run) if run is not None else None
    path = found.path if found else None
    files = found.files if found else lake.files
    if undo:
        release(files, path)
        return Killed(run=found.name if found else None, at_ns=None, why=why, released=True)
    flag = pull(files, path, why)
    return Killed(run=found.name if found else None, at_ns=flag.at_ns, why=why)
