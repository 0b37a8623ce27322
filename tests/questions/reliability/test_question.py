"""Reliability of stored runs: what the harness ran, what was imported, what went missing on the way."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ethogram.errors import BadUsage, NotFound
from ethogram.harness.faults import NetworkFault
from ethogram.harness.suites import resume_run, run
from ethogram.plans import Check, Condition, Suite, Task
from ethogram.questions.home.runs import show
from ethogram.questions.logs.imports import import_logs
from ethogram.questions.reliability.question import read_k, stats
from ethogram.reading.outcomes import load_outcomes
from ethogram.store import Home

DATA = Path(__file__).parents[4] / "shared" / "data"
TAU = "tau_bench/gpt-4o-airline.dev_5tasks.json.gz"


def coins(tasks: int = 6) -> Suite:
    check = (Check(kind="equals"),)
    made = tuple(Task(id=f"t{i}", prompt=str((i + 1) / tasks), expected="yes", checks=check) for i in range(tasks))
    return Suite(name="coins", tasks=made)


def flip(task: Task, episode: Any) -> str:
    """Passes as often as its task says, with a step, tokens and a price."""
    with episode.record.model(model="coin-1", params={"temperature": 0.3}) as call:
        call.done("hm", input_tokens=10, output_tokens=2, cost_usd=0.001)
    return "yes" if episode.rng.random() < float(task.prompt) else "no"


def torn(task: Task, episode: Any) -> str:
    if episode.random("world").random() < 0.3:
        raise NetworkFault("down")
    return flip(task, episode)


def test_a_run_of_the_harness(home: Home) -> None:
    run(coins(), flip, k=4, home=home, run="night", meta={"scaffold": "none"})
    found = stats("night", [1, 2, 4], home=home)
    successes = {t.task: t.c for t in found.tasks}
    assert successes["t5"] == 4, "a task that always passes"
    assert found.n == 24
    assert found.c == sum(successes.values())
    assert found.pass_at["1"].value == pytest.approx(found.c / 24)
    assert found.pass_hat["4"].value == pytest.approx(sum(c == 4 for c in successes.values()) / 6)
    assert found.target == "suite"
    assert found.facts == {"model": "coin-1", "temperature": "0.3", "scaffold": "none"}
    assert found.compounding.steps == 1.0
    assert {r["kind"] for r in found.rows()} == {"pass@k", "pass^k"}
    assert json.loads(found.to_json())["pass_hat"]["4"]["of"] == "tasks"


def test_missing_attempts_by_reason_and_those_not_yet_run(home: Home) -> None:
    run(coins(), torn, k=5, home=home, run="night", retries=0)
    found = stats("night", home=home)
    lost = found.episodes.missing["infrastructure.network"]
    assert 0 < lost < 30
    assert found.episodes.scored == 30 - lost
    assert found.bounds.worst < found.bounds.best
    failed = stats("night", [1], home=home, missing="failure")
    assert failed.pass_at["1"].value == pytest.approx(found.bounds.worst)
    assert (found.convention, failed.convention) == ("bounds", "failure")


def test_a_plan_that_grew_counts_what_is_planned_now(home: Home) -> None:
    run(coins(), flip, k=1, tasks=("t0", "t1"), home=home, run="night")
    resume_run("night", k=3, tasks=("t1", "t4"), suite=coins(), agent=flip, home=home)
    found = load_outcomes("night", home=home)
    assert dict(zip(found.tasks, found.planned.tolist(), strict=True)) == {"t0": 1, "t1": 3, "t4": 3}
    assert found.missing() == {}


def test_several_conditions_must_be_chosen_from(home: Home) -> None:
    both = (Condition(), Condition(name="loud", settings={}))
    run(coins(), flip, k=2, conditions=both, home=home, run="night")
    with pytest.raises(BadUsage, match=r"holds 2 conditions .*condition"):
        stats("night", home=home)
    assert stats("night", home=home, condition="loud").n == 12
    with pytest.raises(NotFound, match="loud"):
        stats("night", home=home, condition="lout")
    with pytest.raises(NotFound, match="agent"):
        stats("night", home=home, agent="nobody")


def turns(task: int, trial: int, reward: float) -> dict[str, Any]:
    talk = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "gone"}]
    return {"task_id": task, "trial": trial, "reward": reward, "info": {}, "traj": talk}


@pytest.mark.parametrize("numbers", [(0, 1, 2, 3), (1, 2, 3, 4), (7, 7, 7, 7), (5, 900_000_000_000, 6, 2)])
def test_foreign_attempts_are_numbered_from_nought_without_gaps(
    home: Home, tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    """Logs count trials from 1, leave gaps, or repeat; looks and passes must not mind."""
    log = tmp_path / "log.json"
    log.write_text(json.dumps([turns(t, k, float(i < 2)) for t in (0, 1) for i, k in enumerate(numbers)]))
    import_logs(log, home=home, run="log", redact="none")
    found = load_outcomes("log", home=home)
    assert sorted(zip(found.task.tolist(), found.attempt.tolist(), strict=True)) == [
        (t, k) for t in (0, 1) for k in range(4)
    ]
    assert found.grid("success").shape == (4, 2)
    assert found.successes.tolist() == [2, 2]


def test_tasks_that_are_numbers_stand_in_their_order(home: Home, tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    log.write_text(json.dumps([turns(t, 0, 1.0) for t in (10, 9, 2)]))
    import_logs(log, home=home, run="log", redact="none")
    assert load_outcomes("log", home=home).tasks == ("2", "9", "10")


def test_unrecorded_figures_are_unknown(home: Home, tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    log.write_text(json.dumps([turns(0, k, 1.0) for k in (0, 1)]))
    import_logs(log, home=home, run="log", redact="none")
    found = load_outcomes("log", home=home)
    assert np.isnan(found.metric("cost")).all()
    assert np.isnan(found.metric("tokens")).all()
    assert stats("log", home=home).facts["temperature"] == "unknown"


def test_an_empty_run_has_nothing_to_say(home: Home) -> None:
    home.create("empty", "import")
    with pytest.raises(NotFound, match="no episodes yet"):
        stats("empty", home=home)


def test_a_run_that_never_began_is_all_not_run(home: Home) -> None:
    from ethogram.questions.home.kill_switch import kill

    kill(why="a test", home=home)
    run(coins(), flip, k=2, home=home, run="night")
    found = stats("night", home=home)
    assert (found.n, found.episodes.missing) == (0, {"not_run": 12})
    assert found.pass_at["1"].why == "no attempt has a score"


def test_the_tau_bench_sample_gives_its_published_figures(home: Home) -> None:
    if not (DATA / TAU).exists():
        pytest.skip("../shared/data is not here")
    import_logs(DATA / TAU, home=home, run="tau", redact="none")
    expected = json.loads((DATA / "expected.json").read_text())[TAU]
    with gzip.open(DATA / TAU) as file:
        assert len(json.load(file)) == 20
    found = stats("tau", home=home)
    assert {k: e.value for k, e in found.pass_hat.items()} == pytest.approx(expected["pass_hat_k"], rel=1e-9)
    assert {k: e.value for k, e in found.pass_at.items()} == pytest.approx(expected["pass_at_k"], rel=1e-9)
    assert found.pass_hat["4"].method == "wilson-neff fixed-suite"
    assert all(e.low < e.value < e.high for e in found.pass_hat.values())
    assert stats("tau", [5], home=home).pass_hat["5"].why == "no task has 5 scored attempts; the most is 4"


@pytest.mark.parametrize(
    ("text", "ks"), [("1,2,4", [1, 2, 4]), ("1-4", [1, 2, 3, 4]), (" 3 ", [3]), ("1,3-4", [1, 3, 4])]
)
def test_which_k(text: str, ks: list[int]) -> None:
    assert read_k(text) == ks


@pytest.mark.parametrize("text", ["", "x", "0", "1,", "-2", "4-1", "1.5"])
def test_which_k_cannot_be_read(text: str) -> None:
    with pytest.raises(BadUsage, match="k"):
        read_k(text)


def test_traces_without_a_task_are_never_attempts_at_one_task(logs: Any, home: Home) -> None:
    for i in range(30):
        span = {"span_id": f"{i:016x}", "span_name": "step", "span_attributes": {}, "child_spans": []}
        logs.put(f"chat-{i}.json", {"trace_id": f"{i:032x}", "spans": [span]})
    logs.put("scores.csv", ("source,outcome\n" + "".join(f"chat-{i},{i % 3 > 0}\n" for i in range(30))).encode())
    import_logs(logs.root, home=home, run="loose", outcome_from=f"csv:{logs.root / 'scores.csv'}")
    result = stats("loose", home=home)
    assert len(result.tasks) == 30
    assert {(t.n, t.missing) for t in result.tasks} == {(1, 0)}
    assert list(result.pass_at) == ["1"]  # no second attempt is known, so nothing is said of two
    assert result.pass_hat["1"].value == pytest.approx(20 / 30)
    assert "30 traces name no task" in result.notes[0]
    shown = show("loose", home=home)
    assert (len(shown.tasks), shown.notes) == (30, result.notes)
    assert all(t.task.startswith("unknown:") for t in result.tasks)


def test_samples_of_three_evals_are_three_tasks(logs: Any, home: Home) -> None:
    for name in ("add", "multiply", "divide"):
        spec = {"task": name, "model": "acme/m", "run_id": name, "created": "2026-01-02T03:04:05+00:00", "config": {}}
        samples = [
            {"id": 1, "epoch": e, "input": "q", "target": "a", "scores": {"exact": {"value": "C"}}} for e in range(1, 6)
        ]
        logs.put(f"{name}.json", {"version": 2, "status": "success", "eval": spec, "samples": samples})
    import_logs(logs.root, home=home, run="three")
    assert [(t.task, t.n) for t in stats("three", home=home).tasks] == [
        *(("add/1", 5), ("divide/1", 5), ("multiply/1", 5))
    ]
