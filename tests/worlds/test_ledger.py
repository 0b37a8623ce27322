"""The ledger: a suite that ships, whose questions have the answers it says."""

from __future__ import annotations

from typing import Any

from ethogram.perturbations.catalogue import operators_for
from ethogram.plans import Task
from ethogram.questions.experiment.buying.experiment import Experiment
from ethogram.store import Home
from ethogram.suites.load import load_suite


def right(task: Task, episode: Any) -> str:
    return str(episode.tools["largest"](column=task.id.removeprefix("largest-")))


def test_the_table_has_the_answers_and_every_operator_can_change_it(home: Home) -> None:
    made = Experiment(suite="ethogram.worlds.ledger", agent=right, home=home, run="x", noise_floor=1)
    assert [t.operator for t in made.treatments] == [o.name for o in operators_for("csv")]
    assert made.not_applicable == []
    found = made.run()
    assert found.overall.accuracy_clean == 1.0
    assert found.overall.accuracy_perturbed is not None
    assert found.overall.accuracy_perturbed < 1.0
    assert len({p.pair.manifestation for p in found.pairs}) >= 3


def test_the_suite_is_loaded_by_its_name_alone() -> None:
    loaded = load_suite("ethogram.worlds.ledger")
    assert [t.id for t in loaded.suite.tasks] == ["largest-stock", "largest-price"]
    assert all(t.files["ledger.csv"].digest for t in loaded.suite.tasks)
