from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.peek import peek_at
from ethogram.capture.readers import openhands
from ethogram.capture.source import bytes_source, file_source
from ethogram.traces import File, Missing, Reasoning, Ref, Scored, Span, Text, ToolCall, Trace

DATA = Path(__file__).parents[4] / "shared" / "data"
here = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
FILES = ("trajs_basic_interactions.json", "trajs_wrong_initial_state.json")


def act(number: int | None, action: str, source: str | None = "agent", **fields: Any) -> dict[str, Any]:
    args = fields.pop("args", {})
    event = {"action": action, "args": args, "message": fields.pop("message", f"{action}…"), **fields}
    if source is not None:
        event["source"] = source
    if number is not None:
        event |= {"id": number, "timestamp": f"2026-03-04T05:06:{number:02d}.5"}
    return event


def see(number: int | None, kind: str, content: str, cause: int | None = None, **fields: Any) -> dict[str, Any]:
    event = {"observation": kind, "content": content, "message": "seen", "source": "agent", **fields}
    if number is not None:
        event |= {"id": number, "timestamp": f"2026-03-04T05:06:{number:02d}.5"}
    if cause is not None:
        event["cause"] = cause
    return event


def asked(response_id: str, call_id: str, *calls: tuple[str, str], words: str | None = None) -> dict[str, Any]:
    """The metadata that an action and what it brought both carry."""
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 60},
        "cache_creation_input_tokens": 30,
        "cache_read_input_tokens": 60,
    }
    tools = [{"id": i, "type": "function", "function": {"name": n, "arguments": '{"x": 1}'}} for i, n in calls]
    message = {"role": "assistant", "content": words, "tool_calls": tools}
    response = {"id": response_id, "model": "hand-1", "created": 5, "usage": usage}
    response["choices"] = [{"finish_reason": "tool_calls", "message": message}]
    name = dict(calls).get(call_id, "?")
    return {"tool_call_metadata": {"function_name": name, "tool_call_id": call_id, "model_response": response}}


EVENTS: list[dict[str, Any]] = [
    act(0, "system", args={"content": "You are a hand.", "tools": [{"name": "grip"}]}),
    act(1, "message", "user", args={"content": "Open the jar.", "image_urls": None}),
    act(2, "recall", "user", args={"query": "jar"}),
    see(3, "recall", "jars are round", 2),
    act(4, "run", args={"command": "twist", "thought": "Twist."}, **asked("r1", "c1", ("c1", "bash"), ("c2", "bash"))),
    see(5, "run", "stuck", 4, extras={"metadata": {"exit_code": 1}}, success=False, **asked("r1", "c1")),
    act(6, "run", args={"command": "tap"}, **asked("r1", "c2", ("c1", "bash"), ("c2", "bash"))),
    see(7, "run", "pop", 6, extras={"metadata": {"exit_code": 0}}, success=True, **asked("r1", "c2")),
    see(8, "agent_state_changed", "", extras={"agent_state": "running"}, source="environment"),
    act(
        9, "finish", args={"final_thought": "Open.", "outputs": {}}, **asked("r2", "c3", ("c3", "finish"), words="Now.")
    ),
]


def read(value: Any, name: str = "jar.json") -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source(name, json.dumps(value).encode()), "openhands")


def lines(*values: Any) -> tuple[list[Trace], SourceReport]:
    data = b"\n".join(json.dumps(v).encode() for v in values) + b"\n"
    return read_traces(bytes_source("output.jsonl", data), "openhands")


def output(history: list[Any], **fields: Any) -> dict[str, Any]:
    return {
        "instance_id": "jar__jar-1",
        "test_result": {"git_patch": "diff"},
        "instruction": "Open it.",
        "metadata": {
            "agent_class": "CodeActAgent",
            "llm_config": {"model": "hand-9", "temperature": 0.0, "api_key": "sk-verysecret"},
            "max_iterations": 30,
        },
        "history": history,
        "metrics": {},
        "error": None,
        "instance": {"repo": "jar"},
        **fields,
    }


def attributes(trace: Trace, span: Span) -> dict[str, Any]:
    return {} if span.attributes is None else json.loads(trace.text(span.attributes))


