"""A condition that disturbs: one seeded change to a file, to the tools or to the prompt of an episode.

The change is data in the condition's settings, so it is the same in every process, on every engine and after a resume.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ethogram.errors import BadInput
from ethogram.judge.loading import named_object
from ethogram.perturb import (
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

SETTING = "perturb"
"""Where a condition keeps its disturbance."""

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
        """The operator: one of the house by its name, or the user's own by where its code is."""
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


class Disturbed(msgspec.Struct, frozen=True):
    """What an episode gets instead, and what was changed in words."""

    task: Task
    tools: Tools
    told: dict[str, Any]


def disturbance_of(settings: Mapping[str, Any]) -> Disturbance | None:
    """The disturbance of a condition, if it has one."""
    found = settings.get(SETTING)
    if found is None:
        return None
    try:
        return msgspec.convert(found, Disturbance)
    except msgspec.ValidationError as error:
        raise BadInput(f"the condition's setting {SETTING!r} cannot be read: {error}") from None


def disturb(wanted: Disturbance, task: Task, episode_seed: int, folder: Path | None, tools: Tools) -> Disturbed:
    """Carry out a disturbance on one episode's own copies; what cannot be changed says so and stops the run.

    A file is damaged alike in every attempt, as the plan shows it; which calls of a tool go wrong differs by attempt.
    """
    operator = wanted.find()
    if isinstance(operator, ToolOperator):
        seed = derived_seed(wanted.seed, f"episode:{episode_seed}")
        around = ToolPerturbation(operator, seed, wanted.intensity, only=wanted.only or None)
        return Disturbed(
            task, around.wrap(tools), {"perturbed": operator.name, "perturbed_intensity": wanted.intensity}
        )
    if isinstance(operator, PromptOperator):
        change = operator.apply(task.prompt, wanted.seed, wanted.intensity)
        said = {"perturbed": operator.name, "perturbed_summary": change.summary}
        return Disturbed(msgspec.structs.replace(task, prompt=change.text), tools, said)
    if folder is None or wanted.file is None or not (folder / wanted.file).is_file():
        raise NotApplicable(f"task {task.id!r} has no file {wanted.file!r} for {operator.name} to change")
    place = folder / wanted.file
    done = operator.apply(place.read_bytes(), format_of(wanted.file) or "", wanted.seed, wanted.intensity)
    place.write_bytes(done.content)
    said = {"perturbed": operator.name, "perturbed_file": wanted.file, "perturbed_summary": done.summary}
    return Disturbed(task, tools, said)
