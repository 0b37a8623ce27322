"""`ethogram label`: what people see, what scripts read, what bad input says, and ways to score that work as printed."""

from __future__ import annotations

import json
import os
from pathlib import Path


def test_label_and_why(call, document, lake):
    said = call("label", "desk", "1/1", "bad_args", "--why", "the address has a typing error", "--by", "ada")
    assert said.code == 0
    assert said.out.startswith("desk  1 label added; 0 traces still have no failure_class set by a person\n")
    assert "the address has a typing error" in said.out
    shown = call("why", "desk").out
    assert "classes set by hand (in no test): 1, e.g. " in shown
    assert "bad_args by ada: the address has a typing error" in shown
    again = document("label", "desk", "1/1:2", "loop", "--why", "no", "--by", "bob")
    assert (again["labelled"], again["left"]) == (1, 0)
    (failed,) = (t for t in document("why", "desk")["traces"] if t["failed"])
    assert failed["by_hand"] == {"classes": ["loop"], "by": "bob", "why": "no", "step": 2}
    assert "label failure_class = loop (by bob): no" in call("trace", "1/1").out


def test_labels_of_any_name(call, document, lake):
    done = document("label", "desk", "0/0", "0.25", "--label", "tone", "--by", "ada")
    assert (done["labelled"], done["left"], done["labels"][0]["value"]) == (1, 3, 0.25)
    assert document("label", "desk", "--label", "tone")["labelled"] == 0
    assert document("label", "desk", "0/0", "good", "--label", "tone")["labels"][0]["by"], "the login, or who is named"


def test_bad_input_is_one_sentence(call, lake):
    for args in (("1/1",), ("1/1", "clumsy", "--why", "x"), ("1/1", "loop"), ("ffffff", "loop", "--why", "x")):
        said = call("label", "desk", *args, "--by", "ada")
        assert (said.code, said.out, said.err.count("\n")) == (64, "", 1), said


def test_every_way_to_score_works_as_printed(call, document, shell, tmp_path):
    runs = []
    for t in range(3):
        talk = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": f"Done, {t}."}]
        runs.append({"task_id": t, "trial": 0, "reward": None, "info": {}, "traj": talk})
    Path("open.json").write_text(json.dumps(runs))
    assert call("import", "open.json", "--run", "open").code == 0
    for t in range(3):
        assert call("label", "open", f"{t}/0", "pass" if t else "fail", "--label", "seen", "--by", "ada").code == 0
    found = document("why", "open")
    ways = found["score_with"]
    assert [word for way in ways for word in ("label:seen", "--check") if word in way] == ["label:seen", "--check"]
    (by_hand,) = (note.partition("sheet: ")[2] for note in found["notes"] if "by hand" in note)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.chdir(elsewhere)
    for way in (*ways, by_hand):
        said = shell(way)
        assert said.code == 0, (way, said)
    (sheet,) = elsewhere.glob("*.csv")
    assert sheet.read_text().count("\n") == 4
    assert document("show", "open")["scored"] == 3


def test_the_own_suite_from_another_folder(call, document, shell, ran, tmp_path):
    home = str(Path.cwd() / ".ethogram")
    said = call("run", "coins.py", "--agent", "act.py:good", "-k", "1", "--run", "here", "--home", home)
    assert said.code == 0, said
    os.chdir(tmp_path)
    for verb in ("show", "why"):
        said = call(verb, "here", "--home", home)
        assert said.out.rstrip().endswith(f" --home {home}"), "from anywhere, as it is printed"
        assert shell(said.out.rpartition("next: ")[2].strip()).code == 0
    done = document("score", "here", "--home", home)
    assert (done["suite"], done["scored"], done["changed"]) == ("coins", 10, 0)


def test_a_sheet_that_nobody_filled_in_is_said_to_be_empty(call, tmp_path):
    talk = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hi."}]
    (tmp_path / "log.json").write_text(
        json.dumps([{"task_id": 0, "trial": 0, "reward": 0.0, "info": {}, "traj": talk}])
    )
    assert call("import", str(tmp_path / "log.json"), "--run", "one").code == 0
    sheet = str(tmp_path / "sheet.csv")
    assert call("label", "one", "-o", sheet).code == 0
    told = call("label", "one", "--from", sheet)
    assert (told.code, told.out) == (64, "")
    assert "has a value yet; fill in its column value" in told.err
