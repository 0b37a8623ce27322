"""Exploration on disk: the files and their order, resume after any kill, every engine, every wrong input."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from ethogram.errors import BadInput, BadUsage, Locked, NotFound
from ethogram.plans import Check, Suite, Task
from ethogram.questions.explore.acquisition import V1Weights, top, v1_score
from ethogram.questions.explore.buying.race import race
from ethogram.questions.explore.buying.start import ExploreOptions
from ethogram.questions.explore.buying.suite import explore_suite, load_grid
from ethogram.questions.explore.buying.world import begin_exploration
from ethogram.questions.explore.effects import explain_exploration, near_setting, slice_exploration
from ethogram.questions.explore.exploration import SUMMARY, Rounds, csv_value, open_exploration
from ethogram.questions.explore.files_v1 import grid_bytes
from ethogram.questions.explore.grid import grid
from ethogram.questions.explore.maps import export_exploration, map_exploration
from ethogram.questions.explore.problem import StopRule, Tally
from ethogram.questions.home.runs import runs, show
from ethogram.questions.reliability.question import stats
from ethogram.store import Home, Lake, Policy, verify_run
from ethogram.store.files import LocalFiles
from ethogram.store.stop import pull
from ethogram.traces import SUCCESS_AT
from ethogram.worlds.toy_v1 import ToyWorld, agent_seed, play, play_synthetic, v1_grid

SAME = (
    "summary.csv",
    "beta_posteriors.npz",
    "rounds/*/metrics.json",
    "rounds/*/agent_results.csv",
    "rounds/*/active*.json",
)
V1 = ExploreOptions(strategy="v1", rounds=2, seed=11111, targets_per_round=8)


def content(place: Path) -> dict[str, bytes]:
    """Everything that must be the same whenever a run is repeated."""
    return {str(f.relative_to(place)): f.read_bytes() for pattern in SAME for f in sorted(place.glob(pattern))}


def at(place: Path, options: ExploreOptions = V1, **more):
    return msgspec.structs.replace(options, run_dir=str(place), **more)


def plain_loop(
    uuid: str, rounds: int, targets: int, synthetic: bool
) -> tuple[list[list[tuple[int, int, int, int]]], Tally]:
    """The definition of v1, written once more with plain loops."""
    made = v1_grid()
    world = ToyWorld(synthetic=synthetic)
    n, fails = np.zeros(1024, dtype=np.int64), np.zeros(1024, dtype=np.int64)
    found = []
    for number in range(1, rounds + 1):
        rows = []
        for point in top(v1_score(Tally(n, fails), V1Weights()), targets).tolist():
            settings = world.settings(made.settings(point))
            for i in range(256):
                seed = int.from_bytes(
                    blake2b(f"{uuid}:{number}:{point}:{i}".encode(), digest_size=8).digest(), "little"
                )
                success = play_synthetic(settings, seed) if synthetic else play(settings, seed)
                rows.append((point, i, seed, int(success)))
                n[point] += 1
                fails[point] += not success
        found.append(rows)
    return found, Tally(n, fails)


@pytest.mark.parametrize("synthetic", [True, False])
def test_v1_is_its_definition_to_the_last_digit(tmp_path, home, synthetic):
    place = tmp_path / "r"
    result = begin_exploration(ToyWorld(synthetic=synthetic), at(place, run_uuid="abc", targets_per_round=4), home=home)
    rounds, tally = plain_loop("abc", 2, 4, synthetic)
    for number, rows in enumerate(rounds, 1):
        text = (place / f"rounds/R{number:04d}_abc/agent_results.csv").read_text()
        read = list(csv.DictReader(io.StringIO(text)))
        assert [
            (int(r["grid_idx"]), int(r["episode_idx"]), int(r["episode_seed"]), int(r["success"])) for r in read
        ] == rows
        assert float(read[0]["verify_flip"]) == v1_grid().settings(rows[0][0])["verify_flip"]
    with np.load(place / "beta_posteriors.npz") as stored:
        assert stored["alpha"].tolist() == (tally.fails + 1).tolist()
        assert stored["beta"].tolist() == (tally.n - tally.fails + 1).tolist()
    assert (result.rounds, result.episodes, result.stopped) == (2, 2 * 4 * 256, "rounds")


def test_the_files_of_the_seed_are_there(tmp_path, home):
    place = tmp_path / "r"
    result = begin_exploration(ToyWorld(synthetic=True), at(place), home=home)
    assert {f.name for f in place.iterdir()} >= {
        "grid.npz",
        "run_metadata.json",
        "beta_posteriors.npz",
        "summary.csv",
        "rounds",
    }
    folder = next((place / "rounds").glob("R0002_*"))
    names = ["round_pre.json", "active_sampling_plan.json", "agent_results.csv", "metrics.json", "round_post.json"]
    assert {f.name for f in folder.iterdir()} == set(names)
    times = [(folder / n).stat().st_mtime_ns for n in names]
    assert times == sorted(times)
    with np.load(place / "grid.npz") as stored:
        assert stored["memory_tokens"].tolist()[:5] == [16, 32, 64, 128, 16]
        assert int(stored["n_points"]) == 1024
    metrics = [json.loads(next((place / "rounds").glob(f"R000{n}_*/metrics.json")).read_text()) for n in (1, 2)]
    rows = list(csv.DictReader((place / "summary.csv").read_text().splitlines()))
    assert [float(r["tube_var"]) for r in rows] == [m["tube"]["tube_var_sum"] for m in metrics]
    assert [m["seed"] for m in metrics] == [11111, 11112]
    assert metrics[0]["status"] == "FIRST_ROUND"
    assert (
        metrics[1]["tube"]["tube_var_delta_prev"]
        == metrics[0]["tube"]["tube_var_sum"] - metrics[1]["tube"]["tube_var_sum"]
    )
    rounds = Rounds(Home(home.files).resolve(str(place))).committed()
    assert rows == [{column: csv_value(value(m)) for column, value in SUMMARY.items()} for m in rounds]
    assert result.metrics.tube.misleads.startswith("tube_var_sum counts only")


def test_v1_looks_at_a_part_of_the_map_only(tmp_path, home):
    """After 65 536 episodes: the figures that its public code gives, and the reason why it is not the default."""
    full = ExploreOptions(strategy="v1", rounds=4, seed=1)
    result = begin_exploration(ToyWorld(synthetic=True), at(tmp_path / "v1", full), home=home)
    assert result.episodes == 65_536
    assert 150 <= result.metrics.counts.sampled_points_total <= 190
    assert result.metrics.truth.balanced_accuracy == pytest.approx(0.924, abs=0.03)
    assert result.metrics.tube.tube_var_sum == pytest.approx(0.0050, abs=0.001)
    boundary = begin_exploration(ToyWorld(synthetic=True), at(tmp_path / "b", full, strategy="boundary"), home=home)
    assert boundary.metrics.counts.sampled_points_total < 160
    assert boundary.metrics.tube.tube_var_sum < result.metrics.tube.tube_var_sum
    assert boundary.metrics.truth.balanced_accuracy < result.metrics.truth.balanced_accuracy


def test_seeds_repeat_runs_and_uuids_say_which(tmp_path, home):
    one, two, three = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    first = begin_exploration(ToyWorld(), at(one), home=home)
    begin_exploration(ToyWorld(), at(two), home=home)
    other = begin_exploration(ToyWorld(), at(three, seed=2), home=home)
    assert content(one) == content(two)
    assert first.run_uuid != other.run_uuid
    named = begin_exploration(ToyWorld(), at(tmp_path / "d", seed=99, run_uuid=first.run_uuid), home=home)
    assert content(tmp_path / "d").keys() == content(one).keys()
    assert named.metrics.tube == first.metrics.tube


def test_fixed_seeds_are_recorded_as_such(tmp_path, home):
    result = begin_exploration(ToyWorld(synthetic=True), at(tmp_path / "r", seed_mode="fixed"), home=home)
    assert [row["seed"] for row in result.summary] == [11111, 11111]


def test_rounds_are_additional_and_until_round_is_not(tmp_path, home):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    begin_exploration(ToyWorld(), at(whole, rounds=4), home=home)
    begin_exploration(ToyWorld(), at(parts, rounds=1), home=home)
    begin_exploration(ToyWorld(), at(parts, rounds=2), home=home)
    last = begin_exploration(ToyWorld(), at(parts, rounds=None, until_round=4), home=home)
    again = begin_exploration(ToyWorld(), at(parts, rounds=None, until_round=4), home=home)
    assert (last.new_rounds, again.new_rounds, again.rounds) == (1, 0, 4)
    assert content(whole) == content(parts)


@pytest.mark.parametrize("strategy", ["default", "uniform", "random", "lsa"])
def test_any_strategy_resumes_to_the_same_end(tmp_path, home, strategy):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    options = ExploreOptions(strategy=strategy, seed=5, targets_per_round=8)
    begin_exploration(ToyWorld(), at(whole, options, rounds=6), home=home)
    for _ in range(3):
        begin_exploration(ToyWorld(), at(parts, options, rounds=2), home=home)
    assert content(whole) == content(parts)


def test_two_processes_give_what_one_gives(tmp_path, home):
    begin_exploration(ToyWorld(), at(tmp_path / "one", rounds=3), home=home)
    begin_exploration(ToyWorld(), at(tmp_path / "two", rounds=3, workers=2), home=home)
    assert content(tmp_path / "one") == content(tmp_path / "two")


@pytest.mark.xdist_group("ray")
def test_ray_gives_what_this_process_gives(tmp_path, home):
    """In a process of its own: a second cluster within one process never starts its workers."""
    pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    begin_exploration(ToyWorld(), at(tmp_path / "here"), home=home)
    line = [sys.executable, "-m", "ethogram.cli.main", "explore", "--strategy", "v1", "--rounds", "2"]
    line += ["--seed", "11111", "--targets-per-round", "8", "--engine", "ray", "--run-dir", str(tmp_path / "ray")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert content(tmp_path / "here") == content(tmp_path / "ray")
    here, there = (open_exploration(str(tmp_path / name), home=home).run for name in ("here", "ray"))
    assert {b.id: b.outcomes for b in here.batches} == {b.id: b.outcomes for b in there.batches}


NO_WORKER = """
import ray
from ethogram.errors import MachineFailure
from ethogram.questions.explore.buying.grid import GridWork, grid_engine
from ethogram.worlds.toy_v1 import ToyWorld, v1_grid

