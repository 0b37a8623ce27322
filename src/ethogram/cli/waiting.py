"""A sign of life: if a verb prints nothing for two seconds, a line on the terminal says that it is working.

It stands on stderr, only at a terminal, and is gone before anything else is printed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 2.0
"""Seconds of silence before the line appears."""


class _Sign:
    """The line, from when it is due until something is printed."""

    def __init__(self, words: str) -> None:
        self._words = words
        self._lock = threading.Lock()
        self._over = False
        self._line: Any = None
        self._timer = threading.Timer(PATIENCE, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._over:
                return
            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._line = Progress(*columns, console=Console(stderr=True), transient=True)
            self._line.add_task(self._words, total=None)
            self._line.start()

    def end(self) -> None:
        """Take the line away, or see to it that it never appears."""
        self._timer.cancel()
        with self._lock:
            self._over = True
            if self._line is not None:
                self._line.stop()
                self._line = None


_sign: _Sign | None = None


@contextmanager
def sign_of_life(verb: str) -> Iterator[None]:
    """Say that the verb is working while this block prints nothing; only at a terminal."""
    global _sign
    if sys.stderr.isatty():
        _sign = _Sign(f"ethogram {verb} is at work")
    try:
        yield
    finally:
        end_sign()


def end_sign() -> None:
    """Something is about to be printed."""
    global _sign
    if _sign is not None:
        _sign.end()
        _sign = None
