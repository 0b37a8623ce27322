"""Records out of JSON of any shape, as whole as the bytes allow.

Strict parsers stop at what real exporters write: NaN, integers of any length, half characters, a comma before
a closing bracket. What they refuse is tried again with Python's own parser, then with such commas taken out;
a document that is cut off gives what stood before the cut. Arrays and lines are streamed; one document is held
whole, up to `MAX_DOCUMENT` bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import ijson
import msgspec
from ijson.common import ObjectBuilder

from ethogram.capture.intake import Intake
from ethogram.capture.peek import peek_at
from ethogram.capture.source import CHUNK, MAX_DOCUMENT, Source
from ethogram.errors import Unreadable

_BAD_JSON = (ValueError, RecursionError, ijson.JSONError)
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)


def records(source: Source, intake: Intake) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and value of each object: lines, elements of an array, or documents one after another."""
    shape = peek_at(source).shape
    if shape == "lines":
        return lines(source, intake)
    if shape == "array":
        return _objects(_elements(source, intake), intake)
    if shape == "object":
        found = ((f"document {i + 1}", value) for i, value in enumerate(documents(source, intake)))
        return _objects(found, intake)
    raise Unreadable(f"{source.name}: {'empty' if shape == 'empty' else 'no JSON in it'}")


def lines(source: Source, intake: Intake) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and value of each line that is an object."""
    return _objects(_lines(source, intake), intake)


def _objects(found: Iterator[tuple[str, Any]], intake: Intake) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, value in found:
        if isinstance(value, dict):
            yield place, value
        else:
            intake.skip(place, f"a JSON {type(value).__name__}, not an object")


def documents(source: Source, intake: Intake) -> list[Any]:
    """All JSON values of a source (usually one); what cannot be read of them is reported."""
    data = read_all(source, intake)
    try:
        return [parse(data)]
    except _BAD_JSON:
        pass
    mended, commas = without_commas(data)
    if commas:
        try:
            value = parse(mended)
        except _BAD_JSON:
            pass
        else:
            intake.lose("trailing comma (mended)", commas)
            return [value]
    return _one_after_another(data, intake)


def parse(data: bytes) -> Any:
    """The value of JSON bytes, strictly or as Python reads them; raises ValueError or RecursionError."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(data.decode("utf-8", "replace"))


def read_all(source: Source, intake: Intake) -> bytes:
    """All bytes of a source of bounded size; where its packing is damaged, those before the damage."""
    chunks: list[bytes] = []
    size = 0
    with source.open() as stream:
        try:
            while size <= MAX_DOCUMENT and (chunk := stream.read(CHUNK)):
                chunks.append(chunk)
                size += len(chunk)
        except Unreadable as error:
            intake.skip("the rest of the file", str(error))
    if size > MAX_DOCUMENT:
        raise Unreadable(f"{source.name}: one JSON document of more than {MAX_DOCUMENT >> 20} MiB")
    return b"".join(chunks).removeprefix(b"\xef\xbb\xbf")


def without_commas(data: bytes) -> tuple[bytes, int]:
    """The bytes without commas that stand before a closing bracket, and their number; strings are left alone."""
    count = 0

    def keep(match: re.Match[bytes]) -> bytes:
        nonlocal count
        if match.group().startswith(b'"'):
            return match.group()
        count += 1
        return b""

    mended = _TOKEN.sub(keep, data)
    return mended, count


def _lines(source: Source, intake: Intake) -> Iterator[tuple[str, Any]]:
    for number, line in source.lines(lambda n, why: intake.skip(f"line {n}", why)):
        try:
            value = parse(line)
        except _BAD_JSON as error:
            intake.skip(f"line {number}", f"not JSON: {_short(error)}")
            continue
        yield f"line {number}", value


def _elements(source: Source, intake: Intake) -> Iterator[tuple[str, Any]]:
    count = 0
    try:
        for value in source.items("item"):
            yield f"element {count}", value
            count += 1
        return
    except _BAD_JSON as error:
        problem = _short(error)
    try:
        rest = parse(without_commas(read_all(source, intake))[0])
    except (*_BAD_JSON, Unreadable):
        intake.skip("the rest of the file", f"the JSON is damaged or cut off: {problem}")
        return
    for value in rest[count:] if isinstance(rest, list) else []:
        yield f"element {count}", value
        count += 1


def _one_after_another(data: bytes, intake: Intake) -> list[Any]:
    """Documents that follow each other, and what stood before the cut of the last one."""
    text = data.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    found: list[Any] = []
    at = len(text) - len(text.lstrip())
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except _BAD_JSON as error:
            intake.skip("the rest of the file", f"the JSON is damaged or cut off: {_short(error)}")
            cut = _before_the_cut(text[at:].encode("utf-8", "replace"))
            return found if cut is None else [*found, cut]
        found.append(value)
        while at < len(text) and text[at].isspace():
            at += 1
    return found


def _before_the_cut(data: bytes) -> Any:
    builder = ObjectBuilder()
    try:
        for event, value in ijson.basic_parse(data, use_float=True):
            builder.event(event, value)
    except _BAD_JSON:
        pass
    return getattr(builder, "value", None)


def _short(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
