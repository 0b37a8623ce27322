"""Caps on dollars as a user types them: what is recorded is priced at once, and what cannot be counted is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

SUITE = "- {id: t, prompt: '?', expected: '42', checks: [equals]}\n"
AGENT = """
def say(episode, **told):
    with episode.record.model(model=told.pop("model", "gpt-4o")) as call:
        call.done("42", **told)
    return "42"

def priced(task, episode):
    "Costs $0.45 by the table: 100,000 fresh tokens at $2.50 and 20,000 output tokens at $10 a million."
    return say(episode, input_tokens=100_000, output_tokens=20_000)

def nameless(task, episode):
    return say(episode, model="a-model-of-ours", input_tokens=100_000, output_tokens=20_000)

def stubborn(task, episode):
    for _ in range(50):
        try:
            nameless(task, episode)
        except Exception:
            pass
    return "42"

def silent(task, episode):
    return say(episode)

def bare(task, episode):
    "It may call a provider that nobody sees."
    return "42"

def bare_but_recording(task, episode):
    return priced(task, episode)

for agent in (priced, nameless, stubborn, silent):
    agent.meters = ("tokens", "usd")
"""
PRICE = 0.45


@pytest.fixture
def suite(env: dict[str, str]) -> str:
    Path("suite").mkdir()
    Path("suite/tasks.yaml").write_text(SUITE)
    Path("agent.py").write_text(AGENT)
    return "suite"


def one_by_one(*args: str) -> tuple[str, ...]:
    return (*args, "--workers", "1")


def test_tokens_of_a_known_model_are_dollars_at_once_so_a_cap_on_dollars_stops(document, suite):
    options = one_by_one("-k", "30", "--run", "a", "--max-usd", "1")
    found = document("run", suite, "--agent", "agent.py:priced", *options, code=2)
    assert found["stopped"] == "cap.experiment"
    assert found["cost_usd"] == pytest.approx(3 * PRICE)  # the third call begins below the cap and ends above it
    assert found["tokens"] == 360_000
    more = document("run", "--resume", "a", "--max-usd", "1.5", "--workers", "1", code=2)
    assert more["cost_usd"] == pytest.approx(4 * PRICE), "what the first session spent counts"


def test_a_price_of_ones_own_goes_before_the_table(document, suite):
    found = document("run", suite, "--agent", "agent.py:priced", "--run", "a", "--price", "gpt-4o=1/1")
    assert found["cost_usd"] == pytest.approx(0.12)
    assert document("cost", "a")["cost_usd"] == pytest.approx(0.12)


def test_an_agent_that_does_not_say_that_it_records_all_is_refused_under_a_cap(call, document, suite):
    for cap in (("--max-usd", "1"), ("--max-tokens", "1000"), ("--cap", "task.usd=1")):
        said = call("run", suite, "--agent", "agent.py:bare", "--capture", "off", *cap)
        assert (said.code, said.out, said.err.count("\n")) == (64, "", 1)
        assert "is not recorded in full" in said.err
        assert "--allow-unmetered" in said.err
    assert document("runs")["runs"] == []
    said = call("run", suite, "--agent", "agent.py:bare", "--run", "captured", "--max-usd", "1")
    assert said.code == 0
    assert "no model call was seen in 1 of 1 attempts: its connections are seen" in said.out.replace("\n", " ")
    found = document("run", suite, "--agent", "agent.py:bare", "--run", "a", "--max-usd", "1", "--allow-unmetered")
    assert (found["cost_usd"], found["tokens"], found["at_least_usd"]) == (None, None, 0)


def test_a_cap_of_a_task_is_a_cap(call, suite):
    Path("suite/tasks.yaml").write_text(SUITE.replace("id: t,", "id: t, caps: {usd: 0.1},"))
    said = call("run", suite, "--agent", "agent.py:bare", "--capture", "off")
    assert (said.code, said.out) == (64, "")
    assert "is not recorded in full" in said.err


@pytest.mark.parametrize(
    ("agent", "line"),
    [
        ("agent.py:bare", "; cost unknown, tokens unknown\n"),
        ("cmd: echo 42", "; cost unknown, tokens unknown\n"),
        ("agent.py:bare_but_recording", "; at least $0.4500, at least 120,000 tokens\n"),
        ("agent.py:priced", "; $0.4500, 120,000 tokens\n"),
        ("agent.py:nameless", "; cost unknown, 120,000 tokens\n"),
        ("agent.py:silent", "; cost unknown, tokens unknown\n"),
    ],
)
def test_what_was_not_metered_is_unknown(call, document, suite, agent, line):
    said = call("run", suite, "--agent", agent, "--run", "a")
    assert said.code == 0
    assert "succeeded" + line in said.out
    assert "$0.0000" not in said.out + said.err + call("show", "a").out


def test_an_agent_that_records_all_and_calls_no_model_costs_nothing(call, document):
    document("init")
    said = call("run", "suite", "--agent", "agent.py:solve", "--max-usd", "2")
    assert "; no model calls, $0\n" in said.out
    shown, priced = document("show"), document("cost")
    assert [shown["cost_usd"], priced["cost_usd"], priced["per_run"]["value"]] == [0, 0, 0]
    assert {row["cost_usd"] for row in (*shown["traces"], *priced["by_episode"])} == {0}
    assert document("sql", "select distinct cost from metrics")["records"] == [{"cost": 0}]


def test_an_agent_that_may_call_a_model_unseen_has_no_cost(call, document, suite):
    call("run", suite, "--agent", "agent.py:bare")
    shown, priced = document("show"), document("cost", code=2)
    assert [shown["cost_usd"], priced["cost_usd"], priced["per_run"]["value"]] == [None, None, None]
    assert document("sql", "select distinct cost from metrics")["records"] == [{"cost": None}]


@pytest.mark.parametrize("agent", ["bare", "bare_but_recording"])
def test_why_a_cost_is_unknown_where_calls_may_be_unseen(call, document, suite, agent):
    """A call that is recorded and priced is not said to lack tokens, or a price."""
    call("run", suite, "--agent", f"agent.py:{agent}", "--run", "a")
    said = call("cost", "a")
    assert said.code == 2
    assert "is not known: the agent may have made calls that were not recorded\n" in said.err
    assert "note: 1 of 1 episodes have no full cost: the agent may have made calls that were not recorded\n" in said.err
    for false in ("without a price", "neither token counts", "no recorded model call", "no model call in it"):
        assert false not in said.out + said.err
    assert document("cost", "a", code=2)["per_run"]["why"] == "the agent may have made calls that were not recorded"


@pytest.mark.parametrize("agent", ["nameless", "stubborn"])
def test_a_model_without_a_price_stops_a_run_under_a_cap_and_a_price_helps(call, document, suite, agent):
    options = one_by_one("-k", "5", "--run", "a", "--max-usd", "1")
    found = document("run", suite, "--agent", f"agent.py:{agent}", *options, code=64)
    assert (found["stopped"], found["scored"], found["not_run"]) == ("unmetered", 0, 4)
    assert (found["cost_usd"], found["tokens"]) == (None, 120_000), "one call was made, and no more"
    assert "model 'a-model-of-ours' has no price" in found["why"]
    assert "--price 'a-model-of-ours=FRESH/OUTPUT'" in found["why"]
    again = ("run", "--resume", "a", "--retry", "cap.experiment", "--workers", "1")
    said = call(*again)
    assert (said.code, said.out) == (64, "")
    assert "has spent so far is not known" in said.err
    if agent == "nameless":
        done = document(*again, "--price", "a-model-of-ours=1/1")
        assert (done["scored"], done["stopped"]) == (5, None)
        assert done["at_least_usd"] == pytest.approx(5 * 0.12)


def test_calls_that_tell_no_usage_cannot_be_capped(document, suite):
    found = document("run", suite, "--agent", "agent.py:silent", "--max-tokens", "1000", code=64)
    assert found["stopped"] == "unmetered"
    assert "tells no token counts" in found["why"]


def test_explorations_experiments_and_gates_refuse_too(call, document, suite):
    Path("grid.yaml").write_text("parameters: {noise: [0.0, 1.0]}\n")
    Path("suite/tasks.yaml").write_text("".join(SUITE.replace("id: t", f"id: t{i}") for i in range(10)))
    Path("sales.csv").write_text("month,sum\n1,42\n")
    about = ("--file", "sales.csv", "--question", "How much?", "--expected", "42")
    document("run", suite, "--agent", "agent.py:bare", "--run", "base", "-k", "4")
    for verb in (
        ("explore", suite, "--grid", "grid.yaml", "--max-usd", "1"),
        ("perturb", *about, "--max-usd", "1"),
        ("gate", "base", "new", "--buy", "--max-usd", "1"),
    ):
        said = call(*verb, "--agent", "agent.py:bare", "--capture", "off")
        assert (said.code, said.out) == (64, ""), verb
        assert "is not recorded in full" in said.err
        said = call(*verb, "--agent", "agent.py:nameless")
        assert (said.code, said.out) == (64, ""), verb
        assert "has no price" in said.err


def test_a_part_that_is_known_is_not_taken_for_the_whole(document, suite):
    Path("agent.py").write_text(
        AGENT + "\ndef half(task, episode):\n    priced(task, episode)\n    return nameless(task, episode)\n"
        "\nhalf.meters = ('tokens', 'usd')\n"
    )
    found = document("run", suite, "--agent", "agent.py:half", "--run", "a", "-k", "4")
    assert (found["cost_usd"], found["at_least_usd"]) == (None, pytest.approx(4 * PRICE))
    assert document("plan", "a", "--drop", "0.5")["cost_usd"] is None
    shown = document("show", "a")
    assert (shown["cost_usd"], shown["at_least_usd"]) == (None, pytest.approx(4 * PRICE))


def test_a_command_that_leaves_its_log_is_priced_afterwards(document, suite):
    Path("act.py").write_text(
        "import json, os\n"
        "reply = {'role': 'assistant', 'content': '42'}\n"
        "use = {'prompt_tokens': 100_000, 'completion_tokens': 20_000}\n"
        "log = {'model': 'gpt-4o', 'messages': [{'role': 'user', 'content': '?'}],\n"
        "       'choices': [{'message': reply}], 'usage': use}\n"
        "open(os.environ['ETHOGRAM_TRACE'], 'w').write(json.dumps(log) + '\\n')\n"
        "print('42', end='')\n"
    )
    found = document("run", suite, "--agent", "cmd: python act.py", "--run", "a")
    assert (found["cost_usd"], found["at_least_tokens"]) == (None, 120_000)
    assert found["at_least_usd"] == pytest.approx(PRICE)


def test_a_meter_that_does_not_exist_is_named(call, suite):
    Path("agent.py").write_text("def solve(task, episode):\n    return '42'\n\nsolve.meters = 'dollars'\n")
    said = call("run", suite, "--agent", "agent.py:solve")
    assert said.code == 64
    assert "'dollars'" in said.err


def test_show_prices_a_run_as_cost_does(call, document, suite):
    document("run", suite, "--agent", "agent.py:priced", "--run", "live")
    assert "cost: $0.4500\n" in call("show", "live").out
    document("demo", "--logs", "logs")
    document("import", "logs/coding-session.jsonl", "--run", "session")
    cost, shown = document("cost", "session"), document("show", "session")
    assert shown["cost_usd"] == pytest.approx(cost["cost_usd"])
    assert [t["cost_usd"] for t in shown["traces"]] == [e["cost_usd"] for e in cost["by_episode"]]
    assert f"cost: ${cost['cost_usd']:.4f}\n" in call("show", "session").out


def test_show_says_at_least_where_part_is_known_and_unknown_where_nothing_is(call, document, suite):
    document("run", suite, "--agent", "agent.py:bare_but_recording", "--run", "a")
    assert "cost: at least $0.4500\n" in call("show", "a").out
    document("run", suite, "--agent", "agent.py:bare", "--run", "b")
    assert "cost: unknown\n" in call("show", "b").out
    assert document("show", "b")["cost_usd"] is None
