"""The built front end is what its source builds, and holds no address of a registry."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
STATIC = ROOT / "src" / "ethogram" / "show" / "static"
FIRST_PAINT = 300_000


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_the_committed_files_are_what_the_source_builds(tmp_path: Path) -> None:
    node = shutil.which("node")
    vite = WEB / "node_modules" / "vite" / "bin" / "vite.js"
    if node is None or not vite.is_file():
        pytest.skip("node, or web/node_modules, is missing: run `npm install` in web/ to compare the built files")
    command = [node, str(vite), "build", "--outDir", str(tmp_path / "built"), "--logLevel", "error"]
    subprocess.run(command, cwd=WEB, check=True, capture_output=True, timeout=120)
    assert files(tmp_path / "built") == files(STATIC), "build again: cd web && npm run build"


def test_nothing_names_a_registry() -> None:
    lock = (WEB / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert "registry" not in lock
    assert all(b"://cdn" not in body and b"fonts." not in body for body in files(STATIC).values())


def test_all_of_it_is_smaller_than_what_may_be_sent_before_the_first_paint() -> None:
    assert sum(map(len, files(STATIC).values())) < FIRST_PAINT
