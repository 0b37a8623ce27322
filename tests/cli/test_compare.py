"""`ethogram compare`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import json
import re
from pathlib import Path


def test_what_people_see(call, ran):
    ran("old", "good", 8)
    ran("new", "bad", 8)
    said = call("compare", "old", "new")
    assert said.code == 0, "a comparison tells; only the gate judges"
    assert "REGRESSION  old → new" in said.out
    assert "difference -0." in said.out
    assert re.search(r"^pairs  same seed .*\n +80 +80 ", said.out, re.MULTILINE)
    assert "exact p" in said.out
    assert "… and 8 more tasks; --limit 0 shows all" in call("compare", "old", "new", "--limit", "2").out


def test_what_scripts_read(call, ran, checked):
    ran("old", "good", 4)
    ran("new", "sure", 4)
    found = checked("compare", call("compare", "old", "new", "--json").out)
    assert found["verdict"] == "improvement"
    assert found["difference"]["low"] > 0
    assert found["pairs"]["lost"] == 0
    assert len(found["tasks"]) == 10
    for metric in ("cost", "steps", "tokens", "seconds"):
        paid = checked("compare", call("compare", "old", "new", "--metric", metric, "--json").out)
        assert paid["metric"] == metric
        assert paid["pairs"] is None
    between = checked("compare", call("compare", "old", "new", "--design", "between", "--json").out)
    assert between["method"] == "paired t over tasks"


def test_nothing_to_compare_cannot_be_decided(call, ran):
    ran("old", "good", 2)
    ran("dead", "dead", 2)
    said = call("compare", "old", "dead")
    assert said.code == 2
    assert "no task has a known value of success in both runs" in said.out
    assert "anywhere from" in said.out


def test_errors_of_logs_without_scores_are_compared(call, checked):
    for name, failures in (("old", 0), ("new", 2)):
        lines = []
        for task in range(4):
            talk = [{"role": "user", "content": f"question {task}"}]
            for i in range(2):
                asked = {"id": f"c{i}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
                talk.append({"role": "assistant", "content": None, "tool_calls": [asked]})
                talk.append(
                    {"role": "tool", "tool_call_id": f"c{i}", "content": "Error: no" if i < failures else "yes"}
                )
            lines += [json.dumps({"messages": [*talk, {"role": "assistant", "content": "Done."}]})] * 2
        Path(f"{name}.jsonl").write_text("\n".join(lines))
        assert call("import", f"{name}.jsonl", "--run", name).code == 0
    found = checked("compare", call("compare", "old", "new", "--metric", "errors", "--json").out)
    assert (found["base"]["value"], found["candidate"]["value"], found["difference"]["missing"]) == (0, 2, {})
    said = call("compare", "old", "new")
    assert said.code == 2
    assert "no task has a known value of success in both runs" in said.out


def test_bad_input_is_one_sentence(call, ran):
    ran("old", "good", 1)
    suite = Path("coins.py")
    suite.write_text(suite.read_text().replace("range(10)", "range(9)"))
    assert call("run", "coins.py", "--agent", "act.py:good", "--run", "newer").code == 0
    for words, told in (
        (("old", "newer"), "different versions"),
        (("old", "nobody"), "nobody"),
        (("old", "newer", "--common-tasks", "--metric", "x"), "metric"),
        (("old", "old"), "compared with itself"),
    ):
        said = call("compare", *words)
        assert said.code == 64, said
        assert told in said.err
        assert "Traceback" not in said.err


def test_a_tiny_p_has_its_order_of_magnitude(call, ran):
    ran("best", "sure", 8)
    ran("worse", "bad", 8)
    said = call("compare", "best", "worse").out
    assert re.search(r"p \S+e-\d+, exact p \d\S*e-\d\d", said), said
    assert "exact p 0" not in said


def test_layers_are_in_the_document_and_a_single_one_is_not_repeated_on_the_screen(call, ran, checked):
    ran("old", "good", 8)
    ran("new", "bad", 8)
    found = checked("compare", call("compare", "old", "new", "--json").out)["layers"]
    assert (found["moved"], found["layers"]["L2"]["state"]) == (["L0"], "not measured")
    assert found["suspects"] == ["prompt", "tools", "plan"], "nothing else is measured, so nothing else is ruled out"
    assert "layers:" not in call("compare", "old", "new").out
