"""The gate on stored runs, its quarantine list, and the plan of a comparison not yet run."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.harness.faults import NetworkFault
from ethogram.harness.suites import run
from ethogram.measures.outcomes import outcomes_of
from ethogram.plans import Check, Suite, Task
from ethogram.questions.compare.question import compare
from ethogram.questions.gate.confirmation import confirm_moved
from ethogram.questions.gate.planning import plan
from ethogram.questions.gate.quarantine import Quarantined, read_quarantine
from ethogram.questions.gate.question import gate
from ethogram.questions.logs.imports import import_logs
from ethogram.store import Home, Redactor
from ethogram.traces import Head, Scored, episode_id, trace_id

LATER, PAST = datetime.date(2999, 1, 1), datetime.date(2001, 1, 1)


def coins(tasks: int = 10) -> Suite:
    check = (Check(kind="equals"),)
    return Suite(
        name="coins", tasks=tuple(Task(id=f"t{i}", prompt="?", expected="yes", checks=check) for i in range(tasks))
    )


def agent(rate: float = 0.8, *, only: str = "", fate: str = "fate", lost: float = 0.0) -> Any:
    """Passes at a rate, or at it everywhere but in one task, where it always fails."""

    def flip(task: Task, episode: Any) -> str:
        if episode.random("world").random() < lost:
            raise NetworkFault("down")
        with episode.record.model(model="coin-1") as call:
            call.done("hm", input_tokens=1, output_tokens=1, cost_usd=0.01)
        return "yes" if episode.random(fate).random() < rate and task.id != only else "no"

    flip.meters = ("tokens", "usd")  # every call is recorded, so what it cost is known
    return flip


@pytest.fixture
def base(home: Home) -> str:
    run(coins(), agent(), k=20, home=home, run="main")
    return "main"


def test_regression_pass_and_undecided(home: Home, base: str) -> None:
    run(coins(), agent(0.2, fate="b"), k=4, home=home, run="bad")
    run(coins(), agent(1.0, fate="b"), k=8, home=home, run="good")
    run(coins(), agent(0.8, fate="b"), k=1, home=home, run="short")
    bad, good = (gate(base, name, home=home, margin=0.2) for name in ("bad", "good"))
    short = gate(base, "short", home=home, margin=0.1)
    assert (bad.verdict, good.verdict, short.verdict) == ("regression", "pass", "undecided")
    assert bad.difference.high < 0
    assert bad.needed.runs == 0
    assert short.needed.runs > 0
    assert short.needed.cost_usd == pytest.approx(0.01 * short.needed.runs)
    assert short.needed.next_look_runs == 5
    assert bad.evidence.noise_floor.passes == 20
    assert bad.rows()[-1]["decision"] == "regression"
    for found in (bad, good, short):
        assert json.loads(found.to_json())["evidence"]["planned_looks"] >= len(found.evidence.looks)


def test_a_candidate_that_costs_nothing_is_not_priced_as_its_baseline(home: Home, base: str) -> None:
    def free(task: Task, episode: Any) -> str:
        return "yes" if episode.random("b").random() < 0.8 else "no"

    free.meters = ("tokens", "usd")  # type: ignore[attr-defined]
    run(coins(), free, k=1, home=home, run="free")
    found = gate(base, "free", home=home, margin=0.1)
    assert found.verdict == "undecided"
    assert found.needed.runs > 0
    assert found.needed.cost_usd == 0.0


def test_it_may_be_judged_again_under_other_settings(home: Home, base: str) -> None:
    run(coins(), agent(0.65, fate="b"), k=10, home=home, run="new")
    loose, strict = gate(base, "new", home=home, margin=0.3), gate(base, "new", home=home, alpha=0.001, margin=0.3)
    assert loose.settings.alpha == 0.05
    assert strict.evidence.looks[0].bound > loose.evidence.looks[0].bound
    again = gate(base, "new", home=home, margin=0.3)
    assert again == loose


def test_all_missing_on_either_side_is_undecided(home: Home, base: str) -> None:
    run(coins(), agent(lost=1.0), k=4, home=home, run="dead", retries=0)
    found = gate(base, "dead", home=home, margin=0.2)
    assert found.verdict == "undecided"
    assert found.evidence.missing_candidate == {"infrastructure.network": 40}
    assert found.evidence.bounds[0] < 0 < found.evidence.bounds[1]
    back = gate("dead", base, home=home, margin=0.2)
    assert back.verdict == "undecided"
    assert back.evidence.why == "no attempt of the baseline has a score"
    assert back.needed.why == "run the baseline first"
    assert json.loads(back.to_json())["difference"]["value"] is None


def test_what_one_pays_is_judged_without_scores(home: Home) -> None:
    unchecked = Suite(name="coins", tasks=tuple(Task(id=t.id, prompt="?") for t in coins().tasks))
    for name in ("old", "new"):
        run(unchecked, agent(), k=8, home=home, run=name)
    found = gate("old", "new", home=home, metric="steps", margin=0.2)
    assert found.evidence.looks[0].scored == found.evidence.looks[0].runs
    assert found.evidence.missing_base == {}
    assert gate("old", "new", home=home, margin=0.2).evidence.why == "no attempt of the baseline has a score"


def test_a_fifth_missing_is_bounded_and_said(home: Home, base: str) -> None:
    run(coins(), agent(0.8, fate="b", lost=0.12), k=8, home=home, run="new", retries=0)
    found = gate(base, "new", home=home, margin=0.1)
    lost = found.evidence.missing_candidate["infrastructure.network"]
    assert lost > 0
    low, high = found.evidence.bounds
    assert -1 <= low < high <= 1
    assert high - low == pytest.approx(sum(found.evidence.missing_candidate.values()) / found.evidence.looks[-1].runs)


def test_quarantine_leaves_a_task_out_until_its_date(home: Home, base: str) -> None:
    run(coins(), agent(1.0, only="t3", fate="b"), k=10, home=home, run="new")
    plain = gate(base, "new", home=home, margin=0.2)
    resting = gate(base, "new", home=home, margin=0.2, quarantine=[Quarantined(task="t3", until=LATER, reason="flaky")])
    assert resting.verdict == "pass"
    assert (plain.evidence.looks[0].runs, resting.evidence.looks[0].runs) == (5, 4), "half of ten tasks, and of nine"
    assert all(t.task != "t3" for t in resting.evidence.moved)
    over = [Quarantined(task="t3", until=PAST, reason="flaky", expired=True)]
    assert gate(base, "new", home=home, margin=0.2, quarantine=over).evidence.looks == plain.evidence.looks
    many = [Quarantined(task=f"t{i}", until=LATER, reason="flaky") for i in (*range(5), 77)]
    told = gate(base, "new", home=home, margin=0.2, quarantine=many).warnings
    assert any("50% of the tasks are in quarantine" in w for w in told)
    assert any("t77, which no run knows" in w for w in told)
    everything = [Quarantined(task=f"t{i}", until=LATER, reason="flaky") for i in range(10)]
    with pytest.raises(BadUsage, match="not in quarantine"):
        gate(base, "new", home=home, quarantine=everything)


def test_the_quarantine_file(tmp_path: Path) -> None:
    file = tmp_path / "q.yaml"
    file.write_text("- {task: a, until: 2026-03-01, reason: flaky}\n- {task: 7, until: '2026-03-02', reason: slow}\n")
    found = read_quarantine(file, today=datetime.date(2026, 3, 2))
    assert [(q.task, q.expired) for q in found] == [("a", True), ("7", False)]
    file.write_text("[]")
    assert read_quarantine(file) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be a list"),
        ("task: a", "must be a list"),
        ("- a", "entry 1"),
        ("- {task: a, until: 2026-03-01}", "entry 1 .*reason"),
        ("- {task: a, until: soon, reason: b}", "entry 1"),
        ("- {task: a, until: 2026-03-01, reason: b}\n- {until: 2026-03-01, reason: b}", "entry 2 .*task"),
        ("- {task: [", "is not YAML"),
        ("\x00", "is not YAML"),
    ],
)
def test_bad_quarantine_files_are_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "q.yaml"
    file.write_text(text)
    with pytest.raises(BadInput, match=said) as error:
        read_quarantine(file)
    assert "\n" not in str(error.value)
    assert str(file) in str(error.value)


def test_a_quarantine_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read_quarantine(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00x\xd8")
    with pytest.raises(BadInput, match=r"bytes\.yaml"):
        read_quarantine(tmp_path / "bytes.yaml")


def test_monitoring_runs_through_the_lab(home: Home, base: str) -> None:
    run(coins(), agent(0.2, fate="b"), k=6, home=home, run="bad")
    found = gate(base, "bad", home=home, monitor=True)
    assert found.verdict == "regression"
    assert found.evidence.e_value >= 1
    assert len(found.evidence.watched) == 6
    assert found.evidence.decided_at is not None
    run(coins(), agent(), k=20, home=home, run="same")
    same = gate(base, "same", home=home, monitor=True)
    assert (same.verdict, same.evidence.e_value) in (("pass", 1.0), ("undecided", 1.0))


def test_imported_logs_are_gated_with_what_they_have(home: Home, tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "gone"}]

    def turns(task: int, trial: int, reward: float) -> dict[str, Any]:
        return {"task_id": task, "trial": trial, "reward": reward, "info": {}, "traj": talk}

    for name, trials, good in (("old", 20, 17), ("new", 4, 0)):
        rows = [
            turns(t, k + 1, float(k < good)) for t in range(10) for k in range(trials) if (name, t, k) != ("new", 3, 0)
        ]
        (tmp_path / name).write_text(json.dumps(rows))
        import_logs(tmp_path / name, home=home, run=name, redact="none")
    found = gate("old", "new", home=home, margin=0.2)
    assert found.verdict == "regression"
    assert found.needed.cost_usd == 0.0


def test_fresh_attempts_alone_confirm() -> None:
    def arm(counts: dict[str, tuple[int, int]], first: int = 0) -> list[tuple[str, int, float, None]]:
        return [(t, first + k, float(k < c), None) for t, (c, n) in counts.items() for k in range(n)]

    base = outcomes_of(arm({"broke": (20, 20), "lucky": (20, 20)}))
    early = arm({"broke": (0, 4), "lucky": (1, 4)})
    later = arm({"broke": (0, 10), "lucky": (10, 10)}, first=4)
    found = {c.task: c for c in confirm_moved(base, outcomes_of(early + later), {"broke": 4, "lucky": 4}, 0.05)}
    assert found["broke"].confirmed
    assert not found["lucky"].confirmed
    assert (found["lucky"].before, found["lucky"].again, found["lucky"].attempts) == (0.25, 1.0, 10)
    none = confirm_moved(base, outcomes_of(early), {"broke": 4}, 0.05)[0]
    assert (none.attempts, none.confirmed) == (0, False)


def test_a_plan_from_a_pilot_knows_its_price(home: Home, base: str) -> None:
    found = plan(base, home=home, drop=0.2)
    assert found.pilot == "main"
    assert found.price == pytest.approx(0.01)
    assert found.cost_usd == pytest.approx(0.01 * found.runs)
    assert found.tasks == 10
    assert plan(home=home, drop=0.2, tasks=10).cost_usd is None
    assert plan(home=home, drop=0.2, tasks=10, seed=1) == plan(home=home, drop=0.2, tasks=10, seed=1)
    json.loads(found.to_json())


def test_a_margin_that_the_baseline_cannot_show(home: Home) -> None:
    for name in ("old", "new"):
        run(coins(), agent(), k=2, home=home, run=name)  # the same fate: no difference at all
    found = gate("old", "new", home=home, margin=0.04)
    assert found.verdict == "undecided"
    assert any("too few to detect a drop of 0.04" in w for w in found.warnings)
    assert found.needed.baseline_runs > 0
    assert "the baseline needs" in found.needed.why


def test_one_agent_of_several_is_judged(home: Home, plain: Redactor) -> None:
    with home.create("both", "import").writer(plain) as writer:
        for agent, passed in (("old", 1.0), ("new", 0.0)):
            for task in range(4):
                for attempt in range(6):
                    key = f"{agent}:{task}:{attempt}"
                    tid = trace_id("test", key)
                    told: Any = {
                        "task": f"t{task}",
                        "attempt": attempt,
                        "agent": agent,
                        "outcome": Scored(passed, "test"),
                    }
                    writer.trace(tid).finish(Head(trace_id=tid, episode=episode_id("test", key), **told), ())
    found = gate("both", "both", home=home, agent="new", base_agent="old", margin=0.3)
    assert (found.verdict, found.base_agent, found.agent) == ("regression", "old", "new")
    with pytest.raises(BadUsage, match="'both' would be compared with itself"):
        gate("both", "both", home=home, agent="old", margin=0.3)
    assert compare("both", "both", home=home, agent="new", base_agent="old").verdict == "regression"
    with pytest.raises(NotFound, match="no agent named 'older' in run 'both'"):
        compare("both", "both", home=home, agent="older", base_agent="old")