def test_a_list_of_events() -> None:
    (trace,), report = read(EVENTS)
    assert not report.skipped
    assert report.lost == {"tool result (never came)": 1}  # finishing brings nothing
    assert trace.head.task == "jar"
    assert trace.head.meta["events"] == 10
    assert trace.answer == "Open."
    assert trace.outcome == Missing("unscored")
    assert trace.signatures() == (
        "user:user",
        "model:chat:tool_calls:bash,bash",
        "tool:bash:error",
        "tool:bash",
        "model:chat:tool_calls:finish",
        "tool:finish",
    )
    assert [s.name for s in trace.spans if s.kind == "other"] == ["system", "recall", "recall", "agent_state_changed"]
    assert [m.role for m in trace.messages] == ["system", "user", "assistant", "tool", "tool", "assistant"]
    totals = trace.totals  # the first reply stands in four events and counts once
    assert totals.model_calls == 2
    assert (totals.input_tokens, totals.cache_read_tokens, totals.cache_write_tokens) == (20, 120, 60)
    assert totals.output_tokens == 18
    first, second = (s for s in trace.spans if s.tool == "bash")
    assert (trace.text(first.result or Ref("")), first.call_id) == ("stuck", "c1")
    assert (trace.text(second.result or Ref("")), second.call_id) == ("pop", "c2")
    assert first.seconds == 1.0
    noted = attributes(trace, second)
    assert (noted["args"], noted["event"], noted["observed"]) == ({"command": "tap"}, 6, 7)
    assert noted["extras"]["metadata"]["exit_code"] == 0
    model = next(s for s in trace.spans if s.kind == "model")
    assert (model.model, model.stop_reason) == ("hand-1", "tool_calls")
    assert trace.messages[2].tool_calls[0] == ToolCall("bash", '{"x": 1}', "c1")


def test_older_events_without_ids_times_or_calls() -> None:
    history = [
        act(None, "message", "user", args={"content": "Open it."}),
        act(None, "run", args={"command": "twist", "thought": "First, twist."}),
        see(None, "run", "stuck", extras={"exit_code": 2}),
        act(None, "think", args={"thought": "Hm."}),
        act(None, "message", args={"content": "It is stuck."}),
        see(None, "error", "the jar broke"),
    ]
    (trace,), report = lines(output(history))
    assert not report.skipped
    assert trace.signatures() == (
        "user:user",
        "model:chat:tool_calls:run",
        "tool:run:error",
        "model:chat:tool_calls:think",
        "tool:think",
        "model:chat:stop:-",
    )
    assert trace.messages[1].parts == (Text("First, twist."), ToolCall("run", '{"command":"twist"}'))
    broken = next(s for s in trace.spans if s.name == "error")
    assert trace.text(broken.error or Ref("")) == "the jar broke"
    assert trace.head.start_ns is None
    pairs = [[history[1], history[2]], [history[3], see(None, "null", "")]]
    (paired,), _ = lines(output(pairs))
    assert [s.kind for s in paired.steps] == ["model", "tool", "model", "tool"]
    assert paired.head.meta["events"] == 4


def test_causes_pair_events_without_call_ids() -> None:
    history = [
        act(1, "run", args={"command": "a"}),
        see(2, "agent_state_changed", "", extras={"agent_state": "x"}),
        see(3, "run", "A", 1),
        act(4, "delegate", args={"agent": "BrowsingAgent", "inputs": {}}),
        see(5, "delegate", "looked", 4),
        see(6, "run", "who asked?", 77),
    ]
    (trace,), _ = read(history)
    assert [(s.kind, s.name) for s in trace.steps] == [
        ("model", "chat"),
        ("tool", "run"),
        ("model", "chat"),
        ("handoff", "delegate"),
    ]
    assert [s.name for s in trace.spans if s.kind == "other"] == ["agent_state_changed", "run"]


