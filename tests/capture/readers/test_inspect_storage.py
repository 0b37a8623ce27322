"""Inspect logs as files: the zip in both shapes, cut, damaged or malicious, and documents of any size."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import zipfile
import zlib
from typing import Any

import pytest
import zstandard

from ethogram.capture.inspect import body as body_module
from ethogram.capture.inspect.body import mended
from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.peek import peek_at
from ethogram.capture.readers import inspect as reader_module
from ethogram.capture.readers.inspect import sniff
from ethogram.capture.source import bytes_source
from ethogram.traces import Missing, Scored, Trace
from ethogram.traces.codec import encode

Json = dict[str, Any]

SPEC = {"task": "sums", "model": "acme/m", "run_id": "r", "created": "2026-01-02T03:04:05+00:00", "eval_id": "e"}
SCORES = [{"name": "exact", "scorer": "exact"}]
HEADER: Json = {"version": 2, "status": "success", "eval": SPEC, "plan": {}, "results": {"scores": SCORES}}
START: Json = {"version": 2, "eval": {**SPEC, "scorers": [{"name": "exact"}]}, "plan": {}}


def sample(name: Any, epoch: int = 1, turns: int = 2, value: Any = "C") -> Json:
    """A sample whose messages stand in a pool and whose long texts are attachments."""
    pool: list[Json] = [{"role": "user", "content": "attachment://h0"}]
    events: list[Json] = []
    for turn in range(turns):
        answer = {"role": "assistant", "content": f"attachment://h{turn + 1}" if turn == 0 else f"turn {turn}"}
        output = {"choices": [{"message": answer, "stop_reason": "stop"}], "usage": {"output_tokens": turn + 1}}
        refs = [[0, len(pool)]]
        stamp = f"2026-01-02T03:04:{turn:02d}+00:00"
        events.append(
            {"event": "model", "timestamp": stamp, "model": "acme/m", "input": [], "input_refs": refs, "output": output}
        )
        pool.append(answer)
    return {
        **{"id": name, "epoch": epoch, "input": f"question {name}", "target": "x", "metadata": {"level": 1}},
        **{"messages": pool, "scores": {"exact": {"value": value}}, "events": events, "uuid": f"u-{name}-{epoch}"},
        **{"attachments": {"h0": f"a long question {name}", "h1": "a long answer"}},
        **{"events_data": {"messages": pool, "calls": [{"raw": 1}]}},
    }


def chunked(whole: Json, size: int = 1) -> dict[str, Any]:
    """The same sample in the newer shape: references by index, sequences in chunks."""
    order = {name: i for i, name in enumerate(whole["attachments"])}
    text = json.dumps({k: v for k, v in whole.items() if k not in ("attachments", "metadata")})
    for name, index in order.items():
        text = text.replace(f"attachment://{name}", f"attachment://{index}")
    shell = json.loads(text)
    pool, events = shell.pop("events_data")["messages"], shell.pop("events")
    del shell["messages"]
    prefix = f"samples/{whole['id']}_epoch_{whole['epoch']}"
    members: dict[str, Any] = {
        f"{prefix}/sample.json": {**shell, "message_refs": [[0, len(pool)]]},
        f"{prefix}/metadata.json": whole["metadata"],
        f"{prefix}/skeleton.json": {"version": 1, "counts": {"events": len(events)}, "spans": []},
        f"{prefix}/events/stats.json": {"chunks": []},
        f"{prefix}/events/uuids.json": [],
    }
    sequences = {
        "messages": pool,
        "events": events,
        "calls": [{"raw": 1}],
        "attachments": [*whole["attachments"].values()],
    }
    for sequence, items in sequences.items():
        for start in range(0, len(items), size):
            members[f"{prefix}/{sequence}/{start}.json"] = items[start : start + size]
    return members


def classic(*samples: Json) -> dict[str, Any]:
    return {f"samples/{s['id']}_epoch_{s['epoch']}.json": s for s in samples}


def as_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def packed(data: bytes, method: int) -> bytes:
    if method == 93:
        half = len(data) // 2  # Inspect cuts long members into several frames
        return b"".join(zstandard.ZstdCompressor().compress(part) for part in (data[:half], data[half:]))
    if method == 8:
        deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        return deflate.compress(data) + deflate.flush()
    return data


def archive(members: dict[str, Any], method: int = 8, *, descriptor: bool = False, zip64: bool = False) -> bytes:
    """A zip by hand: the standard library cannot write method 93, nor sizes behind the data."""
    out, directory = io.BytesIO(), io.BytesIO()
    for name, value in members.items():
        data = as_bytes(value)
        body, at = packed(data, method), out.tell()
        key, flags = name.encode(), 0x800 | (8 if descriptor else 0)
        sizes = (0, 0, 0) if descriptor else (zlib.crc32(data), len(body), len(data))
        extra = struct.pack("<HHQQ", 1, 16, len(data), len(body)) if zip64 else b""
        local = (sizes[0], 0xFFFFFFFF, 0xFFFFFFFF) if zip64 else sizes
        out.write(struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 45, flags, method, 0, 0, *local, len(key), len(extra)))
        out.write(key + extra + body)
        if descriptor:
            out.write(struct.pack("<4sIII", b"PK\7\10", zlib.crc32(data), len(body), len(data)))
        entry = (20, 45, flags, method, 0, 0, zlib.crc32(data), len(body), len(data), len(key), 0, 0, 0, 0, 0, at)
        directory.write(struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", *entry) + key)
    start, size = out.tell(), directory.tell()
    out.write(directory.getvalue())
    count = len(members)
    out.write(struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count, count, size, start, 0))
    return out.getvalue()


def read(data: bytes, name: str = "log.eval") -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source(name, data), "inspect")


def shown(trace: Trace) -> tuple[Any, ...]:
    """What must not depend on how a sample was stored."""
    head = trace.head
    kept = [(s.kind, s.name, s.output_tokens, [m.text for m in trace.conversation(s)]) for s in trace.spans]
    return (head.task, head.attempt, head.outcome, head.episode, [m.text for m in trace.messages], kept, head.meta)


THREE = [sample("a"), sample("b/c", epoch=2, turns=3), sample(7, value="I")]


@pytest.mark.parametrize("method", [0, 8, 93])
@pytest.mark.parametrize("style", [{}, {"descriptor": True}, {"zip64": True}])
def test_samples_are_read_whatever_packs_them(method: int, style: dict[str, bool]) -> None:
    data = archive({**classic(*THREE), "header.json": HEADER, "summaries.json": []}, method, **style)
    traces, report = read(data)
    assert report.skipped == []
    assert [(t.head.task, t.head.attempt, t.head.outcome) for t in traces] == [
        *(("sums/a", 0, Scored(1.0, "exact")), ("sums/b/c", 1, Scored(1.0, "exact"))),
        ("sums/7", 0, Scored(0.0, "exact")),
    ]
    assert [m.text for m in traces[1].messages] == ["a long question b/c", "a long answer", "turn 1", "turn 2"]
    assert traces[1].totals.output_tokens == 6


@pytest.mark.parametrize("size", [1, 2, 100])
def test_both_shapes_say_the_same_also_mixed(size: int) -> None:
    whole, _ = read(archive({**classic(*THREE), "header.json": HEADER}))
    apart: dict[str, Any] = {"header.json": HEADER}
    for one in THREE:
        apart |= chunked(one, size)
    split, report = read(archive(apart, 93))
    assert report.skipped == []
    assert [shown(t) for t in split] == [shown(t) for t in whole]
    mixed, report = read(
        archive({**classic(THREE[0]), **chunked(THREE[1], size), **classic(THREE[2]), "header.json": HEADER})
    )
    assert report.skipped == []
    assert [shown(t) for t in mixed] == [shown(t) for t in whole]


def test_a_sample_in_both_shapes_counts_once() -> None:
    members = {**chunked(sample("a")), **classic(sample("a")), "header.json": HEADER}
    traces, report = read(archive(members))
    assert len(traces) == 1
    assert report.lost == {"sample (stored in both shapes)": 1}


def test_a_member_that_was_written_again_counts_with_its_last_content() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("samples/a_epoch_1.json", as_bytes(sample("a", value="I")))
        with pytest.warns(UserWarning, match="Duplicate name"):
            made.writestr("samples/a_epoch_1.json", as_bytes(sample("a", value="C")))
        made.writestr("header.json", as_bytes(HEADER))
    for data in (out.getvalue(), out.getvalue()[:-30]):
        traces, _ = read(data)
        assert [t.outcome for t in traces] == [Scored(1.0, "exact")]


def gone(*names: str, members: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in members.items() if k not in names}


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        ("messages/1.json", "messages 1 to 2 are not in the file"),
        ("messages/3.json", "messages beyond 3 are not in the file"),
        ("events/1.json", "events 1 to 2 are not in the file"),
        ("events/2.json", "2 of 3 events are in the file"),
    ],
)
def test_a_chunked_sample_that_lacks_a_chunk_is_reported_and_the_others_are_kept(missing: str, why: str) -> None:
    members = gone(f"samples/b_epoch_1/{missing}", members=chunked(sample("b", turns=3)))
    traces, report = read(archive({**members, **chunked(sample("a")), "header.json": HEADER}))
    assert [t.head.task for t in traces] == ["sums/a"]
    assert len(report.skipped) == 1
    assert why in report.skipped[0].why


def test_parts_of_a_sample_without_its_shell_are_reported() -> None:
    members = gone("samples/a_epoch_1/sample.json", members=chunked(sample("a")))
    traces, report = read(archive({**members, "header.json": HEADER}))
    assert traces == []
    assert {s.why for s in report.skipped} == {"a part of a sample whose `sample.json` is not in the file"}


def test_damaged_chunks_and_odd_references() -> None:
    members = chunked(sample("a"), 10)
    members["samples/a_epoch_1/sample.json"]["message_refs"] = [[0, 1], "odd", None]
    members["samples/a_epoch_1/messages/0.json"] = as_bytes(members["samples/a_epoch_1/messages/0.json"]).replace(
        b'"turn 1"', b'"turn 1", "n": NaN'
    )
    members["samples/a_epoch_1/attachments/0.json"] = ["only one"]
    traces, report = read(archive({**members, "header.json": HEADER}))
    assert report.skipped == []
    assert report.lost == {"attachment (missing)": 2}
    assert [m.text for m in traces[0].messages] == ["only one", "attachment://1", "turn 1"]
    members["samples/a_epoch_1/events/0.json"] = b'{"no": "list"}'
    assert len(read(archive({**members, "header.json": HEADER}))[1].skipped) == 1


def test_members_of_an_unknown_kind_are_counted() -> None:
    members = {"header.json": HEADER, **classic(sample("a")), "summaries.json": [], "extras/x.bin": b"x"}
    assert read(archive(members))[1].lost == {"member of an unknown kind": 1}


def test_a_crashed_run_has_no_header_and_keeps_its_samples() -> None:
    members = {"_journal/start.json": START, **classic(sample("a"), {**sample("b"), "scores": None})}
    traces, report = read(archive({**members, "_journal/summaries/1.json": []}))
    assert report.skipped == []
    assert [t.outcome for t in traces] == [Scored(1.0, "exact"), Missing("unscored")]
    assert traces[0].head.meta["status"] == "started"
    bare, report = read(archive(classic(sample("a"))))
    assert bare[0].outcome == Scored(1.0, "exact")
    assert [s.where for s in report.skipped] == ["header.json"]
    broken, report = read(archive({"header.json": b"{", **members}))
    assert (len(broken), broken[0].head.meta["task"]) == (2, "sums")
    assert [s.where for s in report.skipped] == ["header.json"]


@pytest.mark.parametrize("method", [8, 93])
@pytest.mark.parametrize("shape", ["classic", "chunked"])
def test_a_cut_archive_keeps_every_sample_before_the_cut(method: int, shape: str) -> None:
    parts = [classic(one) if shape == "classic" else chunked(one, 2) for one in THREE]
    members: dict[str, Any] = {"_journal/start.json": START}
    for part in parts:
        members |= part
    whole = archive({**members, "header.json": HEADER}, method)
    data_ends = [_end_of(whole, list(part)[-1]) for part in parts]
    for cut in [*range(4, len(whole), max(1, len(whole) // 150)), *data_ends, len(whole) - 1]:
        traces, report = read(whole[:cut])
        kept = sum(end <= cut for end in data_ends)
        assert [t.head.task for t in traces] == [f"sums/{s['id']}" for s in THREE[:kept]], cut
        assert report.skipped
    assert len(read(whole)[0]) == 3


def _end_of(data: bytes, name: str) -> int:
    """Where the packed data of a member ends."""
    at = data.index(name.encode()) - 30
    _, _, _, _, _, _, _, size, _, length, extra = struct.unpack_from("<4sHHHHHIIIHH", data, at)
    return int(at + 30 + length + extra + size)


def test_damage_inside_is_reported_and_the_rest_is_kept() -> None:
    whole = archive({"header.json": HEADER, **classic(*THREE)})
    rng = random.Random(3)
    for cut_off in (0, 60):
        for _ in range(150):
            data = bytearray(whole[: len(whole) - cut_off])
            for _ in range(3):
                data[rng.randrange(40, len(data))] ^= 1 << rng.randrange(8)
            traces, report = read(bytes(data))
            assert len(traces) == 3 or report.skipped or report.lost
            for trace in traces:
                assert list(encode(trace))


def test_a_stretch_of_rubbish_between_members_is_stepped_over() -> None:
    first, second = archive({"header.json": HEADER, **classic(THREE[0])}), archive(classic(THREE[1]))
    names = b"PK\3\4" + b"\0" * 40
    traces, report = read(first[: first.index(b"PK\1\2")] + b"rubbish" + names + second[: second.index(b"PK\1\2")])
    assert [t.head.task for t in traces] == ["sums/a", "sums/b/c"]
    assert any("belong to no member" in s.why for s in report.skipped)


def lying(name: str, data: bytes, method: int, stated: int, flags: int = 0) -> bytes:
    """One member whose header states a size of its own."""
    body, key = packed(data, method), name.encode()
    common = (flags, method, 0, 0, zlib.crc32(data), len(body), stated, len(key), 0)
    local = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, *common) + key + body
    entry = struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, *common, 0, 0, 0, 0, 0) + key
    return local + entry + struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, len(entry), len(local), 0)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (lying("samples/a_epoch_1.json", b" " * 5_000_000 + b"{}", 8, 100), "expands beyond 100 bytes"),
        (lying("samples/a_epoch_1.json", b" " * 5_000_000 + b"{}", 93, 100), "expands beyond 100 bytes"),
        (lying("samples/a_epoch_1.json", b" " * (70 << 20), 93, 70 << 20), "expands beyond 67108864 bytes"),
        (lying("samples/a_epoch_1.json", b"{}", 8, 5), "2 bytes where 5 are stated"),
        (lying("samples/a_epoch_1.json", b"{}", 8, 2, flags=1), "encrypted"),
        (lying("samples/a_epoch_1.json", b"{}", 14, 2), "unknown method 14"),
    ],
)
def test_members_that_lie_or_expand_without_end_are_refused(data: bytes, why: str) -> None:
    traces, report = read(data)
    assert traces == []
    assert any(why in s.why for s in report.skipped), report.skipped


def test_a_packed_eval_is_unpacked_first() -> None:
    data = archive({"header.json": HEADER, **classic(*THREE)})
    assert len(read(gzip.compress(data))[0]) == 3


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything counts as large."""
    monkeypatch.setattr(reader_module, "WHOLE", 100)


