"""Whether a run holds a text: searched in its traces, in bounded memory and time."""

from __future__ import annotations

import time

import msgspec

from ethogram.store import Lake, Run

MOST_SECONDS = 20.0
"""How long one run is looked through: nobody waits longer for a line of a list."""


def holds_words(run: Run, text: str, *, seconds: float = MOST_SECONDS) -> bool | None:
    """Whether any text of a run contains these words, ignoring case; None where the time ran out.

    Stops at the first text that holds them. Raises `Sealed` or `Damaged` where texts cannot be read.

    Example: `holds_words(home.run("night"), "refund")`
    """
    import pyarrow.compute as pc

    until = time.monotonic() + seconds
    wanted = msgspec.json.encode(text).decode()[1:-1]  # words of messages are stored as JSON
    for batch in Lake([run]).texts():
        if pc.any(pc.match_substring(batch.column("body"), wanted, ignore_case=True)).as_py():
            return True
        if time.monotonic() > until:
            return None
    return False
