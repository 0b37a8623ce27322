"""What only tests and benchmarks call is deleted: the product, a script, an example or a document uses each public
function and class."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

pytestmark = pytest.mark.xdist_group("architecture")  # every module is parsed once

if TYPE_CHECKING:
    from conftest import Module

ROOT = Path(__file__).parents[2]
CALLED_FROM_OUTSIDE = ("agent_fields.", "testing.plugin.pytest_", "cli.")
"""The names of another library, hooks of pytest, and commands that typer registers by decorator."""
CALLED_BY_OTHERS = (
    "capture.inspect.zip.Pieces.readinto",  # of io.RawIOBase
    "wire.otel.stored.StoredSpans.force_flush",  # of an exporter of OpenTelemetry
    "wire.gateway.upstream_http.HttpConnection.*",  # of asyncio.Protocol and of httptools
    "testing.reports.FailureWords.toterminal",  # of a report of pytest
    "*.pytest_*",
)
"""Methods that a library calls by their names."""


class Definition(NamedTuple):
    """A public function or class, and the module that holds it."""

    module: str
    name: str


def names_used(node: ast.AST) -> set[str]:
    """Names that code reads or takes from an object, and words of its short texts; an import alone is no use."""
    used = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            used.add(part.id)
        elif isinstance(part, ast.Attribute):
            used.add(part.attr)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str) and len(part.value) < 400:
            used.update(re.findall(r"\w+", part.value))  # "module:name", annotations in quotes, tables of lazy names
    return used


def statements(tree: ast.Module) -> list[tuple[str | None, ast.stmt]]:
    """Every statement of a module with the name that it defines, without imports and lists of exports."""
    found: list[tuple[str | None, ast.stmt]] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.append((node.name, node))
        elif not isinstance(node, ast.Import | ast.ImportFrom) and not _is_export_list(node):
            found.append((None, node))
    return found


def _is_export_list(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == ["__all__"]


def methods(tree: ast.Module) -> list[tuple[str, str]]:
    """Public methods and properties of public classes: the class and the method."""
    return [
        (node.name, method.name)
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        for method in node.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and not method.name.startswith("_")
    ]


@pytest.fixture(scope="module")
def users(modules: dict[str, Module]) -> dict[str, set[Definition | None]]:
    """For every name the definitions of the product that use it, or None for code elsewhere."""
    found: dict[str, set[Definition | None]] = defaultdict(set)
    for module in modules.values():
        for own, node in statements(module.tree):
            for name in names_used(node):
                found[name].add(Definition(module.name, own) if own else None)
    for folder in ("scripts", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            for name in names_used(ast.parse(path.read_text(encoding="utf-8"))):
                found[name].add(None)
    for page in (ROOT / "README.md", ROOT / "AGENTS.md", *(ROOT / "docs").rglob("*.md")):
        if page.parent.name != "reference":  # generated from the code itself
            for name in re.findall(r"\w+", page.read_text(encoding="utf-8")):
                found[name].add(None)
    return found


def test_every_public_function_and_class_is_used(
    modules: dict[str, Module], users: dict[str, set[Definition | None]]
) -> None:
    """Also not used: what only unused definitions use."""
    defined = {
        Definition(module.name, own)
        for module in modules.values()
        for own, _ in statements(module.tree)
        if own and not own.startswith("_")
    }
    outside = {d for d in defined if f"{d.module}.{d.name}".startswith(CALLED_FROM_OUTSIDE)}
    unused: set[Definition] = set()
    while new := {d for d in defined - outside - unused if not users[d.name] - unused - {d}}:
        unused |= new
    assert not unused, f"nothing but tests and benchmarks uses these: {sorted(f'{d.module}.{d.name}' for d in unused)}"


def test_every_public_method_is_used(modules: dict[str, Module], users: dict[str, set[Definition | None]]) -> None:
    """By its name alone, for the text does not tell an object's class; a name that occurs nowhere has no use."""
    unused = [
        where
        for module in modules.values()
        for owner, method in methods(module.tree)
        if not users[method] and not (where := f"{module.name}.{owner}.{method}").startswith(CALLED_FROM_OUTSIDE)
        if not any(fnmatch(where, pattern) for pattern in CALLED_BY_OTHERS)
    ]
    assert not unused, f"nothing but tests and benchmarks uses these: {sorted(unused)}"
