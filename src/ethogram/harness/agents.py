"""Agents behind one small port: what a user names becomes one; a Python callable, and a script that ships.

Agents outside Python, which are commands and endpoints, are in `outside_agents.py`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeGuard, cast

import msgspec

from ethogram.errors import BadInput, BadUsage, EthogramError, NotFound
from ethogram.loading import not_defined
from ethogram.plans import Task
from ethogram.prices.budget import RESOURCES, Resource
from ethogram.traces import Message, Text, ToolCall

from .exits import exits_raised
from .handle import EpisodeHandle
from .threads import in_thread

ALL_METERS = frozenset(RESOURCES)
SPENT: frozenset[Resource] = frozenset({"tokens", "usd"})
"""What model calls use: known as far as they are captured, or recorded by the agent."""
OWN_METERS = frozenset({"steps", "seconds"})
"""What the harness counts of a Python agent by itself. Tokens and dollars it sees only as far as they are recorded."""


class Answer(msgspec.Struct, frozen=True):
    """What an agent left: its answer, and facts about itself (temperature, scaffold, …)."""

    text: str | None
    meta: dict[str, Any] = {}


class Agent(Protocol):
    """The port. `meters` says which resources its use can be counted of while it runs."""

    name: str
    meters: frozenset[str]

    async def act(self, task: Task, episode: EpisodeHandle) -> Answer:
        """Work on a task."""
        ...


def load_agent(spec: str | Agent | Callable[..., Any]) -> Agent:
    """An agent by what the user typed: `pkg.mod:name`, `file.py:name`, `cmd: …`, `http://…`, or a callable."""
    if not isinstance(spec, str):
        name = getattr(spec, "__name__", type(spec).__name__)
        return spec if _is_agent(spec) else PythonAgent(cast(Callable[..., Any], spec), name)
    from .outside_agents import CommandAgent, HttpAgent

    if spec.startswith("cmd:"):
        return CommandAgent(spec[4:].strip())
    if spec.startswith(("http://", "https://")):
        return HttpAgent(spec)
    found = load_object(spec)
    made: Any = found() if inspect.isclass(found) else found
    return made if _is_agent(made) else PythonAgent(made, spec)


def _is_agent(value: Any) -> TypeGuard[Agent]:
    return all(hasattr(value, name) for name in ("act", "meters", "name"))


def load_object(spec: str) -> Any:
    """What a `pkg.mod:name` or `file.py:name` names."""
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name:
        raise BadUsage(f"{spec!r} is not an agent; write pkg.mod:name, file.py:name, 'cmd: …' or http://…")
    try:
        module = _module(place)
    except ImportError as error:
        raise NotFound(f"cannot import {place!r} for {spec!r}: {error}", where=place) from None
    except (EthogramError, MemoryError):
        raise
    except Exception as error:
        told = str(error).partition("\n")[0]
        raise BadInput(
            f"{place!r} of {spec!r} fails when it is imported: {type(error).__name__}: {told}", where=place
        ) from error
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise not_defined(found, part, place, "function")
        found = getattr(found, part)
    return found


def _module(place: str) -> Any:
    """A module by dotted name (the working folder counts) or by file."""
    if not place.endswith(".py"):
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        return importlib.import_module(place)
    path = Path(place).absolute()
    if not path.is_file():
        raise NotFound(f"no file at {place!r}", where=place)
    name = f"ethogram_user_{path.stem}_{abs(hash(str(path))):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]  # half a module is none
        raise
    finally:
        sys.path.remove(str(path.parent))
    return module


class PythonAgent:
    """A callable, sync or async, called with the task and, unless it takes one argument only, the episode.

    Where its first argument is annotated as `str`, it gets the prompt of the task instead.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        """A sync function runs in a thread; its `meters` name what it records all its use of: `("tokens", "usd")`.

        Its `prompt_version` is that of its model calls, unless something nearer to a call states another.
        """
        self.name = name
        self.prompt_version: str | None = getattr(function, "prompt_version", None)
        self.meters: frozenset[str] = OWN_METERS | _declared(function, name)
        self.function = function
        self._takes = _arguments(function, name)
        self._wants_prompt = _wants_prompt(function)
        self._async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - its kind is asked, not whether it exists
        )

    async def act(self, task: Task, episode: EpisodeHandle) -> Answer:
        """Call it."""
        given = (task.prompt if self._wants_prompt else task, episode)[: self._takes]
        try:
            with exits_raised():
                result = await (self.function(*given) if self._async else in_thread(self.function, *given))
        except SystemExit as ended:  # it ends the episode, not the run
            raise AgentCrash(f"the agent called exit({ended.code!r})") from ended
        return answer_of(result)


def _arguments(function: Callable[..., Any], name: str) -> int:
    """How many of task and episode the function takes; one that takes neither is refused before anything runs."""
    if not callable(function):
        raise BadUsage(f"{name} is a {type(function).__name__}, not an agent: name a function of the task")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built in, and silent about itself
        return 2
    for count in (2, 1):
        with suppress(TypeError):
            signature.bind(*range(count))
            return count
    raise BadUsage(f"{name}{signature} cannot be called with the task alone nor with task and episode")


