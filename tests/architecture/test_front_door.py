"""`import ethogram` is cheap, loads nothing heavy, and promises exactly the names it shows."""

from __future__ import annotations

import ast
import inspect
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ethogram
from ethogram import extend
from ethogram.cli.main import VERBS

HEAVY = ("numpy", "scipy", "pyarrow", "duckdb", "pandas", "msgspec", "typer", "rich", "click", "ijson", "opentelemetry")
CPU_MS = 150
"""The promise. On an idle machine the import costs a few milliseconds over a bare interpreter, so this leaves more
than ten times as much as is needed; processor time of the best of three runs does not grow when others are at work."""


def loaded(code: str) -> set[str]:
    """The modules that are loaded after some code ran in a fresh interpreter."""
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split())


def cpu_ms(*command: str) -> float:
    """Processor time of one child process, user and system."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return 1000 * (usage.ru_utime + usage.ru_stime)


def test_nothing_heavy_is_loaded() -> None:
    after = loaded("import ethogram")
    assert not after & set(HEAVY)
    ours = {m for m in after if m.partition(".")[0] == "ethogram"}
    assert ours == {"ethogram", "ethogram.lazy"}


def test_asking_for_an_error_stays_light() -> None:
    assert not loaded("from ethogram import EthogramError") & set(HEAVY)


def test_reading_needs_no_terminal_library() -> None:
    after = loaded("from ethogram import load, import_logs, sql, Trace, Suite")
    assert not after & {"typer", "rich", "pandas", "duckdb", "pyarrow"}


def test_the_import_is_cheap() -> None:
    best = min(cpu_ms(sys.executable, "-c", "import ethogram") for _ in range(3))
    assert best < CPU_MS, f"import ethogram costs {best:.0f} ms of processor time"


NOT_ABOUT_RUNS = {
    "import": "a keyword of Python: it is `import_logs`",
    "perturb": "it is `Experiment`, which is planned, run and read",
    "operators": "a list of what `perturb` can do",
    **dict.fromkeys(
        ("init", "doctor", "keys", "token", "redact", "completion", "demo"), "about this machine and its files"
    ),
    **dict.fromkeys(("gateway", "mcp", "serve", "view"), "a server, which runs until it is stopped"),
    **dict.fromkeys(("kill", "drill"), "the switch that stops what runs"),
}
"""Verbs that `import ethogram` has not under their name, and why."""


def test_names_resolve() -> None:
    assert len(set(ethogram.__all__)) == len(ethogram.__all__)
    for name in ethogram.__all__:
        assert getattr(ethogram, name) is not None


def test_a_verb_is_a_function() -> None:
    """What `ethogram VERB` answers about stored runs, `eth.VERB(…)` answers."""
    verbs = {verb.name for verb in VERBS}
    assert verbs - set(ethogram.__all__) == NOT_ABOUT_RUNS.keys()
    functions = {n for n in ethogram.__all__ if inspect.isfunction(getattr(ethogram, n))}
    assert functions - verbs == {"import_logs", "load", "from_langgraph", "span", "tool"}


def test_no_package_is_named_like_a_verb_or_a_name() -> None:
    """A package is a noun, a verb is a function: Python would give the package where both have one name."""
    packages = {m.name for m in pkgutil.iter_modules(ethogram.__path__)}
    assert {"questions", "traces", "plans", "harness"} <= packages
    assert not packages & ({verb.name for verb in VERBS} | set(ethogram.__all__))


def test_what_is_shown_is_what_is_promised() -> None:
    assert dir(ethogram) == sorted(ethogram.__all__)
    assert set(ethogram._NAMES) | {"__version__"} == set(ethogram.__all__)


@pytest.mark.parametrize("module", [ethogram, extend], ids=["ethogram", "extend"])
def test_editors_complete_every_name(module: Any) -> None:
    """What stands under TYPE_CHECKING is the table of names, each from the same module."""
    source = Path(module.__file__).read_text(encoding="utf-8")
    block = next(n for n in ast.parse(source).body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    typed = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name  # `as` makes it a name of this module for type checkers
    }
    assert typed == module._NAMES
    assert set(typed) <= set(dir(module)) == set(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'imprt'"):
        _ = ethogram.imprt


def test_the_version_is_the_installed_one() -> None:
    from importlib.metadata import version

    assert version("ethogram") == ethogram.__version__


def test_the_package_says_that_it_is_typed() -> None:
    from importlib.resources import files

    assert (files("ethogram") / "py.typed").is_file()
