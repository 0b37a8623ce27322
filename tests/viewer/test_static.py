"""The built front end is what its source builds, and holds no address of a registry."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
STATIC = ROOT / "src" / "ethogram" / "viewer" / "static"
PAPER = STATIC.with_name("paper_static")
SOURCES = ("src", "index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")
FIRST_PAINT = 300_000


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def digest(*places: Path) -> str:
    """As `web/stamp.js` computes it after a build."""
    found = [p for place in places for p in ([place] if place.is_file() else place.rglob("*")) if p.is_file()]
    names = {Path(os.path.relpath(p, WEB)).as_posix(): p for p in found}
    hashed = sha256()
    for name in sorted(names):
        hashed.update(name.encode() + b"\0" + names[name].read_bytes() + b"\0")
    return hashed.hexdigest()


def test_the_committed_files_were_built_from_the_committed_source() -> None:
    stamp = json.loads((WEB / "built.json").read_text())
    said = "build again: cd web && npm install --no-package-lock && npm run build"
    assert digest(*(WEB / name for name in SOURCES)) == stamp["sources"], f"the source changed; {said}"
    assert digest(STATIC, PAPER) == stamp["built"], f"built files were changed by hand; {said}"


@pytest.mark.parametrize(("committed", "mode"), [(STATIC, "production"), (PAPER, "paper")], ids=["view", "report"])
def test_the_committed_files_are_what_the_source_builds(tmp_path: Path, committed: Path, mode: str) -> None:
    node = shutil.which("node")
    vite = WEB / "node_modules" / "vite" / "bin" / "vite.js"
    if node is None or not vite.is_file():
        pytest.skip("node, or web/node_modules, is missing: run `npm install` in web/ to compare the built files")
    built = tmp_path / "built"
    command = [node, str(vite), "build", "--mode", mode, "--outDir", str(built), "--logLevel", "error"]
    subprocess.run(command, cwd=WEB, check=True, capture_output=True, timeout=120)
    assert files(built) == files(committed), "build again: cd web && npm run build"


def test_nothing_names_a_registry() -> None:
    lock = (WEB / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert "registry" not in lock
    assert all(b"://cdn" not in body and b"fonts." not in body for body in files(STATIC).values())


def test_all_of_it_is_smaller_than_what_may_be_sent_before_the_first_paint() -> None:
    assert sum(map(len, files(STATIC).values())) < FIRST_PAINT
