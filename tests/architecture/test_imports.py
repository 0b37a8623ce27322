"""The direction of imports is the architecture: this table is the one of the design notes, and every import obeys it.

Imports inside functions and under TYPE_CHECKING count too: a lazy import is still a dependency.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from imports_of import house_imports, outside_imports

if TYPE_CHECKING:
    from conftest import Module

pytestmark = pytest.mark.xdist_group("architecture")  # every module is parsed once

LEAVES = {"errors", "estimate", "result", "plugins", "lazy", "display", "arrays", "arguments"}
"""Every package may import these; they import nothing but each other."""

MAY_IMPORT: dict[str, set[str]] = {
    **{leaf: set() for leaf in LEAVES},
    "cluster": set(),
    "traces": set(),
    "statistics": set(),
    "plans": {"traces"},
    "loading": {"traces"},
    "measures": {"traces", "statistics"},
    "prices": {"traces", "statistics"},
    "store": {"traces", "plans"},
    "perturbations": {"plans"},
    "checks": {"traces", "loading"},
    "findings": {"traces", "checks"},
    "capture": {"traces", "store"},
    "suites": {"traces", "plans", "loading", "prices", "checks"},
    "wire": {"traces", "plans", "prices", "store", "perturbations", "capture"},
    "harness": {
        *("traces", "plans", "loading", "cluster", "prices", "store", "perturbations", "checks", "capture", "suites"),
        "wire",
    },
    "reading": {
        *("traces", "plans", "loading", "cluster", "measures", "prices", "store", "checks", "findings", "suites"),
    },
    "questions": {
        *("traces", "plans", "statistics", "loading", "cluster", "measures", "prices", "store", "perturbations"),
        *("checks", "findings", "capture", "suites", "wire", "harness", "reading"),
    },
    "viewer": {"traces", "measures", "store", "wire", "reading", "questions"},
    "testing": {"traces", "plans", "prices", "store", "checks", "capture", "harness", "questions"},
    "worlds": {"traces", "plans", "loading", "store", "wire", "harness", "reading", "questions"},
    "agent_fields": {"measures", "questions"},
    "cli": {"measures", "prices", "store", "capture", "wire", "harness", "reading", "questions", "worlds", "viewer"},
    "extend": {"traces", "store", "checks", "measures", "perturbations", "capture", "viewer"},
    "__main__": {"cli"},
}
"""From below to above; what stands higher is imported by nothing that stands lower. Questions are told apart below."""

BETWEEN_QUESTIONS: dict[str, set[str]] = {
    "gate": {"compare", "calibration", "divergence"},
    "why": {"fork"},
    "incident": {"scoring", "why"},
    "golden": {"incident", "scoring"},
    "experiment": {"divergence"},
    "replay": {"divergence"},
    "home": {"explore"},
    "field": {"explore"},
}
"""Which question asks which; what two need and neither owns lies in `measures`, `reading` or below."""

NEVER: dict[str, set[str]] = {
    "traces": {"time", "datetime", "contextvars", "random", "secrets", "os", "io", "pathlib", "tempfile", "numpy"},
    "plans": {"time", "datetime", "contextvars", "random", "secrets", "os", "pathlib", "subprocess"},
    "statistics": {"os", "pathlib", "logging", "random", "time"},
    "measures": {"os", "pathlib", "random", "time"},
    "findings": {"os", "pathlib", "random", "time", "subprocess"},
    "prices": {"httpx", "urllib", "socket", "asyncio", "random"},
    "errors": {"msgspec", "numpy"},
}
"""Outside modules that would break a charter: records are inert, statistics are quiet."""


def folder(name: str) -> str:
    """The package of a module; of a question, its folder (`questions.gate`)."""
    words = name.split(".")
    return ".".join(words[: 2 if words[0] == "questions" else 1])


def test_the_tables_name_what_there_is(modules: dict[str, Module]) -> None:
    """A key that names no folder guards nothing."""
    packages = {m.package for m in modules.values() if m.name}
    assert packages == set(MAY_IMPORT)
    assert set(NEVER) <= packages
    questions = {m.name.split(".")[1] for m in modules.values() if m.name.startswith("questions.")}
    assert set(BETWEEN_QUESTIONS).union(*BETWEEN_QUESTIONS.values()) <= questions


def test_imports_follow_the_table(modules: dict[str, Module]) -> None:
    bent = []
    unused = {(package, other) for package, allowed in MAY_IMPORT.items() for other in allowed}
    for module in modules.values():
        if not module.name:
            continue  # the front door may name everything: it imports on use
        allowed = MAY_IMPORT[module.package] | LEAVES | {module.package}
        for target, where in house_imports(module, modules):
            package = target.partition(".")[0] or "the front door"
            unused.discard((module.package, package))
            if package not in allowed:
                bent.append(f"{module.package} may not import {package}: {module.name} ({where})")
    assert not bent, "\n".join(bent)
    assert not unused, f"nothing needs these any more: {sorted(unused)}"


def test_questions_ask_each_other_as_written(modules: dict[str, Module]) -> None:
    bent = []
    unused = {(one, other) for one, others in BETWEEN_QUESTIONS.items() for other in others}
    for module in (m for m in modules.values() if m.name.startswith("questions.")):
        one = folder(module.name).partition(".")[2]
        for target, where in house_imports(module, modules):
            other = folder(target).partition(".")[2] if target.startswith("questions.") else one
            unused.discard((one, other))
            if other not in {one, *BETWEEN_QUESTIONS.get(one, ())}:
                bent.append(f"{one} may not ask {other}: {module.name} ({where})")
    assert not bent, "\n".join(bent)
    assert not unused, f"nothing needs these any more: {sorted(unused)}"


def test_only_what_buys_starts_runs(modules: dict[str, Module]) -> None:
    """In a question, the harness is imported by `buying` (a file, or a folder) and by nothing else."""
    bent = [
        f"{module.name} ({where})"
        for module in modules.values()
        if module.package == "questions" and "buying" not in module.name.split(".")
        for target, where in house_imports(module, modules)
        if target.partition(".")[0] == "harness"
    ]
    assert not bent, "\n".join(bent)


def test_a_name_has_one_home(modules: dict[str, Module]) -> None:
    """`from .a import b as b` would make a second place to import `b` from; the front doors are for that."""
    again = [
        f"{module.name}: {alias.name}"
        for module in modules.values()
        if module.name not in {"", "extend"}
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    ]
    assert not again, f"import these from where they are defined: {', '.join(again)}"


def test_leaves_import_only_leaves(modules: dict[str, Module]) -> None:
    for module in (m for m in modules.values() if m.package in LEAVES):
        targets = {target.partition(".")[0] for target, _ in house_imports(module, modules)}
        assert targets <= LEAVES, module.name


def test_charters_are_kept(modules: dict[str, Module]) -> None:
    broken = [
        f"{module.package} never needs {name}: {module.name} ({where})"
        for module in modules.values()
        for name, where in outside_imports(module)
        if name in NEVER.get(module.package, ())
    ]
    assert not broken, "\n".join(broken)


def test_the_table_itself_has_no_cycle() -> None:
    assert cycle({p: sorted(allowed) for p, allowed in MAY_IMPORT.items()}) is None


def test_folders_form_no_cycle(modules: dict[str, Module]) -> None:
    edges: dict[str, set[str]] = {}
    for module in modules.values():
        if module.name:
            below = edges.setdefault(folder(module.name), set())
            below.update(folder(target) for target, _ in house_imports(module, modules))
            below.discard(folder(module.name))
    round_trip = cycle({name: sorted(below) for name, below in edges.items()})
    assert round_trip is None, " -> ".join(round_trip or [])


def test_modules_form_no_cycle(modules: dict[str, Module]) -> None:
    """Inside a package too, for what is imported when a module is: an `__init__` imports what it gathers, its members
    do not import it. Two files of one package may know each other's types, or call each other late."""
    edges = {}
    for module in modules.values():
        if module.name:
            seen = house_imports(module._replace(tree=at_once(module.tree)), modules)
            edges[module.name] = sorted({t for t, _ in seen if t != module.name and not _is_above(t, module.name)})
    found = cycle(edges)
    assert found is None, " -> ".join(found or [])


