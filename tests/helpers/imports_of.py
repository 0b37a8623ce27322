"""The imports of a module, as the tests of the architecture see them; inside functions too."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Module

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
