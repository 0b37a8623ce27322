"""Lint, types and the tests nearest to what changed, in less than two minutes on two cores: what `make quick` runs.

What changed is what differs from the point where the branch left main: committed, staged, not staged, or new. Tests run
in this order, and those that the time does not allow are named at the end (`make test` runs everything):

1. changed tests,
2. tests that import a changed module or are named after it, and those of the table of imports and of signatures,
3. the other tests of the changed packages, and the tests of the architecture,
4. tests of the packages that may import a changed package, by the table in tests/architecture/test_imports.py,
5. pages of the guide that changed, as one of them may take a minute.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SECONDS = 85
"""When no further test is started: the running ones end and the summary is written within two minutes."""
CODE = ("src", "tests", "bench", "scripts")
FIRST = ("tests/architecture/test_imports.py", "tests/architecture/test_signatures.py")
"""Tests that most changes touch, before the others of the changed packages."""


def main() -> int:
    began = time.monotonic()
    since, changed = changes(ROOT)
    if not changed:
        print(f"quick: nothing changed since {since}")
        return 0
    print(f"quick: changed since {since}: {', '.join(shortened(changed))}", flush=True)
    tests = choose(ROOT, changed, import_table())
    for reason, count in reasons(tests):
        print(f"quick: {count}: {reason}", flush=True)
    if any(name.endswith(".py") for name in changed) and not lint():
        return 1
    return run_tests(tests, began + SECONDS) if tests else 0


# -- what changed ------------------------------------------------------------------------------------------------------


def changes(root: Path) -> tuple[str, list[str]]:
    """Since when, and the files that changed since then and still exist, by name."""
    base, since = "HEAD", "the last commit"
    for main_branch in ("main", "origin/main"):
        found = git(root, "merge-base", "HEAD", main_branch)
        if found:
            base, since = found[0], f"{main_branch} ({found[0][:9]})"
            break
    names = {*git(root, "diff", "--name-only", base), *git(root, "ls-files", "--others", "--exclude-standard")}
    return since, sorted(names)


def git(root: Path, *words: str) -> list[str]:
    """The lines that a git command prints; none where it fails."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def shortened(names: list[str], most: int = 6) -> list[str]:
    return names if len(names) <= most else [*names[:most], f"and {len(names) - most} more"]


# -- which tests -------------------------------------------------------------------------------------------------------


def import_table() -> Mapping[str, set[str]]:
    """Which package may import which, and which question (`questions/gate`) may ask which, from the architecture."""
    sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("architecture", "helpers")]
    from test_imports import BETWEEN_QUESTIONS, LEAVES, MAY_IMPORT  # type: ignore[import-not-found]

    asking = {f"questions/{q}": {f"questions/{other}" for other in asked} for q, asked in BETWEEN_QUESTIONS.items()}
    return asking | {package: allowed | LEAVES for package, allowed in MAY_IMPORT.items()}


def choose(root: Path, changed: Iterable[str], table: Mapping[str, set[str]]) -> dict[str, str]:
    """Test files (or one test of a file), nearest first, each with the reason why it runs."""
    chosen: dict[str, str] = {}
    files = sorted(str(p.relative_to(root)) for p in (root / "tests").rglob("test_*.py"))
    modules = [m for m in map(module_of, changed) if m]
    folders = sorted({folder_of(m) for m in modules})
    pages: dict[str, str] = {}
    for name in changed:
        for test in tests_of_file(root, name, files):
            (pages if "::" in test else chosen).setdefault(test, f"{name} changed")
    for name in files:
        module = next((m for m in modules if is_near(root / name, m)), None)
        if module:
            chosen.setdefault(name, f"imports or is named after {module}")
    for name in FIRST if modules else ():
        if name in files:
            chosen.setdefault(name, "tests of architecture")
    for folder in [*folders, "architecture"] if folders else []:
        for name in files:
            if name.startswith(f"tests/{folder}/"):
                chosen.setdefault(name, f"tests of {folder}")
    touched = {*folders, *(folder.split("/")[0] for folder in folders)}
    for package in (p for p, allowed in table.items() if p not in folders and allowed & touched):
        for name in files:
            if name.startswith(f"tests/{package}/"):
                chosen.setdefault(name, f"{package} may import {', '.join(sorted(table[package] & touched))}")
    return {**chosen, **pages}


