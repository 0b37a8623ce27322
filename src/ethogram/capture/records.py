"""Records out of a source of any JSON shape, as whole as its bytes allow; what cannot be read is reported.

Lines and large arrays are streamed; one document is held whole, up to `MAX_DOCUMENT` bytes. A small source was parsed
when its format was recognised, and is not parsed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ethogram.errors import Unreadable, first_line

from .damaged_json import BAD_JSON, documents, parse, without_commas
from .intake import Intake
from .peek import NO_DOCUMENT, peek_at, take_document
from .source import CHUNK, MAX_DOCUMENT, Source


def records(source: Source, intake: Intake, *, announce: bool = True) -> Iterator[tuple[str, Any]]:
    """Place and value of each record: JSON lines, the elements of an array, or documents one after another.

    With `announce`, the strings of a record are expected to be stored as they are, and searched for secrets together.
    Raises `Unreadable` for a source without JSON and for a document that is too large.
    """
    shape = peek_at(source).shape
    read = {"lines": lines, "array": _elements, "object": _documents}.get(shape)
    if read is not None:
        found = read(source, intake)
        return _announced(found, intake) if announce else found
    raise Unreadable.at(source.name, f"{'empty' if shape == 'empty' else 'no JSON in it'}")


def _announced(found: Iterator[tuple[str, Any]], intake: Intake) -> Iterator[tuple[str, Any]]:
    for place, value in found:
        intake.expect(value)
        yield place, value


def objects(found: Iterable[tuple[str, Any]], intake: Intake) -> Iterator[tuple[str, dict[str, Any]]]:
    """Those of the records that are objects, each with its place; all others are reported."""
    for place, value in found:
        if isinstance(value, dict):
            yield place, value
        else:
            intake.skip(place, f"a JSON {type(value).__name__}, not an object")


def lines(source: Source, intake: Intake) -> Iterator[tuple[str, Any]]:
    """Place and value of each line that is JSON."""
    for number, line in source.lines(lambda n, why: intake.skip(f"line {n}", why)):
        try:
            value = parse(line)
        except BAD_JSON as error:
            intake.skip(f"line {number}", f"not JSON: {first_line(error, 200)}")
        else:
            yield f"line {number}", value


def _elements(source: Source, intake: Intake) -> Iterator[tuple[str, Any]]:
    whole = take_document(source)
    if isinstance(whole, list):
        yield from ((f"element {position}", value) for position, value in enumerate(whole))
        return
    count = 0
    try:
        for value in source.items("item"):
            yield f"element {count}", value
            count += 1
        return
    except BAD_JSON as error:
        why = first_line(error, 200)
    rest: Any = None
    data, damage = _read_all(source)
    if not damage:
        mended, commas = without_commas(data)
        try:
            rest = parse(mended)
        except BAD_JSON:
            pass
        else:
            intake.lose("trailing comma (mended)", commas)
    if not isinstance(rest, list):
        intake.skip("the rest of the file", f"after element {count - 1}: the JSON is damaged or cut off ({why})")
        return
    yield from ((f"element {position}", value) for position, value in enumerate(rest[count:], start=count))


def _documents(source: Source, intake: Intake) -> Iterator[tuple[str, Any]]:
    whole = take_document(source)
    if whole is not NO_DOCUMENT:
        yield "the document", whole
        return
    data, damage = _read_all(source)
    try:
        value = parse(data)
    except BAD_JSON:
        pass
    else:
        if damage:
            intake.skip("the end of the file", damage)
        yield "the document", value
        return
    if not damage and _is_object(data.partition(b"\n")[0]):
        yield from lines(source, intake)  # a first line so long that the look at the file saw no second one
        return
    yield from _salvaged(data, damage, intake)


def _salvaged(data: bytes, damage: str, intake: Intake) -> Iterator[tuple[str, Any]]:
    """Documents that no parser takes as they are: with commas too many, one after another, or cut off."""
    mended, commas = without_commas(data)
    text = mended.decode("utf-8", "replace")
    values, why = documents(text)
    intake.lose("trailing comma (mended)", commas)
    intake.lose("bytes that are not UTF-8 (replaced)", text.count("\ufffd") - mended.count("\ufffd".encode()))
    if damage or why:
        why = damage or why.splitlines()[0][:200]
        intake.skip("the rest of the document", f"the JSON is damaged or cut off: {why}; the start is kept")
    for number, value in enumerate(values, start=1):
        yield "the document" if len(values) == 1 else f"document {number}", value


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(parse(line), dict)
    except BAD_JSON:
        return False


def _read_all(source: Source) -> tuple[bytes, str]:
    """The bytes as far as they can be unpacked, and what stopped the unpacking; raises `Unreadable` if too many."""
    chunks: list[bytes] = []
    size, damage = 0, ""
    with source.open() as stream:
        try:
            while size <= MAX_DOCUMENT and (chunk := stream.read(CHUNK)):
                chunks.append(chunk)
                size += len(chunk)
        except Unreadable as error:
            damage = error.cli_message
    if size > MAX_DOCUMENT:
        raise Unreadable.at(source.name, f"one JSON document of more than {MAX_DOCUMENT >> 20} MiB")
    return b"".join(chunks).removeprefix(b"\xef\xbb\xbf"), damage
