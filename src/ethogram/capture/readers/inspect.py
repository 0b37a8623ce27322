"""Inspect logs: `.eval` (a zip: one member per sample, or the newer chunked samples) and the `.json` document.

One trace per sample and epoch; its task is the eval's task and the sample's id (`arithmetic/7`). The root span is the
sample; its attributes hold the sample's fields that have no place elsewhere. Steps come from the events, or from the
messages where a log has no events. The outcome is the first score in the order of the header; every score is also a
label. Totals come from the model events alone: what header and sample sum up stays in `meta`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO

import ijson
import msgspec

from ethogram.capture.inspect.body import (
    WHOLE,
    chunked_body,
    mended_stream,
    raw_array,
    raw_object,
    sound,
    streamed_body,
    top_level,
    whole_body,
)
from ethogram.capture.inspect.log import Log, read_log
from ethogram.capture.inspect.sample import read_sample
from ethogram.capture.inspect.zip import Archive, local_names
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_list
from ethogram.capture.peek import Peek
from ethogram.capture.source import CHUNK, Source
from ethogram.errors import Unreadable

FORMAT = "inspect"

_CHUNKED = re.compile(r"^(samples/.*_epoch_\d+)/sample\.json$", re.DOTALL)
_SAMPLE = re.compile(r"^samples/.*_epoch_\d+\.json$", re.DOTALL)
_KNOWN = ("header.json", "summaries.json", "reductions.json", "_journal/", "samples/")
MARKS = frozenset(["eval", "samples"])


def sniff(peek: Peek) -> int:
    """The members of the zip give it away, also where its end is missing; the document by its header keys."""
    if peek.shape == "zip":
        names = peek.members or list(local_names(peek.data))
        sample = any(_SAMPLE.match(n) or _CHUNKED.match(n) for n in names)
        if "_journal/start.json" in names or ("header.json" in names and sample):
            return 97
        return 80 if sample else 0
    if peek.shape != "object":
        return 0
    spec = peek.first.get("eval")
    if isinstance(spec, dict) and {"task", "model"} <= spec.keys() and {"run_id", "created", "config"} & spec.keys():
        return 96
    samples = as_list(peek.first.get("samples"))
    first = as_dict(samples[0]) if samples else {}
    return 70 if {"id", "epoch", "input", "target"} <= first.keys() else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per sample and epoch."""
    if source.peek.startswith(b"PK\x03\x04"):
        _read_archive(Archive(source, intake.skip), intake)
    else:
        _read_document(source, intake)


def _read_archive(archive: Archive, intake: Intake) -> None:
    header: dict[str, Any] = {}
    for name in ("header.json", "_journal/start.json"):
        if name in archive and not as_dict(header.get("eval")):
            with intake.record(name):
                header = msgspec.json.decode(sound(archive.read(name)), type=dict[str, Any])
    if not as_dict(header.get("eval")):
        intake.skip("header.json", "no header and no start record: settings and the order of scores are unknown")
    log = _log(header, intake)
    found = 0
    folders = {match.group(1) for name in archive.members if (match := _CHUNKED.match(name))}
    for name in archive.members:
        chunked = _CHUNKED.match(name)
        if not chunked and not _SAMPLE.match(name):
            if not name.startswith(_KNOWN):
                intake.lose("member of an unknown kind")
            elif name.startswith("samples/") and not _inside(name, folders):
                intake.skip(name, "a part of a sample whose `sample.json` is not in the file")
            continue
        if chunked and f"{chunked.group(1)}.json" in archive:
            intake.lose("sample (stored in both shapes)")
            continue
        found += 1
        with intake.record(name):
            report = _reporter(intake, name)
            if chunked:
                body = chunked_body(archive, chunked.group(1), report)
            elif archive.size(name) > WHOLE:
                body = streamed_body(partial(archive.open, name))
            else:
                data = archive.read(name)
                intake.expect_json(data)
                body = whole_body(data, report)
            read_sample(body, log, intake, name)
    _missing_samples(log, found, intake)


def _log(header: dict[str, Any], intake: Intake) -> Log:
    """The log behind a header; one that cannot be read is reported, and the samples are kept without it."""
    log = read_log({}, intake.lose)
    with intake.record("the header"):
        log = read_log(header, intake.lose)
    return log


def _inside(name: str, folders: set[str]) -> bool:
    """Whether a member lies in the folder of a chunked sample."""
    parts = name.split("/")
    return any("/".join(parts[:i]) in folders for i in range(len(parts) - 1, 1, -1))


def _reporter(intake: Intake, where: str) -> Callable[[str], None]:
    return lambda why: intake.skip(where, why)


def _read_document(source: Source, intake: Intake) -> None:
    """The `.json` shape; keys of the header may stand behind the samples, so they are read first."""
    header, samples = _document_in_memory(source) or _document_as_stream(source, intake)
    log = _log(header, intake)
    found = 0
    with intake.record("the rest of the file"):
        for found, sample in enumerate(samples, start=1):
            where = f"sample {found - 1}"
            with intake.record(where):
                data = bytes(sample if isinstance(sample, msgspec.Raw) else msgspec.json.encode(sample))
                intake.expect_json(data)
                read_sample(whole_body(data, _reporter(intake, where)), log, intake, where)
    if not found and "eval" not in header:
        intake.skip(source.name, "no header and no samples: this is not an Inspect log")
    _missing_samples(log, found, intake)


def _document_in_memory(source: Source) -> tuple[dict[str, Any], Iterator[Any]] | None:
    """Header and samples of a document of moderate size; None if it is larger, cut off or damaged."""
    data = bytearray()
    try:
        with source.open() as stream:
            while len(data) <= WHOLE and (piece := stream.read(CHUNK)):
                data += piece
        if len(data) > WHOLE:
            return None
        raw = raw_object(sound(bytes(data)))
        header = {k: msgspec.json.decode(v) for k, v in raw.items() if k not in ("samples", "reductions")}
        return header, iter(raw_array(raw["samples"]) if "samples" in raw else ())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, Unreadable):
        return None


def _document_as_stream(source: Source, intake: Intake) -> tuple[dict[str, Any], Iterator[Any]]:
    """Header and samples as far as the document goes."""
    header: dict[str, Any] = {}
    open_stream: Callable[[], BinaryIO] = source.open
    skip = ("samples", "reductions")
    try:
        with open_stream() as stream:
            header.update(top_level(stream, skip))
    except (ijson.JSONError, ValueError):  # ValueError: bytes that are no UTF-8
        open_stream = partial(mended_stream, source.open)
        with intake.record("the header"), open_stream() as stream:
            header.update(top_level(stream, skip))

    def samples() -> Iterator[Any]:
        with open_stream() as stream:
            yield from ijson.items(stream, "samples.item", use_float=True)

    return header, samples()


def _missing_samples(log: Log, found: int, intake: Intake) -> None:
    if log.claimed is not None and log.claimed > found:
        intake.lose("sample (the header counts it, the file does not hold it)", log.claimed - found)
