"""`ethogram gate`: three verdicts, four exit codes, and what continuous integration reads."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from ethogram.questions.compare.moved_tasks import Counted, FirstDifference, MovedTask
from ethogram.questions.gate.ci import github_lines, junit, markdown
from ethogram.questions.gate.quarantine import Quarantined
from ethogram.questions.gate.results import GateResult


@pytest.fixture
def runs(ran):
    (
        ran("main", "good", 20),
        ran("bad", "bad", 4),
        ran("sure", "sure", 8),
        ran("short", "same", 1),
        ran("dead", "dead", 2),
    )


def test_three_verdicts_and_their_codes(call, runs):
    for name, code, word in (
        ("bad", 1, "REGRESSION"),
        ("sure", 0, "PASS"),
        ("short", 2, "UNDECIDED"),
        ("dead", 2, "UNDECIDED"),
    ):
        said = call("gate", "main", name, "--margin", "0.1")
        assert said.code == code, said
        assert said.out.startswith(f"{word}  main → {name}")
        assert "success: difference" in said.out
        assert ("\nto decide " in said.out) == (code == 2)
    assert "  $" in call("gate", "main", "short", "--margin", "0.1").out
    back = call("gate", "dead", "main")
    assert back.code == 2
    assert "no attempt of the baseline has a score" in back.out


def test_what_scripts_read(call, runs, checked):
    for name, code in (("bad", 1), ("sure", 0), ("short", 2), ("dead", 2)):
        said = call("gate", "main", name, "--margin", "0.1", "--json")
        assert said.code == code
        found = checked("gate", said.out)
        assert found["verdict"] == {1: "regression", 0: "pass", 2: "undecided"}[code]
        assert {"runs", "cost_usd"} <= found["needed"].keys()
    checked("gate", call("gate", "dead", "main", "--json").out)
    watched = call("gate", "main", "bad", "--monitor", "--json")
    assert watched.code == 1
    assert checked("gate", watched.out)["evidence"]["e_value"] >= 20
    assert "e-value" in call("gate", "main", "bad", "--monitor").out
    steps = call("gate", "main", "sure", "--metric", "steps", "--margin", "0.2", "--json")
    assert steps.code == 0
    checked("gate", steps.out)


def test_files_for_continuous_integration(call, runs, monkeypatch, checked):
    summary = Path("summary.md")
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    said = call(
        "gate", "main", "bad", "--margin", "0.1", "--junit", "g.xml", "--markdown", "g.md", "--github", "--json"
    )
    assert said.code == 1
    checked("gate", said.out)
    assert said.err.startswith("::error title=ethogram gate%3A regression::")
    suite = ET.parse("g.xml").getroot().find("testsuite")
    assert (suite.get("errors"), int(suite.get("failures")) >= 1) == ("0", True)
    assert suite.find("testcase[@classname='ethogram.gate']/failure") is not None
    assert Path("g.md").read_text().startswith("### ❌ Ethogram gate: regression")
    assert summary.read_text() == "before\n" + Path("g.md").read_text()
    call("gate", "main", "short", "--margin", "0.1", "--junit", "g.xml")
    assert ET.parse("g.xml").getroot().find(".//testcase/error") is not None
    call("gate", "main", "sure", "--margin", "0.1", "--junit", "g.xml")
    assert ET.parse("g.xml").getroot().find(".//error") is None


def test_run_drives_the_harness(call, ran):
    ran("main", "good", 20)
    said = call("gate", "main", "new", "--margin", "0.2", "--buy", "--agent", "act.py:bad")
    assert said.code == 1
    assert "look 1 of " in said.err
    again = call("gate", "main", "new", "--margin", "0.2", "--json")
    assert again.code == 1
    for words, told in (
        (("--buy", "--margin", "0.3", "--agent", "act.py:bad"), "other settings"),
        (("--buy", "--monitor", "--agent", "act.py:bad"), "--monitor"),
    ):
        refused = call("gate", "main", "new", *words)
        assert refused.code == 64
        assert told in refused.err
    assert call("gate", "main", "newer", "--buy").code == 64


@pytest.mark.parametrize(
    "words",
    [
        ("--margin", "0"),
        ("--margin", "0.99"),
        ("--alpha", "0.7"),
        ("--power", "1"),
        ("--metric", "beauty"),
        ("--every", "0"),
        ("--min-coverage", "2"),
        ("--quarantine", "none.yaml"),
        ("--quarantine", "bad.yaml"),
        ("--condition", "loud"),
    ],
)
def test_bad_input_is_one_sentence(call, ran, words):
    ran("main", "good", 3)
    ran("new", "good", 3)
    Path("bad.yaml").write_text("- {task: a, until: never, reason: b}")
    said = call("gate", "main", "new", *words)
    assert said.code == 64, said
    assert "Traceback" not in said.err
    assert said.out == ""


def test_a_quarantine_list(call, runs):
    Path("q.yaml").write_text(
        "- {task: t01, until: 2999-01-01, reason: flaky}\n- {task: t02, until: 2001-01-01, reason: old}\n"
    )
    said = call("gate", "main", "bad", "--margin", "0.1", "--quarantine", "q.yaml", "--junit", "g.xml")
    assert "t01: in quarantine until 2999-01-01, not counted (flaky)" in said.out
    assert "t02: quarantine is over, counts again (old)" in said.out
    assert ET.parse("g.xml").getroot().find(".//testcase[@name='t01']/skipped") is not None


LAMPS = """
from ethogram.plans import Check, Suite, Task

