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
        """The first word of the name: a package of ours, or a module beside the packages."""
        return self.name.partition(".")[0]

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


def is_material(path: Path) -> bool:
    """Whether a file lies in a folder inside a package that is no package itself: what a task or a suite works on."""
    inside = path.relative_to(SRC).parent.parts
    return any(not (SRC.joinpath(*inside[: i + 1]) / "__init__.py").is_file() for i in range(1, len(inside)))


@pytest.fixture(scope="session")
def modules() -> dict[str, Module]:
    """All modules by name; the root package is the empty name."""
    found = {}
    for path in sorted(p for p in SRC.rglob("*.py") if not is_material(p)):
        parts = path.relative_to(SRC).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        found[name] = Module(name, path, ast.parse(text, str(path)), text.count("\n"))
    assert len(found) > 50, "the source tree was not found"
    return found
