"""Text search in a trace: over all its texts, in bounded memory."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from ethogram.arrays import plain_numbers
from ethogram.errors import BadUsage
from ethogram.store import Lake

from .outline import TraceOutline
from .trace_words import TextSearch, words_in

MOST_COUNTED = 20_000
"""Steps in which occurrences are counted one by one; in more, each step counts once."""


def find_in_trace(outline: TraceOutline, text: str) -> TextSearch:
    """The steps that contain a text, ignoring case, and how often.

    Texts are looked through as they are stored; only the steps that may hold the text are read. Raises `BadUsage` where
    there is nothing to look for.
    """
    if not text.strip():
        raise BadUsage("there is nothing to look for; type a text")
    refs, steps = outline.references()
    may_hold = np.isin(steps, steps[_holding(outline, refs, text)])
    named = _named(outline, text)
    candidates = np.unique(np.concatenate([steps[may_hold], named]))
    if candidates.size > MOST_COUNTED:
        return _search(text, outline, [int(s) for s in candidates], int(candidates.size))
    at, times = [], 0
    for first in range(0, candidates.size, 500):
        for step, _, parts in outline.words([int(s) for s in candidates[first : first + 500]]):
            count = words_in(text, parts)
            times += count
            at.extend([step] if count else [])
    return _search(text, outline, at, times)


def _search(text: str, outline: TraceOutline, at: list[int], times: int) -> TextSearch:
    return TextSearch(text=text, steps=len(at), of=int(outline.steps.size), times=times, at=at)


def _holding(outline: TraceOutline, refs: Any, text: str) -> Any:
    """Which references lead to a text that may hold the words; a stored message may lean on another text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    escaped = msgspec.json.encode(text).decode()[1:-1]
    found = []
    for batch in Lake([outline.run]).texts(outline.entry.texts):
        body = batch.column("body")
        hits = pc.match_substring(body, text, ignore_case=True)
        if escaped != text:
            hits = pc.or_(hits, pc.match_substring(body, escaped, ignore_case=True))
        hits = pc.or_(hits, pc.match_substring(body, '_ref"'))
        found.append(batch.column("ref").filter(hits))
    if not found:
        return np.zeros(len(refs), dtype=bool)
    held = pc.index_in(refs, value_set=pa.chunked_array(found).combine_chunks())
    return plain_numbers(held, -1) >= 0


def _named(outline: TraceOutline, text: str) -> Any:
    """Steps whose tool has the text in its name: names of tools are words too."""
    import pyarrow.compute as pc

    hits = np.zeros(len(outline), dtype=bool)
    for name in ("tool", "name"):
        held = pc.match_substring(outline.table.column(name), text, ignore_case=True)
        hits |= plain_numbers(held.cast("uint8"), 0) > 0
    return np.flatnonzero(hits[outline.steps])
