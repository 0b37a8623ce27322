"""Agents behind one small port: a Python callable, a command line, an HTTP endpoint, a script."""

from __future__ import annotations

import asyncio
import errno
import importlib
import importlib.util
import inspect
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeGuard, cast

import msgspec

from ethogram.capture.parse import as_float, as_int
from ethogram.cost.budget import RESOURCES
from ethogram.errors import BadInput, BadUsage, EthogramError, NotFound
from ethogram.plan import Task
from ethogram.trace import Message, Text, ToolCall

from .faults import NetworkFault, RateLimited, WorldTimeout
from .handle import EpisodeHandle
from .processes import Supervision, clipped, kept_of, kill_family
from .scratch import scratch_folder
from .supervisor import PATIENCE_SECONDS
from .threads import LARGE, in_thread, leaving

ALL_METERS = frozenset(RESOURCES)
OWN_METERS = frozenset({"steps", "seconds"})
"""What the harness counts of a Python agent by itself. Tokens and dollars it sees only as far as they are recorded."""
GRACE_SECONDS = 5.0
SILENCE_SECONDS = 3600.0


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
            raise NotFound.named(f"name in {place}", part, [n for n in dir(found) if not n.startswith("_")])
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
    """A callable, sync or async, called with the task and, unless it takes one argument only, the episode."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        """A sync function runs in a thread; its `meters` name what it records all its use of: `("tokens", "usd")`."""
        self.name = name
        self.meters: frozenset[str] = OWN_METERS | _declared(function, name)
        self._function = function
        self._takes = _arguments(function, name)
        self._async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - its kind is asked, not whether it exists
        )

    async def act(self, task: Task, episode: EpisodeHandle) -> Answer:
        """Call it."""
        given = (task, episode)[: self._takes]
        try:
            if self._async:
                result = await self._function(*given)
            else:
                result = await in_thread(self._function, *given)
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
    """A text as it is, anything else as JSON; of a subclass of `str`, what it holds and none of its methods."""
    if isinstance(value, str):
        return str.__str__(value)
    return None if value is None else msgspec.json.encode(value, enc_hook=str).decode()


class CommandAgent:
    """A command line: the prompt on stdin, the answer on stdout.

    `{task}` in the command becomes the path of a JSON file with the task, less what is expected and its checks. It runs
    in the episode's workspace; a file that is named in it and does not lie there is looked for where Ethogram was
    started. It inherits `episode.environment`, which also tells the episode's settings; what the command leaves at
    `$ETHOGRAM_TRACE`, in any format we read, becomes the trace.
    """

    meters: frozenset[str] = frozenset({"seconds"})

    def __init__(self, command: str) -> None:
        """`command` is split as a shell would, but no shell runs."""
        self.name = f"cmd: {command}"
        self.argv = shlex.split(command)
        self.folder = Path.cwd()
        if not self.argv:
            raise BadUsage("'cmd:' needs a command, for example 'cmd: python my_agent.py'")
        if "/" not in self.argv[0] and shutil.which(self.argv[0]) is None:
            raise BadUsage(f"there is no command {self.argv[0]!r} on this machine")

    async def act(self, task: Task, episode: EpisodeHandle) -> Answer:
        """Run it in the workspace."""
        with scratch_folder("cmd") as folder:
            task_file, trace_file = folder / "task.json", folder / "trace"
            task_file.write_bytes(msgspec.json.encode(task))
            workspace = episode.workspace or folder
            argv = [self._place(part, workspace).replace("{task}", str(task_file)) for part in self.argv]
            env = {
                **episode.environment,
                **_settings(task, episode),
                "ETHOGRAM_TRACE": str(trace_file),
                "ETHOGRAM_TASK": str(task_file),
            }
            with episode.record.span(self.argv[0], "agent") as span:
                programs = [Path(word).resolve() for word in argv if word.startswith(str(self.folder))]
                isolated = episode.wrap(argv, list(dict.fromkeys((workspace, folder))), programs)
                out, err, code, left_out = await _communicate(isolated, task.prompt.encode(), env, workspace)
                span.attributes = {"exit_code": code, "stderr": err[-20_000:]}
                if left_out:
                    span.truncated = True
                    episode.meta["left_out"] = left_out
                if trace_file.exists():
                    from ethogram.capture.graft import graft

                    graft(trace_file, episode.record)
            if code != 0:
                last = err.strip().splitlines()[-1:] or ["no message"]
                raise AgentCrash(f"exit code {code}: {last[0][:500]}", out, err[-4000:])
        return Answer(out)

    def _place(self, part: str, workspace: Path) -> str:
        """A word of the command; a file beside us that the workspace lacks is named in full."""
        ours = self.folder / part
        return str(ours) if len(part) < 256 and not (workspace / part).exists() and ours.is_file() else part


class AgentCrash(Exception):
    """The agent ended by its own fault; `left` is its answer by then, `said` what it wrote last about its end."""

    def __init__(self, message: str, left: str | None = None, said: str = "") -> None:
        """Keep what it left: the checks look at that."""
        super().__init__(message)
        self.left = left
        self.said = said


def _settings(task: Task, episode: EpisodeHandle) -> dict[str, str]:
    settings = {
        "ETHOGRAM_SEED": str(episode.seed),
        "ETHOGRAM_ATTEMPT": str(episode.attempt),
        "ETHOGRAM_TASK_ID": task.id,
        "ETHOGRAM_CONDITION": msgspec.json.encode(dict(episode.condition), enc_hook=str).decode(),
    }
    if episode.workspace is not None:
        settings["ETHOGRAM_WORKSPACE"] = str(episode.workspace)
    settings.update({f"ETHOGRAM_MAX_{k.upper()}": f"{v:g}" for k, v in episode.remaining.items()})
    return settings


class _Said(NamedTuple):
    """What a program wrote and how it ended; `left_out` counts the bytes of its output that were not kept."""

    out: str
    err: str
    code: int
    left_out: int


async def _communicate(argv: Sequence[str], stdin: bytes, env: dict[str, str], folder: Path) -> _Said:
    """Run a program under a supervisor; when cancelled it is asked to end, then ended. What it started goes with it.

    Its words go through files, not pipes: a child that outlives it and keeps a pipe open would keep us waiting.
    """
    line = Supervision()
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        asked.write(stdin)
        asked.seek(0)
        try:
            process = await asyncio.create_subprocess_exec(
                *line.words(argv, GRACE_SECONDS),
                stdin=asked,
                stdout=out,
                stderr=err,
                env=env,
                cwd=folder,
                start_new_session=True,
                pass_fds=(line.theirs,),
            )
            line.started()
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                line.stop()
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), GRACE_SECONDS + PATIENCE_SECONDS)
                raise
            finally:
                if process.returncode is None:
                    kill_family(process.pid)
            line.raise_start_error()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EACCES, errno.ENOEXEC):
                raise
            raise BadUsage(f"the command {argv[0]!r} cannot be started: {error.strerror}") from None
        finally:
            line.cut()
        said, lost = await in_thread(kept_of, out)
        return _Said(said, (await in_thread(kept_of, err))[0], code, lost)


class HttpAgent:
    """An endpoint: the task as JSON in a POST, `{"answer": …, "usage": …}` or plain text back."""

    meters: frozenset[str] = frozenset({"seconds"})

    def __init__(self, url: str) -> None:
        """Nothing is called yet."""
        self.name = url
        self._client: Any = None

    async def act(self, task: Task, episode: EpisodeHandle) -> Answer:
        """Post the task."""
        import httpx

        if self._client is None:
            # no connection outlives its episode, for the next may be in another event loop; an episode has its own
            # limit, this one is for an endpoint that is gone without a word
            limits = httpx.Limits(max_keepalive_connections=0, max_connections=None)
            self._client = httpx.AsyncClient(timeout=httpx.Timeout(SILENCE_SECONDS, connect=30.0), limits=limits)
        body = {
            "task": task.id,
            "prompt": task.prompt,
            "inputs": task.inputs,
            "seed": episode.seed,
            "attempt": episode.attempt,
            "condition": dict(episode.condition),
        }
        asked = (Message("user", (Text(task.prompt),)),)
        size = 0
        async with leaving(episode.record.model(name="request", input=asked), lambda: size > LARGE) as call:
            try:
                response = await self._client.post(
                    self.name,
                    content=msgspec.json.encode(body, enc_hook=str),
                    headers={"content-type": "application/json"},
                )
            except httpx.TimeoutException as error:
                raise WorldTimeout(str(error) or "the endpoint did not answer in time") from error
            except httpx.TransportError as error:
                raise NetworkFault(str(error) or type(error).__name__) from error
            if response.status_code == 429:
                raise RateLimited("HTTP 429", as_float(response.headers.get("retry-after")))
            if response.status_code >= 500:
                raise NetworkFault(f"HTTP {response.status_code}")
            if response.status_code >= 400:
                raise AgentCrash(f"HTTP {response.status_code}: {response.text[:500]}")
            size = len(response.content)
            read = in_thread(_http_answer, response) if size > LARGE else None
            answer, usage, model = _http_answer(response) if read is None else await read
            call.done(
                clipped(answer.text or "")[0],
                model=model,
                input_tokens=as_int(usage.get("input_tokens", usage.get("prompt_tokens"))),
                output_tokens=as_int(usage.get("output_tokens", usage.get("completion_tokens"))),
                cost_usd=as_float(usage.get("cost_usd")),
            )
        return answer


def _http_answer(response: Any) -> tuple[Answer, dict[str, Any], str | None]:
    """The answer of an endpoint, what it used, and the model that it names, beside the answer or in its usage."""
    if "json" not in response.headers.get("content-type", ""):
        return Answer(response.text), {}, None
    value = response.json()
    top = value if isinstance(value, dict) else {}
    usage = top["usage"] if isinstance(top.get("usage"), dict) else {}
    model = top.get("model", usage.get("model"))
    return answer_of(value), usage, model if isinstance(model, str) else None


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
