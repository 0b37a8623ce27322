"""`ethogram explore`: what people see, what scripts read, what wrong input says."""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

import ethogram as eth
from ethogram.errors import BadUsage
from ethogram.worlds.toy_v1 import ToyWorld

V1 = ("--synthetic", "--strategy", "v1", "--targets-per-round", "4")


def test_the_seeds_quick_start(document, call):
    first = document(
        "explore", *V1, "--run-dir", "synth", "--rounds", "2", "--seed", "11111", "--seed-mode", "increment"
    )
    assert (first["rounds"], first["episodes"], first["stopped"]) == (2, 2048, "rounds")
    again = document("explore", *V1, "--run-dir", "synth", "--rounds", "1", "--seed", "11111")
    assert (again["rounds"], again["new_rounds"]) == (3, 1)
    metrics = json.loads(next(Path("synth/rounds").glob("R0002_*/metrics.json")).read_text())
    rows = list(csv.DictReader(Path("synth/summary.csv").read_text().splitlines()))
    assert float(rows[1]["tube_var"]) == metrics["tube"]["tube_var_sum"]
    assert again["summary"][1]["tube_var"] == metrics["tube"]["tube_var_sum"]
    assert again["metrics"]["tube"]["misleads"]
    shown = call("explore", *V1, "--run-dir", "synth", "--until-round", "3", "--seed", "11111")
    assert shown.code == 0
    assert "tube_var_sum" in shown.out
    assert "an unexplored map scores best" in " ".join(shown.out.split())


def test_a_uuid_repeats_a_run(document):
    one = document("explore", *V1, "--run-dir", "one", "--rounds", "1", "--run-uuid", "same")
    two = document("explore", *V1, "--run-dir", "two", "--rounds", "1", "--run-uuid", "same", "--seed", "8")
    assert one["metrics"]["tube"] == two["metrics"]["tube"]
    assert (
        Path("one/rounds/R0001_same/agent_results.csv").read_bytes()
        == Path("two/rounds/R0001_same/agent_results.csv").read_bytes()
    )


def test_exploring_and_understanding(document, call):
    found = document("explore", "--max-episodes", "300", "--seed", "4", "--run", "toy", code=2)
    assert (found["episodes"], found["stopped"], found["enough"]) == (300, "budget", False)
    assert found["metrics"]["certainty"]["safe"] + found["metrics"]["certainty"]["unsafe"] <= 1024
    whole = document("explore", "map", "toy")
    assert len(whole["points"]) == 1024
    assert {p["verdict"] for p in whole["points"]} <= {"safe", "unsafe", "undecided"}
    effects = document("explore", "effects", "toy")
    assert len(effects["main"]) == 5
    assert len(effects["interactions"]) == 10
    here = ["tool_noise=1", "verify_flip=0.05", "hint_ambiguity=0", "distractor_count=2", "memory_tokens=64"]
    near = document("explore", "near", "toy", *(w for h in here for w in ("--setting", h)))
    assert near["safest"]["difference"]["value"] <= near["most_dangerous"]["difference"]["value"]
    cells = document(
        "explore", "slice", "toy", "--x", "tool_noise", "--y", "hint_ambiguity", "--setting", "verify_flip=0.1"
    )
    assert len(cells["cells"]) == 16
    written = document("explore", "export", "toy", "--out", "map.csv")
    assert written["points"] == len(Path("map.csv").read_text().splitlines()) - 1
    for what in ("map", "effects"):
        said = call("explore", what, "toy")
        assert (said.code, said.err) == (0, "")
        assert "tool_noise" in said.out
    first, table, *_ = said.out.splitlines()
    assert re.fullmatch(r"toy: \w+ (explains most of the variation|has the largest effect) \(\d+%\)", first)
    assert table.startswith("effect ")
    assert "\n\nparameter " in said.out
    listed = call("runs")
    assert "explore" in listed.out


def test_a_stop_rule_of_ones_own(document):
    found = document("explore", "--stop-misclassified", "0.5", "--run", "soon", "--rounds", "40")
    assert found["stopped"] in ("enough", "rounds")
    assert found["metrics"]["certainty"]["expected_misclassified"] < 0.5


