"""Paired experiments through the front door: files, tools and prompts, refusals, the floor, stopping and going on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.harness.agents import ScriptedAgent
from ethogram.harness.options import RunOptions
from ethogram.harness.suites import run
from ethogram.perturbations.catalogue import operators_for
from ethogram.plans import Task
from ethogram.questions.experiment.buying.experiment import Experiment
from ethogram.questions.experiment.question import experiment_results
from ethogram.questions.experiment.records import ExperimentResults
from ethogram.questions.home.kill_switch import kill
from ethogram.store import Home

LONG = bool(os.environ.get("ETHOGRAM_LONG"))
SALES = "item,price,stock\napple,3,12\nbread,4,0\nmilk,2,7\ncheese,9,1\ntea,6,30\n"
ASK = "What is the sum of the column price?"
OPERATORS = [o.name for o in operators_for("csv")]


def adder(task: Task, episode: Any) -> str:
    """Adds up a column; looks again where it cannot."""
    tools = episode.tools
    for _ in range(2):
        try:
            return str(tools["total"](name="sales.csv", column="price"))
        except (LookupError, ValueError, RuntimeError):
            tools["columns"](name="sales.csv")
    return "unknown"


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    path = tmp_path / "sales.csv"
    path.write_text(SALES)
    return path


def experiment(home: Home, file: Path | None, agent: Any = adder, **more: Any) -> Experiment:
    about: dict[str, Any] = {} if file is None else {"files": [file], "question": ASK, "score": "numeric"}
    if file is not None:
        about["expected"] = 24
    return Experiment(**{"agent": agent, "home": home, "run": "x", **about, **more})


def shown(found: ExperimentResults) -> dict[str, set[str]]:
    by: dict[str, set[str]] = {}
    for p in found.pairs:
        by.setdefault(p.operator, set()).add(p.pair.manifestation)
    return by


def test_one_file_all_operators(home: Home, sales: Path) -> None:
    found = experiment(home, sales, k=2).run()
    assert isinstance(found, ExperimentResults)
    assert [t.operator for t in found.treatments] == OPERATORS
    pairs = 2 * len(OPERATORS)
    assert (len(found.pairs), found.planned_pairs, found.missing) == (pairs, pairs, {})
    assert shown(found)["null_content"] == {"loop_or_extended_execution"}
    assert shown(found)["irrelevant_columns"] == {"no_observable_effect"}
    assert shown(found)["row_duplicate"] == {"silent_semantic_corruption"}
    assert found.noise_floor.reruns == 6  # the second clean attempt serves as well
    assert found.overall.accuracy_clean == 1.0
    assert found.overall.accuracy_lost.value is not None
    assert found.overall.accuracy_lost.value > 0.3
    assert sales.read_text() == SALES


def test_both_sides_of_a_pair_have_the_same_seed(home: Home, sales: Path) -> None:
    found = experiment(home, sales, k=3, operators=["row_duplicate", "tool_error", "prompt_typo"]).run()
    heads = {e.head.trace_id: e.head for e in home.run("x").entries}
    assert len(found.pairs) == 9
    for p in found.pairs:
        before, after = heads[p.pair.baseline_trace], heads[p.pair.trace]  # type: ignore[index]
        assert (before.seed, before.attempt, before.condition) == (after.seed, after.attempt, "")
        assert after.condition == p.condition


def test_clean_and_disturbed_attempts_are_counted_apart(home: Home, sales: Path) -> None:
    experiment(home, sales, k=2, noise_floor=3, operators=["row_duplicate", "unit_change"]).run()
    count: dict[str, int] = {}
    for entry in home.run("x").entries:
        count[entry.head.condition] = count.get(entry.head.condition, 0) + 1
    assert count == {"": 5, "row_duplicate": 2, "unit_change": 2}


def test_tools_and_prompts_can_be_disturbed_too(home: Home, sales: Path) -> None:
    names = ["tool_error", "tool_timeout", "truncated_result", "irrelevant_result", "prompt_typo", "prompt_paraphrase"]
    found = experiment(home, sales, operators=names).run()
    assert [t.operator for t in found.treatments] == names
    assert {t.kind for t in found.treatments} == {"tool", "prompt"}
    failed = {p.operator: p for p in found.pairs}
    assert failed["tool_error"].score_perturbed == 0.0
    assert failed["tool_error"].calls_changed == 2  # the sum, and the look that it does not survive
    assert failed["prompt_typo"].pair.d_norm == 0.0
    assert failed["prompt_typo"].calls_changed is None


def test_some_tools_only(home: Home, sales: Path) -> None:
    found = experiment(home, sales, operators=["tool_error"], tools=["columns"]).run()
    (pair,) = found.pairs
    assert pair.calls_changed == 0
    assert found.warnings == [
        "tool_error changed no call in any of its 1 pairs: the agent made no call that it could change"
    ]
    assert pair.pair.manifestation == "no_observable_effect"


def test_an_agent_that_writes_to_its_input_spoils_nothing(home: Home, sales: Path) -> None:
    seen = []

    def vandal(task: Task, episode: Any) -> str:
        place = episode.workspace / "sales.csv"
        seen.append(place.read_text())
        place.write_text("gone")
        (episode.workspace / "litter.txt").write_text("x")
        return "24"

    found = experiment(home, sales, vandal, k=2, operators=["row_duplicate"], noise_floor=2).run()
    assert sales.read_text() == SALES
    assert seen.count(SALES) == 4
    assert len(set(seen)) == 2
    assert "gone" not in seen
    assert {p.score_perturbed for p in found.pairs} == {1.0}


def test_an_empty_answer_and_no_answer_are_told_apart(home: Home, sales: Path) -> None:
    def silent(task: Task, episode: Any) -> str | None:
        hurt = (episode.workspace / "sales.csv").read_text() != SALES
        episode.tools["list_files"]()
        return ("" if episode.attempt == 0 else None) if hurt else "24"

    found = experiment(home, sales, silent, k=2, operators=["null_content"], noise_floor=1).run()
    assert [p.pair.manifestation for p in found.pairs] == ["silent_semantic_corruption"] * 2
    assert [p.score_perturbed for p in found.pairs] == [0.0, 0.0]
    assert [p.pair.answer_changed for p in found.pairs] == [True, True]


def test_without_an_expected_answer_behaviour_is_still_compared(home: Home, sales: Path) -> None:
    found = experiment(home, sales, expected=None, operators=["null_content", "column_swap"]).run()
    assert found.missing == {"unscored": 8}
    assert [(p.score_clean, p.score_perturbed) for p in found.pairs] == [(None, None)] * 2
    assert [p.pair.answer_changed for p in found.pairs] == [True, True]
    assert found.overall.accuracy_lost.value is None
    assert found.overall.accuracy_lost.why == "no attempt has a score on both sides"


@pytest.mark.parametrize(
    ("expected", "scorer", "answers"),
    [
        (24, "equality", ["24", "24.0", 24]),
        ("24", "numeric", ["the sum is 24", 24, 24.0]),
        (["apple", "tea"], "set", ["Tea, apple", '["apple", "tea"]', "- apple\n- tea"]),
        ({"apple", "tea"}, "set", ["apple and tea", ["tea", "apple"], "tea; apple."]),
        ("apple, tea", "one-of", ["Apple", "tea", "TEA "]),
        ("tea", "contains", ["I like tea", "tea", "Tea."]),
        (np.float64(24.0), "numeric", ["24", "24.0", 24]),
    ],
)
def test_answers_of_unequal_type(home: Home, sales: Path, expected: Any, scorer: str, answers: list[Any]) -> None:
    def agent(task: Task, episode: Any) -> Any:
        return {"answer": answers[episode.attempt]}

    made = experiment(
        home,
        sales,
        agent,
        k=3,
        expected=expected,
        score=scorer,
        operators=["row_duplicate"],
        noise_floor=0,
    )
    assert [(p.score_clean, p.score_perturbed) for p in made.run().pairs] == [(1.0, 1.0)] * 3


def test_a_set_with_one_too_many_is_wrong(home: Home, sales: Path) -> None:
    made = experiment(
        home,
        sales,
        lambda task, episode: ["apple, tea, lamp", "apple", "1000001"][episode.attempt],
        k=3,
        expected=["apple", "tea"],
        score="set",
        operators=["row_duplicate"],
        noise_floor=0,
    )
    assert [p.score_clean for p in made.run().pairs] == [0.0] * 3


def test_a_scorer_of_ones_own_lies_in_the_users_folder(
    home: Home, sales: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text("def near(answer, expected):\n    return abs(float(answer) - expected) < 2\n")
    monkeypatch.chdir(tmp_path)
    made = experiment(
        home, sales, lambda task, episode: "25", score="mine.py:near", operators=["unit_change"], noise_floor=0
    )
    (tmp_path / "mine.py").write_text("def near(answer, expected):\n    return 0\n")  # too late: the suite has its own
    assert [p.score_clean for p in made.run().pairs] == [1.0]
    with pytest.raises(NotFound, match=r"no file at .other\.py."):
        experiment(home, sales, score="other.py:near", run="y")
    with pytest.raises(NotFound, match="did you mean 'near'"):
        experiment(home, sales, score="mine.py:neer", run="y")
    (tmp_path / "bad.py").write_text("import beside_me\n")
    with pytest.raises(BadUsage, match="not what lies beside it"):
        experiment(home, sales, score="bad.py:near", run="y")


def test_no_usage_means_no_token_overhead(home: Home, sales: Path) -> None:
    found = experiment(home, sales, operators=["row_duplicate"]).run()
    assert found.overall.token_overhead == "unavailable"
    assert [p.pair.token_overhead for p in found.pairs] == ["unavailable"]

    def talker(task: Task, episode: Any) -> str:
        with episode.record.model(model="m") as call:
            hurt = (episode.workspace / "sales.csv").read_text() != SALES
            call.done("hm", input_tokens=30 if hurt else 10, output_tokens=0, cost_usd=0.0)
        return "24"

    part = experiment(home, sales, talker, operators=["row_duplicate"], run="part").run()
    assert part.overall.token_overhead == "unavailable", "nothing tells if the calls that it recorded are all"
    talker.meters = ("tokens", "usd")  # type: ignore[attr-defined]
    counted = experiment(home, sales, talker, operators=["row_duplicate"], run="y").run()
    assert counted.overall.token_overhead == 3.0


# ---- the floor ----


def test_outside_agents_are_run_again_and_scripted_ones_are_not(home: Home, sales: Path) -> None:
    scripted = ScriptedAgent({"*": [[("tool", "list_files", {}), "24"]]})
    assert experiment(home, sales).noise_floor == 5
    made = experiment(home, sales, scripted, operators=["row_duplicate"])
    assert made.noise_floor == 0
    found = made.run()
    assert found.deterministic
    assert not found.noise_floor.measured
    assert found.warnings == []


def test_an_unmeasured_or_thin_floor_is_warned_of_loudly(home: Home, sales: Path) -> None:
    none = experiment(home, sales, operators=["row_duplicate"], noise_floor=0).run()
    assert none.pairs[0].pair.within_noise_floor is None
    assert none.overall.within_noise_floor is None
    assert any("the noise floor was not measured" in w for w in none.warnings)
    one = experiment(home, sales, operators=["row_duplicate"], noise_floor=1, run="y").run()
    assert one.noise_floor.reruns == 1
    assert any("50 % of pairs are above it" in w for w in one.warnings)
    assert experiment(home, sales, operators=["row_duplicate"], run="z").run().warnings == []


# ---- before anything runs ----


class Counting:
    """An agent that counts its calls."""

    name = "counting"
    meters = frozenset({"steps", "tokens", "usd", "seconds"})

    def __init__(self) -> None:
        self.calls = 0

    async def act(self, task: Task, episode: Any) -> Any:
        from ethogram.harness.agents import Answer

        self.calls += 1
        return Answer("24")


def test_a_dry_run_calls_nothing_and_leaves_no_run(home: Home, sales: Path) -> None:
    agent = Counting()
    made = experiment(home, sales, agent, k=2, options=RunOptions())
    planned = made.run(dry_run=True)
    assert agent.calls == 0
    assert home.names() == []
    assert (planned.episodes, planned.k, planned.reruns) == (7 + 2 * len(OPERATORS), 2, 5)
    assert [c.operator for c in planned.changes] == OPERATORS
    assert all(c.summary for c in planned.changes)
    assert all(c.where for c in planned.changes)
    assert planned.cost_usd_at_most is None
    assert "--max-usd" in str(planned.why)
    assert planned.to_df()["operator"].tolist() == OPERATORS
    made.run()
    assert agent.calls == planned.episodes


def test_a_dry_run_with_another_question_is_not_held_to_the_first(home: Home, sales: Path) -> None:
    experiment(home, sales).plan()
    sales.write_text(SALES + "soap,5,4\n")
    made = experiment(home, sales, question="Another one?", expected=29, operators=["unit_change"])
    assert made.loaded.suite.tasks[0].prompt == "Another one?"
    assert made.run().overall.accuracy_clean == 1.0


def pdf(text: bool, password: str | None = None) -> bytes:
    pikepdf = pytest.importorskip("pikepdf", reason="the extra 'files' is not installed")
    import io

    out = io.BytesIO()
    with pikepdf.new() as made:
        page = made.add_blank_page()
        if text:
            page.obj.Contents = made.make_stream(b"BT /F1 12 Tf 72 700 Td (The total is 24 euros.) Tj ET")
            font = b"<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
            page.obj.Resources = pikepdf.Object.parse(font)
        made.save(out, encryption=pikepdf.Encryption(user=password, owner="o") if password else False)
    return out.getvalue()


@pytest.mark.parametrize(
    ("body", "reason"), [(lambda: pdf(True, "secret"), "password-protected"), (lambda: pdf(False), "looks like a scan")]
)
def test_a_pdf_that_cannot_be_changed_is_refused_with_its_reason(
    home: Home, tmp_path: Path, body: Any, reason: str
) -> None:
    path = tmp_path / "bill.pdf"
    path.write_bytes(body())
    agent = Counting()
    made = Experiment(
        agent=agent,
        files=path,
        question="What is the total?",
        operators=["number_corruption", "text_redaction"],
        home=home,
        run="x",
    )
    assert [r.operator for r in made.plan().not_applicable] == ["number_corruption", "text_redaction"]
    assert all(reason in r.why for r in made.not_applicable)
    with pytest.raises(BadUsage, match=reason):
        made.run()
    assert agent.calls == 0
    assert home.names() == []


def test_a_sheet_without_numbers_is_changed_by_those_that_can(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    path.write_text("first,last\nAda,Lovelace\nAlan,Turing\nGrace,Hopper\n")
    made = Experiment(agent=Counting(), files=[path], question="Who?", home=home)
    assert {r.operator for r in made.not_applicable} == {"data_type_corrupt", "unit_change"}
    assert len(made.treatments) == 5


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"k": 0}, "at least one pair"),
        ({"noise_floor": -1}, "makes no sense"),
        ({"intensities": [0.5, 2]}, "the intensity 2 makes no sense"),
        ({"intensities": ["strong"]}, "the intensity 'strong' makes no sense"),
        ({"intensities": []}, "needs an intensity"),
        ({"operators": ["colum_swap"]}, "did you mean 'column_swap'"),
        ({"operators": ["page_removal"]}, "page_removal changes pdf files, and the tasks have none"),
        ({"score": "numerik"}, "did you mean 'numeric'"),
        ({"files": []}, "needs files and a question"),
        ({"question": " "}, "needs files and a question"),
        ({"files": ["nowhere.csv"]}, "no file at 'nowhere.csv'"),
        ({"run": "../out"}, "cannot name a run"),
        ({"expected": object()}, "type object cannot be kept"),
        ({"expected": "many"}, "needs a number to compare with"),
        ({"suite": "suite"}, "a suite has files, questions"),
        ({"options": RunOptions(k=3)}, "give k, seed and name to the experiment"),
    ],
)
def test_bad_input_is_one_sentence(home: Home, sales: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said) as caught:
        experiment(home, sales, **more)
    assert caught.value.exit_code == 64
    assert "\n" not in str(caught.value)
    assert home.names() == []


def test_two_files_of_one_name_are_refused(home: Home, sales: Path, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "sales.csv").write_text(SALES)
    with pytest.raises(BadUsage, match=r"two of the files are named .sales\.csv."):
        experiment(home, sales, files=[sales, tmp_path / "b" / "sales.csv"])


# ---- a whole suite ----


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A table, a text, and a task without any file."""
    folder = tmp_path / "mixed"
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "sales.csv").write_text(SALES)
    (folder / "files" / "note.md").write_text("# Note\n\nRent is 2100 a month.\n\n# More\n\nThe lease ends in 2027.\n")
    (folder / "tasks.yaml").write_text(
        """
- {id: table, prompt: 'Sum?', files: {sales.csv: files/sales.csv}, expected: 24, checks: [numeric]}
- {id: text, prompt: 'Rent?', files: {note.md: files/note.md}, expected: 2100, checks: [numeric]}
- {id: bare, prompt: 'How much is six times seven?', expected: 42, checks: [numeric]}
"""
    )
    return folder


