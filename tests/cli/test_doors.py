"""What an installed package adds is in every command that shows such things: one test per extension point."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import pytest

from ethogram.store import Policy, Redactor, open_home
from ethogram.traces import Scored

METRIC = """
from ethogram.measures.metrics import Metric

REPEATS = Metric(name="repeats", unit="calls", better="less", needs=("steps",), formula="the name of a dimension")
FAILED_SHARE = Metric(name="failed_share", unit="share", better="less", needs=("errors", "steps"),
                      of=lambda errors, steps: errors / steps, formula="errors / steps")
REPEATED = Metric(name="repeated", unit="calls", better="less", needs=("repeats",), formula="repeats, as a metric")
BROKEN = Metric(name="fragile", unit="calls", better="less", needs=("nothing",), formula="of no column there is")
COST = Metric(name="cost", unit="EUR", better="less", needs=("cost_usd",), formula="a name that is taken")
"""
METRIC_POINTS = """[ethogram.metrics]
failed_share = meters:FAILED_SHARE
repeated = meters:REPEATED
cost = meters:COST
fragile = meters:BROKEN
repeats = meters:REPEATS
"""


@pytest.fixture
def runs(env: dict[str, str], write_trace: Any) -> None:
    """Two runs of four tasks with two attempts each: of every three tool calls one fails."""
    for name, more in (("base", 0), ("new", 1)):
        run = open_home().create(name, "import")
        with run.writer(Redactor(b"a key for tests", Policy(kinds=()))) as writer:
            for i in range(8):
                outcome = Scored(float(i % 3 > 0), "test")
                write_trace(writer, f"{name}-{i}", steps=2 + more + i % 3, task=f"t{i % 4}", outcome=outcome)


def test_a_metric(runs, install, call, document, shell) -> None:
    """One definition in a package: compare, gate, field, help and report know it."""
    install("meters", METRIC, METRIC_POINTS)
    compared = document("compare", "base", "new", "--metric", "failed_share")
    assert (compared["metric"], compared["unit"], compared["better"]) == ("failed_share", "share", "less")
    # attempts of 2, 3 and 4 rounds of a model step and a tool step; the third tool call fails
    by_rounds = {2: 0.0, 3: 1 / 6, 4: 1 / 8}
    attempts = [(i % 4, by_rounds[2 + i % 3]) for i in range(8)]
    means = [sum(v for task, v in attempts if task == t) / 2 for t in range(4)]
    assert compared["base"]["value"] == pytest.approx(sum(means) / 4)

    gated = call("gate", "base", "new", "--metric", "failed_share", "--json")
    assert '"metric":"failed_share"' in gated.out

    told = document("field", "base")
    row = told["dimensions"]["failed_share"]
    assert row["mean"] == pytest.approx(sum(v for _, v in attempts) / 8)
    assert row["description"] == "errors / steps (share)"

    helped = shell("ethogram compare --help; ethogram gate --help", PYTHONPATH=str(Path("../site").resolve())).out
    assert " ".join(helped.replace("│", " ").split()).count("errors, failed_share, fragile or repeated") == 2

    assert call("report", "base", "-o", "report.html").code == 0
    page = Path("report.html").read_text()
    assert "<td>failed_share</td>" in page
    assert "errors / steps" in page


def test_a_metric_of_what_only_steps_tell(runs, install, document) -> None:
    install("meters", METRIC, METRIC_POINTS)
    compared = document("compare", "base", "new", "--metric", "repeated")
    field = document("field", "base", "--dimensions", "repeats,repeated")
    assert compared["base"]["value"] == field["dimensions"]["repeated"]["mean"] == 0.0


def test_a_bad_metric_is_one_sentence_and_no_more(runs, install, call) -> None:
    install("meters", METRIC, METRIC_POINTS)
    refused = call("compare", "base", "new", "--metric", "fragile")
    assert refused.code == 64
    assert "the metric 'fragile' cannot be computed: there is no column 'nothing'" in refused.err
    note = "note: the metric 'cost' of meters is refused: Ethogram has a metric of that name too; rename one of them"
    assert note in refused.err.splitlines()
    assert "'repeats' of meters is refused: Ethogram has a dimension of that name too" in refused.err
    taken = call("compare", "base", "new", "--metric", "repeats")
    assert (taken.code, taken.err.count("'repeats'")) == (64, 1)
    unknown = call("compare", "base", "new", "--metric", "failed_shar")
    assert unknown.code == 64
    assert "no metric named 'failed_shar'; did you mean 'failed_share'?" in unknown.err


def test_doctor_lists_plug_ins(env, install, call) -> None:
    assert "plug-ins" in call("doctor").out
    install("meters", METRIC, METRIC_POINTS + "[ethogram.metric]\nlost = meters:COST\n")
    said = call("doctor")
    assert said.code == 1
    lines = " ".join(said.out.split())
    assert "✓ ethogram.metrics failed_share (meters), fragile (meters), repeated (meters)" in lines
    assert "✗ plug-in 'lost' of meters is not used: 'ethogram.metric' is not an extension point" in lines
    assert "note:" not in said.err


def test_a_trace_without_steps_has_no_share(env, install, call, write_trace) -> None:
    """0/0 is unknown, and nothing is printed about it."""
    install("meters", METRIC, METRIC_POINTS)
    for name in ("base", "new"):
        with open_home().create(name, "import").writer(Redactor(b"a key for tests", Policy(kinds=()))) as writer:
            for i in range(4):
                write_trace(writer, f"{name}-{i}", steps=2 * (i % 2), task=f"t{i % 2}", outcome=Scored(1.0, "test"))
    said = call("compare", "base", "new", "--metric", "failed_share")
    assert "Warning" not in said.err


DIMENSION = """
from ethogram.measures.standard import StepDimension

