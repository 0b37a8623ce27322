from __future__ import annotations

import gzip
import itertools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.source import bytes_source
from ethogram.traces import File, Message, Missing, Ref, Scored, Span, Text, Trace

DATA = Path(__file__).parents[4] / "shared" / "data" / "tau2_bench"
SIM = "voice_sim_49b22f0c-4a56-41c5-922f-bc2a56e53a23.json.gz"
here = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
SECOND = 1_000_000_000
T0 = 1_767_323_040 * SECOND  # 2026-01-02T03:04:00 UTC


def read(value: Any) -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source("log", json.dumps(value).encode()), "tau2")


def at(seconds: float) -> str:
    return f"2026-01-02T03:04:{seconds:06.3f}"


def attributes(trace: Trace, span: Span) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(trace.text(span.attributes)) if span.attributes else {}
    return found


INFO = {
    "git_commit": "abc",
    "num_trials": 2,
    "max_steps": 9,
    "max_errors": 3,
    "user_info": {
        "implementation": "user_simulator",
        "llm": "u-1",
        "llm_args": {"temperature": 0.0},
        "global_simulation_guidelines": "Play a monk.",
    },
    "agent_info": {"implementation": "llm_agent", "llm": "m-1", "llm_args": {"temperature": 0.5, "stop": ["x"]}},
    "environment_info": {"domain_name": "tower", "policy": "Ring softly.", "tool_defs": None},
    "seed": 5,
}
MESSAGES: list[dict[str, Any]] = [
    {"role": "assistant", "content": "Yes?", "turn_idx": 0, "timestamp": at(0), "cost": 0.0, "usage": None},
    {
        "role": "user",
        "content": "Ring the bell.",
        "turn_idx": 1,
        "timestamp": at(2),
        "cost": 0.25,
        "usage": {"prompt_tokens": 50, "completion_tokens": 5},
    },
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "name": "ring", "arguments": {"times": 1}, "requestor": "assistant"},
            {"id": "c2", "name": "look", "arguments": {}, "requestor": "assistant"},
        ],
        "turn_idx": 2,
        "timestamp": at(5),
        "generation_time_seconds": 1.5,
        "cost": 0.5,
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 60},
            "completion_tokens_details": {"reasoning_tokens": 8},
        },
        "raw_data": {"id": "resp-1"},
    },
    {
        "role": "tool",
        "tool_messages": [
            {
                "id": "c2",
                "role": "tool",
                "content": "a bell",
                "requestor": "assistant",
                "error": False,
                "timestamp": at(6),
            },
            {
                "id": "c1",
                "role": "tool",
                "content": "no rope",
                "requestor": "assistant",
                "error": True,
                "timestamp": at(6),
            },
        ],
    },
    {
        "role": "assistant",
        "content": "Please pull.",
        "timestamp": at(8),
        "generation_time_seconds": 30.0,
        "turn_idx": 5,
    },
    {
        "role": "user",
        "content": None,
        "tool_calls": [{"id": "u1", "name": "pull", "arguments": {"rope": 2}, "requestor": "user"}],
        "timestamp": at(9),
        "cost": 0.125,
    },
    {"id": "u1", "role": "tool", "content": "creak", "requestor": "user", "error": False, "timestamp": at(10)},
    {"role": "user", "content": "I pulled. ###STOP###", "timestamp": at(11)},
]


def simulation(**changes: Any) -> dict[str, Any]:
    return {
        "id": "44444444-4444-4444-8444-444444444444",
        "task_id": "t1",
        "timestamp": at(13),
        "start_time": at(0),
        "end_time": at(12),
        "duration": 12.0,
        "termination_reason": "user_stop",
        "agent_cost": 0.5,
        "user_cost": 0.375,
        "reward_info": {
            "reward": 1.0,
            "db_check": {"db_match": True, "db_reward": 1.0},
            "action_checks": [{"action": {"name": "ring"}, "action_match": False, "action_reward": 0.0}],
            "nl_assertions": [{"nl_assertion": "is kind", "met": True, "justification": "it was"}],
            "communicate_checks": None,
            "reward_breakdown": {"DB": 1.0, "COMMUNICATE": 0.5},
        },
        "messages": MESSAGES,
        "trial": 1,
        "seed": 77,
        **changes,
    }


