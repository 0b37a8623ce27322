"""`ethogram why`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import json
import shlex

import pytest

NO_ROOM = "Error: room 12 not found"


def attempt(task, trial, reward, result):
    call = {"id": "c", "type": "function", "function": {"name": "book", "arguments": "{}"}}
    talk = [
        {"role": "user", "content": "Book a room."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "name": "book", "content": result},
        {"role": "assistant", "content": "All done."},
    ]
    return {"task_id": task, "trial": trial, "reward": reward, "info": {}, "traj": talk}


@pytest.fixture
def rooms(call, tmp_path):
    """Six tasks of four attempts, two of which meet an error and fail; one more task that always fails."""
    runs = [attempt(t, k, float(k < 2), "ok" if k < 2 else NO_ROOM) for t in range(6) for k in range(4)]
    runs += [attempt(6, k, 0.0, "ok") for k in range(4)]
    (tmp_path / "rooms.json").write_text(json.dumps(runs))
    assert call("import", str(tmp_path / "rooms.json"), "--run", "rooms").code == 0
    (tmp_path / "none.json").write_text(json.dumps([attempt(t, 0, None, NO_ROOM) for t in range(3)]))
    assert call("import", str(tmp_path / "none.json"), "--run", "unscored").code == 0
    return "rooms"


def test_what_people_see(call, rooms):
    said = call("why", rooms)
    assert said.code == 0
    assert said.out.startswith(
        "16 of 28 attempts failed. Main cause: calls book with arguments that it refuses (in 12 of 16 failed and "
    )
    assert "failed 12 of 16, succeeded 0 of 12; share 0.75 [" in said.out
    assert "in no success of the same tasks" in said.out
    assert said.out.count(NO_ROOM) >= 3
    assert "owner: " in said.out
    assert "try first: " in said.out
    assert "unexplained: 4 failed attempts, e.g. " in said.out
    assert "(task 6)" in said.out
    assert len(said.out.splitlines()) <= 24, "it must fit a screen"
    place = said.out.split("next: ethogram trace ")[1].split()[0]
    assert NO_ROOM in call("trace", place, "--run", rooms).out


def test_what_scripts_read(call, rooms, checked):
    found = checked("why", call("why", rooms, "--json").out)
    assert (found["failed"], found["explained"], found["unexplained"]) == (16, 12, 4)
    cause = found["causes"][0]
    wanted = {"cause", "class", "failed_with", "succeeded_with", "share", "lift", "examples", "owner", "try"}
    assert wanted <= cause.keys()
    assert {"trace", "step", "text"} <= cause["examples"][0].keys()
    assert cause["lift"] == "inf"
    assert cause["share"]["method"] == "wilson-neff"
    assert {"reference", "traces", "templates", "decision_points", "layers"} <= found.keys()
    assert len(found["traces"]) == 16
    assert {"trace", "task", "attempt", "classes", "category", "step"} <= found["traces"][0].keys()


def test_against_another_run(call, rooms, tmp_path):
    (tmp_path / "fine.json").write_text(json.dumps([attempt(t, k, 1.0, "ok") for t in range(7) for k in range(4)]))
    assert call("import", str(tmp_path / "fine.json"), "--run", "fine").code == 0
    said = call("why", rooms, "--against", "fine").out
    assert "against fine: 7 shared tasks, 28 attempts now and 28 before" in said
    assert "new" in said
    assert call("import", str(tmp_path / "fine.json"), "--run", "same").code == 0
    assert "nothing became more or less frequent" in call("why", "same", "--against", "fine").out


def test_a_log_without_scores(call, rooms):
    said = call("why", "unscored")
    assert said.code == 0
    assert said.out.startswith("None of 3 attempts has a score; most often: calls book with arguments that it refuses")
    assert NO_ROOM in said.out
    assert "no attempt has a score, so nothing can be compared" in said.out
    assert json.loads(call("why", "unscored", "--json").out)["failed"] is None


def test_bad_input(call, rooms):
    said = call("why", rooms, "--task", "99")
    assert (said.code, said.out) == (64, "")
    assert "99" in said.err
    assert call("why", "nothing").code == 64
    assert call("why", rooms, "--against", "nothing").code == 64


def test_the_ways_to_score_work_as_printed(call, rooms):
    assert "score it with: ethogram score unscored" in call("why", "unscored").out
    for way in json.loads(call("why", "unscored", "--json").out)["score_with"]:
        said = call(*shlex.split(way)[1:])
        assert said.code == 0, (way, said.err)
        assert "3 scored" in said.out
    assert "score it with" not in call("why", "unscored").out
