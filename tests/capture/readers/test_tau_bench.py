from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.source import bytes_source
from ethogram.traces import Missing, Scored, ToolResult, Trace

DATA = Path(__file__).parents[4] / "shared" / "data"
NAME = "tau_bench/gpt-4o-airline.dev_5tasks.json.gz"
here = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")


def read(value: Any) -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source("log", json.dumps(value).encode()), "tau-bench")


def call(name: str, call_id: str, arguments: str = "{}") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def result(name: str, call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}


def test_a_run() -> None:
    traj = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Feed the cat."},
        call("feed", "c1", '{"what": "fish"}'),
        result("feed", "c1", "Error: no fish"),
        {"role": "assistant", "content": "There is no fish."},
        {"role": "user", "content": "###STOP###"},
    ]
    info = {
        "source": "user",
        "user_cost": 0.5,
        "user_model": "u",
        "task": {"user_id": "a"},
        "reward_info": {"reward": 0},
    }
    traces, report = read([{"task_id": 3, "trial": 2, "reward": 0.0, "info": info, "traj": traj, "extra": [1]}])
    (trace,) = traces
    assert not report.skipped
    assert not report.lost
    assert (trace.head.task, trace.head.attempt, trace.outcome) == ("3", 2, Scored(0.0, "reward"))
    assert trace.head.meta == {
        "ended_by": "user",
        "user_cost_usd": 0.5,
        "user_model": "u",
        "task": '{"user_id":"a"}',
        "reward_info": '{"reward":0}',
        "extra": "[1]",
    }
    assert [m.role for m in trace.messages] == [m["role"] for m in traj]
    assert [s.kind for s in trace.spans] == ["other", "user", "model", "tool", "model", "user"]
    assert [s.kind for s in trace.steps] == ["user", "model", "tool", "model", "user"]
    tool = trace.spans[3]
    assert (tool.tool, tool.call_id, tool.status) == ("feed", "c1", "error")
    assert tool.arguments is not None
    assert trace.text(tool.arguments) == '{"what": "fish"}'
    assert trace.spans[2].requested == ("feed",)
    assert [m.role for m in trace.conversation(trace.spans[4])] == ["system", "user", "assistant", "tool"]


def test_call_ids_that_repeat_inside_a_run_are_paired_by_position() -> None:
    traj = [
        call("add", "x", '{"n": 1}'),
        result("add", "x", "one"),
        call("add", "x", '{"n": 2}'),
        result("add", "x", "two"),
    ]
    ((trace,), _) = read([{"task_id": 0, "trial": 0, "reward": 1, "info": {}, "traj": traj}])
    tools = [s for s in trace.spans if s.kind == "tool"]
    assert [(trace.text(s.arguments or ""), trace.text(s.result or "")) for s in tools] == [  # type: ignore[arg-type]
        ('{"n": 1}', "one"),
        ('{"n": 2}', "two"),
    ]


def test_calls_without_result_and_results_without_call() -> None:
    traj = [result("lost", "y", "?"), call("add", "x")]
    ((trace,), report) = read([{"task_id": 0, "trial": 0, "reward": 0, "info": {}, "traj": traj}])
    assert [(s.kind, s.tool, s.result is None) for s in trace.spans] == [
        ("tool", "lost", False),
        ("model", None, True),
        ("tool", "add", True),
    ]
    assert report.lost == {"tool result (never came)": 1}


def test_null_reward_info_empty_results_and_a_run_that_ends_on_a_tool() -> None:
    traj = [call("think", "x", '{"thought": "hm"}'), result("think", "x", "")]
    info = {"reward_info": None, "source": "think"}
    ((trace,), report) = read([{"task_id": 0, "trial": 0, "reward": 0.0, "info": info, "traj": traj}])
    assert "reward_info" not in trace.head.meta
    assert trace.messages[-1].parts == (ToolResult("", "think", "x"),)
    assert trace.spans[-1].status == "ok"
    assert not report.lost


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("Traceback\n  x\nlitellm.RateLimitError: 429", "infrastructure.rate_limit"),
        ("openai.APITimeoutError: Request timed out.", "infrastructure.timeout"),
        ("openai.APIConnectionError: Connection error.", "infrastructure.network"),
        ("openai.InternalServerError: Error code: 500", "infrastructure.other"),
        ("KeyError: 'flights'", None),
    ],
)
def test_a_crash_of_the_provider_is_missing_and_one_of_the_agent_is_scored(error: str, outcome: str | None) -> None:
    info = {"error": error.splitlines()[-1], "traceback": error}
    ((trace,), _) = read([{"task_id": 0, "trial": 0, "reward": 0.0, "info": info, "traj": []}])
    if outcome is None:
        assert trace.outcome == Scored(0.0, "reward")
    else:
        assert isinstance(trace.outcome, Missing)
        assert trace.outcome.reason == outcome
        assert trace.outcome.detail == error.splitlines()[-1]
    (crash,) = trace.spans
    assert crash.status == "error"
    assert trace.text(crash.error or "") == error  # type: ignore[arg-type]
    assert [(label.name, label.value) for label in trace.labels] == [("reward", 0.0)]


