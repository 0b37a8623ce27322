"""Server-sent events: cut anywhere, every line break, comments, data of several lines, and a bound on size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.wire.gateway.protocols.sse import EventParser, event

STREAM = (
    b": hello\n"
    b"event: one\n"
    b"id: 7\n"
    b'data: {"a": "\xc3\xa9"}\n'
    b"\n"
    b"data: first\n"
    b"data:second\n"
    b"data\n"
    b"\n"
    b"retry: 10\n"
    b"\n"
    b"data: \xf0\x9f\x98\x80\n"
    b"\n"
)
DATA = [b'{"a": "\xc3\xa9"}', b"first\nsecond\n", b"\xf0\x9f\x98\x80"]


def fed(parser: EventParser, chunks: list[bytes]) -> list[bytes]:
    return [data for chunk in chunks for data in parser.feed(chunk)]


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_every_cut_gives_the_same_events(ending: bytes, mark: bytes) -> None:
    stream = mark + STREAM.replace(b"\n", ending)
    assert fed(EventParser(), [stream]) == DATA
    assert fed(EventParser(), [stream[i : i + 1] for i in range(len(stream))]) == DATA
    for cut in range(len(stream) + 1):
        assert fed(EventParser(), [stream[:cut], stream[cut:]]) == DATA


def test_an_event_without_its_blank_line_has_not_arrived() -> None:
    assert fed(EventParser(), [b"data: a\n\ndata: b\n"]) == [b"a"]


@given(st.lists(st.sampled_from([b"data: x", b"data: y\n", b"\r", b"\n", b"\r\n", b":c", b"event: e"]), max_size=20))
def test_chunks_make_no_difference(chunks: list[bytes]) -> None:
    whole = fed(EventParser(), [b"".join(chunks)])
    assert fed(EventParser(), chunks) == whole


@pytest.mark.parametrize(
    "long",
    [
        b"data: " + b"x" * 200,
        b"data: " + b"x" * 60 + b"\ndata: " + b"x" * 60,
        b"x" * 200,
    ],
)
def test_an_overlong_event_is_dropped_and_counted_and_the_next_one_is_read(long: bytes) -> None:
    stream = b"data: a\n\n" + long + b"\ndata: tail\n\ndata: b\n\n"
    for size in (1, 7, len(stream)):
        parser = EventParser(limit=100)
        chunks = [stream[i : i + size] for i in range(0, len(stream), size)]
        assert fed(parser, chunks) == [b"a", b"b"]
        assert parser.dropped == 1


def test_a_line_that_never_ends_is_not_kept() -> None:
    parser = EventParser(limit=1000)
    for _ in range(1000):
        assert parser.feed(b"y" * 1000) == []
    assert sum(map(len, parser._pieces)) < 10


def test_an_event_is_written_as_it_is_read() -> None:
    assert event({"type": "ping"}, "ping") == b'event: ping\ndata: {"type":"ping"}\n\n'
    assert EventParser().feed(event({"a": "x\ny"})) == [b'{"a":"x\\ny"}']