@pytest.mark.usefixtures("small")
def test_large_samples_are_streamed_and_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    data = archive({"header.json": HEADER, **classic(*THREE)}, 93)
    streamed, report = read(data)
    assert report.skipped == []
    opened: list[str] = []
    monkeypatch.setattr(reader_module, "whole_body", lambda *a: opened.append("whole"))
    assert len(read(data)[0]) == 3
    assert opened == []
    monkeypatch.undo()
    assert [shown(t) for t in streamed] == [shown(t) for t in read(data)[0]]


def with_nan(value: Json) -> bytes:
    text = json.dumps({**value, "note": 'NaN, "Infinity" \\ud83d'})
    return text.replace('"?"', "NaN").replace('"level": 1', '"level": -Infinity').encode()


def test_numbers_that_json_does_not_know_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    data = archive({"header.json": HEADER, "samples/a_epoch_1.json": with_nan(sample("a", value="?"))})
    document = json.dumps({**HEADER, "samples": ["@"]}).encode().replace(b'"@"', with_nan(sample("a", value="?")))
    seen = []
    for limit in (body_module.WHOLE, 100):
        monkeypatch.setattr(reader_module, "WHOLE", limit)
        for log in (data, document):
            traces, report = read(log)
            assert report.skipped == []
            assert traces[0].outcome == Missing("unscored")
            assert [label.value for label in traces[0].labels] == [None]
            seen.append(shown(traces[0])[4:])
            assert '"Infinity"' in str(json.loads(traces[0].text(traces[0].spans[0].attributes or "")))  # type: ignore[arg-type]
    assert all(s == seen[0] for s in seen)


