"""Suites: a folder, a YAML or JSON lines file, or Python. Loading checks everything, so that running surprises nobody.

suite/
  suite.yaml     name, version, success_at, on_crash, on_cap, tools, read_only, defaults for every task (all optional)
  tasks.yaml     tasks; also tasks.jsonl and tasks/*.yaml
  tools.py       functions that tasks name, or `tools(task, episode)` for a world of each episode's own
  files/         what tasks start from
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import msgspec

from ethogram.arguments import path_of
from ethogram.errors import BadInput, EthogramError, NotFound
from ethogram.loading import code_digest, module_at, module_named, named_object
from ethogram.plans import Suite, Task
from ethogram.plans.golden import GoldenSet

from .files import SuiteFolder, read_lines, read_yaml, unknown_field
from .golden import golden_path, read_golden
from .tasks import build_task, finish_task

SUITE_FIELDS = ["name", "version", "success_at", "on_crash", "on_cap", "tools", "read_only", "defaults", "tasks"]
T = TypeVar("T")
TOOLS = "tools.py"
FACTORY = "tools"
TOOLS_DIGEST, USER_DIGEST = "tools_digest", "simulator_digest"
"""Where a task keeps the hash of the code of its tools and of its user, so that a changed tool is a changed suite."""


@dataclass(frozen=True)
class LoadedSuite:
    """A suite, where it lies, the module of its tools, and what was typed to load it.

    `golden` is the version at which the suite was frozen, if it was; it may have changed since.
    """

    suite: Suite
    root: Path
    module: ModuleType | None = None
    spec: str = ""
    golden: GoldenSet | None = None
    golden_file: Path | None = None

    @property
    def is_folder(self) -> bool:
        """Whether the suite is a folder, which takes new tasks as files of their own."""
        return bool(self.spec) and Path(self.spec).is_dir()


def load_suite(spec: str | Path) -> LoadedSuite:
    """A suite by what the user typed: a folder, a file, `pkg.mod` or `pkg.mod:name`."""
    path = path_of("suite", spec)
    if path.is_dir():
        loaded = _from_folder(path)
    elif path.is_file() and path.suffix in (".yaml", ".yml", ".jsonl"):
        loaded = _from_file(path)
    elif path.is_file() and path.suffix != ".py":
        raise BadInput(
            f"{str(spec)!r} is not a suite; suites are folders, .yaml, .jsonl and .py files, and modules",
            where=str(spec),
        )
    else:
        loaded = _from_python(str(spec))
    file = golden_path(path if path.exists() else Path(getattr(loaded.module, "__file__", None) or loaded.root))
    return LoadedSuite(_finished(loaded), loaded.root, loaded.module, str(spec), read_golden(file), file)


class _Draft(NamedTuple):
    """A suite before it is checked as a whole; `places` says where each task was written."""

    suite: Suite
    root: Path
    module: ModuleType | None
    places: list[str]


def _from_folder(root: Path) -> _Draft:
    folder = SuiteFolder(root)
    name = next((n for n in ("suite.yaml", "suite.yml") if (root / n).is_file()), None)
    head = _head(read_yaml(root / name, name), name) if name is not None else {}
    own = head.pop("tasks", [])
    raws = [*_listed(own, name or ""), *_folder_tasks(root)]
    if not raws:
        raise BadInput(
            f"the suite {str(root)!r} has no tasks; write some in tasks.yaml, tasks.jsonl or tasks/*.yaml",
            where=str(root),
        )
    return _built(head, raws, folder, root.resolve().name, name or "suite.yaml")


def _folder_tasks(root: Path) -> Iterator[_Raw]:
    for name in ("tasks.yaml", "tasks.yml"):
        if (root / name).is_file():
            yield from _listed(read_yaml(root / name, name), name)
    if (root / "tasks.jsonl").is_file():
        yield from (_Raw(where, value) for where, value in read_lines(root / "tasks.jsonl", "tasks.jsonl"))
    for path in sorted(p for p in (root / "tasks").glob("*") if p.suffix in (".yaml", ".yml", ".jsonl")):
        name = f"tasks/{path.name}"
        if path.suffix == ".jsonl":
            yield from (_Raw(where, value) for where, value in read_lines(path, name))
            continue
        value = read_yaml(path, name)
        yield from [_Raw(name, value, path.stem)] if isinstance(value, dict) else _listed(value, name)


def _from_file(path: Path) -> _Draft:
    folder = SuiteFolder(path.parent)
    if path.suffix == ".jsonl":
        raws = [_Raw(where, value) for where, value in read_lines(path, path.name)]
        return _built({}, raws, folder, path.stem, path.name)
    value = read_yaml(path, path.name)
    head = {} if isinstance(value, list) else _head(value, path.name)
    raws = list(_listed(value if isinstance(value, list) else head.pop("tasks", []), path.name))
    return _built(head, raws, folder, path.stem, path.name)


class _Raw(msgspec.Struct, frozen=True):
    """A task as it was written, and where."""

    where: str
    value: Any
    name: str | None = None


def _listed(value: Any, where: str) -> Iterator[_Raw]:
    if value is None:
        return
    if isinstance(value, dict) and set(value) == {"tasks"}:
        value = value["tasks"]
    if not isinstance(value, list):
        raise BadInput.at(where, f"tasks are a list, not {type(value).__name__}")
    for number, item in enumerate(value, 1):
        named = isinstance(item, dict) and item.get("id") is not None
        yield _Raw(where if named else f"{where} task {number}", item)


def _head(value: Any, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadInput.at(name, f"a suite is a mapping with a name, a version, …, not {type(value).__name__}")
    for field in value:
        if field not in SUITE_FIELDS:
            raise unknown_field(field, SUITE_FIELDS, "a suite", name)
    if not isinstance(value.get("defaults") or {}, dict):
        raise BadInput.at(name, "'defaults' is a mapping of task fields")
    return dict(value)


def _built(head: dict[str, Any], raws: list[_Raw], folder: SuiteFolder, name: str, where: str) -> _Draft:
    defaults = head.pop("defaults", None) or {}
    if "id" in defaults:
        raise BadInput.at(where, "tasks cannot share a default id")
    wanted = head.pop("tools", None)
    tasks = [build_task(r.value, defaults, folder, r.where, r.name) for r in raws]
    if isinstance(head.get("version"), int | float):
        head["version"] = str(head["version"])
    fields = {k: v for k, v in head.items() if v is not None}
    try:
        suite = msgspec.convert({"name": name, **fields, "tasks": []}, Suite)
    except msgspec.ValidationError as error:
        raise BadInput.at(where, f"{error}") from None
    module = _tools_module(wanted, folder, where)
    suite = msgspec.structs.replace(suite, tasks=tuple(tasks))
    return _Draft(suite, folder.root, module, [r.where for r in raws])


def _tools_module(wanted: Any, folder: SuiteFolder, where: str) -> ModuleType | None:
    """The module of a suite's tools: a file of it or a dotted name; `tools.py` needs no mention."""
    if wanted is None:
        wanted = TOOLS if (folder.root / TOOLS).is_file() else None
    if wanted is None:
        return None
    if not isinstance(wanted, str):
        raise BadInput.at(where, f"'tools' names a Python file or a module, not {wanted!r}")
    return _imported(
        lambda: module_at(folder.inside(wanted, where)) if wanted.endswith(".py") else module_named(wanted), wanted
    )


