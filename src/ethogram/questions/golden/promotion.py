"""From a trace of production to a golden task: the request, the results of tools, and a check that fails this trace."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ethogram.errors import BadUsage, EthogramError
from ethogram.plans import Check, Task
from ethogram.plans.golden import GoldenSet
from ethogram.questions.incident.closing import PROMOTED
from ethogram.questions.incident.incident import guard_problem
from ethogram.questions.scoring.question import score_trace
from ethogram.reading.stored_checks import final_words, typed_check
from ethogram.reading.suite_versions import own_suite
from ethogram.reading.task_names import task_name
from ethogram.reading.traces import find_trace
from ethogram.result import Result
from ethogram.store import Entry, Home, Run, home_of
from ethogram.suites.files import FILES
from ethogram.suites.frozen import unchanged_golden
from ethogram.suites.golden import replace_text
from ethogram.suites.load import LoadedSuite, load_suite
from ethogram.traces import Outcome, Scored, Trace, cut_whole, is_marked
from ethogram.wire.fixture import Fixture, fixture_of

from .suite_edits import write_task
from .versions import GoldenResult, add_tasks, shown_path

FIXTURES = "fixtures"
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")


class PromoteResult(Result, kw_only=True):
    """A task made of a trace. `failure_score` is what its checks say of the recorded failure, `reference_score` of the
    passing trace; `lost` are observations that could not be taken over."""

    task: str
    trace: str
    reference: str | None
    prompt: str
    checks: list[dict[str, Any]]
    expected: Any
    failure_score: float
    said: str
    reference_score: float | None
    fixture: str | None
    observations: int
    lost: list[str]
    golden: GoldenResult
    notes: list[str] = []


class WantedCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The user's settings for the new task; None is taken from the trace."""

    id: str | None = None
    reference: str | None = None
    expected: str | None = None
    checks: tuple[str, ...] = ()
    prompt: str | None = None


class _Source(NamedTuple):
    """A stored trace and where it lies."""

    run: Run
    entry: Entry
    trace: Trace
    task: Task | None
    """The task of the trace's own suite, where that is known and has not changed."""
    root: Path | None
    """The folder of that suite."""


class _Judged(NamedTuple):
    """Checks that tell the failure from the reference, and what they said."""

    checks: tuple[Check, ...]
    expected: Any
    outcome: str | None
    failure: float
    said: str
    reference: float | None


def promote(
    trace: str,
    suite: str,
    wanted: WantedCheck,
    *,
    run: str | None = None,
    why: str | None = None,
    by: str | None = None,
    home: Home | str | None = None,
) -> PromoteResult:
    """Make a task of a failing trace and add it to a golden set as a minor version.

    What is right comes from `wanted`: a passing trace of the same task (`reference`), an `expected` answer, or `checks`
    as `ethogram score --check` takes them. The tools of the task answer with what they gave in these traces.

    Gives the task, and what its checks say of the recorded failure, which they must fail. Raises `BadUsage` where
    nothing says what is right, or where the checks do not tell the failure from the reference.

    Example: `promote("4f1c22", "suite", WantedCheck(reference="a07be1")).task`
    """
    lake = home_of(home)
    loaded, golden = unchanged_golden(suite)
    if wanted.reference is None and wanted.expected is None and not wanted.checks:
        raise BadUsage(
            "a failing trace does not show what is right: give a passing trace with --reference TRACE, the answer with "
            "--expected, or a check with --check KIND=SETTINGS"
        )
    failing = _source(trace, run, lake)
    reference = None if wanted.reference is None else _reference(wanted.reference, lake)
    judged = _judged(wanted, failing, reference, loaded, lake)
    name = wanted.id or _name(failing)
    fixture, lost = fixture_of(s.trace for s in (failing, reference) if s is not None)
    raw = _raw(name, failing, reference, judged, wanted.prompt, fixture)
    workspace = _workspace(name, failing, loaded.root)
    written = _written(loaded, golden, raw | workspace.fields, fixture, workspace.copies)
    said = why or cut_whole(f"promoted from trace {_short(failing)} of run {failing.run.name}: {judged.said}", 300)
    try:
        added = add_tasks(suite, [], why=said, by=by)
    except EthogramError:
        _take_back(written)
        raise
    added.files += map(shown_path, written)
    return PromoteResult(
        task=name,
        trace=failing.entry.head.trace_id,
        reference=reference.entry.head.trace_id if reference is not None else None,
        prompt=raw["prompt"],
        checks=raw["checks"],
        expected=judged.expected,
        failure_score=judged.failure,
        said=judged.said,
        reference_score=judged.reference,
        fixture=raw.get("fixture"),
        observations=len(fixture.calls),
        lost=[*lost, *workspace.lost],
        golden=added,
        notes=[_narrow(failing)] if reference is None and fixture.calls else [],
    )


