"""Tests as verifiers: FAIL_TO_PASS must pass and PASS_TO_PASS must not break, in a clean copy of the workspace.

The agent's tests are not asked: the files of the named tests come from the suite again, and settings that could
bend the runner (`conftest.py`, `pytest.ini`, …) are the suite's own or gone. That stops shortcuts; against code
that attacks the runner from inside its process, isolate it and read what it did.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec

from ethogram.judge import Verdict
from ethogram.judge.endstate import NamedTests
from ethogram.plan import FileRef, Task

from .checkout import committed_file, committed_names
from .faults import VerifierFault
from .processes import Finished, clean_environment, run_process
from .workspace import clean_copy, original, put, remove

GUARDED = frozenset({"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", "sitecustomize.py", "usercustomize.py"})
_RUNNER = "import os, sys, pytest; sys.path.insert(0, os.getcwd()); sys.exit(pytest.main(sys.argv[1:]))"
_PYTEST = ["{python}", "-P", "-c", _RUNNER, "-q", "-p", "no:cacheprovider"]
_PYTEST_PROBE = ["{python}", "-P", "-c", "import pytest"]
_REPORTED = ["--rootdir={workspace}", "--junitxml={report}", "{files}"]


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
        return self.wrap(argv, folder, start)


Result = tuple[bool, str]
"""Whether a test passed, and what it said."""


def run_named_tests(workspace: Path, rule: NamedTests, bench: Bench) -> Verdict:
    """1 if and only if every named test passes."""
    with tempfile.TemporaryDirectory(prefix="ethogram-verify-", ignore_cleanup_errors=True) as temp:
        folder = Path(temp).resolve()
        copy = folder / "work"
        clean_copy(workspace, copy)
        restore(copy, rule, bench)
        command = rule.command if rule.command is not None else _PYTEST
        one_by_one = "{test}" in (command if isinstance(command, str) else " ".join(command))
        run = _one_by_one if one_by_one else _all_at_once
        results = run(command, rule, bench, folder, copy)
    return _verdict(rule, results)


def _verdict(rule: NamedTests, results: Mapping[str, Result]) -> Verdict:
    def passed(tests: Sequence[str]) -> int:
        return sum(results[t][0] for t in tests)

    parts = [("FAIL_TO_PASS", rule.fail_to_pass), ("PASS_TO_PASS", rule.pass_to_pass)]
    lines = [", ".join(f"{name} {passed(tests)}/{len(tests)}" for name, tests in parts if tests)]
    for test in sorted(rule.tests, key=lambda t: results[t][0]):
        good, said = results[test]
        lines.append(f"{'passed' if good else 'failed'} {test}{f': {said}' if said else ''}")
    return Verdict(float(all(good for good, _ in results.values())), "\n".join(lines))


# ---- running ----


def _one_by_one(
    command: str | list[str], rule: NamedTests, bench: Bench, folder: Path, copy: Path
) -> dict[str, Result]:
    results: dict[str, Result] = {}
    left = rule.timeout
    for test in rule.tests:
        done = _run({"test": [test]}, command, rule, bench, folder, copy, max(0.1, left))
        left -= done.seconds
        results[test] = (done.code == 0, "" if done.code == 0 else _ended(done, rule))
    return results


def _all_at_once(
    command: str | list[str], rule: NamedTests, bench: Bench, folder: Path, copy: Path
) -> dict[str, Result]:
    """One run, its results read from a JUnit file: what tests print cannot pass for a result there."""
    words = command if isinstance(command, str) else " ".join(command)
    if "{report}" not in words:
        command = f"{command} {' '.join(_REPORTED)}" if isinstance(command, str) else [*command, *_REPORTED]
    report = folder / "report.xml"
    present = [f for f in rule.files_of_tests() if (copy / f).is_file()]
    if not present:
        return dict.fromkeys(rule.tests, (False, "there is no such file"))
    values = {"files": present, "tests": rule.tests, "report": [str(report)], "workspace": [str(copy)]}
    done = _run(values, command, rule, bench, folder, copy, rule.timeout)
    found = read_report(report)
    if not found:
        _probe(rule, bench, folder, done)
    absent = "not among the tests that ran" if found else _ended(done, rule)
    return {test: found.get(dotted(test), (False, absent)) for test in rule.tests}


def _run(
    values: dict[str, list[str]],
    command: str | list[str],
    rule: NamedTests,
    bench: Bench,
    folder: Path,
    copy: Path,
    timeout: float,
) -> Finished:
    words = filled(command, {**values, "suite": [str(bench.root)]})
    env = {k: v for k, v in clean_environment(rule.env).items() if not k.startswith("PYTEST_") or k in rule.env}
    try:
        done = run_process(bench.isolated(words, folder, copy), folder=copy, timeout=timeout, env=env)
    except (FileNotFoundError, PermissionError) as error:
        raise VerifierFault(f"the tests cannot be run: {error}") from error
    if done.code is None and rule.on_timeout == "fault":
        raise VerifierFault(f"the tests did not end within {rule.timeout:g} s")
    if done.code == 127 and isinstance(words, str):
        raise VerifierFault(f"the shell found no such test runner: {done.last_words}")
    return done


def _probe(rule: NamedTests, bench: Bench, folder: Path, done: Finished) -> None:
    """No results at all: was it the code under test, or does the runner not work here? Ask it away from the code."""
    command = rule.probe if rule.probe is not None else _probe_of(rule.command)
    if command is None and done.code in (126, 127):
        raise VerifierFault(f"the test runner does not work here: {done.last_words}")
    if command is None:
        return
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    words = filled(command, {"suite": [str(bench.root)]})
    try:
        tried = run_process(words, folder=empty, timeout=60, env=clean_environment(rule.env))
    except (FileNotFoundError, PermissionError) as error:
        raise VerifierFault(f"the test runner does not work here: {error}") from error
    if tried.code != 0:
        raise VerifierFault(f"the test runner does not work here: {tried.last_words}")


def _probe_of(command: str | list[str] | None) -> str | list[str] | None:
    """Whether pytest works can be asked without being told how; of other runners we know nothing."""
    if command is None:
        return _PYTEST_PROBE
    words = shlex.split(command) if isinstance(command, str) else command
    at = next((i for i, word in enumerate(words) if word.rpartition("/")[2] in ("pytest", "py.test")), None)
    return None if at is None else [*words[: at + 1], "--version"]


def _ended(done: Finished, rule: NamedTests) -> str:
    if done.code is None:
        return f"the tests did not end within {rule.timeout:g} s"
    return f"exit code {done.code}: {done.last_words}"


def read_report(report: Path) -> dict[str, Result]:
    """Results of a JUnit file by dotted name; nothing if there is no readable file. An expected failure passed."""
    try:
        tree = ElementTree.parse(report)  # noqa: S314 - expat bounds the growth of entities
    except (OSError, ElementTree.ParseError):
        return {}
    found: dict[str, Result] = {}
    for case in tree.iter("testcase"):
        name = ".".join(n for n in (case.get("classname"), case.get("name")) if n)
        wrong = next((c for c in case if c.tag in ("failure", "error", "skipped")), None)
        good = wrong is None or (wrong.tag == "skipped" and wrong.get("type") == "pytest.xfail")
        said = "" if good or wrong is None else " ".join((wrong.get("message") or wrong.tag).split())[:200]
        if name not in found or found[name][0]:
            found[name] = (good, said)
    return found


def dotted(test: str) -> str:
    """The name in a JUnit file of a pytest node id: `tests/test_a.py::TestB::test_c` is `tests.test_a.TestB.test_c`."""
    base, bracket, parameters = test.removeprefix("./").partition("[")
    file, *names = base.split("::")
    return ".".join([file.removesuffix(".py").replace("/", "."), *names]) + bracket + parameters


# ---- what the suite says the tests are ----


def restore(copy: Path, rule: NamedTests, bench: Bench) -> None:
    """Put the suite's own test files in place of whatever the agent made of them."""
    hidden = rule.test_files if isinstance(rule.test_files, dict) else {}
    for name, path in hidden.items():
        put(copy, name, original(bench.root, FileRef(path, rule.sources.get(path, "")), bench.task.id))
    for name in dict.fromkeys((*rule.test_files, *rule.files_of_tests())):
        if name not in hidden and (data := _own(name, bench)) is not None:
            put(copy, name, data)
    _guard(copy, bench, set(hidden))


