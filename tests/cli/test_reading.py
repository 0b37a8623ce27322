"""`ethogram trace` and `ethogram diff --full`: the words of steps, folded and whole; the pager; colours."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

WRONG = "Error: no such customer"


@pytest.fixture
def failed(document, lake) -> str:
    """The start of the id of the one failure."""
    trace = next(t for t in document("show")["traces"] if t["score"] == 0)
    return str(trace["trace_id"]).removeprefix("b2:")[:10]


@pytest.fixture
def long(call, env) -> str:
    """A trace with a tool result of 200 lines; the word needle stands in line 150."""
    lines = [f"line {i}" + (" Needle" if i == 150 else "") for i in range(200)]
    arguments = json.dumps({"path": "a.py", "code": "one\ntwo", "depth": 3})
    ask = {"id": "c", "type": "function", "function": {"name": "read", "arguments": arguments}}
    talk = [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": None, "tool_calls": [ask]},
        {"role": "tool", "tool_call_id": "c", "name": "read", "content": "\n".join(lines)},
        {"role": "assistant", "content": "Read."},
    ]
    Path("long.json").write_text(json.dumps([{"task_id": 0, "trial": 0, "reward": 1.0, "info": {}, "traj": talk}]))
    assert call("import", "long.json", "--run", "long").code == 0
    return "0/0"


def test_the_words_of_a_step(call, document, failed):
    said = call("trace", failed, "--step", "2")
    assert said.code == 0
    for words in ("step 2 of 0–3  tool lookup  ✗ error", "arguments lookup", "mail: ", "result lookup", f"    {WRONG}"):
        assert words in said.out
    assert call("trace", f"{failed}:2").out == said.out, "a place as why prints it"
    assert said.out.count("step ") == 1
    wider = call("trace", failed, "--step", "2", "--around", "1").out
    assert [line.split()[1] for line in wider.splitlines() if line.startswith("step ")] == ["1", "2", "3"]
    assert "reads the user message of step 0" in wider
    built = document("trace", failed, "--step", "2")
    assert [p["kind"] for p in built["words"][0]["parts"]] == ["arguments", "result"]
    assert built["words"][0]["parts"][1]["text"] == WRONG


def test_a_search_says_n_of_m(call, document, failed):
    said = call("trace", failed, "--find", "no such").out
    assert "1 of 1\nstep 2 of 0–3" in said
    assert said.endswith("1 of 4 steps hold 'no such'\n")
    assert "0 of 4 steps hold 'elephant'" in call("trace", failed, "--find", "elephant").out
    assert document("trace", failed, "--find", "no such")["found"]["at"] == [2]


def test_only(call, failed):
    said = call("trace", failed, "--only", "errors").out
    assert "2 tool lookup" in said
    assert "model chat" not in said
    bad = call("trace", failed, "--only", "wrong")
    assert (bad.code, bad.err.count("\n")) == (64, 1)
    assert "--only takes: errors, tools, model" in bad.err
    assert call("trace", failed, "--step", "9").code == 64
    assert call("trace", failed, "--around", "2").code == 64


def test_long_texts_are_folded(call, long):
    said = call("trace", long, "--step", "2").out
    assert "    line 0\n" in said
    assert "line 150" not in said
    assert "more characters; --full shows them" in said
    assert len(said.splitlines()) < 45
    whole = call("trace", long, "--step", "2", "--full").out
    assert "    line 199\n" in whole
    assert "more characters" not in whole
    near = call("trace", long, "--find", "needle").out
    assert "line 150 Needle" in near, "what was looked for is shown, wherever it stands"
    assert "line 100\n" not in near


def test_arguments_read_as_lines(call, long):
    said = call("trace", long, "--step", "2").out
    assert "    path: a.py\n    code:\n      one\n      two\n    depth: 3\n" in said


def test_diff_shows_the_words_where_traces_part(call, document, lake):
    said = call("diff", "1/0", "1/1", "--full").out
    assert "- the first trace, step 2: tool:lookup\n" in said
    assert "+ the second trace, step 2: tool:lookup:error\n" in said
    assert said.rstrip().endswith(WRONG)
    assert WRONG not in call("diff", "1/0", "1/1").out
    words = document("diff", "1/0", "1/1", "--full")["words"]
    assert words[1]["parts"][-1]["text"] == WRONG
    same = call("diff", "1/0", "1/0", "--full").out
    assert "no words differ" in same


def on_terminal(shell, line, **more):
    said = shell(f"script -qec '{line}' /dev/null", TERM="xterm-256color", COLUMNS="80", LINES="20", **more)
    if said.code == 127:
        pytest.skip("script(1) is not here, so there is no terminal to look at")
    return said


def test_a_pager_on_a_terminal_only(shell, long):
    line = "ethogram trace 0/0 --step 2 --full"
    paged = on_terminal(shell, line, PAGER="sed s/^/paged:/")
    assert "paged:" in paged.out
    assert "line 199" in paged.out
    assert "paged:" not in on_terminal(shell, "ethogram trace 0/0 --step 0", PAGER="sed s/^/paged:/").out, "it fits"
    assert "paged:" not in on_terminal(shell, line, PAGER="cat").out
    assert "line 199" in on_terminal(shell, line, PAGER="no-such-program-here").out
    piped = shell(line, PAGER="sed s/^/paged:/", LINES="20")
    assert "paged:" not in piped.out
    assert "line 199" in piped.out
    gone = on_terminal(shell, line, PAGER="head -n 1")
    assert gone.code == 0, "a reader who closed it early is no failure"


def test_colours_where_they_are_wanted(shell, lake):
    line = "ethogram trace 1/1 --step 2"
    assert "\x1b[" in on_terminal(shell, line).out
    plain = on_terminal(shell, line, NO_COLOR="1").out
    assert not re.search("\x1b\\[[0-9;]*(3[0-9]|9[0-7])", plain), "bold and dim may stay, colours may not"
    assert "\x1b[" not in shell(line).out