def test_a_race(document, call):
    found = document("explore", "race", "--strategy", "default,uniform", "--seeds", "1", "--max-episodes", "200")
    assert [s["strategy"] for s in found["standings"]] == ["default", "uniform"]
    assert len(found["curves"][0]["episodes"]) == len(found["curves"][0]["balanced_accuracy"]["mean"])
    drawn = call("explore", "race", "--strategy", "uniform", "--seeds", "1", "--max-episodes", "100", "-o", "race.svg")
    assert drawn.code == 0, drawn
    assert Path("race.svg").read_text().startswith("<svg")


@pytest.mark.parametrize("verb", ["field", "why", "cost", "judge"])
def test_episodes_without_traces_are_not_denied(call, document, verb):
    """A batched exploration has episodes; who looks for traces is told why there are none."""
    document("explore", "--world", "toy_v1", "--synthetic", "--rounds", "1", "--run", "batched")
    (row,) = document("runs")["runs"]
    for run in ("batched", "latest"):
        said = call(verb, run)
        assert said.code != 0
        assert f"{row['episodes']:,} episodes are recorded in batches, without traces" in said.err
        assert "ethogram show batched" in said.err
        assert "empty" not in said.err
        assert "run or import something first" not in said.err


def test_any_suite_and_agent(document):
    Path("suite.py").write_text(
        "from ethogram.plans import Check, Suite, Task\n"
        "SUITE = Suite(name='rooms', tasks=(Task(id='t', prompt='?', expected='x', checks=(Check(kind='equals'),)),))\n"
    )
    Path("agent.py").write_text(
        "def agent(task, episode):\n"
        "    return 'x' if episode.rng.random() > 0.3 * episode.condition['noise'] else 'y'\n"
    )
    Path("grid.yaml").write_text("parameters:\n  noise: [0, 1, 2]\n  style: [curt, kind]\n")
    words = ("suite.py", "--agent", "agent.py:agent", "--grid", "grid.yaml", "--max-episodes", "60", "--run", "rooms")
    found = document("explore", *words, code=2)
    assert (found["world"], found["episodes"]) == ("rooms", 60)
    listed = document("runs")
    assert [(r["run"], r["episodes"]) for r in listed["runs"]] == [("rooms", 60)]


def test_a_suite_is_explored_from_python_as_well(document):
    document("init")
    Path("grid.yaml").write_text("parameters:\n  noise: [0, 1]\n")
    words = ("suite", "--agent", "agent.py:solve", "--grid", "grid.yaml", "--max-episodes", "12")
    typed = document("explore", *words, "--run", "typed", code=2)
    called = eth.explore("suite", agent="agent.py:solve", grid="grid.yaml", max_episodes=12, run="called")
    assert (called.episodes, called.metrics.counts) == (12, called.metrics.counts)
    assert typed["metrics"]["tube"] == msgspec.to_builtins(called.metrics.tube)
    with pytest.raises(BadUsage, match="needs an agent and a grid"):
        eth.explore("suite", grid="grid.yaml")
    with pytest.raises(BadUsage, match="a world has an agent of its own"):
        eth.explore(ToyWorld(), agent="agent.py:solve")


