"""Standard output and error that survive a closed pipe: a reader that leaves must not change the exit code.

Behind a closed pipe or on a full disk a verb goes on to its end, so its exit code is that of its answer.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO


class Lasting(io.FileIO):
    """A stream that takes everything: after the first failure, which it keeps, what is written is dropped."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.failed: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write, or drop once writing has failed."""
        if self.failed is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failed = error
        return memoryview(data).nbytes


def outlive_readers() -> Lasting | None:
    """Put lasting streams in the place of standard output and error; gives the one below standard output.

    None where there was no standard output to begin with.
    """
    error = _lasting(sys.stderr)
    answer = _lasting(sys.stdout)
    sys.stderr = error[0]
    sys.stdout = answer[0]
    return answer[1]


def _lasting(stream: TextIO | None) -> tuple[TextIO, Lasting | None]:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8"), None
    shown = stream.isatty()
    if shown and os.name == "nt":  # a console takes words, not bytes
        return stream, None
    raw = Lasting(stream.fileno())
    text = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding if shown else "utf-8",  # a file or a pipe gets the same bytes on every system
        errors="replace" if shown else stream.errors,
        line_buffering=bool(stream.line_buffering or getattr(stream, "write_through", False)),
    )
    return text, raw
