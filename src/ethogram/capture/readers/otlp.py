"""OTLP: traces (and the log records that belong to them) as JSON documents, JSON lines, or protobuf.

Spans of one trace may be scattered over a whole file, and one document holds spans of many traces: all are
gathered first (see `telemetry.spans` for the bounds) and each trace is written when the source ends. Log records
join their span by trace and span id where both are in the same source. `lost` counts metrics, log records without
a trace, what the exporting SDK had dropped already, spans that were delivered twice, and model spans that tell the
same call twice.
"""

from __future__ import annotations

from ethogram.capture.damaged_json import parse
from ethogram.capture.intake import Intake
from ethogram.capture.peek import Peek, peek_at
from ethogram.capture.records import lines, objects
from ethogram.capture.source import Source
from ethogram.capture.telemetry.assemble import write_traces
from ethogram.capture.telemetry.gathering import Gathering
from ethogram.capture.telemetry.spans import SpanBuffer
from ethogram.capture.telemetry.wire import METRICS, is_protobuf, protobuf, streamed, taken_apart
from ethogram.errors import Unreadable

FORMAT = "otlp"

MARKS = frozenset({"resourceSpans", "resource_spans", "resourceLogs", "resource_logs"})
_WHOLE = 16 << 20
"""Documents up to this size are parsed at once (faster, and forgiving); larger ones are streamed."""


def sniff(peek: Peek) -> int:
    """Documents name their resource spans; protobuf shows a trace id and a span id where a span has them."""
    if not peek.records and is_protobuf(peek.data):
        return 90
    found = any(isinstance(r, dict) and any(isinstance(r.get(k), list) for k in MARKS) for r in peek.records)
    return 95 if found else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per trace id."""
    buffer = SpanBuffer()
    try:
        OtlpFile(buffer, intake).take(source)
        write_traces(buffer, intake)
    finally:
        buffer.close()


class OtlpFile:
    """Puts the spans and log records of a source into the buffer."""

    def __init__(self, buffer: SpanBuffer, intake: Intake) -> None:
        """`intake` is told of what cannot be used."""
        self._intake = intake
        self._gathering = Gathering(buffer, intake)

    def take(self, source: Source) -> None:
        """All pieces of a source; what is cut off or damaged is reported and what came before it is kept."""
        peek = peek_at(source)
        binary = is_protobuf(peek.data)
        if not binary and peek.shape not in ("lines", "array", "object"):
            why = "empty" if peek.shape == "empty" else "neither JSON nor OTLP in protobuf"
            raise Unreadable(f"{source.name}: {why}")
        with self._intake.record("the rest of the file"):
            if binary:
                for message in protobuf(source):
                    self._gathering.spans_message(message)
            elif peek.shape == "lines" or _first_line_is_whole(peek):
                for place, document in objects(lines(source, self._intake), self._intake):
                    if not any(key in document for key in (*MARKS, *METRICS)):
                        self._intake.skip(place, "no resourceSpans or resourceLogs in it")
                    self._gathering.pieces(f"{place}, ", taken_apart(document))
            else:
                self._document(source)

    def _document(self, source: Source) -> None:
        with source.open() as stream:
            start = stream.read(_WHOLE)
            while len(start) < _WHOLE and (more := stream.read(_WHOLE - len(start))):
                start += more
        if len(start) < _WHOLE:
            try:
                whole = parse(start.removeprefix(b"\xef\xbb\xbf"))
            except (ValueError, RecursionError):
                whole = None  # cut off or several documents: the streaming parser takes what there is
            for document in whole if isinstance(whole, list) else [whole]:
                if isinstance(document, dict):
                    self._gathering.pieces("", taken_apart(document))
            if whole is not None:
                return
        with source.open() as stream:
            self._gathering.pieces("", streamed(stream))


def _first_line_is_whole(peek: Peek) -> bool:
    """Whether lines follow each other of which strict parsers refuse the first."""
    line, _, rest = peek.data.partition(b"\n")
    try:
        return bool(rest.strip()) and isinstance(parse(line), dict)
    except (ValueError, RecursionError):
        return False
