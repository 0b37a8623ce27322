"""Attempts that a provider refused never decide: they are named, and a verdict that they could turn is undecided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ethogram.harness.faults import ProviderFault
from ethogram.harness.suites import run
from ethogram.plans import Check, Suite, Task
from ethogram.questions.compare.question import compare
from ethogram.questions.gate.buying import StageOptions, run_gate
from ethogram.questions.gate.ci import github_lines, junit, markdown
from ethogram.questions.gate.plan import GateSettings
from ethogram.questions.gate.question import gate
from ethogram.questions.gate.task_verdicts import gate_each_task
from ethogram.store import Home
from ethogram.traces import REFUSED
from ethogram.wire.gateway.refusals import ProviderRefusal

KEY = ProviderRefusal(reason="infrastructure.provider.key", provider="openai", status=401, said="Incorrect API key")


def suite() -> Suite:
    check = (Check(kind="equals"),)
    return Suite(name="s", tasks=tuple(Task(id=f"t{i}", prompt="q", expected="yes", checks=check) for i in range(10)))


def good(task: Any) -> str:
    return "yes"


def bad(task: Any) -> str:
    return "no"


def refused(task: Any) -> str:
    raise ProviderFault(KEY)


def half_refused(task: Any, episode: Any) -> str:
    if task.id > "t3":
        return "yes"
    if episode.attempt < 2:
        raise ProviderFault(KEY)
    return "no"


def partly(task: Any, episode: Any) -> str:
    episode.meta[REFUSED] = KEY.reason
    return "no"


def one_partly(task: Any, episode: Any) -> str:
    if task.id == "t0" and episode.attempt == 0:
        episode.meta[REFUSED] = KEY.reason
    return "no"


def lucky(task: Any, episode: Any) -> str:
    episode.meta[REFUSED] = KEY.reason
    return "yes"


def played(home: Home, name: str, agent: Any, k: int = 3) -> str:
    return run(suite(), agent, home=home, run=name, k=k, retries=0, capture="off", breaker=0).run


def test_a_side_that_was_refused_is_named_and_undecided(home: Home) -> None:
    played(home, "base", good)
    played(home, "new", refused)
    result = gate("base", "new", home=home)
    words = "the provider refused the key in 30 of 30 attempts of new"
    assert result.verdict == "undecided"
    assert result.evidence.why.startswith(words)
    assert result.needed.why == "make the refused attempts again: ethogram run --resume new"
    assert words in markdown(result)
    assert "❌" not in markdown(result)
    assert "<failure" not in junit(result)
    assert not [line for line in github_lines(result) if line.startswith("::error")]
    compared = compare("base", "new", home=home)
    assert compared.verdict == "undecided"
    assert compared.refused == words
    backwards = gate("new", "base", home=home)
    assert (backwards.verdict, backwards.evidence.why.startswith(words)) == ("undecided", True)


@pytest.mark.parametrize("agent", [half_refused, partly])
def test_a_regression_that_refused_attempts_could_turn_is_undecided(home: Home, agent: Any) -> None:
    played(home, "base", good)
    played(home, "new", agent)
    result = gate("base", "new", home=home, min_coverage=0.2)
    assert result.verdict == "undecided"
    assert "could turn the verdict; without them: regression" in result.evidence.why
    assert gate_each_task("base", "new", GateSettings(min_coverage=0.2), home=home).gate.verdict == "undecided"
    compared = compare("base", "new", home=home)
    assert compared.verdict == "undecided"
    assert "they could turn the verdict, which without them is: regression" in (compared.refused or "")


def test_a_regression_that_stands_without_them_is_one(home: Home) -> None:
    played(home, "base", good)
    played(home, "new", one_partly)
    result = gate("base", "new", home=home)
    assert result.verdict == "regression"
    assert result.warnings[0] == "1 scored attempts of new went on after calls that were refused"
    assert compare("base", "new", home=home).verdict == "regression"


def test_a_pass_that_they_could_turn_is_undecided(home: Home) -> None:
    played(home, "base", good, k=20)
    played(home, "fine", good, k=20)
    assert gate("base", "fine", home=home, margin=0.2).verdict == "pass"
    played(home, "new", lucky, k=20)
    result = gate("base", "new", home=home, margin=0.2)
    assert result.verdict == "undecided"
    assert "without them: pass" in result.evidence.why


def test_a_gate_that_buys_stops_and_says_why(home: Home, tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(
        "name: s\ntasks:\n"
        + "".join(f"  - {{id: t{i}, prompt: q, expected: 'yes', checks: [equals]}}\n" for i in range(4))
    )
    (tmp_path / "agents.py").write_text(
        "from ethogram.harness.faults import ProviderFault\n"
        "from ethogram.wire.gateway.refusals import ProviderRefusal\n"
        "KEY = ProviderRefusal(reason='infrastructure.provider.key', provider='openai', status=401)\n"
        "def good(task):\n    return 'yes'\n"
        "def refused(task):\n    raise ProviderFault(KEY)\n"
    )
    where = str(tmp_path / "suite.yaml")
    run(where, f"{tmp_path}/agents.py:good", home=home, run="base", k=10)
    stages = StageOptions(suite=where, agent=f"{tmp_path}/agents.py:refused", workers=1)
    result = run_gate("base", "new", GateSettings(margin=0.3), stages, home=home)
    assert result.verdict == "undecided"
    assert "the provider refused the key in 12 of " in result.evidence.why
