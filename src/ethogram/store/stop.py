"""The stop flag: one file halts new episodes everywhere; every engine polls it."""

from __future__ import annotations

import os
import time
from contextlib import suppress

import msgspec

from ethogram.errors import BadUsage, EthogramError

from .files import Files, LocalFiles
from .shown_texts import shown

POLL_SECONDS = 0.25
_HOME_FLAG = "stop.json"


class StopFlag(msgspec.Struct, frozen=True):
    """When the switch was pulled, and why."""

    at_ns: int
    why: str = ""


def pull(files: Files, run_path: str | None, why: str = "") -> StopFlag:
    """Stop one run, or all runs of the home."""
    flag = StopFlag(time.time_ns(), shown(why))
    try:
        files.publish(_flag(run_path), msgspec.json.encode(flag))
    except EthogramError:
        if not _turn(files, _flag(run_path)):
            raise
    return flag


def lay_down(files: Files, run_path: str) -> None:
    """Keep flags of a run and of its home ready, so that the switch works when the disk is full."""
    for flag in (_flag(run_path), _HOME_FLAG):
        if isinstance(files, LocalFiles):
            with suppress(EthogramError):  # a disk that is full by now has no room for it
                files.create(_ready(flag), b"")  # nothing in it can be damaged


def _turn(files: Files, flag: str) -> bool:
    """Give the flag that lies ready its name, which needs no room; False where none lies there."""
    if isinstance(files, LocalFiles):
        with suppress(OSError):
            os.replace(files.url(_ready(flag)), files.url(flag))
            return True
    return False


def _ready(flag: str) -> str:
    folder, slash, name = flag.rpartition("/")
    return f"{folder}{slash}.{name}.ready"


def check_released(files: Files, run_path: str, run: str) -> None:
    """Raise `BadUsage` for a run whose switch, or that of its home, is pulled."""
    flag = pulled(files, run_path)
    if flag is not None:
        why = f" ({flag.why})" if flag.why else ""
        own = files.exists(_flag(run_path))
        what, name = (f"run {run!r}", f"{run} ") if own else ("this home", "")
        also = "; run --resume takes --undo as well" if own else ""
        raise BadUsage(
            f"the kill switch of {what} is pulled{why}, so nothing begins; release it: ethogram kill {name}--undo{also}"
        )


def release(files: Files, run_path: str | None) -> None:
    """Let episodes start again."""
    files.delete(_flag(run_path))


def pulled(files: Files, run_path: str) -> StopFlag | None:
    """The flag that holds for a run, if any: its own, or the home's."""
    for path in (_flag(run_path), _HOME_FLAG):
        if files.exists(path):
            data = files.read(path)
            if not data:
                return StopFlag(0, "pulled when the disk was full")
            try:
                return msgspec.json.decode(data, type=StopFlag)
            except msgspec.MsgspecError:
                return StopFlag(0, "the stop flag cannot be read; it stops anyway")
    return None


def _flag(run_path: str | None) -> str:
    return _HOME_FLAG if run_path is None else f"{run_path}/stop.json"