ray.init(address="local", num_cpus=0, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
engine = grid_engine(ToyWorld(), "ray", None)
engine.patience = 1.0
work = GridWork(run_uuid="u", round=1, point=0, settings=v1_grid().settings(0), count=4)
try:
    engine.run([work], print, lambda: False)
except MachineFailure as error:
    print(error)
"""


@pytest.mark.xdist_group("ray")
def test_a_cluster_without_room_is_told_and_not_waited_for(tmp_path):
    pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    done = subprocess.run([sys.executable, "-c", NO_WORKER], capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout.strip() == (
        "the cluster has given no worker for 1 s; free a CPU of it, then repeat the command"
    ), done.stderr


def test_workers_end_with_a_killed_driver(tmp_path):
    """Their pipes close, so a reader of them comes to an end."""
    line = [sys.executable, "-m", "ethogram.cli.main", "explore", "--strategy", "v1", "--rounds", "1000"]
    line += ["--workers", "2", "--run-dir", str(tmp_path / "r"), "--home", str(tmp_path / "home")]
    driver = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert driver.stderr is not None
    assert "round 1" in driver.stderr.readline()
    driver.kill()
    driver.communicate(timeout=60)


KILLED = """
import os, random, signal, sys, time
from ethogram.questions.explore.buying import world as explore_world
from ethogram.questions.explore.buying.rounds import ExploreOptions
from ethogram.worlds.toy_v1 import ToyWorld

place, whole, home, strategy, *numbers = sys.argv[1:]
rounds, workers, most = map(int, numbers)
explore_world.WINDOW = 0.0

def session(where):
    options = ExploreOptions(
        strategy=strategy, until_round=rounds, seed=7, run_dir=where, targets_per_round=8, workers=workers)
    explore_world.begin_exploration(ToyWorld(), options, home=home)

def forked(where):
    child = os.fork()
    if child == 0:
        session(where)
        os._exit(0)
    return child

began = time.monotonic()
os.waitpid(forked(whole), 0)
usual, rng, kills, status = time.monotonic() - began, random.Random(1), 0, 1
while status != 0:
    child = forked(place)
    if kills < most:
        time.sleep(rng.uniform(0, usual / (12 if workers == 1 else 3)))
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    kills += status != 0
print(kills)
"""


@pytest.mark.parametrize(
    ("strategy", "rounds", "workers", "kills"), [("v1", 10, 1, 20), ("default", 12, 1, 20), ("v1", 10, 2, 4)]
)
def test_twenty_kills_change_nothing(tmp_path, home, strategy, rounds, workers, kills):
    """With two workers the next round is being played while one is written; what nobody bought is lost, and no more."""
    place, whole = tmp_path / "killed", tmp_path / "whole"
    words = [str(place), str(whole), str(tmp_path / "home"), strategy, str(rounds), str(workers), str(kills)]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", KILLED, *words], capture_output=True, text=True, env=env, timeout=200)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 0.75 * kills  # a session may end before its kill comes
    assert content(place) == content(whole)
    found = verify_run(Home(home.files).resolve(str(place)))
    assert found.ok, found.damaged


def test_the_kill_switch_stops_it_and_resume_goes_on(tmp_path, home):
    place, whole = tmp_path / "r", tmp_path / "whole"
    begin_exploration(ToyWorld(), at(whole, rounds=2), home=home)
    run = open_exploration(str(whole), home=home).run

    def switch(metrics):
        pull(run.files, "r", "test")

    stopped = begin_exploration(ToyWorld(), at(place, rounds=2), home=home, progress=switch)
    assert (stopped.stopped, stopped.rounds) == ("killed", 1)
    begin_exploration(ToyWorld(), at(place, rounds=None, until_round=2), home=home)
    assert content(place) == content(whole)


class Switched(ToyWorld, frozen=True):
    """A world in which somebody pulls the kill switch while a round is being played."""

    files: Any = None
    played: list[int] = []

    def episodes(self, given, seeds):
        self.played.append(len(seeds))
        if len(self.played) == 3:
            pull(self.files, "r", "test")
        return super().episodes(given, seeds)


def test_the_kill_switch_stops_a_round_in_between(tmp_path, home, monkeypatch):
    place, whole = tmp_path / "r", tmp_path / "whole"
    begin_exploration(ToyWorld(), at(whole, rounds=2), home=home)
    begin_exploration(ToyWorld(), at(place, rounds=1), home=home)
    monkeypatch.setattr("ethogram.questions.explore.buying.world.POLL_SECONDS", 0.0)
    world = Switched(files=open_exploration(str(place), home=home).run.files)
    stopped = begin_exploration(world, at(place, rounds=1), home=home)
    assert (stopped.stopped, stopped.rounds, len(world.played)) == ("killed", 1, 3)
    assert len(open_exploration(str(place), home=home).run.batches) == 8 + 3  # what was played is kept
    begin_exploration(ToyWorld(), at(place, rounds=None, until_round=2), home=home)
    assert content(place) == content(whole)


def test_a_budget_is_kept_to_the_episode(tmp_path, home):
    result = begin_exploration(ToyWorld(), at(tmp_path / "r", ExploreOptions(max_episodes=333)), home=home)
    assert (result.episodes, result.stopped, result.enough) == (333, "budget", False)
    again = begin_exploration(ToyWorld(), at(tmp_path / "r", ExploreOptions(max_episodes=333)), home=home)
    assert again.new_rounds == 0
    more = begin_exploration(ToyWorld(), at(tmp_path / "r", ExploreOptions(max_episodes=400)), home=home)
    assert more.episodes == 400


def test_the_default_stops_by_itself_and_says_what_is_established(tmp_path, home):
    small = grid(
        {
            "tool_noise": [0, 3],
            "verify_flip": [0.0, 0.05],
            "hint_ambiguity": [0, 3],
            "distractor_count": [0, 6],
            "memory_tokens": [16, 64],
        }
    )
    result = begin_exploration(ToyWorld(), at(tmp_path / "r", ExploreOptions(max_episodes=6000)), grid=small, home=home)
    assert (result.stopped, result.enough) == ("enough", True)
    assert result.metrics.truth is not None
    assert result.metrics.truth.balanced_accuracy >= 0.95
    assert "points are safe" in result.established
    bound = StopRule(balanced=None, undecided=1.0, in_a_row=1)
    early = begin_exploration(ToyWorld(), at(tmp_path / "s", ExploreOptions(stop=bound)), grid=small, home=home)
    assert early.stopped == "enough"
    assert early.episodes < result.episodes


def test_explorations_lie_in_the_home(home):
    """And are listed and queried with their episodes, though these have no traces: a task is a grid point."""
    result = begin_exploration(
        ToyWorld(synthetic=True), ExploreOptions(strategy="v1", rounds=1, targets_per_round=2), home=home
    )
    run = home.resolve(result.run)
    assert run.info.kind == "explore"
    assert open_exploration(home=home).run.name == result.run
    assert verify_run(run).ok
    (listed,) = runs(home=home).runs
    shown = show(result.run, home=home)
    assert (listed.episodes, listed.scored, listed.missing) == (shown.episodes, shown.scored, 0) == (512, 512, 0)
    points = {p.point: p for p in map_exploration(home=home).points if p.episodes}
    assert [(t.task, t.attempts, t.attempts - t.successes) for t in shown.tasks] == [
        (f"g{i:04d}", p.episodes, p.failures) for i, p in points.items()
    ]
    query = """SELECT task, count(*) AS n, count(DISTINCT seed) AS seeds, sum(1 - score)::INT AS failures,
        any_value(meta->>'$.tool_noise')::INT AS noise FROM episodes GROUP BY task ORDER BY task"""
    assert Lake([run]).sql(query).to_pylist() == [
        {"task": f"g{i:04d}", "n": 256, "seeds": 256, "failures": p.failures, "noise": p.settings["tool_noise"]}
        for i, p in points.items()
    ]
    rates = {t.task: t.c for t in stats(result.run, home=home).tasks}
    assert rates == {f"g{i:04d}": 256 - p.failures for i, p in points.items()}
    with pytest.raises(NotFound, match="there is no exploration"):
        open_exploration(home=str(home.files.root / "other"))


def test_traces_are_stored_when_asked_for(home):
    options = ExploreOptions(max_episodes=20, store_traces=True, name="traced")
    result = begin_exploration(ToyWorld(), options, home=home)
    traces = list(home.run("traced").traces())
    assert len(traces) == result.episodes == 20
    assert home.run("traced").batches == ()  # an episode is in the ledger once
    assert Lake([home.run("traced")]).sql("SELECT count(*) AS n FROM episodes").to_pylist() == [{"n": 20}]
    kinds = {s.name for t in traces for s in t.spans}
    assert kinds <= {"toy_v1", "hint", "lookup", "verify"}
    assert sum(not t.head.outcome.success(SUCCESS_AT) for t in traces) == sum(
        p.failures for p in map_exploration("traced", home=home).points
    )
    again = begin_exploration(ToyWorld(), ExploreOptions(max_episodes=30, name="traced"), home=home)
    assert (again.episodes, len(home.run("traced").entries)) == (30, 20)  # what was begun with traces goes on without
    plain = begin_exploration(ToyWorld(), ExploreOptions(max_episodes=20, name="plain"), home=home)
    assert len(home.run("plain").entries) == 0
    assert plain.metrics.tube == result.metrics.tube


class Flaky(ToyWorld, frozen=True):
    """A world behind a network that is down at one point."""

    def episodes(self, given, seeds):
        from ethogram.harness.faults import NetworkFault

        if given["tool_noise"] == 0:
            raise NetworkFault("the line is dead")
        return super().episodes(given, seeds)


def test_the_worlds_faults_are_missing_outcomes(tmp_path, home):
    small = grid(
        {
            "tool_noise": [0, 1],
            "verify_flip": [0.0],
            "hint_ambiguity": [0],
            "distractor_count": [0],
            "memory_tokens": [64],
        }
    )
    options = ExploreOptions(strategy="uniform", rounds=1, targets_per_round=2)
    result = begin_exploration(Flaky(), at(tmp_path / "r", options), grid=small, home=home)
    assert (result.episodes, result.metrics.counts.missing) == (256, {"infrastructure.network": 256})
    run = open_exploration(str(tmp_path / "r"), home=home).run
    asked = "SELECT reason, count(*) AS n FROM episodes GROUP BY reason ORDER BY n, reason NULLS LAST"
    found = {row["reason"]: row["n"] for row in Lake([run]).sql(asked).to_pylist()}
    assert found == {"infrastructure.network": 256, None: 256}
    lines = next((tmp_path / "r").glob("rounds/R0001*/agent_results.csv")).read_text().splitlines()[1:]
    assert sum(line.split(",")[4] == "" for line in lines) == 256


OLD = Path(__file__).with_name("old_exploration")
"""Three rounds of the default, stored by a version that kept outcomes in notes beside the ledger."""


def shortened(files: dict[str, bytes]) -> dict[str, bytes]:
    """Texts with ten digits of each number, for the same reason, and without sentences, which may be worded anew."""
    plain = {name: re.sub(rb'"misleads": "[^"]*"', b'"misleads": ""', data) for name, data in files.items()}
    return {
        name: data if name.endswith(".npz") else re.sub(rb"(\.\d{10})\d+", rb"\1", data) for name, data in plain.items()
    }


def rounded(value):
    """Another processor adds in another order: the last digits are its own."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return round(value, 9) if isinstance(value, float) else value


def test_explorations_of_earlier_versions_open_and_go_on(tmp_path, home):
    place = tmp_path / "old"
    shutil.copytree(OLD, place)
    stored = json.loads(OLD.with_name("old_exploration_map.json").read_text())
    found = json.loads(msgspec.json.encode(map_exploration(str(place), home=home)))
    figures = [k for k in stored if k not in ("run", "established", "metrics")]  # sentences may be worded anew
    assert rounded({k: found[k] for k in figures}) == rounded({k: stored[k] for k in figures})
    assert show(str(place), home=home).episodes == 112
    fresh = tmp_path / "fresh"
    small = open_exploration(str(place), home=home).metadata().grid
    options = ExploreOptions(seed=4, targets_per_round=4, until_round=5)
    for where in (place, fresh):
        begin_exploration(ToyWorld(), at(where, options), grid=small, home=home)
    assert shortened(content(place)) == shortened(content(fresh))
    assert show(str(place), home=home).episodes == show(str(fresh), home=home).episodes > 112
    old, new = (open_exploration(str(where), home=home).run for where in (place, fresh))
    assert 0 < len(old.batches) < len(new.batches)  # what was noted stays where it is


def break_posteriors(place: Path) -> None:
    (place / "beta_posteriors.npz").write_bytes(b"PK\x03\x04 this is not a zip file")


def shift_posteriors(place: Path) -> None:
    np.savez(place / "beta_posteriors.npz", alpha=np.ones(1024, dtype=int), beta=np.full(1024, 7))


def break_grid(place: Path) -> None:
    (place / "grid.npz").write_bytes(b"nothing")


def break_metrics(place: Path) -> None:
    next((place / "rounds").glob("R0001_*/metrics.json")).write_text("{")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (break_posteriors, "beta_posteriors.npz .* cannot be read"),
        (shift_posteriors, "is not what its committed rounds give"),
        (break_grid, "grid.npz .* cannot be read"),
        (break_metrics, "metrics.json .* is not what its ledger holds"),
    ],
)
def test_damage_is_told_in_one_sentence_and_nothing_is_overwritten(tmp_path, home, damage, words):
    place = tmp_path / "r"
    begin_exploration(ToyWorld(synthetic=True), at(place), home=home)
    damage(place)
    before = {f: f.read_bytes() for f in place.rglob("*") if f.is_file()}
    with pytest.raises(Exception, match=words) as told:
        begin_exploration(ToyWorld(synthetic=True), at(place), home=home)
    assert "\n" not in str(told.value)
    assert {f: f.read_bytes() for f in place.rglob("*") if f.is_file() and f.parent.name != "writers"} == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"run_uuid": "another"}, "is the run .*, not another"),
        ({"strategy": "default"}, "was begun with strategy 'v1'"),
        ({"tau": 0.3}, "was begun with tau"),
        ({"seed": 4}, "was begun with seed 11111"),
    ],
)
def test_an_exploration_is_not_continued_as_another(tmp_path, home, changes, words):
    place = tmp_path / "r"
    begin_exploration(ToyWorld(synthetic=True), at(place), home=home)
    before = content(place)
    with pytest.raises(BadUsage, match=words):
        begin_exploration(ToyWorld(synthetic=True), at(place, **changes), home=home)
    with pytest.raises(BadUsage, match="synthetic"):
        begin_exploration(ToyWorld(), at(place), home=home)
    assert content(place) == before


