"""A gate that buys its own runs: stage by stage, killed and resumed, within its bounds, under its first promise."""

from __future__ import annotations

import datetime
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from ethogram.errors import BadUsage, NotFound
from ethogram.harness.suites import run
from ethogram.questions.gate.allocation import plan_gate
from ethogram.questions.gate.buying import StageOptions, run_gate
from ethogram.questions.gate.ci import junit
from ethogram.questions.gate.plan import GateSettings
from ethogram.questions.gate.quarantine import Quarantined
from ethogram.questions.gate.question import gate_runs
from ethogram.questions.gate.results import GateResult
from ethogram.reading.outcomes import load_outcomes
from ethogram.store import Home, open_home

SUITE = """
from ethogram.plans import Check, Suite, Task

SUITE = Suite(name="coins", tasks=tuple(
    Task(id=f"t{i:02d}", prompt="?", expected="yes", checks=(Check(kind="equals"),)) for i in range(TASKS)))
"""
AGENTS = """
import time

def make(rate, fate="b", only="", seconds=0.0):
    def agent(task, episode):
        time.sleep(seconds)
        with episode.record.model(model="coin-1") as call:
            call.done("hm", input_tokens=1, output_tokens=1, cost_usd=0.01)
        return "yes" if episode.random(fate).random() < rate and task.id != only else "no"
    agent.meters = ("tokens", "usd")
    return agent

good, same, bad, sure = make(0.8, "a"), make(0.8), make(0.3), make(1.0)
broken = make(0.9, only="t03")
slow = make(0.72, seconds=0.05)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "coins.py").write_text(SUITE.replace("TASKS", "10"))
    (tmp_path / "act.py").write_text(AGENTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def home(place: Path) -> Home:
    made = open_home(str(place / "home"))
    run("coins.py", "act.py:good", k=20, home=made, run="main")
    return made


def bought(home: Home, run: str) -> set[tuple[str, int]]:
    return {(e.head.task, e.head.attempt) for e in home.resolve(run).entries}


def ledger(home: Home, run: str) -> list[tuple[Any, ...]]:
    return sorted((e.head.task, e.head.attempt, e.head.seed, str(e.head.outcome)) for e in home.resolve(run).entries)


def told(found: GateResult) -> dict[str, Any]:
    """A result without the names of its runs."""
    return {**json.loads(found.to_json()), "candidate_run": "", "base_run": ""}


SETTINGS = GateSettings(margin=0.2)


def test_it_buys_no_further_than_the_verdict_needs(home: Home) -> None:
    said: list[str] = []
    found = run_gate("main", "bad", SETTINGS, StageOptions(agent="act.py:bad"), home=home, progress=said.append)
    assert found.verdict == "regression"
    assert len(bought(home, "bad")) == found.evidence.looks[-1].runs
    assert len(said) == len(found.evidence.looks)
    assert said[0].startswith("look 1 of ")
    assert found.evidence.decided_at < found.evidence.planned_looks
    # asked again it buys nothing, and says the same; so does the gate that only looks
    again = run_gate("main", "bad", SETTINGS, StageOptions(agent="act.py:bad"), home=home)
    assert again == found
    assert len(bought(home, "bad")) == found.evidence.looks[-1].runs
    assert gate_runs("main", "bad", SETTINGS, home=home) == found


def test_attempts_are_those_that_a_plain_run_would_have_had(home: Home) -> None:
    found = run_gate("main", "new", SETTINGS, StageOptions(agent="act.py:same"), home=home)
    most = max(k for _, k in bought(home, "new")) + 1
    run("coins.py", "act.py:same", k=most, home=home, run="plain")
    plain = {line[:2]: line for line in ledger(home, "plain")}
    assert all(plain[line[:2]] == line for line in ledger(home, "new"))
    assert gate_runs("main", "plain", SETTINGS, home=home).verdict == found.verdict


def test_the_budget_stops_it_before_a_look(home: Home) -> None:
    said: list[str] = []
    first = run_gate(
        "main", "new", SETTINGS, StageOptions(agent="act.py:slow", max_runs=12), home=home, progress=said.append
    )
    assert first.verdict == "undecided"
    assert len(bought(home, "new")) == 12
    assert "more than --max-runs; stopped before it" in said[-1]
    assert first.needed.runs > 0
    with pytest.raises(BadUsage, match="nothing was run"):
        run_gate("main", "other", SETTINGS, StageOptions(agent="act.py:same", max_runs=3), home=home)
    assert "other" not in home.names()
    # with more of it, it goes on where it stood
    more = run_gate("main", "new", SETTINGS, StageOptions(agent="act.py:slow", max_runs=1000), home=home)
    assert more.evidence.looks[: len(first.evidence.looks)] == first.evidence.looks
    assert len(more.evidence.looks) > len(first.evidence.looks)


def test_money_is_for_all_arms_together(home: Home) -> None:
    stages = StageOptions(agent="act.py:same", base_agent="act.py:good", suite="coins.py", max_usd=0.3)
    run_gate("left", "right", GateSettings(margin=0.1, pilot="main"), stages, home=home)
    spent = sum(e.totals.cost_usd or 0.0 for name in ("left", "right") for e in home.resolve(name).entries)
    assert 0 < spent <= 0.3 + 0.01 * 2 * 8  # what was under way when the cap was met is let finish


def test_other_promises_are_refused(home: Home) -> None:
    run_gate("main", "new", SETTINGS, StageOptions(agent="act.py:same"), home=home)
    other = msgspec.structs.replace(SETTINGS, margin=0.31)
    with pytest.raises(BadUsage, match=r"begun with other settings: margin was [\d.]+ and is 0.31"):
        run_gate("main", "new", other, StageOptions(agent="act.py:same"), home=home)
    away = [Quarantined(task="t01", until=datetime.date(2999, 1, 1), reason="flaky")]
    with pytest.raises(BadUsage, match=r"quarantined was empty and is \['t01'\]; baseline was \d+ and is \d+"):
        run_gate("main", "new", SETTINGS, StageOptions(agent="act.py:same"), home=home, quarantine=away)
    with pytest.raises(BadUsage, match="not made by a gate"):
        run_gate("main", "main", SETTINGS, StageOptions(agent="act.py:same"), home=home)
    with pytest.raises(BadUsage, match="give agent"):
        run_gate("main", "fresh", SETTINGS, StageOptions(), home=home)
    # looking again under other settings is always free
    assert gate_runs("main", "new", GateSettings(margin=0.3, alpha=0.01), home=home).settings.margin == 0.3


def test_latest_means_the_baseline_that_it_meant_at_first(home: Home) -> None:
    found = run_gate("latest", "new", SETTINGS, StageOptions(agent="act.py:bad"), home=home)
    assert (found.base_run, found.verdict) == ("main", "regression")
    again = run_gate("main", "new", SETTINGS, StageOptions(agent="act.py:bad"), home=home)
    assert again == found


def test_a_changed_suite_is_refused_before_anything_is_bought(home: Home, place: Path) -> None:
    (place / "coins.py").write_text(SUITE.replace("TASKS", "11"))
    with pytest.raises(BadUsage, match="run the baseline again"):
        run_gate("main", "new", SETTINGS, StageOptions(agent="act.py:same"), home=home)
    assert home.names() == ["main"]


def test_two_fresh_arms_are_bought_together(home: Home) -> None:
    stages = StageOptions(agent="act.py:bad", base_agent="act.py:good", suite="coins.py")
    promised = GateSettings(margin=0.25, pilot="main")
    found = run_gate("left", "right", promised, stages, home=home)
    assert found.verdict == "regression"
    assert bought(home, "left") == bought(home, "right")
    assert found.settings.fresh
    assert gate_runs("left", "right", GateSettings(margin=0.25), home=home).evidence.looks == found.evidence.looks
    assert run_gate("left", "right", promised, stages, home=home) == found


def test_what_fresh_attempts_confirm_blocks(home: Home) -> None:
    promised = GateSettings(margin=0.12, power=0.9, confirm=8)
    stages = StageOptions(agent="act.py:broken")
    found = run_gate("main", "new", promised, stages, home=home)
    moved = [t.task for t in found.evidence.moved if t.difference < 0]
    assert [c.task for c in found.confirmations] == moved == ["t03"]
    (again,) = found.confirmations
    assert (again.attempts, again.again, again.confirmed) == (8, 0.0, True)
    assert found.verdict == "regression"
    assert found.evidence.why.startswith("fresh attempts confirm that a task broke: t03 (")
    # a later look says the same, by the attempts that are recorded, and may allow it
    later = gate_runs("main", "new", promised, home=home)
    assert (later.verdict, later.confirmations) == (found.verdict, found.confirmations)
    assert later.evidence.looks == found.evidence.looks, "looks do not see the attempts that came after them"
    allowed = gate_runs("main", "new", promised, home=home, allow_tasks=["t03"])
    assert allowed.confirmations[0].allowed
    assert allowed.verdict == found.evidence.looks[-1].decision
    failing = [c.get("name") for c in ET.fromstring(junit(found)).iter("testcase") if c.find("failure") is not None]
    assert "t03" in failing
    bought_once = bought(home, "new")
    assert run_gate("main", "new", promised, stages, home=home) == found
    assert bought(home, "new") == bought_once
    with pytest.raises(NotFound, match="t0x"):
        run_gate("main", "new", promised, StageOptions(agent="act.py:broken", allow_tasks=("t0x",)), home=home)
    tight = StageOptions(agent="act.py:bad", max_runs=10)
    run_gate("main", "worse", GateSettings(margin=0.2, alpha=0.2, confirm=5), tight, home=home)
    assert len(bought(home, "worse")) <= 10


def test_it_buys_exactly_the_attempts_of_the_order(home: Home) -> None:
    stages = StageOptions(agent="act.py:same", max_runs=7)
    found = run_gate("main", "new", msgspec.structs.replace(SETTINGS, every=0.7), stages, home=home)
    before = load_outcomes(home.resolve("main"))
    due = plan_gate(before, found.settings, before.tasks).attempts()[0]
    assert due.sum() == 7
    assert bought(home, "new") == {(t, k) for t, n in zip(before.tasks, due, strict=True) for k in range(n)}
    assert gate_runs("main", "new", msgspec.structs.replace(SETTINGS, every=0.7), home=home) == found


def test_quarantined_tasks_are_not_bought(home: Home) -> None:
    resting = [Quarantined(task="t03", until=datetime.date(2999, 1, 1), reason="flaky")]
    found = run_gate("main", "new", SETTINGS, StageOptions(agent="act.py:bad"), home=home, quarantine=resting)
    assert found.verdict == "regression"
    assert "t03" not in {task for task, _ in bought(home, "new")}


def test_killed_in_mid_stage_and_resumed_it_says_and_holds_the_same(home: Home, place: Path) -> None:
    command = [sys.executable, "-m", "ethogram.cli.main", "gate", "main", "torn", "--buy", "--agent", "act.py:slow"]
    command += ["--margin", "0.2", "--workers", "2", "--home", str(place / "home"), "--json"]
    whole = run_gate("main", "whole", SETTINGS, StageOptions(agent="act.py:slow"), home=home)
    kills = 0
    for wanted in (1, 8, 23):
        with (place / "said").open("wb") as said:
            process = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=said)
        deadline = time.monotonic() + 90
        while process.poll() is None and time.monotonic() < deadline:
            if (place / "home/runs/torn/run.json").exists() and len(
                bought(open_home(str(place / "home")), "torn")
            ) >= wanted:
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.02)
        process.wait(30)
    assert kills >= 2, (place / "said").read_text()
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1, 2), done.stderr
    again = open_home(str(place / "home"))
    assert ledger(again, "torn") == ledger(again, "whole")
    resumed = {**json.loads(done.stdout), "candidate_run": "", "base_run": ""}
    names = {"suite": None}  # it holds the names of the runs
    assert resumed | names == told(whole) | names


def test_killed_before_its_first_episode_it_begins_anew(home: Home, place: Path) -> None:
    """The run is there and its ledger is empty: what a kill right after the start leaves."""
    run_gate("main", "new", SETTINGS, StageOptions(agent="act.py:bad"), home=home)
    for folder in ("ledger", "labels"):
        for file in (place / "home" / "runs" / "new" / folder).glob("*"):
            file.unlink()
    for file in (place / "home" / "runs" / "new").glob("*.parquet"):
        file.unlink()
    fresh = open_home(str(place / "home"))
    assert not fresh.resolve("new").entries
    assert run_gate("main", "new", SETTINGS, StageOptions(agent="act.py:bad"), home=fresh).verdict == "regression"


def test_it_buys_where_runs_inform_and_is_judged_again_in_that_order(place: Path) -> None:
    """Half of the tasks always or never pass: the others come first, and the order is kept with the run."""
    (place / "mixed.py").write_text(
        SUITE.replace("TASKS", "16") + "\ndef make(drop):\n"
        "    def agent(task, episode):\n"
        "        i = int(task.id[1:])\n"
        "        rate = 0.0 if i < 5 else 1.0 if i < 9 else 0.65 - drop\n"
        "        return 'yes' if episode.random(str(drop)).random() < rate else 'no'\n"
        "    return agent\n"
        "good, bad, sure = make(0.0), make(0.6), make(-0.35)\n"
    )
    home = open_home(str(place / "mixed"))
    run("mixed.py", "mixed.py:good", k=20, home=home, run="main")
    settings = GateSettings(margin=0.2)
    found = run_gate("main", "bad", settings, StageOptions(agent="mixed.py:bad"), home=home)
    assert found.verdict == "regression"
    taken = Counter(task for task, _ in bought(home, "bad"))
    middle = sum(taken[f"t{i:02d}"] for i in range(9, 16))
    assert middle / 7 > 2 * (sum(taken.values()) - middle) / 9, taken
    again = gate_runs("main", "bad", settings, home=home)
    assert (again.verdict, again.evidence.looks) == (found.verdict, found.evidence.looks)
    assert again.settings.ahead > 0
    asked = StageOptions(agent="mixed.py:sure", max_runs=12)
    first = run_gate("main", "sure", settings, asked, home=home)
    assert first.verdict == "undecided"
    whole = run_gate("main", "sure", settings, StageOptions(agent="mixed.py:sure"), home=home)
    assert whole.verdict == "pass"
    assert len({task for task, _ in bought(home, "sure")}) == 16, "a pass needs every task"
