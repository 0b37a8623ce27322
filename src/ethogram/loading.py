"""Python objects by name: `pkg.mod:name`, or `file.py:name` of a suite.

A suite's code may import what lies beside it. Two suites may both have a `helper.py`, and either may be edited
while this process lives: a module is always the one that its bytes, and those of what it imports, make it.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import sys
import sysconfig
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ethogram.display.shorten import shortened_list
from ethogram.errors import BadInput, NotFound
from ethogram.traces import digest

_NOT_OF_USERS = (
    str(Path(__file__).parent) + os.sep,
    *(sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)
_lock = threading.RLock()
_ours: dict[str, str] = {}
"""Modules beside a suite's code that were imported for it, with the hash of their bytes at that time."""
_seen: dict[Path, tuple[tuple[tuple[Path, int, int], ...], str]] = {}


def named_object(spec: str, root: Path | None = None) -> Any:
    """What `pkg.mod:name` or `file.py:name` (below `root`) names."""
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name:
        raise BadInput(f"{spec!r} is not the name of a Python object; write pkg.mod:name or file.py:name", where=spec)
    found: Any = module_at((root or Path.cwd()) / place) if place.endswith(".py") else module_named(place, spec)
    for part in name.split("."):
        if not hasattr(found, part):
            raise not_defined(found, part, place, "function or class")
        found = getattr(found, part)
    return found


def raised_words(error: BaseException) -> str:
    """An exception of a user's code in one line, with the line of that code that it came from, where there is one."""
    first = (str(error).strip().splitlines() or [""])[0]
    words = f"{type(error).__name__}: {first}" if first else type(error).__name__
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        file = frame.f_code.co_filename
        if not file.startswith((*_NOT_OF_USERS, "<")):
            return f"{words} ({file.removeprefix(os.getcwd() + os.sep)}:{line} in {frame.f_code.co_name})"
    return words


def not_defined(owner: Any, name: str, place: str, kind: str) -> NotFound:
    """The error for a name that a module or a class does not have; it lists functions and classes defined there."""
    from difflib import get_close_matches

    module = getattr(owner, "__name__", None) if isinstance(owner, ModuleType) else getattr(owner, "__module__", None)
    named = getattr(owner, "__dict__", {})
    public = {k: v for k, v in named.items() if not (k.startswith("_") or isinstance(v, ModuleType))}
    known = sorted(k for k, v in public.items() if callable(v) and getattr(v, "__module__", None) == module)
    near = get_close_matches(name, public, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; it has: {shortened_list(known, 8)}" if known else ""
    return NotFound(f"{place} has no {kind} {name!r}{hint}", where=place, what="name", name=name, known=known)


def module_named(name: str, wanted: str | None = None) -> ModuleType:
    """A module by its dotted name; the working folder counts."""
    try:
        with _first_on_path(Path.cwd()):
            return importlib.import_module(name)
    except ImportError as error:
        raise NotFound(
            f"cannot import {name!r}{f' for {wanted!r}' if wanted else ''}: {error}",
            where=wanted,
            what="module",
            name=name,
        ) from None


def module_at(path: Path) -> ModuleType:
    """The module in a file; after a change it is another module, so that an old one is never taken for it."""
    path = path.resolve()
    name = f"ethogram_suite_{path.stem}_{digest(str(path), code_digest(path))[3:19]}"
    with _lock:
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None:
            raise BadInput(f"{path.name!r} is not a Python file", where=str(path))
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            code = compile(path.read_bytes(), str(path), "exec")
            with _first_on_path(path.parent), _neighbours(path.parent):
                exec(code, module.__dict__)  # noqa: S102 - what importing is; but compiled afresh, never from a cache
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


@contextmanager
def _neighbours(folder: Path) -> Iterator[None]:
    """Make sure that what lies in this folder is imported from this folder, as it is now."""
    names = {p.stem for p in folder.glob("*.py")} | {p.parent.name for p in folder.glob("*/__init__.py")}
    names -= sys.stdlib_module_names
    aside: dict[str, ModuleType] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] not in names or file is None:
            continue
        here = Path(file).is_relative_to(folder)
        if not here or (name in _ours and _ours[name] != _hash(Path(file))):
            aside[name] = sys.modules.pop(name)
    foreign = [name for name in aside if name not in _ours]
    before = set(sys.modules)
    quiet, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.dont_write_bytecode = quiet
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in names and (file := getattr(sys.modules[name], "__file__", None)):
                _ours[name] = _hash(Path(file))
        for name in foreign:  # somebody else's modules of the same names go back to their place
            sys.modules[name] = aside[name]
            _ours.pop(name, None)


def _hash(file: Path) -> str:
    try:
        return digest(str(file), file.read_bytes())
    except OSError:
        return ""


def code_digest(path: Path) -> str:
    """The hash of a Python file together with the files beside it that it imports, directly or not."""
    path = path.resolve()
    with _lock:
        known = _seen.get(path)
        if known is not None and known[0] == _stamps([file for file, _, _ in known[0]]):
            return known[1]
        base, todo, found = path.parent, [path], set[Path]()
        while todo:
            file = todo.pop()
            if file not in found:
                found.add(file)
                todo.extend(_imported(file, base))
        files = sorted(found)
        stamps = _stamps(files)
        parts: list[str | bytes] = []
        for file in files:
            try:
                parts += [file.relative_to(base).as_posix(), file.read_bytes()]
            except OSError as error:
                raise NotFound(f"no Python file at {file.name!r}: {error.strerror}", where=str(file)) from None
        _seen[path] = (stamps, digest("code", *parts))
        return _seen[path][1]


def _stamps(files: list[Path]) -> tuple[tuple[Path, int, int], ...]:
    """When each file last changed, and its size; a file that is gone has no stamp of its own."""
    found = []
    for file in files:
        try:
            facts = file.stat()
            found.append((file, facts.st_mtime_ns, facts.st_size))
        except OSError:
            found.append((file, 0, -1))
    return tuple(found)


def _imported(file: Path, base: Path) -> Iterator[Path]:
    """Files below a folder that a file of it imports."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = [(base, a.name.split(".")) for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = base if not node.level else file.parents[min(node.level, len(file.parents)) - 1]
            inside = node.module.split(".") if node.module else []
            wanted = [(start, [*inside, a.name]) for a in node.names]
        else:
            continue
        for start, names in wanted:
            for length in range(1, len(names) + 1):
                place = start.joinpath(*names[:length])
                for candidate in (place.with_suffix(".py"), place / "__init__.py"):
                    if candidate.is_file() and candidate.is_relative_to(base):
                        yield candidate