def test_an_unknown_engine_leaves_no_run_behind(home):
    with pytest.raises(NotFound, match="no engine named 'moon'"):
        begin_exploration(ToyWorld(), ExploreOptions(engine="moon"), home=home)
    assert home.names() == []


def test_a_changed_grid_is_refused(tmp_path, home):
    place = tmp_path / "r"
    begin_exploration(ToyWorld(synthetic=True), at(place), home=home)
    before = content(place)
    other = grid(
        {
            "tool_noise": [0, 1],
            "verify_flip": [0.0],
            "hint_ambiguity": [0],
            "distractor_count": [0],
            "memory_tokens": [16],
        }
    )
    with pytest.raises(BadUsage, match="the grid has changed"):
        begin_exploration(ToyWorld(synthetic=True), at(place), grid=other, home=home)
    (place / "grid.npz").write_bytes(grid_bytes(other))
    with pytest.raises(BadInput, match="is not the grid of this exploration"):
        begin_exploration(ToyWorld(synthetic=True), at(place), home=home)
    assert content(place) == before


def test_two_sessions_at_once_are_refused(tmp_path, home):
    place = tmp_path / "r"
    begin_exploration(ToyWorld(synthetic=True), at(place), home=home)
    run = open_exploration(str(place), home=home).run
    with run.writer(home.redactor(Policy(kinds=()))), pytest.raises(Locked, match="being explored by another process"):
        begin_exploration(ToyWorld(synthetic=True), at(place), home=home)


