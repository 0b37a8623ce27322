"""A replay repeats recorded answers: no question about samples takes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadUsage
from ethogram.questions.compare.question import compare
from ethogram.questions.cost.question import cost
from ethogram.questions.divergence.question import divergence
from ethogram.questions.field.question import field
from ethogram.questions.gate.planning import plan
from ethogram.questions.gate.question import gate
from ethogram.questions.home.runs import show
from ethogram.questions.reliability.question import stats
from ethogram.store import Home, open_home
from ethogram.store.lake import REPLAY, REPLAYED
from ethogram.viewer.report.parts import report_view

QUESTIONS: dict[str, Callable[[Home], Any]] = {
    "stats": lambda home: stats("again", home=home),
    "compare": lambda home: compare("night", "again", home=home),
    "compare, as the base": lambda home: compare("again", "night", home=home),
    "gate": lambda home: gate("night", "again", home=home),
    "plan": lambda home: plan(pilot="again", home=home),
    "divergence": lambda home: divergence("again", home=home),
    "divergence, as the base": lambda home: divergence("night", "again", home=home),
    "field": lambda home: field("again", home=home),
    "cost": lambda home: cost("again", home=home),
    "report": lambda home: report_view("again", home=home),
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = open_home(str(tmp_path / "home"))
    home.create("night", "run")
    home.create("again", REPLAY, plan={REPLAYED: "night"})
    return home


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_replay_is_refused_with_the_run_to_ask_about(question: str, home: Home) -> None:
    with pytest.raises(BadUsage, match=r"'again' repeats the recorded answers of 'night'.*ask about 'night' instead"):
        QUESTIONS[question](home)


def test_a_replay_can_be_looked_at(home: Home) -> None:
    assert show("again", home=home).kind == REPLAY
