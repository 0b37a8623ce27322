"""Wait until SIGINT or SIGTERM arrives, or until another thread says that it is over.

A signal handler runs in the main thread between two of its instructions. `threading.Event.set` must not be called
there: if the main thread is just inside `Event.wait`, it holds the lock that `set` needs, and the process hangs for
ever. `SimpleQueue.put` is made to be called from handlers.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType

WAIT_SECONDS = 0.1
"""A signal that arrives just before the wait begins is handled when this has passed."""


class StopEvent:
    """An event that is set once, also from a signal handler, and that one thread waits for."""

    def __init__(self) -> None:
        self.signal = 0
        """The first signal that arrived, or 0."""
        self._set = False
        self._wake: SimpleQueue[None] = SimpleQueue()

    def set(self, number: int = 0) -> None:
        """End the wait; `number` is the signal that asked for it."""
        self.signal = self.signal or number
        self._set = True
        self._wake.put(None)

    def is_set(self) -> bool:
        """Whether the wait is over."""
        return self._set

    def wait(self) -> None:
        """Return when the event is set."""
        while not self._set:
            try:
                self._wake.get(timeout=WAIT_SECONDS)
            except Empty:
                continue


@contextmanager
def on_stop_signals(handle: Callable[[int], None]) -> Iterator[None]:
    """Call a function with the number of each SIGINT and SIGTERM; only the main thread can take signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def take(number: int, frame: FrameType | None) -> None:
        handle(number)

    before = {number: signal.signal(number, take) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
