"""From the names of operators to conditions: the change of each task, and why some changes cannot be made."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ethogram.errors import BadUsage
from ethogram.harness.disturbance import Disturbance, damaged
from ethogram.perturbations.catalogue import ALL, FILES, AnyOperator
from ethogram.perturbations.model import ModelOperator
from ethogram.perturbations.operator import NotApplicable, format_of
from ethogram.perturbations.prompt import PromptOperator
from ethogram.perturbations.tools import ToolOperator
from ethogram.plans import Condition, Task, derived_seed
from ethogram.questions.experiment.operators import load_operator, plugged_operators
from ethogram.questions.experiment.records import NotApplied, Treatment
from ethogram.suites.load import FACTORY, LoadedSuite


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """Which operators, how strongly, on which tools; how many pairs, from which seed."""

    operators: tuple[str, ...] = ()
    intensities: tuple[float, ...] = (1.0,)
    tools: tuple[str, ...] = ()
    k: int = 1
    seed: int = 0
    captured: bool = False
    """Whether the agent's calls of models pass the gateway, where they and its own tools can be disturbed."""


class PlannedChange(msgspec.Struct, frozen=True, kw_only=True):
    """What one condition would change, and where."""

    condition: str
    operator: str
    intensity: float
    task: str
    file: str | None
    summary: str
    where: list[str]


class Treated(msgspec.Struct, frozen=True, kw_only=True):
    """All that an experiment will do: conditions for the harness, the same in words, and what cannot be done."""

    treatments: list[Treatment] = []
    conditions: list[Condition] = []
    changes: list[PlannedChange] = []
    refused: list[NotApplied] = []


class _Named(NamedTuple):
    """An operator: what it is called, how any process finds it, and the formats it works on."""

    name: str
    spec: str
    operator: AnyOperator
    formats: tuple[str, ...]


def treat(loaded: LoadedSuite, tasks: Sequence[Task], wishes: Wishes) -> Treated:
    """Try every change on every task: what can be planned can be run."""
    doses = _doses(wishes.intensities)
    made = Treated()
    files = sorted({f for t in tasks for f in t.files})
    for named, file in _targets(tasks, files, wishes, made.refused):
        for dose in doses:
            label = _label(named.name, file if len(files) > 1 else None, dose if len(doses) > 1 else None)
            wanted = Disturbance(
                operator=named.spec,
                seed=derived_seed(wishes.seed, f"perturb:{named.name}:{file or ''}"),
                intensity=dose,
                file=file,
                only=wishes.tools if isinstance(named.operator, ToolOperator) else (),
            )
            _add(made, label, named, wanted, [t for t in tasks if file is None or file in t.files], loaded, wishes)
    names = [c.name for c in made.conditions]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise BadUsage(f"two operators would both be named {twice!r}; give yours a name of its own")
    return made


def _add(
    made: Treated,
    label: str,
    named: _Named,
    wanted: Disturbance,
    tasks: Sequence[Task],
    loaded: LoadedSuite,
    wishes: Wishes,
) -> None:
    """One condition, of the tasks that it can change."""
    able: list[PlannedChange] = []
    for task in tasks:
        try:
            summary, where = _preview(wanted, named.operator, task, loaded, wishes.captured)
        except NotApplicable as why:
            refused = NotApplied(operator=named.name, task=task.id, why=str(why), file=wanted.file)
            if refused not in made.refused:  # the same at every intensity
                made.refused.append(refused)
            continue
        able.append(
            PlannedChange(
                condition=label,
                operator=named.name,
                intensity=wanted.intensity,
                task=task.id,
                file=wanted.file,
                summary=summary,
                where=where,
            )
        )
    if not able:
        return
    names = [c.task for c in able]
    made.changes.extend(able)
    made.conditions.append(Condition(name=label, settings=wanted.settings(), tasks=tuple(names), attempts=wishes.k))
    made.treatments.append(
        Treatment(
            condition=label,
            operator=named.name,
            kind=named.operator.kind,
            intensity=wanted.intensity,
            file=wanted.file,
            tasks=names,
            summary=able[0].summary,
        )
    )


