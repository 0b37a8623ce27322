"""Code by name: `pkg.mod:name`, or `file.py:name` of a suite."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from ethogram.errors import BadInput, NotFound


def named_object(spec: str, root: Path | None = None) -> Any:
    """What `pkg.mod:name` or `file.py:name` (below `root`) names."""
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name:
        raise BadInput(f"{spec!r} names no code; write pkg.mod:name or file.py:name")
    found: Any = module_at((root or Path.cwd()) / place) if place.endswith(".py") else module_named(place, spec)
    for part in name.split("."):
        if not hasattr(found, part):
            raise NotFound.named(f"name in {place}", part, [n for n in dir(found) if not n.startswith("_")])
        found = getattr(found, part)
    return found


def module_named(name: str, wanted: str | None = None) -> ModuleType:
    """A module by its dotted name; the working folder counts."""
    try:
        with _first_on_path(Path.cwd()):
            return importlib.import_module(name)
    except ImportError as error:
        raise NotFound(f"cannot import {name!r}{f' for {wanted!r}' if wanted else ''}: {error}") from None


def module_at(path: Path) -> ModuleType:
    """The module in a file. A changed file is another module, so that an old one is never taken for it."""
    try:
        body = path.read_bytes()
    except OSError as error:
        raise NotFound(f"no Python file at {path.name!r}: {error.strerror}") from None
    place = str(path.resolve()).encode()
    name = f"ethogram_suite_{path.stem}_{blake2b(place + body, digest_size=8).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{path.name!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _first_on_path(path.resolve().parent):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    """Let code import what lies beside it, while it is being imported."""
    place = os.fspath(folder)
    sys.path.insert(0, place)
    try:
        yield
    finally:
        if place in sys.path:
            sys.path.remove(place)