def reader(task: Task, episode: Any) -> str:
    if task.id == "bare":
        return "42"
    words = "".join(p.read_text(errors="replace") for p in sorted(episode.workspace.iterdir()))
    return "24" if "cheese,9" in words else "2100" if "2100" in words else "unknown"


def test_operators_are_tried_on_every_task_and_run_where_they_fit(home: Home, mixed: Path) -> None:
    made = Experiment(suite=mixed, agent=reader, operators=["unit_change", "number_corruption"], home=home, run="x")
    assert {t.condition: t.tasks for t in made.treatments} == {
        "unit_change sales.csv": ["table"],
        "number_corruption note.md": ["text"],
    }
    assert [(r.operator, r.task) for r in made.not_applicable] == [
        ("unit_change", "text"),
        ("unit_change", "bare"),
        ("number_corruption", "table"),
        ("number_corruption", "bare"),
    ]
    found = made.run()
    assert {(p.operator, p.pair.task) for p in found.pairs} == {("unit_change", "table"), ("number_corruption", "text")}
    assert found.missing == {}


def test_by_default_every_file_meets_the_operators_of_its_format(home: Home, mixed: Path) -> None:
    found = Experiment(suite=mixed, agent=reader, home=home, run="x", noise_floor=2).run()
    by_file: dict[str | None, set[str]] = {}
    for t in found.treatments:
        by_file.setdefault(t.file, set()).add(t.operator)
    assert by_file["sales.csv"] == set(OPERATORS)
    assert "paragraph_shuffle" in by_file["note.md"]
    assert not found.missing
    assert len(found.pairs) == len(found.treatments) == found.planned_pairs


