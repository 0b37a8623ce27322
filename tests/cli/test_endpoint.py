"""An agent behind an address: its model, its usage and its time are what a run says of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

WAIT = 0.25
REPLIES = {
    "/named": {"answer": "42", "model": "gpt-4o", "usage": {"input_tokens": 100_000, "output_tokens": 20_000}},
    "/inside": {"answer": "42", "usage": {"model": "gpt-4o", "prompt_tokens": 100_000, "completion_tokens": 20_000}},
    "/nameless": {"answer": "42", "usage": {"input_tokens": 100_000, "output_tokens": 20_000}},
    "/odd": {"answer": "42", "model": 7, "usage": "none"},
}


def reply(path: str, task: dict[str, Any]) -> dict[str, Any]:
    time.sleep(WAIT)
    return REPLIES[path]


@pytest.fixture
def address(env: dict[str, str], http_agent: Any) -> str:
    Path("suite").mkdir()
    Path("suite/tasks.yaml").write_text("- {id: t, prompt: '?', expected: '42', checks: [equals]}\n")
    return str(http_agent(reply))


@pytest.mark.parametrize("path", ["/named", "/inside"])
def test_the_model_that_an_endpoint_names_is_priced(document, address, path):
    found = document("run", "suite", "--agent", f"{address}{path}", "--run", "a")
    assert (found["cost_usd"], found["at_least_usd"]) == (None, pytest.approx(0.45))  # it may use more than it says
    cost = document("cost", "a")
    assert [m["model"] for m in cost["by_model"]] == ["gpt-4o"]
    assert (cost["cost_usd"], cost["at_least_usd"]) == (None, pytest.approx(0.45))


def test_a_price_for_any_model_is_also_for_one_without_a_name(call, document, address):
    document("run", "suite", "--agent", f"{address}/nameless", "--run", "a")
    assert call("cost", "a").code == 2
    assert document("cost", "a", "--price", "*=1/1")["at_least_usd"] == pytest.approx(0.12)
    priced = ("--price", "*=1/1", "--max-usd", "1", "--allow-unmetered")
    found = document("run", "suite", "--agent", f"{address}/nameless", "--run", "b", *priced)
    assert found["at_least_usd"] == pytest.approx(0.12)


def test_what_is_no_model_and_no_usage_is_unknown(document, address):
    found = document("run", "suite", "--agent", f"{address}/odd", "--run", "a")
    assert (found["successes"], found["cost_usd"], found["tokens"]) == (1, None, None)


def test_seconds_are_those_of_the_whole_episode(document, address):
    document("run", "suite", "--agent", f"{address}/named", "--run", "far")
    Path("slow.py").write_text(f"import time\ntime.sleep({WAIT})\nprint(42, end='')\n")
    document("run", "suite", "--agent", "cmd: python slow.py", "--run", "outside")
    Path("agent.py").write_text(f"import time\n\ndef solve(task, episode):\n    time.sleep({WAIT})\n    return '42'\n")
    document("run", "suite", "--agent", "agent.py:solve", "--run", "bare")
    for run in ("far", "outside", "bare"):
        (seconds,) = [t["seconds"] for t in document("show", run)["traces"]]
        assert WAIT <= seconds < 60
    query = "SELECT (end_ns - start_ns) / 1e9 AS seconds FROM episodes"
    assert document("sql", query, "--run", "bare")["records"][0]["seconds"] >= WAIT
