"""Every test can fail: it asserts something, the assertion is not true of everything, and it does not hang on a folder
that may be empty."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("architecture")  # every test file is parsed once

TESTS = Path(__file__).parents[1]
CHECKS = {"raises", "warns", "fail"}
LISTINGS = {"glob", "rglob", "iterdir"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


@cache
def called(node: ast.AST) -> set[str]:
    """The last names of everything that is called."""
    calls = (n.func for n in ast.walk(node) if isinstance(n, ast.Call))
    return {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in calls}


@cache
def asserts(node: ast.AST) -> bool:
    names = called(node)
    return (
        any(isinstance(n, ast.Assert) for n in ast.walk(node))
        or bool(names & CHECKS)
        or any(n.startswith("assert_") for n in names)
    )


def helpers(trees: list[ast.Module]) -> set[str]:
    """Functions that assert something, or call one that does; a test may leave its assertions to them."""
    others = [f for tree in trees for f in functions(tree) if not f.name.startswith("test_")]
    found = {f.name for f in others if asserts(f)}
    while more := {f.name for f in others if f.name not in found and called(f) & found}:
        found |= more
    return found


def silent(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """Tests that assert nothing, neither themselves nor through a helper or a fixture."""
    for test in functions(tree):
        if test.name.startswith("test_"):
            given = {a.arg for a in test.args.args}
            if not asserts(test) and not (called(test) | given) & known:
                yield test.name


def trivial(tree: ast.Module) -> Iterator[int]:
    """Lines of assertions that are true of everything."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            test = node.test
            if isinstance(test, ast.Tuple) or (isinstance(test, ast.Constant) and test.value):
                yield node.lineno
            elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
                yield from (node.lineno for v in test.values if isinstance(v, ast.Constant) and v.value)
            elif (
                isinstance(test, ast.Compare)
                and ast.unparse(test).startswith("len(")
                and ast.unparse(test).endswith(">= 0")
            ):
                yield node.lineno


def hanging(tree: ast.Module) -> Iterator[str]:
    """Tests whose only assertions are in a loop over the files of a folder."""
    for test in functions(tree):
        if test.name.startswith("test_"):
            loops = [n for n in ast.walk(test) if isinstance(n, ast.For) and called(n.iter) & LISTINGS]
            inside = {n for loop in loops for n in ast.walk(loop)}
            if loops and not any(isinstance(n, ast.Assert) and n not in inside for n in ast.walk(test)):
                yield test.name


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return {str(p.relative_to(TESTS)): ast.parse(p.read_text(encoding="utf-8")) for p in sorted(TESTS.rglob("*.py"))}


def test_every_test_asserts_something(trees: dict[str, ast.Module]) -> None:
    known = helpers(list(trees.values()))
    assert [f"{name}::{test}" for name, tree in trees.items() for test in silent(tree, known)] == []


def test_no_assertion_is_true_of_everything(trees: dict[str, ast.Module]) -> None:
    assert [f"{name}:{line}" for name, tree in trees.items() for line in trivial(tree)] == []


def test_no_test_passes_because_a_folder_is_empty(trees: dict[str, ast.Module]) -> None:
    assert [f"{name}::{test}" for name, tree in trees.items() for test in hanging(tree)] == []


@pytest.mark.parametrize(
    ("source", "is_silent"),
    [
        ("def test_a():\n    print(1)", True),
        ("def test_a(checked):\n    print(1)", False),
        ("def test_a():\n    checked(1)", False),
        ("def test_a():\n    with pytest.raises(KeyError): f()", False),
        ("def test_a():\n    np.testing.assert_allclose(1, 1)", False),
    ],
)
def test_silence_is_seen(source: str, is_silent: bool) -> None:
    assert list(silent(ast.parse(source), {"checked"})) == (["test_a"] if is_silent else [])


def test_helpers_are_followed() -> None:
    tree = ast.parse("def a():\n    assert x\ndef b():\n    a()\ndef c():\n    b()\ndef d():\n    print()")
    assert helpers([tree]) == {"a", "b", "c"}


@pytest.mark.parametrize("source", ["assert True", "assert x or True", "assert (x, 'words')", "assert len(x) >= 0"])
def test_what_is_always_true_is_seen(source: str) -> None:
    assert list(trivial(ast.parse(source))) == [1]
    assert list(trivial(ast.parse("assert x\nassert x or y\nassert len(x) >= 1"))) == []


def test_a_loop_over_a_folder_is_seen() -> None:
    loop = "    for p in sorted(folder.glob('*')):\n        assert p\n"
    assert list(hanging(ast.parse("def test_a():\n" + loop))) == ["test_a"]
    assert list(hanging(ast.parse("def test_a():\n    assert x\n" + loop))) == []
