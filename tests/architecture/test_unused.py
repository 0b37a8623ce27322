"""Functions of `stats` are called by the package or by its benchmarks: what only tests call is deleted."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("architecture")  # every module is parsed once

ROOT = Path(__file__).parents[2]
STATS = ROOT / "src" / "ethogram" / "stats"


def names_used(path: Path) -> set[str]:
    """Names that a file uses: read, taken from a module, or imported."""
    used = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
        elif isinstance(node, ast.alias):
            used.add(node.name)
    return used


@pytest.fixture(scope="module")
def used() -> set[str]:
    files = (path for folder in ("src", "bench", "scripts") for path in (ROOT / folder).rglob("*.py"))
    return set().union(*map(names_used, files))


@pytest.mark.parametrize("path", sorted(STATS.glob("*.py")), ids=lambda p: p.name)
def test_every_public_function_is_called(path: Path, used: set[str]) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert not {name for name in defined - used if not name.startswith("_")}
