"""The direction of imports is the architecture: this table is the one of the design notes, and every import obeys it.

Imports inside functions and under TYPE_CHECKING count too: a lazy import is still a dependency.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Module

pytestmark = pytest.mark.xdist_group("architecture")  # every module is parsed once

LEAVES = {"errors", "estimate", "result", "plugins", "lazy", "display", "arrays", "arguments"}
"""Every package may import these; they import nothing but each other."""

BASE = {
    "trace",
    "plan",
    "stats",
    "cost",
    "perturb",
    "store",
    "capture",
    "judge",
    "suite",
    "measure",
    "decide",
    "loading",
}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "estimate": set(),
    "result": set(),
    "display": set(),
    "plugins": set(),
    "lazy": set(),
    "arrays": set(),
    "arguments": set(),
    "loading": {"trace"},
    "cluster": set(),
    "trace": set(),
    "plan": {"trace"},
    "stats": set(),
    "cost": {"trace", "stats"},
    "perturb": {"trace", "plan"},
    "store": {"trace", "plan"},
    "capture": {"trace", "plan", "cost", "store", "perturb"},
    "judge": {"trace", "cost", "stats", "loading"},
    "suite": {"trace", "plan", "cost", "perturb", "judge", "loading"},
    "measure": {"trace", "plan", "stats", "cost"},
    "agent_fields": {"measure"},
    "decide": {"trace", "plan", "stats", "measure", "cost"},
    "run": {"trace", "plan", "capture", "store", "cost", "perturb", "judge", "suite", "loading", "cluster"},
    "lab": BASE | {"cluster"},
    "study": (BASE - {"stats"}) | {"run", "lab", "cluster"},
    "worlds": {"trace", "plan", "run", "capture", "loading"},
    "show": (BASE - {"stats"}) | {"lab"},
    "testing": {"trace", "plan", "cost", "store", "capture", "judge", "run", "lab", "show"},
    "__main__": {"cli"},
    "cli": {"lab", "run", "study", "show", "worlds", "store", "capture", "cost"},
}

NEVER: dict[str, set[str]] = {
    "trace": {"time", "datetime", "contextvars", "random", "secrets", "os", "io", "pathlib", "tempfile", "numpy"},
    "plan": {"time", "datetime", "contextvars", "random", "secrets", "os", "pathlib", "subprocess"},
    "stats": {"os", "pathlib", "logging", "random"},
    "measure": {"os", "pathlib", "random", "time"},
    "decide": {"os", "pathlib", "subprocess", "random"},
    "cost": {"httpx", "urllib", "socket", "asyncio", "random"},
    "errors": {"msgspec", "numpy"},
}
"""Outside modules that would break a charter: records are inert, statistics are quiet."""

ROOT_GIVES = {"__version__"}
"""What modules of the package may import from `ethogram` itself."""


def house_imports(module: Module, known: Mapping[str, Module]) -> Iterator[tuple[str, str]]:
    """Every import of one of our own modules: its full name inside the package, and the line."""
    parts = module.name.split(".") if module.name else []
    here = parts if module.is_package else parts[:-1]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            targets = [(a.name.split(".")[1:], []) for a in node.names if a.name.split(".")[0] == "ethogram"]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = here[: len(here) - (node.level - 1)]
            elif (node.module or "").split(".")[0] == "ethogram":
                base = []
            else:
                continue
            inside = (node.module or "").split(".") if node.module else []
            path = base + (inside if node.level else inside[1:])
            targets = [(path, [a.name]) for a in node.names]
        else:
            continue
        where = f"{module.path.name}:{node.lineno}"
        for path, names in targets:
            # `from .package import module` imports the module; `from .module import name` imports a name of it
            deeper = ".".join([*path, *names])
            name = deeper if deeper in known else ".".join(path)
            if not name and set(names) <= ROOT_GIVES:
                continue
            yield name, where


def outside_imports(module: Module) -> Iterator[tuple[str, str]]:
    """The first word of every import of somebody else's module, and the line."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        else:
            continue
        for name in names:
            yield name.partition(".")[0], f"{module.path.name}:{node.lineno}"


def test_every_package_is_in_the_table(modules: dict[str, Module]) -> None:
    assert {m.package for m in modules.values() if m.name} <= MAY_IMPORT.keys()


def test_imports_follow_the_table(modules: dict[str, Module]) -> None:
    bent = []
    for module in modules.values():
        if not module.name:
            continue  # the front door may name everything: it imports on use
        allowed = MAY_IMPORT[module.package] | LEAVES | {module.package}
        for target, where in house_imports(module, modules):
            package = target.partition(".")[0] or "the front door"
            if package not in allowed:
                bent.append(f"{module.package} may not import {package}: {module.name} ({where})")
    assert not bent, "\n".join(bent)


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


def test_packages_form_no_cycle(modules: dict[str, Module]) -> None:
    edges: dict[str, set[str]] = {}
    for module in modules.values():
        if module.name:
            below = edges.setdefault(module.package, set())
            below.update(t.partition(".")[0] for t, _ in house_imports(module, modules))
            below.discard(module.package)
    found = cycle({package: sorted(below) for package, below in edges.items()})
    assert found is None, " -> ".join(found or [])


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
        ("from ...trace import Span", {"trace"}),
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