def _imported(load: Callable[[], T], name: str) -> T:
    """What loading gives; code that does not load is bad input, in one sentence."""
    try:
        return load()
    except EthogramError:
        raise
    except SyntaxError as error:
        raise BadInput(
            f"{name} line {error.lineno} is not valid Python: {error.msg}", where=f"{name} line {error.lineno}"
        ) from None
    except (Exception, SystemExit) as error:
        raise BadInput(f"{name} cannot be imported: {type(error).__name__}: {error}", where=name) from error


def _has_module(name: str) -> bool:
    """Whether there is anything to import under the first part of a dotted name; the working folder counts."""
    first = name.partition(".")[0]
    return Path(f"{first}.py").is_file() or Path(first).is_dir() or importlib.util.find_spec(first) is not None


_MARKS = {
    ".py": re.compile(r"Suite\("),
    ".yaml": re.compile(r"^tasks:", re.MULTILINE),
    ".yml": re.compile(r"^tasks:", re.MULTILINE),
}
"""What a file of each kind has in it if it holds a suite."""


def _suites_here() -> list[str]:
    """Folders and files of the working folder that hold a suite, by their name or their first lines."""
    found = []
    for path in sorted(Path().iterdir()):
        if path.is_dir():
            if any((path / name).is_file() for name in ("suite.yaml", "suite.yml", "tasks.yaml", "tasks.jsonl")):
                found.append(path.name)
        elif (mark := _MARKS.get(path.suffix)) and mark.search(path.read_text(encoding="utf-8", errors="replace")):
            found.append(path.name)
    return found


