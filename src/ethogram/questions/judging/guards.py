"""Guards against biases of judges: what each takes away from what a judge sees, and what it refuses.

`outcome`, `narration`, `family` and `windows` are applied before and while a judge reads; how much a bias was there is
measured by `bias`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple, get_args

from ethogram.errors import BadUsage
from ethogram.traces import Trace

from .stripping import without_narration, without_outcome

JudgeGuard = Literal["outcome", "narration", "family", "windows"]
GUARDS: tuple[JudgeGuard, ...] = get_args(JudgeGuard)

_FAMILIES = {
    "openai": r"gpt|chatgpt|o[1345](?=\b|-)|davinci|codex",
    "anthropic": r"claude",
    "google": r"gemini|gemma|palm|bison",
    "meta": r"llama",
    "mistral": r"mistral|mixtral|ministral|codestral|devstral|magistral|pixtral",
    "alibaba": r"qwen|qwq|qvq",
    "deepseek": r"deepseek",
    "xai": r"grok",
    "cohere": r"command|aya",
    "microsoft": r"phi-?\d|wizardlm",
    "huggingface": r"smollm|zephyr",
    "amazon": r"nova|titan",
    "zhipu": r"glm",
    "moonshot": r"kimi|moonshot",
}
_FAMILY = re.compile("|".join(f"(?P<{name}>(?<![a-z])(?:{words}))" for name, words in _FAMILIES.items()), re.IGNORECASE)


class Guarded(NamedTuple):
    """A trace as a judge may see it, and how many things each guard took out of it."""

    trace: Trace
    removed: dict[JudgeGuard, int]


def guards_named(names: str) -> tuple[JudgeGuard, ...]:
    """Guards from a list such as `outcome,windows`; `all` and `none` are understood. Raises `BadUsage`."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if wanted == ["all"]:
        return GUARDS
    if wanted == ["none"]:
        return ()
    unknown = [name for name in wanted if name not in GUARDS]
    if unknown or not wanted:
        raise BadUsage(
            f"there is no guard {unknown[0] if unknown else ''!r}; guards are: {', '.join(GUARDS)}, all, none"
        )
    return tuple(guard for guard in GUARDS if guard in wanted)


def guarded(trace: Trace, guards: Collection[JudgeGuard]) -> Guarded:
    """The trace without what these guards hide."""
    removed: dict[JudgeGuard, int] = {}
    if "outcome" in guards:
        trace, removed["outcome"] = without_outcome(trace)
    if "narration" in guards:
        trace, removed["narration"] = without_narration(trace)
    return Guarded(trace, removed)


def family_of(model: str) -> str | None:
    """The vendor of a model, judged by its name; None where unknown."""
    match = _FAMILY.search(model.rpartition("/")[2]) or _FAMILY.search(model)
    return match.lastgroup if match else None


def shared_families(judges: Iterable[str], agents: Iterable[str]) -> list[tuple[str, str]]:
    """Models of judge and agent that come from one family, or have one name."""
    ours = list(agents)
    return [
        (judge, agent)
        for judge in judges
        for agent in ours
        if judge == agent or (family_of(judge) is not None and family_of(judge) == family_of(agent))
    ]