def test_some_tasks_of_a_suite(home: Home, mixed: Path) -> None:
    made = Experiment(suite=mixed, agent=reader, options=RunOptions(tasks=("text",)), home=home, noise_floor=0)
    assert {t.file for t in made.treatments} == {"note.md"}
    assert made.plan().episodes == 1 + len(made.treatments)
    with pytest.raises(BadUsage, match="no file that a built-in operator"):
        Experiment(suite=mixed, agent=reader, options=RunOptions(tasks=("bare",)), home=home)


def test_intensities_make_a_dose_response(home: Home, sales: Path) -> None:
    def stubborn(task: Task, episode: Any) -> str:
        for _ in range(3):
            try:
                return str(episode.tools["total"](name="sales.csv", column="price"))
            except RuntimeError:
                continue
        return "unknown"

    found = experiment(home, sales, stubborn, k=12, operators=["tool_error"], intensities=[1, 0.2, 0.6]).run()
    doses = found.dose_response
    assert [d.intensity for d in doses] == [0.2, 0.6, 1.0]
    assert [d.pairs for d in doses] == [12, 12, 12]
    accuracy = [d.accuracy_perturbed for d in doses]
    assert accuracy == sorted(accuracy, reverse=True)  # type: ignore[type-var]
    assert accuracy[0] is not None
    assert accuracy[0] > 0.8  # three tries, one of five calls fails
    assert accuracy[-1] == 0.0
    lost = doses[-1].accuracy_lost
    assert lost.value == 1.0
    assert lost.low is not None
    assert lost.low > 0.5
    assert [t.condition for t in found.treatments] == ["tool_error @0.2", "tool_error @0.6", "tool_error @1"]


