"""`ethogram field`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ethogram.store import Home, Policy, Redactor
from ethogram.store.files import LocalFiles
from ethogram.traces import Head, Scored, Span, SpanId, episode_id, trace_id


def log(tasks: int = 2, trials: int = 10, *, lost: int = 0, more: int = 0) -> list[dict[str, Any]]:
    """Runs of a service agent: failures look again and again, and do not act."""
    runs = []
    for task in range(tasks):
        for trial in range(trials):
            good = trial % 2 == 0
            looks = 1 + trial % 3 + more + (0 if good else 4)
            names = ["get_order"] * looks + (["update_order"] if good else [])
            talk: list[dict[str, Any]] = [{"role": "user", "content": f"task {task}"}]
            for i, name in enumerate(names):
                call = {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": f'{{"i": {i}}}'}}
                talk.append({"role": "assistant", "content": None, "tool_calls": [call]})
                talk.append({"role": "tool", "tool_call_id": f"c{i}", "name": name, "content": "fine"})
            talk.append({"role": "assistant", "content": "Done."})
            reward = None if trial < lost else float(good)
            runs.append({"task_id": task, "trial": trial, "reward": reward, "info": {}, "traj": talk})
    return runs


@pytest.fixture
def imported(call, tmp_path):
    """Import made-up runs under a name."""

    def make(name: str, runs: list[dict[str, Any]]) -> None:
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(runs))
        said = call("import", file, "--run", name, "--format", "tau-bench")
        assert said.code == 0, said

    return make


def document(said: Any, code: int = 0) -> dict[str, Any]:
    assert said.code == code, said
    assert said.out.count("\n") == 1
    found: dict[str, Any] = json.loads(said.out, parse_constant=lambda word: pytest.fail(word))
    return found


def test_what_people_see(call, imported):
    imported("shop", log())
    said = call("field", "shop", "--preset", "service")
    assert said.code == 0, said
    first = said.out.splitlines()[0]
    assert first.startswith("shop: 20 traces of 2 tasks, 10 succeeded, 10 failed;")
    assert "(service, by steps)" in first
    flat = " ".join(said.out.split())
    assert "Within tasks, successes and failures differ on" in flat
    assert "What to try: " in flat
    assert "constrain reads" in flat or "constrain steps" in flat
    assert "not measured: input_tokens, output_tokens" in flat
    assert "visited K successes" in flat
    assert "looked up" in said.out
    assert "next: ethogram field OTHER --against shop" in said.out


def test_what_scripts_read(call, imported):
    imported("shop", log(lost=1))
    data = document(call("field", "shop", "--json"))
    assert (data["K"], data["missing"]) == (18, {"unscored": 2})
    assert data["dimensions"]["reads"].keys() >= {"mean", "variance", "separation", "skew", "estimates"}
    assert data["dimensions"]["reads"]["separation"] < 0 < data["dimensions"]["writes"]["separation"]
    for row in data["horizons"]:
        assert row.keys() >= {"state", "K", "successes", "width", "convergence", "drift"}
    assert data["estimates"]["pass_rate"]["low"] < data["estimates"]["pass_rate"]["value"]
    assert data["chain"]["steps"][0]["text"].startswith("Behaviour varies")


def test_a_field_from_a_file_reads_messages(call, imported):
    imported("shop", log())
    Path("own.py").write_text(
        "from ethogram.questions.field.field import Dimension, Field\n"
        "class Talk(Field):\n"
        "    def dimensions(self):\n"
        "        return [Dimension('messages'), Dimension('calls')]\n"
        "    def measure(self, talk):\n"
        "        return [len(talk), sum(len(m.get('tool_calls') or []) for m in talk)]\n"
        "    def state(self, talk, t):\n"
        "        return 'end' if t == len(talk) - 1 else 'on'\n"
    )
    data = document(call("field", "shop", "--field", "own.py:Talk", "--reading", "messages", "--json"))
    assert data["field"] == "own.py:Talk"
    assert data["reading"] == "messages"
    assert data["dimensions"]["messages"]["mean"] == 2 + 2 * data["dimensions"]["calls"]["mean"]
    assert [h["state"] for h in data["horizons"]] == ["on", "end"]


def test_milestones_from_a_file(call, imported):
    imported("shop", log())
    Path("stones.yaml").write_text("- {state: acted, when: {tool: update_*}}\n")
    said = call("field", "shop", "--states", "stones.yaml", "--rule", "reached")
    assert said.code == 0
    assert "(reached)" in said.out
    assert "reached K successes" in " ".join(said.out.split())


def test_a_corridor_raises_an_alarm(call, imported):
    imported("old", log(trials=60))
    imported("new", log(trials=10, more=30))
    said = call("field", "old", "--save-corridor", "c.json")
    assert said.code == 0
    assert "corridor saved: c.json" in said.out
    alarmed = call("field", "new", "--corridor", "c.json")
    assert alarmed.code == 1
    assert "left the corridor" in alarmed.out
    data = document(call("field", "new", "--corridor", "c.json", "--json"), code=1)
    assert data["corridor"]["alarm"]["raised"] is True
    imported("few", log(tasks=1, trials=2))
    said = call("field", "few", "--corridor", "c.json", "--level", "0.999")
    assert said.code == 2
    assert "no verdict: too few attempts" in said.out


def test_two_runs_side_by_side(call, imported):
    imported("a", log())
    imported("b", log(more=5))
    said = call("field", "b", "--against", "a")
    assert said.code == 0
    assert "b against a, on 2 tasks" in said.out
    assert "b minus a" in said.out
    assert "width ratio" in said.out
    # convergence and separation stand beside the shifts, each with its test, and nothing is left out silently
    assert any(line.startswith("convergence") and "→" in line for line in said.out.splitlines())
    assert "change of separation sd" in said.out
    data = document(call("field", "b", "--against", "a", "--json"))
    told = said.out.replace("\n", " ")
    for dimension in data["comparison"]["dimensions"]:
        assert dimension["name"] in told, dimension["name"]
    shifts = {d["name"]: d for d in data["comparison"]["dimensions"]}
    assert shifts["reads"]["difference"] == pytest.approx(5)


def grid(place: Path, name: str) -> None:
    """A run under four conditions that set two factors; noise makes the agent search more."""
    run = Home(LocalFiles(place)).create(name, "import")
    with run.writer(Redactor(b"test", Policy(kinds=())), window=None) as writer:
        for number in range(80):
            noisy, hint, task, good = number % 2, number // 2 % 2, number // 4 % 2, number // 8 % 2
            own = trace_id(name, str(number))
            sink = writer.trace(own)
            for i in range(2 + number % 5 + 6 * noisy):
                sink.span(Span(trace_id=own, span_id=SpanId(f"s{i}"), seq=i, kind="tool", name="search", status="ok"))
            head = Head(
                trace_id=own, episode=episode_id(name, str(number)), task=f"t{task}", attempt=number,
                condition=f"noise={noisy}, hint={hint}", outcome=Scored(float(good), "test"),
            )  # fmt: skip
            sink.finish(head, ())


def test_factors_are_told_apart(call, home):
    grid(home, "grid")
    refused = call("field", "grid")
    assert refused.code == 64
    assert "choose one with --condition" in refused.err
    said = call("field", "grid", "--ablate")
    assert said.code == 0, said
    assert said.out.startswith("grid: 80 traces of 2 tasks under 4 conditions, 40 succeeded")
    assert "effects against hint=0, noise=0, on 2 tasks" in said.out
    assert "hint=1 × noise=1" in said.out
    data = document(call("field", "grid", "--ablate", "--json"))
    effects = {e["name"]: e for e in data["ablation"]["effects"]}
    assert effects["noise=1"]["adjusted"]["centre"] <= 0.01 < effects["hint=1"]["adjusted"]["centre"]
    assert document(call("field", "grid", "--condition", "noise=1, hint=0", "--json"))["K"] == 20


AGENT = """
def solve(task, episode):
    settings = episode.condition
    for _ in range(1 + episode.seed % 3 + 2 * (settings["tests"] == "on")):
        episode.tools["look"]()
    return "yes" if episode.seed % 5 < (4 if settings["tests"] == "on" else 1) + settings["hint"] else "no"
