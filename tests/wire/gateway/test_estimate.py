"""Tokens counted from words, beside the counts of a real tokenizer."""

from __future__ import annotations

import pytest

from ethogram.traces import File, Message, Reasoning, Text, ToolCall, ToolResult
from ethogram.wire.gateway.call import Alternative, ModelReply, ModelRequest
from ethogram.wire.gateway.protocols import estimated_usage
from ethogram.wire.gateway.protocols.estimate import estimated_tokens

COUNTED = [
    (
        23,
        "The agent reads the order, checks whether the customer paid, "
        "and writes a short answer with the date of delivery.",
    ),
    (
        38,
        "def total(rows: list[dict[str, int]]) -> int:\n"
        '    return sum(row["amount"] for row in rows if not row.get("cancelled"))\n',
    ),
    (
        63,
        '[{"id": 17, "name": "item 17", "price": 23.29, "ok": true}, '
        '{"id": 18, "name": "item 18", "price": 24.66, "ok": false}]',
    ),
    (54, "2026-11-16T20:00:00.123Z INFO [worker-3] request 8f3a9c completed in 0.0231s status=200"),
    (39, "Die Gesellschaft für Datenverarbeitung prüft, ob die Übertragung der personenbezogenen Daten zulässig ist."),
    (35, "我们需要在下一次会议之前完成这个项目的所有文件。"),
]
"""Texts with the number of tokens that the tokenizer of SmolLM2 (the local model) makes of them."""


@pytest.mark.parametrize(("count", "text"), COUNTED, ids=["prose", "code", "json", "log", "german", "chinese"])
def test_the_estimate_is_near_the_count_of_a_tokenizer(count: int, text: str) -> None:
    assert 0.66 <= estimated_tokens(text) / count <= 1.27


def test_usage_of_a_call_counts_everything_that_was_sent_and_answered() -> None:
    words = ModelRequest(protocol="openai-chat", messages=(Message("user", (Text("read it"),)),))
    call = ToolCall("read", '{"path": "a"}', "c")
    more = ModelRequest(
        protocol="openai-chat",
        messages=(*words.messages, Message("assistant", (call,)), Message("tool", (ToolResult("a b c", None, "c"),))),
        tools=({"name": "read"},),
    )
    pictured = ModelRequest(protocol="openai-chat", messages=(Message("user", (File("image/png"),)),))
    reply = ModelReply(message=Message("assistant", (Reasoning("so so"), Text("It is done."))))
    small = estimated_usage(words, reply)
    assert small.estimated
    assert (small.input_tokens, small.output_tokens, small.reasoning_tokens) == (6, 6, 2)
    assert estimated_usage(more, reply).input_tokens > 20
    assert estimated_usage(pictured, reply).input_tokens > 500
    double = ModelReply(message=reply.message, alternatives=(Alternative(reply.message),))
    assert estimated_usage(words, double).output_tokens == 12


def test_input_that_the_provider_keeps_is_unknown() -> None:
    request = ModelRequest(protocol="openai-responses", messages=(Message("user", (Text("go on"),)),), continues="r")
    usage = estimated_usage(request, ModelReply(message=Message("assistant", (Text("ok"),))))
    assert (usage.input_tokens, usage.output_tokens) == (None, 1)
