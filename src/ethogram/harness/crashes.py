"""Crashes of agents in words: what was raised, where, and the last frames of the agent's own code."""

from __future__ import annotations

import asyncio
import linecache
import os
import threading
from pathlib import Path
from types import TracebackType

import msgspec

from ethogram.traces import cut_whole

MAX_MESSAGE = 2000
MAX_FRAMES = 5
MAX_LINE = 200


def _folders(*packages: str) -> tuple[str, ...]:
    """Where the code of packages of ours lies."""
    return tuple(str(Path(__file__).parents[1] / package) + os.sep for package in packages)


BETWEEN = (
    *_folders("harness", "capture", "wire", "questions"),
    str(Path(asyncio.__file__).parent) + os.sep,
    threading.__file__,
)
"""Frames of these files lie between the agent and us, and tell nothing about its crash."""
RECORDERS = _folders("capture", "store", "traces", "wire")
"""What records an agent: an accident of this code is not the agent's."""
_ACCIDENTS = (AttributeError, NameError, TypeError, LookupError, AssertionError, UnicodeError)


class Crash(msgspec.Struct, frozen=True):
    """A crash: the exception in one line, and where it came from, outermost frame first."""

    message: str
    frames: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((self.message, *(f"  {frame}" for frame in self.frames)))


def crash_of(error: BaseException) -> Crash:
    """A crash from the exception that it raised; `said`, where the exception has it, is what a program wrote last."""
    message = cut_whole(f"{type(error).__name__}: {error}", MAX_MESSAGE)
    said = getattr(error, "said", "")
    if said:
        return Crash(message, tuple(cut_whole(line, MAX_LINE) for line in said.strip().splitlines()[-MAX_FRAMES:]))
    origin: BaseException = error
    while origin.__cause__ is not None:  # where it began, not where it was translated
        origin = origin.__cause__
    return Crash(message, _frames(origin.__traceback__))


def is_of_recorder(error: BaseException) -> bool:
    """Whether an exception was raised inside the code that records, and by accident: not on purpose, for the agent."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    file = "" if trace is None else trace.tb_frame.f_code.co_filename
    return isinstance(error, _ACCIDENTS) and file.startswith(RECORDERS)


def _frames(trace: TracebackType | None) -> tuple[str, ...]:
    found: list[str] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith(BETWEEN):
            source = linecache.getline(code.co_filename, trace.tb_lineno).strip()
            place = f"{_near(code.co_filename)}:{trace.tb_lineno} in {code.co_name}"
            found.append(cut_whole(f"{place}: {source}", MAX_LINE) if source else place)
        trace = trace.tb_next
    return tuple(found[-MAX_FRAMES:])


def _near(file: str) -> str:
    """A file as the user would name it from here."""
    here = os.getcwd() + os.sep
    return file.removeprefix(here)
