"""Files and functions stay short enough to be read at once, and every file says what it is for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

pytestmark = pytest.mark.xdist_group("architecture")  # every module is parsed once

if TYPE_CHECKING:
    from conftest import Module

FILE, FUNCTION = 500, 70
"""About 400 lines are meant for a file and 60 for a function (AGENTS.md); from here on a test fails."""
LONGER = {
    "run.executor": 550,
}
"""Files that are longer, and how long they may become."""


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function below its signature and its docstring, which say what it does and not how."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_files_are_short_enough_to_read(modules: dict[str, Module]) -> None:
    long = {m.name: m.lines for m in modules.values() if m.lines > LONGER.get(m.name, FILE)}
    assert not long, f"split these files (limit {FILE} lines): {long}"


def test_functions_are_short_enough_to_read(modules: dict[str, Module]) -> None:
    sizes = {f"{m.name}.{f.name}": body_lines(f) for m in modules.values() for f in functions(m.tree)}
    long = {name: lines for name, lines in sizes.items() if lines > FUNCTION}
    assert not long, f"split these functions (limit {FUNCTION} lines): {long}"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("def f(\n    a,\n    b,\n):\n    '''A\n    docstring.'''\n    x = 1\n\n    return x\n", 3),
        ("async def f(): return 1\n", 1),
        ("def f():\n    '''Only words.'''\n", 0),
    ],
)
def test_lines_of_a_body_are_counted(source: str, lines: int) -> None:
    (function,) = functions(ast.parse(source))
    assert body_lines(function) == lines


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