def test_an_output() -> None:
    item = output(EVENTS, error="", report={"resolved": True})
    (trace,), report = lines(item)
    assert not report.skipped
    assert trace.head.task == "jar__jar-1"
    assert trace.head.agent == "CodeActAgent"
    assert trace.outcome == Scored(1.0, "report.resolved")
    assert trace.answer == "diff"
    assert trace.head.meta["metadata_max_iterations"] == 30
    root = trace.spans[0]
    assert root.kind == "agent"
    assert attributes(trace, root)["instance"] == {"repo": "jar"}
    assert all(s.parent_id == root.span_id for s in trace.spans[1:])
    models = [s for s in trace.spans if s.kind == "model"]
    assert models[0].params == {"temperature": 0.0}
    assert models[0].model == "hand-1"
    assert "sk-verysecret" not in json.dumps(list(trace.texts.values()))


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"test_result": {"report": {"resolved": False}}}, Scored(0.0, "test_result.report.resolved")),
        ({"test_result": {"result": {"resolved": 1}}}, Scored(1.0, "test_result.result.resolved")),
        ({"test_result": {"resolved": True}}, Scored(1.0, "test_result.resolved")),
        ({"resolved": False}, Scored(0.0, "resolved")),
        ({"test_result": {"score": 0.5}}, Scored(0.5, "test_result.score")),
        ({"success": True}, Scored(1.0, "success")),
        ({"test_result": None}, Missing("unscored")),
        ({"error": "AgentStuckInLoopError: again"}, Missing("unscored")),
    ],
)
def test_verdicts(fields: dict[str, Any], outcome: Any) -> None:
    (trace,), _ = lines(output(EVENTS, **fields))
    assert trace.outcome == outcome


def test_a_fault_of_the_provider_is_not_the_agents() -> None:
    (trace,), _ = lines(output(EVENTS, error="litellm.RateLimitError: slow down"))
    assert isinstance(trace.outcome, Missing)
    assert trace.outcome.reason == "infrastructure.rate_limit"
    assert trace.head.meta["error"] == "litellm.RateLimitError: slow down"
    assert trace.spans[0].status == "error"


def test_cost_and_tokens_that_grow_from_event_to_event() -> None:
    def spent(cost: float, prompt: int) -> dict[str, Any]:
        usage = {"prompt_tokens": prompt, "completion_tokens": prompt // 10, "cache_read_tokens": prompt // 2}
        return {"llm_metrics": {"accumulated_cost": cost, "accumulated_token_usage": usage}}

    history = [
        act(1, "message", args={"content": "a"}, **spent(0.1, 100)),
        act(2, "message", args={"content": "b"}, **spent(0.25, 300)),
        act(3, "message", args={"content": "c"}, **spent(0.25, 300)),
    ]
    item = output(history, metrics={"accumulated_cost": 0.25, "accumulated_token_usage": {"prompt_tokens": 300}})
    (trace,), _ = lines(item)
    assert trace.totals.cost_usd == pytest.approx(0.25)
    assert [s.input_tokens for s in trace.steps] == [50, 100, 0]
    assert trace.totals.cache_read_tokens == 150
    assert trace.totals.output_tokens == 30
    assert "usage_is_per_trace" not in trace.head.meta


def test_metrics_of_the_whole_only() -> None:
    history = [act(None, "message", args={"content": "a"}), act(None, "message", args={"content": "b"})]
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "cache_read_tokens": 20, "cache_write_tokens": 30}
    item = output(history, metrics={"accumulated_cost": 0.5, "accumulated_token_usage": usage})
    (trace,), _ = lines(item)
    assert trace.head.meta["usage_is_per_trace"] is True
    assert [s.cost_usd for s in trace.steps] == [None, 0.5]
    totals = trace.totals
    assert (totals.input_tokens, totals.cache_read_tokens, totals.cache_write_tokens) == (50, 20, 30)
    (trace,), _ = lines(output(EVENTS, metrics={"accumulated_cost": 0.5, "accumulated_token_usage": usage}))
    assert trace.totals.cost_usd == 0.5  # the replies have tokens of their own, and no cost
    assert trace.totals.output_tokens == 18


