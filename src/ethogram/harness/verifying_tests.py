"""Tests as verifiers: FAIL_TO_PASS must pass and PASS_TO_PASS must not break, in a clean copy of the workspace.

The agent's tests are not asked: the files of the named tests come from the suite again, and settings that could
bend the runner (`conftest.py`, `pytest.ini`, pytest's part of `pyproject.toml`, …) are the suite's own or gone. An
expected failure counts only where the suite's own test file speaks of xfail. Without a `command` the tests run under
`pytest_runner`, which signs its results. That stops shortcuts; against code that attacks the runner from inside its
process, isolate it and read what it did.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import msgspec

from ethogram.checks import CheckScore
from ethogram.checks.endstate import NamedTests
from ethogram.traces import cut_whole

from .faults import VerifierFault
from .processes import Finished, clean_environment, run_process
from .scratch import scratch_folder
from .testfiles import Bench, expected_failures, is_own, no_failures, own_names, restore, settings_file
from .workspace import clean_copy

_RUNNER = str(Path(__file__).with_name("pytest_runner.py"))
_WITHOUT = ["-p", "no:langsmith_plugin"]
"""It comes with langchain, takes a second to load, and reports to a service: a check has no side effects."""
_PYTEST = ["{python}", "-P", _RUNNER, "-q", "-p", "no:cacheprovider", *_WITHOUT, "--confcutdir={workspace}"]
_PYTEST_PROBE = ["{python}", "-P", "-c", "import pytest"]
_REPORTED = ["--rootdir={workspace}", "--junitxml={report}", "{files}"]


class CaseResult(NamedTuple):
    """What became of a test, and what it said; an expected failure passed only where the suite expects it."""

    outcome: str
    message: str = ""

    def passed(self, may_xfail: bool) -> bool:
        """Whether it counts as passed."""
        return self.outcome == "passed" or (self.outcome == "xfailed" and may_xfail)


class Judged(NamedTuple):
    """Whether a named test passed, and what it said."""

    good: bool
    message: str


def run_named_tests(workspace: Path, rule: NamedTests, bench: Bench) -> CheckScore:
    """1 if and only if every named test passes."""
    with scratch_folder("verify") as folder:
        copy = folder / "work"
        clean_copy(workspace, copy)
        restore(copy, rule, bench)
        place = _Place(folder, copy, settings_file(copy, rule, bench))
        if rule.command is None:
            results = _signed(rule, bench, place)
        elif "{test}" in (rule.command if isinstance(rule.command, str) else " ".join(rule.command)):
            results = _one_by_one(rule.command, rule, bench, place)
        else:
            results = _all_at_once(rule.command, rule, bench, place)
        declared = {
            f: expected_failures(copy / f) if is_own(f, rule, bench) else no_failures for f in rule.files_of_tests()
        }
    return _verdict(rule, {test: _judged(test, results[test], declared) for test in rule.tests})


class _Place(NamedTuple):
    """Where tests are run: a folder of our own, the copy inside it, and the settings of pytest."""

    folder: Path
    copy: Path
    settings: str


def _judged(test: str, result: CaseResult, declared: Mapping[str, Callable[[str], bool]]) -> Judged:
    file, _, names = test.partition("::")
    if result.passed(declared[file](names)):
        return Judged(True, "")
    if result.outcome == "xfailed":
        return Judged(False, "it called xfail, which the suite's test does not")
    return Judged(False, cut_whole(" ".join(result.message.split()), 200))


def _verdict(rule: NamedTests, results: Mapping[str, Judged]) -> CheckScore:
    def passed(tests: Sequence[str]) -> int:
        return sum(results[t].good for t in tests)

    parts = [("FAIL_TO_PASS", rule.fail_to_pass), ("PASS_TO_PASS", rule.pass_to_pass)]
    lines = [", ".join(f"{name} {passed(tests)}/{len(tests)}" for name, tests in parts if tests)]
    for test in sorted(rule.tests, key=lambda t: results[t].good):
        good, message = results[test]
        lines.append(f"{'passed' if good else 'failed'} {test}{f': {message}' if message else ''}")
    return CheckScore(float(all(r.good for r in results.values())), "\n".join(lines))


# ---- running ----


def _signed(rule: NamedTests, bench: Bench, place: _Place) -> dict[str, CaseResult]:
    """Our own runner: what it reports is believed only with the signature of a key that it alone was told."""
    report, key = place.folder / f"report-{secrets.token_hex(8)}", secrets.token_bytes(32)
    probe = place.folder / f"probe-{secrets.token_hex(8)}"
    probe.mkdir()
    present = _present(rule, place)
    if not present:
        return dict.fromkeys(rule.tests, CaseResult("absent", "there is no such file"))
    own = sorted(n for n in own_names(rule, bench) if n.endswith(".py"))
    order = {"key": key.hex(), "report": str(report), "probe": str(probe), "own": own}
    values = {"files": present, "workspace": [str(place.copy)]}
    command = [*_PYTEST, "-c", place.settings, "--rootdir={workspace}", "{files}"]
    done = _run(values, command, rule, bench, place, rule.timeout, msgspec.json.encode(order))
    found, problem = read_signed(report, key)
    if problem is not None:
        return dict.fromkeys(rule.tests, CaseResult("failed", problem))
    if not found:
        _probe(rule, bench, place.folder, done)
    absent = CaseResult("absent", "not among the tests that ran" if found else _ended(done, rule))
    return {test: found.get(dotted(test), absent) for test in rule.tests}


def read_signed(report: Path, key: bytes) -> tuple[dict[str, CaseResult], str | None]:
    """Results of our own runner by dotted name, and what makes all of them worthless; nothing without a signature."""
    try:
        signature, _, data = report.read_bytes().partition(b"\n")
    except OSError:
        return {}, None
    if not hmac.compare_digest(signature, hmac.new(key, data, hashlib.sha256).hexdigest().encode()):
        return {}, "the results were not written by the test runner"
    told = msgspec.json.decode(data, type=dict[str, Any])
    return {dotted(t): CaseResult(r["outcome"], r["message"]) for t, r in told["tests"].items()}, told["problem"]


def _one_by_one(command: str | list[str], rule: NamedTests, bench: Bench, place: _Place) -> dict[str, CaseResult]:
    results: dict[str, CaseResult] = {}
    left = rule.timeout
    for test in rule.tests:
        done = _run({"test": [test]}, command, rule, bench, place, max(0.1, left))
        left -= done.seconds
        results[test] = CaseResult("passed") if done.code == 0 else CaseResult("failed", _ended(done, rule))
    return results


def _all_at_once(command: str | list[str], rule: NamedTests, bench: Bench, place: _Place) -> dict[str, CaseResult]:
    """One run, its results read from a JUnit file: what tests print cannot pass for a result there."""
    words = command if isinstance(command, str) else " ".join(command)
    if "{report}" not in words:
        command = f"{command} {' '.join(_REPORTED)}" if isinstance(command, str) else [*command, *_REPORTED]
    report = place.folder / f"report-{secrets.token_hex(8)}.xml"
    present = _present(rule, place)
    if not present:
        return dict.fromkeys(rule.tests, CaseResult("absent", "there is no such file"))
    values = {"files": present, "tests": rule.tests, "report": [str(report)], "workspace": [str(place.copy)]}
    done = _run(values, command, rule, bench, place, rule.timeout)
    found = read_report(report)
    if not found:
        _probe(rule, bench, place.folder, done)
    absent = CaseResult("absent", "not among the tests that ran" if found else _ended(done, rule))
    if done.code != 0 and found and all(r.outcome in ("passed", "xfailed") for r in found.values()):
        return dict.fromkeys(rule.tests, CaseResult("failed", f"every test passed, and yet: {_ended(done, rule)}"))
    return {test: found.get(dotted(test), absent) for test in rule.tests}


def _present(rule: NamedTests, place: _Place) -> list[str]:
    return [f for f in rule.files_of_tests() if (place.copy / f).is_file()]


def _run(
    values: dict[str, list[str]],
    command: str | list[str],
    rule: NamedTests,
    bench: Bench,
    place: _Place,
    timeout: float,
    stdin: bytes = b"",
) -> Finished:
    words = filled(command, {**values, "suite": [str(bench.root)]})
    try:
        done = run_process(
            bench.isolated(words, place.folder, place.copy),
            folder=place.copy,
            timeout=timeout,
            env=_environment(rule, place),
            stdin=stdin,
        )
    except (FileNotFoundError, PermissionError) as error:
        raise VerifierFault(f"the tests cannot be run: {error}") from error
    if done.code is None and rule.on_timeout == "fault":
        raise VerifierFault(f"the tests did not end within {rule.timeout:g} s")
    if done.code == 127 and isinstance(words, str):
        raise VerifierFault(f"the shell found no such test runner: {done.last_words}")
    return done


def _environment(rule: NamedTests, place: _Place) -> dict[str, str]:
    """What tests see of our environment: nothing that bends Python or pytest, and the settings of pytest for a
    `command` that runs it."""
    kept = {k: v for k, v in clean_environment().items() if not k.startswith("PYTEST_")}
    if rule.command is not None:
        kept["PYTEST_ADDOPTS"] = shlex.join(["-c", place.settings, *_WITHOUT])
    return {**kept, **rule.env}


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


def read_report(report: Path) -> dict[str, CaseResult]:
    """Results of a JUnit file by dotted name; nothing if there is no readable file."""
    try:
        tree = ElementTree.parse(report)  # noqa: S314 - expat bounds the growth of entities
    except (OSError, ElementTree.ParseError):
        return {}
    found: dict[str, CaseResult] = {}
    for case in tree.iter("testcase"):
        name = ".".join(n for n in (case.get("classname"), case.get("name")) if n)
        wrong = next((c for c in case if c.tag in ("failure", "error", "skipped")), None)
        if wrong is None:
            result = CaseResult("passed")
        else:
            expected = wrong.tag == "skipped" and wrong.get("type") == "pytest.xfail"
            result = CaseResult("xfailed" if expected else wrong.tag, wrong.get("message") or wrong.tag)
        if name not in found or found[name].outcome == "passed":
            found[name] = result
    return found


def dotted(test: str) -> str:
    """The name in a JUnit file of a pytest node id: `tests/test_a.py::TestB::test_c` is `tests.test_a.TestB.test_c`."""
    base, bracket, parameters = test.removeprefix("./").partition("[")
    file, *names = base.split("::")
    return ".".join([file.removesuffix(".py").replace("/", "."), *names]) + bracket + parameters


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
