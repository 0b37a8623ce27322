"""From a suite's source to checked tasks: validated, hashed, pinned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import msgspec

from ethogram.checks import KINDS, label_names, settings_of
from ethogram.checks.endstate import NamedTests
from ethogram.checks.settings import JsonSchema, long_form, nearest
from ethogram.checks.structured import schema_of, validator
from ethogram.errors import BadInput, MissingExtra
from ethogram.plans import Check, FileRef, Repository, Task
from ethogram.prices import Caps

from .files import SuiteFolder, unknown_field

TASK_FIELDS = list(Task.__struct_fields__)
_MERGED = ("inputs", "caps", "meta", "files")
"""Fields whose defaults are added to; of all others a task's own value takes the place of the default."""


def build_task(raw: Any, defaults: Mapping[str, Any], folder: SuiteFolder, where: str, name: str | None = None) -> Task:
    """A task as written in YAML or JSON; `name` is its id where it has none of its own."""
    if not isinstance(raw, dict):
        raise BadInput.at(where, f"a task is a mapping with an id, a prompt and checks, not {type(raw).__name__}")
    given = with_defaults(defaults, raw)
    given["id"] = _task_id(given.get("id", name), where)
    where = f"{where}, task {given['id']!r}"
    for field in given:
        if field not in TASK_FIELDS:
            raise unknown_field(field, TASK_FIELDS, "a task", where)
    given = {k: v for k, v in given.items() if v is not None or k == "expected"}
    if "files" in given:
        given["files"] = folder.files(given["files"], where)
    if "repository" in given:
        given["repository"] = folder.repository(given["repository"], where)
    if "fixture" in given:
        given["fixture"] = folder.fixture(given["fixture"], where)
    if isinstance(given.get("tools"), str):
        given["tools"] = [given["tools"]]
    checks = given.get("checks", [])
    if not isinstance(checks, list):
        checks = [checks]
    given["checks"] = [msgspec.to_builtins(build_check(c, where)) for c in checks]
    try:
        task = msgspec.convert({**given, "files": {}, "repository": None, "fixture": None}, Task)
    except msgspec.ValidationError as error:
        raise BadInput.at(where, f"{error}") from None
    return msgspec.structs.replace(
        task, files=given.get("files", {}), repository=given.get("repository"), fixture=given.get("fixture")
    )


def with_defaults(defaults: Mapping[str, Any], raw: Mapping[str, Any]) -> dict[str, Any]:
    """A task with what the suite says of all tasks."""
    given = {**defaults, **raw}
    for field in _MERGED:
        if isinstance(defaults.get(field), dict) and isinstance(raw.get(field), dict):
            given[field] = {**defaults[field], **raw[field]}
    return given


