from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.peek import peek_at
from ethogram.capture.readers import swe_agent
from ethogram.capture.source import bytes_source, file_source
from ethogram.traces import Message, Missing, Reasoning, Ref, Span, Text, ToolResult, Trace

DATA = Path(__file__).parents[4] / "shared" / "data"
here = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
EXPECTED: dict[str, Any] = json.loads((DATA / "expected.json").read_text())["swe_agent"] if DATA.exists() else {}


def step(action: str, observation: str, thought: str = "I think.\n", **fields: Any) -> dict[str, Any]:
    return {
        "action": action,
        "observation": observation,
        "response": f"{thought}```\n{action}```",
        "state": '{"open_file": "n/a"}\n',
        "thought": thought,
        **fields,
    }


def said(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "agent": "main", **fields}


def replied(of: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return said("assistant", of["response"], thought=of["thought"], action=of["action"], **fields)


def run(*, stats: Any = None, **fields: Any) -> dict[str, Any]:
    """Two steps; the observation of the last is not in the history, as the tool writes it."""
    one, two = step("ls nest\n", "egg\r\n", execution_time=0.5), step("submit\n", "diff\r\n")
    return {
        "environment": "forest",
        "trajectory": [one, two],
        "history": [
            said("system", "You are a bird."),
            said("user", "This is how others did it.", is_demo=True),
            said("user", "Find the egg."),
            replied(one),
            said("user", "egg\r\n(Open file: n/a)\nbash-$"),
            replied(two),
        ],
        "info": {
            "exit_status": "submitted",
            "submission": "\r\n+egg\r\n",
            "model_stats": stats
            if stats is not None
            else {"instance_cost": 0.5, "tokens_sent": 1000, "tokens_received": 20, "api_calls": 2},
        },
        **fields,
    }


def read(item: Any, name: str = "folder/nest__nest-7.traj") -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source(name, json.dumps(item).encode()), "swe-agent")


def attributes(trace: Trace, span: Span) -> dict[str, Any]:
    return {} if span.attributes is None else json.loads(trace.text(span.attributes))


def test_a_run() -> None:
    (trace,), report = read(run())
    assert not report.skipped
    assert not report.lost
    assert trace.head.task == "nest__nest-7"
    assert trace.head.agent == "swe-agent"
    assert trace.outcome == Missing("unscored")
    assert trace.answer == "\r\n+egg\r\n"
    meta = trace.head.meta
    assert (meta["exit_status"], meta["environment"], meta["api_calls"]) == ("submitted", "forest", 2)
    assert (meta["steps"], meta["history"]) == (2, 6)
    assert trace.signatures() == (
        "user:user",
        "model:chat:tool_calls:-",
        "tool:ls",
        "model:chat:tool_calls:-",
        "tool:submit",
    )
    assert [m.text for m in trace.messages] == [h["content"] for h in run()["history"]]
    first, second = (s for s in trace.spans if s.kind == "tool")
    assert trace.text(first.result or Ref("")) == "egg\r\n"  # raw, not as the history dresses it
    assert trace.text(first.arguments or Ref("")) == '{"action":"ls nest\\n"}'
    assert attributes(trace, first) == {
        "action": "ls nest\n",
        "execution_time": 0.5,
        "state": '{"open_file": "n/a"}\n',
    }
    assert trace.text(second.result or Ref("")) == "diff\r\n"
    assert not second.output
    root = trace.spans[0]
    assert (root.kind, root.status) == ("agent", "ok")
    assert all(s.parent_id == root.span_id for s in trace.spans[1:])
    assert [s.name for s in trace.spans if s.kind == "other"] == ["system", "demonstration"]


def test_totals_of_the_run_stand_on_its_last_reply() -> None:
    (trace,), _ = read(run())
    assert trace.head.meta["usage_is_per_trace"] is True
    assert [s.input_tokens for s in trace.spans if s.kind == "model"] == [None, 1000]
    totals = trace.totals
    assert (totals.input_tokens, totals.output_tokens, totals.cost_usd) == (1000, 20, 0.5)
    (trace,), _ = read(run(stats={}))
    assert trace.totals.input_tokens is None
    assert "usage_is_per_trace" not in trace.head.meta
    (trace,), _ = read(run(stats={"instance_cost": 0, "tokens_sent": 0, "tokens_received": 0}))
    assert trace.totals.cost_usd == 0.0


