"""A condition that disturbs: one seeded change to a file, to the tools or to the prompt of an episode.

The change is data in the condition's settings, so it is the same in every process, on every engine and after a resume.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ethogram.errors import BadInput, EthogramError
from ethogram.loading import named_object
from ethogram.perturb import (
    Change,
    NotApplicable,
    Operator,
    PromptOperator,
    ToolOperator,
    ToolPerturbation,
    file_operator,
    format_of,
    prompt_operator,
    tool_operator,
)
from ethogram.perturb.prompt import BY_NAME as PROMPTS
from ethogram.perturb.tools import BY_NAME as TOOLS
from ethogram.plan import Task, derived_seed
from ethogram.trace import digest

SETTING = "perturb"
"""Where a condition keeps its disturbance."""
KEPT_BYTES = 32 << 20
"""How many bytes of damaged files are kept, because every attempt reads the same damage."""

Tools = Mapping[str, Callable[..., Any]]
AnyOperator = Operator | ToolOperator | PromptOperator


class Disturbance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operator with its seed: on a `file`, on `only` some tools, or on the prompt."""

    operator: str
    seed: int
    intensity: float = 1.0
    file: str | None = None
    only: tuple[str, ...] = ()

    def settings(self) -> dict[str, Any]:
        """As a condition keeps it."""
        return {SETTING: msgspec.to_builtins(self)}

    def find(self) -> AnyOperator:
        """The operator: a built-in one by its name, or the user's own by where its code is."""
        if ":" in self.operator:
            found: AnyOperator = named_object(self.operator)
            return found() if isinstance(found, type) else found
        if self.operator in TOOLS:
            return tool_operator(self.operator)
        if self.operator in PROMPTS:
            return prompt_operator(self.operator)
        if self.file is None:
            raise BadInput(f"{self.operator} changes a file, and the condition names none")
        return file_operator(self.operator, format_of(self.file) or "")


class Disturbed:
    """What an episode gets instead, and what was changed in words; tools are changed while they are being called."""

    def __init__(self, task: Task, told: dict[str, Any], around: ToolPerturbation | None = None) -> None:
        """`around` wraps the tools, if it is they that are disturbed."""
        self.task = task
        self._told = told
        self._around = around

    def tools(self, given: Tools) -> Tools:
        """The tools as the agent gets them."""
        return given if self._around is None else self._around.wrap(given)

    @property
    def told(self) -> dict[str, Any]:
        """For the trace: which change, where, and of how many calls so far."""
        if self._around is None:
            return self._told
        return {**self._told, "perturbed_calls": sum(change.hit for change in self._around.log)}


def disturbance_of(settings: Mapping[str, Any]) -> Disturbance | None:
    """The disturbance of a condition, if it has one."""
    found = settings.get(SETTING)
    if found is None:
        return None
    try:
        return msgspec.convert(found, Disturbance)
    except msgspec.ValidationError as error:
        raise BadInput(f"the condition's setting {SETTING!r} cannot be read: {error}") from None


def seen_by_agent(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A condition as the agent may know it: that something is disturbed is not for it to know."""
    return {name: value for name, value in settings.items() if name != SETTING}


def disturb(wanted: Disturbance, task: Task, episode_seed: int, folder: Path | None) -> Disturbed:
    """Carry out a disturbance on one episode's own copies; what cannot be changed says so and stops the run.

    A file is damaged alike in every attempt, as the plan shows it; which calls of a tool go wrong differs by attempt.
    """
    operator = wanted.find()
    told: dict[str, Any] = {"perturbed": operator.name, "perturbed_intensity": wanted.intensity}
    if isinstance(operator, ToolOperator):
        seed = derived_seed(wanted.seed, f"episode:{episode_seed}")
        return Disturbed(task, told, ToolPerturbation(operator, seed, wanted.intensity, only=wanted.only or None))
    if isinstance(operator, PromptOperator):
        change = operator.apply(task.prompt, wanted.seed, wanted.intensity)
        told["perturbed_summary"] = change.summary
        return Disturbed(msgspec.structs.replace(task, prompt=change.text), told)
    place = None if folder is None or wanted.file is None else folder / wanted.file
    if place is None or wanted.file is None or not place.is_file():
        raise NotApplicable(f"task {task.id!r} has no file {wanted.file!r} for {operator.name} to change")
    done = damaged(wanted, operator, place.read_bytes())
    place.write_bytes(done.content)
    told |= {"perturbed_file": wanted.file, "perturbed_summary": done.summary}
    return Disturbed(task, told)


_kept: OrderedDict[str, Change] = OrderedDict()
_lock = threading.Lock()


def damaged(wanted: Disturbance, operator: Operator, content: bytes) -> Change:
    """The damaged content of a file; what was damaged lately is not damaged anew."""
    settings = f"{wanted.operator}:{wanted.seed}:{wanted.intensity!r}:{wanted.file}"
    key = digest("damage", settings, content)
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    try:
        done: Any = operator.apply(content, format_of(wanted.file or "") or "", wanted.seed, wanted.intensity)
    except EthogramError:
        raise
    except Exception as error:  # a user's operator: neither the agent nor the world is to blame
        raise BadInput(f"the operator {operator.name} crashed: {type(error).__name__}: {error}") from error
    if not isinstance(done, Change):
        raise BadInput(f"apply of the operator {operator.name} gave {type(done).__name__}, not a Change")
    if not isinstance(done.content, bytes) or not isinstance(done.summary, str):
        raise BadInput(f"the operator {operator.name} gave no Change with bytes as its content and words about them")
    with _lock:
        _kept[key] = done
        while sum(len(c.content) for c in _kept.values()) > KEPT_BYTES:
            _kept.popitem(last=False)
    return done