def test_mending_does_not_depend_on_where_the_pieces_are_cut() -> None:
    data = b'{"a":NaN,"b":"NaN \\" ,Infinity","c":[-Infinity,1,Infinity],"d":"x\\\\","e":"\\ud83d\\ude00 \\ud83d"}'
    whole = b"".join(mended(iter([data])))
    assert json.loads(whole) == {
        "a": None,
        "b": 'NaN " ,Infinity',
        "c": [None, 1, None],
        "d": "x\\",
        "e": "\U0001f600 �",
    }
    for size in range(1, 25):
        assert b"".join(mended(data[i : i + size] for i in range(0, len(data), size))) == whole
    assert b"".join(mended(iter([b'{"a": "cut', b"", b" off \\"]))) == b'{"a": "cut off \\'


@pytest.mark.parametrize("limit", [body_module.WHOLE, 100])
def test_a_document_may_have_its_header_behind_its_samples(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "WHOLE", limit)
    whole, _ = read(archive({"header.json": HEADER, **classic(*THREE)}))
    before = read(as_bytes({**HEADER, "samples": THREE, "reductions": [1]}))[0]
    behind = read(b"\xef\xbb\xbf" + as_bytes({"samples": THREE, **HEADER}))[0]
    assert [shown(t) for t in before] == [shown(t) for t in behind] == [shown(t) for t in whole]