OWN_WORLD = """
import os

import numpy as np

from ethogram.questions.explore.grid import grid


class Rooms:
    name, synthetic = "rooms", False

    def grid(self):
        return grid({"flag": [False, True], "noise": [0, 1, 2]})

    def check(self, grid):
        assert set(grid.names) == {"flag", "noise"}

    def rate(self, given):
        return 0.1 + 0.2 * given["noise"] * given["flag"]

    def episodes(self, given, seeds):
        return np.asarray([(s % 997) / 997 >= self.rate(given) for s in seeds])


class Broken(Rooms):
    def episodes(self, given, seeds):
        return {}["rate"]


class Gone(Rooms):
    def episodes(self, given, seeds):
        os._exit(3)


class Half:
    name = "half"
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_world_of_ones_own(document, call, workers):
    Path("mine.py").write_text(OWN_WORLD)
    words = ("--max-episodes", "96", "--targets-per-round", "2", "--workers", workers)
    done = document("explore", "--world", "mine.py:Rooms", *words, "--run", "own", code=2)
    assert (done["world"], done["episodes"], done["points"]) == ("rooms", 96, 6)
    near = call("explore", "near", "own", "--setting", "flag=yes", "--setting", "noise=1")
    assert near.code == 0, near
    assert call("explore", "slice", "own", "--x", "noise", "--setting", "flag=no").code == 0
    for world, told in (
        ("Broken", "the world rooms raised KeyError: 'rate' (mine.py:27 in episodes)"),
        ("Gone", "the world rooms raised SystemExit: 3 (mine.py:32 in episodes)"),
        ("Half", "mine.py:Half is no world to explore: it has no synthetic, grid, check, rate, episodes"),
        ("Nothing", "mine.py has no function or class 'Nothing'"),
    ):
        said = call("explore", "--world", f"mine.py:{world}", *words)
        assert (said.code, said.err.count("\n")) == (64, 1), said
        assert told in said.err.replace(f"{Path.cwd()}/", "")
    assert call("explore", "--world", "mine.py:Rooms", "--synthetic").code == 64


def test_an_agent_that_ends_its_process_is_a_crash(shell):
    Path("leaves.py").write_text("import os\n\ndef solve(task):\n    os._exit(3)\n")
    Path("tasks.yaml").write_text("name: s\ntasks:\n  - {id: t, checks: [{contains: x}]}\n")
    Path("grid.yaml").write_text("parameters:\n  noise: [0, 1]\n")
    explored = shell("ethogram explore tasks.yaml --agent leaves.py:solve --grid grid.yaml --max-episodes 6 --json")
    assert explored.code == 2, explored
    assert json.loads(explored.out)["episodes"] == 6
    ran = shell("ethogram run tasks.yaml --agent leaves.py:solve -k 2")
    assert ran.code == 2, ran
    assert "AgentCrash: the agent called exit(3)" in ran.out
    threaded = "import os, threading\n\ndef solve(task):\n"
    threaded += "    t = threading.Thread(target=os._exit, args=(3,))\n    t.start()\n    t.join()\n"
    Path("leaves.py").write_text(threaded)
    left = shell("ethogram run tasks.yaml --agent leaves.py:solve -k 2")
    assert left.code == 3
    assert "ethogram: a thread of the agent called os._exit(3), which ends this process" in left.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--world", "toy_v2"), "no world named"),
        (("--strategy", "clever"), "no strategy named"),
        (("--rounds", "0"), "must be at least 1"),
        (("--tau", "2"), "between 0 and 1"),
        (("--stop-undecided", "7"), "--stop-undecided must lie between 0 and 1"),
        (("--grid", "none.yaml"), "no grid at"),
        (("suite.py",), "needs an agent and a grid"),
        (("map",), "there is no exploration"),
        (("near",), "name the setting"),
        (("slice",), "name a parameter"),
        (("export",), "name a file"),
        (("near", "--setting", "noise"), "is not a setting"),
        (("--run", "grid", "--tau", "2"), "between 0 and 1"),  # an option that comes first is no misspelt sub-command
        (("--trace",), "--store-traces"),
    ],
)
def test_wrong_input_is_one_sentence(call, words, told):
    said = call("explore", *words)
    assert said.code == 64
    assert told in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        ("parameters: {a: [1, 1]}", "the value 1 twice"),
        ("parameters: {a: []}", "is empty"),
        ("parameters: {}", "no parameters"),
        (f"parameters: {{a: {list(range(1000))}, b: {list(range(10_000))}}}", "10,000,000 points"),
        ("parameters: {a: [1, 2]}", "toy_v1 needs the parameters"),
    ],
)
def test_wrong_grids(call, grid, told):
    Path("grid.yaml").write_text(grid)
    said = call("explore", "--grid", "grid.yaml")
    assert said.code == 64
    assert told in said.err
    assert not Path("r").exists()


def test_another_run_is_not_overwritten(call):
    assert call("explore", *V1, "--run-dir", "r", "--rounds", "1").code == 0
    before = {f: f.read_bytes() for f in Path("r").rglob("*") if f.is_file()}
    for words, told in ((("--run-uuid", "foreign"), "not foreign"), (("--seed", "3"), "was begun with --seed")):
        said = call("explore", *V1, "--run-dir", "r", *words)
        assert (said.code, told in said.err) == (64, True)
    Path("r/beta_posteriors.npz").write_bytes(b"?")
    said = call("explore", *V1, "--run-dir", "r")
    assert said.code == 64
    assert "beta_posteriors.npz" in said.err
    Path("r/beta_posteriors.npz").write_bytes(before[Path("r/beta_posteriors.npz")])
    assert {f: f.read_bytes() for f in Path("r").rglob("*") if f.is_file()} == before


def test_a_grid_in_numpys_own_format(document, call):
    """A user's arrays, and the grid.npz of an earlier exploration, constraints included."""
    values = {"tool_noise": [0, 1], "verify_flip": [0.0], "hint_ambiguity": [0, 3], "distractor_count": [0, 6]}
    rows = list(itertools.product(*values.values(), [16, 128]))
    np.savez("mine.npz", **{n: [r[d] for r in rows] for d, n in enumerate([*values, "memory_tokens"])})
    first = document("explore", *V1, "--grid", "mine.npz", "--rounds", "1", "--run-dir", "one")
    assert first["points"] == 16
    Path("less.yaml").write_text(
        "parameters: {tool_noise: [0, 1], verify_flip: [0.0], hint_ambiguity: [3, 0], distractor_count: [0], "
        "memory_tokens: [16, 128]}\nconstraints: ['tool_noise + hint_ambiguity > 0']\n"
    )
    document("explore", *V1, "--grid", "less.yaml", "--rounds", "1", "--run-dir", "two")
    again = document("explore", *V1, "--grid", "two/grid.npz", "--rounds", "1", "--run-dir", "two")
    assert (again["points"], again["rounds"]) == (6, 2)
    np.savez("part.npz", **{n: [r[d] for r in rows[:-1]] for d, n in enumerate([*values, "memory_tokens"])})
    Path("torn.npz").write_bytes(Path("mine.npz").read_bytes()[:80])
    np.savez("flat.npz", tool_noise=np.zeros((2, 2)))
    for name, told in (("part.npz", "15 points"), ("torn.npz", "cannot be read"), ("flat.npz", "not a grid")):
        said = call("explore", "--grid", name)
        assert (said.code, said.err.count("\n")) == (64, 1), said
        assert told in said.err


