"""Clocks: the real one, and a frozen one that ships so that tests and replays need no patching."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time in nanoseconds since 1970."""

    def now_ns(self) -> int:
        """Now."""
        ...


class SystemClock:
    """The time of this machine; never runs backwards within one process."""

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.monotonic_ns()

    def now_ns(self) -> int:
        """Now."""
        return self._offset + time.monotonic_ns()


class FrozenClock:
    """A clock that moves only by a fixed tick at every look."""

    def __init__(self, start_ns: int = 1_700_000_000_000_000_000, tick_ns: int = 1_000_000) -> None:
        """Begin at `start_ns`."""
        self._now = start_ns
        self._tick = tick_ns

    def now_ns(self) -> int:
        """Now, and a tick later next time."""
        self._now += self._tick
        return self._now
