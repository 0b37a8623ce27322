"""A first look: the shape of a file by its bytes, whatever its name and wherever it was cut."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from typing import Any

import pytest

from ethogram.capture.peek import Peek, peek_at
from ethogram.capture.source import HELD, PEEK, bytes_source


def look(data: bytes) -> Peek:
    return peek_at(bytes_source("x", data))


def dumps(value: Any, **options: Any) -> bytes:
    return json.dumps(value, **options).encode()


OBJECT = {"a": 1, "b": [{"c": 2}]}


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        (b"", "empty"),
        (b" \r\n\t ", "empty"),
        (b"\xef\xbb\xbf", "empty"),
        (dumps(OBJECT), "object"),
        (b"\xef\xbb\xbf\n\n" + dumps(OBJECT), "object"),
        (dumps(OBJECT, indent=1), "object"),
        (dumps([OBJECT, 1]), "array"),
        (b"[]", "array"),
        (dumps(OBJECT) + b"\n" + dumps(OBJECT), "lines"),
        (b"starting up\n" + dumps(OBJECT) + b"\n", "lines"),
        (b"just words\n", "text"),
        (b"12", "text"),
        ("grün und blau".encode("latin-1"), "binary"),
        (dumps(OBJECT).decode().encode("utf-16"), "binary"),
        (b"\x00" * 10, "binary"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "binary"),
        (b"[" * 100_000, "array"),
        (b'{"a":' * 100_000, "object"),
        (b"{broken", "object"),
    ],
)
def test_shapes(data: bytes, shape: str) -> None:
    assert look(data).shape == shape
    assert look(gzip.compress(data)).shape == shape


def test_what_is_seen_of_each_shape() -> None:
    assert look(dumps(OBJECT)).first == OBJECT
    assert look(dumps([OBJECT, 1, [2]])).records == [OBJECT, 1, [2]]
    assert look(dumps([1, OBJECT])).first == {}
    seen = look(b"banner\n" + dumps({"n": 1}) + b"\nnot json\n[3]\n" + dumps({"n": 2}) + b'\n{"cut": ')
    assert (seen.first, seen.records) == ({"n": 1}, [{"n": 1}, {"n": 2}])
    assert len(look(dumps([0] * 100)).records) == 20


def test_a_document_that_was_cut_shows_its_start() -> None:
    assert look(dumps(OBJECT)[:-1]).first == {"a": 1, "b": [{"c": 2}]}
    assert look(b'{"a": 1, "b": [{"c": "wo').first == {"a": 1, "b": [{}]}
    assert look(b'{"a": NaN').first == {}


def test_a_document_longer_than_the_look() -> None:
    seen = look(b'{"kind": "long", "data": "' + b"x" * HELD + b'"}')
    assert (seen.shape, seen.first, len(seen.data)) == ("object", {"kind": "long"}, PEEK)


def test_a_character_that_the_look_cut_in_two_is_still_text() -> None:
    assert look(b"a" * 4095 + "ü".encode()).shape == "text"
    assert look(b"a" * 4090 + b"\xff" + b"a" * 100).shape == "binary"


def test_zips_show_their_members_and_broken_ones_none() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("header.json", "{}")
    seen = look(out.getvalue())
    assert (seen.shape, seen.members) == ("zip", ["header.json"])
    assert look(out.getvalue()[:-20]).members == []


def test_damage_further_on_does_not_hide_the_start() -> None:
    packed = gzip.compress(dumps(OBJECT) + b"\n" + bytes(range(256)) * 4000)
    assert look(packed[:-10]).first == OBJECT
