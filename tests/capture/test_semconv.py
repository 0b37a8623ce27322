"""Every dialect of attributes gives the same draft."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ethogram.capture.draft import Draft
from ethogram.capture.semconv import Understood, understand
from ethogram.capture.telemetry.kinds import open_span
from ethogram.capture.telemetry.messages import last_words, messages_of
from ethogram.capture.telemetry.span_attributes import Bag, flat, nest
from ethogram.capture.telemetry.spans import RawEvent, RawSpan
from ethogram.capture.telemetry.usage import langfuse_tokens, take_cost, take_tokens
from ethogram.traces import File, Message, Reasoning, Text, ToolCall, ToolResult


def read(attributes: dict[str, Any], *, name: str = "s", events: list[RawEvent] | None = None, **more: Any) -> Draft:
    return understood(attributes, name=name, events=events, **more).draft


def understood(
    attributes: dict[str, Any], *, name: str = "s", events: list[RawEvent] | None = None, **more: Any
) -> Understood:
    return understand(open_span(RawSpan(name=name, attributes=attributes, events=events or [], **more), []))


SYSTEM = Message("system", (Text("Be kind."),))
ASKED = Message("user", (Text("Weather in Oslo?"),))
CALLED = Message("assistant", (ToolCall("weather", '{"city":"Oslo"}', "c1"),))
ANSWERED = Message("tool", (ToolResult("rain", None, "c1"),))
SAID = Message("assistant", (Text("It rains."),))

OTEL_INPUT = [
    {"role": "user", "parts": [{"type": "text", "content": "Weather in Oslo?"}]},
    {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Oslo"}}],
    },
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "rain"}]},
]
OTEL_OUTPUT = [{"role": "assistant", "parts": [{"type": "text", "content": "It rains."}], "finish_reason": "stop"}]

NEW = {
    "gen_ai.operation.name": "chat",
    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be kind."}]),
    "gen_ai.input.messages": json.dumps(OTEL_INPUT),
    "gen_ai.output.messages": json.dumps(OTEL_OUTPUT),
}
STRUCTURED = {
    "gen_ai.operation.name": "chat",
    "gen_ai.system_instructions": [{"type": "text", "content": "Be kind."}],
    "gen_ai.input.messages": OTEL_INPUT,
    "gen_ai.output.messages": OTEL_OUTPUT,
}
TRACELOOP = {
    "gen_ai.system": "openai",
    "llm.request.type": "chat",
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "Be kind.",
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": json.dumps([{"type": "text", "text": "Weather in Oslo?"}]),
    "gen_ai.prompt.2.role": "assistant",
    "gen_ai.prompt.2.tool_calls.0.id": "c1",
    "gen_ai.prompt.2.tool_calls.0.name": "weather",
    "gen_ai.prompt.2.tool_calls.0.arguments": '{"city":"Oslo"}',
    "gen_ai.prompt.3.role": "tool",
    "gen_ai.prompt.3.tool_call_id": "c1",
    "gen_ai.prompt.3.content": "rain",
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "It rains.",
    "gen_ai.completion.0.finish_reason": "stop",
}
OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": "Be kind.",
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.contents.0.message_content.type": "text",
    "llm.input_messages.1.message.contents.0.message_content.text": "Weather in Oslo?",
    "llm.input_messages.2.message.role": "assistant",
    "llm.input_messages.2.message.tool_calls.0.tool_call.id": "c1",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.name": "weather",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments": '{"city":"Oslo"}',
    "llm.input_messages.3.message.role": "tool",
    "llm.input_messages.3.message.tool_call_id": "c1",
    "llm.input_messages.3.message.content": "rain",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "It rains.",
    "llm.finish_reason": "stop",
}
NESTED = {
    "openinference": {"span": {"kind": "LLM"}},
    "llm": {
        "finish_reason": "stop",
        "input_messages": [
            {"message": {"role": "system", "content": "Be kind."}},
            {"message": {"role": "user", "content": "Weather in Oslo?"}},
            {
                "message": {
                    "role": "assistant",
                    "tool_calls": [
                        {"tool_call": {"id": "c1", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}}
                    ],
                }
            },
            {"message": {"role": "tool", "tool_call_id": "c1", "content": "rain"}},
        ],
        "output_messages": [{"message": {"role": "assistant", "content": "It rains."}}],
    },
}
RAW = {
    "openinference.span.kind": "LLM",
    "input.value": json.dumps(
        {
            "temperature": 0.5,
            "messages": [
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": "Weather in Oslo?"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "c1", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "rain"},
            ],
        }
    ),
    "output.value": json.dumps(
        {"id": "r", "choices": [{"message": {"role": "assistant", "content": "It rains."}, "finish_reason": "stop"}]}
    ),
}
LISTED: list[dict[str, Any]] = [
    {"event.name": "gen_ai.system.message", "role": "system", "content": "Be kind."},
    {"event.name": "gen_ai.user.message", "content": "Weather in Oslo?"},
    {
        "event.name": "gen_ai.assistant.message",
        "tool_calls": [{"id": "c1", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}],
    },
    {"event.name": "gen_ai.tool.message", "id": "c1", "content": "rain"},
    {"event.name": "gen_ai.choice", "index": 0, "finish_reason": "stop", "message": {"content": "It rains."}},
]
PACKED = {"gen_ai.operation.name": "chat", "events": json.dumps(LISTED)}


@pytest.mark.parametrize("attributes", [NEW, STRUCTURED, TRACELOOP, OPENINFERENCE, NESTED, RAW, PACKED])
def test_messages_of_every_dialect_are_the_same(attributes: dict[str, Any]) -> None:
    draft = read(attributes)
    assert draft.kind == "model"
    assert list(draft.input) == [SYSTEM, ASKED, CALLED, ANSWERED]
    assert list(draft.output) == [SAID]
    assert draft.stop_reason == "stop"
    left = [k for k in draft.attributes if "messages" in k or ".prompt" in k or ".completion" in k or k == "events"]
    assert left == []


def test_messages_of_span_events() -> None:
    events = [RawEvent(e["event.name"], None, {k: v for k, v in e.items() if k != "event.name"}) for e in LISTED]
    events[2].attributes["tool_calls"] = json.dumps(events[2].attributes["tool_calls"])
    events[4].attributes["message"] = json.dumps(events[4].attributes["message"])
    events.append(RawEvent("cache.hit", 7, {"n": 1}))
    draft = read({"gen_ai.system": "openai", "gen_ai.operation.name": "chat"}, events=events)
    assert list(draft.input) == [SYSTEM, ASKED, CALLED, ANSWERED]
    assert list(draft.output) == [SAID]
    assert draft.stop_reason == "stop"
    assert draft.attributes["otel.events"] == [{"name": "cache.hit", "time_ns": 7, "attributes": {"n": 1}}]


def test_content_events_and_details_events() -> None:
    events = [
        RawEvent("gen_ai.content.prompt", None, {"gen_ai.prompt": json.dumps([{"role": "user", "content": "hi"}])}),
        RawEvent("gen_ai.content.completion", None, {"gen_ai.completion": "hello"}),
    ]
    draft = read({"gen_ai.operation.name": "chat"}, events=events)
    assert [m.text for m in draft.input] == ["hi"]
    assert list(draft.output) == [Message("assistant", (Text("hello"),))]
    details = RawEvent("gen_ai.client.inference.operation.details", None, {"gen_ai.input.messages": OTEL_INPUT})
    draft = read({"gen_ai.operation.name": "chat"}, events=[details])
    assert list(draft.input) == [ASKED, CALLED, ANSWERED]
    assert "otel.events" not in draft.attributes


def test_the_same_messages_in_two_dialects_are_read_once_and_counted() -> None:
    result = understood({**NEW, **OPENINFERENCE})
    assert list(result.draft.input) == [SYSTEM, ASKED, CALLED, ANSWERED]
    assert result.lost == {"messages (the same in a second dialect)": 2}


def test_what_a_raw_request_says_beside_its_messages_is_kept() -> None:
    draft = read(RAW)
    assert draft.attributes["input.value"] == {"temperature": 0.5}
    assert draft.attributes["output.value"] == {"id": "r"}
    draft = read({"openinference.span.kind": "LLM", "input.value": "tell me", "output.value": "no", "x": "tell me"})
    assert [m.text for m in draft.input] == ["tell me"]
    assert [m.text for m in draft.output] == ["no"]
    assert draft.attributes == {}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('"quoted"', [Message("user", (Text("quoted"),))]),
        ("[not json", [Message("user", (Text("[not json"),))]),
        ('{"city": "Oslo"}', [Message("user", (Text('{"city": "Oslo"}'),))]),
        ([["a", "b"]], [Message("user", (Text("a"),)), Message("user", (Text("b"),))]),
        ({"prompt": "hey"}, [Message("user", (Text("hey"),))]),
        (
            {"system": "Be kind.", "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
            [SYSTEM, Message("user", (Text("hi"),))],
        ),
        (
            {
                "config": {"system_instruction": "Be kind."},
                "contents": [
                    {"role": "user", "parts": [{"text": "hi"}]},
                    {"role": "model", "parts": [{"function_call": {"name": "f", "args": {"a": 1}}}]},
                    {"role": "user", "parts": [{"function_response": {"name": "f", "response": {"b": 2}}}]},
                    {"role": "model", "parts": [{"text": "hm", "thought": True}]},
                ],
            },
            [
                SYSTEM,
                Message("user", (Text("hi"),)),
                Message("assistant", (ToolCall("f", '{"a":1}'),)),
                Message("tool", (ToolResult('{"b":2}', "f"),)),
                Message("assistant", (Reasoning("hm"),)),
            ],
        ),
        (
            {"messages": [[{"type": "human", "content": "hi"}, {"type": "ai", "content": "", "tool_calls": [
                {"name": "f", "args": {}, "id": "x"}]}, {"type": "tool", "content": "ok", "tool_call_id": "x"}]]},
            [
                Message("user", (Text("hi"),)),
                Message("assistant", (ToolCall("f", "{}", "x"),)),
                Message("tool", (ToolResult("ok", None, "x"),)),
            ],
        ),
        (
            [{"lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"], "kwargs": {"content": "hi"}}],
            [Message("user", (Text("hi"),))],
        ),
        (
            {"input": [
                {"role": "user", "content": "hi"},
                {"type": "reasoning", "summary": [{"text": "hm"}]},
                {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "x"},
                {"type": "function_call_output", "call_id": "x", "output": "ok"},
            ], "instructions": "Be kind."},
            [
                SYSTEM,
                Message("user", (Text("hi"),)),
                Message("assistant", (Reasoning("hm"),)),
                Message("assistant", (ToolCall("f", "{}", "x"),)),
                Message("tool", (ToolResult("ok", None, "x"),)),
            ],
        ),
        (
            [{"toolCallId": "x", "toolName": "f", "input": {"a": 1}}],
            [Message("assistant", (ToolCall("f", '{"a":1}', "x"),))],
        ),
        ([{"odd": 1}], [Message("user", (Text('{"odd":1}'),))]),
        (7, [Message("user", (Text("7"),))]),
        (None, []),
        ([], []),
    ],
)  # fmt: skip
def test_requests_of_many_makers(value: Any, expected: list[Message]) -> None:
    assert messages_of(value, "user") == expected


def test_responses_of_many_makers() -> None:
    said = [Message("assistant", (Text("yes"),))]
    for value in (
        {"choices": [{"message": {"role": "assistant", "content": "yes"}}]},
        {"choices": [{"text": "yes"}]},
        {"content": [{"type": "text", "text": "yes"}], "id": "m", "type": "x"},
        {"role": "assistant", "type": "message", "content": [{"type": "text", "text": "yes"}]},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "yes"}]}}]},
        {"generations": [[{"text": "yes", "message": {"type": "ai", "content": "yes"}}]]},
        {"output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]}]},
        {"content": {"role": "model", "parts": [{"text": "yes"}]}, "finish_reason": "STOP"},
        json.dumps({"completion": "yes"}),
    ):
        assert messages_of(value, "assistant") == said, value
    assert (
        last_words({"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "yes"}]}) == "yes"
    )
    assert last_words('{"n": 1}') == '{"n": 1}'


def test_parts_that_only_telemetry_has() -> None:
    blob = "A" * 400
    parts = [
        {"type": "uri", "mime_type": "image/png", "uri": "https://x/y.png"},
        {"type": "image-url", "url": "https://x/z.png"},
        {"type": "blob", "mime_type": "image/png", "content": blob},
        {"type": "server_tool_call", "id": "s", "name": "search", "server_tool_call": {"q": "x"}},
        {"type": "server_tool_call_response", "id": "s", "server_tool_call_response": {"hits": 2}},
        {"type": "tool_call_response", "id": "t", "result": [{"type": "text", "text": "a"}], "is_error": True},
        {"type": "tool-result", "toolCallId": "t", "toolName": "f", "output": {"type": "json", "value": {"a": 1}}},
        {"type": "generic", "x": 1},
        {"type": "image", "image": {"image": {"url": "https://x/i.png"}}},
    ]
    found = messages_of([{"role": "assistant", "parts": parts}], "assistant")[0].parts
    assert found[0] == File("image/png", "https://x/y.png")
    assert found[1] == File("image", "https://x/z.png")
    assert isinstance(found[2], File)
    assert (found[2].uri, found[2].size) == ("", 300)
    assert found[3] == ToolCall("search", '{"q":"x"}', "s")
    assert found[4] == ToolResult('{"hits":2}', None, "s")
    assert found[5] == ToolResult("a", None, "t", failed=True)
    assert found[6] == ToolResult('{"a":1}', "f", "t")
    assert found[7] == Text('{"type":"generic","x":1}')
    assert found[8] == File("image", "https://x/i.png")


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (
            {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.cache_read.input_tokens": 60,
             "gen_ai.usage.cache_write.input_tokens": 10, "gen_ai.usage.output_tokens": 9,
             "gen_ai.usage.reasoning.output_tokens": 4},
            (30, 60, 10, 9, 4),
        ),
        ({"gen_ai.usage.prompt_tokens": "7", "gen_ai.usage.completion_tokens": "3"}, (7, None, None, 3, None)),
        (
            {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.cache_creation.input_tokens": 40,
             "gen_ai.usage.reasoning_tokens": 2, "gen_ai.usage.output_tokens": 5},
            (60, None, 40, 5, 2),
        ),
        (
            {"gen_ai.usage.input_tokens": 5, "gen_ai.usage.cache_read_input_tokens": 60,
             "gen_ai.usage.cache_creation_input_tokens": 3},
            (5, 60, 3, None, None),
        ),
        (
            {"gen_ai.aggregated_usage.input_tokens": 9, "gen_ai.aggregated_usage.output_tokens": 2,
             "gen_ai.aggregated_usage.details.reasoning_tokens": 1},
            (9, None, None, 2, 1),
        ),
        (
            {"llm.token_count.prompt": "50", "llm.token_count.completion": "8", "llm.token_count.total": "58",
             "llm.token_count.prompt_details.cache_read": "20", "llm.token_count.prompt_details.cache_write": "5",
             "llm.token_count.completion_details.reasoning": "3"},
            (25, 20, 5, 8, 3),
        ),
        ({"ai.usage.promptTokens": 4, "ai.usage.completionTokens": 1}, (4, None, None, 1, None)),
        (
            {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5, "gen_ai.usage.reasoning_tokens": 20},
            (10, None, None, 25, 20),
        ),
        (
            {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 50, "gen_ai.usage.reasoning_tokens": 20,
             "gen_ai.usage.total_tokens": 80},
            (10, None, None, 70, 20),
        ),
        (
            {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.cache_read.input_tokens": 60,
             "gen_ai.usage.output_tokens": 5, "gen_ai.usage.total_tokens": 165},
            (100, 60, None, 5, None),
        ),
        ({"other": 1}, (None, None, None, None, None)),
    ],
)  # fmt: skip
def test_tokens_in_every_spelling(attributes: dict[str, Any], expected: tuple[int | None, ...]) -> None:
    draft = read({"gen_ai.operation.name": "chat", **attributes})
    found = (
        draft.input_tokens,
        draft.cache_read_tokens,
        draft.cache_write_tokens,
        draft.output_tokens,
        draft.reasoning_tokens,
    )
    assert found == expected
    assert [k for k in draft.attributes if "usage" in k or "token" in k] == []


def test_counts_that_disagree_or_are_none_stay_in_the_attributes() -> None:
    bag = Bag({"gen_ai.usage.input_tokens": 5, "gen_ai.usage.prompt_tokens": 6, "gen_ai.usage.output_tokens": "many"})
    assert take_tokens(bag)["input_tokens"] == 5
    assert bag.rest == {"gen_ai.usage.prompt_tokens": 6, "gen_ai.usage.output_tokens": "many"}
    bag = Bag({"llm.token_count.prompt": 5, "llm.token_count.total": 90})
    assert take_tokens(bag)["input_tokens"] == 5
    assert bag.rest == {"llm.token_count.total": 90}


def test_langfuse_buckets_exclude_each_other_unless_the_total_says_otherwise() -> None:
    apart, left = langfuse_tokens({"input": 10, "input_cache_read": 90, "output": 5, "total": 105, "input_audio": 0})
    assert (apart["input_tokens"], apart["cache_read_tokens"], left) == (10, 90, {})
    within, _ = langfuse_tokens({"input": 100, "prompt_details.cache_read": 90, "output": 5, "total": 105})
    assert (within["input_tokens"], within["cache_read_tokens"]) == (10, 90)
    thinking, left = langfuse_tokens({"input": 10, "output": 5, "total": 40})
    assert (thinking["output_tokens"], left) == (5, {"total": 40})
    thinking, left = langfuse_tokens({"input": 10, "output": 5, "output_reasoning": 25, "total": 40})
    assert (thinking["output_tokens"], thinking["reasoning_tokens"], left) == (30, 25, {})


def test_cost() -> None:
    assert take_cost(Bag({"gen_ai.usage.cost": "0.5"})) == 0.5
    assert take_cost(Bag({"llm.cost.total": 0.25, "llm.cost.prompt": 0.1})) == 0.25
    assert take_cost(Bag({"llm.cost.prompt": 0.1, "llm.cost.completion": 0.2})) == pytest.approx(0.3)
    assert take_cost(Bag({"operation.cost": 0.1})) == 0.1
    assert take_cost(Bag({})) is None


@pytest.mark.parametrize(
    ("attributes", "name", "kind"),
    [
        ({"gen_ai.operation.name": "chat"}, "", "model"),
        ({"gen_ai.operation.name": "text_completion"}, "", "model"),
        ({"gen_ai.operation.name": "generate_content"}, "", "model"),
        ({"gen_ai.operation.name": "embeddings", "gen_ai.usage.input_tokens": 3}, "", "other"),
        ({"gen_ai.operation.name": "retrieval"}, "", "retrieval"),
        ({"gen_ai.operation.name": "execute_tool"}, "", "tool"),
        ({"gen_ai.operation.name": "invoke_agent"}, "", "agent"),
        ({"gen_ai.operation.name": "invoke_workflow"}, "", "agent"),
        ({"gen_ai.operation.name": "create_agent"}, "", "other"),
        ({"gen_ai.operation.name": "search_memory"}, "", "memory"),
        ({"gen_ai.operation.name": "create_memory_store"}, "", "memory"),
        ({"gen_ai.operation.name": "never heard of", "gen_ai.tool.name": "t"}, "", "tool"),
        ({"openinference.span.kind": "LLM"}, "", "model"),
        ({"openinference.span.kind": "TOOL"}, "", "tool"),
        ({"openinference.span.kind": "TOOL"}, "handoff to bob", "handoff"),
        ({"openinference.span.kind": "AGENT"}, "", "agent"),
        ({"openinference.span.kind": "CHAIN"}, "", "other"),
        ({"openinference.span.kind": "RETRIEVER"}, "", "retrieval"),
        ({"openinference.span.kind": "RERANKER"}, "", "retrieval"),
        ({"openinference.span.kind": "EMBEDDING"}, "", "other"),
        ({"openinference.span.kind": "GUARDRAIL"}, "", "judge"),
        ({"openinference.span.kind": "EVALUATOR"}, "", "judge"),
        ({"openinference.span.kind": 7}, "", "other"),
        ({"traceloop.span.kind": "workflow"}, "", "agent"),
        ({"traceloop.span.kind": "task"}, "", "other"),
        ({"traceloop.span.kind": "tool"}, "", "tool"),
        ({"llm.request.type": "chat"}, "", "model"),
        ({"llm.request.type": "rerank"}, "", "retrieval"),
        ({"ai.operationId": "ai.generateText"}, "", "other"),
        ({"ai.operationId": "ai.generateText.doGenerate"}, "", "model"),
        ({"ai.operationId": "ai.streamText.doStream"}, "", "model"),
        ({"ai.operationId": "ai.toolCall"}, "", "tool"),
        ({"mlflow.spanType": "CHAT_MODEL"}, "", "model"),
        ({"langsmith.span.kind": "llm"}, "", "model"),
        ({"langfuse.observation.type": "span", "gen_ai.tool.name": "t"}, "", "tool"),
        ({"tool.name": "t"}, "", "tool"),
        ({"gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 1}, "", "model"),
        ({"gen_ai.request.model": "m"}, "", "other"),
        ({"gen_ai.aggregated_usage.input_tokens": 1}, "", "agent"),
        ({"http.method": "GET"}, "", "other"),
        ({"ethogram.kind": "user", "openinference.span.kind": "LLM"}, "", "user"),
        ({"ethogram.kind": "nonsense", "openinference.span.kind": "LLM"}, "", "model"),
    ],
)  # fmt: skip
def test_kinds(attributes: dict[str, Any], name: str, kind: str) -> None:
    assert read(attributes, name=name).kind == kind


def test_an_mcp_server_span_is_not_a_second_tool_call() -> None:
    attributes = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "t"}
    assert read(attributes).kind == "tool"
    assert read(attributes, extra={"otel.kind": "server"}).kind == "other"


def test_model_provider_and_parameters() -> None:
    draft = read(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.response.model": "m-2025",
            "gen_ai.provider.name": "openai",
            "gen_ai.system": "openai",
            "gen_ai.request.temperature": "0.5",
            "gen_ai.request.max_tokens": "100",
            "gen_ai.request.stream": True,
            "gen_ai.request.stop_sequences": ["x"],
            "gen_ai.response.finish_reasons": '["stop", "length", "stop"]',
            "gen_ai.prompt.version": "v3",
            "gen_ai.tool.definitions": "[]",
        }
    )
    assert (draft.model, draft.provider, draft.stop_reason, draft.prompt_version) == (
        "m-2025",
        "openai",
        "stop,length",
        "v3",
    )
    assert draft.params == {"temperature": 0.5, "max_tokens": 100, "stream": True}
    assert draft.attributes == {
        "gen_ai.request.model": "m",
        "gen_ai.request.stop_sequences": ["x"],
        "gen_ai.tool.definitions": "[]",
    }


def test_invocation_parameters() -> None:
    given = {"model": "m", "temperature": 1, "tools": [{"name": "t"}], "long": "x" * 500, "none": None}
    draft = read(
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "m",
            "llm.system": "anthropic",
            "llm.invocation_parameters": json.dumps(given),
        }
    )
    assert (draft.model, draft.provider) == ("m", "anthropic")
    assert draft.params == {"temperature": 1}
    assert draft.attributes["llm.invocation_parameters"] == {"tools": [{"name": "t"}], "long": "x" * 500}


@pytest.mark.parametrize(
    "attributes",
    [
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "f",
            "gen_ai.tool.call.id": "c",
            "gen_ai.tool.call.arguments": '{"a":1}',
            "gen_ai.tool.call.result": "ok",
        },
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "f",
            "tool_call.id": "c",
            "input.value": '{"a":1}',
            "output.value": "ok",
        },
        {
            "ai.operationId": "ai.toolCall",
            "ai.toolCall.name": "f",
            "ai.toolCall.id": "c",
            "ai.toolCall.args": '{"a":1}',
            "ai.toolCall.result": "ok",
        },
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "f",
            "gen_ai.tool.call.id": "c",
            "traceloop.entity.input": '{"a":1}',
            "traceloop.entity.output": "ok",
        },
    ],
)
def test_tool_calls(attributes: dict[str, Any]) -> None:
    draft = read(attributes, name="execute_tool f")
    assert (draft.kind, draft.name, draft.tool, draft.call_id) == ("tool", "f", "f", "c")
    assert (draft.arguments, draft.result) == ('{"a":1}', "ok")
    assert draft.output == ()
    assert "otel.name" not in draft.attributes


def test_a_tool_without_attributes_of_its_own() -> None:
    draft = read({"openinference.span.kind": "TOOL", "tool.name": "f", "tool.parameters": '{"a":1}'}, name="FTool")
    assert (draft.name, draft.arguments, draft.attributes) == ("f", '{"a":1}', {"otel.name": "FTool"})
    draft = read({"gen_ai.operation.name": "execute_tool"}, name="execute_tool g")
    assert (draft.name, draft.tool, draft.arguments, draft.result) == ("g", "g", None, None)


def test_retrieval_memory_and_embeddings() -> None:
    draft = read(
        {
            "openinference.span.kind": "RETRIEVER",
            "input.value": "q",
            "retrieval.documents.0.document.id": "d1",
            "retrieval.documents.0.document.score": 0.5,
            "retrieval.documents.1.document.content": "text",
        }
    )
    assert (draft.kind, draft.arguments) == ("retrieval", "q")
    assert json.loads(draft.result or "") == [{"id": "d1", "score": 0.5}, {"content": "text"}]
    draft = read(
        {"openinference.span.kind": "RETRIEVER", "output.value": "x", "retrieval.documents.0.document.id": "d"}
    )
    assert (draft.result, draft.attributes["retrieval.documents"]) == ("x", [{"id": "d"}])
    draft = read(
        {"gen_ai.operation.name": "search_memory", "gen_ai.memory.query.text": "q", "gen_ai.memory.records": [1]}
    )
    assert (draft.kind, draft.arguments, draft.result) == ("memory", "q", "[1]")
    result = understood({"openinference.span.kind": "EMBEDDING", "embedding.embeddings.0.embedding.vector": [0.1]})
    assert result.lost == {"embedding vector": 1}
    assert result.draft.attributes == {"openinference.span.kind": "EMBEDDING"}


def test_agents_keep_their_words_but_do_not_say_them_again() -> None:
    draft = read(
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "bob",
            "gen_ai.input.messages": json.dumps(OTEL_INPUT),
            "gen_ai.output.messages": json.dumps(OTEL_OUTPUT),
            "gen_ai.aggregated_usage.input_tokens": 5,
        },
        name="invoke_agent bob",
    )
    assert (draft.kind, draft.agent, draft.input_tokens) == ("agent", "bob", 5)
    assert (draft.input, draft.output) == ((), ())
    assert json.loads(draft.arguments or "") == OTEL_INPUT
    assert json.loads(draft.result or "") == OTEL_OUTPUT
    assert read({"gen_ai.operation.name": "invoke_agent"}, name="invoke_agent eve").agent == "eve"
    assert read({"openinference.span.kind": "AGENT", "graph.node.id": "node"}, name="x").agent == "node"
    assert read({"openinference.span.kind": "AGENT"}, name="agent_run [ada]").agent == "ada"


def test_errors() -> None:
    raised = RawEvent("exception", None, {"exception.type": "ValueError", "exception.message": "bad"})
    draft = read({}, status="error", events=[raised])
    assert (draft.status, draft.error) == ("error", "ValueError: bad")
    assert draft.attributes["otel.events"][0]["name"] == "exception"
    assert read({}, status="error", message="broke", events=[raised]).error == "broke"
    assert read({"error.type": "timeout"}).error == "timeout"
    assert read({"error.type": "timeout"}).status == "error"
    handled = read({}, status="ok", events=[raised], message="fine")
    assert (handled.status, handled.error) == ("ok", None)
    assert handled.attributes["otel.status_message"] == "fine"
    assert read({}, status="error").error is None


def test_evaluations_become_notes() -> None:
    event = RawEvent(
        "gen_ai.evaluation.result",
        5,
        {
            "gen_ai.evaluation.name": "relevance",
            "gen_ai.evaluation.score.value": 0.9,
            "gen_ai.evaluation.score.label": "good",
            "gen_ai.evaluation.explanation": "because",
        },
    )
    result = understood(
        {
            "evaluations.0.evaluation.name": "tone",
            "evaluations.0.evaluation.label": "kind",
            "evaluations.0.evaluation.annotator_kind": "HUMAN",
            "annotations.0.annotation.name": "ok",
            "annotations.0.annotation.score": 1,
            "annotations.0.annotation.annotator_kind": "LLM",
            "trace.evaluations.0.evaluation.name": "whole",
            "trace.evaluations.0.evaluation.score": 0.5,
        },
        events=[event],
    )
    notes = [(n.name, n.value, n.source, n.why, n.whole) for n in result.notes]
    assert notes == [
        ("relevance", 0.9, "import", "because", False),
        ("relevance.label", "good", "import", None, False),
        ("tone", "kind", "hand", None, False),
        ("ok", 1.0, "judge", None, False),
        ("whole", 0.5, "import", None, True),
    ]
    assert result.draft.attributes == {}
    judged = understood({"gen_ai.evaluation.name": "n", "gen_ai.evaluation.score.label": "pass"})
    assert [(n.name, n.value) for n in judged.notes] == [("n", "pass")]


def test_facts_about_the_trace_leave_the_span() -> None:
    result = understood({"session.id": "s1", "user.id": "u", "ethogram.task": "t", "ethogram.outcome.value": 1})
    assert result.facts == {"session.id": "s1", "user.id": "u", "ethogram.task": "t", "ethogram.outcome.value": 1}
    assert result.draft.attributes == {}


def test_unknown_attributes_stay() -> None:
    draft = read({"http.route": "/x", "metadata": {"a": [1]}, "nothing": None}, extra={"otel.scope": "lib"})
    assert draft.attributes == {"http.route": "/x", "metadata": {"a": [1]}, "otel.scope": "lib"}


@pytest.mark.parametrize("junk", [None, 7, "x", [1], {"a": 1}, [[]], "[", "{}", True, [{"role": 7, "parts": 5}]])
def test_wrong_types_everywhere_do_no_harm(junk: Any) -> None:
    for attributes in (NEW, TRACELOOP, OPENINFERENCE, RAW, PACKED):
        for key in attributes:
            draft = read({**attributes, key: junk})
            assert isinstance(draft.name, str)
    for key in ("gen_ai.tool.name", "tool.name", "llm.model_name", "gen_ai.agent.name", "session.id", "error.type"):
        assert read({"gen_ai.operation.name": "chat", key: junk}).kind in ("model", "tool")


def test_a_kind_given_by_hand_does_not_stop_the_reading() -> None:
    draft = read({**OPENINFERENCE, "openinference.span.kind": "CHAIN", "ethogram.kind": "model"})
    assert (draft.kind, list(draft.output), draft.stop_reason) == ("model", [SAID], "stop")
    assert "ethogram.kind" not in draft.attributes


def test_older_and_rarer_ways_to_say_something() -> None:
    draft = read(
        {
            "openinference.span.kind": "LLM",
            "llm.prompts.0.prompt.text": "tell",
            "llm.output_messages.0.message.function_call_name": "f",
            "llm.output_messages.0.message.function_call_arguments_json": "{}",
        }
    )
    assert [m.text for m in draft.input] == ["tell"]
    assert list(draft.output) == [Message("assistant", (ToolCall("f", "{}"),))]
    draft = read({"openinference.span.kind": "LLM", "llm.prompts": ["a", "b"], "llm.choices.0.completion.text": "c"})
    assert [m.text for m in (*draft.input, *draft.output)] == ["a", "b", "c"]
    raw = {"messages": [{"role": "user", "content": "hi"}], "k": 1}
    draft = read({"llm.request.type": "chat", "traceloop.entity.input": json.dumps(raw), "gen_ai.completion": "ok"})
    assert [m.text for m in (*draft.input, *draft.output)] == ["hi", "ok"]
    assert draft.attributes == {"input.value": {"k": 1}}
    answer = {"ai.response.text": "so", "ai.response.toolCalls": '[{"toolCallId": "c", "toolName": "f", "args": "{}"}]'}
    draft = read({"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": '[{"role": "user"}]', **answer})
    assert list(draft.output) == [Message("assistant", (Text("so"), ToolCall("f", "{}", "c")))]
    draft = read({**OPENINFERENCE, "input.value": "something else", "output.value": "It rains."})
    assert draft.attributes == {"input.value": "something else"}


def test_bags() -> None:
    assert flat({"llm": {"tools": [{"tool": {"json_schema": {"a": {"b": 1}}}}]}, "x": {"y": 1}}) == {
        "llm.tools.0.tool.json_schema": {"a": {"b": 1}},
        "x": {"y": 1},
    }
    assert flat({"gen_ai": {"input": {"messages": [{"role": "user"}]}}}) == {
        "gen_ai.input.messages": [{"role": "user"}]
    }
    assert nest([("a.0.b", 1), ("a.1.b", 2), ("c", 3)]) == {"a": [{"b": 1}, {"b": 2}], "c": 3}
    assert nest([("a", 1), ("a.b", 2)]) == {"a": {"b": 2}}
    assert Bag({"p.0": 5, "p.1": 6}).indexed("p") == [5, 6]
    bag = Bag({"p.10.x": 1, "p.9.x": 2, "p.²": 3, "p.z": 4})
    assert bag.indexed("p") == [{"x": 2}, {"x": 1}]
    assert bag.rest == {"p.²": 3, "p.z": 4}
