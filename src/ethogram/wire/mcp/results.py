"""Results of MCP tools: as the words of a span, back again, and changed by an operator. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ethogram.capture.parse import to_json
from ethogram.perturbations.tools import Unchanged
from ethogram.wire.gateway.recorded_tools import RecordedCall

from .calls import OURS, McpReply

FACTS = "mcp"
"""Where a span keeps what MCP says beside its words."""


def is_failed(result: Any) -> bool:
    """Whether a tool says that it failed."""
    return isinstance(result, dict) and result.get("isError") is True


def failed_result(message: str) -> dict[str, Any]:
    """The result of a tool that failed."""
    return {"content": [{"type": "text", "text": message}], "isError": True}


def words_and_shape(result: Any) -> tuple[str, Any]:
    """The words of a result, and the rest of it; a result that is more than one text is JSON, and has no rest."""
    texts = _texts(result)
    if len(texts) != 1 or len(result["content"]) != 1:
        return to_json(result), None
    part = {name: value for name, value in result["content"][0].items() if name != "text"}
    return texts[0], {**result, "content": [part]}


def reply_of(call: RecordedCall) -> McpReply:
    """The answer that a recorded call got; one that was not recorded from MCP becomes a text."""
    facts = call.attributes.get(FACTS)
    facts = facts if isinstance(facts, dict) else {}
    if "error" in facts:
        return McpReply(error=facts["error"])
    shape = facts.get("shape")
    if isinstance(shape, dict) and call.result is not None:
        return McpReply(result={**shape, "content": [{**shape["content"][0], "text": call.result}]})
    if facts and call.result is not None:
        return McpReply(result=json.loads(call.result))
    if call.result is None:
        return McpReply(error={"code": OURS, "message": call.error or "the recorded call failed"})
    result = failed_result(call.result) if call.failed else {"content": [{"type": "text", "text": call.result}]}
    return McpReply(result=result)


def altered(result: Any, alter: Callable[[Any], Any]) -> Any:
    """The result with its content changed: structured content and text say the same afterwards.

    Raises `Unchanged` where there is nothing to change. Pictures and other parts stay.
    """
    texts = _texts(result)
    structured = result.get("structuredContent") if isinstance(result, dict) else None
    if isinstance(structured, dict):
        wrapped = list(structured) == ["result"]  # how servers wrap a value that is no object
        new = alter(structured["result"] if wrapped else structured)
        words = [new if isinstance(new, str) else json.dumps(new, ensure_ascii=False)]
        return {**_with_texts(result, words), "structuredContent": {"result": new} if wrapped else new}
    if not texts:
        raise Unchanged("the result has no text")
    if len(texts) == 1:
        new = alter(texts[0])
        return _with_texts(result, [new if isinstance(new, str) else json.dumps(new, ensure_ascii=False)])
    return _with_texts(result, list(alter(texts)))


def _texts(result: Any) -> list[str]:
    content = result.get("content") if isinstance(result, dict) else None
    parts = content if isinstance(content, list) else []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]


def _with_texts(result: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    rest = [p for p in result.get("content") or () if not (isinstance(p, dict) and isinstance(p.get("text"), str))]
    return {**result, "content": [*({"type": "text", "text": text} for text in texts), *rest]}