def test_operators_of_ones_own(home: Home, sales: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.py").write_text(
        "from ethogram.perturbations.operator import Change\n"
        "class Shout:\n"
        "    name, kind, formats, does = 'shout', 'table', ('csv',), 'letters are made large'\n"
        "    def applicable(self, content, format):\n"
        "        return None\n"
        "    def apply(self, content, format, seed, intensity=1.0):\n"
        "        return Change(content.upper(), 'all letters', (), (), (), 1)\n"
    )
    monkeypatch.chdir(tmp_path)
    made = experiment(home, sales, operators=["own.py:Shout", "row_duplicate"])
    monkeypatch.chdir(tmp_path.parent)  # a resume may come from anywhere
    assert [t.operator for t in made.run().treatments] == ["shout", "row_duplicate"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.py").write_text((tmp_path / "own.py").read_text())
    with pytest.raises(BadUsage, match="both be named 'shout'"):
        experiment(home, sales, operators=["own.py:Shout", "two.py:Shout"], run="y")


# ---- stopping and going on ----


def test_a_run_goes_on_only_as_it_began(home: Home, sales: Path) -> None:
    usual: dict[str, Any] = {"operators": ["row_duplicate", "unit_change"], "noise_floor": 1}
    first = experiment(home, sales, **usual).run()
    again = experiment(home, sales, **usual)
    assert again.run().to_json() == first.to_json()
    assert again.session is not None
    assert again.session.executed == 0
    for other, said in (
        ({"k": 2}, "another k"),
        ({"noise_floor": 2}, "another noise floor"),
        ({"seed": 4}, "another seed"),
        ({"operators": ["row_duplicate"]}, "another operators, intensities or tools"),
        ({"intensities": [0.5]}, "another operators"),
        ({"agent": reader}, "another agent"),
        ({"question": "Something else?"}, "another question, other files or another scorer"),
        ({"expected": 25}, "another question, other files or another scorer"),
    ):
        with pytest.raises(BadUsage, match=said):
            experiment(home, sales, **{**usual, **other})
    assert experiment_results("x", home=home).to_json() == first.to_json()
    assert experiment(home, sales, **usual).run().to_json() == first.to_json()  # and nothing was spoilt


def test_the_name_of_another_run_is_taken(home: Home, sales: Path, mixed: Path) -> None:
    run(str(mixed), reader, run="x", home=home)
    with pytest.raises(BadUsage, match="exists already and is not an experiment"):
        experiment(home, sales)
    with pytest.raises(BadUsage, match="is not a paired experiment"):
        experiment_results("x", home=home)


def test_the_kill_switch_leaves_what_was_done(home: Home, sales: Path) -> None:
    made = experiment(home, sales, operators=["row_duplicate", "unit_change"], noise_floor=1)

    def pulls(task: Task, episode: Any) -> str:
        kill(home=home)
        time.sleep(0.3)
        return "24"

    pulls.__name__ = adder.__name__
    stopping = experiment(
        home,
        sales,
        pulls,
        operators=["row_duplicate", "unit_change"],
        noise_floor=1,
        options=RunOptions(workers=1),
    )
    part = stopping.run()
    assert stopping.session is not None
    assert stopping.session.stopped == "killed"
    assert part.missing["not_run"] >= 1
    assert any("pairs lack one side" in w for w in part.warnings)
    kill(undo=True, home=home)
    whole = made.run()
    assert len(whole.pairs) == whole.planned_pairs == 2
    assert "not_run" not in whole.missing


AGENT = """
import time

def solve(task, episode):
    time.sleep(0.05)
    for _ in range(1 + int(3 * episode.rng.random())):
        episode.tools["columns"](name="sales.csv")
    try:
        return episode.tools["total"](name="sales.csv", column="price")
    except (LookupError, ValueError):
        return "unknown"
"""


def _start(place: Path, name: str) -> subprocess.Popen[bytes]:
    program = (
        "import sys, ethogram.questions.experiment.buying.experiment as e\n"
        "found = e.Experiment(agent='act.py:solve', files=['sales.csv'], question='Sum?', expected=24,\n"
        "    score='numeric', k=4, run=sys.argv[1], home='home',\n"
        "    options=e.RunOptions(workers=2)).run()\n"
        "assert not any(m == 'ray' or m.startswith('ray.') for m in sys.modules), 'Ray is not needed'\n"
        "open(sys.argv[1] + '.json', 'w').write(found.to_json())\n"
    )
    return subprocess.Popen([sys.executable, "-c", program, name], cwd=place)


def test_killed_in_the_middle_and_gone_on_gives_the_same_results(tmp_path: Path, sales: Path) -> None:
    (tmp_path / "act.py").write_text(AGENT)
    assert _start(tmp_path, "whole").wait(120) == 0
    torn = _start(tmp_path, "torn")
    segments = tmp_path / "home" / "runs" / "torn" / "ledger"
    until = time.monotonic() + 60
    while not list(segments.glob("*.jsonl.zst")) and time.monotonic() < until:
        time.sleep(0.01)
    torn.send_signal(signal.SIGKILL)
    torn.wait(timeout=60)
    assert not (tmp_path / "torn.json").exists(), "it was killed too late to show anything"
    for lease in (tmp_path / "home" / "runs" / "torn" / "writers").glob("*.json"):
        lease.unlink()  # of the dead
    assert _start(tmp_path, "torn").wait(120) == 0
    one, two = (json.loads((tmp_path / f"{n}.json").read_text()) for n in ("whole", "torn"))
    for document in (one, two):
        document.pop("run")
        for pair in document["pairs"]:
            del pair["pair"]["baseline_trace"], pair["pair"]["trace"]  # they are named after their run
    assert one == two
    assert len(one["pairs"]) == 28


def test_many_files_in_one_question(home: Home, sales: Path, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("Prices are in euros.\n\nStock was counted in May, by 2 people.\n")
    found = experiment(home, sales, files=[sales, tmp_path / "note.txt"], noise_floor=1).run()
    assert {t.file for t in found.treatments} == {"sales.csv", "note.txt"}
    assert "null_content note.txt" in {t.condition for t in found.treatments}
    assert "null_content sales.csv" in {t.condition for t in found.treatments}
    assert {p.pair.manifestation for p in found.pairs if p.file == "note.txt"} == {"no_observable_effect"}


@pytest.mark.skipif(not LONG, reason="a file of 200 MB takes minutes; ETHOGRAM_LONG=1 runs it")
def test_a_csv_of_200_mb(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    rows = "".join(f"thing {i},{i % 97},{i % 13}\n" for i in range(10_000))
    path.write_text("item,price,stock\n" + rows * (200_000_000 // len(rows) + 1))
    assert path.stat().st_size >= 200_000_000
    made = Experiment(
        agent=lambda task, episode: str((episode.workspace / "sales.csv").stat().st_size),
        files=[path],
        question="How large?",
        expected=path.stat().st_size,
        operators=["row_duplicate"],
        noise_floor=0,
        home=home,
    )
    (pair,) = made.run().pairs
    assert (pair.score_clean, pair.score_perturbed) == (1.0, 0.0)


def test_copies_of_files_go_with_what_they_were_made_for(home: Home, sales: Path) -> None:
    from ethogram.questions.home.runs import rm

    copies = Path(home.files.address) / "suites"
    with pytest.raises(BadUsage, match="changes txt or md files"):
        experiment(home, sales, operators=["ocr_noise"])
    assert not list(copies.glob("*"))
    planned = experiment(home, sales)
    assert planned.plan().episodes > 0
    planned.discard()
    assert not list(copies.glob("*"))
    made = experiment(home, sales, operators=["row_duplicate"], noise_floor=0)
    made.run()
    made.discard()  # a run leans on them now
    assert sorted(p.name for p in copies.iterdir()) == ["hashes.json", "x"]
    rm("x", home=home)
    assert [p.name for p in copies.iterdir()] in ([], ["hashes.json"])


def test_where_nothing_can_be_changed_nothing_is_planned(home: Home, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    made = experiment(home, tmp_path / "empty.csv")
    assert made.plan().episodes == 0
    with pytest.raises(BadUsage, match="nothing was run"):
        made.run()
