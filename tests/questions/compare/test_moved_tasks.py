"""The tasks that moved, each with a failing attempt that can be opened, its reason and the first other step."""

from __future__ import annotations

from typing import Any

import pytest

from ethogram.harness.suites import run as run_suite
from ethogram.measures.comparison import TaskChange
from ethogram.plans import Check, Suite, Task
from ethogram.questions.compare.moved_tasks import MOST_OPENED, moved_tasks
from ethogram.questions.compare.moved_words import attempt_words
from ethogram.questions.compare.question import compare
from ethogram.questions.divergence.diff import diff
from ethogram.questions.gate.buying import StageOptions, run_gate
from ethogram.questions.gate.plan import GateSettings
from ethogram.questions.gate.question import gate
from ethogram.reading.traces import find_trace
from ethogram.store import Home

BROKEN = ("t1", "t3")


def suite(tasks: int = 8) -> Suite:
    checks = (Check(kind="equals"),)
    return Suite(
        name="lamps", tasks=tuple(Task(id=f"t{i}", prompt="?", expected="on", checks=checks) for i in range(tasks))
    )


def agent(*, broken: tuple[str, ...] = (), steps: bool = True, flaky: float = 0.0) -> Any:
    """Looks and then turns a lamp on; on broken tasks it calls another tool at its second step and fails."""

    def work(task: Task, episode: Any) -> str:
        fails = task.id in broken or episode.random("luck").random() < flaky
        if steps:
            for tool in ("look", "wait" if fails else "switch"):
                episode.record.tool(tool, lambda: "fine")
        return "off" if fails else "on"

    return work


@pytest.fixture
def base(home: Home) -> str:
    run_suite(suite(), agent(), k=10, home=home, run="main")
    return "main"


def test_a_gate_names_the_tasks_that_broke(home: Home, base: str) -> None:
    run_suite(suite(), agent(broken=BROKEN), k=4, home=home, run="bad")
    found = gate(base, "bad", home=home, margin=0.1)
    assert found.verdict == "regression"
    assert [t.task for t in found.tasks] == list(BROKEN)
    for task in found.tasks:
        assert (task.base.passed, task.base.of, task.moved, task.worse) == (10, 10, True, True)
        assert task.candidate.passed == 0
        assert task.candidate.of >= 1
        run, entry = find_trace(task.trace or "", home=home)
        assert (run.name, entry.head.task) == ("bad", task.task)
        assert "off" in (task.why or ""), "the check's own words"
        step = task.step
        assert step is not None
        assert (step.at, step.failing, step.passing) == (1, "tool:wait", "tool:switch")
        other, passing = find_trace(step.passing_trace or "", home=home)
        assert (other.name, passing.head.task) == ("main", task.task)
        assert (passing.head.attempt, passing.head.seed) == (entry.head.attempt, entry.head.seed)
        assert diff(step.passing_trace or "", task.trace or "", home=home).t_star == step.at
    assert compare(base, "bad", home=home).moved == compare("main", "bad", home=home).moved
    assert [t.task for t in compare(base, "bad", home=home).moved] == list(BROKEN)


def test_the_runs_that_a_gate_buys_are_named_too(home: Home, tmp_path: Any) -> None:
    (tmp_path / "lamps.py").write_text(
        "from ethogram.plans import Check, Suite, Task\n"
        "SUITE = Suite(name='lamps', tasks=tuple(Task(id=f't{i}', prompt='?', expected='on', "
        "checks=(Check(kind='equals'),)) for i in range(8)))\n"
        "def good(task, episode):\n    return 'on'\n"
        "def bad(task, episode):\n    return 'off' if task.id > 't1' else 'on'\n"
    )
    run_suite(f"{tmp_path}/lamps.py", f"{tmp_path}/lamps.py:good", k=10, home=home, run="lamps")
    stages = StageOptions(agent=f"{tmp_path}/lamps.py:bad")
    found = run_gate("lamps", "bought", GateSettings(margin=0.2), stages, home=home)
    assert found.verdict == "regression"
    first = found.tasks[0]
    assert first.task > "t1"
    assert first.trace
    assert first.step is not None
    assert first.step.at is None
    assert first.step.why == "the candidate's attempt recorded no steps"


def test_where_steps_agree_or_no_pass_is_kept_it_says_so(home: Home) -> None:
    def liar(task: Task, episode: Any) -> str:
        episode.record.tool("look", lambda: "fine")
        return "off"

    def honest(task: Task, episode: Any) -> str:
        liar(task, episode)
        return "on"

    run_suite(suite(), honest, k=10, home=home, run="main")
    run_suite(suite(), liar, k=4, home=home, run="bad")
    found = gate("main", "bad", home=home, margin=0.1)
    assert {t.step.why for t in found.tasks if t.step} == {"both took the same steps"}


def test_a_drop_that_no_task_shows_by_itself_still_names_where_it_fell(home: Home) -> None:
    run_suite(suite(30), agent(), k=10, home=home, run="main")
    run_suite(suite(30), agent(flaky=0.3), k=2, home=home, run="flaky")
    found = gate("main", "flaky", home=home, margin=0.1)
    assert found.verdict == "regression"
    assert not found.evidence.moved
    assert 1 <= len(found.tasks) <= 5
    assert all(t.worse and not t.moved and t.trace and t.why for t in found.tasks)


def test_other_metrics_show_their_worst_attempt(home: Home, base: str) -> None:
    def slow(task: Task, episode: Any) -> str:
        for _ in range(9 if task.id == "t2" else 2):
            episode.record.tool("look", lambda: "fine")
        return "on"

    run_suite(suite(), slow, k=10, home=home, run="slow")
    found = gate(base, "slow", home=home, margin=0.1, metric="steps")
    (task,) = found.tasks
    assert (task.task, task.base.passed, task.base.mean, task.candidate.mean) == ("t2", None, 2.0, 9.0)
    assert task.step is not None
    assert task.step.at == 1
    assert task.why == "steps 9"
    assert attempt_words(found.tasks) == ("worst", "best")


def change(i: int, **more: Any) -> TaskChange:
    counts = {"base": 1.0, "candidate": 0.0, "n_base": 9, "n_candidate": 3, "difference": -1.0}
    given: dict[str, Any] = {**counts, "p": 1e-4 * i, "q": 0.01, "moved": True, **more}
    return TaskChange(task=f"t{i}", **given)


def test_worse_comes_first_and_better_is_listed() -> None:
    rose = change(0, base=0.0, candidate=1.0, difference=1.0)
    found = moved_tasks([rose, change(2), change(1)], "success", regression=False)
    assert [(t.task, t.worse) for t in found] == [("t1", True), ("t2", True), ("t0", False)]
    assert len(moved_tasks([change(i) for i in range(2 * MOST_OPENED)], "success", regression=False)) == 2 * MOST_OPENED
    steady = [change(i, moved=False, q=0.5) for i in range(9)]
    assert moved_tasks(steady, "success", regression=False) == []
    assert [t.task for t in moved_tasks(steady, "success", regression=True)] == ["t0", "t1", "t2", "t3", "t4"]
