"""Labels by hand: kept with who and why, the newest counts, and a class set by hand overrides the rules of why."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadUsage, NotFound
from ethogram.questions.calibration.labels import LabelResult, label
from ethogram.questions.home.runs import load
from ethogram.questions.logs.imports import import_logs
from ethogram.questions.scoring.question import score
from ethogram.questions.why.question import why
from ethogram.store import Home, verify_run

REASON = "it rang twice where one was asked for"


def told(result: LabelResult) -> list[tuple[str, int, int | None, Any, str, str | None]]:
    return [(x.task, x.attempt, x.step, x.value, x.by, x.why) for x in result.labels]


def test_a_class_by_hand_overrides_the_rule(bells: str, home: Home) -> None:
    before = why(bells, home=home)
    (failure,) = [t for t in before.traces if t.failed]
    assert failure.by_hand is None
    done = label(bells, f"{failure.trace.removeprefix('b2:')[:10]}:1", "loop", why=REASON, by="ada", home=home)
    assert (done.labelled, done.left) == (1, 0), "successes need no class"
    assert told(done) == [("1", 1, 1, "loop", "ada", REASON)]
    after = why(bells, home=home)
    (failure,) = [t for t in after.traces if t.failed]
    assert (failure.classes, failure.step) == (["loop"], 1)
    assert failure.by_hand is not None
    assert (failure.by_hand.by, failure.by_hand.why, failure.by_hand.step) == ("ada", REASON, 1)
    assert [(c.class_, c.failed_with) for c in after.classes] == [("loop", 1)]
    assert any("set by hand" in note and "by ada: " + REASON in note for note in after.notes)
    assert verify_run(load(bells, home=home)).ok


def test_a_run_that_is_open_already(bells: str, home: Home) -> None:
    run = load(bells, home=home)
    done = label(run, "1/1", "loop", why=REASON, by="ada")
    assert (done.run, done.labelled) == (bells, 1)
    assert told(label(bells, home=home)) == told(done)


def test_the_newest_word_counts_and_none_is_a_word(bells: str, home: Home) -> None:
    label(bells, "1/1", "loop", why="first", by="ada", home=home)
    label(bells, "1/1", "bad_args, gave_up", why="second", by="bob", home=home)
    (failure,) = [t for t in why(bells, home=home).traces if t.failed]
    assert failure.classes == ["bad_args", "gave_up"]
    label(bells, "1/1", "none", why="third", by="ada", home=home)
    (failure,) = [t for t in why(bells, home=home).traces if t.failed]
    assert failure.classes == []
    assert failure.by_hand is not None
    assert told(label(bells, home=home)) == [("1", 1, None, "none", "ada", "third")]
    assert len([x for x in load(bells, home=home).labels() if x.source == "hand"]) == 3, "nothing is edited"


def test_what_people_say_of_failures_is_no_cause(logs: Any, home: Home) -> None:
    """People label failures: counted as an event, their class would stand in failures only and be called a cause."""
    runs = [logs.turns(t, k, float(k < 2)) for t in range(8) for k in range(4)]
    for run in runs:
        run["traj"][2]["content"] = "ding"
    import_logs(logs.put("even.json", runs), home=home, run="even")
    assert why("even", home=home).causes == []
    for t in range(8):
        for k in (2, 3):
            label("even", f"{t}/{k}", "loop", why="it seems so", by="ada", home=home)
    after = why("even", home=home)
    assert (after.causes, after.explained) == ([], 0)
    assert [(c.class_, c.failed_with) for c in after.classes] == [("loop", 16)]


def test_a_csv_of_labels(bells: str, home: Home, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(
        "trace,task,attempt,step,name,value,by,why\n"
        ",1,1,2,failure_class,bad_args,ada,no such bell\n"
        ",0,0,,tone,0.5,,\n"
        ",0,1,,tone,,,\n"
        ",1,1,,failure_class,clumsy,ada,x\n"
        ",9,9,,tone,1,,\n"
        ",1,0,99,tone,1,,\n"
        ",1,0,two,tone,1,,\n"
    )
    done = label(bells, csv_file=path, by="bob", home=home)
    assert (done.labelled, done.left) == (2, 0)
    assert told(done) == [("1", 1, 2, "bad_args", "ada", "no such bell")]
    reasons = [s.why for s in done.skipped]
    assert [r.split(";")[0] for r in reasons[:2]] == ["no trace of the run fits", "'two' is not a step"]
    assert "'clumsy' is not a failure class" in reasons[2]
    assert "has no step 99" in reasons[3]
    tone = label(bells, name="tone", home=home)
    assert told(tone) == [("0", 0, None, 0.5, "bob", None)]
    assert (tone.labelled, tone.left) == (0, 3)


def test_a_sheet_is_filled_in_and_scores(logs: Any, home: Home, tmp_path: Path) -> None:
    import_logs(logs.put("u.json", [logs.turns(t, 0, None) for t in range(3)]), home=home, run="open")
    path = tmp_path / "sheet.csv"
    done = label("open", name="outcome", out=path, home=home)
    assert (done.left, done.sheet) == (3, str(path))
    assert done.next == f"ethogram score open --labels {path}"
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [(r["task"], r["attempt"], r["source"], r["name"], r["value"]) for r in rows] == [
        (str(t), "0", "u.json", "outcome", "") for t in range(3)
    ]
    assert score("open", labels=path, home=home).changed == 0, "an empty sheet says nothing"
    assert score("open", outcome_from=f"csv:{path}", home=home).changed == 0, "--labels by another name"
    with pytest.raises(BadUsage, match="exists, and may hold labels"):
        label("open", name="outcome", out=path, home=home)
    rows[0]["value"], rows[1]["value"] = "pass", "fail"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    taken = score("open", outcome_from=f"csv:{path}", home=home)
    assert (taken.scored, taken.successes, taken.changed) == (2, 1, 2), "by the start of the id, from column value"
    assert taken.labels == 2
    assert score("open", labels=path, home=home).labels == 0
    assert label("open", name="outcome", home=home).left == 1


def test_a_label_by_hand_can_be_the_outcome(bells: str, home: Home) -> None:
    label(bells, "0/0", "pass", name="seen", by="ada", home=home)
    label(bells, "0/0", "fail", name="seen", by="ada", home=home)
    label(bells, "0/1", "pass", name="seen", step=1, by="ada", home=home)
    done = score(bells, outcome_from="label:seen", home=home)
    assert (done.scored, done.successes) == (1, 0), "the newest label of the trace; one of a step is none of the trace"
    again = score(bells, score="seen", home=home)
    assert (again.scored, again.changed) == (1, 0), "label: and --score say the same"


def test_what_cannot_be_labelled(bells: str, home: Home, tmp_path: Path) -> None:
    for args, more, words in (
        (("1/1",), {}, "needs a value"),
        (("1/1", "clumsy"), {"why": "x"}, "'clumsy' is not a failure class; classes are: wrong_tool, "),
        (("1/1", "loop"), {}, "say why with why"),
        (("1/1", "loop"), {"why": "x", "step": 99}, "has no step 99; it has steps 0 to 3"),
    ):
        with pytest.raises(BadUsage, match=words):
            label(bells, *args, by="ada", home=home, **more)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        label(bells, "ffff", "loop", why="x", by="ada", home=home)
    with pytest.raises(NotFound):
        label(bells, csv_file=tmp_path / "none.csv", home=home)
    assert label(bells, home=home).labels == []


def test_sources_that_score_nothing_say_so(bells: str, home: Home) -> None:
    with pytest.raises(NotFound, match="label named 'nobody' in run 'bells'"):
        score(bells, outcome_from="label:nobody", home=home)
    with pytest.raises(NotFound, match="meta value named 'nothing' in run 'bells'"):
        score(bells, outcome_from="meta:nothing", home=home)