@pytest.mark.parametrize("limit", [body_module.WHOLE, 100])
def test_a_cut_document_keeps_what_came_before(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "WHOLE", limit)
    data = as_bytes({**HEADER, "samples": THREE})
    ends = [data.index(json.dumps(s).encode()) + len(json.dumps(s)) for s in THREE]
    for cut in [*range(1, len(data) - 2, 97), *ends]:
        traces, report = read(data[:cut])
        assert len(traces) == sum(end <= cut for end in ends), cut
        assert report.skipped


def test_archives_are_recognised_also_when_cut() -> None:
    whole = archive({"_journal/start.json": START, **classic(*THREE), "header.json": HEADER})
    other = archive({"data.json": {}, "header.txt": b"x"})
    scores = [sniff(peek_at(bytes_source("any", d))) for d in (whole, whole[:-30], whole[:200], other, other[:-30])]
    assert scores == [97, 97, 97, 0, 0]
    assert sniff(peek_at(bytes_source("any", archive(chunked(sample("a")))))) == 80
    assert sniff(peek_at(bytes_source("any", archive({"header.json": HEADER, **classic(sample("a"))})))) == 97


@pytest.mark.parametrize("wrong", [None, 5, "x", [], {}, [1], True, {"a": [1]}])
def test_wrong_types_in_an_archive(wrong: Any) -> None:
    good = {**chunked(sample("good")), "header.json": HEADER}
    for name in list(chunked(sample("a"))):
        traces, report = read(archive({**good, **chunked(sample("a")), name: wrong}))
        assert traces[0].head.task == "sums/good"
        assert len(traces) == 2 or report.skipped
    for members in ({"header.json": wrong}, {"_journal/start.json": wrong}, {"samples/a_epoch_1.json": wrong}):
        traces, report = read(archive({**chunked(sample("good")), **members}))
        assert len(traces) >= 1
        assert report.skipped