def _from_python(spec: str) -> _Draft:
    place, colon, name = spec.partition(":") if not spec.endswith(".py") else (spec, "", "")
    if place.endswith(".py") and not Path(place).is_file():
        raise NotFound(f"no suite at {spec!r}", where=spec)
    if not place.endswith(".py") and ("/" in place or not all(p.isidentifier() for p in place.split("."))):
        raise NotFound(f"no suite at {spec!r}: there is no such folder or file", where=spec)
    if not place.endswith(".py") and not _has_module(place):
        raise NotFound.named("folder, file or module with a suite", place, _suites_here())
    module: ModuleType = _imported(
        lambda: module_at(Path(place)) if place.endswith(".py") else module_named(place, spec), place
    )
    file = Path(getattr(module, "__file__", None) or ".")
    found = getattr(module, name or "SUITE", None)
    if found is None and not colon:
        found = getattr(module, "suite", None)
    if found is None:
        raise BadInput(
            f"{place} has no {name or 'SUITE'!r}: give it a Suite, a list of tasks, or 'def suite()'", where=place
        )
    if callable(found) and not isinstance(found, Suite):
        found = _imported(found, f"{place}:{name or 'suite'}")
    if isinstance(found, list | tuple) and all(isinstance(t, Task) for t in found):
        found = Suite(name=file.parent.name if file.stem == "__init__" else file.stem, tasks=tuple(found))
    if not isinstance(found, Suite):
        raise BadInput.at(place, f"{name or 'SUITE'!r} is {type(found).__name__}; give a Suite or a list of tasks")
    return _Draft(found, file.resolve().parent, module, [file.name] * len(found.tasks))


def _finished(draft: _Draft) -> Suite:
    """Check the suite as a whole, and pin its files and its code."""
    suite, folder = draft.suite, SuiteFolder(draft.root)
    loaded = LoadedSuite(suite, draft.root, draft.module)
    if not suite.tasks:
        raise BadInput(f"the suite {suite.name!r} has no tasks", where=f"the suite {suite.name!r}")
    seen: dict[str, str] = {}
    code = _code(loaded.module)
    tasks = []
    for task, place in zip(suite.tasks, draft.places, strict=True):
        where = f"{place}, task {task.id!r}"
        if task.id in seen:
            raise BadInput.at(where, f"{seen[task.id]} has a task with this id already")
        seen[task.id] = place
        finished = finish_task(task, folder, where)
        try:
            resolve_tools(loaded, finished)
            resolve_simulator(loaded, finished)
        except EthogramError as error:
            raise BadInput.at(where, error.cli_message) from None
        if code is not None and (finished.tools or _factory(loaded) is not None):
            finished = msgspec.structs.replace(finished, meta={**finished.meta, TOOLS_DIGEST: code})
        user = Path(draft.root, (finished.simulator or "").rpartition(":")[0])
        if user.suffix == ".py":
            finished = msgspec.structs.replace(finished, meta={**finished.meta, USER_DIGEST: code_digest(user)})
        tasks.append(finished)
    return msgspec.structs.replace(suite, tasks=tuple(tasks))


