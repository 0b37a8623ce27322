"""More attempts of an existing run: the episodes of a longer plan, whatever happened in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadUsage, NotFound
from ethogram.harness.options import AllCaps, RunOptions
from ethogram.harness.run_result import Quiet
from ethogram.harness.suites import plan_resume, resume_run, run
from ethogram.plans import Check, Suite, Task
from ethogram.prices import Caps
from ethogram.questions.home.kill_switch import kill
from ethogram.store import Home, open_home, rewrite, verify_run

SUITE = Suite(
    name="counting",
    tasks=tuple(Task(id=f"t{i}", prompt=f"say {i}", expected=str(i), checks=(Check(kind="equals"),)) for i in range(4)),
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(str(tmp_path / "home"))


def sometimes(task: Task, episode: Any) -> str:
    with episode.record.model(at_most_usd=0.01) as call:
        call.done("hm", input_tokens=1, output_tokens=1, cost_usd=0.01)
    return task.prompt.removeprefix("say ") if episode.rng.random() < 0.6 else "wrong"


sometimes.meters = ("tokens", "usd")  # type: ignore[attr-defined]


def ledger(home: Home, run: str) -> set[tuple[Any, ...]]:
    return {
        (e.head.episode, e.head.task, e.head.attempt, e.head.seed, e.head.outcome, e.totals.cost_usd)
        for e in home.run(run).entries
    }


def attempts(home: Home, run: str) -> dict[str, int]:
    found = {t.id: {e.head.attempt for e in home.run(run).entries if e.head.task == t.id} for t in SUITE.tasks}
    assert all(seen == set(range(len(seen))) for seen in found.values())
    return {task: len(seen) for task, seen in found.items()}


def go_on(home: Home, run: str = "a", **more: Any) -> Any:
    return resume_run(run, suite=SUITE, agent=sometimes, home=home, **more)


def test_five_and_then_eight_are_the_episodes_of_eight(home: Home) -> None:
    run(SUITE, sometimes, k=8, seed=5, home=home, run="eight")
    run(SUITE, sometimes, k=5, seed=5, home=home, run="a")
    before = (Path(home.files.address) / "runs/a/run.json").read_bytes()
    longer = go_on(home, k=8)
    assert (longer.planned, longer.executed, longer.scored, longer.not_run) == (32, 12, 32, 0)
    assert ledger(home, "a") == ledger(home, "eight")
    assert (Path(home.files.address) / "runs/a/run.json").read_bytes() == before
    assert home.run("a").planned == 32
    assert verify_run(home.run("a")).ok


def test_more_attempts_of_some_tasks_only(home: Home) -> None:
    run(SUITE, sometimes, k=8, home=home, run="eight")
    run(SUITE, sometimes, k=2, home=home, run="a")
    assert go_on(home, k=8, tasks=["t1", "t3"]).executed == 12
    assert attempts(home, "a") == {"t0": 2, "t1": 8, "t2": 2, "t3": 8}
    assert go_on(home, k=4, tasks=["t0"]).executed == 2
    assert go_on(home).executed == 0  # a plain resume knows the longer plan
    assert home.run("a").planned == 22
    assert go_on(home, k=8).executed == 10
    assert ledger(home, "a") == ledger(home, "eight")


def test_fewer_attempts_are_refused_in_one_sentence(home: Home) -> None:
    run(SUITE, sometimes, k=3, home=home, run="a")
    go_on(home, k=5, tasks=["t2"])
    for k, tasks in ((2, ()), (4, ()), (4, ("t2",))):
        with pytest.raises(BadUsage, match=r"attempts: \d are already planned for task 't\d' of run 'a'"):
            go_on(home, k=k, tasks=tasks)
    with pytest.raises(NotFound, match="no task named 't9' in the suite of run a"):
        go_on(home, k=9, tasks=["t9"])
    with pytest.raises(BadUsage, match="say how many with k"):
        go_on(home, tasks=["t1"])
    assert attempts(home, "a") == {"t0": 3, "t1": 3, "t2": 5, "t3": 3}


def test_an_extension_that_was_stopped_is_known_to_the_next_resume(home: Home) -> None:
    run(SUITE, sometimes, k=2, home=home, run="a")
    run(SUITE, sometimes, k=6, home=home, run="six")

    class Kills(Quiet):
        def started(self, *about: Any) -> None:
            kill(home=home)

    stopped = go_on(home, k=6, progress=Kills())
    assert stopped.stopped == "killed"
    assert stopped.not_run == 16 - stopped.executed > 0
    with pytest.raises(BadUsage, match="ethogram kill --undo"):
        go_on(home)
    kill(undo=True, home=home)
    rewrite(home.run("a"))  # and it outlives a rewrite
    assert go_on(home).executed == stopped.not_run
    assert ledger(home, "a") == ledger(home, "six")


def test_a_run_stored_with_the_old_name_of_workers_goes_on(home: Home) -> None:
    run(SUITE, sometimes, k=2, home=home, run="a", workers=3)
    about = Path(home.files.address) / home.run("a").path / "run.json"
    text = about.read_text()
    assert text.count('"workers": 3') == 1
    about.write_text(text.replace('"workers": 3', '"max_concurrency": 3'))
    assert RunOptions.stored(open_home(home.files.address).run("a").info.plan).workers == 3
    assert go_on(home, k=3).executed == 4


def test_what_was_spent_counts_against_the_caps_of_the_longer_run(home: Home) -> None:
    caps = AllCaps(experiment=Caps(usd=0.20))
    run(SUITE, sometimes, k=3, caps=caps, home=home, run="a", workers=1)
    longer = go_on(home, k=10)
    assert longer.stopped == "cap.experiment"
    assert longer.cost_usd <= 0.20 + 0.01
    assert longer.not_run > 0
    more = go_on(home, caps=AllCaps(experiment=Caps(usd=5)), retry=["cap.experiment"])
    assert (more.scored, more.not_run, more.stopped) == (40, 0, None)


def test_what_was_spent_counts_against_the_caps_of_each_task(home: Home) -> None:
    caps = AllCaps(task=Caps(usd=0.05))
    run(SUITE, sometimes, k=4, caps=caps, home=home, run="a")
    go_on(home, k=10)
    calls = {t.id: 0 for t in SUITE.tasks}
    for entry in home.run("a").entries:
        calls[entry.head.task] += entry.totals.model_calls
    assert calls == dict.fromkeys(calls, 5)


def test_another_agent_cannot_go_on(home: Home) -> None:
    run(SUITE, sometimes, home=home, run="a")

    def other(task: Task, episode: Any) -> str:
        return ""

    with pytest.raises(BadUsage, match="resume it with the same agent"):
        resume_run("a", suite=SUITE, agent=other, home=home)


def test_the_plan_of_a_resume_calls_and_writes_nothing(home: Home) -> None:
    caps = AllCaps(episode=Caps(usd=0.5))
    run(SUITE, sometimes, k=2, caps=caps, home=home, run="a")
    segments = home.files.names("runs/a/ledger")
    plan = plan_resume("a", k=5, tasks=["t0"], suite=SUITE, agent=sometimes, home=home)
    assert (plan.planned, plan.remaining, plan.attempts, plan.cost_usd_at_most) == (11, 3, 5, 1.5)
    assert home.files.names("runs/a/ledger") == segments
    assert home.run("a").planned == 8


def test_a_task_that_was_left_out_may_join(home: Home) -> None:
    run(SUITE, sometimes, k=3, home=home, run="three")
    run(SUITE, sometimes, k=3, tasks=("t0", "t1"), home=home, run="a")
    assert go_on(home, k=3, tasks=["t2", "t3"]).executed == 6
    assert ledger(home, "a") == ledger(home, "three")
