"""Requests and replies as JSON documents: decode them, find the words in them, change a few values and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ethogram.capture.parse import as_dict, as_int, as_name, to_json, usage_tokens
from ethogram.traces import Param, ToolCall, digest
from ethogram.wire.gateway.call import RequestEdits, Usage

DocumentPath = tuple[str | int, ...]

LONG_PARAM = 1000
"""A parameter with a longer value (the schema of an answer) is kept as its digest, so that spans stay small."""

_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_raw_list = msgspec.json.Decoder(list[msgspec.Raw])


def json_object(body: bytes, what: str) -> dict[str, Any]:
    """The object in a body; raises `ValueError` that says what was expected."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the body of {what} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"the body of {what} is a {type(value).__name__}, not an object")
    return value


def params_of(document: dict[str, Any], known: Iterable[str]) -> dict[str, Param]:
    """Every setting of a request but the `known` members; lists and objects become JSON text."""
    known = frozenset(known)
    return {name: _param(value) for name, value in document.items() if name not in known}


def _param(value: Any) -> Param:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else to_json(_without_keys(value))
    return text if len(text) <= LONG_PARAM else digest(text)


def _without_keys(value: Any) -> Any:
    """A setting without the credentials that Azure has in it (`authentication`), which no redactor could tell."""
    if isinstance(value, list):
        return [_without_keys(v) for v in value]
    if isinstance(value, dict):
        return {name: _without_keys(v) for name, v in value.items() if name != "authentication"}
    return value


def definitions_of(document: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The definitions of tools as they were sent."""
    tools = document.get("tools")
    return tuple(t for t in tools if isinstance(t, dict)) if isinstance(tools, list) else ()


_USUAL_TIERS = frozenset({"auto", "default", "standard"})


def usage_record(usage: Any, tier: Any = None) -> Usage | None:
    """Token counts in our spelling, with what decides about their rates; None where the provider reported nothing.

    `tier` is what the reply says outside of its usage.
    """
    counts = usage_tokens(usage)
    if all(v is None for v in counts.values()):
        return None
    tier = tier or usage.get("service_tier")
    written = as_int(as_dict(usage.get("cache_creation")).get("ephemeral_1h_input_tokens"))
    return msgspec.structs.replace(
        msgspec.convert(counts, Usage),
        cache_write_1h_tokens=written if written and written > 0 else None,
        service_tier=tier if isinstance(tier, str) and tier not in _USUAL_TIERS else None,
    )


def reply_limit(document: dict[str, Any], *names: str) -> int | None:
    """The most tokens that a client allows an answer; what is less than one is no limit."""
    limits = [value for name in names if isinstance(value := document.get(name), int) and value > 0]
    return max(limits, default=None)


def all_input(usage: Usage) -> int:
    """Fresh input and cache together, as OpenAI counts it."""
    return (usage.input_tokens or 0) + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)


def error_text(error: Any) -> str:
    """What a provider said went wrong: its kind and its words."""
    if not isinstance(error, dict):
        return as_name(error)
    kind = as_name(error.get("type") or error.get("code"))
    words = as_name(error.get("message"))
    return f"{kind}: {words}" if kind and words else words or kind or to_json(error)


def split_error(error: str) -> tuple[str, str]:
    """Kind and words of an error text."""
    kind, mark, words = error.partition(": ")
    return (kind, words) if mark and kind.replace("_", "").isalnum() else ("api_error", error)


def made_id(prefix: str, *parts: Any) -> str:
    """An id for something that has none: the same for the same content."""
    return prefix + digest(to_json(parts)).rpartition(":")[2][:24]


def call_id(call: ToolCall, prefix: str, response_id: str, position: int) -> str:
    """The id of a tool call; one that has none gets one that is unique in its conversation."""
    return call.call_id or made_id(prefix, response_id, position)


def setting_changes(document: dict[str, Any], edits: RequestEdits, limits: Sequence[str]) -> dict[DocumentPath, Any]:
    """The members of a request that edits of its settings change.

    `limits` are the names of the limit of the reply: the one that the request has is set, else the first.
    """
    changes: dict[DocumentPath, Any] = {} if edits.model is None else {("model",): edits.model}
    if edits.seed is not None and "seed" in document:
        changes["seed",] = edits.seed
    if edits.at_most_tokens is not None:
        name = next((n for n in limits if document.get(n) is not None), limits[0])
        own = document.get(name)
        changes[name,] = min(own, edits.at_most_tokens) if isinstance(own, int) else edits.at_most_tokens
    return changes


def content_paths(content: Any) -> list[DocumentPath]:
    """Where the parts stand that `capture.parse.content_parts` makes of a content, in the same order."""
    if content is None or content == "":
        return []
    if not isinstance(content, list) or (content and all(isinstance(c, str) for c in content)):
        return [()]
    return [(k,) for k in range(len(content))]


def reworded(item: Any, words: str) -> tuple[DocumentPath, Any]:
    """Which value inside a part holds its words, and what to put there; raises `ValueError` where there are none."""
    if not isinstance(item, dict):
        return (), words
    if item.get("type") == "tool_result":
        return ("content",), result_content(item.get("content"), words)
    for name in ("text", "thinking", "refusal", "content"):
        if isinstance(item.get(name), str):
            return (name,), words
    raise ValueError(f"a part of type {as_name(item.get('type')) or 'unknown'} has no words to replace")


def result_content(content: Any, words: str) -> Any:
    """The content of a tool result with new words; pictures in it stay."""
    if not isinstance(content, list):
        return words
    others = [c for c in content if isinstance(c, dict) and c.get("type") != "text"]
    return [{"type": "text", "text": words}, *others] if others else words


def spliced(raw: bytes, changes: Mapping[DocumentPath, Any]) -> bytes:
    """A JSON text with the values at some paths replaced or added; all other values keep their very bytes."""
    if not changes:
        return raw
    if () in changes:
        return msgspec.json.encode(changes[()])
    inner: dict[str | int, dict[DocumentPath, Any]] = {}
    for path, value in changes.items():
        inner.setdefault(path[0], {})[path[1:]] = value
    if raw.lstrip()[:1] == b"[":
        items = _raw_list.decode(raw)
        for position, deeper in inner.items():
            items[int(position)] = msgspec.Raw(spliced(bytes(items[int(position)]), deeper))
        return msgspec.json.encode(items)
    members = _raw_object.decode(raw)
    for name, deeper in inner.items():
        members[str(name)] = msgspec.Raw(spliced(bytes(members.get(str(name), b"null")), deeper))
    return msgspec.json.encode(members)


def prepended(raw: bytes, name: str, item: Any) -> bytes:
    """A JSON object with one more item at the beginning of a list in it."""
    members = _raw_object.decode(raw)
    items = _raw_list.decode(members[name])
    members[name] = msgspec.Raw(msgspec.json.encode([msgspec.Raw(msgspec.json.encode(item)), *items]))
    return msgspec.json.encode(members)