@pytest.mark.parametrize(
    "changes",
    [
        {"rounds": 0},
        {"targets_per_round": 0},
        {"tau": 1.0},
        {"zone": 0.3},
        {"level": 0.4},
        {"seed_mode": "odd"},
        {"engine": "slurm"},
    ],
)
def test_options_that_make_no_sense(tmp_path, home, changes):
    with pytest.raises(BadInput):
        begin_exploration(ToyWorld(), at(tmp_path / "r", **changes), home=home)


# -- any agent and suite ----------------------------------------------------------------------------------------------

SUITE = Suite(
    name="colours",
    tasks=tuple(Task(id=f"t{i}", prompt="?", expected="right", checks=(Check(kind="equals"),)) for i in range(3)),
)
ROOM = grid({"noise": [0, 1, 2], "style": ["curt", "kind"]})


def shaky(task, episode):
    """Fails often in the noise, and always when it is curt in it; the network is gone now and then."""
    from ethogram.harness.faults import NetworkFault

    draw = episode.rng.random()
    if episode.condition["noise"] == 1 and draw < 0.1:
        raise NetworkFault("the line is dead")
    rate = (0.02, 0.05, 0.5)[episode.condition["noise"]] + (0.4 if episode.condition["style"] == "curt" else 0.0)
    return "wrong" if episode.rng.random() < rate else "right"


