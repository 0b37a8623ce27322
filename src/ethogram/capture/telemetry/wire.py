"""OTLP on the wire: JSON as protobuf writes it (and as people write it), and protobuf itself.

Every shape becomes the same stream of pieces: a resource begins, its attributes, a scope begins, its name, spans
and log records. One document is taken apart by a streaming parser, so a file of any size is read in bounded
memory; a document that is cut off gives every span that stood whole before the cut.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import ijson
from ijson.common import ObjectBuilder

from ethogram.capture.parse import as_list, as_name, iso_ns
from ethogram.capture.source import MAX_DOCUMENT, MAX_PREFIX, Source
from ethogram.errors import Unreadable
from ethogram.traces import Status

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

WirePiece = tuple[str, Any]
"""`resource+`, `resource`, `scope+`, `scope`, `span`, `log` or `metrics`, and its value."""

_SPELLINGS = {
    "resourceSpans": ("scopeSpans", "spans", "span"),
    "resource_spans": ("scope_spans", "spans", "span"),
    "resourceLogs": ("scopeLogs", "logRecords", "log"),
    "resource_logs": ("scope_logs", "log_records", "log"),
}
_OLD_SCOPES = {"scopeSpans": "instrumentationLibrarySpans", "scope_spans": "instrumentation_library_spans"}
METRICS = ("resourceMetrics", "resource_metrics")


def _paths() -> dict[str, str]:
    paths: dict[str, str] = {}
    for top, (scope, items, what) in _SPELLINGS.items():
        paths[f"{top}.item"] = "resource+"
        paths[f"{top}.item.resource"] = "resource"
        for name in (scope, _OLD_SCOPES.get(scope, scope)):
            paths[f"{top}.item.{name}.item"] = "scope+"
            paths[f"{top}.item.{name}.item.scope"] = "scope"
            paths[f"{top}.item.{name}.item.instrumentationLibrary"] = "scope"
            paths[f"{top}.item.{name}.item.{items}.item"] = what
    for top in METRICS:
        paths[f"{top}.item"] = "metrics"
    return paths


_PATHS = _paths()


def streamed(stream: BinaryIO) -> Iterator[WirePiece]:
    """Pieces of one or more JSON documents (or an array of them), as far as they go; raises ijson's errors."""
    builder: ObjectBuilder | None = None
    what = inside = ""
    for path, event, value in ijson.parse(stream, use_float=True, multiple_values=True):
        if len(path) > MAX_PREFIX:  # the cost of nesting without end grows with its square
            raise ValueError("nested too deeply")
        if builder is not None:
            builder.event(event, value)
            if event == "end_map" and path == inside:
                yield what, builder.value
                builder = None
        elif event == "start_map" and (found := _PATHS.get(path.removeprefix("item."))):
            if found.endswith("+"):
                yield found, None
            else:
                what, inside, builder = found, path, ObjectBuilder()
                builder.event(event, value)


def taken_apart(document: dict[str, Any]) -> Iterator[WirePiece]:
    """Pieces of a document that is already in memory."""
    for top, (scope, items, what) in _SPELLINGS.items():
        for resource in as_list(document.get(top)):
            if not isinstance(resource, dict):
                yield "odd", f"a resource that is a {type(resource).__name__}"
                continue
            yield "resource+", None
            yield "resource", resource.get("resource")
            for inner in as_list(resource.get(scope) or resource.get(_OLD_SCOPES.get(scope, scope))):
                if not isinstance(inner, dict):
                    yield "odd", f"a scope that is a {type(inner).__name__}"
                    continue
                yield "scope+", None
                yield "scope", inner.get("scope") or inner.get("instrumentationLibrary")
                for item in as_list(inner.get(items)):
                    yield what, item
    for top in METRICS:
        for item in as_list(document.get(top)):
            yield "metrics", item


def is_protobuf(data: bytes) -> bool:
    """Whether bytes begin with a trace in protobuf: walks down to the first span and checks the size of its ids."""
    body: memoryview | None = memoryview(data)[_framed(data) :]
    for number in (1, 2, 2):  # resource spans, scope spans, span
        body = None if body is None else _field(body, number)
    if body is None:
        return False
    trace, span = _field(body, 1), _field(body, 2)
    return trace is not None and len(trace) == 16 and span is not None and len(span) == 8