def test_events_of_the_sdk() -> None:
    def event(kind: str, **fields: Any) -> dict[str, Any]:
        return {"kind": kind, "id": "e", "timestamp": "2026-03-04T05:06:07", "source": "agent", **fields}

    def action(response: str, call_id: str, **fields: Any) -> dict[str, Any]:
        call = {"id": call_id, "name": "terminal", "arguments": '{"command":"ls"}'}
        inner = {"kind": "TerminalAction", "command": "ls"}
        return event(
            "ActionEvent",
            llm_response_id=response,
            tool_call_id=call_id,
            tool_name="terminal",
            tool_call=call,
            action=inner,
            **fields,
        )

    def saw(call_id: str, **observation: Any) -> dict[str, Any]:
        body = {"kind": "TerminalObservation", **observation}
        return event("ObservationEvent", tool_call_id=call_id, tool_name="terminal", action_id="e", observation=body)

    user = {"role": "user", "content": [{"type": "text", "text": "Go."}]}
    done = {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}
    finish = event(
        "ActionEvent",
        llm_response_id="r3",
        tool_call_id="c4",
        tool_name="finish",
        tool_call={"id": "c4", "name": "finish", "arguments": "{}"},
        action={"kind": "FinishAction", "message": "All open."},
    )
    first, second = action("r8", "c8"), action("r9", "c9")
    (apart,), _ = lines(output([first, second, saw("c9", output="x")]))
    assert apart.signatures() == (  # two replies, though nothing stands between them
        "model:chat:tool_calls:terminal",
        "tool:terminal",
        "model:chat:tool_calls:terminal",
        "tool:terminal",
    )
    assert openhands.sniff(peek_at(bytes_source("log", json.dumps([first, second]).encode()))) == 92
    history = [
        event("SystemPromptEvent", system_prompt={"type": "text", "text": "You are a hand."}, tools=[1]),
        event("MessageEvent", llm_message=user, source="user"),
        action("r1", "c1", thought=[{"type": "text", "text": "Look."}], reasoning_content="Hm.", summary="s"),
        action("r1", "c2", reasoning_content="Hm."),
        saw("c1", content=[{"type": "text", "text": "jar"}], exit_code=0),
        saw("c2", output="gone", is_error=True),
        event("AgentErrorEvent", tool_call_id="c9", tool_name="terminal", error="no such tool"),
        event("ConversationStateUpdateEvent", key="x", value=1),
        event("MessageEvent", llm_message=done),
        finish,
    ]
    metrics = {
        "accumulated_cost": 0.5,
        "token_usages": [{"response_id": "r1", "prompt_tokens": 10, "completion_tokens": 2, "cache_read_tokens": 4}],
    }
    (trace,), report = lines(output(history, metrics=metrics, test_result={}))
    assert not report.skipped
    assert [(s.kind, s.name, s.status) for s in trace.steps] == [
        ("user", "user", "unset"),
        ("model", "chat", "unset"),
        ("tool", "terminal", "ok"),
        ("tool", "terminal", "error"),
        ("tool", "terminal", "error"),
        ("model", "chat", "unset"),
        ("model", "chat", "unset"),
        ("tool", "finish", "unset"),
    ]
    message = trace.messages[2]
    assert message.parts[:2] == (Reasoning("Hm."), Text("Look."))
    assert [c.call_id for c in message.tool_calls] == ["c1", "c2"]
    assert (trace.totals.input_tokens, trace.totals.cache_read_tokens, trace.totals.output_tokens) == (6, 4, 2)
    assert trace.totals.cost_usd == 0.5
    assert trace.answer == "All open."
    assert trace.head.meta["events"] == 10
    tool = next(s for s in trace.spans if s.kind == "tool")
    assert attributes(trace, tool)["summary"] == "s"
    assert report.lost == {"tool call (never seen)": 1, "tool result (never came)": 1}


def test_pictures() -> None:
    history = [
        act(0, "message", "user", args={"content": "See", "image_urls": ["data:image/png;base64," + "QUJD" * 99]})
    ]
    (trace,), report = read(history)
    picture = trace.messages[0].parts[1]
    assert isinstance(picture, File)
    assert picture.digest
    assert report.lost == {"file bytes": 1}


def test_resolver_outputs_and_repeats() -> None:
    item = {"issue": {"owner": "o", "repo": "r", "number": 5}, "git_patch": "p", "success": False, "history": EVENTS}
    traces, report = lines(item, item, output(EVENTS))
    assert [t.head.task for t in traces] == ["o/r#5", "o/r#5", "jar__jar-1"]
    assert [t.head.attempt for t in traces] == [0, 1, 0]
    assert traces[0].outcome == Scored(0.0, "success")
    assert traces[0].answer == "p"
    assert not report.skipped