def test_a_grid_point_is_a_condition_of_the_harness(home):
    options = ExploreOptions(max_episodes=300, name="rooms", zone=0.05)
    result = explore_suite(SUITE, shaky, ROOM, options, home=home)
    run = home.run("rooms")
    bought = sum(row["total_budget"] for row in result.summary)
    assert len(run.entries) == bought <= 300
    assert {e.head.condition for e in run.entries} == {f"g{i:04d}" for i in range(6)}
    assert {e.head.task for e in run.entries} == {"t0", "t1", "t2"}
    verdicts = {tuple(p.settings.values()): p for p in map_exploration("rooms", home=home).points}
    assert verdicts[2, "curt"].verdict == "unsafe"
    assert verdicts[0, "kind"].rate.value < 0.2
    missing = result.metrics.counts.missing
    assert set(missing) <= {"infrastructure.network"}
    assert result.episodes + sum(missing.values()) == bought
    # what is missing counts neither as a failure nor as an episode
    assert sum(p.episodes for p in verdicts.values()) == result.episodes
    again = explore_suite(SUITE, shaky, ROOM, options, home=home)
    assert (again.new_rounds, again.episodes) == (0, result.episodes)


def test_a_suite_resumes_to_the_same_end(home):
    def steady(task, episode):
        return "wrong" if episode.rng.random() < 0.15 * (1 + episode.condition["noise"]) else "right"

    whole = explore_suite(SUITE, steady, ROOM, ExploreOptions(rounds=4, name="whole"), home=home)
    for _ in range(2):
        parts = explore_suite(SUITE, steady, ROOM, ExploreOptions(rounds=2, name="parts"), home=home)
    assert parts.metrics == whole.metrics


