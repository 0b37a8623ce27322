"""Matches regular expressions for `patterns`. A program: it reads requests from standard input until that is closed.

A match cannot be interrupted inside Python, and it stops every thread; so it happens here, and a timer of the system
ends this process when a match takes too long, also where nobody is left to ask for it.
"""

from __future__ import annotations

import faulthandler
import marshal
import os
import re
import signal
import sys

MAX_FOUND = 10_000
_NOWHERE = os.open(os.devnull, os.O_WRONLY)


def main() -> None:
    """Answer requests (pattern, flags, whole, text, seconds) with what matches, None, or an error in a tuple."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while header := source.read(8):
        pattern, flags, whole, text, seconds = marshal.loads(source.read(int.from_bytes(header, "little")))  # noqa: S302 - between ourselves
        start_timer(seconds)
        found: str | tuple[str] | None
        try:
            compiled = re.compile(pattern, flags)
            match = compiled.fullmatch(text) if whole else compiled.search(text)
            found = None if match is None else match.group(0)[:MAX_FOUND]
        except (re.error, OverflowError, RecursionError, MemoryError) as error:
            found = (f"{type(error).__name__}: {error}",)
        stop_timer()
        data = marshal.dumps(found)
        sink.write(len(data).to_bytes(8, "little") + data)
        sink.flush()


def start_timer(seconds: float) -> None:
    """End this process after this time, unconditionally."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
    else:  # on Windows a thread outside the interpreter ends it
        faulthandler.dump_traceback_later(seconds, exit=True, file=_NOWHERE)


def stop_timer() -> None:
    """The match came to an end in time."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)
    else:
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
