"""What becomes of an episode that the agent spoiled: the same whether it runs or is scored again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ethogram.harness.options import AllCaps
from ethogram.harness.suites import run as run_suite
from ethogram.plans import Suite
from ethogram.plans.task import BLAMES
from ethogram.prices import Caps
from ethogram.questions.scoring.question import score, score_trace
from ethogram.store import Home
from ethogram.suites.blame import outcome_after_stop, outcome_without_checks
from ethogram.suites.load import load_suite
from ethogram.traces import Missing, Outcome, Scored

UNSCORED = Missing("unscored", "the task has no required check")


def spoil(task: Any, episode: Any) -> str:
    """Crash, or never stop."""
    if task.id.startswith("crash"):
        raise ZeroDivisionError("my own fault")
    while True:
        with episode.record.model(at_most_usd=0.01) as call:
            call.done("x", input_tokens=10, output_tokens=10, cost_usd=0.01)


spoil.meters = ("tokens", "usd")  # type: ignore[attr-defined]


def written(folder: Path, rules: str) -> str:
    """A suite that is spoiled in two ways, with an episode that can be checked and one that cannot."""
    tasks = "".join(
        f"  - {{id: {how}-{what}, checks: [{{{check}}}]}}\n"
        for how in ("crash", "cap")
        for what, check in (("checked", "contains: x"), ("unchecked", "contains: x, required: false"))
    )
    path = folder / "spoiled.yaml"
    path.write_text(f"name: spoiled\n{rules}tasks:\n{tasks}")
    return str(path)


@pytest.mark.parametrize("rule", BLAMES)
def test_scoring_again_gives_what_the_run_gave(rule: str, tmp_path: Path, home: Home) -> None:
    suite = written(tmp_path, f"on_crash: {rule}\non_cap: {rule}\n")
    result = run_suite(suite, spoil, caps=AllCaps(episode=Caps(steps=3)), home=home, run="a")
    assert result.executed == 4
    before = {e.head.task: home.run("a").head(e).outcome for e in home.run("a").entries}
    assert score("a", suite=suite, home=home).changed == 0
    assert {e.head.task: home.run("a").head(e).outcome for e in home.run("a").entries} == before


def test_a_cap_of_the_experiment_is_not_the_agents_fault(tmp_path: Path, home: Home) -> None:
    suite = written(tmp_path, "on_cap: zero\n")
    run_suite(suite, spoil, caps=AllCaps(experiment=Caps(usd=0.02)), home=home, run="a")
    run = home.run("a")
    entry = next(e for e in run.entries if e.head.task.startswith("cap"))
    assert run.head(entry).outcome.reason == "cap.experiment"  # type: ignore[union-attr]
    loaded = load_suite(suite)
    outcome, _ = score_trace(loaded.suite.task(entry.head.task), loaded, run, entry, home)
    assert outcome != Scored(0.0, "blame")


@pytest.mark.parametrize(
    ("stopped_by", "verdict", "outcome"),
    [
        (None, UNSCORED, UNSCORED),
        ("crash.ValueError", UNSCORED, Scored(0.0, "blame")),
        ("cap.steps", UNSCORED, Scored(0.0, "blame")),
        ("cap.steps", Scored(1.0, "numeric"), Scored(1.0, "numeric")),
        ("crash.ValueError", Missing("infrastructure.verifier", "x"), Missing("infrastructure.verifier", "x")),
        ("killed", UNSCORED, UNSCORED),
        ("unmetered.usd", UNSCORED, UNSCORED),
        ("deviation", UNSCORED, UNSCORED),
    ],
)
def test_checks_decide_unless_the_suite_says_otherwise(
    stopped_by: str | None, verdict: Outcome, outcome: Outcome
) -> None:
    assert outcome_after_stop(Suite(name="s", tasks=()), stopped_by, verdict) == outcome


@pytest.mark.parametrize("stopped_by", ["killed", "unmetered.usd", "deviation", None])
def test_a_suite_has_no_rule_for_what_the_agent_did_not_do(stopped_by: str | None) -> None:
    suite = Suite(name="s", tasks=(), on_crash="zero", on_cap="zero")
    assert outcome_without_checks(suite, stopped_by) is None
    assert outcome_after_stop(suite, stopped_by, UNSCORED) == UNSCORED