def folder_of(module: str) -> str:
    """The folder of a module, and of its tests: its package, or the folder of its question (`questions/gate`)."""
    words = module.split(".")
    return "/".join(words[: 2 if words[0] == "questions" else 1])


def tests_of_file(root: Path, name: str, files: list[str]) -> Iterator[str]:
    """The tests that a changed file stands for when it is not a module: tests, their helpers, pages, scripts."""
    path = Path(name)
    if path.parts[0] == "tests" and path.name.startswith("test_"):
        yield from [name] if (root / name).is_file() else []
    elif path.parts[0] == "tests":  # a conftest or a helper: every test beside or below it
        yield from (f for f in files if f.startswith(f"{path.parent}/"))
    elif path.suffix == ".md":
        if name == "README.md" or name.startswith("docs/guide/"):
            yield f"tests/docs/test_docs_run.py::test_a_page_runs[{path.stem}]"
        yield "tests/docs/test_words.py"
    elif path.parts[0] in ("scripts", "examples"):
        yield from (f for f in files if f.startswith("tests/scripts/") or f == f"tests/docs/test_{path.parts[0]}.py")


def module_of(name: str) -> str | None:
    """The dotted name, inside the package, of a source file; a file of data counts as its folder."""
    parts = Path(name).with_suffix("").parts
    if parts[:2] != ("src", "ethogram"):
        return None
    inside = parts[2:] if name.endswith(".py") else parts[2:-1]
    return ".".join(inside[:-1] if inside and inside[-1] == "__init__" else inside) or None


def is_near(test: Path, module: str) -> bool:
    """Whether a test file imports a module (or a name from it), or is named after it in the folder of its package."""
    if test.stem == f"test_{module.split('.')[-1]}" and test.parent.as_posix().endswith(f"tests/{folder_of(module)}"):
        return True
    return any(name == f"ethogram.{module}" for name in imports(test))


def imports(test: Path) -> Iterator[str]:
    """The modules that a file imports, and the names that it imports from them."""
    for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{a.name}" for a in node.names)


def reasons(tests: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each reason with the number of test files that run for it, in order."""
    for reason in dict.fromkeys(tests.values()):
        count = sum(r == reason for r in tests.values())
        yield reason, f"{count} test file{'' if count == 1 else 's'}"


# -- running -----------------------------------------------------------------------------------------------------------


def lint() -> bool:
    """Format, lint and types, until one of them fails; says which."""
    tools = {
        "ruff format": ["ruff", "format", "--check", "--quiet", *CODE],
        "ruff check": ["ruff", "check", "--quiet", *CODE],
        "mypy": ["mypy"],
    }
    for name, words in tools.items():
        if run_tool(words) != 0:
            print(f"quick: {name} failed{'' if name == 'mypy' else '; run: make format'}", flush=True)
            return False
    print(f"quick: {', '.join(tools)} passed", flush=True)
    return True


def run_tool(words: list[str]) -> int:
    return subprocess.run([str(Path(sys.executable).parent / words[0]), *words[1:]], cwd=ROOT, check=False).returncode


class Deadline:
    """Ends a test session when its time is up, and knows what was reached."""

    def __init__(self, until: float) -> None:
        self.until = until
        self.reached: set[str] = set()
        self.failed = False
        self.is_up = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reached.add(report.nodeid.partition("::")[0])
        self.failed |= report.failed
        if report.when == "teardown" and time.monotonic() > self.until and not self.is_up:
            self.is_up = True
            pytest.exit("the time of make quick is up", returncode=int(self.failed))


def run_tests(tests: Mapping[str, str], until: float) -> int:
    """Run tests in the order given, on two cores, until the time is up; says what was not reached."""
    deadline = Deadline(until)
    words = ["-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder", "--rootdir", str(ROOT)]
    code = int(pytest.main([*words, *(str(ROOT / t) for t in tests)], plugins=[deadline]))
    left = [t for t in tests if t.partition("::")[0] not in deadline.reached] if deadline.is_up else []
    if left:
        print(
            f"quick: the time allowed {len(tests) - len(left)} of {len(tests)} test files; make test runs all of them"
        )
        for reason, count in reasons({t: tests[t] for t in left}):
            print(f"quick: not reached: {count} ({reason})")
    return code


if __name__ == "__main__":
    sys.exit(main())
