"""Files and functions stay short enough to be read at once, and every file says what it is for."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

pytestmark = pytest.mark.xdist_group("architecture")  # every module is parsed once

if TYPE_CHECKING:
    from conftest import Module

FILE, FUNCTION = 420, 62
"""About 400 lines are meant for a file and 60 for a function (AGENTS.md); from here on a test fails."""
LONGER_FILES = {
    "questions.field.question": 430,  # one result of many fields, with the rows that it is made of
}
LONGER_FUNCTIONS = {
    "cli.gate.command": 70,  # every option is passed on by name, one in a line
}
"""Longer than that, why, and how long they may become."""


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function below its signature and its docstring, which say what it does and not how."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def too_long(lines: Mapping[str, int], limit: int, longer: Mapping[str, int]) -> dict[str, int]:
    """What is longer than it may be; an exception that is no longer needed is too (-1: it is gone)."""
    long = {name: count for name, count in lines.items() if count > longer.get(name, limit)}
    return long | {name: lines.get(name, -1) for name in longer if lines.get(name, -1) <= limit}


def test_files_are_short_enough_to_read(modules: dict[str, Module]) -> None:
    long = too_long({m.name: m.lines for m in modules.values()}, FILE, LONGER_FILES)
    assert not long, f"split these files (limit {FILE} lines), or take them from the exceptions: {long}"


def test_functions_are_short_enough_to_read(modules: dict[str, Module]) -> None:
    sizes = {f"{m.name}.{f.name}": body_lines(f) for m in modules.values() for f in functions(m.tree)}
    long = too_long(sizes, FUNCTION, LONGER_FUNCTIONS)
    assert not long, f"split these functions (limit {FUNCTION} lines), or take them from the exceptions: {long}"


def test_an_exception_that_is_not_needed_is_found() -> None:
    lines = {"short": 10, "long": 30, "longer": 50}
    assert too_long(lines, 20, {"long": 40, "longer": 40}) == {"longer": 50}
    assert too_long(lines, 20, {"short": 40, "long": 40, "longer": 60, "gone": 40}) == {"short": 10, "gone": -1}


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
