"""`ethogram calibrate`, `label --sample` and `variance`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def night(home: Path, judged_run: Any) -> Any:
    return judged_run(home).judge()


def test_the_way_a_user_takes(call, document, night):
    said = call("calibrate", "night")
    assert said.code == 2
    assert said.out.startswith("night  0 of 1 item may be automated\n")
    assert said.out.rstrip().endswith("next: ethogram label night --label rubric --sample 50 -o sheet.csv")
    assert said.out.count("--sample") == 1
    assert "(first sample, proportional)" in said.out
    drawn = document("label", "night", "--sample", "50", "-o", "sheet.csv")
    assert (drawn["left"], len(drawn["sample"]["drawn"]), drawn["sample"]["rule"]) == (50, 50, "proportional")
    assert "verdict" not in Path("sheet.csv").read_text(), "people must not see what the judge said"
    night.fill(Path("sheet.csv"))
    assert document("label", "night", "--from", "sheet.csv")["labelled"] == 50
    said = call("label", "night", "--sample", "150", "-o", "more.csv")
    assert "(Neyman, from 50 labels)" in said.out
    night.fill(Path("more.csv"))
    said = call("calibrate", "night", "--labels", "more.csv", "--by", "part")
    assert said.code == 0
    assert said.out.startswith("night  1 of 1 item may be automated\n")
    told = " ".join(said.out.split())
    for words in ("people: yes", "corrected rate", "times as many attempts", "part a", "above the bar", "labels added"):
        assert words in told, words
    found = document("calibrate", "night")
    (item,) = found["items"]
    assert (item["item"], item["automate"], found["decided"]) == ("rubric/termination", True, True)
    assert item["agreement"]["of"] == "labels"
    assert item["corrected"]["low"] < 0.7025 < item["corrected"]["high"]


def test_two_runs_are_compared_by_corrected_rates(call, document, night, home, judged_run):
    worse = judged_run(home, name="worse", seed=2, rate=0.4, specificity=0.6).judge()
    assert call("calibrate", "worse", "--against", "night").code == 2
    for run in (night, worse):
        call("label", run.name, "--label", "rubric", "--sample", "150", "-o", f"{run.name}.csv")
        run.fill(Path(f"{run.name}.csv"))
        assert call("label", run.name, "--from", f"{run.name}.csv").code == 0
    (item,) = document("calibrate", "worse", "--against", "night")["items"]
    true = float(worse.truth.mean() - night.truth.mean())
    assert item["difference"]["low"] < true < item["difference"]["high"] < 0
    assert (item["verdict"], item["tasks"], item["difference"]["value"] < item["raw"]) == ("lower", 40, True)
    assert call("calibrate", "worse", "--against", "night").out.startswith("night → worse  1 of 1 item moved\n")


def test_labels_are_planned_for_a_width(call, document, night):
    call("label", "night", "--label", "rubric", "--sample", "100", "-o", "sheet.csv")
    night.fill(Path("sheet.csv"))
    call("label", "night", "--from", "sheet.csv")
    (item,) = document("calibrate", "night", "--width", "0.09")["items"]
    assert 20 < item["for_width"]["labels"] < 400
    assert "± 0.09: about " in call("calibrate", "night", "--width", "0.09").out
    (item,) = document("calibrate", "night", "--width", "0.001")["items"]
    assert item["for_width"]["labels"] is None
    assert item["for_width"]["why"].startswith("400 judged attempts are too few")


def test_audit_and_variance(call, document, night):
    assert document("calibrate", "night", "--audit", code=2)["decided"] is False
    said = call("label", "night", "--audit-share", "0.1", "-o", "audit.csv")
    assert "every trace whose number is below 0.1" in said.out
    night.fill(Path("audit.csv"))
    assert call("label", "night", "--from", "audit.csv").code == 0
    assert "agreement" in call("calibrate", "night", "--audit").out
    found = document("variance", "night", "--item", "termination", "--label-usd", "2")
    assert {e["source"] for e in found["ledger"]["entries"]} >= {"task", "agent", "judge", "infrastructure"}
    said = call("variance", "night", "--item", "termination")
    assert said.code == 0
    assert "largest source of variance in rubric/termination: attempts" in said.out
    assert "no price of a label is known: give --label-usd" in said.out


def test_a_score_that_never_varies_has_no_spread(call, tmp_path):
    talk = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hi."}]
    runs = [{"task_id": t, "trial": k, "reward": 1.0, "info": {}, "traj": talk} for t in range(3) for k in range(2)]
    (tmp_path / "fine.json").write_text(json.dumps(runs))
    assert call("import", str(tmp_path / "fine.json"), "--run", "fine").code == 0
    told = call("variance", "fine")
    assert told.code == 0, told
    assert told.out.startswith("fine  outcome does not vary here: there is no spread to divide")
    assert "mean 1.000, standard error 0.000; 3 tasks, 6 traces" in told.out


def test_bad_input_is_one_sentence(call, night):
    for args in (
        ("calibrate", "night", "--score", "nothing"),
        ("calibrate", "night", "--judge", "nobody"),
        ("calibrate", "night", "--against", "x"),
        ("calibrate", "night", "--audit", "--by", "task"),
        ("calibrate", "night", "--against", "night", "--by", "task"),
        ("calibrate", "night", "--width", "0.7"),
        ("calibrate", "night", "--audit", "--share", "2"),
        ("calibrate", "night", "--labels", "absent.csv"),
        ("label", "night", "--sample", "3", "--strata", "task"),
        ("label", "night", "--sample", "50", "--strata", "mood"),
        ("variance", "night"),
    ):
        said = call(*args)
        assert (said.code, said.out, said.err.count("\n")) == (64, "", 1), (args, said)
