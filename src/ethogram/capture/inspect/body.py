"""The content of one Inspect sample, whichever way it was stored.

Three shapes give the same `Body`: one JSON object in memory, one that is too large for that and is read
twice as a stream, and the newer shape of a small shell with chunked sequences beside it. Values stay raw
until they are needed: most bytes of a log are messages that were sent before, or calls nobody asks for.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, BinaryIO

import ijson
import msgspec
from ijson.common import ObjectBuilder

from ethogram.capture.draft import without_surrogates
from ethogram.capture.inspect.zip import Archive, Pieces
from ethogram.capture.parse import as_dict, as_int, as_list, as_text
from ethogram.errors import Unreadable

RawJson = msgspec.Raw | bytes
Report = Callable[[str], None]

WHOLE = 64 << 20
"""Samples larger than this are read as a stream."""

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_NULL = msgspec.Raw(b"null")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|NaN|-?Infinity', re.DOTALL)
_TAIL = re.compile(rb"-?[A-Za-z]{0,8}\Z")
_OUTSIDE = ("messages", "events", "attachments", "events_data", "transcript")
_INDEX = re.compile(rb'"attachment://(\d{1,9})"')
_KEPT_CHUNKS = 4


class Body(msgspec.Struct):
    """One sample: its small fields, its conversation, its events and what they refer to."""

    fields: dict[str, Any]
    messages: list[RawJson]
    pool: list[RawJson]
    attachment: Callable[[str], str | None]
    attachments: int
    events: Callable[[], Iterator[RawJson]]


def raw_object(data: RawJson) -> dict[str, msgspec.Raw]:
    """Keys and raw values of a JSON object."""
    return _OBJECT.decode(data)


def raw_array(data: RawJson) -> list[msgspec.Raw]:
    """Raw elements of a JSON array."""
    return _ARRAY.decode(data)


def sound(data: bytes) -> bytes:
    """JSON that strict readers accept: Inspect writes NaN, and old logs hold half characters."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            data = data.decode("utf-8", "replace").encode()
    try:
        _OBJECT.decode(data)
    except msgspec.DecodeError:
        return b"".join(mended(iter([data])))
    return data