def protobuf(source: Source) -> Iterator[ResourceSpans]:
    """The resources of `TracesData` or `ExportTraceServiceRequest`, plain or each after its length."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

    framed = _framed(source.peek) > 0
    with source.open() as stream:
        while True:
            if framed and (not (head := stream.read(4)) or len(head) < 4):
                return
            limit = struct.unpack(">I", head)[0] if framed else -1
            for body in _messages(stream, limit, source.name):
                try:
                    yield ResourceSpans.FromString(body)
                except DecodeError as error:
                    raise ValueError(f"not protobuf from here on: {error}") from None
            if not framed:
                return


def _messages(stream: BinaryIO, limit: int, name: str) -> Iterator[bytes]:
    """The messages in field 1, up to the end or to a number of bytes."""
    read = 0
    while limit < 0 or read < limit:
        tag = stream.read(1)
        if not tag:
            return
        if tag != b"\x0a":
            raise ValueError(f"an unknown field {tag[0] >> 3} in OTLP protobuf")
        size, width = _varint(stream)
        if size > MAX_DOCUMENT:
            raise Unreadable(f"{name}: one resource of more than {MAX_DOCUMENT >> 20} MiB")
        body = stream.read(size)
        while len(body) < size and (more := stream.read(size - len(body))):
            body += more
        if len(body) < size:
            raise ValueError("the protobuf is cut off")
        read += 1 + width + size
        yield body


def _varint(stream: BinaryIO) -> tuple[int, int]:
    value = shift = 0
    while byte := stream.read(1):
        value |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80 or shift > 63:
            return value, shift // 7
    raise ValueError("the protobuf is cut off")


def _framed(data: bytes) -> int:
    """4 if the bytes begin with the length of a message (the collector's file exporter writes so), else 0."""
    if len(data) < 6 or data[0] == 0x0A:
        return 0
    size = struct.unpack(">I", data[:4])[0]
    return 4 if data[4] == 0x0A and 2 <= size <= MAX_DOCUMENT else 0


def _field(data: memoryview, wanted: int) -> memoryview | None:
    """The first length-delimited field of a number; the last one may be cut."""
    at = 0
    while at < len(data):
        tag, at = _number(data, at)
        kind, number = tag & 7, tag >> 3
        if number == 0 or number > 20 or kind not in (0, 1, 2, 5):
            return None
        if kind == 0:
            _, at = _number(data, at)
        elif kind == 2:
            size, at = _number(data, at)
            if number == wanted:
                return data[at : at + size]
            at += size
        else:
            at += 8 if kind == 1 else 4
    return None


def _number(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift <= 63:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return value, at


def any_value(value: Any) -> Any:
    """A typed value of OTLP as a plain one; what is plain already stays."""
    if not isinstance(value, dict) or len(value) > 1:
        return value
    if "stringValue" in value:
        return value["stringValue"]
    for kind, inner in value.items():
        name = kind.replace("_", "").lower()
        if name in ("stringvalue", "boolvalue", "bytesvalue"):
            return inner
        if name == "intvalue":
            return int(inner) if isinstance(inner, int | str) and not isinstance(inner, bool) else inner
        if name == "doublevalue":
            return float(inner) if isinstance(inner, int | float | str) else inner
        if name == "arrayvalue":
            return [any_value(v) for v in as_list(inner.get("values") if isinstance(inner, dict) else inner)]
        if name == "kvlistvalue":
            return key_values(inner.get("values") if isinstance(inner, dict) else inner)[0]
        return value
    return None


def key_values(pairs: Any) -> tuple[dict[str, Any], int]:
    """Attributes from key/value pairs (or an object), and how many pairs were unusable."""
    if isinstance(pairs, dict):
        return {str(k): any_value(v) for k, v in pairs.items()}, 0
    found: dict[str, Any] = {}
    bad = 0
    for pair in as_list(pairs):
        try:
            key, value = pair["key"], pair.get("value")
            if type(value) is dict and len(value) == 1 and "stringValue" in value:
                value = value["stringValue"]  # as most are
            else:
                value = any_value(value)
            found[key if isinstance(key, str) else as_name(key)] = value
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
            bad += 1
    return found, bad


def hex_id(value: Any, size: int) -> str:
    """An id as lower-case hex, from hex (with or without 0x) or base64; others as they are."""
    if isinstance(value, str) and len(value) == 2 * size and value.isalnum() and value[1] != "x":
        return value.lower()
    text = as_name(value).strip().removeprefix("0x")
    if len(text) == 2 * size:
        return text.lower()
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text
    return raw.hex() if len(raw) == size else text


def nanos(value: Any) -> int | None:
    """A time in nanoseconds since 1970, from a number or its digits, or from a date; zero means unknown."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value) or None
    if isinstance(value, bool) or value in (0, None, ""):
        return None
    return value if isinstance(value, int) else iso_ns(value)


def status_of(code: Any) -> Status:
    """`ok`, `error` or `unset`, from a number or any spelling of the name."""
    if code is None:
        return "unset"
    name = str(code).rpartition(".")[2].removeprefix("STATUS_CODE_").lower()
    return "error" if name in ("2", "error") else "ok" if name in ("1", "ok") else "unset"


def kind_name(kind: Any) -> str:
    """`server`, `client`, … of a span kind; internal and unknown ones are not worth a word."""
    if kind is None:
        return ""
    names = {"2": "server", "3": "client", "4": "producer", "5": "consumer"}
    name = str(kind).rpartition(".")[2].removeprefix("SPAN_KIND_").lower()
    return names.get(name, name if name in names.values() else "")
