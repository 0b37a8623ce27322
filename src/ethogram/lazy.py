"""Names of a package that are imported when they are first used, so that a command pays only for what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_in(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `__getattr__ = names_in(__name__, {"PriceList": "prices.prices"})`.

    `modules` says in which module of `ethogram` each name is defined. No name may also be the name of a module of the
    package: Python would give the module once that is imported.
    """

    def attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"ethogram.{modules[name]}"), name)

    return attribute