def _wants_prompt(function: Callable[..., Any]) -> bool:
    """Whether the first argument is annotated as a text."""
    with suppress(TypeError, ValueError):
        first = next(iter(inspect.signature(function).parameters.values()))
        return first.annotation in (str, "str")
    return False


def _declared(function: Callable[..., Any], name: str) -> frozenset[str]:
    """The resources of which an agent says that it records all its use."""
    meters = getattr(function, "meters", ())
    named = [meters] if isinstance(meters, str) else list(meters)
    for meter in named:
        if meter not in RESOURCES:
            raise NotFound.named(f"resource among the meters of {name}", str(meter), list(RESOURCES))
    return frozenset(named)


def answer_of(result: Any) -> Answer:
    """An answer from what a callable or an endpoint gave back: plain text, whose comparisons nobody can redefine."""
    if isinstance(result, Answer):
        return msgspec.structs.replace(result, text=_text_of(result.text))
    if isinstance(result, dict) and "answer" in result:
        meta = result.get("meta")
        return Answer(_text_of(result["answer"]), meta if isinstance(meta, dict) else {})
    return Answer(_text_of(result))


def _text_of(value: Any) -> str | None:
    """A text as it is, anything else as JSON; of a subclass of `str`, what it holds and none of its methods.

    The reply of a provider gives its text: what a client returned is no answer, but the message inside it is.
    """
    if isinstance(value, str):
        return str.__str__(value)
    parts = None if value is None or isinstance(value, dict | list | tuple) else _reply_parts(value)
    if parts is not None:
        texts = [p if isinstance(p, str) else p.get("text") if isinstance(p, dict) else p.text for p in parts]
        return "".join(t for t in texts if isinstance(t, str)) or None
    return None if value is None else msgspec.json.encode(value, enc_hook=str).decode()


def _reply_parts(value: Any) -> Sequence[Any] | None:
    """The parts of a reply that may have text, by the shape of its object; None for what is no reply.

    Known are chat completions and responses of OpenAI's client, messages of Anthropic's and
    LangChain's, contents of Google's.
    """
    if message := getattr(_first(value, "choices"), "message", None):
        content = getattr(message, "content", None)
    elif isinstance(getattr(value, "output_text", None), str):
        content = value.output_text
    elif candidate := _first(value, "candidates"):
        content = getattr(getattr(candidate, "content", None), "parts", None)
    elif getattr(value, "role", getattr(value, "type", None)) in ("assistant", "ai"):
        content = getattr(value, "content", None)
    else:
        return None
    if isinstance(content, str):
        return [content]
    # a thought is no part of what was answered
    shaped = (p for p in content or () if isinstance(p, str | dict) or hasattr(p, "text"))
    return [p for p in shaped if not getattr(p, "thought", None)]


def _first(value: Any, name: str) -> Any:
    """The first of a list that an object may have."""
    several = getattr(value, name, None)
    return several[0] if isinstance(several, list | tuple) and several else None


class AgentCrash(Exception):
    """The agent ended by its own fault; `left` is its answer by then, `said` what it wrote last about its end."""

    def __init__(self, message: str, left: str | None = None, said: str = "") -> None:
        """Keep what it left: the checks look at that."""
        super().__init__(message)
        self.left = left
        self.said = said


class ScriptedAgent:
    """A deterministic fake that ships: plays a list of steps per task, and answers.

    A step is `("tool", name, arguments)` or `("say", text)`; the last entry of a script is the answer. With several
    scripts per task the attempt's own randomness picks one, so that behaviour varies and yet repeats.
    """

    meters: frozenset[str] = ALL_METERS

    def __init__(self, scripts: dict[str, Sequence[Sequence[Any]]], name: str = "scripted", price: float = 0.0) -> None:
        """`scripts[task]` is a list of scripts; the key `*` serves every other task; `price` is what a step costs."""
        self.name = name
        self._scripts = scripts
        self._price = price

    async def act(self, task: Task, episode: EpisodeHandle) -> Answer:
        """Play a script."""
        choices = self._scripts.get(task.id, self._scripts.get("*", [[""]]))
        script = episode.rng.choice(list(choices))
        asked: tuple[Message, ...] = (Message("user", (Text(task.prompt),)),)
        for step in script[:-1]:
            kind, *rest = step
            said = str(rest[0]) if kind == "say" else f"I use {rest[0]}."
            calls = () if kind == "say" else (ToolCall(rest[0], msgspec.json.encode(rest[1]).decode()),)
            with episode.record.model(input=asked, growing=True, model=self.name) as call:
                call.done(
                    Message("assistant", (Text(said), *calls)),
                    input_tokens=len(task.prompt.split()),
                    output_tokens=len(said.split()),
                    cost_usd=self._price,
                )
            asked = ()
            if kind == "tool":
                result = episode.tools[rest[0]](**rest[1])
                if inspect.isawaitable(result):
                    await result
        with episode.record.model(input=asked, growing=True, model=self.name) as call:
            call.done(str(script[-1]), input_tokens=len(task.prompt.split()), output_tokens=1, cost_usd=self._price)
        return Answer(str(script[-1]))