def test_bad_elements_and_messages_are_reported_and_the_rest_is_kept() -> None:
    good = {"task_id": 1, "trial": 0, "reward": 1, "info": {}, "traj": [{"role": "user", "content": "hi"}, 5]}
    traces, report = read(
        [good, 7, {"task_id": 2}, {"task_id": 3, "traj": "hello"}, {**good, "task_id": 4, "trial": None}]
    )
    assert [t.head.task for t in traces] == ["1", "4"]
    assert [s.where for s in report.skipped] == [
        "element 0, message 1",
        "element 1",
        "element 2",
        "element 3",
        "element 4, message 1",
    ]
    assert traces[1].head.attempt == 0


def test_the_same_trial_twice_stays_two_traces() -> None:
    item = {"task_id": 1, "trial": 0, "reward": 1, "info": {}, "traj": []}
    traces, report = read([item, item])
    assert len({t.head.trace_id for t in traces}) == 2
    assert report.lost == {"trace key (repeated)": 1}


def test_a_cut_file_keeps_what_came_before_and_nan_does_not_end_it() -> None:
    item = '{"task_id": 1, "trial": %d, "reward": %s, "info": {}, "traj": []}'
    text = "[" + ", ".join(item % (i, r) for i, r in enumerate(("1.0", "NaN", "1.0", "0.0"))) + "]"
    traces, report = read_traces(bytes_source("log", text.encode()), "tau-bench")
    assert [t.outcome for t in traces] == [
        Scored(1.0, "reward"),
        Missing("unscored"),
        Scored(1.0, "reward"),
        Scored(0.0, "reward"),
    ]
    assert not report.skipped
    traces, report = read_traces(bytes_source("log", text[:-20].replace("NaN", "0").encode()), "tau-bench")
    assert len(traces) == 3
    assert report.skipped[0].where == "the rest of the file"


def test_rough_handling(rough: Callable[[str, bytes], None], samples: dict[str, bytes]) -> None:
    rough("tau-bench", samples["tau-bench"])


# Every figure of expected.json that a trace can give, by its definitions.

WRITES = {
    "book_reservation",
    "cancel_reservation",
    "update_reservation_baggages",
    "update_reservation_flights",
    "update_reservation_passengers",
    "send_certificate",
}
LOOKUPS = {"get_reservation_details", "search_direct_flight", "search_onestop_flight"}
STATES = ("start", "identified", "looked_up", "acted", "closed")


def calls_of(trace: Trace) -> list[str]:
    return [c.name for m in trace.messages for c in m.tool_calls]


def vector(trace: Trace) -> dict[str, float]:
    names = calls_of(trace)
    messages = trace.messages
    return {
        "n_messages": len(messages),
        "n_tool_calls": len(names),
        "n_distinct_tools": len(set(names)),
        "n_user_turns": sum(m.role == "user" for m in messages),
        "n_writes": sum(n in WRITES for n in names),
        "n_transfers": names.count("transfer_to_human_agents"),
        "n_tool_errors": sum(m.role == "tool" and m.text.startswith("Error") for m in messages),
        "total_chars": sum(len(m.text) for m in messages),
    }


def states(trace: Trace) -> list[int]:
    rank, found = 0, []
    for message in trace.messages:
        for name in (c.name for c in message.tool_calls):
            reached = 1 if name == "get_user_details" else 2 if name in LOOKUPS else 3 if name in WRITES else 0
            rank = max(rank, reached)
        found.append(rank)
    return found


def reward(trace: Trace) -> float:
    assert isinstance(trace.outcome, Scored)
    return trace.outcome.value


def chain(traces: list[Trace]) -> dict[str, Any]:
    names = list(vector(traces[0]))
    x = np.array([list(vector(t).values()) for t in traces], dtype=float)
    y = np.array([reward(t) for t in traces])
    won, lost = x[y >= 0.5], x[y < 0.5]
    variance = x.var(axis=0)
    spread = y.std()
    skew = [float(np.corrcoef(y, c)[0, 1]) if spread > 0 and c.std() > 0 else None for c in x.T]
    return {
        "K": len(traces),
        "n_success": int((y >= 0.5).sum()),
        "mean_reward": y.mean(),
        "width": variance.sum(),
        "width_without_total_chars": variance[:-1].sum(),
        "center": dict(zip(names, x.mean(axis=0), strict=True)),
        "variance": dict(zip(names, variance, strict=True)),
        "convergence": y.mean() / spread if spread > 0 else (math.inf if y.mean() > 0 else 0.0),
        "separation": dict(zip(names, won.mean(axis=0) - lost.mean(axis=0), strict=True)),
        "skew": dict(zip(names, skew, strict=True)),
    }


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key in wanted:
            same(found[key], wanted[key])
    elif wanted is None:
        assert found is None
    else:
        assert found == pytest.approx(float(wanted), rel=1e-9, abs=1e-9)


