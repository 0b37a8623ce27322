"""`ethogram judge`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import json
from pathlib import Path


def test_the_answer_leads_and_names_a_step_to_paste(call, lake):
    said = call("judge", "desk", "--judge", "fixed:no")
    assert said.code == 0
    first, second, *_ = said.out.splitlines()
    assert first.startswith("desk  4 attempts judged by fixed:no; share of yes: 0.00 [0.00, ")
    assert second.startswith("most frequent no: ")
    assert "tool_choice" in said.out
    place = second.partition("e.g. ")[2].split()[0]
    assert f"next: ethogram trace {place} --run desk" in said.out
    shown = call("trace", place.partition(":")[0], "--run", "desk").out
    assert "✗ " in shown
    assert "(by fixed:no)" in shown
    assert "judged: " in shown


def test_scripts_read_estimates_per_item(document, lake):
    found = document("judge", "desk")
    assert (found["judge"], found["judged"], found["kept"], found["left"]) == ("rule", 4, 0, 0)
    assert found["items"][0]["item"] == "tool_choice"
    assert set(found["items"][0]["yes"]) >= {"value", "low", "high", "n", "method", "missing"}
    assert document("judge", "desk")["kept"] == 4
    again = document("judge", "desk", "--judge", "fixed:yes", "--measure", "4", "--repeat", "2")
    assert [b["bias"] for b in again["biases"]] == ["outcome", "narration", "windows", "length", "repeat"]
    layers = document("why", "desk")["layers"]
    assert layers["L2"]["value"] == 1.0


def test_pairs_in_both_orders(call, document, lake):
    found = document("judge", "desk", "--against", "desk")
    assert (found["pairs"], found["ties"], found["preferred"]["value"]) == (4, 4, 0.5)
    assert found["order"]["found"] == "not measured"
    said = call("judge", "desk", "--against", "desk")
    assert said.out.startswith("rule prefers desk to desk in 0.5 ")
    assert "order: not measured" in said.out


def test_bad_input_is_one_sentence(call, lake):
    Path("bad.yaml").write_text("items: [a, b")
    for args in (
        ("--judge", "oracle"),
        ("--rubric", "bad.yaml"),
        ("--rubric", "none.yaml"),
        ("--guards", "magic"),
        ("--task", "nope"),
        ("--judge", "model:m@https://judge.example/v1"),
        ("--judge", "model:m@http://127.0.0.1:9/v1", "--max-usd", "1"),
        ("--against", "desk", "--repeat", "2"),
    ):
        said = call("judge", "desk", *args)
        assert (said.code, said.out, said.err.count("\n")) == (64, "", 1), said
    assert call("judge", "nowhere").code == 64


def test_nothing_that_can_be_judged_is_no_answer(call, checked, lake):
    Path("own.yaml").write_text(json.dumps({"items": [{"name": "x", "question": "?", "applies_to": "steps"}]}))
    said = call("judge", "desk", "--rubric", "own.yaml", "--json")
    assert said.code == 2
    found = checked("judge", said.out)
    assert found["score"]["value"] is None
    assert found["items"][0]["yes"]["missing"] == {"not judged": 4}
