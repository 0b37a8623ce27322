"""`import ethogram` is cheap, loads nothing heavy, and promises exactly the names it shows."""

from __future__ import annotations

import os
import pkgutil
import re
import subprocess
import sys
from importlib import import_module

import pytest

import ethogram

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


def test_names_are_few_and_resolve() -> None:
    assert len(set(ethogram.__all__)) == len(ethogram.__all__)
    assert len(set(ethogram.__all__) - {"__version__"}) <= 30
    for name in ethogram.__all__:
        assert getattr(ethogram, name) is not None


def test_no_name_hides_a_package() -> None:
    packages = {m.name for m in pkgutil.iter_modules(ethogram.__path__)}
    assert "lab" in packages
    assert not packages & set(ethogram.__all__)


def test_what_is_shown_is_what_is_promised() -> None:
    assert dir(ethogram) == sorted(ethogram.__all__)
    assert set(ethogram._NAMES) | {"__version__"} == set(ethogram.__all__)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'imprt'"):
        _ = ethogram.imprt


def test_a_name_that_moved_says_where_to() -> None:
    with pytest.raises(AttributeError, match=r"from ethogram\.store import open_home"):
        _ = ethogram.open_home
    assert not set(ethogram._ELSEWHERE) & set(ethogram.__all__)


def test_what_is_told_to_be_elsewhere_is_there() -> None:
    """Every import in these sentences works, and every name of the front door in them exists."""
    sentences = " ".join(ethogram._ELSEWHERE.values())
    imports = re.findall(r"`from ([\w.]+) import (\w+)`", sentences)
    assert len(imports) > 4
    for module, name in imports:
        assert getattr(import_module(module), name) is not None, (module, name)
    for name in re.findall(r"ethogram\.(\w+)(?![\w.]* import)", sentences):
        assert name in ethogram.__all__ or import_module(f"ethogram.{name}"), name


def test_the_version_is_the_installed_one() -> None:
    from importlib.metadata import version

    assert version("ethogram") == ethogram.__version__


def test_the_package_says_that_it_is_typed() -> None:
    from importlib.resources import files

    assert (files("ethogram") / "py.typed").is_file()