def results(*simulations: Any, **changes: Any) -> dict[str, Any]:
    tasks = [{"id": "t1", "user_scenario": {"instructions": "Have it rung."}}, 5]
    return {"timestamp": at(1), "info": INFO, "tasks": tasks, "simulations": list(simulations), **changes}


def test_a_results_file() -> None:
    (trace,), report = read(results(simulation()))
    assert not report.skipped
    assert not report.lost
    head = trace.head
    assert (head.task, head.attempt, head.seed, head.agent) == ("t1", 1, 77, "llm_agent")
    assert trace.outcome == Scored(1.0, "reward")
    assert head.meta["domain"] == "tower"
    assert head.meta["termination_reason"] == "user_stop"
    assert (head.meta["agent_cost"], head.meta["user_cost"]) == (0.5, 0.375)
    assert json.loads(str(head.meta["task"]))["user_scenario"] == {"instructions": "Have it rung."}
    assert (head.start_ns, head.end_ns) == (T0, T0 + 12 * SECOND)


def test_two_sides_two_lanes() -> None:
    (trace,), _ = read(results(simulation()))
    assert [(s.kind, s.lane, s.name) for s in trace.spans] == [
        ("agent", "", "llm_agent"),
        ("model", "", "chat"),
        ("user", "user", "user"),
        ("model", "", "chat"),
        ("tool", "", "look"),
        ("tool", "", "ring"),
        ("model", "", "chat"),
        ("user", "user", "user"),
        ("tool", "user", "pull"),
        ("user", "user", "user"),
    ]
    root = trace.spans[0]
    assert all(s.parent_id == root.span_id for s in trace.spans[1:])
    assert [m.text for m in trace.conversation(root)] == ["Ring softly.", "Play a monk."]
    assert attributes(trace, root)["max_steps"] == 9
    look, ring, pull = (s for s in trace.spans if s.kind == "tool")
    assert (look.status, ring.status, pull.status) == ("ok", "error", "ok")
    assert [trace.text(s.arguments or Ref("")) for s in (look, ring, pull)] == ["{}", '{"times":1}', '{"rope":2}']
    assert [trace.text(s.result or Ref("")) for s in (look, ring, pull)] == ["a bell", "no rope", "creak"]
    # what the user does with their own tools never reaches the agent
    last_call = [s for s in trace.spans if s.kind == "model"][-1]
    assert [m.text for m in trace.conversation(last_call)] == ["Yes?", "Ring the bell.", "", "a bell", "no rope"]
    assert len(trace.messages) == 9


def test_tokens_cost_times_model() -> None:
    (trace,), _ = read(results(simulation()))
    totals = trace.totals
    assert totals.cost_usd == 0.5  # the agent's alone
    assert (totals.input_tokens, totals.cache_read_tokens, totals.output_tokens) == (40, 60, 20)
    assert totals.reasoning_tokens == 8
    called = trace.spans[3]
    assert (called.model, called.params) == ("m-1", {"temperature": 0.5, "stop": '["x"]'})
    assert (called.start_ns, called.end_ns) == (T0 + 3_500_000_000, T0 + 5 * SECOND)
    assert attributes(trace, called) == {"turn_idx": 2, "raw_data": {"id": "resp-1"}}
    user = trace.spans[2]
    assert (user.model, user.cost_usd, user.input_tokens, user.output_tokens) == ("u-1", 0.25, 50, 5)
    late = trace.spans[6]  # it cannot have begun before the message it answers
    assert (late.start_ns, late.end_ns) == (T0 + 6 * SECOND, T0 + 8 * SECOND)
    assert [s.span_id for s in trace.steps] == [s.span_id for s in trace.spans[1:]]


