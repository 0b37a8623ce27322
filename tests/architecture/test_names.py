"""One word, one thing: a public name is defined in one module, so that it means the same wherever it is read."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Module

PORTS = {
    "sniff": "capture.readers.*",
    "read": "capture.readers.*",
    "write": "capture.writers.*",
    "command": "cli.*",
    "main": "*",
    "tools": "*",
}
"""Names that a module must give so that others can use it, and where: every reader has `sniff` and `read`, every writer
`write`, every verb `command`, every program `main`, every suite `tools`."""
TOOLS_OF_AGENTS = "worlds.*.tools"
"""Functions that agents call in small worlds: two shops may both tell a price."""
STANDS_IN = "agent_fields*"
"""A package whose names are those of another package, so that notebooks written for that one run."""
TEXTBOOK = {
    "difference": {"statistics.stratified", "checks.values"},
    "score": {"statistics.stratified", "questions.scoring.question"},
    "share": {"questions.calibration.agreement", "cli.cost"},
    "variance": {"questions.calibration.variance", "questions.field.standardised"},
    "width": {"statistics.spread", "questions.field.standardised"},
    "width_ratio": {"statistics.spread", "questions.field.fieldtests"},
}
"""Names of textbooks, read with their module (`stratified.difference`), that others also have: a verb, for example."""
ARRAYS = {"Floats", "Ints", "Bools"}
"""Types of arrays, which mean the same in every module."""
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def is_port(name: str, module: str) -> bool:
    return name in PORTS and fnmatch(module, PORTS[name])


def defined(modules: dict[str, Module]) -> Iterator[tuple[str, str, Definition]]:
    """Every public class and function at the top of a module: its name, the module, the definition."""
    for module in modules.values():
        if fnmatch(module.name, STANDS_IN):
            continue
        for node in module.tree.body:
            if isinstance(node, Definition) and not node.name.startswith("_"):
                yield node.name, module.name, node


def types_defined(modules: dict[str, Module]) -> Iterator[tuple[str, str]]:
    """Every public class and name of a type (`Verdict = Literal[…]`) with its module."""
    for name, module, node in defined(modules):
        if isinstance(node, ast.ClassDef):
            yield name, module
    for module in (m for m in modules.values() if not fnmatch(m.name, STANDS_IN)):
        for node in module.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if name[0].isupper() and not name.isupper() and name not in ARRAYS:
                    yield name, module.name


def test_a_type_has_a_name_of_its_own(modules: dict[str, Module]) -> None:
    places = defaultdict(list)
    for name, module in types_defined(modules):
        places[name].append(module)
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert not twice, f"rename all but one: {twice}"


def test_a_function_has_a_name_of_its_own(modules: dict[str, Module]) -> None:
    places = defaultdict(set)
    for name, module, node in defined(modules):
        excused = is_port(name, module) or fnmatch(module, TOOLS_OF_AGENTS)
        if not isinstance(node, ast.ClassDef) and not excused:
            places[name].add(module)
    twice = {name: where for name, where in places.items() if len(where) > 1}
    new = {name: where for name, where in twice.items() if where != TEXTBOOK.get(name)}
    assert not new, f"rename all but one: {new}"
    assert TEXTBOOK.keys() <= twice.keys(), f"no longer needed: {sorted(TEXTBOOK.keys() - twice.keys())}"


def test_a_function_of_statistics_that_shares_its_name_is_called_with_its_module(modules: dict[str, Module]) -> None:
    names = defaultdict(set)
    for name, module, node in defined(modules):
        if not isinstance(node, ast.ClassDef):
            names[name].add(module)
    shared = {
        (m, name) for name, where in names.items() if len(where) > 1 for m in where if m.startswith("statistics.")
    }
    bare = [
        f"{module.name}: from {node.module} import {alias.name}"
        for module in modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and not module.name.startswith("statistics")
        for alias in node.names
        if ((node.module or "").removeprefix("ethogram."), alias.name) in shared
    ]
    assert not bare, f"import the module instead: {bare}"


def test_a_home_and_a_run_are_opened_in_one_place(modules: dict[str, Module]) -> None:
    """`home_of` and `run_of` of the store turn names into homes and runs; nobody else asks which of the two it has."""
    copies = [
        f"{module.name}:{node.lineno}"
        for module in modules.values()
        if module.name != "store.lake"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node).startswith("isinstance(")
        if ast.unparse(node.args[1]) in ("Home", "Run")
    ]
    assert not copies, f"use home_of or run_of of ethogram.store: {copies}"