def test_another_suite_does_not_continue_an_exploration(home):
    explore_suite(SUITE, shaky, ROOM, ExploreOptions(rounds=1, name="rooms"), home=home)
    other = Suite(name="colours", tasks=SUITE.tasks[:1])
    with pytest.raises(BadUsage, match="was begun with settings"):
        explore_suite(other, shaky, ROOM, ExploreOptions(rounds=1, name="rooms"), home=home)


def test_when_every_outcome_is_missing_it_stops(home):
    def gone(task, episode):
        from ethogram.harness.faults import NetworkFault

        raise NetworkFault("nobody answers")

    import ethogram.harness.executor as executor

    seconds, executor.BACKOFF_SECONDS = executor.BACKOFF_SECONDS, 0.0
    try:
        result = explore_suite(SUITE, gone, ROOM, ExploreOptions(max_episodes=6), home=home)
    finally:
        executor.BACKOFF_SECONDS = seconds
    assert (result.stopped, result.episodes) == ("no outcomes", 0)


def test_grids_from_files_and_from_python(tmp_path):
    (tmp_path / "g.yaml").write_text(
        "parameters:\n  noise: [0, 1]\n  style: [curt, kind]\nconstraints: ['noise < 1 or style == \"kind\"']\n"
    )
    assert len(load_grid(tmp_path / "g.yaml")) == 3
    (tmp_path / "g.py").write_text("from ethogram.questions.explore.grid import grid\nG = grid({'a': [1, 2]})\nN = 3\n")
    assert len(load_grid(f"{tmp_path}/g.py:G")) == 2
    with pytest.raises(BadInput, match="is not a grid but a int"):
        load_grid(f"{tmp_path}/g.py:N")
    with pytest.raises(NotFound, match="no grid at"):
        load_grid(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("parameters: [")
    with pytest.raises(BadInput, match="cannot be read"):
        load_grid(tmp_path / "bad.yaml")


# -- understanding ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def explored(tmp_path_factory) -> Home:
    home = Home(LocalFiles(tmp_path_factory.mktemp("explored")))
    begin_exploration(ToyWorld(), ExploreOptions(max_episodes=900, seed=1), home=home)
    return home


def test_effects_name_what_matters_and_what_is_dead(explored):
    found = explain_exploration(home=explored)
    assert [e.parameters[0] for e in found.main[:2]] == ["hint_ambiguity", "tool_noise"]
    dead = {e.parameters[0]: e for e in found.main}
    assert dead["distractor_count"].share.high < 0.05
    assert dead["memory_tokens"].spread.value < 0.06
    assert found.interactions[0].parameters == ["tool_noise", "hint_ambiguity"]
    assert all(e.share.low <= e.share.value <= e.share.high for e in (*found.main, *found.interactions))
    truth = np.mean([ToyWorld().rate(v1_grid().settings(i)) for i in range(1024) if v1_grid().level(i)[0] == 3])
    rate = next(r.rate for r in found.levels if (r.parameter, r.value) == ("tool_noise", 3))
    assert rate.low - 0.02 <= truth <= rate.high + 0.02


def test_neighbours_slices_and_export_agree_with_the_map(explored, tmp_path):
    here = {"tool_noise": 1, "verify_flip": 0.05, "hint_ambiguity": 0, "distractor_count": 2, "memory_tokens": 64}
    found = near_setting(here, home=explored)
    assert found.safest.change == {"tool_noise": 0}
    assert found.most_dangerous.change == {"hint_ambiguity": 1}
    assert len(found.neighbours) == 2 + 2 + 1 + 2 + 2
    for row in found.neighbours:
        assert row.difference.value == pytest.approx(row.rate.value - found.here.rate.value)
        assert row.difference.low <= row.difference.value <= row.difference.high
    cells = slice_exploration("tool_noise", "hint_ambiguity", {"verify_flip": 0.0}, home=explored).cells
    assert len(cells) == 16
    assert all(c.points == 16 for c in cells)
    assert cells[0].rate.value < cells[-1].rate.value
    whole = map_exploration(home=explored)
    assert found.here == whole.points[found.here.point]
    assert all(row.rate == whole.points[row.point].rate for row in found.neighbours)
    inside = [p.rate.value for p in whole.points if p.settings["tool_noise"] == p.settings["hint_ambiguity"] == 0]
    easiest = slice_exploration("tool_noise", "hint_ambiguity", home=explored).cells[0]
    assert easiest.rate.value == pytest.approx(np.mean(inside), abs=0.01)
    assert whole.safe + whole.unsafe + whole.undecided == 1024
    assert sum(p.episodes for p in whole.points) == 900
    export_exploration(tmp_path / "m.csv", home=explored)
    export_exploration(tmp_path / "m.parquet", home=explored)
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "m.parquet")
    rows = list(csv.DictReader((tmp_path / "m.csv").read_text().splitlines()))
    assert table.num_rows == len(rows) == 1024
    assert table.column("rate").to_pylist() == [float(r["rate"]) for r in rows] == [p.rate.value for p in whole.points]
    with pytest.raises(BadUsage, match="exists already"):
        export_exploration(tmp_path / "m.csv", home=explored)
    with pytest.raises(BadUsage, match=r"neither in .csv nor"):
        export_exploration(tmp_path / "m.txt", home=explored)
    with pytest.raises(BadInput, match="tool_noise = 9 is not in the grid"):
        near_setting({**here, "tool_noise": 9}, home=explored)
    with pytest.raises(BadUsage, match="neither may be fixed"):
        slice_exploration("tool_noise", "tool_noise", home=explored)