@pytest.fixture(scope="module")
def airline() -> list[Trace]:
    traces, report = read_traces(bytes_source(NAME, (DATA / NAME).read_bytes()), "tau-bench")
    assert not report.skipped
    assert not report.lost
    return traces


@pytest.fixture(scope="module")
def wanted() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / "expected.json").read_text())[NAME]
    return found


@here
def test_field(airline: list[Trace], wanted: dict[str, Any]) -> None:
    assert len(airline) == wanted["n_trajectories"]
    same(chain(airline), wanted["field"])
    same(np.mean([reward(t) for t in airline]), wanted["average_reward"])


@here
@pytest.mark.parametrize("rule", ["visited", "reached"])
def test_horizons(airline: list[Trace], wanted: dict[str, Any], rule: str) -> None:
    for label, figures in wanted[f"horizons_{rule}"].items():
        rank = STATES.index(label)
        if rule == "reached":
            members = [t for t in airline if max(states(t)) >= rank]
        else:
            members = [t for t in airline if rank in [*states(t)[:-1], 4]]
        same(chain(members), figures)
    final = Counter(STATES[max(states(t))] for t in airline)
    assert {s: final[s] for s in STATES[:4]} == wanted["final_open_state_counts"]


@here
def test_pass_counts(airline: list[Trace], wanted: dict[str, Any]) -> None:
    tasks: dict[str, list[Trace]] = {}
    for trace in airline:
        tasks.setdefault(trace.head.task, []).append(trace)
    assert len(tasks) == wanted["n_tasks"]
    assert all(sorted(t.head.attempt for t in group) == [0, 1, 2, 3] for group in tasks.values())
    won = {task: sum(reward(t) >= 0.5 for t in group) for task, group in tasks.items()}
    assert won == wanted["success_count_per_task"]
    counted = Counter(won.values())
    assert {str(k): counted[k] for k in range(5)} == wanted["success_counts_histogram"]
    for k, figure in wanted["pass_hat_k"].items():
        same(np.mean([math.comb(c, int(k)) / math.comb(4, int(k)) for c in won.values()]), figure)
    for k, figure in wanted["pass_at_k"].items():
        same(np.mean([1 - math.comb(4 - c, int(k)) / math.comb(4, int(k)) for c in won.values()]), figure)


@here
def test_counts(airline: list[Trace], wanted: dict[str, Any]) -> None:
    figures = wanted["counts"]
    messages = [m for t in airline for m in t.messages]
    assert len(messages) == figures["messages"]
    assert Counter(m.role for m in messages) == figures["roles"]
    assert sum(len(calls_of(t)) for t in airline) == figures["tool_calls"]
    assert Counter(n for t in airline for n in calls_of(t)) == figures["tools"]
    assert Counter(s.tool for t in airline for s in t.spans if s.kind == "tool") == figures["tools"]
    ids = [[c.call_id for m in t.messages for c in m.tool_calls] for t in airline]
    assert len({i for group in ids for i in group}) == figures["distinct_tool_call_ids"]
    assert sum(len(set(group)) < len(group) for group in ids) == figures["trajectories_with_repeated_tool_call_id"]
    assert sum(t.totals.errors for t in airline) == figures["tool_error_messages"]
    assert sum(vector(t)["n_tool_errors"] for t in airline) == figures["tool_error_messages"]
    assert sum(m.role == "tool" and m.text == "" for m in messages) == figures["empty_tool_results"]
    assert sum("reward_info" not in t.head.meta for t in airline) == figures["reward_info_null"]
    same(sum(float(t.head.meta["user_cost_usd"] or 0) for t in airline), figures["user_cost_sum"])
    assert Counter(t.messages[-1].role for t in airline) == figures["last_role"]
    assert Counter(t.head.meta["ended_by"] for t in airline) == figures["source"]


@here
def test_every_word_is_kept(airline: list[Trace]) -> None:
    raw = json.loads(gzip.decompress((DATA / NAME).read_bytes()))
    assert raw
    for item, trace in zip(raw, airline, strict=True):
        for was, now in zip(item["traj"], trace.messages, strict=True):
            assert (was.get("content") or "") == now.text
            calls = [c["function"] for c in was.get("tool_calls") or []]
            assert [(c["name"], c["arguments"]) for c in calls] == [(c.name, c.arguments) for c in now.tool_calls]
        assert [s.result is not None for s in trace.spans if s.kind == "tool"] == [True] * len(calls_of(trace))