def test_bad_records_are_reported_and_good_ones_kept() -> None:
    (trace,), report = read([EVENTS[1], 3, {"neither": 1}, {"action": "run", "args": 3, "source": "agent"}])
    assert [x.where for x in report.skipped] == ["element 1", "element 2"]
    assert [s.kind for s in trace.steps] == ["user", "model", "tool"]
    traces, report = lines({"instance_id": "x"}, output(EVENTS), [1])
    assert len(traces) == 1
    assert {x.where for x in report.skipped} == {"line 1", "line 3"}
    traces, report = read([1])
    assert not traces
    assert report.skipped


def test_what_is_nested_too_deeply_is_reported_and_the_run_kept() -> None:
    deep = b'{"a":' * 3000 + b"1" + b"}" * 3000
    history = [act(1, "run", args={"command": "a"}, odd="@@"), act(2, "run", args={"command": "b"}), EVENTS[1]]
    item = output(history, instance="@@", metrics={"accumulated_cost": 0.5})
    data = json.dumps(item).encode().replace(b'"@@"', deep)
    (trace,), report = read_traces(bytes_source("log", data), "openhands")
    assert "what the run says of itself" in {x.where for x in report.skipped}
    assert [m.text for m in trace.messages if m.role == "user"] == ["Open the jar."]
    assert trace.totals.model_calls == 1
    assert trace.totals.tool_calls == 1


def test_a_cut_list_keeps_its_events() -> None:
    data = json.dumps(EVENTS, indent=2).encode()
    (trace,), report = read_traces(bytes_source("log", data[: data.index(b"stuck")]), "openhands")
    assert trace.head.meta["events"] == 5
    assert report.skipped


def test_what_is_recognised() -> None:
    def score(value: Any) -> int:
        return openhands.sniff(peek_at(bytes_source("log", json.dumps(value).encode())))

    assert score(EVENTS) == 92
    assert score(output(EVENTS)) == 92
    assert score({"history": EVENTS}) == 85
    assert score(output([])) == 75
    assert score([[EVENTS[4], EVENTS[5]]]) == 92
    assert score([{"role": "user", "content": "x"}]) == 0
    assert score({"history": [{"role": "user", "content": "x"}], "instance_id": "x"}) == 0
    assert score({"trajectory": [{"action": "ls", "observation": "x"}], "info": {}}) == 0
    assert score([3]) == 0


def test_rough_handling(rough: Callable[[str, bytes], None]) -> None:
    rough("openhands", json.dumps([EVENTS[1], EVENTS[4], EVENTS[5], EVENTS[9]]).encode())
    action = {
        "kind": "ActionEvent",
        "id": "e",
        "source": "agent",
        "llm_response_id": "r",
        "thought": [{"type": "text", "text": "t"}],
        "tool_name": "finish",
        "tool_call_id": "c",
        "tool_call": {"id": "c", "name": "finish", "arguments": "{}"},
        "action": {"message": "m"},
    }
    seen = {"kind": "ObservationEvent", "source": "environment", "tool_call_id": "c", "observation": {"output": "x"}}
    rough("openhands", json.dumps([action, seen, action]).encode())
    item = output([EVENTS[1], EVENTS[4]], metrics={"accumulated_cost": 1.0, "token_usages": [{"response_id": "r1"}]})
    rough("openhands", json.dumps(item).encode())


@here
@pytest.mark.parametrize("name", FILES)
def test_the_real_files(name: str) -> None:
    expected = json.loads((DATA / "expected.json").read_text())["openhands"][name]
    path = DATA / "openhands" / name
    source = file_source(path, name)
    assert openhands.sniff(peek_at(source)) == 92
    (trace,), report = read_traces(source, "openhands")
    assert not report.skipped
    assert trace.head.meta["events"] == expected["n_events"]
    raw = json.loads(path.read_text())
    noted = [attributes(trace, s) for s in trace.spans]
    told = {n[k] for n in noted for k in ("event", "observed") if k in n}
    assert told == {e["id"] for e in raw}
    usage = {
        r["id"]: r["usage"] for e in raw if (r := e.get("tool_call_metadata", {}).get("model_response")) is not None
    }
    totals = trace.totals
    every = sum(n or 0 for n in (totals.input_tokens, totals.cache_read_tokens, totals.cache_write_tokens))
    assert every == sum(u["prompt_tokens"] for u in usage.values())
    assert totals.output_tokens == sum(u["completion_tokens"] for u in usage.values())
