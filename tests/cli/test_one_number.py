"""What an imported log cost, and how long it took, is one number for every verb."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

PRICE = "[prices.m]\nfresh = 2\noutput = 10\n"


def log(name: str, scale: int) -> Path:
    """Chats without a recorded cost or times: eight tasks, three attempts each."""
    lines = []
    for task in range(8):
        for attempt in range(3):
            usage = {"prompt_tokens": scale * (100 + attempt), "completion_tokens": 10}
            talk = [{"role": "user", "content": "Ring."}, {"role": "assistant", "content": "Rung."}]
            lines.append(
                {"task": f"t{task}", "attempt": attempt, "score": 1.0, "seconds": 13, "model": "m", "usage": usage}
                | {"messages": talk}
            )
    path = Path(f"{name}.jsonl")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def chats(call: Any) -> tuple[str, str]:
    Path("ethogram.toml").write_text(PRICE)
    for name, scale in (("base", 1), ("dear", 10)):
        assert call("import", log(name, scale), "--run", name, "--outcome-from", "label:score").code == 0
    return "base", "dear"


def test_what_a_log_cost(call, document, chats):
    mean = (2 * 101 + 10 * 10) / 1e6
    shown = [row["cost_usd"] for row in document("show", "base")["traces"]]
    assert sum(shown) / 24 == pytest.approx(mean)
    assert document("cost", "base")["per_run"]["value"] == pytest.approx(mean)
    compared = document("compare", "base", "dear", "--metric", "cost")
    assert compared["base"]["value"] == pytest.approx(mean)
    assert compared["difference"]["value"] == pytest.approx(9 * 2 * 101 / 1e6)
    judged = document("gate", "base", "dear", "--metric", "cost", code=1)
    assert judged["difference"]["value"] == pytest.approx(9 * 2 * 101 / 1e6, rel=0.02), "of the first looks"
    told = document("sql", "SELECT avg(cost) AS cost, avg(seconds) AS seconds FROM metrics WHERE run = 'base'")
    assert told["records"][0]["cost"] == pytest.approx(mean)
    assert told["records"][0]["seconds"] == 13
    assert document("compare", "base", "dear", "--metric", "seconds")["base"]["value"] == 13
    assert {row["seconds"] for row in document("show", "base")["traces"]} == {13}


def test_a_query_names_the_view_of_metrics(call, chats):
    said = call("sql", "SELECT * FROM nothing")
    assert said.code == 64
    assert "views: runs, episodes, spans, texts, labels, messages, metrics" in said.err
