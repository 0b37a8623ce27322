"""What one request brought: raw spans and events, decoded once, redacted, and as lines of the spool."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ethogram.capture.cleaning import json_text
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.telemetry.gathering import Gathering
from ethogram.capture.telemetry.spans import RawEvent, RawSpan, encode_raw
from ethogram.capture.telemetry.wire import METRICS, taken_apart
from ethogram.errors import first_line
from ethogram.store import Redactor
from ethogram.traces import Origin, TraceId

FORMAT = "otlp"
_TRACE, _SPAN = re.compile(r"[0-9a-f]{32}"), re.compile(r"[0-9a-f]{16}")
_LONG_NUMBER = 100_000
"""Numbers below this one are counts; longer ones may be those of cards and telephones."""


class RequestBatch:
    """The spans and events of one request, and what was wrong with others."""

    def __init__(self) -> None:
        self.resources: list[dict[str, Any]] = []
        self.spans: list[tuple[str, RawSpan]] = []
        self.events: list[tuple[str, str, RawEvent]] = []
        self.report = SourceReport(source=FORMAT)
        self.redactions: dict[str, int] = {}

    @property
    def filled(self) -> bool:
        """Whether there is anything to keep."""
        return bool(self.spans or self.events)

    @property
    def rejected(self) -> int:
        """Spans and log records that could not be used."""
        return len(self.report.skipped) + self.report.skipped_more + self.report.lost.get(_NO_TRACE, 0)

    @property
    def why(self) -> str:
        """The first reason why something could not be used."""
        if self.report.skipped:
            return f"{self.report.skipped[0].where}: {self.report.skipped[0].why}"
        return f"{_NO_TRACE}: only log records that name a trace are kept" if self.rejected else ""

    def resource(self, attributes: dict[str, Any]) -> int:
        """The number of a resource within the request."""
        self.resources.append(attributes)
        return len(self.resources) - 1

    def open_resource(self) -> int:
        """The number of a resource that is not known yet."""
        return self.resource({})

    def fill_resource(self, number: int, attributes: dict[str, Any]) -> None:
        """Say what a resource is."""
        self.resources[number] = attributes

    def add(self, trace: str, span: RawSpan) -> None:
        """Keep a span; raises `ValueError` where its ids are none, for ids are not redacted."""
        if _TRACE.fullmatch(trace) is None:
            raise ValueError("the trace id is not 16 bytes in hex")
        if span.span_id is None or _SPAN.fullmatch(span.span_id) is None:
            raise ValueError("the span id is not 8 bytes in hex")
        if span.parent_id is not None and _SPAN.fullmatch(span.parent_id) is None:
            raise ValueError("the id of the parent span is not 8 bytes in hex")
        self.spans.append((trace, span))

    def add_event(self, trace: str, span_id: str, event: RawEvent) -> None:
        """Keep a log record that names a trace, and perhaps a span of it."""
        if _TRACE.fullmatch(trace) is None or (span_id and _SPAN.fullmatch(span_id) is None):
            raise ValueError("the ids of the log record are not hex of the right length")
        self.events.append((trace, span_id, event))

    def gather(self, what: str, body: bytes, *, is_json: bool) -> None:
        """Decode a body of `traces` or `logs`; raises `ValueError` where it is not OTLP at all."""
        gathering = Gathering(self, Intake(_nowhere, Origin(FORMAT), self.report))
        if is_json:
            gathering.pieces("", taken_apart(_document(body)))
        elif what == "traces":
            for spans in _traces_request(body):
                gathering.spans_message(spans)
        else:
            for logs in _logs_request(body):
                gathering.logs_message(logs)

    def redact(self, redactor: Redactor, clean: CleanPieces) -> None:
        """Take secrets out, before anything is written. One search serves all words that were not searched before."""
        if redactor.idle:
            return
        words: dict[str, list[Any]] = {}
        for resource in self.resources:
            clean.announce(words, _facts(resource), resource)
        for _, span in self.spans:
            clean.announce(words, _words(span), span)
        for _, _, event in self.events:
            clean.announce(words, _event_words(event), event)
        texts = list(words)
        suspects = redactor.suspects(texts)
        for owner in {id(owner): owner for i in suspects for owner in words[texts[i]]}.values():
            _clean_one(owner, redactor, self.redactions)
        clean.remember(texts, suspects)


class CleanPieces:
    """Pieces of long values in which nothing was found.

    Every call of a model repeats the conversation before it: what was searched with an earlier call is not searched
    again. Values are cut between the objects of a list, where no secret goes on.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._chars = 0

    def announce(self, words: dict[str, list[Any]], texts: Iterable[str], owner: Any) -> None:
        """Add what must be searched of some texts to `words`, long ones in pieces, with whose it is."""
        known = self._known
        for text in texts:
            for piece in _BETWEEN_OBJECTS.split(text) if len(text) >= _LONG_VALUE else (text,):
                if piece not in known:
                    words.setdefault(piece, []).append(owner)

    def remember(self, texts: list[str], suspects: list[int]) -> None:
        """Texts that were searched; those in which something may be are searched each time."""
        if self._chars > REMEMBERED_CHARS:
            self._known, self._chars = set(), 0
        doubted = set(suspects)
        self._known.update(text for i, text in enumerate(texts) if i not in doubted)
        self._chars += sum(map(len, texts))


