"""A run while it goes, as a terminal shows it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ethogram.cli.live import LiveCounts, lasting
from ethogram.harness.executor import EpisodeReport
from ethogram.traces import SUCCESS_AT, Missing, Outcome, Scored


def report(task: str, outcome: Outcome, usd: float = 0.01) -> EpisodeReport:
    return EpisodeReport(
        episode=f"{task}-{id(outcome)}",
        task=task,
        attempt=0,
        condition="",
        outcome=outcome,
        seconds=1.0,
        tokens=5,
        usd=usd,
        success_at=SUCCESS_AT,
    )


def drawn(tally: LiveCounts, width: int = 100, height: int = 30) -> list[str]:
    paper = io.StringIO()
    Console(file=paper, width=width, height=height).print(tally.screen(height))
    return [line.rstrip() for line in paper.getvalue().splitlines()]


@pytest.fixture
def tally() -> LiveCounts:
    made = LiveCounts()
    made.started("night", 60, [report("tea", Scored(1.0)), report("tea", Missing("infrastructure.network"))], 1.5)
    made.count(report("milk", Scored(0.0)))
    return made


def test_tasks_passes_missing_spend_against_the_cap_rate_and_time_left(tally: LiveCounts) -> None:
    tally.began -= 10  # one fresh episode in ten seconds
    line, head, *rows = drawn(tally)
    assert line.startswith("night: 3 of 60 done, 1 passed, 1 missing, $0.0300 of $1.50, 6.0/min, about 10 min left")
    assert head.split() == ["task", "done", "passed", "missing", "spent"]
    assert [r.split() for r in rows] == [["tea", "2", "1", "1", "$0.0200"], ["milk", "1", "0", "–", "$0.0100"]]


def test_nothing_wraps_on_a_narrow_screen(tally: LiveCounts) -> None:
    tally.count(report("a-task-with-a-name-that-is-longer-than-the-whole-screen-is-wide", Scored(1.0)))
    lines = drawn(tally, width=40)
    assert len(lines) == 5
    assert all(len(line) <= 40 for line in lines)


def test_more_tasks_than_lines(tally: LiveCounts) -> None:
    for n in range(40):
        tally.count(report(f"task-{n}", Scored(1.0)))
    lines = drawn(tally, height=12)
    assert len(lines) <= 12
    assert lines[-1] == "and 34 more tasks"


def test_before_the_first_episode() -> None:
    assert drawn(LiveCounts()) == ["getting ready"]


@pytest.mark.parametrize(("seconds", "said"), [(5, "5 s"), (150, "2 min"), (7200, "2.0 h")])
def test_how_long_it_lasts(seconds: float, said: str) -> None:
    assert lasting(seconds) == said
