"""`ethogram cost`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ethogram.worlds.demo import copy_demo_logs

ASSUME = ("--assume", "steps=20,input=12000,output=700,cached=0.6", "--price", "frontier=3/15")
WORKED = (
    *ASSUME,
    *("--price", "small=0.15/0.60", "--resolution", "0.65", "--volume", "10000"),
    *("--route", "14=small", "--routed-resolution", "0.60", "--routed-resolution", "0.20"),
)


@pytest.fixture
def coding(call, env) -> str:
    """A session of a coding agent with a prompt cache."""
    folder = Path(copy_demo_logs(Path("demo")).folder)
    assert call("import", folder / "coding-session.jsonl", "--run", "coding").code == 0
    return "coding"


def test_the_worked_example_on_the_screen(call):
    said = call("cost", *WORKED)
    assert said.code == 0, said
    lines = {line[:26].strip(): line[26:] for line in said.out.splitlines() if line[26:]}
    assert said.out.count("per attempt ") == 2
    assert "$0.5412" in said.out.partition("routed")[0]
    assert lines["per resolved task"].startswith("$0.8326")
    assert lines["a month, 10,000 attempts"].startswith("$5,412")
    assert lines["per attempt"].startswith("$0.1798")
    assert lines["at 60 % resolved"] == "$0.2997 per resolved task: pays"
    assert lines["at 20 % resolved"] == "$0.8992 per resolved task: does not pay"
    assert lines["break-even resolution"].startswith("21.6 %")


def test_the_worked_example_for_scripts(call):
    said = call("cost", *WORKED, "--json")
    assert (said.code, said.err) == (0, "")
    found = json.loads(said.out)
    routed = found["routing"]
    figures = [
        round(found["per_run"]["value"], 2),
        round(found["per_resolved"]["value"], 2),
        round(found["monthly"]["cost"]["value"], -2),
        round(routed["per_run"]["value"], 2),
        *(round(at["per_resolved"]["value"], 2) for at in routed["at"]),
        *(at["pays"] for at in routed["at"]),
    ]
    assert figures == [0.54, 0.83, 5400, 0.18, 0.30, 0.90, True, False]
    assert found["schema_version"] == 1
    assert found["per_resolved"]["low"] is None


def test_a_dearer_model_cannot_pay(call):
    said = call("cost", *ASSUME, "--price", "larger=9/45", "--resolution", "0.65", "--route", "100%=larger")
    assert said.code == 0, said
    assert "break-even resolution     195 % (assumed); above 100 %: it cannot pay" in said.out
    assert "at 65 % resolved          $2.50 per resolved task: does not pay" in said.out


def test_a_run_on_the_screen(call, coding):
    said = call("cost", coding)
    assert said.code == 0, said
    assert "9 model calls (9 priced)" in said.out
    assert "cache hit rate 94.9 %" in said.out
    assert said.out.startswith("coding  per resolved task: unknown, because no outcome is scored; $0.1010 in all\n")
    assert "by tool" in said.out
    assert "after-tool" in said.out
    assert "note: tokens of tool results are their characters / 4" in said.err


def test_a_run_for_scripts(call, coding):
    said = call("cost", "latest", "--json", "--volume", "100", "--route", "after-tool=claude-haiku-4-5")
    assert said.code == 0, said
    assert said.out.count("\n") == 1
    found = json.loads(said.out, parse_constant=lambda word: pytest.fail(word))
    assert {"per_run", "per_resolved", "by_step", "unpriced", "by_tool", "cache", "monthly", "routing"} <= found.keys()
    assert found["monthly"]["cost"]["value"] == pytest.approx(100 * found["cost_usd"])
    assert found["routing"]["share_of_cost"]["value"] < 1
    assert found["usage"]["reasoning"] is None


def test_own_prices_override(call, coding):
    Path("prices.toml").write_text('["claude-sonnet-4-5"]\nfresh = 0\noutput = 1000\ncached = 0\ncache_write = 0\n')
    found = json.loads(call("cost", coding, "--prices", "prices.toml", "--json").out)
    assert found["sources"]["own"] == 9
    assert found["cost_usd"] == pytest.approx(1000 * found["usage"]["output"] / 1e6)
    flagged = json.loads(call("cost", coding, "--price", "claude-*=0/2000/0/0", "--json").out)
    assert flagged["cost_usd"] == pytest.approx(2 * found["cost_usd"])


def test_nothing_priced_ends_with_two_and_says_what_to_give(call, lake):
    said = call("cost", lake)
    assert said.code == 2
    assert "not known: the logs hold neither token counts nor costs" in said.err
    assert "the log gives no token counts" in said.out
    document = call("cost", lake, "--json")
    assert document.code == 2
    assert json.loads(document.out)["per_run"]["value"] is None


def test_a_part_of_the_cost_is_called_at_least(call, env):
    """As `show` calls it; what a part comes to per resolved task is not told."""
    folder = Path(copy_demo_logs(Path("demo")).folder)
    lines = (folder / "coding-session.jsonl").read_text().splitlines()
    half = [line.replace("claude-sonnet-4-5", "house-model") if i > 5 else line for i, line in enumerate(lines)]
    Path("half.jsonl").write_text("\n".join(half) + "\n")
    assert call("import", "half.jsonl", "--run", "half").code == 0
    said, shown = call("cost", "half"), call("show", "half")
    amount = re.search(r"at least (\$[\d.]+) in all", said.out)
    assert amount is not None, said.out
    assert f"cost: at least {amount[1]}" in shown.out
    found = json.loads(call("cost", "half", "--json").out)
    assert (found["cost_usd"], found["paid_per_resolved"]) == (None, None)
    assert found["at_least_usd"] > 0


def test_an_unknown_model_is_named_and_can_be_priced(call, env):
    folder = Path(copy_demo_logs(Path("demo")).folder)
    text = (folder / "coding-session.jsonl").read_text().replace("claude-sonnet-4-5", "house-model")
    Path("house.jsonl").write_text(text)
    assert call("import", "house.jsonl", "--run", "house").code == 0
    said = call("cost", "house")
    assert said.code == 2
    assert "--price NAME=FRESH/OUTPUT (models: house-model)" in said.err
    assert "the model is not in the price table" in said.out
    priced = call("cost", "house", "--price", "house-model=3/15/0.3/3.75")
    assert priced.code == 0
    assert "$0.1010 in all" in priced.out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("nowhere",), "no run"),
        (("coding", "--assume", "steps=1,input=1,output=1"), "not both"),
        (("coding", "--model", "m"), "--model belongs to --assume"),
        (("coding", "--price", "m=3"), "NAME=FRESH/OUTPUT"),
        (("coding", "--prices", "nowhere.toml"), "no price file"),
        (("coding", "--route", "tools=m"), "is not a class of step"),
        (("coding", "--route", "first=nobody"), "--price nobody=FRESH/OUTPUT"),
        (("coding", "--as-of", "soon"), "as-of"),
        (("coding", "--level", "2"), "--level must lie between 0.5 and 1"),
        (("--assume", "steps=20"), "lacks input"),
        (("--assume", "steps=1,input=1,output=1"), "needs a model"),
    ],
)
def test_bad_input_is_one_sentence(call, coding, args, words):
    said = call("cost", *args)
    assert said.code == 64, said
    assert words in said.err
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1


def test_help_has_an_example(call):
    said = call("cost", "--help")
    assert said.code == 0
    assert "ethogram cost latest" in said.out
    assert "after-error" in said.out
