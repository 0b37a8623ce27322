"""Deferred work: reading and recording what has passed, done while no bytes are being forwarded."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

QUIET_SECONDS = 0.001
"""How long nothing must have passed before work is done: replies that came together are passed on together first."""
LATEST_SECONDS = 0.01
"""Work that has waited for this long is done however busy it is: what waits is lost where the process is killed."""
SLICE_SECONDS = 0.001
"""For how long late work may keep calls waiting before the loop looks at them again."""
MOST_WAITING = 1000
MOST_BYTES = 64 << 20
"""Work, and bytes in it, that may wait; beyond, the oldest is done at once."""


class _Work(NamedTuple):
    do: Callable[[], None]
    size: int
    since: float


class Later:
    """A queue of work in the order in which it was added; used from the thread of one event loop.

    Work that raises is told to the loop, and what comes after it is done: it belongs to no call that could be told.
    """

    def __init__(self) -> None:
        """Nothing waits yet."""
        self._waiting: deque[_Work] = deque()
        self._size = 0
        self._busy_at = 0.0
        self._timed = False
        self._doing = False
        self.besides = 0
        """Calls that are being recorded in other threads now."""

    def busy(self) -> None:
        """Bytes are passing: other calls may be about to."""
        self._busy_at = asyncio.get_running_loop().time()

    def add(self, work: Callable[[], None], size: int) -> None:
        """Do something soon; `size` is how many bytes it keeps in memory until then."""
        loop = asyncio.get_running_loop()
        self._waiting.append(_Work(work, size, loop.time()))
        self._size += size
        while len(self._waiting) > MOST_WAITING or (self._size > MOST_BYTES and self._waiting):
            self._next()
        if self._waiting and not self._timed:
            self._timed = True
            loop.call_later(QUIET_SECONDS, self._turn, loop)

    def drain(self) -> None:
        """Do all that waits now: needed before a budget is asked, and before an episode ends."""
        while self._waiting and not self._doing:
            self._next()

    @contextmanager
    def beside(self) -> Iterator[None]:
        """A call is recorded in another thread while the block runs."""
        self.besides += 1
        try:
            yield
        finally:
            self.besides -= 1

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do the next piece, unless bytes passed just now; between two pieces the loop looks for new ones."""
        self._timed = bool(self._waiting)
        if not self._waiting:
            return
        now = loop.time()
        late = now - self._waiting[0].since >= LATEST_SECONDS
        quiet = self._busy_at + QUIET_SECONDS
        if now < quiet and not late:
            loop.call_later(quiet - now, self._turn, loop)
            return
        self._next()
        while late and self._waiting and loop.time() - now < SLICE_SECONDS:
            self._next()
        loop.call_soon(self._turn, loop)

    def _next(self) -> None:
        work = self._waiting.popleft()
        self._size -= work.size
        self._doing = True
        try:
            work.do()
        except Exception as error:
            told = {"message": "work of the gateway that waited has failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(told)
        finally:
            self._doing = False