def test_neighbours_where_every_point_stands_for_itself(tmp_path, home):
    place = tmp_path / "r"
    begin_exploration(ToyWorld(), at(place, rounds=1), home=home)
    found = near_setting(v1_grid().settings(0), str(place), home=home)
    unseen = [row for row in found.neighbours if row.episodes == 0]
    assert unseen
    assert all(row.rate.value == 0.5 and row.difference.high - row.difference.low > 0.9 for row in unseen)


def test_the_map_is_what_the_exploration_believed(explored):
    whole = map_exploration(home=explored)
    known = whole.metrics.certainty
    assert (whole.safe, whole.unsafe, whole.undecided) == (known.safe, known.unsafe, known.undecided)


def test_the_map_is_read_and_not_replayed(tmp_path, home, monkeypatch):
    from ethogram.questions.explore.shared_surface import SharedSurface

    place = tmp_path / "r"
    begin_exploration(ToyWorld(), at(place, ExploreOptions(max_episodes=400, rounds=8)), home=home)
    looks, look = [], SharedSurface.look
    monkeypatch.setattr(SharedSurface, "look", lambda self, tally: (looks.append(tally.spent), look(self, tally))[1])
    read = map_exploration(str(place), home=home)
    assert looks == [read.episodes]
    effects = explain_exploration(str(place), home=home)
    (place / "derived" / "strategy.npz").unlink()
    looks.clear()
    assert map_exploration(str(place), home=home) == read  # as if every round had been shown to it again
    assert len(looks) == 8
    assert explain_exploration(str(place), home=home) == effects
    (place / "derived" / "strategy.npz").write_bytes(b"nothing")
    assert map_exploration(str(place), home=home) == read