SUITE = Suite(name="lamps", tasks=tuple(
    Task(id=f"lamp-{i:02d}", prompt="?", expected="on", checks=(Check(kind="equals"),)) for i in range(20)))

def good(task, episode, broken=()):
    for tool in ("look", "wait" if task.id in broken else "switch"):
        episode.record.tool(tool, lambda: "fine")
    return "off" if task.id in broken else "on"

def bad(task, episode):
    return good(task, episode, [f"lamp-{i:02d}" for i in range(0, 20, 2)])

def bare(task, episode):
    return "off" if task.id < "lamp-12" else "on"
"""


@pytest.fixture
def lamps(call):
    Path("lamps.py").write_text(LAMPS)
    for name, agent, k in (("main", "good", 10), ("bad", "bad", 4), ("bare", "bare", 4)):
        assert call("run", "lamps.py", "--agent", f"lamps.py:{agent}", "-k", str(k), "--run", name).code == 0


def test_the_tasks_that_moved_are_named_everywhere(call, lamps):
    """Counts, a trace that can be pasted, the check's reason and the first other step, in every form of the verdict."""
    said = call("gate", "main", "bad", "--margin", "0.1", "--junit", "g.xml", "--markdown", "g.md", "--github")
    assert said.code == 1
    (row, *_) = [line for line in said.out.splitlines() if line.startswith("lamp-00")]
    task, base, candidate, trace, *_ = row.split()
    assert (task, base) == ("lamp-00", "10/10")
    assert candidate.startswith("0/")
    assert "step 1: called tool wait; the passing attempt called tool switch" in said.out
    shown = call("trace", trace)
    assert shown.code == 0
    assert "task lamp-00" in shown.out
    found = msgspec.json.decode(call("gate", "main", "bad", "--margin", "0.1", "--json").out)
    assert {"task", "base", "candidate", "trace", "step", "why"} <= found["tasks"][0].keys()
    assert found["tasks"][0]["trace"].startswith("b2:" + trace)
    case = ET.parse("g.xml").getroot().find(".//testcase[@name='lamp-00']/failure")
    for text in (case.get("message"), Path("g.md").read_text(), said.err):
        for word in (trace, "equals", "10/10", "called tool wait", "lamp-02"):
            assert word in text or (word == "lamp-02" and text == case.get("message")), (word, text)
    again = call("compare", "main", "bad")
    assert trace in again.out, "compare names the same attempt"


