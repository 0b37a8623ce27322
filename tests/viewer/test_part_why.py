"""The report answers first: what fails most, where it can be read, and every attempt in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ethogram.harness.suites import run
from ethogram.plans import Check, Suite, Task
from ethogram.questions.logs.imports import import_logs
from ethogram.questions.why.question import why
from ethogram.questions.why.side_by_side import AttemptBeside, BesideReader
from ethogram.store import Home, run_of
from ethogram.viewer.library import Library
from ethogram.viewer.models.trace import BesideQuery, beside_view
from ethogram.viewer.report.paper_trace import PaperLimits, PaperTrace, paper_traces
from ethogram.viewer.report.parts import report_view
from ethogram.viewer.report.report import report
from ethogram.viewer.report.views import PagePlace

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
    assert "15 of 30 attempts failed" in first.lead
    assert "book" in first.lead
    cause = first.reasons[0]
    assert cause.kind == "cause"
    assert "12 of 15 failed, 0 of 15 successful attempts" in cause.facts
    assert any("room <i>12</i> not found" in e.text for e in cause.excerpts)
    assert first.paragraphs == ["Unexplained: 3 of 15 failed attempts show no established cause."]
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


def reader_of(home: Home, name: str, base: str | None = None) -> BesideReader:
    found, other = run_of(name, home), None if base is None else run_of(base, home)
    return BesideReader(found, why(found, against=other, home=home), other)


def besides(home: Home, name: str) -> dict[tuple[str, int], AttemptBeside]:
    reader = reader_of(home, name)
    return {(entry.head.task, entry.head.attempt): reader.of(entry) for entry in reader.run.entries}


def held(home: Home, name: str, limits: PaperLimits | None = None, base: str | None = None) -> list[list[PaperTrace]]:
    other = None if base is None else run_of(base, home)
    return list(paper_traces(reader_of(home, name, base), other, limits or PaperLimits()))


def test_a_report_says_of_an_attempt_what_the_viewer_says(rooms: Home) -> None:
    library = Library(rooms)
    for one in [one for group in held(rooms, "rooms") for one in group][:4]:
        asked = beside_view(library, BesideQuery(run="rooms", trace=one.trace[:15]))
        # the one that passed is held to be read beside another: why it might fail is not asked
        assert one.beside == asked


def test_a_failed_attempt_stands_beside_one_that_passed(rooms: Home) -> None:
    found = besides(rooms, "rooms")
    failed = found["0", 2]
    assert failed.passing is not None
    assert (failed.state, failed.passing.trace, failed.passing.run) == ("failed", found["0", 0].trace, "rooms")
    at = failed.differs
    assert at is not None
    assert (failed.signs[at], failed.own[at], failed.other[at]) == ("~", 4, 4)
    assert failed.first == "step 4: book fails, where the one that passed has book"
    assert set(failed.signs[:at]) == {"="}
    quiet = found["6", 0]
    assert quiet.differs is not None
    assert (quiet.signs[quiet.differs], quiet.own[quiet.differs]) == ("≈", 4), "the same steps, and other arguments"
    assert quiet.first == "step 4 calls book with different arguments"
    assert found["7", 0].passing is None, "no attempt at this task passed"
    assert found["0", 0].passing is None, "what passed needs nothing beside it"


def test_where_all_steps_are_the_same_the_words_of_the_model_differ(home: Home, tmp_path: Path) -> None:
    silent = attempt(0, 1, 0.0, GOOD)
    silent["traj"][-1]["content"] = "No room."
    same = [attempt(1, k, float(k < 1), GOOD) for k in range(2)]
    put(home, tmp_path, "words", [attempt(0, 0, 1.0, GOOD), silent, *same])
    found = besides(home, "words")
    assert found["0", 1].differs == 5
    assert found["0", 1].signs == "=====≠"
    assert found["0", 1].first.startswith("step 5: the model says something else")
    assert found["1", 1].differs is None
    assert found["1", 1].first.startswith("both took the same steps")


def test_failed_attempts_come_first_each_with_the_one_that_passed(rooms: Home) -> None:
    groups = held(rooms, "rooms")
    names = [one.trace for group in groups for one in group]
    assert len(names) == len(set(names)) == 30
    states = [group[0].head.state for group in groups]
    assert states == sorted(states), "failed before passed"
    told = why(run_of("rooms", rooms), home=rooms)
    quoted = {e.trace for c in (*told.causes, *told.leads) for e in c.examples}
    rest = [group[0].head.attempt.task for group in groups if group[0].trace not in quoted]
    assert rest[:5] == ["0", "1", "2", "3", "4"], "after those that are quoted, tasks take turns"
    seen: set[str] = set()
    for group in groups:
        seen |= {one.trace for one in group}
        passing = group[0].beside.passing
        assert passing is None or passing.trace in seen


def test_an_attempt_in_a_report_is_what_its_page_shows(rooms: Home) -> None:
    one = held(rooms, "rooms")[0][0]
    steps = [step for card in one.cards for step in card.steps]
    assert [step.step for step in steps] == list(range(one.head.steps))
    assert [step for step in one.outline.step if step is not None] == list(range(one.head.steps))
    assert NO_ROOM in [part.text for step in steps for part in step.parts]
    assert not any(part.kind == "read" for step in steps for part in step.parts)
    assert one.turns.turns == len(one.cards)


def test_long_traces_and_texts_are_cut_around_what_matters(home: Home, tmp_path: Path) -> None:
    long = [("look", "{}", f"room {i} " + "x" * 5000) for i in range(100)]
    put(home, tmp_path, "long", [attempt(0, 0, 0.0, [*long, ("book", "{}", "Error: no such room"), *long])])
    ((one,),) = held(home, "long", PaperLimits(text=2_000, steps=30))
    steps = [step for card in one.cards for step in card.steps]
    assert len(steps) <= 30
    assert one.head.steps == 404
    assert sum(card.left_out for card in one.cards) == 404 - len(steps)
    assert one.beside.step in [step.step for step in steps]
    cut = next(part for step in steps for part in step.parts if part.left_out)
    assert len(cut.text) < 2100
    assert cut.chars == len(cut.text)
    assert f"{cut.left_out:,} characters left out" in cut.text
    assert (one.outline.of, one.outline.spans) == (len(steps), 404)


def test_the_more_attempts_share_a_file_the_less_of_each_is_held() -> None:
    assert PaperLimits.sharing(7_500_000, 10) == PaperLimits(text=2_000, steps=120)
    assert PaperLimits.sharing(7_500_000, 250) == PaperLimits(text=750, steps=60)
    assert PaperLimits.sharing(7_500_000, 100_000) == PaperLimits(text=200, steps=24)


def test_a_log_without_scores_shows_leads_and_how_to_score_it(home: Home, tmp_path: Path) -> None:
    put(home, tmp_path, "raw", [attempt(t, 0, None, BAD) for t in range(3)])
    first, *others = report_view("raw", home=home).sections
    (attempts,) = [s for s in others if s.matrix]
    assert attempts.tables == [], "what a scored attempt took, where none is scored"
    assert first.id == "why"
    assert first.lead.startswith("None of 3 attempts has a score; most often:")
    assert {r.kind for r in first.reasons} == {"lead"}
    assert first.commands
    assert all(c.startswith("ethogram score") for c in first.commands)


def test_where_nothing_failed_nothing_is_blamed(home: Home, tmp_path: Path) -> None:
    put(home, tmp_path, "fine", [attempt(t, k, 1.0, GOOD) for t in range(2) for k in range(2)])
    first = report_view("fine", home=home).sections[0]
    assert (first.lead, first.reasons) == ("None of 4 scored attempts failed.", [])


def test_two_runs_put_the_failing_attempt_beside_one_of_the_first_run(home: Home, tmp_path: Path) -> None:
    def says(word: str) -> Any:
        return lambda task, episode: word

    tasks = tuple(Task(id=n, prompt="say yes", expected="yes", checks=(Check(kind="equals"),)) for n in "abcd")
    suite = Suite(name="coins", tasks=tasks)
    run(suite, says("yes"), k=4, run="base", home=home)
    run(suite, says("no"), k=4, run="worse", home=home)
    view = report_view("base", "worse", home=home)
    by_id = {s.id: s for s in view.sections}
    assert list(by_id)[:2] == ["compare", "why"]
    assert view.sections[0].lead.startswith("Regression")
    cells = [c for row in view.sections[0].tables[0].rows for c in row if isinstance(c, PagePlace)]
    assert cells
    assert all(c.trace for c in cells)
    groups = held(home, "worse", base="base")
    passing = [group[0].beside.passing for group in groups]
    assert {one.run for one in passing if one is not None} == {"base"}
    assert [one for one in passing if one is None] == []
    assert {one.head.state for group in groups for one in group[1:]} == {"passed"}
