"""States of the standard field: milestones read from columns, and milestones that a preset brings along."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from ethogram.arrays import text_scalar

from .columns import Ints
from .milestones import Milestones, milestones_from
from .standard import tool_classes
from .standard_stream import coded, whole_traces

COLUMNS = ("trace_id", "step", "kind", "name", "tool", "status", "requested")
"""What has to be read of the spans that are steps."""

DEFAULT_STATES: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "standard": (("acting", ()), ("writing", ("write",))),
    "coding": (("looking", ("file_read", "search")), ("editing", ("file_edit",)), ("testing", ("test",))),
    "service": (("looked up", ("read",)), ("acted", ("write",))),
    "web": (("browsing", ("visit", "search")), ("interacting", ("click", "typed"))),
}
"""The states that a preset has of itself: each begins with the first call of a tool of these classes, or of any."""

_BETWEEN = "\x1f"


class _Step(msgspec.Struct, frozen=True):
    """What a milestone asks of a step."""

    kind: str
    name: str
    tool: str | None
    status: str
    requested: tuple[str, ...]


def default_states(preset: str, tools: Sequence[str]) -> Milestones | None:
    """The milestones of a preset for these tools; None where no tool is of any class."""
    stones = []
    for state, classes in DEFAULT_STATES[preset]:
        own = [re.sub(r"([*?\[])", r"[\1]", t) for t in tools if not classes or tool_classes(t) & set(classes)]
        if own:
            stones.append({"state": state, "when": {"tool": own}})
    return milestones_from(stones) if stones else None


def state_labels(
    batches: Iterable[Any], traces: Sequence[str], steps: Ints, stones: Milestones
) -> list[tuple[str, ...]]:
    """One state per step of every trace; sequences of the same steps are read once."""
    out: list[tuple[str, ...]] = [()] * len(traces)
    for rows, table, starts in whole_traces(batches, traces, steps):
        spans, code = _distinct(table)
        known: dict[bytes, tuple[str, ...]] = {}
        for row, part in zip(rows.tolist(), np.split(code, starts[1:]), strict=True):
            key = part.tobytes()
            if key not in known:
                known[key] = tuple(stones.labels([spans[i] for i in part.tolist()]))
            out[row] = known[key]
    return out


def _distinct(table: Any) -> tuple[list[_Step], Ints]:
    """Every different step once, and which one each row is."""
    import pyarrow.compute as pc

    parts = []
    codes = np.zeros(table.num_rows, dtype=np.int64)
    for name in COLUMNS[2:]:
        column = table.column(name)
        values, index = coded(pc.binary_join(column, text_scalar(_BETWEEN)) if name == "requested" else column)
        parts.append(([*values, None], index))
        _, codes = np.unique(codes * (len(values) + 1) + index, return_inverse=True)
    _, first = np.unique(codes, return_index=True)
    found = []
    for row in first:
        kind, name, tool, status, asked = (values[int(index[row])] for values, index in parts)
        found.append(_Step(kind, name, tool, status, tuple(asked.split(_BETWEEN)) if asked else ()))
    return found, codes.astype(np.int64)