def test_a_history_alone() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "egg"}'}}
    thinking = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]
    item = {
        "history": [
            said("system", "You are a bird.", message_type="system_prompt"),
            said("user", [{"type": "text", "text": "Find the egg."}], message_type="observation"),
            said(
                "assistant",
                "Looking.",
                thought="Looking.",
                action="look egg",
                tool_calls=[call],
                thinking_blocks=thinking,
            ),
            said("tool", "a blue egg", tool_call_ids=["c1"]),
            said("assistant", "Now by hand.", action="touch egg"),
            said("user", "warm"),
            said("assistant", "Done.", thought="It is warm."),
            said("tool", "late"),
        ],
        "info": {"model_stats": {"instance_cost": 0.25}},
    }
    (trace,), report = read(item)
    assert not report.skipped
    assert report.lost == {"tool call (never seen)": 1}
    assert len(trace.messages) == 8
    assert [(s.kind, s.name) for s in trace.steps] == [
        ("user", "user"),
        ("model", "chat"),
        ("tool", "look"),
        ("model", "chat"),
        ("tool", "touch"),
        ("model", "chat"),
        ("tool", "unknown"),
    ]
    assert trace.messages[2].parts[:2] == (Reasoning("Hm."), Text("Looking."))
    assert trace.messages[3] == Message("tool", (ToolResult("a blue egg", None, "c1"),))
    assert trace.messages[5].text == "warm"
    assert trace.totals.cost_usd == 0.25
    assert attributes(trace, trace.steps[5])["thought"] == "It is warm."


def test_steps_that_the_history_lacks() -> None:
    item = run()
    lost = step("rm egg\n", "no", thought="Bad idea.\n")
    item["trajectory"].insert(1, lost)
    (trace,), report = read(item)
    assert not report.skipped
    assert [s.tool for s in trace.spans if s.kind == "tool"] == ["ls", "rm", "submit"]
    assert trace.totals.model_calls == 3
    assert [m.text for m in trace.messages[5:]] == [lost["response"], "no", item["trajectory"][2]["response"]]
    (trace,), _ = read({"trajectory": item["trajectory"]})
    assert trace.totals.model_calls == 3
    # the last observation was read by no reply
    assert [m.role for m in trace.messages] == ["assistant", "tool", "assistant", "tool", "assistant"]


def test_replies_of_the_history_that_no_step_has_are_context() -> None:
    item = run()
    del item["trajectory"][1]
    item["history"].append(said("user", "Stop."))
    (trace,), _ = read(item)
    assert trace.totals.model_calls == 1
    assert len(trace.messages) == 7
    assert [s.name for s in trace.spans if s.kind == "other"] == ["system", "demonstration", "reply"]


def test_a_step_without_an_action_is_followed_by_feedback() -> None:
    empty = step("", "Your answer had no command.", thought="Hm.")
    item = {
        "trajectory": [empty, step("", "Exited.")],
        "history": [said("user", "Go."), replied(empty), said("user", "Please give a command.")],
    }
    (trace,), report = read(item)
    assert not report.skipped
    assert trace.totals.tool_calls == 0
    assert trace.signatures() == ("user:user", "model:chat:stop:-", "user:user", "model:chat:stop:-")
    feedback = trace.steps[2]
    assert attributes(trace, feedback)["observation"] == "Your answer had no command."
    assert [trace.text(s.result) for s in trace.spans if s.name == "observation" and s.result] == ["Exited."]


def test_an_action_without_an_observation() -> None:
    item = {"trajectory": [step("wait\n", "x") | {"observation": None}]}
    (trace,), report = read(item)
    assert [s.name for s in trace.spans if s.kind == "tool"] == ["wait"]
    assert report.lost == {"tool result (never came)": 1}


def test_settings_come_from_the_replay_config() -> None:
    config = {
        "problem_statement": {"id": "nest-9", "type": "text"},
        "agent": {"model": {"name": "bird-1", "temperature": 0.25, "top_p": 1, "api_key": None}},
    }
    item = run(replay_config=json.dumps(config))
    item["trajectory"][0]["query"] = [{"role": "system", "content": "again"}]
    (trace,), report = read(item)
    assert trace.head.task == "nest-9"
    model = next(s for s in trace.spans if s.kind == "model")
    assert (model.model, model.params) == ("bird-1", {"temperature": 0.25, "top_p": 1})
    assert report.lost == {"trajectory.query": 1}


def test_attempts_are_traces_of_one_task() -> None:
    first, second = run(), run(stats={"instance_cost": 2.0})
    item = {**second, "attempts": [first, second, 3]}
    traces, report = read(item)
    assert [(t.head.task, t.head.attempt, t.totals.cost_usd) for t in traces] == [
        ("nest__nest-7", 0, 0.5),
        ("nest__nest-7", 1, 2.0),
    ]
    assert [x.where for x in report.skipped] == ["attempt 2"]


