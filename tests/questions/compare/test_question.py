"""Two stored runs: the same tasks, the same suite, whatever made them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadUsage
from ethogram.harness.suites import run
from ethogram.plans import Check, Suite, Task
from ethogram.questions.compare.question import compare
from ethogram.questions.logs.imports import import_logs
from ethogram.store import Home


def coins(tasks: int = 8, prompt: str = "0.8", check: tuple[Check, ...] = (Check(kind="equals"),)) -> Suite:
    return Suite(
        name="coins", tasks=tuple(Task(id=f"t{i}", prompt=prompt, expected="yes", checks=check) for i in range(tasks))
    )


def agent(shift: float = 0.0, calls: int = 1, model: str = "coin-1") -> Any:
    def flip(task: Task, episode: Any) -> str:
        for _ in range(calls):
            with episode.record.model(model=model) as call:
                call.done("hm", input_tokens=100, output_tokens=int(10 * episode.rng.random()), cost_usd=0.001)
        return "yes" if episode.random("fate").random() < float(task.prompt) - shift else "no"

    flip.meters = ("tokens", "usd")  # every call is recorded, so what it cost is known
    return flip


def test_a_worse_version_is_seen_task_by_task(home: Home) -> None:
    run(coins(), agent(), k=10, home=home, run="old")
    run(coins(), agent(0.5, model="coin-2"), k=10, home=home, run="new")
    found = compare("old", "new", home=home)
    assert found.verdict == "regression"
    assert found.difference.high < 0
    assert found.difference.value == pytest.approx(found.candidate.value - found.base.value)
    assert found.pairs.same_seed == 80, "seeds leave the version out, so that attempts are paired"
    assert found.pairs.gained == 0, "the same fate and a lower rate: nothing can be gained"
    assert found.facts["model"] == ["coin-1", "coin-2"]
    assert len(found.rows()) == 8
    assert compare("new", "old", home=home).verdict == "improvement"
    assert json.loads(found.to_json())["pairs"]["odds"]["value"] == "inf"


@pytest.mark.parametrize("metric", ["cost", "steps", "tokens"])
def test_what_one_pays(home: Home, metric: str) -> None:
    run(coins(), agent(), k=3, home=home, run="old")
    run(coins(), agent(calls=3), k=3, home=home, run="new")
    found = compare("old", "new", home=home, metric=metric)
    assert found.verdict == "regression"
    assert found.candidate.value == pytest.approx(3 * found.base.value, rel=0.1)


@pytest.mark.parametrize("metric", ["cost", "steps", "tokens"])
def test_what_one_pays_needs_no_score(home: Home, metric: str) -> None:
    for name, calls in (("old", 1), ("new", 3)):
        run(coins(check=()), agent(calls=calls), k=3, home=home, run=name)
    found = compare("old", "new", home=home, metric=metric)
    assert (found.verdict, found.difference.n, found.difference.missing) == ("regression", 8, {})
    assert found.candidate.value == pytest.approx(3 * found.base.value, rel=0.1)
    passes = compare("old", "new", home=home)
    assert passes.difference.why == "no task has a known value of success in both runs"
    assert passes.difference.missing == {"base.unscored": 24, "candidate.unscored": 24}


def test_another_version_of_the_suite_is_refused(home: Home) -> None:
    run(coins(), agent(), home=home, run="old")
    run(coins(prompt="0.9"), agent(), home=home, run="new")
    with pytest.raises(BadUsage, match="scores of different versions are not compared"):
        compare("old", "new", home=home)


def turns(task: int, trial: int, reward: float) -> dict[str, Any]:
    talk = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "gone"}]
    return {"task_id": task, "trial": trial, "reward": reward, "info": {}, "traj": talk}


def test_imported_logs_of_any_format_are_compared(home: Home, tmp_path: Path) -> None:
    for name, bad in (("old", 1), ("new", 4)):
        log = tmp_path / f"{name}.json"
        log.write_text(json.dumps([turns(t, k, float(k >= bad)) for t in range(10) for k in range(5)]))
        import_logs(log, home=home, run=name, redact="none")
    found = compare("old", "new", home=home)
    assert found.verdict == "regression"
    assert found.difference.value == pytest.approx(-0.6)
    assert (
        compare("old", "new", home=home, metric="cost").difference.why
        == "no task has a known value of cost in both runs"
    )
