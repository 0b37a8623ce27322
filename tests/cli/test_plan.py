"""`ethogram plan`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import re

import pytest


def test_what_people_see(call):
    said = call("plan", "--drop", "0.15", "--usd-per-run", "0.05", "--tasks", "30")
    assert said.code == 0
    first, second, *_ = said.out.splitlines()
    assert re.fullmatch(
        r"at most \d+ attempts \(\d+ per task, \d+ looks\), \$[\d.]+, to detect a drop of 0.15 on 30 tasks", first
    )
    assert second == "power 0.8, 5% false alarms; both arms are run"
    for name in ("at most", "mean if the drop is real", "mean if nothing changed", "without stages"):
        assert re.search(rf"^{name} +\d+  \$\d+\.\d+ *$", said.out, re.MULTILINE), name
    assert re.search(r"^simulated +power +false alarms +passed in error +undecided *$", said.out, re.MULTILINE)
    stored = call("plan", "--drop", "0.15", "--stored", "20")
    assert "candidate only, 20 stored attempts per task" in stored.out
    assert "price unknown" in stored.out


def test_what_scripts_read(call, ran, checked):
    ran("pilot", "good", 4)
    found = checked("plan", call("plan", "pilot", "--drop", "0.2", "--json").out)
    assert (found["pilot"], found["tasks"], found["price"]) == ("pilot", 10, pytest.approx(0.01))
    assert found["cost_usd"] == pytest.approx(0.01 * found["runs"])
    budget = checked("plan", call("plan", "pilot", "--max-runs", str(found["runs"]), "--json").out)
    assert budget["runs"] <= found["runs"]
    assert budget["drop"] <= 0.2 + 1e-3
    again = checked("plan", call("plan", "pilot", "--drop", "0.2", "--json").out)
    assert again == found


@pytest.mark.parametrize(
    "words",
    [
        ("--drop", "0"),
        ("--drop", "0.95"),
        ("--alpha", "0"),
        ("--power", "1"),
        ("--rate", "1"),
        ("--spread", "0.9"),
        ("--tasks", "0"),
        ("--stored", "-1"),
        ("--max-usd", "5"),
        ("--max-runs", "1"),
        ("--drop", "0.1", "--max-runs", "100"),
        ("nobody",),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    said = call("plan", *words)
    assert said.code == 64, said
    assert "Traceback" not in said.err
    assert said.out == ""