def test_long_lists_are_counted_and_agents_without_steps_say_so(call, lamps):
    said = call("gate", "main", "bare", "--margin", "0.1", "--github", "--markdown", "g.md")
    assert said.code == 1
    total = len(msgspec.json.decode(call("gate", "main", "bare", "--margin", "0.1", "--json").out)["tasks"])
    assert total == 12
    assert "… and 2 more tasks" in said.out
    assert said.out.count("the candidate's attempt recorded no steps") == 10
    assert said.err.count("task lamp-") == 10
    assert "2 more tasks" in Path("g.md").read_text()


def test_the_table_of_tasks_fits_a_terminal(lamps, shell):
    said = shell("COLUMNS=80 script -qec 'ethogram gate main bad --margin 0.1' /dev/null")
    lines = [re.sub("\x1b\\[[0-9;]*m", "", line).rstrip() for line in said.out.splitlines()]
    at = next(i for i, line in enumerate(lines) if line.startswith("lamp-00"))
    assert lines[at].endswith("equals: 'off' is not 'on'")
    assert lines[at + 1].endswith("step 1: called tool wait; the")
    assert max(map(len, lines)) <= 80, said.out


NASTY = "a::b\n::error::%0A|<script>`*[x](y)\x1b[31m"


@pytest.fixture
def nasty(call, runs) -> GateResult:
    found = msgspec.json.decode(call("gate", "main", "bad", "--margin", "0.1", "--json").out, type=GateResult)
    step = FirstDifference(at=1, failing=NASTY, passing=NASTY, passing_trace=NASTY)
    passed, failed = Counted(passed=9, of=9, mean=1.0), Counted(passed=0, of=9, mean=0.0)
    found.tasks = [
        MovedTask(
            task=NASTY,
            base=passed,
            candidate=failed,
            moved=True,
            worse=True,
            q=0.0,
            trace="b2:0123456789abcdef",
            step=step,
            why=NASTY,
        )
    ]
    found.quarantined = [Quarantined(task=NASTY, until=datetime.date(2999, 1, 1), reason=NASTY)]
    found.warnings = [NASTY]
    return found


def test_foreign_names_start_no_command_of_their_own(nasty):
    lines = github_lines(nasty)
    assert len(lines) == 3
    for line in lines:
        assert "\n" not in line
        assert "\r" not in line
        assert line.count("::") >= 2
        assert line.startswith(("::error title=", "::warning title="))
        head, _, rest = line[2:].partition("::")
        assert "\x1b" not in line
        assert "%0A|" not in rest or "%250A|" in rest, "a percent sign is escaped before the newline"
        assert ":" not in head.partition("title=")[2]


def test_foreign_names_stay_inside_their_xml(nasty):
    root = ET.fromstring(junit(nasty))
    names = [case.get("name") for case in root.iter("testcase")]
    assert names.count(NASTY.replace("\x1b", "�")) == 2
    assert root.find(".//skipped") is not None


def test_foreign_names_stay_inside_their_cell(nasty):
    text = markdown(nasty)
    assert "\x1b" not in text
    row = next(line for line in text.splitlines() if line.startswith("| a::b"))
    assert re.sub(r"\\.", "", row).count("|") == 8, "seven cells, whatever the name"
    assert "\\<script" in row
    assert all(not line.startswith("::") for line in text.splitlines())
    code = next(line for line in text.splitlines() if line.startswith("In quarantine"))
    assert "`` a::b ::error::%0A|<script>`*[x](y)�[31m ``" in code, "a longer fence, so that a backtick ends nothing"


def test_behaviour_stands_beside_the_verdict(call, runs, checked):
    said = call("gate", "main", "sure", "--margin", "0.1", "--behaviour", "--json")
    told = checked("gate", said.out)["behaviour"]
    assert told["verdict"] in ("different", "undecided")
    assert told["noise_floor"]["runs"] > 0
    assert told["evidence"]
    assert "behaviour: " in call("gate", "main", "sure", "--margin", "0.1", "--behaviour").out
    assert checked("gate", call("gate", "main", "sure", "--json").out)["behaviour"] is None
