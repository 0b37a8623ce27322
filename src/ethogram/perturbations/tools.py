"""Operators on tools and the world behind them: errors, timeouts, and answers that are cut, old, mixed up or beside
the point.

An intensity is the share of calls that are hit. Whether a call is hit depends on the seed, the tool and the number of
the call only, so that a larger intensity hits the same calls and more.
"""

from __future__ import annotations

import functools
import inspect
import json
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from ethogram.errors import NotFound
from ethogram.plans import derived_seed

from .operator import OperatorKind, checked_intensity, excerpt

IRRELEVANT = (
    "Reminder: the cafeteria closes at 15:00 on Friday.",
    "The parking garage on level 2 is being repainted this week.",
    "Weather: light rain in the afternoon, 14 degrees.",
    "Newsletter: seven tips for a tidy desk.",
    "The printer on the third floor has a new name: Olive.",
)
ERRORS = (
    "503 Service Unavailable: the backend did not accept the request",
    "500 Internal Server Error: unexpected null in response",
    "connection reset by peer",
    "429 Too Many Requests: retry later",
)


class ToolFailed(RuntimeError):
    """A tool that was made to fail: what the agent does about it is the agent's own doing."""


class ToolTimedOut(ToolFailed):
    """A tool that was made to answer too late: it may have had its effect."""


class Call(msgspec.Struct, frozen=True):
    """One call of a tool: its number among all calls of that tool, and what earlier calls of it gave back."""

    tool: str
    arguments: Mapping[str, Any] = {}
    number: int = 0
    earlier: tuple[tuple[Mapping[str, Any], Any], ...] = ()


class ToolChange(msgspec.Struct, frozen=True):
    """What became of one call: the result that the agent sees, or the error; `why_not` if the call was to be hit but
    its result has nothing to change."""

    tool: str
    number: int
    operator: str
    result: Any = None
    error: str = ""
    summary: str = ""
    why_not: str = ""

    @property
    def hit(self) -> bool:
        """Whether the agent sees something else than the tool gave."""
        return bool(self.summary)


Alter = Callable[[Any, Call, random.Random], Any]


class Unchanged(Exception):
    """A result that has nothing to change; the message says why."""


class ToolOperator:
    """One kind of change to what a tool gives back."""

    kind: OperatorKind = "tool"
    formats: tuple[str, ...] = ("tool",)
    dose = "every call"

    def __init__(self, name: str, does: str, alter: Alter | None = None, *, runs: bool = True) -> None:
        """Without `alter` the call fails; `runs` says whether the tool has its effect all the same."""
        self.name = name
        self.does = does
        self.runs = runs
        self._alter = alter

    def __repr__(self) -> str:
        return f"<operator {self.name} (tool)>"

    @property
    def fails(self) -> bool:
        """Whether the agent gets an error instead of a result."""
        return self._alter is None

    def hits(self, call: Call, seed: int, intensity: float = 1.0) -> bool:
        """Whether this call is one of those that are changed."""
        return self._rng(call, seed, "hit").random() < checked_intensity(intensity)

    def error(self, call: Call, seed: int) -> ToolFailed:
        """The error that a call fails with."""
        if self.runs:
            return ToolTimedOut(f"{call.tool} did not answer within 30 s")
        return ToolFailed(f"{call.tool}: {self._rng(call, seed, 'error').choice(ERRORS)}")

    def alter(self, result: Any, call: Call, seed: int) -> Any:
        """The result that the agent sees; raises `Unchanged` if there is nothing to change."""
        assert self._alter is not None
        return self._alter(result, call, self._rng(call, seed, "alter"))

    def _rng(self, call: Call, seed: int, purpose: str) -> random.Random:
        return random.Random(derived_seed(seed, f"perturb:{self.name}:{call.tool}:{call.number}:{purpose}"))


def _inside_json(result: Any, change: Callable[[Any], Any]) -> Any:
    """Apply a change to a value, or to the value that a text of JSON holds."""
    if isinstance(result, str) and result.lstrip()[:1] in ("[", "{"):
        try:
            value = json.loads(result)
        except ValueError:
            return change(result)
        return json.dumps(change(value), ensure_ascii=result.isascii(), indent=2 if "\n" in result.strip() else None)
    return change(result)