def test_a_race_tells_strategies_apart():
    found = race(ToyWorld(), ["default", "uniform", "boundary", "v1-shipped"], seeds=2, max_episodes=1200)
    by_name = {s.strategy: s for s in found.standings}
    assert by_name["default"].n95 < 700
    assert by_name["uniform"].n95 is None
    assert by_name["default"].balanced_accuracy > by_name["uniform"].balanced_accuracy + 0.3
    assert all(c.episodes[-1] == 1200 and len(c.balanced_accuracy.mean) == len(c.episodes) for c in found.curves)
    assert len(found.rows()) == sum(len(c.episodes) for c in found.curves)
    with pytest.raises(NotFound):
        race(ToyWorld(), ["best"], seeds=1, max_episodes=100)


def test_agent_seeds_are_apart_from_episode_seeds():
    assert len({agent_seed(i) for i in range(1000)} | set(range(1000))) == 2000


def test_the_end_of_a_budget_is_shared_out(tmp_path, home):
    """A round that the budget cuts short loses episodes of every target, not its last targets."""
    options = ExploreOptions(strategy="uniform", rounds=1, max_episodes=64, targets_per_round=8)
    found = begin_exploration(ToyWorld(synthetic=True), at(tmp_path / "cut", options), home=home)
    assert found.episodes == 64
    assert found.metrics.plan.targets_selected == 8
