"""Operators as policies: the same calls for the same seed, the same change in every request that repeats a result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ethogram.harness.disturbance import Disturbance, disturb
from ethogram.perturbations.model import OPERATORS, model_operator
from ethogram.perturbations.prompt import prompt_operator
from ethogram.perturbations.tools import OPERATORS as TOOL_OPERATORS
from ethogram.perturbations.tools import ToolPerturbation
from ethogram.plans import Task
from ethogram.traces import Message, Text, ToolCall, ToolResult
from ethogram.wire.gateway.call import Forward, ModelReply, ModelRequest, Refuse
from ethogram.wire.gateway.faults import ModelFaults, PromptFaults, ToolFaults
from ethogram.wire.gateway.protocols import PROTOCOLS

CHAT = PROTOCOLS["openai-chat"]
ROWS = json.dumps([{"id": i, "name": f"row {i}"} for i in range(6)])


def conversation(*results: str, tool: str = "read", ids: bool = True) -> ModelRequest:
    """A request after these results of one tool, each of a call of its own."""
    messages: list[Message] = [
        Message("system", (Text("Be brief."),)),
        Message("user", (Text("Sum the prices, please."),)),
    ]
    for number, result in enumerate(results):
        call_id = f"c{number}" if ids else None
        messages.append(Message("assistant", (ToolCall(tool, json.dumps({"n": number}), call_id),)))
        messages.append(Message("tool", (ToolResult(result, None, call_id),)))
    return ModelRequest(protocol="openai-chat", messages=tuple(messages))


def shown(policy: ToolFaults, request: ModelRequest) -> list[str]:
    """The results as the model reads them."""
    decision = policy.decide(request)
    assert decision is None or isinstance(decision, Forward)
    texts = decision.edits.texts if decision is not None and decision.edits is not None else {}
    places = [(i, j, p) for i, m in enumerate(request.messages) for j, p in enumerate(m.parts)]
    return [texts.get((i, j), p.content) for i, j, p in places if isinstance(p, ToolResult)]


@pytest.mark.parametrize("operator", [o.name for o in TOOL_OPERATORS])
def test_a_result_is_changed_in_the_same_way_in_every_later_request(operator: str) -> None:
    policy = ToolFaults(ToolPerturbation(operator, 7))
    results = [ROWS, ROWS.replace("row", "line"), ROWS.replace("row", "entry")]
    first = shown(policy, conversation(*results[:1]))
    second = shown(policy, conversation(*results[:2]))
    third = shown(policy, conversation(*results))
    assert second[:1] == first
    assert third[:2] == second
    assert [new != old for new, old in zip(third, results, strict=True)] == [operator != "stale_result", True, True]
    assert shown(policy, conversation(*results)) == third


def test_wire_and_wrapped_tools_hit_the_same_calls_of_an_episode() -> None:
    """The same seed, tool and number of the call: nothing else decides."""
    results = [f"line one of {i}\nline two of {i}\nline three of {i}" for i in range(20)]
    wired = ToolFaults(ToolPerturbation("truncated_result", 3, 0.4))
    source = ToolPerturbation("truncated_result", 3, 0.4)
    read = source.wrap({"read": lambda n: results[n]})["read"]
    assert shown(wired, conversation(*results)) == [read(n=n) for n in range(20)]
    assert 0 < sum(change.hit for change in source.log) < 20
    assert len(wired._source.log) == len(source.log)


def test_results_of_wrapped_tools_are_not_changed_twice() -> None:
    perturbation = ToolPerturbation("truncated_result", 3)
    policy = ToolFaults(perturbation)
    perturbed = perturbation.wrap({"read": lambda n: "a long result"})["read"](n=0)
    assert shown(policy, conversation(perturbed)) == [perturbed]
    assert shown(policy, conversation(perturbed, tool="mcp__shop__read")) == [perturbed], "as Claude Code spells it"
    assert shown(policy, conversation("another long result", tool="own")) != ["another long result"]


def test_only_the_named_tools_are_disturbed() -> None:
    policy = ToolFaults(ToolPerturbation("tool_error", 3, only=("write",)))
    assert shown(policy, conversation("fine")) == ["fine"]
    assert shown(policy, conversation("fine", tool="write"))[0].startswith("Error: write: ")


def test_calls_without_ids_and_repeated_calls_are_told_apart_by_their_place() -> None:
    policy = ToolFaults(ToolPerturbation("stale_result", 3))
    call = ToolCall("clock", "{}")
    parts = [(Message("assistant", (call,)), Message("tool", (ToolResult(f"{n} o'clock"),))) for n in range(3)]

    def after(count: int) -> ModelRequest:
        return ModelRequest(protocol="openai-chat", messages=tuple(m for pair in parts[:count] for m in pair))

    assert shown(policy, after(2)) == ["0 o'clock", "0 o'clock"]
    assert shown(policy, after(3)) == ["0 o'clock", "0 o'clock", "1 o'clock"]


def test_a_result_that_the_agent_shortened_by_itself_is_left_alone() -> None:
    policy = ToolFaults(ToolPerturbation("tool_timeout", 3))
    assert shown(policy, conversation("a long result"))[0].startswith("Error: read did not answer")
    assert shown(policy, conversation("[cleared]")) == ["[cleared]"]


@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_edits_reach_the_body_of_every_api(name: str) -> None:
    protocol = PROTOCOLS[name]
    documents: dict[str, Any] = {
        "openai-chat": {
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "read", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "c", "content": "the whole result"},
            ]
        },
        "openai-responses": {
            "input": [
                {"role": "user", "content": "go"},
                {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "the whole result"},
            ]
        },
        "anthropic-messages": {
            "max_tokens": 9,
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "read", "input": {}}]},
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "c", "content": "the whole result"}],
                },
            ],
        },
    }
    body = json.dumps(documents[name]).encode()
    decision = ToolFaults(ToolPerturbation("tool_error", 1)).decide(protocol.request(body))
    assert isinstance(decision, Forward)
    assert decision.note == "perturbed: tool_error in 1 result"
    edited = protocol.edited(body, decision.edits)
    assert b"the whole result" not in edited
    assert protocol.request(edited).messages[-1].text.startswith("Error: read: ")


def test_the_first_words_of_the_user_are_put_otherwise_and_always_alike() -> None:
    policy = PromptFaults(prompt_operator("prompt_paraphrase"), 5)
    one, two = policy.decide(conversation()), policy.decide(conversation("result"))
    assert isinstance(one, Forward)
    assert one == two
    assert list(one.edits.texts) == [(1, 0)]
    assert one.edits.texts[1, 0] != "Sum the prices, please."
    assert policy.hits == 1
    assert policy.decide(ModelRequest(protocol="openai-chat", messages=(Message("user", (Text("Go."),)),))) is None
    assert policy.decide(ModelRequest(protocol="openai-chat")) is None


def decisions(operator: str, seed: int, intensity: float, count: int = 40, protocol: Any = "openai-chat") -> list[Any]:
    policy = ModelFaults(model_operator(operator), seed, intensity)
    return [policy.decide(ModelRequest(protocol=protocol)) for _ in range(count)]


@pytest.mark.parametrize("operator", [o.name for o in OPERATORS])
def test_a_stronger_intensity_hits_the_same_calls_and_more(operator: str) -> None:
    weak, strong, all_ = (decisions(operator, 11, intensity) for intensity in (0.2, 0.6, 1.0))
    assert weak == decisions(operator, 11, 0.2)
    assert weak != decisions(operator, 12, 0.2)
    for weaker, stronger in ((weak, strong), (strong, all_)):
        assert all(s == w for w, s in zip(weaker, stronger, strict=True) if w is not None)
    assert 0 < sum(d is not None for d in weak) < sum(d is not None for d in strong) < 40
    assert all(d is not None and d.note.startswith("perturbed: ") for d in all_)


@pytest.mark.parametrize(
    ("operator", "status", "ours", "theirs", "retry"),
    [
        ("model_rate_limit", 429, "rate_limit_exceeded", "rate_limit_error", True),
        ("model_error", 500, "server_error", "api_error", True),
        ("model_overload", 529, "server_error", "overloaded_error", True),
        ("model_context_limit", 400, "context_length_exceeded", "invalid_request_error", False),
    ],
)
def test_errors_are_in_the_words_of_the_api(operator: str, status: int, ours: str, theirs: str, retry: bool) -> None:
    for protocol, kind in (("openai-chat", ours), ("openai-responses", ours), ("anthropic-messages", theirs)):
        (decision,) = decisions(operator, 1, 1.0, 1, protocol)
        assert isinstance(decision, Refuse)
        assert (decision.status, decision.kind, decision.retry) == (status, kind, retry)


def test_replies_come_late_short_or_broken_off() -> None:
    late, short, cut = (decisions(f"model_{kind}", 1, 1.0)[3] for kind in ("latency", "truncated", "cut"))
    assert 1.0 <= late.delay_seconds <= 5.0
    assert 1 <= cut.cut_after <= 200
    limit = short.edits.at_most_tokens
    assert 4 <= limit <= 24
    body = {"messages": [], "input": "x"}
    for name, member in (
        ("openai-chat", "max_completion_tokens"),
        ("openai-responses", "max_output_tokens"),
        ("anthropic-messages", "max_tokens"),
    ):
        edited = json.loads(PROTOCOLS[name].edited(json.dumps(body).encode(), short.edits))
        assert edited == {**body, member: limit}
    for own, expected in ((4000, limit), (1, 1)):
        edited = json.loads(CHAT.edited(json.dumps({"messages": [], "max_tokens": own}).encode(), short.edits))
        assert edited == {"messages": [], "max_tokens": expected}


def test_only_a_reply_that_ended_at_its_new_limit_was_changed() -> None:
    policy = ModelFaults(model_operator("model_truncated"), 1)
    decision = policy.decide(ModelRequest(protocol="openai-chat"))
    assert isinstance(decision, Forward)
    sent = ModelRequest(protocol="openai-chat", at_most_tokens=decision.edits.at_most_tokens)
    policy.done(sent, ModelReply(stop_reason="stop"))
    policy.done(ModelRequest(protocol="openai-chat", at_most_tokens=4000), ModelReply(stop_reason="length"))
    assert policy.hits == 0
    policy.done(sent, ModelReply(stop_reason="length"))
    assert policy.hits == 1


def test_an_episode_gets_its_policies_from_its_condition() -> None:
    task = Task(id="t", prompt="Read the file.")
    disturbed = disturb(Disturbance(operator="model_error", seed=4), task, 99, None)
    (policy,) = disturbed.policies()
    assert disturbed.needs_calls
    assert not disturbed.breaks_calls
    assert disturbed.told["perturbed_calls"] == 0
    request = ModelRequest(protocol="openai-chat")
    assert isinstance(policy.decide(request), Refuse)
    policy.done(request, ModelReply())
    assert disturbed.breaks_calls
    assert disturbed.told["perturbed_calls"] == 1

    again = disturb(Disturbance(operator="truncated_result", seed=4, only=("own",)), task, 99, None)
    (tools,) = again.policies()
    assert again.tools({"suite_tool": len}, others=True).keys() == {"suite_tool"}
    assert tools.decide(conversation("a long result", tool="own")) is not None
    assert again.told["perturbed_calls"] == 1
    assert not again.needs_calls
    assert disturb(Disturbance(operator="prompt_typo", seed=4), task, 99, None).policies() == ()


def test_which_calls_go_wrong_depends_on_the_episode() -> None:
    task = Task(id="t", prompt="Read the file.")

    def hits(episode_seed: int) -> list[bool]:
        wanted = Disturbance(operator="model_error", seed=4, intensity=0.5)
        (policy,) = disturb(wanted, task, episode_seed, None).policies()
        return [policy.decide(ModelRequest(protocol="openai-chat")) is not None for _ in range(30)]

    assert hits(1) == hits(1)
    assert hits(1) != hits(2)