def test_labels() -> None:
    (trace,), _ = read(results(simulation(review={"summary": "fine"})))
    assert [(x.name, x.value, x.source) for x in trace.labels] == [
        ("db_match", True, "import"),
        ("reward.DB", 1.0, "import"),
        ("reward.COMMUNICATE", 0.5, "import"),
        ("action_checks", False, "import"),
        ("nl_assertions", True, "import"),
        ("review", None, "judge"),
    ]
    assert trace.text(trace.labels[4].why or Ref("")) == "it was"


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        (
            {"termination_reason": "infrastructure_error", "info": {"error": "gone"}},
            Missing("infrastructure.other", "gone"),
        ),
        ({"termination_reason": "max_steps", "reward_info": {"reward": 0.0}}, Scored(0.0, "reward")),
        ({"termination_reason": "too_many_errors", "reward_info": None}, Missing("unscored", "too_many_errors")),
        ({"reward_info": {"reward": None}}, Missing("unscored", "user_stop")),
    ],
)
def test_outcomes(changes: dict[str, Any], outcome: Any) -> None:
    (trace,), _ = read(results(simulation(**changes)))
    assert trace.outcome == outcome
    assert sum(s.status == "error" for s in trace.spans) == (2 if "info" in changes else 1)
    assert trace.totals.errors == 1, "what the simulation says of itself is no step"


def test_one_file_per_simulation_as_document_lines_or_array() -> None:
    one = simulation(messages=MESSAGES[:2])
    two = simulation(messages=MESSAGES[:2], id=None, trial=3)
    (trace,), report = read(one)
    assert (trace.head.task, trace.head.attempt, trace.head.agent) == ("t1", 1, "")
    assert not report.skipped
    assert [t.head.attempt for t in read([one, two])[0]] == [1, 3]
    lines = json.dumps(one).encode() + b"\n" + json.dumps(two).encode() + b"\n"
    assert [t.head.attempt for t in read_traces(bytes_source("log", lines), "tau2")[0]] == [1, 3]


def test_a_run_without_simulations_is_reported() -> None:
    traces, report = read({"timestamp": at(0), "info": INFO, "tasks": []})
    assert not traces
    assert "file of its own" in report.skipped[0].why
    assert report.lost == {"info (of a run without simulations)": 1}


def test_the_id_is_known_everywhere() -> None:
    def episode(name: str, value: Any) -> str:
        return read_traces(bytes_source(name, json.dumps(value).encode()), "tau2")[0][0].head.episode

    assert episode("a", simulation()) == episode("b", simulation())
    assert episode("a", simulation(id=None)) != episode("b", simulation(id=None))


def test_bad_simulations_and_messages_are_reported_and_the_rest_is_kept() -> None:
    bad = simulation(id="x", messages=[MESSAGES[0], "hm", {"role": "tool", "requestor": "user", "content": "?"}])
    traces, report = read(results(simulation(), 7, bad))
    assert len(traces) == 2
    assert [s.where for s in report.skipped] == ["simulation 1", "simulation 2, message 1"]
    assert [(s.kind, s.lane, s.tool) for s in traces[1].spans[2:]] == [("tool", "user", "unknown")]


def test_calls_that_nothing_answered() -> None:
    (trace,), report = read(results(simulation(messages=[MESSAGES[2], MESSAGES[5]])))
    assert [(s.lane, s.tool, s.result) for s in trace.spans if s.kind == "tool"] == [
        ("", "ring", None),
        ("", "look", None),
        ("user", "pull", None),
    ]
    assert report.lost == {"tool result (never came)": 3}