_BETWEEN_OBJECTS = re.compile(r"\}, ?\{")
_LONG_VALUE = 400
REMEMBERED_CHARS = 8 << 20
_NO_TRACE = "log record (no trace id)"


def spool_lines(batch: RequestBatch, number_of: Any) -> Iterator[tuple[str, str, bytes, int, int]]:
    """Lines of the spool: what a line is, its trace, the line, and the length before and of the record in it.

    `number_of` gives a resource the number by which it is known in the spool.
    """
    numbers = []
    for resource in batch.resources:
        number, data = number_of(resource)
        numbers.append(number)
        yield "resource", "", b'["resource",%d,%s]\n' % (number, data), 0, 0
    for trace, span in batch.spans:
        span.resource = numbers[span.resource] if span.resource >= 0 else -1
        head, data = b'["span","%s",' % trace.encode(), encode_raw(span)
        yield ("root" if span.parent_id is None else "span"), trace, b"%s%s]\n" % (head, data), len(head), len(data)
    for trace, span_id, event in batch.events:
        head, data = b'["event","%s","%s",' % (trace.encode(), span_id.encode()), encode_raw(event)
        yield f"event {span_id}", trace, b"%s%s]\n" % (head, data), len(head), len(data)


def _facts(attributes: dict[str, Any]) -> Iterator[str]:
    """Attributes as they are searched: a value together with its name, which may tell what it is."""
    for name, value in attributes.items():
        if isinstance(value, str):
            yield f"{name}={value}"
        elif isinstance(value, list | dict):
            yield f"{name}={json_text(value)}"
        elif isinstance(value, int) and abs(value) >= _LONG_NUMBER:
            yield f"{name}={value}"


def _words(span: RawSpan) -> Iterator[str]:
    yield span.name
    if span.message:
        yield span.message
    yield from _facts(span.attributes)
    yield from _facts(span.extra)
    for event in span.events:
        yield from _event_words(event)


def _event_words(event: RawEvent) -> Iterator[str]:
    yield event.name
    yield from _facts(event.attributes)


def _clean_one(owner: Any, redactor: Redactor, found: dict[str, int]) -> None:
    if isinstance(owner, dict):
        cleaned = _clean_facts(owner, redactor, found)
        owner.clear()
        owner.update(cleaned)
        return
    owner.name = _clean(owner.name, redactor, found)
    owner.attributes = _clean_facts(owner.attributes, redactor, found)
    if isinstance(owner, RawSpan):
        owner.message = _clean(owner.message, redactor, found)
        owner.extra = _clean_facts(owner.extra, redactor, found)
        for event in owner.events:
            _clean_one(event, redactor, found)


def _clean(text: str, redactor: Redactor, found: dict[str, int]) -> str:
    done = redactor.redact(text, "attributes")
    for finding in done.findings:
        found[finding.kind] = found.get(finding.kind, 0) + 1
    return done.text


def _clean_facts(attributes: dict[str, Any], redactor: Redactor, found: dict[str, int]) -> dict[str, Any]:
    return {_clean(k, redactor, found): _clean_fact(k, v, redactor, found) for k, v in attributes.items()}


def _clean_fact(name: str, value: Any, redactor: Redactor, found: dict[str, int]) -> Any:
    """A value with its secrets taken out; a list or a number that holds one becomes text."""
    if value is None or isinstance(value, bool | float):
        return value
    words = value if isinstance(value, str) else json_text(value)
    lead = f"{name}="
    told = _clean(lead + words, redactor, found)
    cleaned = told[len(lead) :] if told.startswith(lead) else _clean(words, redactor, found)
    return value if cleaned == words else cleaned


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the body is not JSON: {first_line(error)}") from None
    if not isinstance(document, dict):
        raise ValueError(f"the body is a JSON {type(document).__name__}, not an object with resourceSpans")
    known = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs", *METRICS)
    if document and not any(name in document for name in known):
        raise ValueError("there are no resourceSpans or resourceLogs in the body")
    return document


def _traces_request(body: bytes) -> Any:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    return _filled(protobuf_message(ExportTraceServiceRequest, body).resource_spans, body)


def _logs_request(body: bytes) -> Any:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    return _filled(protobuf_message(ExportLogsServiceRequest, body).resource_logs, body)


def protobuf_message(message: Any, body: bytes) -> Any:
    """A body as a protobuf message; raises `ValueError` where it is none."""
    from google.protobuf.message import DecodeError

    try:
        return message.FromString(body)
    except DecodeError as error:
        raise ValueError(f"the body is not OTLP protobuf: {error}") from None


def _filled(resources: Any, body: bytes) -> Any:
    if body and not resources:
        raise ValueError("the body is not OTLP protobuf: no resource in it")
    return resources


def _nowhere(trace: TraceId) -> Any:
    raise AssertionError("a request is only gathered; traces are written later")
