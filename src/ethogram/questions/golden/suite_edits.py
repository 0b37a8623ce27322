"""Add tasks to the files of a suite and remove them, without touching anything else in the files.

A file is edited as text, so that comments and order stay. Whether the result is what was meant is proved by loading the
suite again; where it is not, the file is put back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ethogram.errors import BadInput, EthogramError
from ethogram.suites.golden import replace_text
from ethogram.suites.load import LoadedSuite, load_suite

CANARY_NOTE = "# do not train on this file: "
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def task_file(loaded: LoadedSuite, task: str) -> Path:
    """Where a new task of a suite in a folder is written; raises `BadInput` for other suites."""
    if not loaded.is_folder:
        raise BadInput(
            f"the suite {loaded.spec!r} is one file: only a suite in a folder takes new tasks; move it to a folder as "
            "tasks.yaml",
            where=loaded.spec,
        )
    name = _UNSAFE.sub("-", task).strip("-.")[:80]
    if not name:
        raise BadInput(f"the id {task!r} makes no file name; choose another one", where=f"task {task!r}")
    return loaded.root / "tasks" / f"{name}.yaml"


def write_task(loaded: LoadedSuite, task: Mapping[str, Any], canary: str | None = None) -> Path:
    """Write a task into a file of its own, and prove that the suite has it then; raises `BadInput` where it cannot."""
    path = task_file(loaded, str(task.get("id", "")))
    if any(t.id == task["id"] for t in loaded.suite.tasks) or path.exists():
        raise BadInput(
            f"the suite {loaded.spec!r} has a task {task['id']!r} already; choose another id", where=str(loaded.spec)
        )
    text = yaml.safe_dump(dict(task), sort_keys=False, allow_unicode=True, width=100)
    replace_text(path, (f"{CANARY_NOTE}{canary}\n" if canary else "") + text)
    try:
        now = load_suite(loaded.spec)
    except EthogramError:
        path.unlink(missing_ok=True)
        raise
    if now.suite.tasks == loaded.suite.tasks:
        path.unlink(missing_ok=True)
        raise BadInput(f"the suite {loaded.spec!r} does not read {path.name}", where=str(path))
    return path


def cut_task(loaded: LoadedSuite, task: str) -> Path | None:
    """Take a task out of the file where it stands; None where it is written in Python, which people edit.

    Raises `BadInput` where it cannot be cut out without touching its neighbours.
    """
    if not loaded.root.is_dir() or Path(loaded.spec).suffix == ".py" or not Path(loaded.spec).exists():
        return None
    wanted = tuple(t for t in loaded.suite.tasks if t.id != task)
    for path in _task_files(loaded):
        before = path.read_text(encoding="utf-8")
        after = _without(path, before, task)
        if after is None:
            continue
        path.unlink() if after == "" else replace_text(path, after)
        try:
            if load_suite(loaded.spec).suite.tasks == wanted:
                return path
        except EthogramError:
            pass
        replace_text(path, before)
        raise BadInput(
            f"task {task!r} cannot be cut out of {path.name} without touching its neighbours; take it out by hand, "
            "then repeat this command",
            where=str(path),
        )
    return None


def add_canary(loaded: LoadedSuite, canary: str) -> list[Path]:
    """Write the canary as a comment at the head of the suite's YAML files; it changes nothing that is asked."""
    marked = []
    for path in _task_files(loaded):
        text = path.read_text(encoding="utf-8")
        if path.suffix in (".yaml", ".yml") and canary not in text and not text.startswith(("%", "\ufeff")):
            replace_text(path, f"{CANARY_NOTE}{canary}\n{text}")
            marked.append(path)
    return marked


def _task_files(loaded: LoadedSuite) -> list[Path]:
    if not loaded.is_folder:
        place = Path(loaded.spec)
        return [place] if place.suffix in (".yaml", ".yml", ".jsonl") else []
    root = loaded.root
    names = ("suite.yaml", "suite.yml", "tasks.yaml", "tasks.yml", "tasks.jsonl")
    own = sorted(p for p in (root / "tasks").glob("*") if p.suffix in (".yaml", ".yml", ".jsonl"))
    return [*(root / n for n in names if (root / n).is_file()), *own]


def _without(path: Path, text: str, task: str) -> str | None:
    """The text of a file without a task, "" where nothing else stands in it, None where the task is not there."""
    if path.suffix == ".jsonl":
        return _without_line(text, task)
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if isinstance(root, yaml.MappingNode) and path.parent.name == "tasks" and _value(root, "tasks") is None:
        own = _value(root, "id")
        named = own.value if isinstance(own, yaml.ScalarNode) else path.stem
        return "" if named.strip() == task else None
    listed = _value(root, "tasks") if isinstance(root, yaml.MappingNode) else root
    if not isinstance(listed, yaml.SequenceNode):
        return None
    for number, item in enumerate(listed.value):
        own = _value(item, "id") if isinstance(item, yaml.MappingNode) else None
        if isinstance(own, yaml.ScalarNode) and own.value.strip() == task:
            if listed.flow_style or len(listed.value) == 1:
                return "" if len(listed.value) == 1 and root is listed else text
            lines = text.splitlines(keepends=True)
            first = item.start_mark.line
            following = (
                listed.value[number + 1].start_mark.line if number + 1 < len(listed.value) else _end(lines, item)
            )
            return "".join(lines[:first] + lines[following:])
    return None


def _end(lines: list[str], item: yaml.Node) -> int:
    """The line after the last one of an item: marks of a block end where the next thing begins."""
    end = item.end_mark.line + (1 if item.end_mark.column else 0)
    while end > item.start_mark.line + 1 and not lines[end - 1].strip():
        end -= 1
    return end


def _value(node: yaml.Node, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if key.value == name), None)


def _without_line(text: str, task: str) -> str | None:
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.strip() and str(msgspec.json.decode(line).get("id", "")).strip() == task:
            rest = lines[:number] + lines[number + 1 :]
            return "".join(rest) if any(x.strip() for x in rest) else ""
    return None
