"""Comparisons in a suite's tests that objects of an agent cannot pass by being equal to everything.

`class Anything: __eq__ = lambda self, other: True` passes `assert total([]) == 0`. Comparisons in the suite's test
files are therefore checked when they come out as the test wishes: an object whose class comes from the code under
test, and which gives the same answer for a value that nobody expects, is an error.
"""

from __future__ import annotations

import ast
import operator
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

NAME = "__ethogram_compared__"
OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.In: "in",
    ast.NotIn: "not in",
}
UNITTEST = {
    "assertEqual": "eq",
    "assertListEqual": "eq",
    "assertTupleEqual": "eq",
    "assertDictEqual": "eq",
    "assertSetEqual": "eq",
    "assertSequenceEqual": "eq",
    "assertCountEqual": "eq",
    "assertNotEqual": "ne",
    "assertIn": "in",
    "assertNotIn": "not in",
    "assertLess": "lt",
    "assertLessEqual": "le",
    "assertGreater": "gt",
    "assertGreaterEqual": "ge",
}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "in": lambda one, many: one in many,
    "not in": lambda one, many: one not in many,
}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_METHODS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__")


class _Nobody:
    """A value that nobody expects."""


def guard_comparisons(folder: Path, own: frozenset[str]) -> None:
    """Check the comparisons of the suite's own files from now on; pytest compiles each of them once, on import."""
    import builtins

    from _pytest.assertion import rewrite

    files = frozenset(str(folder / name) for name in own)
    setattr(builtins, NAME, _Checked(str(folder) + os.sep, files))
    original = rewrite.rewrite_asserts

    def rewrite_asserts(mod: ast.Module, source: bytes, module_path: str | None = None, config: Any = None) -> None:
        original(mod, source, module_path, config)
        # afterwards, so that what a failed assertion shows is still what stands in the file
        if module_path in files:
            _Rewriter().visit(mod)

    rewrite.rewrite_asserts = rewrite_asserts


class _Rewriter(ast.NodeTransformer):
    """`a == b` becomes `__ethogram_compared__("eq", a, b)`, and the same for unittest's assertions."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        name = OPERATORS.get(type(node.ops[0]))
        if name is None or len(node.ops) != 1:
            return node
        return self._call("compare", name, [node.left, node.comparators[0]], node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = UNITTEST.get(node.func.attr) if isinstance(node.func, ast.Attribute) else None
        if name is None or len(node.args) < 2 or any(isinstance(a, ast.Starred) for a in node.args[:2]):
            return node
        pair = ast.copy_location(ast.Starred(self._call("pair", name, node.args[:2], node), ast.Load()), node)
        node.args = [pair, *node.args[2:]]
        return node

    @staticmethod
    def _call(method: str, name: str, operands: list[ast.expr], at: ast.expr) -> ast.Call:
        holder = ast.copy_location(ast.Name(NAME, ast.Load()), at)
        function = ast.copy_location(ast.Attribute(holder, method, ast.Load()), at)
        kind = ast.copy_location(ast.Constant(name), at)
        return ast.copy_location(ast.Call(function, [kind, *operands], []), at)


class _Checked:
    """Compares two values, and raises where one of them would have agreed with anything."""

    def __init__(self, folder: str, own: frozenset[str]) -> None:
        self._folder = folder
        self._own = own
        self._known: dict[type, bool] = {}

    def compare(self, name: str, left: Any, right: Any) -> Any:
        """What the operator says, if it may be believed."""
        result = _COMPARE[name](left, right)
        self._check(name, left, right)
        return result

    def pair(self, name: str, left: Any, right: Any) -> tuple[Any, Any]:
        """Both values, if their comparison may be believed."""
        self._check(name, left, right)
        return left, right

    def _check(self, name: str, left: Any, right: Any) -> None:
        base = {"in": "eq", "not in": "ne"}.get(name, name)
        sides = [(left, right, base), (right, left, _MIRRORED.get(base, base))]
        for mine, other, how in sides:
            for part in _parts(mine):
                if self._is_foreign(type(part)) and _agrees(how, part, other):
                    raise AssertionError(f"an object of class {type(part).__name__!r} compares as true with anything")
        if name == "in" and self._is_foreign(type(right)) and _truth(lambda: _Nobody() in right):
            raise AssertionError(f"an object of class {type(right).__name__!r} contains everything")

    def _is_foreign(self, kind: type) -> bool:
        """Whether a class compares by code of the agent: from the folder under test, and not of the suite."""
        if kind not in self._known:
            self._known[kind] = any(
                self._is_theirs(base, vars(base)[method])
                for base in kind.__mro__
                for method in _METHODS
                if method in vars(base)
            )
        return self._known[kind]

    def _is_theirs(self, kind: type, method: Any) -> bool:
        code = getattr(method, "__code__", None)
        module = sys.modules.get(kind.__module__)
        file = code.co_filename if code is not None else getattr(module, "__file__", None)
        if file is None or file == "<string>":  # generated, as a dataclass's is: it compares field by field
            return False
        return str(file).startswith(self._folder) and file not in self._own


def _parts(value: Any, depth: int = 3) -> Iterator[Any]:
    """A value and what plain containers hold of it, as far as is worth looking."""
    yield value
    if depth and type(value) in (list, tuple, set, frozenset, dict):
        items = [*value, *value.values()] if isinstance(value, dict) else list(value)
        for item in items[:100]:
            yield from _parts(item, depth - 1)


def _agrees(how: str, part: Any, other: Any) -> bool:
    """Whether an object gives the wished answer for a value that nobody expects as well."""
    if how == "ne":  # to differ from a stranger is natural; to differ from itself is not
        return _truth(lambda: part != part) and _truth(lambda: part != other)
    if _truth(lambda: _COMPARE[how](part, _Nobody())):
        return True
    if how != "eq" or not _truth(lambda: part == other):
        return False
    changed = _changed(other)
    return changed is not None and _truth(lambda: part == changed)


def _changed(value: Any) -> Any:
    """Another value of the same type; None where there is no obvious one."""
    kind = type(value)
    if kind is bool:
        return not value
    if kind in (int, float, complex):
        return value + 1
    if kind in (str, bytes):
        return value + (b"\0?" if kind is bytes else "\0?")
    if kind in (list, tuple):
        return kind([*value, _Nobody()])
    if kind is dict:
        return {**value, _Nobody(): None}
    return {*value, _Nobody()} if kind in (set, frozenset) else None


def _truth(ask: Callable[[], Any]) -> bool:
    """Whether a comparison says yes; one that raises does not."""
    try:
        return ask() is True or bool(ask())
    except Exception:
        return False
