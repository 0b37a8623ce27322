"""Incidents: what is recorded, what is hidden, and what it takes to close one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadInput, BadUsage, Damaged, NotFound
from ethogram.harness.suites import run
from ethogram.plans import Task
from ethogram.questions.golden.promotion import WantedCheck, promote
from ethogram.questions.golden.versions import freeze, remove_task
from ethogram.questions.incident.closing import close_incident, incident
from ethogram.questions.incident.incident import guard_problem
from ethogram.questions.incident.opening import open_incident
from ethogram.questions.incident.records import list_incidents
from ethogram.store import Home
from ethogram.traces import Missing, Scored

KEY = "sk-proj-" + "9hTq2LmZ7vXc4RbN1wYk8sDf5gJp3aEu6oKi0tQxWzBnMrVy"


def looping(task: Task, episode: Any) -> str:
    """Calls the same thing again and again, and gives the wrong answer."""
    for _ in range(5):
        episode.record.tool("search", lambda q: "nothing", q="tea")
    return "no idea"


def right(task: Task, episode: Any) -> str:
    episode.record.tool("search", lambda q: "6", q="price of tea")
    return "6"


@pytest.fixture
def shop(tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "tasks.yaml").write_text(
        '- {id: tea, prompt: "What does tea cost?", checks: [{equals: "6"}]}\n'
        '- {id: ale, prompt: "What does ale cost?", checks: [{equals: "4"}]}\n'
    )
    freeze(str(folder))
    run(str(folder), looping, tasks=("tea",), home=home, run="night")
    run(str(folder), right, tasks=("tea",), home=home, run="day")
    return str(folder)


def trace_of(run: str, home: Home) -> str:
    return home.resolve(run).entries[0].head.trace_id


def test_an_incident_says_class_owner_evidence_cost_and_the_way_back(shop: str, home: Home) -> None:
    Path("owners.toml").write_text('[loop]\nowner = "runtime team"\n')
    Path("playbook.yaml").write_text("loop:\n  rollback: make rollback\nother: {rollback: call somebody}\n")
    found = open_incident(trace_of("night", home), why=f"paged at night, key {KEY}", by="ada", home=home).incident
    facts = found.facts
    assert (found.state, facts.class_, facts.owner, facts.rollback) == ("open", "loop", "runtime team", "make rollback")
    assert facts.rollback_why == "playbook.yaml, loop"
    assert (facts.evidence.passing, facts.evidence.passing_run) == (trace_of("day", home), "day")
    assert facts.evidence.t_star == 1, "both search, then one searches again"
    assert "search" in str(facts.evidence.failing_step)
    assert facts.evidence.passing_step is None, "it had ended"
    assert facts.outcome == "score 0"
    assert facts.cost.seconds is not None
    assert facts.cost.usd is None, "what nobody recorded is unknown, not 0"
    assert KEY.encode() not in home.files.read(f"incidents/{found.id}/0001.json")
    assert KEY not in found.title


def test_events_are_added_and_never_changed(shop: str, home: Home) -> None:
    found = open_incident(trace_of("night", home), home=home).incident
    folder = Path(home.files.folder("incidents")) / found.id
    first = (folder / "0001.json").read_bytes()
    made = promote(found.facts.evidence.failing, shop, WantedCheck(expected="6"), home=home)
    close_incident(found.id, task=made.task, suite=shop, home=home)
    again = remove_task(shop, made.task, why="the shop is closed", home=home)
    assert again.reopened == [found.id]
    now = incident(found.id, home=home).incident
    assert (now.state, now.guard) == ("open", None)
    assert [e.event for e in now.history] == ["opened", "closed", "reopened"]
    assert "the shop is closed" in now.history[-1].why
    assert (folder / "0001.json").read_bytes() == first
    (folder / "0002.json").write_text("{")
    with pytest.raises(Damaged, match="cannot be read"):
        incident(found.id, home=home)


def test_closing_takes_a_golden_task_that_fails_the_failure(shop: str, home: Home) -> None:
    found = open_incident(trace_of("night", home), home=home).incident

    def close(**how: Any) -> Any:
        return close_incident(found.id, home=home, **{"task": None, "suite": None, **how})

    with pytest.raises(BadUsage, match="closed by the golden task that guards against it"):
        close()
    with pytest.raises(NotFound, match="no task named 'rye' in the golden set 'shop'"):
        close(task="rye", suite=shop)
    with pytest.raises(BadUsage, match="any task fails a trace of another one"):
        close(task="ale", suite=shop)
    path = Path(shop, "tasks.yaml")
    text = path.read_text()
    path.write_text(text.replace('equals: "6"', 'contains: "idea"'))
    with pytest.raises(BadUsage, match="has changes that version"):
        close(task="tea", suite=shop)
    freeze(shop, why="a check that sees nothing")
    with pytest.raises(BadUsage, match="the recorded failure passes task 'tea'"):
        close(task="tea", suite=shop)
    path.write_text(text.replace('equals: "6"', 'equals: "seven"'))
    freeze(shop, why="a check that nothing meets")
    with pytest.raises(BadUsage, match="fails the passing attempt too"):
        close(task="tea", suite=shop)
    assert incident(found.id, home=home).incident.state == "open"
    path.write_text(text)
    freeze(shop, why="the check that was right")
    assert close(task="tea", suite=shop).incident.state == "closed", "the task that failed may be the guard itself"
    with pytest.raises(BadUsage, match="is closed already, guarded by 'tea'"):
        close(task="tea", suite=shop)
    assert list_incidents(home=home).open == 0


def test_what_cannot_be_an_incident_is_refused(shop: str, home: Home) -> None:
    with pytest.raises(BadUsage, match=r"passed its checks \(score 1\)"):
        open_incident(trace_of("day", home), home=home)
    complained = open_incident(trace_of("day", home), why="the customer wanted euros", home=home).incident
    assert complained.facts.evidence.passing is None
    assert "prove nothing" in str(complained.facts.evidence.why)
    with pytest.raises(NotFound, match="no class of failure named 'lop'; did you mean 'loop'"):
        open_incident(trace_of("night", home), failure="lop", home=home)
    Path("playbook.yaml").write_text("lop: {rollback: x}\n")
    with pytest.raises(BadInput, match="names 'lop', which is not a class"):
        open_incident(trace_of("night", home), home=home)
    Path("playbook.yaml").write_text("loop: make rollback\n")
    with pytest.raises(BadInput, match="write 'rollback: COMMAND' below each class"):
        open_incident(trace_of("night", home), home=home)
    with pytest.raises(NotFound, match="no incident named '2020-01-01-001'"):
        incident("2020-01-01-001", home=home)
    assert len(list_incidents(home=home).incidents) == 1


def test_a_guard_needs_proof() -> None:
    bad, good, unknown = Scored(0.0, "x"), Scored(1.0, "x"), Missing("unscored", "the workspace is gone")
    assert guard_problem(bad, good, 0.5, "t") is None
    assert guard_problem(bad, None, 0.5, "t") is None
    assert "cannot be asked" in str(guard_problem(unknown, good, 0.5, "t"))
    assert "guards against nothing" in str(guard_problem(good, good, 0.5, "t"))
    assert "does not distinguish them" in str(guard_problem(bad, bad, 0.5, "t"))


def test_an_incident_is_plain_json(shop: str, home: Home) -> None:
    found = open_incident(trace_of("night", home), home=home).incident
    stored = json.loads(home.files.read(f"incidents/{found.id}/0001.json"))
    assert stored["event"] == "opened"
    assert stored["facts"]["class"] == "loop"
