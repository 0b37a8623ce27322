"""The report answers first: what fails most, where it can be read, and every attempt in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ethogram.lab import import_logs
from ethogram.lab.why.opened import open_trace, open_traces
from ethogram.lab.why.why import why
from ethogram.plan import Check, Suite, Task
from ethogram.run.suites import run_suite
from ethogram.show.parts import report_view
from ethogram.show.report import report
from ethogram.show.views import PagePlace
from ethogram.store import Home, run_of

NO_ROOM = "Error: room <i>12</i> not found"


def attempt(task: int, trial: int, reward: float | None, calls: list[tuple[str, str, str]]) -> dict[str, Any]:
    """One run as tau-bench writes it: calls with arguments and results, then an answer."""
    talk: list[dict[str, Any]] = [{"role": "user", "content": "Book a room."}]
    for i, (name, arguments, result) in enumerate(calls):
        call = {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
        talk += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{i}", "name": name, "content": result},
        ]
    talk.append({"role": "assistant", "content": "All done."})
    return {"task_id": task, "trial": trial, "reward": reward, "info": {}, "traj": talk}


GOOD = [("look", "{}", "two rooms"), ("book", '{"room": 11}', "booked")]
BAD = [("look", "{}", "two rooms"), ("book", '{"room": 12}', NO_ROOM)]
OTHER = [("look", "{}", "two rooms"), ("book", '{"room": 13}', "booked")]


def put(home: Home, tmp_path: Path, name: str, attempts: list[dict[str, Any]]) -> None:
    (tmp_path / f"{name}.json").write_text(json.dumps(attempts))
    import_logs(tmp_path / f"{name}.json", home=home, run=name, redact="none", format="tau-bench")


@pytest.fixture
def rooms(home: Home, tmp_path: Path) -> Home:
    """Six tasks of four attempts, two of which meet the error; one task fails by its arguments once, one always."""
    mixed = [attempt(t, k, float(k < 2), GOOD if k < 2 else BAD) for t in range(6) for k in range(4)]
    quiet = [attempt(6, k, float(k > 0), GOOD if k > 0 else OTHER) for k in range(4)]
    hopeless = [attempt(7, k, 0.0, [("look", "{}", "nothing")]) for k in range(2)]
    put(home, tmp_path, "rooms", mixed + quiet + hopeless)
    return home


def test_the_first_section_says_what_fails_most_and_where(rooms: Home) -> None:
    first = report_view("rooms", home=rooms).sections[0]
    assert first.id == "why"
    assert "15 of 30 runs failed" in first.lead
    assert "book" in first.lead
    cause = first.reasons[0]
    assert cause.kind == "cause"
    assert "12 of 15 failed, 0 of 15 successful runs" in cause.facts
    assert any("room <i>12</i> not found" in e.text for e in cause.excerpts)
    assert first.paragraphs == ["Unexplained: 3 of 15 failed runs show no established cause."]
    places = {(e.place.trace, e.place.step) for r in first.reasons for e in r.excerpts}
    assert first.lead_place is not None
    assert (first.lead_place.trace, first.lead_place.step) in places
    known = {entry.head.trace_id for entry in run_of("rooms", rooms).entries}
    assert {trace for trace, _ in places} <= known


def test_every_dot_leads_to_its_attempt(rooms: Home, tmp_path: Path) -> None:
    attempts = next(s for s in report_view("rooms", home=rooms).sections if s.id == "attempts")
    traces = [cell.trace for row in attempts.matrix for cell in row.cells]
    assert sorted(traces) == sorted(entry.head.trace_id for entry in run_of("rooms", rooms).entries)
    assert report("rooms", tmp_path / "r.html", home=rooms).attempts == 30
    text = (tmp_path / "r.html").read_text()
    assert "<i>12</i>" not in text
    assert "&lt;i&gt;12&lt;/i&gt;" in text


def test_one_attempt_opens_as_it_does_among_all(rooms: Home) -> None:
    found = run_of("rooms", rooms)
    told = why(found, home=rooms)
    for whole in open_traces(found, told).traces[:3]:
        assert open_trace(found, told, whole.trace[:15]) == whole


def test_a_failed_attempt_stands_beside_one_that_passed(rooms: Home) -> None:
    found = run_of("rooms", rooms)
    opened = {(t.task, t.attempt): t for t in open_traces(found, why(found, home=rooms)).traces}
    failed = opened["0", 2]
    assert (failed.state, failed.passing) == ("failed", opened["0", 0].trace)
    (first,) = [row for row in failed.rows if row.differs]
    assert first.own is not None
    assert first.passing is not None
    assert (first.sign, first.own.step, first.own.what, first.passing.what) == ("~", 4, "book fails", "book")
    assert NO_ROOM in [t.text for t in first.own.texts]
    assert all(row.sign == "=" for row in failed.rows[: first.own.step])
    quiet = opened["6", 0]
    (first,) = [row for row in quiet.rows if row.differs]
    assert first.own is not None
    assert (first.sign, first.own.step) == ("≈", 4), "the same steps, and other arguments"
    assert opened["7", 0].passing is None, "no attempt at this task passed"
    assert opened["0", 0].passing is None, "what passed needs nothing beside it"


def test_what_does_not_fit_is_counted_failed_attempts_first(rooms: Home) -> None:
    found = run_of("rooms", rooms)
    told = why(found, home=rooms)
    whole = open_traces(found, told)
    assert whole.left_out == {}
    some = open_traces(found, told, most=12_000)
    assert {t.state for t in some.traces} == {"failed"}
    assert len(some.traces) + sum(some.left_out.values()) == 30
    assert some.left_out["passed"] == 15
    quoted = {e.trace for c in (*told.causes, *told.leads) for e in c.examples}
    rest = [t.task for t in open_traces(found, told, most=40_000).traces if t.trace not in quoted]
    assert rest[:5] == ["0", "1", "2", "3", "4"], "after those that are quoted, tasks take turns"


def test_long_traces_and_texts_are_cut_around_what_matters(home: Home, tmp_path: Path) -> None:
    long = [("look", "{}", f"room {i} " + "x" * 5000) for i in range(100)]
    put(home, tmp_path, "long", [attempt(0, 0, 0.0, [*long, ("book", "{}", "Error: no such room"), *long])])
    found = run_of("long", home)
    told = why(found, home=home)
    (trace,) = open_traces(found, told, steps=30).traces
    assert len(trace.rows) <= 30
    assert trace.steps == 404
    assert sum(row.left_out for row in trace.rows) == trace.steps - len(trace.rows)
    shown = {row.own.step for row in trace.rows if row.own is not None}
    assert told.traces[0].step in shown
    cut = next(t for row in trace.rows if row.own is not None for t in row.own.texts if t.left_out)
    assert len(cut.text) < 2100
    assert "characters left out" in cut.text


def test_a_log_without_scores_shows_leads_and_how_to_score_it(home: Home, tmp_path: Path) -> None:
    put(home, tmp_path, "raw", [attempt(t, 0, None, BAD) for t in range(3)])
    first, *others = report_view("raw", home=home).sections
    (attempts,) = [s for s in others if s.matrix]
    assert attempts.tables == [], "what a scored attempt took, where none is scored"
    assert first.id == "why"
    assert first.lead.startswith("None of 3 runs has a score; most often:")
    assert {r.kind for r in first.reasons} == {"lead"}
    assert first.commands
    assert all(c.startswith("ethogram score") for c in first.commands)


def test_where_nothing_failed_nothing_is_blamed(home: Home, tmp_path: Path) -> None:
    put(home, tmp_path, "fine", [attempt(t, k, 1.0, GOOD) for t in range(2) for k in range(2)])
    first = report_view("fine", home=home).sections[0]
    assert (first.lead, first.reasons) == ("None of 4 scored runs failed.", [])


def test_two_runs_put_the_failing_attempt_beside_one_of_the_first_run(home: Home, tmp_path: Path) -> None:
    def says(word: str) -> Any:
        return lambda task, episode: word

    tasks = tuple(Task(id=n, prompt="say yes", expected="yes", checks=(Check(kind="equals"),)) for n in "abcd")
    suite = Suite(name="coins", tasks=tasks)
    run_suite(suite, says("yes"), k=4, name="base", home=home)
    run_suite(suite, says("no"), k=4, name="worse", home=home)
    view = report_view("base", "worse", home=home)
    by_id = {s.id: s for s in view.sections}
    assert list(by_id)[:2] == ["compare", "why"]
    assert view.sections[0].lead.startswith("Regression")
    cells = [c for row in view.sections[0].tables[0].rows for c in row if isinstance(c, PagePlace)]
    assert cells
    assert all(c.trace for c in cells)
    base, worse = run_of("base", home), run_of("worse", home)
    opened = open_traces(worse, why(worse, against=base, home=home), base=base)
    assert {t.passing_run for t in opened.traces} == {"base"}