def _own(name: str, bench: Bench) -> bytes | None:
    """A file as the agent was given it; None if it was not."""
    task = bench.task
    if name in task.files:
        return original(bench.root, task.files[name], task.id)
    return committed_file(task.repository, bench.root, name) if task.repository is not None else None


def _guard(copy: Path, bench: Bench, hidden: set[str]) -> None:
    """What bends the runner is as it was given, or gone."""
    task = bench.task
    given = set(task.files) | set(committed_names(task.repository, bench.root) if task.repository else ())
    for name in sorted(n for n in given if n.rpartition("/")[2] in GUARDED and n not in hidden):
        data = _own(name, bench)
        if data is not None:
            put(copy, name, data)
    for place, folders, files in os.walk(copy):
        for name in (*files, *folders):
            path = Path(place) / name
            if name in GUARDED and path.relative_to(copy).as_posix() not in given | hidden:
                path.unlink() if path.is_symlink() or not path.is_dir() else remove(path)


# ---- filling in ----


def filled(command: str | list[str], values: Mapping[str, list[str]]) -> str | list[str]:
    """A command with its placeholders filled in; in a shell line what is filled in is quoted."""
    known = {"python": [sys.executable], **values}

    def joined(match: re.Match[str]) -> str:
        return shlex.join(known[match[1]]) if match[1] in known else match[0]

    if isinstance(command, str):
        return re.sub(r"\{(\w+)\}", joined, command)
    words: list[str] = []
    for word in command:
        whole = re.fullmatch(r"\{(\w+)\}", word)
        if whole and whole[1] in known:
            words.extend(known[whole[1]])
        else:
            words.append(re.sub(r"\{(\w+)\}", lambda m: " ".join(known.get(m[1], [m[0]])), word))
    return words
