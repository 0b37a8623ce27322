"""One small file per format that traces can be written in. Each has `write(traces, stream)`.

An installed package adds a writer with an entry point in the group `ethogram.writers`: its name is that of the format,
and it names a module with `write`, and with `ENDING` if its files should not end in the name of the format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, BinaryIO, NamedTuple

from ethogram.errors import BadInput
from ethogram.plugins import Plugged, plugged
from ethogram.traces import Trace

GROUP = "ethogram.writers"


class Writer(NamedTuple):
    """A format of an installed package: how its files end, and what writes them and counts what is lost."""

    ending: str
    write: Callable[[Iterable[Trace], BinaryIO], dict[str, int]]


def plugged_writers(taken: Collection[str]) -> Plugged[Writer]:
    """The writers that installed packages add; `taken` are the formats that Ethogram has itself."""
    return plugged(GROUP, _checked, taken=taken)


def _checked(loaded: Any, name: str) -> Writer:
    if not callable(getattr(loaded, "write", None)):
        raise BadInput("it is not a writer: it has no function write")
    return Writer(str(getattr(loaded, "ENDING", f".{name}")), loaded.write)
