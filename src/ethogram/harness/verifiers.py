"""Judging an episode: every check of a task, of every layer, each a label of its own, and one outcome.

Layers L0 and L1 are pure and live in `judge`. Layer L3 looks at what the agent left: files, rows, services, tests.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import msgspec

from ethogram.checks import CHECKS, CheckResult, CheckScore, Evidence, combine, definition, label_names, settings_of
from ethogram.checks.checks import short
from ethogram.checks.endstate import Command, FilesCheck, HttpState, NamedTests, SqlRow, is_here
from ethogram.checks.matching import in_order, matching
from ethogram.checks.structured import parsed
from ethogram.checks.text import text_verdict
from ethogram.checks.values import ABSENT, Loose, at_path, difference, same
from ethogram.errors import EthogramError
from ethogram.loading import raised_words
from ethogram.plans import Check, Task
from ethogram.traces import Label, Outcome, cut_whole

from .faults import Fault, VerifierFault, is_machine_failure
from .processes import clean_environment, run_process
from .scratch import scratch_folder
from .testfiles import Bench
from .verifying_tests import filled, run_named_tests

MAX_BYTES = 32 << 20
_GONE = CheckScore(None, "this check looks at the workspace, and there is none")


class Loaded(Protocol):
    """What judging needs to know of a loaded suite."""

    @property
    def root(self) -> Path:
        """The suite's folder."""
        ...


class JudgingFault(VerifierFault):
    """A check that decides crashed; `labels` are those of the checks that did not."""

    labels: Sequence[Label] = ()


class NamedCheck(NamedTuple):
    """A check of a task, the name of its label, and a short hash of what it demands."""

    check: Check
    name: str
    definition: str


def named_checks(task: Task) -> list[NamedCheck]:
    """The checks of a task as `judge_task` needs them: the same for all its attempts."""
    names = label_names((c.kind, c.name) for c in task.checks)
    return [
        NamedCheck(c, name, definition(c.kind, c.settings, task.expected))
        for c, name in zip(task.checks, names, strict=True)
    ]


def judge_task(
    task: Task,
    loaded: Loaded,
    evidence: Evidence,
    *,
    wrap: Callable[..., list[str]] | None = None,
    checks: Sequence[NamedCheck] | None = None,
) -> tuple[list[Label], Outcome]:
    """Labels of all checks and the outcome; raises `VerifierFault` where a check that decides crashed.

    The labels belong to no trace yet, and their `why` is still words. `wrap` isolates what has to be run; `checks` are
    those of `named_checks`, where the caller has them already.
    """
    about = msgspec.structs.replace(evidence, root=loaded.root)
    results: list[CheckResult] = []
    fault: Fault | None = None
    for check, name, defined in named_checks(task) if checks is None else checks:
        try:
            verdict = _verdict(check, task, about, wrap)
        except Fault as crashed:
            verdict = CheckScore(None, str(crashed))
            if name == task.outcome or (task.outcome is None and check.required):
                fault = fault or crashed
        results.append(
            CheckResult(
                name=name,
                kind=check.kind,
                definition=defined,
                required=check.required,
                verdict=verdict,
            )
        )
    labels = [r.label() for r in results]
    if fault is not None:
        raised = JudgingFault(str(fault))
        raised.labels = labels
        raise raised from fault
    return labels, combine(results, task.outcome)


