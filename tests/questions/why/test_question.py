"""Why a run fails: causes, leads and what is unexplained, on small logs whose causes the test planted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import ethogram as eth
from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.questions.calibration.labels import label
from ethogram.questions.home.runs import load
from ethogram.questions.logs.imports import import_logs
from ethogram.questions.why.causes import find_causes
from ethogram.questions.why.owners import DEFAULTS, owners_of
from ethogram.questions.why.question import why
from ethogram.questions.why.reading_order import read_first
from ethogram.questions.why.run_findings import gather_findings
from ethogram.store import Home

NO_ROOM = "Error: room 12 not found"


def attempt(task: int, trial: int, reward: float | None, calls: list[tuple[str, str]]) -> dict[str, Any]:
    """One run as tau-bench writes it: the calls with their results, then an answer."""
    talk: list[dict[str, Any]] = [{"role": "user", "content": "Book a room."}]
    for i, (name, result) in enumerate(calls):
        call = {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": '{"room": 12}'}}
        talk += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{i}", "name": name, "content": result},
        ]
    talk.append({"role": "assistant", "content": "All done."})
    return {"task_id": task, "trial": trial, "reward": reward, "info": {"source": "user"}, "traj": talk}


def put(home: Home, tmp_path: Path, name: str, attempts: list[dict[str, Any]]) -> None:
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(attempts))
    import_logs(path, home=home, run=name, redact="none", format="tau-bench")


GOOD = [("look", "two rooms"), ("book", "booked")]
BAD = [("look", "two rooms"), ("book", NO_ROOM)]


@pytest.fixture
def rooms(home: Home, tmp_path: Path) -> Home:
    """Six tasks of four attempts, two of which meet the error and fail; one more task that always fails."""
    mixed = [attempt(t, k, float(k < 2), GOOD if k < 2 else BAD) for t in range(6) for k in range(4)]
    hopeless = [attempt(6, k, 0.0, [("look", "nothing"), ("book", "booked")]) for k in range(4)]
    put(home, tmp_path, "rooms", mixed + hopeless)
    return home


def test_what_no_cause_explains_is_read_first(rooms: Home) -> None:
    run = rooms.run("rooms")
    told = why(run, home=rooms)
    read = read_first(run, told)
    assert {one.task for one in read} == {"6"}, "the attempts of the other tasks show the cause"
    assert {one.passing for one in read} == {None}, "no attempt at that task passed"
    assert read[0].answer == "", "this log states no answer"
    left = [msgspec.structs.replace(trace, explained=False) for trace in told.traces]
    found = read_first(run, msgspec.structs.replace(told, causes=[], leads=[], traces=left))
    assert [one.task for one in found] == ["0", "1", "2", "3"], "one of each task before a second one"
    passed = run.find(found[0].passing or "").head
    assert (passed.task, passed.attempt) == ("0", 0)


def test_a_planted_error_is_the_cause(rooms: Home) -> None:
    found = why("rooms", home=rooms)
    assert (found.runs, found.scored, found.failed) == (28, 28, 16)
    (cause,) = found.causes
    assert cause.source == "class"
    assert any(name.startswith("error:") for name in cause.also)
    assert (cause.failed_with, cause.succeeded_with) == (12, 0)
    assert cause.share.value == pytest.approx(12 / 16)
    assert cause.lift == float("inf")
    assert cause.p == pytest.approx((1 / 6) ** 6)
    assert (found.explained, found.unexplained) == (12, 4)
    assert {t.task for t in found.traces if not t.explained} == {"6"}
    assert all(NO_ROOM in e.text for e in cause.examples)
    assert len(cause.examples) == 3
    assert len({e.trace for e in cause.examples}) == 3
    assert found.mixed_tasks == 6
    assert found.to_json().count('"class"') >= 1
    assert '"lift":"inf"' in found.to_json()


def test_the_words_of_an_example_stand_at_its_step(rooms: Home) -> None:
    (cause,) = why("rooms", home=rooms).causes
    for example in cause.examples:
        trace = eth.load("rooms", home=rooms).trace(example.trace)
        assert example.step is not None
        span = trace.steps[example.step]
        assert span.tool == "book"
        assert span.result is not None
        assert trace.text(span.result) == NO_ROOM


def test_templates_are_counted_in_episodes(home: Home, tmp_path: Path) -> None:
    twice = [("book", "Error: room 12 not found"), ("book", "Error: room 99 not found")]
    put(home, tmp_path, "twice", [attempt(0, 0, 0.0, twice), attempt(0, 1, 0.0, twice[:1]), attempt(0, 2, 1.0, GOOD)])
    (row,) = why("twice", home=home).templates
    assert (row.episodes, row.times, row.failed_with, row.succeeded_with) == (2, 3, 2, 0)
    assert row.of == ["book"]
    assert "12" not in row.words


def test_what_no_task_can_tell_is_a_lead(home: Home, tmp_path: Path) -> None:
    """One attempt per task: the error stands in every failure and in no success, and is no cause all the same."""
    put(home, tmp_path, "single", [attempt(t, 0, float(t % 2), GOOD if t % 2 else BAD) for t in range(40)])
    found = why("single", home=home)
    assert found.causes == []
    assert found.leads[0].failed_with == 20
    assert found.leads[0].adjusted is None
    assert found.explained == 0
    assert "no task has both failed and successful attempts" in found.contrast


def test_a_tool_that_is_never_called(home: Home, tmp_path: Path) -> None:
    calls = [("ask", "yes"), ("book", "booked")]
    runs = [attempt(t, k, float(k < 3), calls if k < 3 else calls[1:]) for t in range(8) for k in range(4)]
    put(home, tmp_path, "asks", runs)
    found = why("asks", home=home)
    names = {found.causes[0].cause, *found.causes[0].also}
    assert "never_called:ask" in names
    assert len(found.causes) == 1
    assert (found.causes[0].failed_with, found.causes[0].succeeded_with) == (8, 0)
    assert all(e.text for e in found.causes[0].examples)
    point = found.decision_points[0]
    assert point.fall.value == -1.0
    assert point.fall.high is not None
    assert point.fall.high < 0
    assert {b.choice for b in point.branches} == {"asks for ask", "asks for book"}


def test_one_task_only(rooms: Home) -> None:
    found = why("rooms", task="6", home=rooms)
    assert (found.runs, found.failed, found.task) == (4, 4, "6")
    with pytest.raises(NotFound, match="task named '66' in run 'rooms'"):
        why("rooms", task="66", home=rooms)


def test_agents_and_conditions_are_not_compared_with_each_other(home: Home, tmp_path: Path) -> None:
    """Half of the attempts belong to a condition that always fails and calls another tool: nothing can be told."""
    runs = [attempt(t, k, float(k < 4), GOOD if k < 4 else [("guess", "?")]) for t in range(6) for k in range(8)]
    put(home, tmp_path, "both", runs)
    run = eth.load("both", home=home)
    found = gather_findings(run, run.entries)
    assert find_causes(found, 0.95).causes
    apart = [row._replace(group=(row.task, str(row.entry.head.attempt < 4), "")) for row in found.rows]
    told = find_causes(found._replace(rows=apart), 0.95)
    assert (told.causes, told.mixed, told.family.tested) == ([], 0, 0)


def test_against_another_run(rooms: Home, tmp_path: Path) -> None:
    before = [attempt(t, k, 1.0, GOOD) for t in range(7) for k in range(4)]
    put(rooms, tmp_path, "before", before)
    found = why("rooms", against="before", home=rooms)
    assert found.against is not None
    told = {c.cause: c for c in found.against.changes}
    error = told[found.causes[0].cause]
    assert (error.change, error.with_now, error.with_before, error.is_cause) == ("new", 12, 0, True)
    assert error.difference.value == pytest.approx(12 / 28)
    assert error.difference.low is not None
    assert error.difference.low > 0
    back = why("before", against="rooms", home=rooms).against
    assert back is not None
    told = {c.cause: c.change for c in back.changes}
    assert told[found.causes[0].cause] == "gone"


def test_without_scores_all_is_a_lead(home: Home, tmp_path: Path) -> None:
    put(home, tmp_path, "unscored", [attempt(t, 0, None, BAD if t < 3 else GOOD) for t in range(5)])
    found = why("unscored", home=home)
    assert (found.failed, found.explained, found.unexplained, found.scored) == (None, None, None, 0)
    assert found.causes == []
    assert found.leads[0].runs_with == 3
    assert NO_ROOM in found.leads[0].examples[0].text
    assert found.leads[0].share.value is None
    assert found.templates[0].failed_with is None
    assert "no attempt has a score" in found.contrast


def test_owners_of_ones_own(rooms: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = eth.load("rooms", home=rooms)
    assert owners_of(run) == DEFAULTS
    (tmp_path / "owners.toml").write_text('[loop]\nowner = "runtime"\n[other]\ntry = "look"\n')
    own = owners_of(run)
    assert (own["loop"].owner, own["loop"].try_) == ("runtime", DEFAULTS["loop"].try_)
    assert (own["other"].owner, own["other"].try_) == (DEFAULTS["other"].owner, "look")
    (tmp_path / "owners.toml").write_text('[lops]\nowner = "x"\n')
    with pytest.raises(BadInput, match="'lops', which is not a class"):
        owners_of(run)
    (tmp_path / "owners.toml").write_text("owner = [")
    with pytest.raises(BadInput, match=r"owners\.toml cannot be read"):
        owners_of(run)


def test_rows_for_a_data_frame(rooms: Home) -> None:
    rows = why("rooms", home=rooms).rows()
    assert rows[0]["is_cause"] is True
    assert rows[0]["share"] == pytest.approx(0.75)
    assert rows[0]["class"] in (None, "bad_args")


def test_a_run_that_never_fails(home: Home, tmp_path: Path) -> None:
    put(home, tmp_path, "fine", [attempt(0, k, 1.0, GOOD) for k in range(4)])
    found = why("fine", home=home)
    assert (found.failed, found.explained, found.unexplained, found.causes) == (0, 0, 0, [])
    assert found.headline == "None of 4 scored attempts failed."
    assert found.contrast == "no attempt failed, so there is nothing to compare"


def test_a_run_that_always_fails_is_not_said_to_be_like_successes(home: Home, tmp_path: Path) -> None:
    put(home, tmp_path, "bad", [attempt(0, k, 0.0, GOOD) for k in range(4)])
    assert why("bad", home=home).headline == (
        "4 of 4 attempts failed; no rule explains it, and there is no successful attempt to compare with."
    )


def test_runs_without_a_common_task_are_not_compared(rooms: Home, tmp_path: Path) -> None:
    put(rooms, tmp_path, "elsewhere", [attempt(99, k, float(k % 2), GOOD) for k in range(4)])
    with pytest.raises(BadUsage, match="'elsewhere' and 'rooms' have no task in common"):
        why("rooms", against="elsewhere", home=rooms)


def test_a_label_on_another_scale_is_no_way_to_score(home: Home, tmp_path: Path) -> None:
    put(home, tmp_path, "open", [attempt(t, 0, None, GOOD) for t in range(3)])
    for number, entry in enumerate(load("open", home=home).entries):
        trace = entry.head.trace_id
        label("open", trace, str(number + 1), name="quality", by="ada", home=home)
        label("open", trace, str(number % 2), name="solved", by="ada", home=home)
    ways = why("open", home=home).score_with
    assert [way.rpartition(" ")[2] for way in ways if "label:" in way] == ["label:solved"]
