"""Runs pytest for a `tests` check and writes signed results. A program: it runs in the verifying process, not in ours.

The code under test shares this process, so nothing here is proof against an attack from inside. It stops what is
easy: a report that the code writes itself (it lacks the key), results that it changes in the runner (a test that must
fail is run last, hooks and functions of the runner are compared with what they were), objects that equal everything.

Standard input holds one JSON object: `key`, `report` (where the results go), `probe` (a folder for the test that must
fail), `own` (files of the suite below the working folder). The arguments are pytest's.
"""

from __future__ import annotations

import builtins
import hashlib
import hmac
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CHANGED = "the code under test changed the test runner"
WATCHED_HOOKS = (
    "pytest_pyfunc_call",
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_runtest_call",
    "pytest_runtest_teardown",
    "pytest_runtest_makereport",
    "pytest_runtest_logreport",
    "pytest_report_teststatus",
)
CHECKING = ("unittest", "pytest", "_pytest", "pluggy", "operator", "math", "numpy.testing", "pandas.testing")
"""Modules that tests check with, and everything below them: none of their functions comes from the code under test."""


class Results:
    """A plugin that collects what became of each test, and whether the runner is still itself."""

    def __init__(self, folder: Path, own: frozenset[str], probe: Path) -> None:
        """`folder` holds the code under test; `probe` becomes the file of a test that must fail."""
        self.tests: dict[str, dict[str, Any]] = {}
        self.problem: str | None = None
        self._folder = str(folder) + os.sep
        self._own = frozenset(str(folder / name) for name in own)
        self._probe = probe
        self._probe_id: str | None = None
        self._probe_failed = False
        self._collected: dict[str, Any] = {}
        self._functions = [(owner, name, vars(owner)[name], _code(vars(owner)[name])) for owner, name in _runner()]
        self._builtins = dict(vars(builtins))

    def pytest_configure(self, config: Any) -> None:
        """Write the test that must fail, under a name that this configuration collects."""
        prefix = str(config.getini("python_functions")[0]).rstrip("*")
        self._probe.write_text(f"def {prefix}_must_fail():\n    assert 1 == 2\n", encoding="utf-8")

    def pytest_collection_finish(self, session: Any) -> None:
        """Remember the code of every test, and which of them must fail."""
        self._probe_id = next((item.nodeid for item in session.items if item.path == self._probe), None)
        self._collected = {item.nodeid: _code(getattr(item, "function", None)) for item in session.items}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the worst of what was reported on a test."""
        if report.nodeid == self._probe_id:
            self._probe_failed |= report.when == "call" and report.outcome == "failed"
            return
        test = self.tests.setdefault(report.nodeid, {"outcome": "", "message": ""})
        outcome = "xfailed" if report.outcome == "skipped" and hasattr(report, "wasxfail") else report.outcome
        if (report.when == "call" or outcome != "passed") and test["outcome"] in ("", "passed"):
            test["outcome"] = outcome
            test["message"] = "" if outcome == "passed" else _message(report)

    def pytest_runtest_teardown(self, item: Any) -> None:
        """After each test: whether its code and the runner's are what they were."""
        if _code(getattr(item, "function", None)) is not self._collected.get(item.nodeid):
            self.problem = CHANGED
        if any(
            vars(owner).get(name) is not was or _code(was) is not code for owner, name, was, code in self._functions
        ):
            self.problem = CHANGED
        if any(vars(builtins).get(name) is not was for name, was in self._builtins.items() if name != "_"):
            self.problem = CHANGED
        if any(self._is_foreign(_code(function)) for function in _checking_functions()):
            self.problem = CHANGED
        for hook in WATCHED_HOOKS:
            for implementation in getattr(item.config.hook, hook).get_hookimpls():
                if self._is_foreign(_code(implementation.function)):
                    self.problem = CHANGED

    def settled(self) -> dict[str, Any]:
        """What to report, when pytest has ended."""
        ran = sum(bool(test["outcome"]) for test in self.tests.values())
        wanted = max(0, len(self._collected) - 1)  # without the test that must fail
        if self.problem is None and not self._probe_failed and ran:
            self.problem = CHANGED
        if self.problem is None and ran < wanted and all(t["outcome"] == "passed" for t in self.tests.values()):
            self.problem = f"{ran} of {wanted} collected tests were run"
        return {"tests": self.tests, "problem": self.problem}

    def _is_foreign(self, code: Any) -> bool:
        """Whether code comes from the folder under test and not from the suite."""
        file = getattr(code, "co_filename", "")
        return isinstance(file, str) and file.startswith(self._folder) and file not in self._own


def _checking_functions() -> Iterator[Any]:
    """Functions and methods of the modules that tests check with, as they are now."""
    for name, module in list(sys.modules.items()):
        if any(name == known or name.startswith(f"{known}.") for known in CHECKING):
            for value in list(vars(module).values()):
                yield value
                if isinstance(value, type) and value.__module__ == name:
                    yield from list(vars(value).values())


def _runner() -> list[tuple[Any, str]]:
    """Functions of the runner that decide what a result is."""
    import _pytest.python
    import _pytest.reports
    import _pytest.runner
    import _pytest.skipping
    import _pytest.unittest

    wanted: list[tuple[Any, tuple[str, ...]]] = [
        (_pytest.runner, ("runtestprotocol", "call_and_report", "pytest_runtest_call", "pytest_runtest_makereport")),
        (_pytest.runner.CallInfo, ("from_call", "__init__")),
        (_pytest.reports.TestReport, ("from_item_and_call", "__init__")),
        (_pytest.reports.BaseReport, ("passed", "failed", "skipped")),
        (_pytest.python, ("pytest_pyfunc_call",)),
        (_pytest.python.Function, ("runtest", "setup")),
        (_pytest.unittest.TestCaseFunction, ("runtest", "setup")),
        (_pytest.skipping, ("pytest_runtest_makereport",)),
        (Results, ("pytest_runtest_logreport", "pytest_runtest_teardown", "settled")),
    ]
    return [(owner, name) for owner, names in wanted for name in names if name in vars(owner)]


def _code(function: Any) -> Any:
    """The code of a function, a method or a property; the thing itself where it has none."""
    function = getattr(function, "fget", None) or getattr(function, "__func__", function)
    return getattr(function, "__code__", function)


def _message(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message)
    if isinstance(report.longrepr, tuple):  # a skip: file, line, reason
        return str(report.longrepr[2])
    return str(report.longrepr or "")[-2000:]


def main(arguments: list[str]) -> int:
    """Run pytest and write `signature, newline, JSON`."""
    order = json.load(sys.stdin)
    os.ftruncate(0, 0)  # it is a file that processes above us hold open too
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    write: Callable[[bytes], object] = Path(order["report"]).write_bytes
    sign = hmac.new(bytes.fromhex(order["key"]), digestmod=hashlib.sha256)
    folder, own = Path.cwd(), frozenset(order["own"])
    probe = Path(order["probe"]) / f"test_probe_{os.urandom(8).hex()}.py"
    del order
    import pytest

    from ethogram.harness.pytest_compare import guard_comparisons  # absolute: this file is run as a program

    results = Results(folder, own, probe)
    guard_comparisons(folder, own)
    sys.path.insert(0, str(folder))
    code = pytest.main([*arguments, str(probe)], plugins=[results])
    data = json.dumps(results.settled()).encode()
    sign.update(data)
    write(sign.hexdigest().encode() + b"\n" + data)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