def mended(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Bare NaN and infinities become null and half characters U+FFFD; what stands in strings stays."""
    held = b""
    for piece in pieces:
        text = held + piece
        tail = _TAIL.search(text)
        end = tail.start() if tail else len(text)  # a bare word may go on in the next piece
        out, at = [], 0
        for match in _TOKEN.finditer(text, 0, end):
            if match.end() == end and match.group()[:1] == b'"' and not _closed(match.group()):
                end = match.start()  # so may a string
                break
            out += [text[at : match.start()], _mend(match)]
            at = match.end()
        yield b"".join((*out, text[at:end]))
        held = text[end:]
    yield _TOKEN.sub(_mend, held)


def _mend(match: re.Match[bytes]) -> bytes:
    token = match.group()
    if not token.startswith(b'"'):
        return b"null"
    return _whole_characters(token) if b"\\u" in token else token


def _closed(token: bytes) -> bool:
    """Whether a string token has its closing quote."""
    if len(token) < 2 or not token.endswith(b'"'):
        return False
    slashes = len(token[:-1]) - len(token[:-1].rstrip(b"\\"))
    return slashes % 2 == 0


def _whole_characters(token: bytes) -> bytes:
    try:
        text = json.loads(token, strict=False)
    except ValueError:
        return token
    return json.dumps(without_surrogates(text)).encode()


def top_level(stream: BinaryIO, skip: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Keys and values of a JSON object of any size; values that are skipped are never built."""
    key: str | None = None
    builder: ObjectBuilder | None = None
    for prefix, event, value in ijson.parse(stream, use_float=True):
        if prefix == "" and event in ("map_key", "end_map"):
            if key is not None and builder is not None:
                yield key, builder.value
            key = value
            builder = None if key is None or key in skip else ObjectBuilder()
        elif builder is not None:
            builder.event(event, value)


def whole_body(data: bytes, report: Report) -> Body:
    """A sample that lies in memory as one JSON object."""
    raw = raw_object(sound(data))
    old = _inner(raw, "transcript", report)  # before 2025 events and attachments stood under one key
    pools = _inner(raw, "events_data", report)
    attachments = as_dict(_value(raw.get("attachments", old.get("content"))))
    events = _elements(raw if "events" in raw else old, "events", report)
    return Body(
        fields={k: _value(v) for k, v in raw.items() if k not in _OUTSIDE},
        messages=list(_elements(raw, "messages", report)),
        pool=list(_elements(pools, "messages", report)),
        attachment=lambda key: _text_or_none(attachments.get(key)),
        attachments=len(attachments),
        events=lambda: iter(events),
    )


def streamed_body(open_stream: Callable[[], BinaryIO]) -> Body:
    """A sample too large to lie in memory: one pass for everything but the events, one for the events."""
    mend = False
    try:
        with open_stream() as stream:
            fields = dict(top_level(stream, ("events",)))
    except ijson.JSONError:
        mend = True
        with mended_stream(open_stream) as stream:
            fields = dict(top_level(stream, ("events",)))
    attachments = as_dict(fields.pop("attachments", None))
    pools = as_dict(fields.pop("events_data", None))
    encode = msgspec.json.encode

    def events() -> Iterator[RawJson]:
        with mended_stream(open_stream) if mend else open_stream() as stream:
            for event in ijson.items(stream, "events.item", use_float=True):
                yield encode(event)

    return Body(
        messages=[encode(m) for m in as_list(fields.pop("messages", None))],
        pool=[encode(m) for m in as_list(pools.get("messages"))],
        attachment=lambda key: _text_or_none(attachments.get(key)),
        attachments=len(attachments),
        events=events,
        fields=fields,
    )


def chunked_body(archive: Archive, prefix: str, report: Report) -> Body:
    """A sample in the newer shape: `sample.json` and sequences in numbered chunks beside it."""
    fields = {k: _value(v) for k, v in raw_object(sound(archive.read(f"{prefix}/sample.json"))).items()}
    if f"{prefix}/metadata.json" in archive:
        with_metadata = sound(archive.read(f"{prefix}/metadata.json"))
        fields["metadata"] = msgspec.json.decode(with_metadata)
    pool: list[RawJson] = list(_sequence(archive, prefix, "messages"))
    texts = _Attachments(archive, prefix)
    expected = _event_count(archive, prefix)
    if archive.cut:
        texts.check()

    def events() -> Iterator[RawJson]:
        found = 0
        for event in _sequence(archive, prefix, "events"):
            found += 1
            yield event
        if expected is not None and found < expected:
            raise Unreadable(f"{prefix}: {found} of {expected} events are in the file")

    messages: list[RawJson] = []
    for start, end in ranges(fields.pop("message_refs", None)):
        if end > len(pool):
            raise Unreadable(f"{prefix}: messages beyond {len(pool)} are not in the file")
        messages.extend(pool[start:end])
    return Body(fields, messages, pool, texts.get, texts.count, events)


def ranges(refs: Any) -> Iterator[tuple[int, int]]:
    """Half-open ranges of a pool; what is no range is passed over."""
    for ref in as_list(refs):
        if isinstance(ref, list | tuple) and len(ref) == 2:
            start, end = as_int(ref[0]), as_int(ref[1])
            if start is not None and end is not None and 0 <= start <= end:
                yield start, end


def _starts(archive: Archive, prefix: str, sequence: str) -> list[int]:
    """First indices of the chunks of a sequence: they are their names."""
    folder = f"{prefix}/{sequence}/"
    names = (n[len(folder) : -5] for n in archive.members if n.startswith(folder) and n.endswith(".json"))
    return sorted(int(n) for n in names if n.isdigit())


def _sequence(archive: Archive, prefix: str, sequence: str) -> Iterator[RawJson]:
    """All elements of a sequence; a chunk that is missing ends the sample."""
    count = 0
    for start in _starts(archive, prefix, sequence):
        if start != count:
            raise Unreadable(f"{prefix}: {sequence} {count} to {start} are not in the file")
        for element in _chunk(archive, f"{prefix}/{sequence}/{start}.json"):
            count += 1
            yield element


def _chunk(archive: Archive, name: str) -> list[msgspec.Raw]:
    data = archive.read(name)
    try:
        return raw_array(data)
    except msgspec.DecodeError:
        return raw_array(b"".join(mended(iter([data]))))


def _event_count(archive: Archive, prefix: str) -> int | None:
    """How many events the sample has, by its outline."""
    name = f"{prefix}/skeleton.json"
    if name not in archive:
        return None
    return as_int(as_dict(as_dict(msgspec.json.decode(archive.read(name))).get("counts")).get("events"))


class _Attachments:
    """Attachments of a chunked sample, by index; a few chunks are kept at hand."""

    def __init__(self, archive: Archive, prefix: str) -> None:
        self._archive = archive
        self._folder = f"{prefix}/attachments"
        self._starts = _starts(archive, prefix, "attachments")
        self._chunks: dict[int, list[Any]] = {}
        self.count = self._starts[-1] + len(self._load(self._starts[-1])) if self._starts else 0

    def get(self, key: str) -> str | None:
        if not key.isdigit() or not self._starts:
            return None
        index = int(key)
        start = self._starts[bisect_right(self._starts, index) - 1]
        chunk = self._load(start)
        return _text_or_none(chunk[index - start]) if 0 <= index - start < len(chunk) else None

    def check(self) -> None:
        """Refuse a sample of a cut archive that refers to attachments beyond the cut."""
        folder = self._folder.removesuffix("/attachments")
        for name in [n for n in self._archive.members if n.startswith(f"{folder}/")]:
            for match in _INDEX.finditer(self._archive.read(name)):
                if int(match.group(1)) >= self.count:
                    raise Unreadable(f"{folder}: attachment {int(match.group(1))} is not in the file")

    def _load(self, start: int) -> list[Any]:
        if start not in self._chunks:
            if len(self._chunks) >= _KEPT_CHUNKS:
                del self._chunks[next(iter(self._chunks))]
            self._chunks[start] = as_list(msgspec.json.decode(self._archive.read(f"{self._folder}/{start}.json")))
        return self._chunks[start]


def mended_stream(open_stream: Callable[[], BinaryIO]) -> BinaryIO:
    """A stream with what strict readers refuse put right."""

    def pieces() -> Iterator[bytes]:
        with open_stream() as stream:
            first = stream.read(1 << 20).removeprefix(b"\xef\xbb\xbf")
            yield from mended(chain([first], iter(lambda: stream.read(1 << 20), b"")))

    return Pieces(piece for piece in pieces() if piece)  # type: ignore[return-value]


def _inner(raw: dict[str, msgspec.Raw], key: str, report: Report) -> dict[str, msgspec.Raw]:
    try:
        return raw_object(raw[key]) if key in raw and raw[key] != _NULL else {}
    except msgspec.ValidationError:
        report(f"{key} is not an object")
        return {}


def _elements(raw: dict[str, msgspec.Raw], key: str, report: Report) -> list[msgspec.Raw]:
    try:
        return raw_array(raw[key]) if key in raw and raw[key] != _NULL else []
    except msgspec.ValidationError:
        report(f"{key} is not a list")
        return []


def _value(raw: msgspec.Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)


def _text_or_none(value: Any) -> str | None:
    return None if value is None else as_text(value)
