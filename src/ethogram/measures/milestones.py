"""States without code: milestones named by what a step is, compiled to a state function.

    start: start                              the state before any milestone ("start" unless said)
    writes: [book_*, cancel_*]                which tools change the world, for `write: true`
    strict: false                             true: a milestone counts only once those before it are passed
    milestones:
      - state: identified
        when: {tool: get_user_details}        the first call of a tool; names may end in * and may be a list
      - state: acted
        when: {write: true, after: identified}  a write in a later step than a milestone, or than `after: {tool: X}`
      - state: stuck
        when: {error: true, count: 3}         the third step that ended in an error
      - state: closed
        when: {last: true}                    the last step, whatever was done: it says nothing of progress

A condition may name `tool`, `kind`, `name`, `requested` (a tool that a model step asks for), `error`, `write`, `last`,
`after` and `count`; all that it names must hold. `any: [ … ]` takes several. States only move forward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Protocol, TypeVar

import msgspec

from ethogram.errors import BadInput, NotFound


class StepLike(Protocol):
    """What a pattern needs to know of a step; a span has it."""

    @property
    def kind(self) -> str:
        """model, tool, …"""
        ...

    @property
    def name(self) -> str:
        """The name of the span."""
        ...

    @property
    def tool(self) -> str | None:
        """The tool, if it is a call."""
        ...

    @property
    def status(self) -> str:
        """ok, error or unset."""
        ...

    @property
    def requested(self) -> Sequence[str]:
        """Tools that a model step asked for."""
        ...


class StepCondition(msgspec.Struct, frozen=True, kw_only=True):
    """All that is named must hold of a step; `any` holds if one of its conditions does."""

    tool: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    requested: tuple[str, ...] = ()
    error: bool | None = None
    write: bool | None = None
    last: bool = False
    after: str | StepCondition | None = None
    count: int = 1
    any: tuple[StepCondition, ...] = ()


class Milestone(msgspec.Struct, frozen=True):
    """A state and when it begins."""

    state: str
    when: StepCondition


class Milestones(msgspec.Struct, frozen=True, kw_only=True):
    """Milestones in order; `labels` reads a sequence of steps once."""

    milestones: tuple[Milestone, ...]
    start: str = "start"
    writes: tuple[str, ...] = ()
    strict: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        """Every state, in order."""
        return (self.start, *(m.state for m in self.milestones))

    @property
    def terminal(self) -> str | None:
        """The state of the last step, whatever the milestones."""
        return next((m.state for m in self.milestones if m.when.last), None)

    def labels(self, steps: Sequence[StepLike]) -> list[str]:
        """The state after each step: the furthest milestone so far, or the terminal one at the last step."""
        ranked = [m for m in self.milestones if not m.when.last]
        passed: dict[str, int] = {}
        seen: dict[StepCondition, list[int]] = {}
        watched = [m.when.after for m in ranked if isinstance(m.when.after, StepCondition)]
        out, reached = [], 0
        for t, step in enumerate(steps):
            for place, milestone in enumerate(ranked):
                if milestone.state not in passed and self._holds(milestone.when, step, t, passed, seen):
                    if self.strict and place > 0 and ranked[place - 1].state not in passed:
                        continue
                    passed[milestone.state] = t
                    reached = max(reached, place + 1)
            for condition in watched:
                self._holds(condition, step, t, passed, seen)
            out.append(self.start if reached == 0 else ranked[reached - 1].state)
        if self.terminal is not None and out:
            out[-1] = self.terminal
        return out

    def on(self, field: type[T]) -> type[T]:
        """A field class with these states; trajectories are traces or lists of steps."""
        stones = self
        kept: list[tuple[Any, list[str]]] = []

        def state(_: object, trajectory: Any, t: int) -> str:
            if not kept or kept[0][0] is not trajectory:
                kept[:] = [(trajectory, stones.labels(getattr(trajectory, "steps", trajectory)))]
            return kept[0][1][t]

        body = {"state": state, "state_order": self.states, "terminal_state": self.terminal or ""}
        made: type[T] = type(field.__name__, (field,), body)
        return made

    def _holds(
        self,
        when: StepCondition,
        step: StepLike,
        t: int,
        passed: Mapping[str, int],
        seen: dict[StepCondition, list[int]],
    ) -> bool:
        """Whether a condition holds at this step; counts and `after` look at earlier steps."""
        if not self._matches(when, step):
            return False
        if when.any and not any(self._holds(one, step, t, passed, seen) for one in when.any):
            return False
        if isinstance(when.after, str) and passed.get(when.after, t) >= t:
            return False
        if isinstance(when.after, StepCondition):
            earlier = [at for at in seen.get(msgspec.structs.replace(when.after, count=1), []) if at < t]
            if len(earlier) < when.after.count:
                return False
        hits = seen.setdefault(msgspec.structs.replace(when, count=1), [])
        if not hits or hits[-1] != t:
            hits.append(t)
        return len(hits) >= when.count

    def _matches(self, when: StepCondition, step: StepLike) -> bool:
        called = step.tool or (step.name if step.kind == "tool" else None)
        wanted = (
            (when.tool, (called,) if called else ()),
            (when.kind, (step.kind,)),
            (when.name, (step.name,)),
            (when.requested, tuple(step.requested)),
        )
        if any(patterns and not _fits(patterns, values) for patterns, values in wanted):
            return False
        if when.error is not None and (step.status == "error") != when.error:
            return False
        return when.write is None or bool(called and _fits(self.writes, (called,))) == when.write


T = TypeVar("T")


def milestones_from(data: object) -> Milestones:
    """Milestones from what a YAML file holds: a mapping with `milestones`, or that list alone."""
    whole = {"milestones": data} if isinstance(data, list) else data
    if not isinstance(whole, dict) or not isinstance(whole.get("milestones"), list):
        raise BadInput("milestones are a list of {state, when}, alone or under the key 'milestones'")
    _known(whole, {"milestones", "start", "writes", "strict"}, "the milestones file")
    stones = tuple(_milestone(item, i) for i, item in enumerate(whole["milestones"], 1))
    found = Milestones(
        milestones=stones,
        start=_text(whole.get("start", "start"), "start"),
        writes=_texts(whole.get("writes", ()), "writes"),
        strict=_flag(whole.get("strict", False), "strict"),
    )
    _check(found)
    return found


def _milestone(item: object, number: int) -> Milestone:
    where = f"milestone {number}"
    if not isinstance(item, dict) or "state" not in item or "when" not in item:
        raise BadInput(f"{where} is {item!r}; give it a 'state' and a 'when'", where=where)
    _known(item, {"state", "when"}, where)
    return Milestone(_text(item["state"], f"the state of {where}"), _condition(item["when"], f"'when' of {where}"))


def _condition(data: object, where: str) -> StepCondition:
    if not isinstance(data, dict) or not data:
        raise BadInput(f"{where} is {data!r}; give a mapping such as {{tool: search}}", where=where)
    keys: dict[str, Callable[[object, str], Any]] = {
        "tool": _texts,
        "kind": _texts,
        "name": _texts,
        "requested": _texts,
        "error": _flag,
        "write": _flag,
        "last": _flag,
        "after": lambda v, w: _condition(v, w) if isinstance(v, dict) else _text(v, w),
        "count": _count,
        "any": lambda v, w: tuple(_condition(one, w) for one in (v if isinstance(v, list) else [v])),
    }
    _known(data, set(keys), where)
    return StepCondition(**{key: keys[key](value, f"{key!r} in {where}") for key, value in data.items()})


def _check(found: Milestones) -> None:
    states = found.states
    twice = next((s for s in states if states.count(s) > 1), None)
    if twice is not None:
        raise BadInput(
            f"the state {twice!r} occurs twice; give every milestone a state of its own", where=f"the state {twice!r}"
        )
    last = [m.state for m in found.milestones if m.when.last]
    if len(last) > 1:
        raise BadInput(
            f"{' and '.join(last)} both ask for the last step; only one milestone may", where=f"the state {last[-1]!r}"
        )
    for milestone in found.milestones:
        when = milestone.when
        if when.last and msgspec.structs.replace(when, last=False) != StepCondition():
            raise BadInput(
                f"{milestone.state!r} combines 'last' with other conditions; use 'last' alone",
                where=f"the state {milestone.state!r}",
            )
        if isinstance(when.after, str) and when.after not in states:
            raise NotFound.named("milestone", when.after, list(states))
        if when.write is not None and not found.writes:
            raise BadInput(
                f"{milestone.state!r} asks for a write; name the tools that write under 'writes'",
                where=f"the state {milestone.state!r}",
            )


def _known(data: Mapping[Any, object], allowed: set[str], where: str) -> None:
    for key in data:
        if key not in allowed:
            raise BadInput(
                f"{where} has the unknown key {key!r}; it may have {', '.join(sorted(allowed))}", where=where
            )


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise BadInput(f"{where} is {value!r}; give a name", where=where)
    return value


def _texts(value: object, where: str) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list | tuple) or not all(isinstance(v, str) and v for v in values):
        raise BadInput(f"{where} is {value!r}; give a name or a list of names", where=where)
    return tuple(values)


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise BadInput(f"{where} is {value!r}; give true or false", where=where)
    return value


def _count(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadInput(f"{where} is {value!r}; give a whole number of at least 1", where=where)
    return value


def _fits(patterns: Sequence[str], values: Sequence[str]) -> bool:
    return any(fnmatchcase(value, pattern) for value in values for pattern in patterns)
