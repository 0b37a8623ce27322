"""Our own JSON lines (see `ethogram.traces.codec`): the only format that holds a whole trace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from ethogram.traces import Trace, detached_refs
from ethogram.traces.codec import encode

FORMAT = "jsonl"


def write(traces: Iterable[Trace], stream: BinaryIO) -> dict[str, int]:
    """Write traces one after another and give what was lost: nothing, unless a trace leans on texts it has not."""
    lost: dict[str, int] = {}
    for trace in traces:
        for line in encode(trace):
            stream.write(line)
            stream.write(b"\n")
        missing = _missing(trace)
        if missing:
            lost["text (missing)"] = lost.get("text (missing)", 0) + missing
    return lost


def _missing(trace: Trace) -> int:
    """How many texts the trace refers to and does not hold."""
    wanted = {ref for span in trace.spans for ref in span.refs}
    wanted.update(label.why for label in trace.labels if label.why is not None)
    if trace.head.answer is not None:
        wanted.add(trace.head.answer)
    for ref in tuple(wanted):
        if ref in trace.texts:
            wanted.update(detached_refs(trace.texts[ref]))
    return sum(ref not in trace.texts for ref in wanted)
