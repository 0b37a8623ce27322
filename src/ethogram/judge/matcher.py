"""Matches regular expressions for `patterns`. A program: it reads requests from standard input until that is closed.

A match cannot be interrupted inside Python, and it stops every thread; so it happens here, and a timer of the system
ends this process when a match takes too long, also where nobody is left to ask for it.
"""

from __future__ import annotations

import marshal
import re
import signal
import sys

MAX_FOUND = 10_000


def main() -> None:
    """Answer requests (pattern, flags, whole, text, seconds) with what matches, None, or an error in a tuple."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while header := source.read(8):
        pattern, flags, whole, text, seconds = marshal.loads(source.read(int.from_bytes(header, "little")))  # noqa: S302 - between ourselves
        signal.setitimer(signal.ITIMER_REAL, seconds)  # whose signal ends this process
        found: str | tuple[str] | None
        try:
            compiled = re.compile(pattern, flags)
            match = compiled.fullmatch(text) if whole else compiled.search(text)
            found = None if match is None else match.group(0)[:MAX_FOUND]
        except (re.error, OverflowError, RecursionError, MemoryError) as error:
            found = (f"{type(error).__name__}: {error}",)
        signal.setitimer(signal.ITIMER_REAL, 0)
        data = marshal.dumps(found)
        sink.write(len(data).to_bytes(8, "little") + data)
        sink.flush()


if __name__ == "__main__":
    main()