"""


@pytest.fixture
def factors(env):
    """A suite of two tasks and an agent that looks at the settings it is run under, in the working folder."""
    Path("suite").mkdir()
    tasks = [f"- {{id: {i}, prompt: 'Really?', expected: 'yes', checks: [equals]}}\n" for i in "ab"]
    Path("suite/tasks.yaml").write_text("".join(tasks))
    Path("suite/tools.py").write_text("def tools(task, episode):\n    return {'look': lambda: 1}\n")
    Path("agent.py").write_text(AGENT)


def test_from_a_run_under_conditions_to_its_effects(call, factors):
    given = [f"--condition=tests={t},hint={h}" for t in ("off", "on") for h in (0, 1)]
    ran = call("run", "suite", "--agent", "agent.py:solve", "-k", "8", "--run", "f", *given)
    assert ran.code == 0, ran
    assert "next: ethogram field f --ablate" in ran.out
    data = document(call("field", "f", "--ablate", "--json"))["ablation"]
    assert data["factors"] == {"tests": ["off", "on"], "hint": ["0", "1"]}
    assert [e["name"] for e in data["effects"]] == ["hint=1", "tests=on", "hint=1 × tests=on"]
    tests = data["effects"][1]
    assert tests["convergence"]["low"] > 1
    assert tests["adjusted"].keys() == {"width", "convergence", "pass_rate", "centre"}
    said = call("field", "f", "--ablate")
    assert "convergence, ratio" in said.out
    again = call("run", "--resume", "f", "--condition", "tests=off,hint=0")
    assert again.code == 64
    for word in ("tests", "tests=", "=on", "tests=on,tests=off"):
        refused = call("run", "suite", "--agent", "agent.py:solve", "--condition", word)
        assert refused.code == 64
        assert "is not a condition; write for example --condition tests=on" in refused.err
    twice = call("run", "suite", "--agent", "agent.py:solve", "--condition", "hint=1", "--condition", "hint=1")
    assert (twice.code, "given twice" in twice.err) == (64, True)


def test_the_points_of_an_exploration_are_ablated_by_their_settings(call, factors):
    Path("grid.yaml").write_text("parameters:\n  tests: ['off', 'on']\n  hint: [0, 1]\n")
    grid = ["--grid", "grid.yaml", "--max-episodes", "64", "--run", "ex"]
    explored = call("explore", "suite", "--agent", "agent.py:solve", *grid)
    assert explored.code in (0, 2), explored
    data = document(call("field", "ex", "--ablate", "--json"))["ablation"]
    found = {name: sorted(levels) for name, levels in data["factors"].items()}
    assert found == {"tests": ["off", "on"], "hint": ["0", "1"]}
    assert any("chooses how often" in note for note in data["notes"])


def test_one_outcome_class_cannot_be_decided(call, imported):
    imported("good", [r for r in log() if r["reward"] == 1.0])
    said = call("field", "good")
    assert said.code == 2
    assert "every scored trace succeeded, so successes and failures cannot be compared" in said.err
    assert "Nothing to fix on this evidence" in said.out
    assert document(call("field", "good", "--json"), code=2)["convergence"] == "inf"


def test_the_table_of_standard_dimensions(call):
    said = call("field", "--list", "--preset", "web")
    assert said.code == 0
    assert "page_visits" in said.out
    assert "file_edits" not in said.out
    assert len(document(call("field", "--list", "--json"))["dimensions"]) > 40


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["nothing"], 64, "no run named 'nothing' in "),
        (["shop", "--preset", "codng"], 64, "did you mean 'coding'"),
        (["shop", "--field", "absent.py:X"], 64, "no Python file at 'absent.py'"),
        (["shop", "--field", "json:dumps"], 64, "not a subclass of ethogram.Field"),
        (["shop", "--states", "none.yaml"], 64, "no milestones at 'none.yaml'"),
        (["shop", "--corridor", "none.json"], 64, "no corridor at 'none.json'"),
        (["shop", "--dimensions", "stepz"], 64, "did you mean 'steps'"),
        (["shop", "--dimensions", "seconds"], 2, "none of the dimensions can be measured"),
        (["shop", "--ablate"], 64, "nothing to ablate"),
        (["shop", "--condition", "x"], 64, "run 'shop' has no conditions"),
        (["shop", "--reading", "messages"], 64, "--field"),
        (["shop", "--rule", "seen"], 64, "seen"),
        (["single"], 2, "one scored trace"),
        (["unscored"], 2, "no scored trace to measure"),
    ],
)
def test_bad_input_is_one_sentence(call, imported, options, code, words):
    imported("shop", log(tasks=1))
    if options[0] == "single":
        imported("single", log(tasks=1, trials=1))
    if options[0] == "unscored":
        imported("unscored", log(tasks=1, trials=3, lost=3))
    said = call("field", *options)
    assert said.code == code, said
    assert words in said.err
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    assert said.out == ""
