"""`eth.span` and `eth.tool`: an agent marks its own phases and tools, which become spans of its episode.

Outside of an episode both do nothing: the same code runs in production.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, overload

from ethogram.arguments import choice_of
from ethogram.capture.draft import Draft
from ethogram.traces import KINDS, Kind

from .context import current_recorder, with_prompt_version

F = TypeVar("F", bound=Callable[..., Any])


@contextmanager
def span(
    name: str,
    kind: Kind = "other",
    *,
    agent: str = "",
    prompt_version: str | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> Iterator[Draft]:
    """A span around a block of an agent: a phase, a retrieval (`kind="retrieval"`), another agent (`kind="agent"`).

    `prompt_version` is the version of the prompt of model calls inside. `attributes` are kept with the span; of what
    the block gives, set `result`.

    >>> import ethogram as eth
    >>> with eth.span("plan", prompt_version="v3") as plan:
    ...     plan.result = "look it up, then answer"
    """
    choice_of("kind", kind, KINDS)
    record = current_recorder()
    with with_prompt_version(prompt_version):
        if record is None:
            yield Draft(kind=kind, name=name, agent=agent, attributes=dict(attributes or {}))
            return
        with record.span(name, kind, agent=agent, attributes=dict(attributes or {})) as draft:
            yield draft


@overload
def tool(function: F) -> F: ...
@overload
def tool(*, name: str | None = None) -> Callable[[F], F]: ...
def tool(function: Any = None, *, name: str | None = None) -> Any:
    """A function, plain or async, as a tool of the agent: each call is a step of the episode that it belongs to.

    In an episode a call counts against the caps, may be disturbed by a condition, and is answered from the trace in a
    replay. Arguments are recorded by name.

    >>> import ethogram as eth
    >>> @eth.tool
    ... def price(item: str) -> int:
    ...     return {"tea": 6}[item]
    >>> price("tea")
    6
    """
    if function is None:
        return lambda given: _as_tool(given, name)
    return _as_tool(function, name)


def _as_tool(function: Callable[..., Any], name: str | None) -> Callable[..., Any]:
    shown: str = name or getattr(function, "__name__", "") or type(function).__name__
    signature = inspect.signature(function)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def later(*args: Any, **named: Any) -> Any:
            record = current_recorder()
            if record is None:
                return await function(*args, **named)

            async def call(**_: Any) -> Any:
                return await function(*args, **named)

            return await record.tool(shown, record.own_tool(shown, call), **_by_name(signature, args, named))

        return later

    @functools.wraps(function)
    def at_once(*args: Any, **named: Any) -> Any:
        record = current_recorder()
        if record is None:
            return function(*args, **named)

        def call(**_: Any) -> Any:
            return function(*args, **named)

        return record.tool(shown, record.own_tool(shown, call), **_by_name(signature, args, named))

    return at_once


def _by_name(signature: inspect.Signature, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call as a trace shows them: by name, and without the object that a method belongs to.

    Raises `TypeError`, as the call itself would, where they do not fit.
    """
    given = dict(signature.bind(*args, **named).arguments)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            given.update(given.pop(parameter.name, {}))
    first = next(iter(signature.parameters), "")
    if first in ("self", "cls"):
        given.pop(first, None)
    return given
