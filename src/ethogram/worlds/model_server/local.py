"""The local model as a chat model with tools: every request of a client becomes one constrained reply.

A model of this size does not write tool calls by itself. Where a request brings tools, the reply is constrained to a
JSON schema of the calls that they allow, and `answer` for words; the call in it is what the client gets.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import Any

import msgspec

from ethogram.harness.faults import NetworkFault
from ethogram.plans import derived_seed
from ethogram.traces import Message, Part, Text, ToolCall, ToolResult, digest
from ethogram.wire.gateway.call import ModelReply, ModelRequest, Usage
from ethogram.worlds.local_model import MAX_REPLY, ModelRefusal, chat

from .scripted import ReplyError

ANSWER = "answer"
TEMPERATURE = 0.4
"""For clients that give none. Providers take 1, at which a model of this size rarely finishes a task."""
MAX_WORDS = 32
"""Tokens of a reply without tools, where the client sets no limit: a model of this size does not find an end."""
LONGEST_STRING = 60
"""Characters of a string argument that its tool does not limit: a small model may never close a quotation."""


class ToolDefinition(msgspec.Struct, frozen=True):
    """A tool that a request offers, whichever API it came by."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}


class LocalReply:
    """Answers requests with the local model, the same way for the same seed.

    A client that gives no seed gets one derived from ours, from the request, and from how often that request was
    seen before: asking again draws again.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, request: ModelRequest) -> ModelReply:
        """One reply.

        Raises:
            ReplyError: the model refused the request, for example because it is too long.
        """
        tools = allowed_tools(request)
        body: dict[str, Any] = {
            "messages": plain_messages(request.messages, tools),
            "max_tokens": request.at_most_tokens or (MAX_REPLY if tools else MAX_WORDS),
            "temperature": request.params.get("temperature", TEMPERATURE),
            "seed": self._seed_for(request),
        }
        schema = call_schema(tools, words=_tool_choice(request) == "auto") if tools else None
        try:
            made = chat(body, schema)
        except ModelRefusal as error:
            raise ReplyError(400, str(error), kind="invalid_request_error") from error
        except NetworkFault as error:
            raise ReplyError(503, str(error), kind="overloaded_error") from error
        choice = made["choices"][0]
        part = call_or_words(choice["message"]["content"]) if tools else Text(choice["message"]["content"])
        usage = made["usage"]
        return ModelReply(
            message=Message("assistant", (part,)),
            # how much of the prompt llama.cpp still held depends on timing, so none of it is told as cached
            usage=Usage(input_tokens=usage["prompt_tokens"], output_tokens=usage["completion_tokens"]),
        )

    def _seed_for(self, request: ModelRequest) -> int:
        given = request.params.get("seed")
        if isinstance(given, int):
            return given % 2**31
        key = digest("request", msgspec.json.encode((request.messages, request.tools, request.params)))
        with self._lock:
            before = self._seen[key]
            self._seen[key] += 1
        return derived_seed(self.seed, f"{key}-{before}") % 2**31


def allowed_tools(request: ModelRequest) -> list[ToolDefinition]:
    """The tools that the reply may call: all that were offered, unless `tool_choice` names one or none."""
    offered = [tool for definition in request.tools if (tool := tool_definition(definition)) is not None]
    choice = _tool_choice(request)
    if choice == "none":
        return []
    return [tool for tool in offered if tool.name == choice] or offered


def tool_definition(definition: dict[str, Any]) -> ToolDefinition | None:
    """A tool as any of the three APIs spells it; None for tools of the provider's own, which have no schema."""
    inner = definition.get("function", definition)
    schema = inner.get("parameters", inner.get("input_schema"))
    if not isinstance(schema, dict) or not isinstance(inner.get("name"), str):
        return None
    return ToolDefinition(inner["name"], str(inner.get("description") or ""), schema)


def _tool_choice(request: ModelRequest) -> str:
    """`auto`, `none`, `required`, or the name of a tool."""
    given = request.params.get("tool_choice")
    if not isinstance(given, str) or not given.startswith("{"):
        return str(given or "auto")
    choice = msgspec.json.decode(given)
    named = choice.get("name") or choice.get("function", {}).get("name")
    return str(named or {"any": "required"}.get(choice.get("type"), choice.get("type", "auto")))


def call_schema(tools: list[ToolDefinition], *, words: bool) -> dict[str, Any]:
    """All replies that are possible: one object per tool, and one for words where these are allowed."""
    offered = [_call_object(tool) for tool in tools]
    if words:
        offered.append(_call_object(ToolDefinition(ANSWER, "", {"properties": {"text": {"type": "string"}}})))
    shared = {name: value for tool in tools for name, value in tool.schema.get("$defs", {}).items()}
    return {"oneOf": offered, **({"$defs": shared} if shared else {})}


def _call_object(tool: ToolDefinition) -> dict[str, Any]:
    properties = {name: _bounded(value) for name, value in tool.schema.get("properties", {}).items()}
    return {
        "type": "object",
        "properties": {"tool": {"const": tool.name}, **properties},
        "required": ["tool", *tool.schema.get("required", properties)],
        "additionalProperties": False,
    }


def _bounded(schema: Any) -> Any:
    if (
        isinstance(schema, dict)
        and schema.get("type") == "string"
        and not {"enum", "const", "maxLength"} & schema.keys()
    ):
        return {**schema, "maxLength": LONGEST_STRING}
    return schema


def plain_messages(messages: tuple[Message, ...], tools: list[ToolDefinition]) -> list[dict[str, str]]:
    """A conversation in the words that the model was given in its system prompt: calls as JSON, results as text."""
    system = [m.text for m in messages if m.role == "system"]
    if tools:
        system.append(_instructions(tools))
    plain = [{"role": "system", "content": "\n".join(system)}] if system else []
    for message in messages:
        if message.role != "system":
            role = "assistant" if message.role == "assistant" else "user"
            plain.append({"role": role, "content": "\n".join(filter(None, map(_words, message.parts)))})
    return plain


def _words(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case ToolCall(name, arguments):
            return _spaced({"tool": name, **_object(arguments)})
        case ToolResult(content):
            return f"result: {content}"
        case _:
            return ""  # thinking and files: the model can do nothing with them


def _spaced(call: dict[str, Any]) -> str:
    """A call as the grammar lets the model write it."""
    return json.dumps(call, ensure_ascii=False)


def _object(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _instructions(tools: list[ToolDefinition]) -> str:
    """What the tools are, and one conversation as an example: without it a model of this size answers at once."""
    lines = ["Reply with one JSON call at a time.", "Tools:"]
    for tool in tools:
        does = (tool.description.strip().splitlines() or [""])[0]
        lines.append(f"- {tool.name}({', '.join(tool.schema.get('properties', {}))}): {does}")
    example = {"tool": tools[0].name, **dict.fromkeys(tools[0].schema.get("properties", {}), "...")}
    return "\n".join(
        [
            *lines,
            f"- {ANSWER}(text): give the final answer",
            "Example:",
            f"assistant: {_spaced(example)}",
            "user: result: 17",
            f"assistant: {_spaced({'tool': ANSWER, 'text': '17'})}",
            "Repeat the last result exactly in your answer.",
        ]
    )


def call_or_words(text: str) -> Part:
    """The call in a constrained reply, or its words; one that was cut off by the token limit is words."""
    call = _object(text)
    name = call.pop("tool", None)
    if not isinstance(name, str):
        return Text(text)
    return Text(str(call.get("text", ""))) if name == ANSWER else ToolCall(name, msgspec.json.encode(call).decode())