def _code(module: ModuleType | None) -> str | None:
    file = getattr(module, "__file__", None)
    return code_digest(Path(file)) if file is not None and Path(file).is_file() else None


# ---- tools ----


def has_world(loaded: LoadedSuite) -> bool:
    """Whether the suite makes tools anew for each episode."""
    return _factory(loaded) is not None


def _factory(loaded: LoadedSuite) -> Callable[..., Any] | None:
    found = getattr(loaded.module, FACTORY, None) if loaded.module is not None else None
    return found if callable(found) else None


def resolve_tools(loaded: LoadedSuite, task: Task) -> dict[str, Callable[..., Any]]:
    """The plain functions behind a task's tools; what only `tools(task, episode)` makes is left to `world_tools`."""
    found: dict[str, Callable[..., Any]] = {}
    for name in task.tools:
        if ":" in name:
            function = _imported(partial(named_object, name, loaded.root), name)
        else:
            function = None if name in (FACTORY, "") else getattr(loaded.module, name, None)
            if function is None and _factory(loaded) is not None:
                continue
        if not callable(function):
            raise _no_tool(name, loaded)
        short = name.rpartition(":")[2].rpartition(".")[2]
        if short in found:
            raise BadInput(f"two tools are named {short!r}", where=f"task {task.id!r}")
        found[short] = function
    return found


def live_tools(loaded: LoadedSuite, task: Task) -> list[str]:
    """Tools of a task that may change something outside its episode: not read-only, simulated or recorded.

    What the suite's `tools(task, episode)` makes anew for each episode is simulated, what a fixture answers recorded.
    """
    if task.fixture is not None or has_world(loaded):
        return []
    return [name for name in resolve_tools(loaded, task) if name not in loaded.suite.read_only]


def resolve_simulator(loaded: LoadedSuite, task: Task) -> Callable[..., Any] | None:
    """Who plays the user of a task, where it names somebody: `file.py:name` below the suite, or `pkg.mod:name`."""
    if task.simulator is None:
        return None
    found = _imported(partial(named_object, task.simulator, loaded.root), task.simulator)
    if not callable(found):
        raise BadInput(
            f"the simulator {task.simulator!r} is not a function of task, episode and text", where=task.simulator
        )
    simulator: Callable[..., Any] = found
    return simulator


def _no_tool(name: str, loaded: LoadedSuite) -> EthogramError:
    if loaded.module is None:
        return BadInput(f"there is no tool {name!r}: the suite has no {TOOLS}, and the name is not pkg.mod:name")
    own = vars(loaded.module)
    known = [n for n, v in own.items() if callable(v) and not n.startswith("_") and n != FACTORY]
    return NotFound.named("tool", name, known)


def world_tools(loaded: LoadedSuite, task: Task, handle: Any) -> dict[str, Callable[..., Any]]:
    """The tools of one episode: functions, and what the suite's `tools(task, episode)` makes anew for each."""
    found = resolve_tools(loaded, task)
    factory = _factory(loaded)
    if factory is None:
        return found
    try:
        made = factory(task, handle)
    except (EthogramError, OSError, MemoryError):
        raise  # the world's own faults say whose they are
    except Exception as error:
        raise BadInput(
            f"'tools' of the suite crashed for task {task.id!r}: {type(error).__name__}: {error}",
            where=f"task {task.id!r}",
        ) from error
    if not isinstance(made, dict) or not all(callable(f) for f in made.values()):
        raise BadInput(
            f"'tools' of the suite must give a mapping of functions; task {task.id!r} got {made!r:.200}",
            where=f"task {task.id!r}",
        )
    if not task.tools:
        return made
    short = [n.rpartition(":")[2].rpartition(".")[2] for n in task.tools]
    lost = next((n for n in short if n not in made and n not in found), None)
    if lost is not None:
        raise NotFound.named(f"tool for task {task.id!r}", lost, [*made, *found])
    return {n: made[n] if n in made else found[n] for n in short}
