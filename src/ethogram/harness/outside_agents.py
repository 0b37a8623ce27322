"""Agents outside this process: a command line, which runs under a supervisor, and an HTTP endpoint."""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ethogram.capture.parse import as_float, as_int
from ethogram.errors import BadUsage, NeedsPosix
from ethogram.plans import Task
from ethogram.traces import Message, Text, cut_whole, end_whole
from ethogram.wire.certificates import trusted
from ethogram.wire.recorder import ModelCall

from .agents import AgentCrash, Answer, answer_of
from .faults import NetworkFault, RateLimited, WorldTimeout
from .handle import EpisodeHandle
from .processes import Supervision, clipped, kept_of, kill_family, supervised
from .scratch import scratch_folder
from .supervisor import PATIENCE_SECONDS
from .threads import LARGE, in_thread, leaving

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from .live import EpisodeCapture

GRACE_SECONDS = 5.0
SILENCE_SECONDS = 3600.0
REFUSED_SECONDS = 2.0
"""How long a program whose calls are refused may take to end by itself: it may still write down an answer."""
REFUSED_POLL_SECONDS = 0.2


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
        NeedsPosix.check("an agent that is a command")
        if "/" not in self.argv[0] and shutil.which(self.argv[0]) is None:
            raise BadUsage(f"there is no command {self.argv[0]!r} on this machine")

    async def act(self, task: Task, episode: EpisodeHandle) -> Answer:
        """Run it in the workspace."""
        capture = episode.capture
        with scratch_folder("cmd") as folder:
            task_file, trace_file = folder / "task.json", folder / "trace"
            task_file.write_bytes(msgspec.json.encode(task))
            workspace = episode.workspace or folder
            argv = [self._place(part, workspace).replace("{task}", str(task_file)) for part in self.argv]
            program = workspace / argv[0]
            if "/" in argv[0] and program.is_file() and not os.access(program, os.X_OK):
                raise BadUsage(f"the command {argv[0]!r} cannot be started: {os.strerror(errno.EACCES)}")
            env = {
                **episode.environment,
                **_settings(task, episode),
                "ETHOGRAM_TRACE": str(trace_file),
                "ETHOGRAM_TASK": str(task_file),
            }
            with episode.record.span(self.argv[0], "agent") as span:
                programs = [Path(word).resolve() for word in argv if word.startswith(str(self.folder))]
                folders = list(dict.fromkeys((workspace, folder)))
                isolated = episode.wrap(argv, folders, programs)
                bounds = episode.bounds.over(folders)
                with nullcontext() if capture is None else capture.under(span.span_id):
                    said = await _communicate(isolated, task.prompt.encode(), env, workspace, capture, bounds)
                out, err, code, left_out = said
                span.attributes = {"exit_code": code, "stderr": end_whole(err, 20_000)}
                if left_out:
                    span.truncated = True
                    episode.meta["left_out"] = left_out
                if trace_file.exists() and capture is not None and capture.calls:
                    episode.meta["trace_left_out"] = "its model calls were captured already"
                elif trace_file.exists():
                    from ethogram.wire.agent_logs import graft

                    graft(trace_file, episode.record)
            if code != 0:
                last = err.strip().splitlines()[-1:] or ["no message"]
                raise AgentCrash(f"exit code {code}: {cut_whole(last[0], 500)}", out, end_whole(err, 4000))
        return Answer(out)

    def _place(self, part: str, workspace: Path) -> str:
        """A word of the command; a file beside us that the workspace lacks is named in full."""
        ours = self.folder / part
        return str(ours) if len(part) < 256 and not (workspace / part).exists() and ours.is_file() else part


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


async def _communicate(
    argv: Sequence[str], stdin: bytes, env: dict[str, str], folder: Path, capture: EpisodeCapture | None, bounds: str
) -> _Said:
    """Run a program under a supervisor; when cancelled it is asked to end, then ended. What it started goes with it.

    One whose calls are refused may end by itself; soon it is ended too.
    """
    with supervised(argv, folder=folder, env=env, stdin=stdin, grace=GRACE_SECONDS, bounds=bounds) as program:
        try:
            process = await asyncio.create_subprocess_exec(*program.words, **program.options)
            program.line.started()
            try:
                code = await _end_of(process, program.line, capture)
            except asyncio.CancelledError:
                program.line.stop()
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), GRACE_SECONDS + PATIENCE_SECONDS)
                raise
            finally:
                if process.returncode is None:
                    kill_family(process.pid)
            program.line.raise_start_error()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EACCES, errno.ENOEXEC):
                raise
            raise BadUsage(f"the command {argv[0]!r} cannot be started: {error.strerror}") from None
        finally:
            program.line.cut()
        said, lost = await in_thread(kept_of, program.out)
        return _Said(said, (await in_thread(kept_of, program.err))[0], code, lost)