def chats(steps):
    return steps.per_trace(steps.of_kind("model"))

def names(steps):
    return steps.per_trace([name == "search" for name in steps.words("tool")])

CHATS = StepDimension("chats", "steps", "steps of kind model, counted again", ("standard",), chats)
SEARCHED = StepDimension("searched", "calls", "calls of the tool search", ("coding",), names)
FAILING = StepDimension("failing", "steps", "raises", ("standard",), lambda steps: 1 / 0)
"""


def test_a_dimension(runs, install, call, document) -> None:
    points = "[ethogram.dimensions]\nchats = dims:CHATS\nsearched = dims:SEARCHED\nfailing = dims:FAILING\n"
    install("dims", DIMENSION, points)
    told = document("field", "base", "--dimensions", "chats,model_calls,searched,tool_calls")
    means = {name: row["mean"] for name, row in told["dimensions"].items()}
    assert means["chats"] == means["model_calls"] > 0
    assert means["searched"] == means["tool_calls"] > 0
    assert told["dimensions"]["chats"]["description"] == "steps of kind model, counted again (steps)"
    standard = document("field", "base")
    assert standard["left_out"]["failing"] == "its function fails: ZeroDivisionError: division by zero"
    assert standard["left_out"]["chats"] == "the same as model_calls in every trace"
    assert "searched" not in {*standard["dimensions"], *standard["left_out"]}
    assert "calls of the tool search" in call("field", "--list", "--preset", "coding").out


CHECK = """
from ethogram.checks import CheckKind, CheckScore, CheckSettings

class Loud(CheckSettings):
    main = "least"
    least: int = 1

def loud(evidence, settings):
    marks = (evidence.answer or "").count("!")
    return CheckScore(float(marks >= settings.get("least", 1)), f"{marks} exclamation marks")

