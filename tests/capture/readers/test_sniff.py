from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ethogram.capture.peek import peek_at
from ethogram.capture.readers import MODULES, reader, recognise
from ethogram.capture.source import bytes_source

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


def test_there_is_a_sample_of_every_format(samples: dict[str, bytes]) -> None:
    assert samples.keys() == MODULES.keys()


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("format", MODULES)
def test_content_is_recognised_whatever_the_name(format: str, packing: str, samples: dict[str, bytes]) -> None:
    data = PACKED[packing](samples[format])
    for name in ("log", "results.json", "a.eval", "trace.traj.gz", "notes.txt", "x.parquet"):
        found = recognise(bytes_source(name, data))
        assert found is not None
        assert found.format == format


@pytest.mark.parametrize("format", MODULES)
def test_only_the_last_resort_may_claim_another_format(format: str, samples: dict[str, bytes]) -> None:
    peek = peek_at(bytes_source("log", samples[format]))
    scores = {name: reader(name).sniff(peek) for name in MODULES}
    own = scores.pop(format)
    assert 0 < own <= 100
    assert all(score < own for score in scores.values()), scores
    assert own <= 30 or format != "openai-chat"


@given(st.data())
def test_a_document_without_the_marks_of_a_format_is_not_of_it(samples: dict[str, bytes], data: st.DataObject) -> None:
    """What `recognise` relies on when it does not ask a reader: keys and values are those of real formats, mixed."""
    looks = [peek_at(bytes_source("log", content)) for content in samples.values()]
    known = [pair for look in looks for record in look.records if isinstance(record, dict) for pair in record.items()]
    document = dict(data.draw(st.lists(st.sampled_from(known), max_size=12)))
    for name in MODULES:
        own = {key: value for key, value in document.items() if key not in (reader(name).marks or ())}
        peek = peek_at(bytes_source("log", json.dumps(own).encode()))
        assert peek.shape == "object"
        assert reader(name).sniff(peek) == 0, name


@pytest.mark.parametrize("format", MODULES)
def test_layout_plays_no_part(format: str, samples: dict[str, bytes]) -> None:
    """A byte order mark, spaces in front, and, for documents, line breaks inside."""
    data = samples[format]
    shapes = [b"\xef\xbb\xbf" + data, b"\n\n" + data]
    if b"\n{" not in data:
        shapes.append(json.dumps(json.loads(data), indent=1).encode())
        shapes.append(json.dumps(json.loads(data), indent=4, ensure_ascii=False).replace("\n", "\r\n").encode())
    for shape in shapes:
        found = recognise(bytes_source("log", shape))
        assert found is not None
        assert found.format == format


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   \n\n",
        b"plain words, no log at all",
        bytes(range(256)) * 8,
        b"\x00" * 5000,
        b"{}",
        b"[]",
        b"[1, 2, 3]",
        b'"text"',
        b"null",
        b"17",
        b"{" * 400,
        b"[" * 400,
        b'{"a": 1}\n{"b": 2}\n',
        b'{"name": "package", "version": "1.0.0", "dependencies": {}}',
        b'[{"id": 1, "name": "row"}, {"id": 2, "name": "row"}]',
        b'{"type": "FeatureCollection", "features": []}',
        b"a,b,c\n1,2,3\n",
        b"<html><body>hello</body></html>",
        b"%PDF-1.7\n\x00\x01",
        gzip.compress(b"not a log", mtime=0),
        gzip.compress(b'{"messages": "cut"}', mtime=0)[:15],
        b"PK\x03\x04 not really a zip",
    ],
)
def test_garbage_is_not_recognised(data: bytes) -> None:
    from ethogram.errors import Unreadable

    try:
        found = recognise(bytes_source("results.json", data))
    except Unreadable:  # packed bytes that are damaged say so themselves
        assert data.startswith(b"\x1f\x8b")
    else:
        assert found is None
