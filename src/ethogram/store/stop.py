"""The stop flag: one file halts new episodes everywhere; every engine polls it."""

from __future__ import annotations

import time

import msgspec

from .files import Files
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
    files.publish(_flag(run_path), msgspec.json.encode(flag))
    return flag


def release(files: Files, run_path: str | None) -> None:
    """Let episodes start again."""
    files.delete(_flag(run_path))


def pulled(files: Files, run_path: str) -> StopFlag | None:
    """The flag that holds for a run, if any: its own, or the home's."""
    for path in (_flag(run_path), _HOME_FLAG):
        if files.exists(path):
            try:
                return msgspec.json.decode(files.read(path), type=StopFlag)
            except msgspec.MsgspecError:
                return StopFlag(0, "the stop flag cannot be read; it stops anyway")
    return None


def _flag(run_path: str | None) -> str:
    return _HOME_FLAG if run_path is None else f"{run_path}/stop.json"
