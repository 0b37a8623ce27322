"""A condition that disturbs: one seeded change to a file, the tools, the prompt or the model calls of an episode.

The change is data in the condition's settings, so it is the same in every process, on every engine and after a resume.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ethogram.errors import BadInput, EthogramError, NotFound
from ethogram.loading import named_object
from ethogram.perturbations.catalogue import ALL, AnyOperator, file_operator
from ethogram.perturbations.model import BY_NAME as MODEL_CALLS
from ethogram.perturbations.model import ModelOperator, model_operator
from ethogram.perturbations.operator import Change, NotApplicable, Operator, checked_intensity, format_of
from ethogram.perturbations.prompt import BY_NAME as PROMPTS
from ethogram.perturbations.prompt import PromptOperator, prompt_operator
from ethogram.perturbations.tools import BY_NAME as TOOLS
from ethogram.perturbations.tools import ToolOperator, ToolPerturbation, tool_operator
from ethogram.plans import Task, derived_seed
from ethogram.traces import digest
from ethogram.wire.gateway.call import CallPolicy
from ethogram.wire.gateway.faults import ModelFaults, ToolFaults

SETTING = "perturb"
"""Where a condition keeps its disturbance."""
KEPT_BYTES = 32 << 20
"""How many bytes of damaged files are kept, because every attempt reads the same damage."""

ToolTable = Mapping[str, Callable[..., Any]]
StandIn = Callable[[str, Callable[..., Any]], Callable[..., Any]]


class Disturbance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operator with its seed: on a `file`, on `only` some tools, on the prompt, or on calls of the model."""

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
        if self.operator in MODEL_CALLS:
            return model_operator(self.operator)
        if self.file is None and any(known.name == self.operator for known in ALL):
            raise BadInput(
                f"{self.operator} changes a file, and the condition names none", where=f"the operator {self.operator!r}"
            )
        if self.file is None:
            raise NotFound.named("operator", self.operator, sorted({known.name for known in ALL}))
        return file_operator(self.operator, format_of(self.file) or "")


class Disturbed:
    """What an episode gets instead, and what was changed in words; tools and calls are changed while they are made."""

    def __init__(
        self,
        task: Task,
        told: dict[str, Any],
        *,
        around: ToolPerturbation | None = None,
        calls: ModelFaults | None = None,
    ) -> None:
        """`around` wraps the tools, if it is they that are disturbed; `calls` are those of the model, if it is they."""
        self.task = task
        self._told = told
        self.around = around
        """Disturbs tools: the suite's, the agent's own that are called through the recorder, and those over MCP."""
        self._calls = calls

    def tools(self, given: ToolTable, *, others: bool = False) -> ToolTable:
        """The tools as the agent gets them; `others` says that it may have tools of its own, which the gateway sees."""
        return given if self.around is None else self.around.wrap(given, others=others)

    def own_tool(self, name: str, tool: Callable[..., Any]) -> Callable[..., Any]:
        """A tool that the agent brings and calls through the recorder, as it gets it."""
        changed = self.around is not None and self.around.changes(name)
        return self.around.wrapped(name, tool) if self.around is not None and changed else tool

    def left_alone(self, stand_in: StandIn) -> StandIn:
        """What stands in for tools, of which nothing is changed once more at the gateway."""

        def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
            if self.around is not None:
                self.around.leave(name)
            return stand_in(name, function)

        return noted

    def policies(self) -> tuple[CallPolicy, ...]:
        """What the gateway does to calls of the model; results of the agent's own tools are changed there."""
        if self._calls is not None:
            return (self._calls,)
        return () if self.around is None else (ToolFaults(self.around),)

    @property
    def needs_calls(self) -> bool:
        """Whether nothing can be disturbed unless the gateway sees the calls of the model."""
        return self._calls is not None

    @property
    def breaks_calls(self) -> bool:
        """Whether a call of the model was made to go wrong, so that a failed call is no fault of the world."""
        return self._calls is not None and self._calls.hits > 0

    @property
    def told(self) -> dict[str, Any]:
        """For the trace: which change, where, and of how many calls so far."""
        if self.around is not None:
            return {**self._told, "perturbed_calls": sum(change.hit for change in self.around.log)}
        if self._calls is not None:
            return {**self._told, "perturbed_calls": self._calls.hits}
        return self._told


def disturbance_of(settings: Mapping[str, Any]) -> Disturbance | None:
    """The disturbance of a condition, if it has one."""
    found = settings.get(SETTING)
    if found is None:
        return None
    if isinstance(found, str):
        return _in_words(found)
    try:
        return msgspec.convert(found, Disturbance)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"the condition's setting {SETTING!r} cannot be read: {error}", where=f"the setting {SETTING!r}"
        ) from None


def _in_words(words: str) -> Disturbance:
    """A disturbance from `OPERATOR`, `OPERATOR@INTENSITY` or, for one that changes files, `OPERATOR:FILE@INTENSITY`."""
    rest, _, dose = words.rpartition("@") if "@" in words else (words, "", "1")
    name, _, file = rest.partition(":")
    if name.endswith(".py") or "." in name:  # the user's own, by where its code is
        name, file = rest, ""
    try:
        intensity = checked_intensity(float(dose))
    except ValueError:
        raise BadInput(
            f"{words!r} is not a disturbance; write for example {SETTING}=model_error@0.5", where=words
        ) from None
    seed = derived_seed(0, f"perturb:{name}:{file}")
    return Disturbance(operator=name, seed=seed, intensity=intensity, file=file or None)


def seen_by_agent(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A condition as the agent may know it: that something is disturbed is not for it to know."""
    return {name: value for name, value in settings.items() if name != SETTING}


def disturb(wanted: Disturbance, task: Task, episode_seed: int, folder: Path | None) -> Disturbed:
    """Carry out a disturbance on one episode's own copies; what cannot be changed says so and stops the run.

    A file is damaged alike in every attempt, as the plan shows it; which calls of a tool or of a model go wrong differs
    by attempt.
    """
    operator = wanted.find()
    told: dict[str, Any] = {"perturbed": operator.name, "perturbed_intensity": wanted.intensity}
    seed = derived_seed(wanted.seed, f"episode:{episode_seed}")
    if isinstance(operator, ToolOperator):
        around = ToolPerturbation(operator, seed, wanted.intensity, only=wanted.only or None)
        return Disturbed(task, told, around=around)
    if isinstance(operator, ModelOperator):
        return Disturbed(task, told, calls=ModelFaults(operator, seed, wanted.intensity))
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
        raise BadInput(
            f"the operator {operator.name} crashed: {type(error).__name__}: {error}",
            where=f"the operator {operator.name!r}",
        ) from error
    if not isinstance(done, Change):
        raise BadInput(
            f"apply of the operator {operator.name} gave {type(done).__name__}, not a Change",
            where=f"the operator {operator.name!r}",
        )
    if not isinstance(done.content, bytes) or not isinstance(done.summary, str):
        raise BadInput(
            f"the operator {operator.name} gave no Change with bytes as its content and words about them",
            where=f"the operator {operator.name!r}",
        )
    with _lock:
        _kept[key] = done
        while sum(len(c.content) for c in _kept.values()) > KEPT_BYTES:
            _kept.popitem(last=False)
    return done
