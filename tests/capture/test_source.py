"""Wherever logs lie and however they are packed: good bytes come out, and whatever is wrong is said in one sentence."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import random
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ijson
import pytest
import zstandard

from ethogram.capture import compressed, discover
from ethogram.capture import source as module
from ethogram.capture.discover import sources
from ethogram.capture.memory import read_traces
from ethogram.capture.source import Source, bytes_source, file_source, spooled
from ethogram.errors import NotFound, Unreadable

LINES = b"".join(json.dumps({"messages": [{"role": "user", "content": f"{i}"}]}).encode() + b"\n" for i in range(50))
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": lambda data: bz2.compress(data, 1),
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def a_zip(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def a_tar(members: dict[str, bytes], *more: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for info in more:
            archive.addfile(info)
    return out.getvalue()


def link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


class Look:
    """Everything behind a path: contents by name, and what was reported."""

    def __init__(self, path: Path | str, is_log: Callable[[Source], bool] = lambda s: False) -> None:
        self.said: list[tuple[str, str]] = []
        self.read: dict[str, bytes] = {}
        for source in sources(path, is_log, lambda where, why: self.said.append((where, why))):
            with source.open() as stream:
                self.read[source.name] = stream.read()
        assert all(why and "\n" not in why for _, why in self.said)


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str, bytes], Path]:
    def put(name: str, data: bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    return put


Put = Callable[[str, bytes], Path]


# --- packing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PACK)
def test_compressed_files_are_known_by_their_bytes(kind: str, place: Put) -> None:
    source = file_source(place("misleading.txt", PACK[kind](LINES)), "x")
    assert source.compression == kind
    assert [n for n, _ in source.lines(pytest.fail)] == list(range(1, 51))
    assert source.peek == LINES


@pytest.mark.parametrize("kind", PACK)
def test_parts_that_were_packed_apart_and_joined_are_one(kind: str) -> None:
    half = len(LINES) // 2
    with bytes_source("x", PACK[kind](LINES[:half]) + PACK[kind](LINES[half:])).open() as stream:
        assert stream.read() == LINES


@pytest.mark.parametrize("kind", PACK)
def test_what_came_before_the_damage_is_kept(kind: str) -> None:
    """A large log, because a packer hides small ones in one block."""
    rng = random.Random(7)
    words = [rng.randbytes(40).hex() for _ in range(4_000)]
    packed = PACK[kind](b"".join(b'{"messages": [{"role": "user", "content": "%s"}]}\n' % w.encode() for w in words))
    at = len(packed) * 2 // 3
    for broken in (packed[:at], packed[:at] + bytes(b ^ 0xFF for b in packed[at : at + 64]) + packed[at + 64 :]):
        traces, report = read_traces(bytes_source("x", broken), "openai-chat")
        assert [t.messages[0].text for t in traces[:1_000]] == words[:1_000]
        assert len(traces) < 4_000
        assert report.skipped_more or "damaged or cut off" in report.skipped[-1].why


def test_zstandard_that_ends_between_two_frames_is_whole_and_within_one_is_not() -> None:
    frame = PACK["zst"](LINES)
    for data, whole in ((frame * 3, True), (frame * 2 + frame[:-1], False), (frame + b"\x28\xb5", False)):
        traces, report = read_traces(bytes_source("x", data), "openai-chat")
        assert len(traces) >= 50
        assert (not report.skipped) == whole


@pytest.mark.parametrize("start", [b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"BZh9"])
def test_a_file_that_only_begins_as_if_packed(start: bytes) -> None:
    for data in (start, start + b"junk" * 20):
        traces, report = read_traces(bytes_source("x", data))
        assert not traces
        assert "damaged or cut off" in report.skipped[0].why


def test_archives_give_their_members(place: Put) -> None:
    members = {"b.jsonl": LINES, "deep/er/a.jsonl.gz": gzip.compress(LINES), "empty": b""}
    for name, data in (("x.zip", a_zip(members)), ("x.tar", a_tar(members)), ("x.tgz", gzip.compress(a_tar(members)))):
        look = Look(place(name, data))
        assert look.read == {f"{name}/b.jsonl": LINES, f"{name}/deep/er/a.jsonl.gz": LINES, f"{name}/empty": b""}
        assert look.said == []


def test_archives_in_archives_are_opened_to_a_depth(place: Put) -> None:
    inner = a_zip({"a.jsonl": LINES})
    middle = a_tar({"inner.zip": inner})
    look = Look(place("x.zip", a_zip({"middle.tar": middle})))
    assert list(look.read) == ["x.zip/middle.tar/inner.zip/a.jsonl"]
    deep = Look(place("y.zip", a_zip({"x.zip": a_zip({"middle.tar": middle}), "good.jsonl": LINES})))
    assert list(deep.read) == ["y.zip/good.jsonl"]
    assert deep.said == [("y.zip/x.zip/middle.tar/inner.zip", "archives nested more than 3 deep are not opened")]


def test_an_archive_that_is_a_log_stays_whole(place: Put) -> None:
    data = a_zip({"header.json": b"{}"})
    assert Look(place("x.eval", data), lambda s: True).read == {"x.eval": data}


def test_folders_are_read_in_order_and_hidden_things_left_alone(place: Put, tmp_path: Path) -> None:
    for name in ("logs/b.json", "logs/a/z.json", "logs/.git/config", "logs/node_modules/x.json", "logs/.hidden"):
        place(name, b"{}")
    (tmp_path / "logs" / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "logs" / "empty").mkdir()
    look = Look(tmp_path / "logs")
    assert list(look.read) == ["a/z.json", "b.json"]
    assert look.said == [(".hidden", "a hidden file; name it to have it read")]


def test_hidden_folders_are_named_and_read_where_nothing_else_is_there(place: Put, tmp_path: Path) -> None:
    for name in ("one/.logs/a.json", "one/.logs/.more/b.json", "one/.git/config", "two/.logs/a.json", "two/x.json"):
        place(name, b"{}")
    alone = Look(tmp_path / "one")
    assert (list(alone.read), alone.said) == ([".logs/.more/b.json", ".logs/a.json"], [])
    beside = Look(tmp_path / "two")
    assert (list(beside.read), beside.said) == (["x.json"], [(".logs", "a hidden folder; name it to have it read")])
    assert list(Look(tmp_path / "two" / ".logs").read) == ["a.json"]


def test_nothing_there() -> None:
    with pytest.raises(NotFound, match="no file or folder at 'nowhere'"):
        Look("nowhere")


def test_standard_input_can_be_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(LINES))))
    (found,) = sources("-", lambda s: False, pytest.fail)
    for _ in range(2):
        with found.open() as stream:
            assert stream.read() == LINES
    assert (found.name, found.path, found.place) == ("stdin", None, "")


# --- archives that mean harm, or came to harm --------------------------------------------------------------------


def test_archives_that_expand_without_end(place: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "MAX_EXPANDED", 1 << 20)
    bomb = b"\0" * (5 << 20)
    for name, data in (
        ("x.zip", a_zip({"a": LINES, "bomb": bomb, "z": LINES})),
        ("x.tar", a_tar({"a": LINES, "bomb": bomb, "z": LINES})),
    ):
        look = Look(place(name, data))
        assert list(look.read) == [f"{name}/a", f"{name}/z"]
        assert look.said == [(f"{name}/bomb", "expands to 5 MiB where 0 are left for this archive; refused")]


def test_many_small_members_that_are_large_together(place: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "MAX_EXPANDED", 1 << 20)
    look = Look(place("x.zip", a_zip({f"{i}": b"\0" * 300_000 for i in range(6)})))
    assert list(look.read) == ["x.zip/0", "x.zip/1", "x.zip/2"]
    assert [where for where, _ in look.said] == ["x.zip/3", "x.zip/4", "x.zip/5"]


@pytest.mark.parametrize("kind", PACK)
def test_streams_that_expand_without_end(kind: str, monkeypatch: pytest.MonkeyPatch, place: Put) -> None:
    monkeypatch.setattr(compressed, "MAX_EXPANDED", 2 << 20)
    bomb = PACK[kind](LINES + b"\n" * (5 << 20))
    traces, report = read_traces(bytes_source("x", bomb), "openai-chat")
    assert len(traces) == 50
    assert report.skipped[-1].why == "x: expands to more than 2 MiB; refused"
    look = Look(place("y.tar", a_tar({"good": LINES})))
    assert look.read == {"y.tar/good": LINES}


def test_a_stream_on_standard_input_has_a_limit_too() -> None:
    with pytest.raises(Unreadable, match="expands to more than 0 MiB"):
        spooled("stdin", io.BytesIO(b"x" * 1000), 100)


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/etc/passwd", "C:\\x", "..\\out", "\\\\host\\x"])
def test_members_that_point_outside_are_refused(name: str, place: Put, tmp_path: Path) -> None:
    for archive, data in (
        ("x.zip", a_zip({name: LINES, "good": LINES})),
        ("x.tar", a_tar({name: LINES, "good": LINES})),
    ):
        look = Look(place(f"box/{archive}", data))
        assert list(look.read) == [f"{archive}/good"]
        assert [why for _, why in look.said] == ["the member's name points outside the archive"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["box"], "nothing is ever unpacked into the file system"


def test_links_and_devices_are_not_followed(place: Put) -> None:
    more = (link("soft", "/etc/passwd"), link("hard", "good", tarfile.LNKTYPE), link("pipe", "", tarfile.FIFOTYPE))
    look = Look(place("x.tar", a_tar({"good": LINES}, *more)))
    assert list(look.read) == ["x.tar/good"]
    assert [where for where, _ in look.said] == ["x.tar/soft", "x.tar/hard", "x.tar/pipe"]
    assert "link" in look.said[0][1]
    assert look.said[2][1] == "not a file"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("soft")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
        archive.writestr("good", LINES)
    look = Look(place("x.zip", out.getvalue()))
    assert list(look.read) == ["x.zip/good"]
    assert look.said == [("x.zip/soft", "a link; links in archives are not followed")]


def test_an_encrypted_member_is_named_and_the_others_are_read(place: Put) -> None:
    data = bytearray(a_zip({"good": LINES, "secret": LINES}))
    local, central = data.index(b"secret") - 30, data.rindex(b"secret") - 46
    data[local + 6] |= 1
    data[central + 8] |= 1
    look = Look(place("x.zip", bytes(data)))
    assert list(look.read) == ["x.zip/good"]
    ((where, why),) = look.said
    assert where == "x.zip/secret"
    assert "encrypted" in why


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED])
def test_a_damaged_member_is_named_and_the_others_are_read(method: int, place: Put) -> None:
    noise = random.Random(3).randbytes(3000).hex().encode()
    data = bytearray(a_zip({"a": LINES, "b": noise, "c": LINES}, method))
    middle = data.index(b"PK\x03\x04", data.index(b"PK\x03\x04", 4) + 4) - 1000
    data[middle : middle + 200] = bytes(200)
    look = Look(place("x.zip", bytes(data)))
    assert list(look.read) == ["x.zip/a", "x.zip/c"]
    ((where, why),) = look.said
    assert where == "x.zip/b"
    assert "cannot be unpacked" in why


def test_archives_that_are_cut_off(place: Put) -> None:
    whole = a_tar({"a": LINES, "b": random.Random(4).randbytes(50_000), "c": LINES})
    look = Look(place("x.tar", whole[:30_000]))
    assert list(look.read) == ["x.tar/a"]
    assert look.said
    packed = gzip.compress(whole)
    look = Look(place("x.tgz", packed[: len(packed) // 2]))
    assert list(look.read) == ["x.tgz/a"]
    assert any("damaged" in why for _, why in look.said)
    look = Look(place("x.zip", a_zip({"a": LINES, "b": LINES})[:-30]))
    assert look.read == {}
    ((where, why),) = look.said
    assert (where, "damaged or not supported" in why) == ("x.zip", True)


def test_an_archive_of_too_many_members(place: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "MAX_MEMBERS", 2)
    look = Look(place("x.tar", a_tar({f"{i}": LINES for i in range(4)})))
    assert list(look.read) == ["x.tar/0", "x.tar/1"]
    assert look.said == [("x.tar", "only the first 2 members are read")]


# --- files that cannot be read -----------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that exists and cannot be read")
def test_a_file_that_cannot_be_read_does_not_stop_the_others(place: Put, tmp_path: Path) -> None:
    place("logs/good.jsonl", LINES)
    (tmp_path / "logs" / "bad.jsonl").symlink_to("/proc/self/mem")
    look = Look(tmp_path / "logs")
    assert list(look.read) == ["good.jsonl"]
    ((where, why),) = look.said
    assert where == "bad.jsonl"
    assert why.startswith("cannot be read: ")


@contextmanager
def without_rights() -> Iterator[None]:
    """Root may read everything, so for a while we are nobody."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_folders_and_files_without_permission_are_reported(place: Put, tmp_path: Path) -> None:
    with TemporaryDirectory(dir="/tmp") as box:  # the folders of the tests are closed to others
        shutil.copytree(place("logs/good.jsonl", LINES).parent, root := Path(box, "logs"))
        for name in ("bad.jsonl", "shut/x.jsonl"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_bytes(LINES)
        Path(box).chmod(0o755)
        Look(root)
        (root / "bad.jsonl").chmod(0)
        (root / "shut").chmod(0)
        with without_rights():
            look = Look(root)
        (root / "shut").chmod(0o700)
    assert list(look.read) == ["good.jsonl"]
    assert sorted(look.said) == [
        ("bad.jsonl", "cannot be read: Permission denied"),
        ("shut", "the folder cannot be read: Permission denied"),
    ]


# --- lines and documents -----------------------------------------------------------------------------------------


def test_lines_that_never_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINE", 1 << 20)
    long = b'{"a": "' + b"x" * (3 << 20) + b'"}'
    for data in (b'{"n": 1}\n' + long + b'\n{"n": 2}\n', b'{"n": 1}\n' + b'{"n": 2}\n' + long):
        said: list[tuple[str, str]] = []
        got = list(bytes_source("x", data).objects(lambda *told, said=said: said.append(told)))  # type: ignore[misc]
        assert [v for _, v in got] == [{"n": 1}, {"n": 2}]
        ((where, why),) = said
        assert why == "the line has 3 MiB; at most 1 are read"
        assert where in ("line 2", "line 3")


def test_lines_in_every_dress() -> None:
    data = b'\xef\xbb\xbf{"n": 1}\r\n\n   \n{"n": 2}\r\nnot json\n[1]\n{"a": "\xff"}\n' + b"[" * 200_000 + b'\n{"n": 3}'
    said: list[tuple[str, str]] = []
    got = list(bytes_source("x", data).objects(lambda where, why: said.append((where, why))))
    assert got == [(1, {"n": 1}), (4, {"n": 2}), (9, {"n": 3})]
    assert [where for where, _ in said] == ["line 5", "line 6", "line 7", "line 8"]
    assert said[1][1] == "a JSON list, not an object"
    assert all("\n" not in why and len(why) < 300 for _, why in said)


@pytest.mark.parametrize("data", [LINES.decode().encode("utf-16"), bytes(range(256)) * 50, b"\x00" * 999, b"", b" \n "])
def test_what_is_no_text_is_said_to_be_none(data: bytes) -> None:
    for format in (None, "openai-chat", "claude-code", "otlp", "inspect", "jsonl"):
        traces, report = read_traces(bytes_source("x", data), format)
        assert traces == []
        assert len(report.skipped) >= 1
        assert all(len(s.why) < 400 for s in report.skipped)


def test_latin_1_spoils_its_own_lines_only() -> None:
    good = b'{"messages": [{"role": "user", "content": "ok"}]}\n'
    bad = '{"messages": [{"role": "user", "content": "grün"}]}\n'.encode("latin-1")
    traces, report = read_traces(bytes_source("x", good + bad + good), "openai-chat")
    assert len(traces) == 2
    assert [s.where for s in report.skipped] == ["line 2"]


def test_a_document_as_a_stream() -> None:
    data = b'\xef\xbb\xbf{"samples": [1, {"a": 1.5}], "b": {"k": [2]}}'
    assert list(bytes_source("x", data).items("samples.item")) == [1, {"a": 1.5}]
    with pytest.raises(ijson.IncompleteJSONError):
        list(bytes_source("x", data[:20]).items("samples.item"))
    with pytest.raises(ValueError, match="nested too deeply"):
        list(bytes_source("x", b'{"a":' * 30_000).items("a.item"))


def test_identity_and_progress(place: Put) -> None:
    path = place("a.gz", gzip.compress(LINES * 200))
    source = file_source(path, "a.gz")
    assert source.digest == bytes_source("other", path.read_bytes()).digest
    assert source.place == os.path.realpath(path)
    told: list[int] = []
    source.on_bytes = told.append
    assert len(list(source.lines(pytest.fail))) == 10_000
    assert sum(told) == source.size == path.stat().st_size
    assert repr(source) == "Source('a.gz')"


def test_members_know_where_they_lie(place: Put) -> None:
    path = place("x.zip", a_zip({"a": b"1", "b": b"2"}))
    found: list[Any] = [s.place for s in sources(path, lambda s: False, pytest.fail)]
    assert found == [f"{os.path.realpath(path)}/a", f"{os.path.realpath(path)}/b"]
