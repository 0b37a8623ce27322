"""Results of stored experiments: pairs, aggregates by hand, what is missing, rows and CSV."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ethogram.errors import BadUsage, Refused
from ethogram.harness.faults import NetworkFault
from ethogram.harness.options import RunOptions
from ethogram.harness.run_result import RunInterrupted
from ethogram.harness.suites import resume_run
from ethogram.plans import Task
from ethogram.questions.divergence.diff import diff
from ethogram.questions.divergence.question import divergence
from ethogram.questions.experiment.buying.experiment import Experiment
from ethogram.questions.experiment.question import experiment_results
from ethogram.questions.experiment.records import ExperimentResults
from ethogram.store import Home

SUITE = """
- {id: a, prompt: 'Look, please.', files: {t.csv: t.csv}, expected: fine, checks: [equals]}
- {id: b, prompt: 'Look, please.', files: {t.csv: t.csv}, expected: fine, checks: [equals]}
"""
CLEAN = "x,y\n1,2\n3,4\n5,6\n"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "two"
    folder.mkdir()
    (folder / "t.csv").write_text(CLEAN)
    (folder / "tasks.yaml").write_text(SUITE)
    (folder / "tools.py").write_text("def tools(task, episode):\n    return {'look': lambda: 1, 'peer': lambda: 2}\n")
    return folder


def agent(task: Task, episode: Any) -> str:
    """Looks twice; on damage task a goes another way and arrives, task b gives another answer at the second attempt."""
    hurt = (episode.workspace / "t.csv").read_text() != CLEAN
    with episode.record.model(model="m") as call:
        call.done("hm", input_tokens=20 if hurt else 10, output_tokens=0, cost_usd=0.0)
    episode.tools["look"]()
    episode.tools["peer" if hurt and task.id == "a" else "look"]()
    return "broken" if hurt and task.id == "b" and episode.attempt == 1 else "fine"


agent.meters = ("tokens", "usd")  # type: ignore[attr-defined]


def made(home: Home, suite: Path, how: Any = agent, **more: Any) -> Experiment:
    usual: dict[str, Any] = {"operators": ["row_duplicate"], "k": 2, "noise_floor": 1, "run": "x", "home": home}
    return Experiment(suite=suite, agent=how, **{**usual, **more})


def test_every_figure_by_hand(home: Home, suite: Path) -> None:
    made(home, suite).run()
    found = experiment_results("x", home=home)
    assert [(p.pair.task, p.attempt, p.pair.manifestation) for p in found.pairs] == [
        ("a", 0, "structural_divergence_recovered"),
        ("a", 1, "structural_divergence_recovered"),
        ("b", 0, "no_observable_effect"),
        ("b", 1, "silent_semantic_corruption"),
    ]
    # model, look, look against model, look, peer: one of three steps
    assert [p.pair.d_norm for p in found.pairs] == pytest.approx([1 / 3, 1 / 3, 0, 0])
    whole = found.overall
    assert found.aggregates[0].name == "row_duplicate"
    assert (whole.name, whole.pairs) == ("all", 4)
    assert whole.mean_d_norm == pytest.approx(1 / 6)
    assert whole.max_d_norm == pytest.approx(1 / 3)
    assert whole.recovery_rate.value == 1.0
    assert whole.recovery_rate.n == 2
    assert whole.token_overhead == 2.0
    assert (whole.accuracy_clean, whole.accuracy_perturbed) == (1.0, 0.75)
    assert whole.accuracy_lost.value == pytest.approx(0.25)
    assert whole.within_noise_floor is not None
    assert whole.within_noise_floor.value == 0.5
    shares = {name: e.value for name, e in whole.manifestations.items() if e.value}
    assert shares == {
        "structural_divergence_recovered": 0.5,
        "no_observable_effect": 0.25,
        "silent_semantic_corruption": 0.25,
    }
    inside = {name: e.value for name, e in whole.manifestations_within_floor.items() if e.value}
    assert inside == {"no_observable_effect": 0.25, "silent_semantic_corruption": 0.25}
    assert sum(e.value or 0 for e in whole.groups.values()) == 1.0
    assert (found.noise_floor.max, found.noise_floor.pairs, found.noise_floor.reruns) == (0.0, 6, 2)
    assert found.dose_response == []
    assert found.missing == {}


def test_a_missing_side_takes_its_own_pair_away_and_no_other(home: Home, suite: Path) -> None:
    def shaky(task: Task, episode: Any) -> str:
        if task.id == "a" and episode.attempt == 0 and (episode.workspace / "t.csv").read_text() == CLEAN:
            raise NetworkFault("the wire is cut")
        return agent(task, episode)

    found = made(home, suite, shaky, options=RunOptions(retries=0)).run()
    assert [(p.pair.task, p.attempt) for p in found.pairs] == [("a", 1), ("b", 0), ("b", 1)]
    heads = {e.head.trace_id: e.head for e in home.run("x").entries}
    for p in found.pairs:
        assert heads[p.pair.baseline_trace].seed == heads[p.pair.trace].seed  # type: ignore[index]
    assert found.missing == {"infrastructure.network": 1}
    assert found.planned_pairs == 4
    assert any(w.startswith("1 of 4 pairs lack one side or both") for w in found.warnings)


def test_documents_rows_and_csv_agree(home: Home, suite: Path) -> None:
    found = made(home, suite).run()
    document = json.loads(found.to_json())
    assert document["schema_version"] == 1
    assert msgspec.convert(document, ExperimentResults).pairs == found.pairs
    rows = found.rows()
    frame = found.to_df()
    table = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert list(frame.columns) == list(rows[0]) == list(table[0])
    assert [float(r["d_norm"]) for r in table] == [p.pair.d_norm for p in found.pairs]
    assert [r["manifestation"] for r in table] == [p.pair.manifestation for p in found.pairs]
    assert all(set(r) >= {"substitutions", "insertions", "deletions", "operator", "score_clean"} for r in rows)


def test_nothing_done_yet_is_not_an_empty_result(home: Home, suite: Path) -> None:
    async def stops(task: Task, episode: Any) -> str:
        raise KeyboardInterrupt

    stops.__name__ = "agent"
    with pytest.raises((RunInterrupted, KeyboardInterrupt)):
        made(home, suite, stops).run()
    with pytest.raises(Refused, match="no clean episode of the experiment 'x' is done yet"):
        experiment_results("x", home=home)
    resume_run("x", agent=agent, home=home)
    assert len(experiment_results("x", home=home).pairs) == 4


def test_a_run_that_is_no_experiment_says_so(home: Home, suite: Path) -> None:
    from ethogram.harness.suites import run

    run(str(suite), agent, run="plain", home=home)
    with pytest.raises(BadUsage, match="make one with: ethogram perturb"):
        experiment_results("plain", home=home)


def answers(task: Task, episode: Any) -> str:
    """Takes no step that is recorded; damage changes what it says on task b."""
    hurt = (episode.workspace / "t.csv").read_text() != CLEAN
    return "broken" if hurt and task.id == "b" else "fine"


def test_a_crash_on_every_input_is_not_no_effect(home: Home, suite: Path) -> None:
    def broken(task: Task, episode: Any) -> str:
        raise ValueError("I never work")

    found = made(home, suite, broken).run()
    assert {p.pair.manifestation for p in found.pairs} == {"baseline_crash"}
    assert {(p.pair.baseline_crashed, p.pair.crashed, p.pair.answer_changed) for p in found.pairs} == {
        (True, True, None)
    }
    assert found.overall.manifestations["no_observable_effect"].value == 0.0
    assert found.overall.groups["not_comparable"].value == 1.0
    assert any(w.startswith("the agent crashed on clean input in 4 of 4 pairs") for w in found.warnings)


def test_a_crash_on_damage_is_a_crash_and_not_silent(home: Home, suite: Path) -> None:
    def fragile(task: Task, episode: Any) -> str:
        episode.tools["look"]()
        if (episode.workspace / "t.csv").read_text() != CLEAN:
            raise ValueError("I cannot read this")
        return "fine"

    found = made(home, suite, fragile).run()
    assert {p.pair.manifestation for p in found.pairs} == {"crash"}
    assert {p.pair.answer_changed for p in found.pairs} == {None}
    assert found.overall.counts == {"crash": 4}
    assert found.overall.groups["silent_corruption"].value == 0.0
    assert "crash: 4 pairs" in found.summary()
    pair = found.pairs[0].pair
    two = diff(pair.baseline_trace, pair.trace, home=home)
    assert (two.manifestation, two.first.crashed, two.second.crashed) == ("crash", False, True)


def test_without_steps_distances_are_unavailable_and_answers_speak(home: Home, suite: Path) -> None:
    found = made(home, suite, answers).run()
    assert [(p.pair.task, p.pair.manifestation, p.pair.d_norm) for p in found.pairs] == [
        ("a", "answer_same", None),
        ("a", "answer_same", None),
        ("b", "answer_changed", None),
        ("b", "answer_changed", None),
    ]
    row = json.loads(found.to_json())["pairs"][0]["pair"]
    assert [row[n] for n in ("d_norm", "t_star", "edits", "control_flow_changes", "within_noise_floor")] == [None] * 5
    assert "no steps captured; by answer alone" in row["rule"]
    assert not found.noise_floor.measured
    whole = found.overall
    assert (whole.mean_d_norm, whole.max_d_norm, whole.within_noise_floor) == (None, None, None)
    assert whole.groups["by_answer_alone"].value == 1.0
    assert (whole.recovery_rate.value, whole.recovery_rate.why) == (None, "no steps captured")
    assert [w for w in found.warnings if "no steps captured" in w]
    assert next(csv.DictReader(io.StringIO(found.to_csv())))["substitutions"] == ""
    again = experiment_results("x", home=home)  # the floor is read from its record now
    assert again.noise_floor == found.noise_floor
    apart = divergence("x", "x", condition="row_duplicate", against_condition="", draws=99, home=home)
    assert (apart.mean_of_means, apart.evidence) == (None, "unavailable: no steps captured")


def test_what_never_reached_the_agent_is_listed_and_in_no_share(home: Home, suite: Path) -> None:
    def looks(task: Task, episode: Any) -> str:
        if task.id == "a":
            return "fine"  # calls nothing
        with episode.record.model(model="m") as call:
            call.done("hm", input_tokens=1, output_tokens=1, cost_usd=0.0)
        try:
            episode.tools["look"]()
        except RuntimeError:
            return "broken"
        return "fine"

    found = made(home, suite, looks, operators=["tool_error"]).run()
    assert [(p.pair.task, p.delivered) for p in found.pairs] == [("a", False), ("a", False), ("b", True), ("b", True)]
    assert [(u.task, u.attempt) for u in found.undelivered] == [("a", 0), ("a", 1)]
    whole = found.overall
    assert (found.delivered_pairs, whole.pairs, whole.delivered) == (2, 4, 2)
    assert whole.manifestations["structural_divergence_with_outcome_change"].value == 1.0
    assert whole.manifestations["structural_divergence_with_outcome_change"].n == 2
    assert (whole.accuracy_lost.value, whole.accuracy_lost_delivered.value) == (0.5, 1.0)
    assert any("reached the agent in 2 of 4 pairs only" in w for w in found.warnings)
    assert [(c.operator, c.task, c.delivered, c.changed, c.score_lost) for c in found.by_task] == [
        ("tool_error", "a", 0, 0, None),
        ("tool_error", "b", 2, 2, 1.0),
    ]


def test_recovered_means_that_the_outcome_came_back(home: Home, suite: Path) -> None:
    def wordy(task: Task, episode: Any) -> str | None:
        """Takes another way on damage; on a it arrives in other words, on b with the same wrong answer."""
        hurt = (episode.workspace / "t.csv").read_text() != CLEAN
        episode.tools["peer" if hurt else "look"]()
        return ("FINE" if hurt else "fine") if task.id == "a" else "wrong"

    found = made(home, suite, wordy).run()
    assert [(p.pair.task, p.pair.manifestation, p.pair.recovered) for p in found.pairs] == [
        ("a", "structural_divergence_recovered", True),
        ("a", "structural_divergence_recovered", True),
        ("b", "structural_divergence", None),
        ("b", "structural_divergence", None),
    ]
    assert (found.overall.recovery_rate.value, found.overall.recovery_rate.n) == (1.0, 2)


def test_no_answer_and_no_outcome_is_no_recovery(home: Home, suite: Path) -> None:
    (suite / "tasks.yaml").write_text("- {id: a, prompt: 'Look, please.', files: {t.csv: t.csv}}\n")

    def mute(task: Task, episode: Any) -> None:
        episode.tools["peer" if (episode.workspace / "t.csv").read_text() != CLEAN else "look"]()

    found = made(home, suite, mute).run()
    assert {p.pair.manifestation for p in found.pairs} == {"structural_divergence"}
    assert found.overall.recovery_rate.value is None
    assert "an outcome or an answer" in (found.overall.recovery_rate.why or "")


def test_the_summary_says_what_matters_first_and_warns(home: Home, suite: Path) -> None:
    found = made(home, suite, noise_floor=0, k=1).run()
    assert found.noise_floor_runs == 0
    lines = found.summary().splitlines()
    assert lines[0] == f"x: 2 of 2 pairs, agent {found.agent}"
    assert lines[1].startswith("  WARNING: the noise floor was not measured")
    assert lines[2].startswith("  accuracy lost to the damage: ")
    measured = made(home, suite, run="y", noise_floor=3).run()
    assert measured.noise_floor_runs == 3
    assert "WARNING" not in measured.summary()
    assert "noise floor: mean 0.000, largest 0.000 (4 re-runs of each clean attempt)" in measured.summary()
