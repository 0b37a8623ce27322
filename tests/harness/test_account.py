"""One account for all processes of a run: what they spend together is at most its cap, also where one is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ethogram.harness.account import SharedBudget, experiment_budget
from ethogram.prices import Amounts, Budget, CapReached, Caps
from ethogram.store import Home, Run

PROGRAM = """
import sys, time
from ethogram.harness.account import experiment_budget
from ethogram.prices import Amounts, Budget, CapReached, Caps
from ethogram.store import open_home

how, want = sys.argv[2], Amounts(usd=0.07)
with experiment_budget(open_home(sys.argv[1]).run("a"), Caps(usd=10.0), Amounts()) as experiment:
    budget, made = Budget("episode", Caps(), experiment), 0
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        while made < 200:
            budget.reserve(want)
            made += 1
            if how == "hang":
                print("reserved", flush=True)
                time.sleep(60)
            budget.settle(want, want)
    except CapReached:
        pass
    print(made, flush=True)
"""


@pytest.fixture
def run(home: Home) -> Run:
    return home.create("a", "run")


def started(home: Home, how: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", PROGRAM, home.files.reach, how]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_processes_at_once_spend_at_most_the_cap_together(home: Home, run: Run) -> None:
    processes = [started(home, "spend") for _ in range(4)]
    for process in processes:
        go(process)
    made = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(made) == int(10 / 0.07), made


def test_what_a_killed_process_had_reserved_counts_as_spent(home: Home, run: Run) -> None:
    process = started(home, "hang")
    go(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "reserved\n"
    with experiment_budget(run, Caps(usd=0.1), Amounts()) as other:
        assert (other.used.usd, other.reserved.usd) == (0.0, 0.07)
        with pytest.raises(CapReached) as waits:
            other.reserve(Amounts(usd=0.07))
        assert waits.value.may_pass
        process.kill()
        process.communicate(timeout=30)
        with pytest.raises(CapReached) as refused:
            other.reserve(Amounts(usd=0.07))
        assert not refused.value.may_pass
        assert (other.used.usd, other.reserved.usd) == (0.07, 0.0)


def test_a_later_session_knows_what_was_kept_and_what_the_ledger_says(run: Run) -> None:
    with experiment_budget(run, Caps(usd=1.0), Amounts()) as first:
        first.reserve(Amounts(usd=0.5))
        first.settle(Amounts(usd=0.5), Amounts(usd=0.5))
    with experiment_budget(run, Caps(usd=1.0), Amounts(usd=0.1, tokens=7)) as second:
        assert (second.used.usd, second.used.tokens) == (0.5, 7)
    with experiment_budget(run, Caps(usd=1.0), Amounts(usd=0.8)) as third:
        assert third.used.usd == 0.8


@pytest.mark.parametrize("damage", [b"", b"{", b"[]" + b" " * 9000])
def test_a_torn_account_is_begun_anew_by_the_ledger(run: Run, tmp_path: Path, damage: bytes) -> None:
    (run.files.root / run.path / "account.json").write_bytes(damage)  # type: ignore[attr-defined]
    with experiment_budget(run, Caps(usd=1.0), Amounts(usd=0.9)) as budget:
        budget.reserve(Amounts(usd=0.05))
        with pytest.raises(CapReached):
            budget.reserve(Amounts(usd=0.2))


def test_without_caps_there_is_no_account(run: Run) -> None:
    with experiment_budget(run, Caps(), Amounts()) as budget:
        assert not isinstance(budget, SharedBudget)


def test_a_reservation_takes_microseconds(run: Run) -> None:
    with experiment_budget(run, Caps(usd=1e9), Amounts()) as experiment:
        budget = Budget("episode", Caps(usd=1e9), experiment)
        took = []
        for _ in range(500):
            began = time.thread_time()
            budget.reserve(Amounts(usd=1.0))
            budget.settle(Amounts(usd=1.0), Amounts(usd=0.5))
            took.append(time.thread_time() - began)
    took.sort()
    assert took[250] < 0.0005, f"{1e6 * took[250]:.0f} us of CPU, {1e6 * took[495]:.0f} at the 99th percentile"