def _verdict(check: Check, task: Task, evidence: Evidence, wrap: Callable[..., list[str]] | None) -> CheckScore:
    """One verdict. A crash of the check says nothing about the agent; a failure of this machine travels up."""
    settings = settings_of(check.kind, check.settings)
    try:
        if check.kind in CHECKS:
            verdict = CHECKS[check.kind](evidence, check.settings)
        elif evidence.workspace is None and check.kind != "http_state":
            return _GONE
        else:
            assert evidence.root is not None
            verdict = VERIFIERS[check.kind](evidence, settings, Bench(task, evidence.root, wrap))
    except (Fault, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        if is_machine_failure(error):
            raise
        said = str(error) if isinstance(error, EthogramError) else raised_words(error)
        raise VerifierFault(
            cut_whole(f"the check {check.name or check.kind!r} of task {task.id!r} crashed: {said}", 500)
        ) from error
    return verdict


# ---- files ----


def check_files(evidence: Evidence, rule: FilesCheck, bench: Bench) -> CheckScore:
    """Which files there are, which not, and what is in them. A link that leads out of the workspace is no file."""
    assert evidence.workspace is not None
    folder = evidence.workspace
    files, folders = _tree(folder)
    everything = files | folders
    for pattern in rule.exists:
        if not _found(pattern, everything):
            return CheckScore(0.0, f"there is no {pattern!r}")
    for pattern in rule.absent:
        if there := _found(pattern, everything):
            return CheckScore(0.0, f"there is a {there!r}")
    if rule.only is not None:
        lost = next((p for p in rule.only if not _found(p, files)), None)
        if lost is not None:
            return CheckScore(0.0, f"there is no {lost!r}")
        more = next((f for f in sorted(files) if not any(_fits(p, f) for p in rule.only)), None)
        if more is not None:
            return CheckScore(0.0, f"{more!r} should not be there")
    for name, demand in rule.content.items():
        if name not in files:
            return CheckScore(0.0, f"there is no file {name!r}")
        if (folder / name).stat().st_size > MAX_BYTES:
            return CheckScore(0.0, f"{name}: larger than {MAX_BYTES >> 20} MiB")
        verdict = text_verdict((folder / name).read_bytes().decode("utf-8", "replace"), demand, evidence)
        if verdict.score is None or verdict.score < 1:
            return CheckScore(verdict.score, f"{name}: {verdict.why}")
    return CheckScore(1.0, "the files are as they should be")


def _tree(folder: Path) -> tuple[set[str], set[str]]:
    """Names of files and of folders; git's own and caches of compiled code do not count."""
    files: set[str] = set()
    folders: set[str] = set()
    inside = folder.resolve()
    stack = [folder]
    while stack:
        try:
            found = list(stack.pop().iterdir())
        except PermissionError:
            continue  # what the agent locked away is not there
        for path in found:
            if path.name in (".git", "__pycache__", ".pytest_cache"):
                continue
            if path.is_symlink() and not (path.exists() and path.resolve().is_relative_to(inside)):
                continue
            name = path.relative_to(folder).as_posix()
            if path.is_dir():
                folders.add(name)
                if not path.is_symlink():
                    stack.append(path)
            elif path.is_file():
                files.add(name)
    return files, folders


def _found(pattern: str, names: set[str]) -> str | None:
    if (plain := pattern.rstrip("/")) in names:
        return plain
    return next((n for n in sorted(names) if _fits(pattern, n)), None)


def _fits(pattern: str, name: str) -> bool:
    """Globs: `*` and `?` stay inside a folder, `**` goes through folders."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    rules = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.fullmatch("".join(rules.get(p, re.escape(p)) for p in parts), name, re.DOTALL) is not None


# ---- rows of a database ----


def check_sql_row(evidence: Evidence, rule: SqlRow, bench: Bench) -> CheckScore:
    """What a query finds in a SQLite file, asked of a copy that cannot be written."""
    assert evidence.workspace is not None
    database = evidence.workspace / rule.database
    inside = evidence.workspace.resolve()
    if not database.is_file() or not database.resolve().is_relative_to(inside):
        return CheckScore(0.0, f"there is no database {rule.database!r}")
    with scratch_folder("verify") as folder:
        copy = folder / "copy.db"
        for ending in ("", "-wal", "-shm", "-journal"):
            part = database.with_name(database.name + ending)
            if part.is_file():
                shutil.copyfile(part, copy.with_name(copy.name + ending))
        try:
            rows, columns = _ask(copy, rule)
        except sqlite3.Error as error:
            if re.search(r"no such (table|column|view)|not a database|malformed|disk image", str(error)):
                return CheckScore(0.0, f"{rule.database}: {error}")
            raise
    return _judge_rows(rows, columns, rule)


def _ask(database: Path, rule: SqlRow) -> tuple[list[Any], list[str]]:
    connection = sqlite3.connect(f"file:{quote(str(database))}?mode=rw", uri=True)
    try:
        deadline = time.monotonic() + rule.timeout
        connection.set_progress_handler(lambda: int(time.monotonic() > deadline), 10_000)
        connection.execute("PRAGMA query_only = ON")
        cursor = connection.execute(rule.query, rule.parameters)
        rows = cursor.fetchmany(100_000)
        return rows, [c[0] for c in cursor.description or ()]
    finally:
        connection.close()


def _judge_rows(rows: list[Any], columns: list[str], rule: SqlRow) -> CheckScore:
    loose = Loose(tolerance=rule.tolerance)

    def fits(expected: Any, row: Any) -> bool:
        return same(expected, _shaped(row, columns, expected), loose)

    if rule.count is not None and len(rows) != rule.count:
        return CheckScore(0.0, f"{len(rows)} rows where {rule.count} were expected")
    if rule.rows is not None:
        wanted = rule.rows
        if len(rows) != len(wanted):
            return CheckScore(0.0, f"{len(rows)} rows where {len(wanted)} were expected")
        pair = in_order if rule.ordered else matching
        pairs = pair(len(wanted), len(rows), lambda i, j: fits(wanted[i], rows[j]))
        lost = next((w for i, w in enumerate(wanted) if i not in pairs), None)
        if lost is not None:
            return CheckScore(
                0.0, f"{short(lost)} is not {'in its place ' if rule.ordered else ''}among {len(rows)} rows"
            )
    if rule.row is not msgspec.UNSET and not any(fits(rule.row, r) for r in rows):
        return CheckScore(0.0, f"none of {len(rows)} rows is {short(rule.row)}")
    if rule.count is None and rule.rows is None and rule.row is msgspec.UNSET and not rows:
        return CheckScore(0.0, "the query found no row")
    return CheckScore(1.0, f"the query found what it should ({len(rows)} rows)")


def _shaped(row: Any, columns: list[str], like: Any) -> Any:
    """A row in the shape in which one is expected: by column, as a list, or its only value."""
    if isinstance(like, dict):
        return {k: v for k, v in zip(columns, row, strict=True) if k in like}
    return list(row) if isinstance(like, list) or len(row) != 1 else row[0]


# ---- services ----


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirection is an answer, not an order."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Go nowhere."""
        return None


def check_http_state(evidence: Evidence, rule: HttpState, bench: Bench) -> CheckScore:
    """What a service answers now; by default only one on this machine is asked."""
    url = re.sub(r"\{(\w+)\}", lambda m: quote(str(evidence.inputs.get(m[1], m[0])), safe=":"), rule.url)
    if not rule.allow_remote and not is_here(url):
        raise VerifierFault(f"{url!r} is not on this machine; set 'allow_remote: true' to ask it anyway")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
    request = urllib.request.Request(url, headers=rule.headers)  # noqa: S310 - http was checked with the settings
    try:
        with opener.open(request, timeout=rule.timeout) as response:
            status, body = response.status, response.read(MAX_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            status, body = error.code, error.read(MAX_BYTES)
    except (OSError, HTTPException) as error:
        why = f"{url} did not answer: {getattr(error, 'reason', None) or error}"
        if rule.unreachable == "fail":
            return CheckScore(0.0, why)
        raise VerifierFault(why) from error
    return _judge_response(status, body.decode("utf-8", "replace"), rule, evidence)


def _judge_response(status: int, body: str, rule: HttpState, evidence: Evidence) -> CheckScore:
    if rule.status is not None and status != rule.status:
        return CheckScore(0.0, f"status {status} where {rule.status} was expected")
    value = parsed(body, fenced=False) if rule.has else None
    for path, expected in rule.has.items():
        there = at_path(value, path)
        found = f"{path}: is missing" if there is ABSENT else difference(expected, there, Loose(), path)
        if found is not None:
            return CheckScore(0.0, found)
    if rule.body is not None:
        verdict = text_verdict(body, rule.body, evidence)
        if verdict.score is None or verdict.score < 1:
            return verdict
    return CheckScore(1.0, f"status {status}, and it says what it should")


# ---- commands ----


def check_command(evidence: Evidence, rule: Command, bench: Bench) -> CheckScore:
    """How a command ends in the workspace, and what it prints."""
    assert evidence.workspace is not None
    if not evidence.workspace.is_dir():
        return CheckScore(0.0, "the workspace is gone")
    words = filled(rule.run, {"suite": [str(bench.root)]})
    isolated = bench.isolated(words, evidence.workspace, evidence.workspace)
    try:
        done = run_process(isolated, folder=evidence.workspace, timeout=rule.timeout, env=clean_environment(rule.env))
    except (FileNotFoundError, PermissionError) as error:
        raise VerifierFault(f"the command cannot be run: {error}") from error
    if done.code is None:
        if rule.on_timeout == "fault":
            raise VerifierFault(f"the command did not end within {rule.timeout:g} s")
        return CheckScore(0.0, f"the command did not end within {rule.timeout:g} s")
    if done.code == 127 and rule.exit != 127 and isinstance(words, str):
        raise VerifierFault(f"the shell found no such command: {done.last_words}")
    if rule.exit is not None and done.code != rule.exit:
        return CheckScore(0.0, f"exit code {done.code} where {rule.exit} was expected: {done.last_words}")
    if rule.stdout is not None:
        verdict = text_verdict(done.stdout, rule.stdout, evidence)
        if verdict.score is None or verdict.score < 1:
            return CheckScore(verdict.score, f"stdout: {verdict.why}")
    return CheckScore(1.0, f"exit code {done.code}")


def check_tests(evidence: Evidence, rule: NamedTests, bench: Bench) -> CheckScore:
    """Named tests in a clean copy of the workspace, with the suite's own test files."""
    assert evidence.workspace is not None
    if not evidence.workspace.is_dir():
        return CheckScore(0.0, "the workspace is gone")
    return run_named_tests(evidence.workspace, rule, bench)


VERIFIERS: dict[str, Callable[[Evidence, Any, Bench], CheckScore]] = {
    "files": check_files,
    "sql_row": check_sql_row,
    "http_state": check_http_state,
    "command": check_command,
    "tests": check_tests,
}
"""Layer L3 by kind; the settings of each are in `ethogram.checks.endstate`."""