def at_once(tree: ast.Module) -> ast.Module:
    """The imports that run when the module is imported."""
    return ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])


def _is_above(target: str, name: str) -> bool:
    return name.startswith(target + ".")


def cycle(edges: dict[str, list[str]]) -> list[str] | None:
    """A cycle of a graph, if there is one."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str] | None:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return None
        for below in edges.get(node, []):
            found = visit(below, [*path, node])
            if found:
                return found
        done.add(node)
        return None

    return next((found for node in edges if (found := visit(node, []))), None)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from ethogram.store import open_home", {"store"}),
        ("from ethogram.store.redact import policy_from", {"store.redact"}),
        ("from .maintenance import verify_runs", {"questions.home.maintenance"}),
        ("from . import runs", {"questions.home.runs"}),
        ("from ...traces import Span", {"traces"}),
        ("import ethogram.cli.main", {"cli.main"}),
        ("def f():\n    from ethogram.capture import chat", {"capture.chat"}),
        ("if TYPE_CHECKING:\n    from ethogram.capture.source import Source", {"capture.source"}),
        ("from ethogram import __version__", set()),
        ("from ethogram import load", {""}),
        ("import ethogrammar, json\nfrom typing import Any", set()),
    ],
)
def test_the_walk_sees_every_way_to_import(modules: dict[str, Module], source: str, names: set[str]) -> None:
    module = modules["questions.home.runs"]._replace(tree=ast.parse(source))
    assert {name for name, _ in house_imports(module, modules)} == names


def test_late_imports_are_no_cycle(modules: dict[str, Module]) -> None:
    source = (
        "if TYPE_CHECKING:\n    from .runs import load\nfrom .exports import x\ndef f():\n    from . import queries"
    )
    module = modules["questions.home.runs"]._replace(tree=at_once(ast.parse(source)))
    assert {name for name, _ in house_imports(module, modules)} == {"questions.home.exports"}


def test_a_cycle_is_seen() -> None:
    assert cycle({"a": ["b"], "b": ["c"], "c": ["a"]}) == ["a", "b", "c", "a"]
    assert cycle({"a": ["b", "c"], "b": ["c"], "c": []}) is None