def test_the_picture_of_a_race_has_the_seeds_two_curves(call):
    drawn = call("explore", "race", "--strategy", "uniform", "--seeds", "1", "--max-episodes", "100", "-o", "race.svg")
    assert drawn.code == 0, drawn
    picture = Path("race.svg").read_text()
    for axis in ("balanced accuracy", "tube_var_sum", "recall of unsafe points"):
        assert f">{axis}<" in picture


def test_lost_files_are_named_and_written_again(call, document):
    """The sentence of `verify` leads to a command that mends what it names, and buys nothing."""
    begun = ("explore", *V1, "--run", "toy", "--seed", "11111")
    assert call(*begun, "--rounds", "3").code == 0
    place = Path(os.environ["ETHOGRAM_HOME"]) / "runs/toy"
    whole = {f: f.read_bytes() for f in (*place.glob("*.csv"), *place.glob("*.npz"), *place.glob("rounds/*/*"))}
    before = document("explore", "map", "toy")
    shutil.rmtree(place / "rounds")
    (place / "summary.csv").unlink()
    counted = document("sql", "SELECT count(*) AS n FROM episodes")
    assert document("explore", "map", "toy") == before
    told = call("verify", "toy")
    assert told.code == 1
    assert "16 of the damaged files can be written again from the ledger: repeat the ethogram explore command" in (
        " ".join(told.out.split())
    )
    assert "with --until-round 3 to buy nothing more" in " ".join(told.out.split())
    again = document(*begun, "--until-round", "3")
    assert (again["rounds"], again["new_rounds"]) == (3, 0)
    assert {f: f.read_bytes() for f in whole} == whole
    assert call("verify", "toy").code == 0
    assert document("sql", "SELECT count(*) AS n FROM episodes") == counted
