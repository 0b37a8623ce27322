"""`ethogram golden` and `ethogram incident`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

AGENT = """
def solve(task):
    return "6" if task.id == "tea" else "4"

def bad(task):
    return "7"
"""


@pytest.fixture
def shop(env: dict[str, str], call: Any) -> None:
    Path("shop").mkdir()
    Path("shop/tasks.yaml").write_text(
        '- {id: tea, prompt: "Tea?", checks: [{equals: "6"}]}\n- {id: ale, prompt: "Ale?", checks: [{equals: "4"}]}\n'
    )
    Path("agent.py").write_text(AGENT)
    assert call("golden", "freeze", "shop", "--by", "ada").code == 0
    assert call("run", "shop", "--agent", "agent.py:bad", "--run", "night").code == 0
    assert call("run", "shop", "--agent", "agent.py:solve", "--run", "day").code == 0


def tea_of(call: Any, run: str) -> str:
    return call("sql", "SELECT trace_id FROM episodes WHERE task = 'tea'", "--run", run).out.split()[-1]


def test_from_a_failure_to_a_closed_incident(shop: None, call: Any, document: Any) -> None:
    failing, passing = tea_of(call, "night"), tea_of(call, "day")
    opened = document("incident", "open", "--trace", failing, "--why", "a wrong price")["incident"]
    assert (opened["state"], opened["facts"]["evidence"]["passing"]) == ("open", passing)
    assert call("incident", "list").code == 1, "something is open"
    assert "a wrong price" in call("incident", "show").out
    refused = call("incident", "close", "latest")
    assert (refused.code, "give --task TASK --suite SUITE" in refused.err) == (64, True)
    bare = call("golden", "promote", failing, "--suite", "shop")
    assert (bare.code, "does not show what is right" in bare.err) == (64, True)
    made = document("golden", "promote", failing, "--suite", "shop", "--reference", passing, "--id", "guard")
    assert (made["task"], made["failure_score"], made["golden"]["version"]) == ("guard", 0.0, "1.1.0")
    closed = document("incident", "close", "latest", "--task", "guard", "--suite", "shop")["incident"]
    assert closed["guard"]["task"] == "guard"
    assert document("incident", "list")["open"] == 0
    said = call("golden", "remove", "shop", "guard", "--why", "no longer sold").out
    assert f"incident {opened['id']} is open again" in said


def test_a_set_is_changed_in_the_open(shop: None, call: Any, document: Any) -> None:
    assert document("golden", "diff", "shop")["next_version"] is None
    refused = call("golden", "remove", "shop", "tea")
    assert (refused.code, refused.out) == (64, "")
    assert "needs a written reason; give --why" in refused.err
    path = Path("shop/tasks.yaml")
    path.write_text(path.read_text().replace('equals: "4"', 'equals: "5"'))
    assert call("golden", "diff", "shop").code == 1
    assert call("golden", "check", "shop").code == 1
    told = call("run", "shop", "--agent", "agent.py:solve", "--run", "edited")
    assert "no gate will accept" in " ".join(told.out.split())
    assert call("run", "shop", "--agent", "agent.py:solve", "--run", "again").code == 0
    refused = call("gate", "edited", "again")
    assert (refused.code, "record them with: ethogram golden freeze" in refused.err) == (64, True)
    refused = call("compare", "day", "edited")
    assert (refused.code, "--common-tasks to compare the 1 tasks" in refused.err) == (64, True)
    assert "only the 1 tasks that are the same in both" in call("compare", "day", "edited", "--common-tasks").out
    for refused in (
        call("judge", "edited", "--against", "day", "--judge", "fixed:yes"),
        call("variance", "day", "edited"),
    ):
        assert (refused.code, "--common-tasks to compare the 1 tasks" in refused.err) == (64, True)
    pairs = document("judge", "edited", "--against", "day", "--judge", "fixed:yes", "--common-tasks")
    assert pairs["pairs"] == 1
    alone = call("variance", "day", "edited", "--common-tasks")
    assert (alone.code, "a spread needs scores of two tasks" in alone.err) == (64, True)
    assert document("golden", "freeze", "shop", "--why", "the price rose")["version"] == "2.0.0"


def test_a_check_says_what_it_looked_at(shop: None, call: Any, document: Any) -> None:
    Path("corpus.txt").write_text("nothing of the shop")
    said = call("golden", "check", "shop", "--corpus", "corpus.txt")
    assert said.code == 0
    assert "searched 1 file (19 B) and 4 traces of 2 runs" in said.out
    found = document("golden", "check", "shop", "--corpus", "corpus.txt")
    assert [task["success"]["n"] for task in found["health"]] == [2, 2]
    both = call("golden", "check", "shop", "--probe", "a", "--probe-model", "b")
    assert (both.code, "give one of the two" in both.err) == (64, True)
    short = call("golden", "check", "shop", "--probe", "agent.py:solve")
    assert (short.code, "long enough to be continued" in short.err) == (64, True)
    assert call("golden", "check", "nowhere").code == 64