def test_a_cut_file_keeps_the_simulations_before_the_cut() -> None:
    data = json.dumps(results(simulation(), simulation(id="b"), simulation(id="c"))).encode()
    traces, report = read_traces(bytes_source("log", data[:-600]), "tau2")
    assert len(traces) == 2
    assert traces[0].head.meta["domain"] == "tower"
    assert [s.where for s in report.skipped] == ["the rest of the file"]
    data = json.dumps(simulation()).encode()
    (trace,), report = read_traces(bytes_source("log", data[: data.index(b"Please")]), "tau2")
    assert trace.totals.tool_calls == 2
    assert report.skipped[0].where == "the rest of the document"


def test_sound() -> None:
    messages = [
        {"role": "user", "content": "QUJD" * 100, "is_audio": True, "audio_script_gold": "Hello there"},
        {"role": "assistant", "content": "Hi", "audio_path": "a/1.wav", "audio_content": "QUJD"},
    ]
    (trace,), report = read(simulation(messages=messages))
    assert report.lost == {"audio_content": 1}
    heard, said = trace.messages
    assert heard.text == "Hello there"
    assert isinstance(heard.parts[1], File)
    assert heard.parts[1].size == 300
    assert said.parts == (Text("Hi"), File("audio", uri="a/1.wav"))


def tick(number: int, agent: Any = None, user: Any = None, **more: Any) -> dict[str, Any]:
    return {"tick_id": number, "timestamp": at(number), "agent_chunk": agent, "user_chunk": user, **more}