def _preview(
    wanted: Disturbance, operator: AnyOperator, task: Task, loaded: LoadedSuite, captured: bool
) -> tuple[str, list[str]]:
    """What a disturbance does to a task, in words; nothing of the user's is touched."""
    if isinstance(operator, ModelOperator):
        if not captured:
            raise NotApplicable("model calls of this agent do not pass the gateway, which would change them")
        return f"{operator.does} ({wanted.intensity:.0%} of calls)", []
    if isinstance(operator, ToolOperator):
        own = [n.rpartition(":")[2].rpartition(".")[2] for n in task.tools]
        if not own and not captured and not callable(getattr(loaded.module, FACTORY, None)):
            raise NotApplicable("the task has no tools")
        lost = next((n for n in wanted.only if own and n not in own), None)
        if lost is not None and not captured:
            raise NotApplicable(f"the task has no tool {lost!r}")
        which = f" of {', '.join(wanted.only)}" if wanted.only else ""
        return f"{operator.does} ({wanted.intensity:.0%} of calls{which})", []
    if isinstance(operator, PromptOperator):
        change = operator.apply(task.prompt, wanted.seed, wanted.intensity)
        return change.summary, list(change.where)
    assert wanted.file is not None
    content = (loaded.root / task.files[wanted.file].path).read_bytes()
    found = wanted.find()  # of several formats the one that this file has
    assert not isinstance(found, ToolOperator | PromptOperator | ModelOperator)
    done = damaged(wanted, found, content)
    return done.summary, list(done.where)


def _targets(
    tasks: Sequence[Task], files: Sequence[str], wishes: Wishes, refused: list[NotApplied]
) -> list[tuple[_Named, str | None]]:
    """Operators with the file that each is to change; tools, prompts and calls have none."""
    if not wishes.operators:
        usual = [_house(n) for n in dict.fromkeys(o.name for o in FILES)]
        found: list[tuple[_Named, str | None]] = [
            (named, f) for f in files for named in usual if format_of(f) in named.formats
        ]
        if not found:
            raise BadUsage(
                "the tasks have no file that a built-in operator can change; name operators on tools, "
                "prompts or model calls, or your own (see: ethogram operators)"
            )
        return found
    targets: list[tuple[_Named, str | None]] = []
    for named in map(_named, dict.fromkeys(wishes.operators)):
        if isinstance(named.operator, ToolOperator | PromptOperator | ModelOperator):
            targets.append((named, None))
            continue
        fitting = [f for f in files if format_of(f) in named.formats]
        if not fitting:
            raise BadUsage(f"{named.name} changes {_or(named.formats)} files, and the tasks have none")
        targets += [(named, f) for f in fitting]
        refused += [
            NotApplied(operator=named.name, task=t.id, why=f"the task has no {_or(named.formats)} file")
            for t in tasks
            if not set(t.files) & set(fitting)
        ]
    return targets


def _named(spec: str) -> _Named:
    """A built-in operator, or one of an installed package or of a file; it must be found from any folder."""
    if any(o.name == spec for o in ALL):
        return _house(spec)
    if ":" not in spec:
        added = plugged_operators()
        for plugin in added.working:
            if plugin.value.name == spec:
                return _Named(spec, plugin.place, plugin.value, tuple(plugin.value.formats))
        raise added.missing(spec, sorted({o.name for o in ALL} | {p.value.name for p in added.working}))
    operator = load_operator(spec)
    place, _, name = spec.rpartition(":")
    lasting = f"{Path(place).resolve()}:{name}" if place.endswith(".py") else spec
    return _Named(operator.name, lasting, operator, tuple(operator.formats))


def _house(name: str) -> _Named:
    same = [o for o in ALL if o.name == name]
    return _Named(name, name, same[0], tuple(f for o in same for f in o.formats))


def _doses(intensities: Iterable[Any]) -> list[float]:
    """Intensities as numbers, each once, weakest first."""
    found = set()
    for given in intensities:
        try:
            value = float(given)
        except (TypeError, ValueError):
            value = math.nan
        if not 0 < value <= 1:
            raise BadUsage(f"the intensity {given!r} makes no sense; give numbers above 0 and up to 1")
        found.add(value)
    if not found:
        raise BadUsage("an experiment needs an intensity; give numbers above 0 and up to 1")
    return sorted(found)


def _label(operator: str, file: str | None, dose: float | None) -> str:
    words = [operator, file or "", "" if dose is None else f"@{dose:g}"]
    return " ".join(w for w in words if w)


def _or(formats: Sequence[str]) -> str:
    *first, last = dict.fromkeys(formats)
    return f"{', '.join(first)} or {last}" if first else last