def _narrow(failing: _Source) -> str:
    """What a fixture of the failure alone cannot do, and the passing attempt that could be taken over, if there is."""
    task, limit = task_name(failing.entry.head), failing.run.success_at
    passed = (
        e.head.trace_id.removeprefix("b2:")[:12]
        for e in failing.run.entries
        if task_name(e.head) == task and isinstance(e.head.outcome, Scored) and e.head.outcome.success(limit)
    )
    return (
        "tools answer only what the failing trace asked: an agent that asks for more gets no score (deviation); "
        f"--reference {next(passed, 'TRACE')} takes over the answers of a passing attempt too"
    )


def _source(trace: str, run: str | None, home: Home) -> _Source:
    found, entry = find_trace(trace, run=run, home=home)
    if entry.forgotten:
        raise BadUsage(f"the trace {trace!r} is no longer kept ({entry.forgotten}), so no task can be made of it")
    return _Source(found, entry, found.trace(entry), *_own_task(found, entry))


def _reference(trace: str, home: Home) -> _Source:
    source = _source(trace, None, home)
    outcome = source.entry.head.outcome
    if not (isinstance(outcome, Scored) and outcome.success(source.run.success_at)):
        told = f"score {outcome.value:g}" if isinstance(outcome, Scored) else "no score"
        raise BadUsage(f"the reference {trace!r} did not pass ({told}): name a trace that did, or give --expected")
    return source


def _own_task(run: Run, entry: Entry) -> tuple[Task | None, Path | None]:
    suite = own_suite(run)
    if suite is None:
        return None, None
    with suppress(Exception):  # whatever the suite's own code raises: the trace can be read without it
        loaded = load_suite(suite)
        digests = loaded.suite.task_digests()
        if digests.get(entry.head.task) == run.info.plan.get("task_digests", {}).get(entry.head.task):
            return loaded.suite.task(entry.head.task), loaded.root
    return None, None


# ---- what is right ----


def _judged(
    wanted: WantedCheck, failing: _Source, reference: _Source | None, loaded: LoadedSuite, home: Home
) -> _Judged:
    """The first candidate that fails the failure and passes the reference."""
    problems: list[str] = []
    for task in _candidates(wanted, failing, reference):
        failure, said = score_trace(task, loaded, failing.run, failing.entry, home)
        right: Outcome | None = None
        if reference is not None:
            right = score_trace(task, loaded, reference.run, reference.entry, home)[0]
        problem = guard_problem(failure, right, loaded.suite.success_at, _kinds(task))
        if problem is None and reference is not None and not isinstance(right, Scored):
            problem = f"{_kinds(task)} cannot be asked of the reference"
        if problem is None:
            assert isinstance(failure, Scored)
            passed = right.value if isinstance(right, Scored) else None
            return _Judged(task.checks, task.expected, task.outcome, failure.value, said, passed)
        problems.append(problem.replace("task '", "the check '"))
    raise BadUsage(f"{'; '.join(problems)}; say what is right with --check KIND=SETTINGS")


def _candidates(wanted: WantedCheck, failing: _Source, reference: _Source | None) -> Sequence[Task]:
    given = None if wanted.expected is None else _value(wanted.expected)
    if wanted.checks:
        return [Task(id="promoted", expected=given, checks=tuple(map(typed_check, wanted.checks)))]
    if wanted.expected is not None:
        return [Task(id="promoted", expected=given, checks=(Check(kind=_kind_for(given)),))]
    assert reference is not None
    answer = final_words(reference.trace)
    found = []
    if failing.task is not None and failing.task.checks:
        found.append(failing.task)
    if answer is not None and answer.strip() and not is_marked(answer):
        numbers = {float(n.replace(",", "")) for n in _NUMBER.findall(answer)}
        if len(numbers) == 1:
            number = numbers.pop()
            expected = int(number) if number.is_integer() else number
            found.append(Task(id="promoted", expected=expected, checks=(Check(kind="numeric"),)))
        found.append(Task(id="promoted", expected=answer.strip(), checks=(Check(kind="equals"),)))
    if not found:
        raise BadUsage("the reference has no answer that was kept; say what is right with --expected or --check")
    return found


