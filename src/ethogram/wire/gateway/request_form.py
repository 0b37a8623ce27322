"""Requests as replay compares them: redacted, and without what differs between two runs of the same agent.

What takes part: the model's name, every message, the definitions of tools, and every parameter but those of
`IGNORED_PARAMS`. What does not: ids of tool calls (only which result belongs to which call counts), the spelling of
the JSON of arguments, empty parts, the name that a result repeats from its call, and whether the reply is streamed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from hashlib import blake2b
from typing import Any

import msgspec

from ethogram.capture.cleaning import clean_message, clean_params, json_text
from ethogram.capture.draft import without_surrogates
from ethogram.store.redact import Redactor
from ethogram.traces import File, Message, Param, Reasoning, Text, ToolCall, ToolResult, canonical_json

from .call import ModelRequest

IGNORED_PARAMS = frozenset(
    {
        "background",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "response_id",
        "response_model",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "user",
    }
)
"""Parameters that say how a reply is delivered, kept or billed, or that belong to the reply itself."""
LINE_CHARS = 160
DIFF_LINES = 60
CONTEXT_LINES = 2


class MessageForm(msgspec.Struct, frozen=True):
    """A message without its call ids: `digest` of its content, `calls` its ids in order, `lines` to show it."""

    digest: bytes
    calls: tuple[str | None, ...]
    lines: tuple[str, ...]


class RequestForm(msgspec.Struct, frozen=True):
    """A request in the form that is compared; `tools` and `params` are None where a record does not tell them."""

    model: str | None
    messages: tuple[MessageForm, ...]
    tools: tuple[str, ...] | None = None
    params: tuple[tuple[str, str], ...] | None = None

    @property
    def words(self) -> str:
        """The digest of the messages and of which result belongs to which call."""
        hashed = blake2b(digest_size=16)
        for message in self.messages:
            hashed.update(message.digest)
        numbers: dict[str | None, int] = {None: -1}
        for call in (c for m in self.messages for c in m.calls):
            hashed.update(numbers.setdefault(call, len(numbers)).to_bytes(4, "big", signed=True))
        return hashed.hexdigest()

    def same_settings(self, live: RequestForm) -> bool:
        """Whether a live request asks the same model, with the same tools and parameters as far as they are known.

        A record that did not pass the gateway may name the model that answered: a dated name of the one asked for.
        """
        if self.params is None:
            return self.model is None or _same_model(self.model, live.model or "")
        return (self.model, self.params) == (live.model, live.params) and self.tools in (None, live.tools)

    def lines(self) -> list[str]:
        """The request in lines that can be compared and read."""
        shown = [f"model {self.model}"]
        shown += [f"{name} = {value}" for name, value in self.params or ()]
        shown += [f"tool definition {tool}" for tool in self.tools or ()]
        for message in self.messages:
            shown += message.lines
        return [piece for line in shown for piece in _pieces(line)]

    def alike(self, other: RequestForm) -> float:
        """How much of two requests is the same from their start, from 0 to 1; for choosing what to show."""
        pairs = zip(self.messages, other.messages, strict=False)
        common = 0
        for mine, theirs in pairs:
            if mine.digest != theirs.digest:
                break
            common += 1
        return (common + 1) / (max(len(self.messages), len(other.messages)) + 1)


def message_form(message: Message) -> MessageForm:
    """The form of a message that was redacted already."""
    content: list[Any] = [message.role, message.name]
    calls: list[str | None] = []
    lines = [f"[{message.role}]" if message.name is None else f"[{message.role} {message.name}]"]
    for part in message.parts:
        match part:
            case Text() | Reasoning() if not part.text:
                continue
            case Text():
                content.append(["text", part.text])
                lines += part.text.splitlines()
            case Reasoning():
                content.append(["reasoning", part.text])
                lines += [f"(reasoning) {line}" for line in part.text.splitlines()]
            case ToolCall():
                arguments = canonical_json(part.arguments)
                content.append(["call", part.name, arguments])
                calls.append(part.call_id)
                lines.append(f"call {part.name} {arguments}")
            case ToolResult():
                content.append(["result", part.content, part.failed])
                calls.append(part.call_id)
                words = "failed" if part.failed else "result"
                lines += [f"{words}: {line}" for line in part.content.splitlines() or [""]]
            case File():
                content.append(["file", part.media_type, part.uri, part.digest])
                lines.append(f"file {part.media_type} {part.uri or part.digest or ''}")
    return MessageForm(blake2b(json_text(content).encode(), digest_size=16).digest(), tuple(calls), tuple(lines))


def params_form(params: Mapping[str, Param]) -> tuple[tuple[str, str], ...]:
    """The parameters that take part, sorted; 1.0 and 1 are the same number."""
    kept = {n: v for n, v in params.items() if n not in IGNORED_PARAMS and v is not None}
    return tuple(sorted((name, _value(value)) for name, value in kept.items()))


def tools_form(tools: Sequence[Any]) -> tuple[str, ...]:
    """Definitions of tools as JSON, in the order in which they were sent."""
    return tuple(json_text(tool) for tool in tools)


class LiveForms:
    """Makes the forms of live requests: everything passes the redactor as it did when the trace was written."""

    def __init__(self, redactor: Redactor) -> None:
        """`redactor` has the key and the policy of the run that holds the trace."""
        self._redactor = redactor
        self._known: dict[Message, MessageForm] = {}
        self._tools: dict[str, tuple[str, ...]] = {}

    def of(self, request: ModelRequest) -> RequestForm:
        """The form of a live request."""
        return RequestForm(
            self._clean(request.model or "", "name") or None,
            tuple([self._message(m) for m in request.messages]),
            self._definitions(request.tools),
            params_form(clean_params(request.params, self._clean)),
        )

    def remember(self, message: Message) -> None:
        """A message that was served: the agent sends it back, and it was stored under the policy of outputs."""
        self._known[message] = message_form(message)

    def _message(self, message: Message) -> MessageForm:
        known = self._known.get(message)
        if known is None:
            known = message_form(clean_message(message, lambda words: self._clean(words, "input")))
            self._known[message] = known
        return known

    def _definitions(self, tools: Sequence[dict[str, Any]]) -> tuple[str, ...]:
        """Definitions, redacted together as they are stored."""
        text = json_text({"tools": list(tools)})
        if text not in self._tools:
            self._tools[text] = tools_of(self._clean(text, "attributes")) or ()
        return self._tools[text]

    def _clean(self, value: str, field: str) -> str:
        return self._redactor.redact(without_surrogates(value), field).text if value else ""


def tools_of(attributes: str) -> tuple[str, ...] | None:
    """The definitions of tools in the stored attributes of a call; None where these cannot be read."""
    try:
        decoded = msgspec.json.decode(attributes)
    except msgspec.DecodeError:  # redaction replaced the whole text
        return None
    return tools_form(decoded.get("tools") or ()) if isinstance(decoded, dict) else None


def request_diff(recorded: RequestForm | None, live: RequestForm, step: int) -> str:
    """What differs, as a unified diff; empty without a recorded request."""
    if recorded is None:
        return ""
    if live.params is not None and recorded.params is None:
        live = msgspec.structs.replace(live, params=None, tools=None)
    lines = list(
        unified_diff(recorded.lines(), live.lines(), f"recorded, step {step}", "live", n=CONTEXT_LINES, lineterm="")
    )
    if not lines:  # the same words, but results belong to other calls
        return "the same messages, but tool results answer other calls"
    left_out = len(lines) - DIFF_LINES
    return "\n".join(lines[:DIFF_LINES] + ([f"… {left_out} more lines"] if left_out > 0 else []))


def _same_model(first: str, second: str) -> bool:
    short, long = sorted((first, second), key=len)
    return short == long or (long.startswith(f"{short}-") and long[len(short) + 1 :][:1].isdigit())


def _value(value: Param) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json_text(value)


def _pieces(line: str) -> list[str]:
    """A long line cut into pieces, so that a difference far inside it is still shown."""
    return [line[at : at + LINE_CHARS] for at in range(0, max(len(line), 1), LINE_CHARS)]
