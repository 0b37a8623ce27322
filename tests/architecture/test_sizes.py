"""Sizes are a report, not a limit: run with -s to read it. What must hold is that every file says what it is for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from conftest import Module


class Size(NamedTuple):
    lines: int
    name: str


def files_by_size(modules: dict[str, Module]) -> list[Size]:
    return sorted((Size(m.lines, m.name or "__init__") for m in modules.values()), reverse=True)


def functions_by_size(modules: dict[str, Module]) -> list[Size]:
    found = [
        Size((node.end_lineno or node.lineno) - node.lineno + 1, f"{m.name}.{node.name}")
        for m in modules.values()
        for node in ast.walk(m.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return sorted(found, reverse=True)


def test_report_of_sizes(modules: dict[str, Module]) -> None:
    files, functions = files_by_size(modules), functions_by_size(modules)
    print(f"\n{len(files)} files, {sum(f.lines for f in files)} lines, {len(functions)} functions")
    for title, sizes, house in (("files", files, 400), ("functions", functions, 60)):
        over = sum(s.lines > house for s in sizes)
        print(f"largest {title} (the house keeps to about {house} lines; {over} larger):")
        for size in sizes[:12]:
            print(f"  {size.lines:>5}  {size.name}")
    assert files[0].lines >= files[-1].lines > 0
    assert functions[0].lines > 1
    assert {f.name for f in files} >= {"store.lake", "trace.span"}


def test_every_file_says_what_it_is_for(modules: dict[str, Module]) -> None:
    silent = [str(m.path) for m in modules.values() if not (ast.get_docstring(m.tree) or "").strip()]
    assert not silent, f"no module docstring: {', '.join(silent)}"


def test_every_package_has_a_charter(modules: dict[str, Module]) -> None:
    """A folder with modules is a package with an `__init__`, and that begins with a sentence."""
    folders = {m.path.parent for m in modules.values()}
    packages = {m.path.parent: m for m in modules.values() if m.is_package}
    bare = [str(f) for f in folders if f not in packages]
    assert not bare, f"no __init__.py with a charter: {', '.join(bare)}"
    for package in packages.values():
        first = (ast.get_docstring(package.tree) or "").splitlines()[0]
        assert len(first.split()) >= 4, f"{package.name}: {first!r} says nothing"
        assert "." in first or ":" in first, f"{package.name}: {first!r} is not a sentence"