@pytest.mark.parametrize(
    ("ended", "status"),
    [("submitted (exit_cost)", "ok"), ("exit_error", "error"), ("skipped", "unset"), (None, "unset")],
)
def test_how_it_ended(ended: str | None, status: str) -> None:
    item = run()
    item["info"]["exit_status"] = ended
    (trace,), _ = read(item)
    assert trace.spans[0].status == status
    assert trace.outcome == Missing("unscored")


def test_bad_records_are_reported_and_good_ones_kept() -> None:
    item = run()
    item["trajectory"].insert(1, 7)
    item["history"].insert(1, "x")
    (trace,), report = read(item)
    assert {x.where for x in report.skipped} == {"step 1", "history 1"}
    assert trace.totals.tool_calls == 2
    traces, report = read({"trajectory": 3, "info": {}})
    assert not traces
    assert "neither" in report.skipped[0].why


def test_what_is_nested_too_deeply_is_reported_and_the_run_kept() -> None:
    deep = b'{"a":' * 3000 + b"1" + b"}" * 3000
    item = run()
    item["info"]["review"] = "@@"
    item["trajectory"][0]["state"] = "@@"
    data = json.dumps(item).encode().replace(b'"@@"', deep)
    (trace,), report = read_traces(bytes_source("log", data), "swe-agent")
    assert report.lost["review (nested too deeply)"] == 1
    assert {"what the run says of itself", "history 4"} <= {x.where for x in report.skipped}
    assert [s.tool for s in trace.spans if s.kind == "tool"] == ["submit"]
    assert trace.totals.cost_usd == 0.5


def test_what_is_recognised() -> None:
    def score(value: Any) -> int:
        return swe_agent.sniff(peek_at(bytes_source("log", json.dumps(value).encode())))

    item = run()
    assert score(item) == 95
    assert score({"history": item["history"]}) == 85
    assert score({"attempts": [item]}) == 90
    assert score({"history": [{"role": "user", "content": "x"}]}) == 0
    assert score({"question": "?", "history": [{"role": "user", "agent": "x"}]}) == 0
    assert score({"trajectory": [{"role": "user", "content": "x"}]}) == 0
    assert score([item]) == 0
    assert score({"trajectory": "x", "history": 3}) == 0


def test_rough_handling(rough: Callable[[str, bytes], None]) -> None:
    rough("swe-agent", json.dumps(run(replay_config='{"agent": {"model": {"name": "m"}}}')).encode())


@here
@pytest.mark.parametrize("name", EXPECTED)
def test_the_real_files(name: str) -> None:
    expected = EXPECTED[name]
    source = file_source(DATA / "swe_agent" / f"{name}.gz", f"{name}.gz")
    assert swe_agent.sniff(peek_at(source)) >= 85
    (trace,), report = read_traces(source, "swe-agent")
    assert not report.skipped
    meta, totals = trace.head.meta, trace.totals
    assert len(trace.messages) == meta["history"] == expected["n_history"]
    assert meta["steps"] == expected["n_steps"]
    assert meta.get("exit_status") == expected["exit_status"]
    stats = {k: meta[k] for k in expected["model_stats"] or {}}
    assert stats == (expected["model_stats"] or {})
    if expected["model_stats"]:
        assert totals.input_tokens == expected["model_stats"]["tokens_sent"]
        assert totals.output_tokens == expected["model_stats"]["tokens_received"]
        assert totals.cost_usd == pytest.approx(expected["model_stats"]["instance_cost"], rel=1e-9)
    models = [s for s in trace.spans if s.kind == "model"]
    tools = [s for s in trace.spans if s.kind == "tool"]
    if expected["n_steps"]:
        assert len(models) == expected["n_steps"]
        words = Counter(attributes(trace, s)["action"].split()[0] for s in tools)
        assert words == expected["actions_first_word"]
        assert sum(len(trace.text(s.result)) for s in tools if s.result) == expected["total_observation_chars"]
    else:  # a history alone has no steps to count; its actions are those of the messages
        assert expected["actions_first_word"] == {}
        assert len(models) == len(tools) == 5
    # thoughts are the words of the reply, so none is noted apart, and none is empty
    assert sum(not m.text.strip() for m in trace.messages if m.role == "assistant") == expected["n_empty_thought"]
    assert any("execution_time" in attributes(trace, s) for s in tools) is expected["has_execution_time"]
