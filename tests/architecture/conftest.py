"""What the architecture tests look at: every module of the product, parsed and never imported."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

import pytest

SRC = Path(__file__).parents[2] / "src" / "ethogram"


class Module(NamedTuple):
    """One source file: its dotted name inside `ethogram`, its path and its tree."""

    name: str
    path: Path
    tree: ast.Module
    lines: int

    @property
    def package(self) -> str:
        """The first word of the name: a package of the house, or a module at its door."""
        return self.name.partition(".")[0]

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


@pytest.fixture(scope="session")
def modules() -> dict[str, Module]:
    """All modules by name; the root package is the empty name."""
    found = {}
    for path in sorted(SRC.rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        found[name] = Module(name, path, ast.parse(text, str(path)), text.count("\n"))
    assert len(found) > 50, "the source tree was not found"
    return found