def _task_id(value: Any, where: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise BadInput.at(where, "the task has no id")
    if not value.isprintable():
        raise BadInput.at(where, f"the id {value!r} has characters that cannot be printed")
    return value.strip()


def build_check(raw: Any, where: str) -> Check:
    """A check as written: `contains: Paris`, `{kind: numeric, tolerance: 1}`, or a bare kind."""
    if isinstance(raw, str):
        raw = {"kind": raw}
    if not isinstance(raw, dict):
        raise BadInput.at(where, f"a check is written as 'kind: value' or with its settings, not as {raw!r}")
    rest = {k: v for k, v in raw.items() if k not in ("kind", "name", "required", "settings")}
    settings = raw.get("settings") or {}
    if not isinstance(settings, dict):
        raise BadInput.at(where, f"the settings of a check are a mapping, not {settings!r}")
    kind = raw.get("kind")
    if kind is None:
        kind = _kind_of(rest, where)
        settings = {**settings, **long_form(kind, rest.pop(kind))}
    name, required = raw.get("name", ""), raw.get("required", True)
    if not isinstance(kind, str) or not isinstance(name, str) or not isinstance(required, bool):
        raise BadInput.at(where, "the kind and the name of a check are texts, 'required' is true or false")
    return Check(kind=kind, name=name, required=required, settings={**settings, **rest})


def _kind_of(rest: Mapping[str, Any], where: str) -> str:
    """The kind of a check in its short form: the one key that is a kind and whose settings the others are."""
    for kind in rest:
        if kind in KINDS and all(k in KINDS[kind].__struct_fields__ for k in rest if k != kind):
            return kind
    named = next((k for k in rest if k in KINDS), None)
    if named is not None:
        other = next(k for k in rest if k != named and k not in KINDS[named].__struct_fields__)
        known = [f for f in KINDS[named].__struct_fields__ if f != "sources"]
        raise BadInput.at(where, f"the check {named!r} has no setting {other!r}; {nearest(other, known)}")
    first = next(iter(rest), None)
    if first is None:
        raise BadInput.at(where, f"a check has no kind; there are {', '.join(KINDS)}")
    raise BadInput.at(where, f"there is no kind of check named {first!r}; {nearest(first, list(KINDS))}")


def finish_task(task: Task, folder: SuiteFolder, where: str) -> Task:
    """Check a task as a whole, and pin the files that it leans on to their hashes."""
    for name, value in task.caps.items():
        if name not in Caps.__struct_fields__:
            raise BadInput.at(where, f"{name!r} cannot be capped; {nearest(name, list(Caps.__struct_fields__))}")
        if not math.isfinite(value) or value <= 0:
            raise BadInput.at(where, f"the cap on {name} must be more than 0, not {value}")
    names = label_names((c.kind, c.name) for c in task.checks)
    if task.outcome is not None and task.outcome not in names:
        known = ", ".join(names) or "none"
        raise BadInput.at(where, f"the outcome is to come from {task.outcome!r}; the checks are {known}")
    files = {name: _settled(ref, folder, where) for name, ref in task.files.items()}
    fixture = None if task.fixture is None else _settled(task.fixture, folder, where)
    task = msgspec.structs.replace(task, files=files, fixture=fixture)
    checks = tuple(_finish_check(c, task, folder, where) for c in task.checks)
    return msgspec.structs.replace(task, checks=checks)


def _settled(ref: FileRef, folder: SuiteFolder, where: str) -> FileRef:
    """A file with its hash; one that was given must be right."""
    path = folder.inside(ref.path, where)
    if not path.is_file():
        raise BadInput.at(where, f"there is no file {ref.path!r} in the suite")
    found = folder.ref(folder.root / ref.path, where)
    if ref.digest and ref.digest != found.digest:
        raise BadInput.at(where, f"the file {ref.path!r} does not have the hash that the task names")
    return found


def _finish_check(check: Check, task: Task, folder: SuiteFolder, where: str) -> Check:
    called = f"{where}, check {check.name or check.kind!r}"
    try:
        settings = settings_of(check.kind, check.settings)
    except BadInput as error:
        raise BadInput.at(where, error.cli_message) from None
    problem = settings.problem(task.expected)
    if problem is not None:
        raise BadInput(f"{called} {problem}", where=called)
    sources = {name: folder.pinned(name, called) for name in settings.files()}
    if isinstance(settings, JsonSchema):
        try:
            validator(schema_of(settings, folder.root))
        except BadInput as error:
            raise BadInput.at(called, error.cli_message) from None
    if isinstance(settings, NamedTests):
        if settings.command is None and find_spec("pytest") is None:
            raise MissingExtra.needed("tests", "a check of kind 'tests' without a 'command'")
        _find_tests(settings, task, task.repository, called)
    return msgspec.structs.replace(check, settings={**check.settings, "sources": sources}) if sources else check


def _find_tests(rule: NamedTests, task: Task, repository: Repository | None, called: str) -> None:
    """Named tests must stand in files that the suite has: an agent must not bring its own."""
    if repository is not None:
        return
    given = {*task.files, *(rule.test_files if isinstance(rule.test_files, dict) else ())}
    lost = next((n for n in (*rule.test_files, *rule.files_of_tests()) if n not in given), None)
    if lost is not None:
        raise BadInput(
            f"{called} names the test file {lost!r}, which is neither a file of the task nor in 'test_files'",
            where=called,
        )