LOUD = CheckKind(Loud, loud)
"""
SUITE = "name: shouts\ntasks:\n  - id: a\n    prompt: shout\n    checks:\n      - loud: 2\n"


def test_a_kind_of_check(env, install, call, document) -> None:
    install("loudness", CHECK, "[ethogram.checks]\nloud = loudness:LOUD\nbroken = loudness:NOTHING\n")
    Path("suite.yaml").write_text(SUITE)
    Path("agents.py").write_text(
        "def shouter(task, episode):\n    return 'hey!!'\ndef calm(task):\n    return 'hey!'\n"
    )
    for agent, score in (("shouter", 1.0), ("calm", 0.0)):
        ran = call("run", "suite.yaml", "--agent", f"agents.py:{agent}", "--run", agent)
        assert ran.code == 0, ran.err
        assert "note: the kind of check 'broken' of loudness cannot be loaded: " in ran.err
        (episode,) = document("show", agent)["traces"]
        assert episode["score"] == score
    assert call("score", "calm", "--suite", "suite.yaml").code == 0
    Path("suite.yaml").write_text(SUITE.replace("loud: 2", "kind: broken"))
    refused = call("run", "suite.yaml", "--agent", "agents.py:calm", "--run", "x")
    assert refused.code == 64
    assert "the kind of check 'broken' of loudness cannot be loaded: AttributeError" in refused.err


PART = """
from ethogram.errors import Refused
from ethogram.viewer.report.parts import ReportPart
from ethogram.viewer.report.views import Card, Section

def who(run):
    agents = sorted({entry.head.agent for entry in run.entries})
    return Section(id="who", title="Who ran?", paragraphs=[f"The agents were {', '.join(agents)}."]), [
        Card(label="agents", value=str(len(agents)), detail="by name")]

WHO = ReportPart("who", "Who ran?", who)
FAILING = ReportPart("failing", "Does it fail?", lambda run: 1 / 0)
"""


def test_a_part_of_the_report(runs, install, call) -> None:
    install("whoran", PART, "[ethogram.parts]\nwho = whoran:WHO\nfailing = whoran:FAILING\ncost = whoran:WHO\n")
    said = call("report", "base", "-o", "report.html")
    assert said.code == 0
    page = Path("report.html").read_text()
    assert "Who ran?" in page
    assert "The agents were agent." in page
    assert "the part 'failing' of whoran failed: ZeroDivisionError: division by zero" in html.unescape(page)
    assert "the report part 'cost' of whoran cannot be loaded: its entry point is named 'cost'" in said.err


OPERATOR = """
from ethogram.perturbations.operator import Change

class Reverse:
    name, kind, formats, does = "reverse", "text", ("txt",), "every line is written backwards"
    def applicable(self, content, format):
        return None if content else "the file is empty"
    def apply(self, content, format, seed, intensity=1.0):
        new = b"\\n".join(line[::-1] for line in content.split(b"\\n"))
        return Change(new, self.does, ("all lines",), (), (), 1, intensity)

REVERSE = Reverse()
"""


def test_an_operator_has_the_name_of_its_entry_point(env, install, call) -> None:
    install("reversing", OPERATOR, "[ethogram.operators]\nlame = reversing:REVERSE\n")
    Path("suite.yaml").write_text("name: s\ntasks: [{id: a, prompt: x, checks: [{contains: x}]}]\n")
    Path("a.py").write_text("def agent(task):\n    return 'x'\n")
    said = call("perturb", "--suite", "suite.yaml", "--agent", "a.py:agent", "--operators", "lame")
    assert said.code == 64
    assert said.err.count("its entry point is named 'lame' and the operator 'reverse'; give both one name") == 1


def test_an_operator(env, install, call, document) -> None:
    install("reversing", OPERATOR, "[ethogram.operators]\nreverse = reversing:REVERSE\n")
    (row,) = [o for o in document("operators", "--format", "txt")["operators"] if o["name"] == "reverse"]
    assert row["source"] == "reversing"
    Path("note.txt").write_text("abc\n")
    Path("suite.yaml").write_text(
        "name: s\ntasks:\n  - id: a\n    prompt: read\n    files: {note.txt: note.txt}\n"
        "    expected: abc\n    checks: [equals]\n"
    )
    agent = "def reads(task, episode):\n    return (episode.workspace / 'note.txt').read_text().strip()\n"
    Path("agents.py").write_text(agent)
    told = document("perturb", "--suite", "suite.yaml", "--agent", "agents.py:reads", "--operators", "reverse")
    (pair,) = told["pairs"]
    assert (pair["operator"], pair["delivered"]) == ("reverse", True)
