"""A home that we make is its owner's alone; one that was there before stays as open as its owner made it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ethogram.questions.home.maintenance import verify
from ethogram.questions.logs.imports import import_logs
from ethogram.store import Home, open_home
from ethogram.store.files import LocalFiles

LOG = '{"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good day"}]}'


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def filled(root: Path) -> Home:
    log = root.parent.parent / "log.json"
    log.parent.mkdir(exist_ok=True)
    log.write_text(LOG)
    home = open_home(str(root))
    assert import_logs(log, home=home, run="r").traces == 1
    assert verify(home=home).ok
    return home


def test_a_new_home_is_open_to_its_owner_alone(tmp_path: Path) -> None:
    root = tmp_path / "not" / "yet" / "there"
    filled(root)
    assert mode(root) == 0o700
    below = list(root.rglob("*"))
    assert len(below) > 5
    assert {mode(p) for p in below if p.is_dir()} == {0o700}
    assert {mode(p) for p in below if p.is_file()} == {0o600}
    assert mode(root.parent) == 0o755  # what lies above is not ours


@pytest.mark.parametrize(("given", "folders", "files"), [(0o755, 0o755, 0o644), (0o750, 0o750, 0o640)])
def test_a_home_that_its_owner_opened_stays_open(tmp_path: Path, given: int, folders: int, files: int) -> None:
    root = tmp_path / "home"
    root.mkdir()
    root.chmod(given)
    filled(root)
    below = [p for p in root.rglob("*") if p.name != "redaction.key"]
    assert mode(root) == given
    assert {mode(p) for p in below if p.is_dir()} == {folders}
    assert {mode(p) for p in below if p.is_file()} == {files}
    assert mode(root / "redaction.key") == 0o600  # a key is nobody else's, wherever it lies


def test_a_home_that_is_shared_with_a_group_is_shared_whole(tmp_path: Path) -> None:
    os.umask(0o002)
    root = tmp_path / "home"
    root.mkdir()
    root.chmod(0o770)
    LocalFiles(root).publish("runs/r/run.json", b"{}")
    assert (mode(root / "runs" / "r"), mode(root / "runs" / "r" / "run.json")) == (0o770, 0o660)
