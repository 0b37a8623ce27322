"""What the suite says its tests are: its own test files, its settings of pytest, and which failures it expects.

The agent may have changed all of them in its workspace; here they are put back, or left out.
"""

from __future__ import annotations

import ast
import os
import re
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from ethogram.checks.endstate import NamedTests
from ethogram.plans import FileRef, Task

from .checkout import committed_file, committed_names
from .scratch import remove
from .workspace import original, put

GUARDED = frozenset({"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", "sitecustomize.py", "usercustomize.py"})
SHARED = ("pyproject.toml", "tox.ini", "setup.cfg")
"""Files that hold pytest's settings among others: the agent may change them, but not for the runner."""


class Bench(msgspec.Struct, frozen=True):
    """What a verifier works with: the task, the suite's folder, and a way to isolate what it runs."""

    task: Task
    root: Path
    wrap: Callable[..., list[str]] | None = None

    def isolated(self, command: str | list[str], folder: Path, start: Path) -> str | list[str]:
        """The command, isolated where that was asked for."""
        if self.wrap is None:
            return command
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        show = [self.root] if str(self.root) in " ".join(argv) else []
        return self.wrap(argv, folder, start, show)


def restore(copy: Path, rule: NamedTests, bench: Bench) -> None:
    """Put the suite's own test files in place of whatever the agent made of them."""
    hidden = rule.test_files if isinstance(rule.test_files, dict) else {}
    for name in _restored(rule):
        if (data := _given(name, rule, bench)) is not None:
            put(copy, name, data)
    _guard(copy, bench, set(hidden))


def _restored(rule: NamedTests) -> list[str]:
    return list(dict.fromkeys((*rule.test_files, *rule.files_of_tests())))


def is_own(name: str, rule: NamedTests, bench: Bench) -> bool:
    """Whether a file of tests is the suite's."""
    return _given(name, rule, bench) is not None


def own_names(rule: NamedTests, bench: Bench) -> set[str]:
    """Files below the copy that are the suite's own again, whatever the agent made of them."""
    tests = {n for n in _restored(rule) if is_own(n, rule, bench)}
    return tests | {n for n in _names(bench) if n.rpartition("/")[2] in GUARDED}


def _given(name: str, rule: NamedTests, bench: Bench) -> bytes | None:
    """A file of tests as the suite has it: one that the agent never saw, or one that it was given."""
    if isinstance(rule.test_files, dict) and name in rule.test_files:
        path = rule.test_files[name]
        return original(bench.root, FileRef(path, rule.sources.get(path, "")), bench.task.id)
    return _own(name, bench)


def _own(name: str, bench: Bench) -> bytes | None:
    """A file as the agent was given it; None if it was not."""
    task = bench.task
    if name in task.files:
        return original(bench.root, task.files[name], task.id)
    return committed_file(task.repository, bench.root, name) if task.repository is not None else None


def _guard(copy: Path, bench: Bench, hidden: set[str]) -> None:
    """What bends the runner is as it was given, or gone."""
    given = _names(bench)
    for name in sorted(n for n in given if n.rpartition("/")[2] in GUARDED and n not in hidden):
        data = _own(name, bench)
        if data is not None:
            put(copy, name, data)
    for place, folders, files in os.walk(copy):
        for name in (*files, *folders):
            path = Path(place) / name
            if name in GUARDED and path.relative_to(copy).as_posix() not in given | hidden:
                path.unlink() if path.is_symlink() or not path.is_dir() else remove(path)


def _names(bench: Bench) -> set[str]:
    """The names of all files that the agent was given."""
    task = bench.task
    return set(task.files) | set(committed_names(task.repository, bench.root) if task.repository else ())


def settings_file(copy: Path, rule: NamedTests, bench: Bench) -> str:
    """pytest's settings as the suite has them, else empty ones, in a file of the copy that only the runner is told.

    Where the suite has them beside other settings, they are written under another name, for the agent may have had
    reasons to change the rest of that file.
    """
    given = _names(bench)
    files = rule.files_of_tests()
    shared = os.path.commonpath([os.path.dirname(f) for f in files]) if files else ""
    place = Path(shared)
    for folder in (place, *place.parents):
        for name in ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", *SHARED):
            at = (folder / name).as_posix()
            data = _own(at, bench) if at in given else None
            if data is None or (name in SHARED and not _has_settings(name, data)):
                continue
            if name not in SHARED:
                return str(copy / at)
            return _written(copy, (folder / f".ethogram-{secrets.token_hex(8)}{Path(name).suffix}").as_posix(), data)
    return _written(copy, f".ethogram-{secrets.token_hex(8)}.ini", b"[pytest]\n")


def _written(copy: Path, name: str, data: bytes) -> str:
    put(copy, name, data)
    return str(copy / name)


def _has_settings(name: str, data: bytes) -> bool:
    """Whether a shared file has a part for pytest."""
    section = {"pyproject.toml": rb"tool\.pytest[\].]", "tox.ini": rb"pytest\]", "setup.cfg": rb"tool:pytest\]"}[name]
    return re.search(rb"(?m)^[ \t]*\[" + section, data) is not None


# ---- which tests may fail as expected ----


def no_failures(names: str) -> bool:
    """No test of a file that is not the suite's is expected to fail."""
    return False


def expected_failures(file: Path) -> Callable[[str], bool]:
    """Which tests of a suite's own file use xfail: by a mark, a parameter's mark or a call."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return no_failures
    declared: set[str] = set()

    def look(body: Sequence[ast.stmt], inside: str, all_of_it: bool) -> None:
        marks = [n for n in body if isinstance(n, ast.Assign | ast.AnnAssign) and "pytestmark" in ast.unparse(n)]
        all_of_it = all_of_it or any(_speaks_of_xfail(n) for n in marks)
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if all_of_it or _speaks_of_xfail(node):
                    declared.add(inside + node.name)
            elif isinstance(node, ast.ClassDef):
                marked = any(_speaks_of_xfail(d) for d in node.decorator_list)
                look(node.body, f"{inside}{node.name}::", all_of_it or marked)

    look(tree.body, "", False)
    return lambda names: names.partition("[")[0] in declared


def _speaks_of_xfail(node: ast.AST) -> bool:
    words = (n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in ast.walk(node))
    return any(word in ("xfail", "expectedFailure") for word in words)
