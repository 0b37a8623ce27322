"""What the tests of the readers share: a sample of each format, and rough handling that every reader survives."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.source import bytes_source
from ethogram.traces import Trace
from ethogram.traces.codec import encode

WRONG: tuple[Any, ...] = (None, 0, -1, 1.5, "x", "", True, [], [[1]], {}, {"a": {"b": 1}}, [None, 3, "x", {}], 10**30)


@pytest.fixture(scope="session")
def samples() -> dict[str, bytes]:
    """One tiny document per format."""
    spec = importlib.util.spec_from_file_location("reader_samples", Path(__file__).with_name("samples.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, bytes] = module.SAMPLES
    return found


def look_at(traces: list[Trace], report: SourceReport) -> None:
    """Whatever came in, what came out can be counted, read and written down."""
    assert report.traces == len(traces)
    assert report.spans == sum(len(t.spans) for t in traces)
    for trace in traces:
        assert (trace.totals.steps or 0) == len(trace.steps)  # None: an outcome without a trace
        assert all(m.role for m in trace.messages)
        ids = [s.span_id for s in trace.spans]
        assert len(set(ids)) == len(ids)
        assert list(encode(trace))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a JSON value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


def with_value(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The document with one value replaced."""
    if not path:
        return value
    changed = copy(document)  # only what lies on the path is copied: this runs for every value of a sample
    changed[path[0]] = with_value(document[path[0]], path[1:], value)
    return changed


@pytest.fixture(scope="session")
def rough() -> Callable[[str, bytes], None]:
    """Reads a sample in every kind of broken form: nothing is raised, and nothing vanishes silently."""

    def read(data: bytes, format: str) -> tuple[list[Trace], SourceReport]:
        traces, report = read_traces(bytes_source("rough", data), format)
        look_at(traces, report)
        return traces, report

    def handle(format: str, sample: bytes) -> None:
        whole, report = read(sample, format)
        assert whole
        assert not report.skipped
        by_line = b"\n{" in sample
        for cut in range(0, len(sample) - 2, max(1, len(sample) // 200)):
            if by_line and b"\n" in sample[max(0, cut - 1) : cut + 1]:
                continue  # between two lines a file is whole
            traces, report = read(sample[:cut], format)
            assert report.skipped or len(traces) == len(whole), cut
        for packed in (gzip.compress(sample)[:-9], gzip.compress(sample)[:40]):
            assert read(packed, format)[1].skipped
        for junk in (
            b"",
            b" \n ",
            bytes(range(256)) * 20,
            b"[" * 2_000,
            b'{"a":' * 5_000,
            b"[1, 2",
            b"null",
            b"\xff{}",
        ):
            traces, report = read(junk, format)
            assert not traces
            assert report.skipped
        document = [json.loads(line) for line in sample.splitlines()] if by_line else json.loads(sample)

        def write(value: Any) -> bytes:
            return b"\n".join(json.dumps(v).encode() for v in value) if by_line else json.dumps(value).encode()

        for path in places(document):
            for wrong in WRONG:
                read(write(with_value(document, path, wrong)), format)
        deep = b'{"a":' * 3000 + b"1" + b"}" * 3000
        for path in list(places(document))[::7]:
            read(write(with_value(document, path, "@@")).replace(b'"@@"', deep), format)

    return handle