def _kind_for(expected: Any) -> str:
    return "numeric" if isinstance(expected, int | float) and not isinstance(expected, bool) else "contains"


def _value(text: str) -> Any:
    """What was typed as an expected answer: a number where it is one, else the words themselves."""
    with suppress(msgspec.DecodeError):
        value = msgspec.json.decode(text)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    return text


def _kinds(task: Task) -> str:
    return ", ".join(c.kind for c in task.checks)


# ---- the task ----


def _raw(
    name: str, failing: _Source, reference: _Source | None, judged: _Judged, prompt: str | None, fixture: Fixture
) -> dict[str, Any]:
    """The task as it is written into its file."""
    meta = {PROMOTED: failing.entry.head.trace_id, "promoted_run": failing.run.name}
    if reference is not None:
        meta["reference"] = reference.entry.head.trace_id
    raw: dict[str, Any] = {"id": name, "prompt": prompt if prompt is not None else _asked(failing)}
    if failing.task is not None and failing.task.inputs:
        raw["inputs"] = failing.task.inputs
    if fixture.calls:
        raw["fixture"] = f"{FIXTURES}/{name}.json"
    if judged.expected is not None:
        raw["expected"] = judged.expected
    raw["checks"] = [
        {"kind": c.kind, **({"name": c.name} if c.name else {}), **({} if c.required else {"required": False})}
        | {k: v for k, v in c.settings.items() if k != "sources"}
        for c in judged.checks
    ]
    if judged.outcome is not None:
        raw["outcome"] = judged.outcome
    return {**raw, "meta": meta}


class _Workspace(NamedTuple):
    """What the workspace of a task holds: fields of the task, files to copy into the suite, and what is lost."""

    fields: dict[str, Any]
    copies: dict[Path, Path]
    lost: list[str]


def _workspace(name: str, failing: _Source, root: Path) -> _Workspace:
    """The workspace of the failing trace's own task; files of another suite are copied."""
    found = _Workspace({}, {}, [])
    task, own = failing.task, failing.root
    if task is None or own is None:
        return found
    is_same = own.resolve() == root.resolve()
    if task.files and is_same:
        found.fields["files"] = {place: ref.path for place, ref in task.files.items()}
    elif task.files:
        found.fields["files"] = {place: f"{name}/{place}" for place in task.files}
        found.copies.update({root / FILES / name / place: own / ref.path for place, ref in task.files.items()})
    if task.repository is not None and is_same:
        found.fields["repository"] = msgspec.to_builtins(task.repository)
    elif task.repository is not None:
        found.lost.append(f"the repository {task.repository.path} of another suite: add it to this one")
    return found


def _asked(source: _Source) -> str:
    """What the agent was asked: the prompt of its task, else the first words of the user."""
    if source.task is not None and source.task.prompt:
        return source.task.prompt
    words = next((m.text for m in source.trace.messages if m.role == "user" and m.text.strip()), None)
    if words is None:
        raise BadUsage("the trace does not record what the agent was asked; give it with --question")
    if is_marked(words):
        raise BadUsage("what the agent was asked was redacted when it was stored; give it with --question")
    return words


def _name(source: _Source) -> str:
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", task_name(source.entry.head)).strip("-._")[:40]
    return f"{slug or 'promoted'}-{_short(source)[:8]}"


def _short(source: _Source) -> str:
    return str(source.entry.head.trace_id).removeprefix("b2:")[:12]


def _written(
    loaded: LoadedSuite, golden: GoldenSet, raw: dict[str, Any], fixture: Fixture, copies: Mapping[Path, Path]
) -> list[Path]:
    """Write the fixture and the files, then the task that names them; nothing is left where it cannot be written."""
    place = loaded.root / raw["fixture"] if "fixture" in raw else None
    there = next((p for p in (place, *copies) if p is not None and p.exists()), None)
    if there is not None:
        raise BadUsage(f"{shown_path(there)} is there already; choose another id with --id")
    if place is not None:
        text = msgspec.json.format(msgspec.json.encode(fixture), indent=2).decode()
        replace_text(place, text + "\n")
    try:
        for copy, source in copies.items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
        task = write_task(loaded, raw, golden.canary)
    except (EthogramError, OSError):
        _take_back((place, *copies))
        raise
    return [path for path in (task, place, *copies) if path is not None]


def _take_back(paths: Iterable[Path | None]) -> None:
    """Remove what was written for a task that could not be added."""
    for path in paths:
        if path is not None:
            path.unlink(missing_ok=True)