def _truncated(result: Any, call: Call, rng: random.Random) -> Any:
    share = rng.uniform(0.2, 0.6)
    if isinstance(result, str | list | tuple) and len(result) > 1:
        return result[: max(1, round(len(result) * share))]
    if isinstance(result, Mapping) and len(result) > 1:
        keep = max(1, round(len(result) * share))
        return dict(list(result.items())[:keep])
    raise Unchanged("the result is too short to cut")


def _stale(result: Any, call: Call, rng: random.Random) -> Any:
    same = [old for arguments, old in call.earlier if dict(arguments) == dict(call.arguments) and old != result]
    other = [old for _, old in call.earlier if old != result]
    if not other:
        raise Unchanged("there is no earlier result of this tool that differs")
    return (same or other)[-1]


def _reordered(result: Any, call: Call, rng: random.Random) -> Any:
    def change(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(_shuffled(list(value), rng))
        if isinstance(value, Mapping):
            lists = [k for k, v in value.items() if isinstance(v, list) and any(a != v[0] for a in v)]
            if lists:
                longest = max(lists, key=lambda k: len(value[k]))
                return {k: _shuffled(list(v), rng) if k == longest else v for k, v in value.items()}
        if isinstance(value, str):
            return "".join(_shuffled(_whole_lines(value), rng))
        raise Unchanged("the result has no order to change")

    return _inside_json(result, change)


def _whole_lines(text: str) -> list[str]:
    lines = text.splitlines(keepends=True)
    return [*lines[:-1], lines[-1] if lines[-1].endswith("\n") else f"{lines[-1]}\n"] if len(lines) > 1 else lines


def _shuffled(values: list[Any], rng: random.Random) -> list[Any]:
    if all(value == values[0] for value in values):
        raise Unchanged("the result has no order to change")
    mixed = list(values)
    while mixed == values:
        rng.shuffle(mixed)
    return mixed


def _irrelevant(result: Any, call: Call, rng: random.Random) -> Any:
    line = rng.choice(IRRELEVANT)

    def change(value: Any) -> Any:
        if isinstance(value, list | tuple):
            at = rng.randrange(len(value) + 1)
            extra = {k: line if isinstance(v, str) else v for k, v in value[0].items()} if _is_record(value) else line
            return type(value)([*value[:at], extra, *value[at:]])
        if isinstance(value, Mapping):
            return {**value, "notice": line} if "notice" not in value else {**value, "notice_2": line}
        if isinstance(value, str):
            lines = value.splitlines(keepends=True)
            at = rng.randrange(len(lines) + 1)
            if at == len(lines) and lines and not lines[-1].endswith("\n"):
                lines[-1] += "\n"
            return "".join([*lines[:at], f"{line}\n", *lines[at:]])
        raise Unchanged("the result is a single value; nothing can be put beside it")

    return _inside_json(result, change)


def _is_record(values: Sequence[Any]) -> bool:
    return bool(values) and isinstance(values[0], Mapping) and any(isinstance(v, str) for v in values[0].values())


OPERATORS: tuple[ToolOperator, ...] = (
    ToolOperator("tool_error", "the call fails and has no effect", runs=False),
    ToolOperator("tool_timeout", "the call has its effect, but no answer comes in time"),
    ToolOperator("truncated_result", "the end of the result is missing", _truncated),
    ToolOperator("stale_result", "the result is one of an earlier call", _stale),
    ToolOperator("reordered_result", "the parts of the result are in another order", _reordered),
    ToolOperator("irrelevant_result", "the result contains irrelevant text", _irrelevant),
)
BY_NAME = {operator.name: operator for operator in OPERATORS}


def tool_operator(name: str) -> ToolOperator:
    """A tool operator by its name."""
    if name not in BY_NAME:
        raise NotFound.named("tool operator", name, list(BY_NAME))
    return BY_NAME[name]


def perturb_tool(
    result: Any, call: Call, operator: ToolOperator | str, seed: int, intensity: float = 1.0
) -> ToolChange:
    """What the agent sees of one call that gave a result; nothing is called and nothing is raised here."""
    chosen = tool_operator(operator) if isinstance(operator, str) else operator
    untouched = ToolChange(call.tool, call.number, chosen.name, result)
    if not chosen.hits(call, seed, intensity):
        return untouched
    if chosen.fails:
        error = str(chosen.error(call, seed))
        return msgspec.structs.replace(untouched, result=None, error=error, summary=error)
    try:
        new = chosen.alter(result, call, seed)
    except Unchanged as why:
        return msgspec.structs.replace(untouched, why_not=str(why))
    summary = f"{chosen.does}: {excerpt(str(result))!r} became {excerpt(str(new))!r}"
    return msgspec.structs.replace(untouched, result=new, summary=summary)


class ToolPerturbation:
    """Wraps the tools of one episode, so that a share of their calls goes wrong in one way; `log` says which."""

    def __init__(
        self,
        operator: ToolOperator | str,
        seed: int,
        intensity: float = 1.0,
        *,
        only: Collection[str] | None = None,
    ) -> None:
        """`only` names the tools to perturb; by default all."""
        self.operator = tool_operator(operator) if isinstance(operator, str) else operator
        self.seed = seed
        self.intensity = checked_intensity(intensity)
        self.log: list[ToolChange] = []
        self._only = only
        self._counts: dict[str, int] = {}
        self._earlier: dict[str, list[tuple[Mapping[str, Any], Any]]] = {}

    def wrap(self, tools: Mapping[str, Callable[..., Any]], *, others: bool = False) -> dict[str, Callable[..., Any]]:
        """The tools, with the same names, signatures and words; a tool to perturb must be here unless there are others.

        Raises `NotFound` for a name that no tool has.
        """
        if self._only is not None and not others:
            for name in self._only:
                if name not in tools:
                    raise NotFound.named("tool", name, list(tools))
        chosen = tools if self._only is None else self._only
        return {name: self.wrapped(name, tool) if name in chosen else tool for name, tool in tools.items()}

    def wrapped(self, name: str, tool: Callable[..., Any]) -> Callable[..., Any]:
        """One tool."""
        if inspect.iscoroutinefunction(tool):

            @functools.wraps(tool)
            async def later(*args: Any, **arguments: Any) -> Any:
                call = self.begin(name, arguments)
                return self.end(call, await tool(*args, **arguments))

            return later

        @functools.wraps(tool)
        def now(*args: Any, **arguments: Any) -> Any:
            call = self.begin(name, arguments)
            return self.end(call, tool(*args, **arguments))

        return now

    def called(self, name: str) -> bool:
        """Whether a call of this tool came through here."""
        return name in self._counts

    def leave(self, name: str) -> None:
        """A call of this tool is answered elsewhere, with what the agent saw of it once: nothing is changed again."""
        self._counts.setdefault(name, 0)

    def changes(self, name: str) -> bool:
        """Whether calls of this tool are among those that may go wrong."""
        return self._only is None or name in self._only

    def begin(self, name: str, arguments: Mapping[str, Any]) -> Call:
        """A tool is about to be called; raises `ToolFailed` where it is to fail without an effect."""
        number = self._counts.get(name, 0)
        self._counts[name] = number + 1
        call = Call(name, dict(arguments), number, tuple(self._earlier.get(name, ())))
        if self.operator.fails and not self.operator.runs and self.operator.hits(call, self.seed, self.intensity):
            self._raise(call)
        return call

    def end(self, call: Call, result: Any) -> Any:
        """What the agent sees of a result; raises `ToolFailed` where it is to see an error instead."""
        self._earlier.setdefault(call.tool, []).append((call.arguments, result))
        if self.operator.fails and self.operator.hits(call, self.seed, self.intensity):
            self._raise(call)
        change = perturb_tool(result, call, self.operator, self.seed, self.intensity)
        if change.hit or change.why_not:
            self.log.append(change)
        return change.result

    def _raise(self, call: Call) -> None:
        error = self.operator.error(call, self.seed)
        self.log.append(
            ToolChange(call.tool, call.number, self.operator.name, None, error=str(error), summary=str(error))
        )
        raise error