def said(words: str | None, *, role: str = "assistant", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": words, "contains_speech": True, **more}


QUIET = {"role": "user", "contains_speech": False, "turn_taking_action": {"action": "wait"}}


def test_voice() -> None:
    effect = {"speech_effects": {"muffled": True}}
    result = {"id": "c1", "role": "tool", "content": "ding", "error": False}
    ticks = [
        tick(0, said("Hel", utterance_ids=["a"]), QUIET),
        tick(1, said("lo", utterance_ids=["a"]), said(None, role="user", **effect), user_transcript="uh"),
        tick(2, said("Yes?", utterance_ids=["b"]), said(None, role="user", **effect), user_transcript=" huh"),
        tick(3, None, {**QUIET, "turn_taking_action": {"action": "stop_talking"}}),
        tick(4, None, QUIET, agent_tool_calls=[{"id": "c1", "name": "ring", "arguments": {"times": 1}}]),
        tick(5, None, QUIET, agent_tool_results=[result], wall_clock_duration_seconds=0.5),
        tick(6, None, QUIET),
        tick(7, None, None, user_tool_calls=[{"id": "c2", "name": "pull", "arguments": {}}]),
    ]
    (trace,), report = read(simulation(messages=None, ticks=ticks, mode="full_duplex"))
    assert not report.skipped
    assert report.lost == {"tick (silence)": 1, "tick.wall_clock_duration_seconds": 1, "tool result (never came)": 1}
    assert [(s.kind, s.lane, s.name) for s in trace.spans[1:]] == [
        ("model", "", "chat"),
        ("user", "user", "user"),
        ("other", "user", "sound"),
        ("model", "", "chat"),
        ("tool", "", "ring"),
        ("user", "user", "user"),
        ("tool", "user", "pull"),
    ]
    spoke, heard, stopped, called, rang = trace.spans[1:6]
    assert trace.message(spoke.output[0]) == Message("assistant", (Text("Hello Yes?"),))
    assert (spoke.start_ns, spoke.end_ns) == (T0, T0 + 2 * SECOND)
    assert attributes(trace, spoke) == {"ticks": [0, 2], "utterance_ids": ["a", "b"]}
    assert trace.message(heard.output[0]).parts == (File("audio"),)
    assert attributes(trace, heard) == {
        "ticks": [1, 2],
        "transcript": "uh huh",
        "notes": [{"tick": 1, "speech_effects": {"muffled": True}}],
    }
    assert attributes(trace, stopped)["notes"] == [{"tick": 3, "turn_taking_action": {"action": "stop_talking"}}]
    assert called.requested == ("ring",)
    assert trace.text(rang.arguments or Ref("")) == '{"times":1}'
    assert rang.start_ns == T0 + 5 * SECOND


def test_ticks_beside_messages_are_counted_as_lost() -> None:
    (trace,), report = read(simulation(ticks=[tick(0), tick(1)]))
    assert trace.totals.model_calls == 3
    assert report.lost == {"tick (its messages are kept)": 2}


def test_bad_ticks_are_reported() -> None:
    (trace,), report = read(simulation(messages=None, ticks=[5, tick(1, said("Hi")), {"tick_id": None}]))
    assert trace.totals.model_calls == 1
    assert [s.where for s in report.skipped] == ["the document, tick 0"]


def test_rough_handling(rough: Callable[[str, bytes], None], samples: dict[str, bytes]) -> None:
    rough("tau2", samples["tau2"])


def test_rough_handling_of_voice(rough: Callable[[str, bytes], None]) -> None:
    result = {"id": "c1", "role": "tool", "content": "ding", "error": False}
    chunk = said("Hi", utterance_ids=["a"], audio_path="x.wav", turn_taking_action={"action": "generate_message"})
    call = {"id": "c1", "name": "ring", "arguments": {"times": 1}}
    ticks = [tick(0, chunk, QUIET), tick(1, None, said("Yo"), agent_tool_calls=[call], agent_tool_results=[result])]
    rough("tau2", json.dumps({"id": "s", "task_id": "t", "termination_reason": "user_stop", "ticks": ticks}).encode())


# The voice files have no figures in expected.json: these are counted in the raw file by other means.


@here
def test_real_voice_run() -> None:
    traces, report = read_traces(bytes_source(SIM, (DATA / SIM).read_bytes()), "tau2")
    raw = json.loads(gzip.decompress((DATA / SIM).read_bytes()))
    (trace,) = traces
    assert not report.skipped
    assert (trace.head.task, trace.head.attempt, trace.head.seed) == ("40", 0, 626729)
    assert trace.outcome == Missing("unscored", "user_stop")
    spans: Counter[str] = Counter(s.kind for s in trace.spans)
    for side, kind in (("agent_chunk", "model"), ("user_chunk", "user")):
        speaks = [t[side]["contains_speech"] for t in raw["ticks"]]
        assert spans[kind] == sum(k for k, _ in itertools.groupby(speaks))
        ranges = [attributes(trace, s)["ticks"] for s in trace.spans if s.kind == kind]
        assert sum(last - first + 1 for first, last in ranges) == sum(speaks)
    assert (spans["model"], spans["user"]) == (15, 11)
    quiet = [
        t for t in raw["ticks"] if not t["agent_chunk"]["contains_speech"] and not t["user_chunk"]["contains_speech"]
    ]
    told = [
        t["user_chunk"]["source_effects"] or t["user_chunk"]["turn_taking_action"]["action"] != "wait"
        for t in raw["ticks"]
        if not t["user_chunk"]["contains_speech"]
    ]
    assert spans["other"] == sum(map(bool, told)) == 9
    alone = sum(
        bool(t["user_chunk"]["source_effects"]) or t["user_chunk"]["turn_taking_action"]["action"] != "wait"
        for t in quiet
    )
    assert report.lost == {"tick (silence)": len(quiet) - alone}
    assert trace.head.start_ns is not None
    assert trace.head.end_ns is not None
    assert (trace.head.end_ns - trace.head.start_ns) / 1e9 == pytest.approx(raw["duration"], abs=0.1)
    starts = [s.start_ns or 0 for s in trace.steps]
    assert starts == sorted(starts)


@here
def test_real_voice_run_metadata() -> None:
    traces, report = read_traces(bytes_source("r", (DATA / "voice_results.json").read_bytes()), "tau2")
    assert not traces
    assert len(report.skipped) == 1