async def _end_of(process: Process, line: Supervision, capture: EpisodeCapture | None) -> int:
    """Wait for a program; once its calls are refused, not for long."""
    waiting = asyncio.ensure_future(process.wait())
    try:
        while capture is not None and capture.refused is None and not waiting.done():
            await asyncio.wait((waiting,), timeout=REFUSED_POLL_SECONDS)
        if capture is not None:
            await asyncio.wait((waiting,), timeout=REFUSED_SECONDS)
            if not waiting.done():
                line.stop()
        return await waiting
    finally:
        waiting.cancel()


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
            timeout = httpx.Timeout(SILENCE_SECONDS, connect=30.0)
            self._client = httpx.AsyncClient(timeout=timeout, limits=limits, verify=trusted())
        body = {
            "task": task.id,
            "prompt": task.prompt,
            "inputs": task.inputs,
            "seed": episode.seed,
            "attempt": episode.attempt,
            "condition": dict(episode.condition),
        }
        asked = (Message("user", (Text(task.prompt),)),)
        content = msgspec.json.encode(body, enc_hook=str)
        if episode.capture is not None:
            return await self._captured(episode, episode.capture, asked, content)
        size = 0
        async with leaving(episode.record.model(name="request", input=asked), lambda: size > LARGE) as call:
            response = await self._post(content)
            size = len(response.content)
            answer, usage, model = await _read(response)
            _note_usage(call, answer, usage, model)
        return answer

    async def _captured(
        self, episode: EpisodeHandle, capture: EpisodeCapture, asked: tuple[Message, ...], content: bytes
    ) -> Answer:
        """Post the task to a service whose model calls are captured; what it says it used counts only if none was."""
        with episode.record.span("request", "agent", input=asked) as span, capture.under(span.span_id):
            async with capture.registered() as headers:
                response = await self._post(content, headers)
            answer, usage, model = await _read(response)
            span.output = (Message("assistant", (Text(clipped(answer.text or "")[0]),)),)
            if usage and not capture.calls:
                with episode.record.model(name="request", input=asked) as call:
                    _note_usage(call, answer, usage, model)
        return answer

    async def _post(self, content: bytes, headers: Mapping[str, str] | None = None) -> Any:
        """The reply of the endpoint; its failures are typed by whose fault they are."""
        import httpx

        try:
            response = await self._client.post(
                self.name, content=content, headers={"content-type": "application/json", **(headers or {})}
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
            raise AgentCrash(f"HTTP {response.status_code}: {cut_whole(response.text, 500)}")
        return response


def _note_usage(call: ModelCall, answer: Answer, usage: dict[str, Any], model: str | None) -> None:
    """What an endpoint says that it used, as one model call."""
    call.done(
        clipped(answer.text or "")[0],
        model=model,
        input_tokens=as_int(usage.get("input_tokens", usage.get("prompt_tokens"))),
        output_tokens=as_int(usage.get("output_tokens", usage.get("completion_tokens"))),
        cost_usd=as_float(usage.get("cost_usd")),
    )


async def _read(response: Any) -> tuple[Answer, dict[str, Any], str | None]:
    """What an endpoint answered; a long answer is read beside the event loop."""
    if len(response.content) > LARGE:
        return await in_thread(_http_answer, response)
    return _http_answer(response)


def _http_answer(response: Any) -> tuple[Answer, dict[str, Any], str | None]:
    """The answer of an endpoint, what it used, and the model that it names, beside the answer or in its usage."""
    if "json" not in response.headers.get("content-type", ""):
        return Answer(response.text), {}, None
    value = response.json()
    top = value if isinstance(value, dict) else {}
    usage = top["usage"] if isinstance(top.get("usage"), dict) else {}
    model = top.get("model", usage.get("model"))
    return answer_of(value), usage, model if isinstance(model, str) else None
