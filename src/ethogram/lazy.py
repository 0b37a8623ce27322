"""Names of a package that are imported when they are first used, so that a command pays only for what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_in(
    package: str, modules: Mapping[str, str], elsewhere: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `__getattr__ = names_in(__name__, {"PriceList": "prices"})`.

    `modules` says in which module of the package each name is defined, as `module:name` where it has another name
    there. No name may also be the name of a module of the package: Python would give the module once that is imported.
    `elsewhere` says of names that people look for what to write instead.
    """

    def attribute(name: str) -> Any:
        if name not in modules:
            hint = f": {elsewhere[name]}" if elsewhere and name in elsewhere else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        module, _, other = modules[name].partition(":")
        found = getattr(import_module(f"{package}.{module}"), other or name)
        if other and hasattr(found, "__qualname__"):
            found.__name__ = found.__qualname__ = name  # by which help and Python's own errors call it
        return found

    return attribute
