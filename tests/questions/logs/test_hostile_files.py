"""Files that are no logs, disks that fail and homes that may not be written: one sentence each, and nothing lost."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import EthogramError
from ethogram.questions.home.maintenance import verify
from ethogram.questions.logs.imports import import_logs
from ethogram.store import Home
from ethogram.store.files import LocalFiles


def office(sheet: bytes) -> bytes:
    """A workbook, as office programs write them."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
        archive.writestr("xl/worksheets/sheet1.xml", sheet)
    return out.getvalue()


def slip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("../../outside.jsonl", '{"messages": [{"role": "user", "content": "out"}]}')
    return out.getvalue()


def bomb() -> bytes:
    """Nine aliases of nine aliases, eleven deep: as many values as there are grains of sand."""
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{c}: &{c} [{', '.join(['*' + b] * 9)}]" for b, c in zip("abcdefghij", "bcdefghijk", strict=True)]
    return "\n".join(lines).encode()


HOSTILE = {
    "a-workbook.xlsx": (lambda: office(b"<x/>"), "a workbook or another office document; save its table as CSV"),
    "a-workbook-that-expands.xlsx": (lambda: office(b"a" * (80 << 20)), "a workbook or another office document"),
    "b.pdf": (lambda: b"%PDF-1.7\n1 0 obj\n<</Type/Catalog>>\nendobj\n%%EOF\n", "a PDF, which holds no log"),
    "c.yaml": (bomb, "more than one column is named x"),
    "d.yaml": (lambda: b"tasks: " + b"[" * 20_000 + b"]" * 20_000, "no reader recognises this content"),
    "e.xml": (lambda: b"<page>" + b"word " * 60_000 + b"</page>", "no reader recognises this content"),
    "f.txt": (lambda: b'"a\rb",c\rd,"e\n1,2\n', "no reader recognises this content"),
    "g.zip": (slip, "the member's name points outside the archive"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_one_sentence_and_the_next_file_is_read(name: str, logs: Any, home: Home) -> None:
    content, why = HOSTILE[name]
    logs.put(name, content())
    logs.put("z.jsonl", logs.chat("behind", "it"))
    result = import_logs(logs.root, home=home, run="r")
    assert [s.why[: len(why)] for s in result.skipped] == [why]
    assert result.traces == 1
    assert not list(logs.root.parent.glob("outside*"))


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file here whose reading fails with EIO")
def test_a_file_whose_disk_fails_is_named_and_the_next_is_read(logs: Any, home: Home) -> None:
    (logs.root / "a.jsonl").symlink_to("/proc/self/mem")  # its first byte is an input/output error
    logs.put("z.jsonl", logs.chat("behind", "it"))
    result = import_logs(logs.root, home=home, run="r")
    assert [(s.where, s.why) for s in result.skipped] == [("a.jsonl", "cannot be read: Input/output error")]
    assert result.traces == 1


def test_a_home_whose_disk_fails_keeps_what_was_committed(
    logs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(LocalFiles(tmp_path / "home"))
    import_logs(logs.put("a.jsonl", logs.chat("first", "one")), home=home, run="r")
    second = logs.put("b.jsonl", logs.chat("second", "one"))
    sync, left = os.fsync, 0

    def fails(file: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(file)

    for count in range(0, 8, 2):
        left = count
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fails)
            with pytest.raises(EthogramError, match="Input/output error; everything committed before is safe") as error:
                import_logs(second, home=home, run="r")
        assert "\n" not in error.value.cli_message
        assert [e.head.task for e in Home(LocalFiles(tmp_path / "home")).run("r").entries] == ["first"]
    import_logs(second, home=home, run="r")
    assert sorted(e.head.task for e in home.run("r").entries) == ["first", "second"]
    assert verify(home=home).ok


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_home_that_cannot_be_made_is_one_sentence(place: str, logs: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    path = logs.put("a.jsonl", logs.chat("hello", "you"))
    environment = {**os.environ, "ETHOGRAM_HOME": str(tmp_path / place), "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "ethogram.cli.main", "import", str(path)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )
    assert done.returncode == 64
    (line,) = done.stderr.strip().splitlines()
    assert "cannot write" in line
    assert (tmp_path / "file").read_text() == "not a folder"
