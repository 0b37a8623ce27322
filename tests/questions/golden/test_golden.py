"""A promoted trace is a task that the recorded failure fails and a fixed agent passes; a probe catches what is known by
heart. Real agents, real runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import ethogram as eth
from ethogram.errors import BadUsage
from ethogram.harness.suites import run
from ethogram.plans import Task
from ethogram.questions.golden.buying import AskProbed, ProbeOptions, probe_memory
from ethogram.questions.golden.promotion import WantedCheck, promote
from ethogram.questions.golden.question import golden as check_golden
from ethogram.questions.golden.versions import add_tasks, freeze
from ethogram.questions.incident.closing import close_incident
from ethogram.questions.incident.opening import open_incident
from ethogram.store import Home
from ethogram.traces import Missing, Scored
from ethogram.worlds import local_model
from ethogram.worlds.model_server import serve_model, text_reply

PRICES = {"tea": 6, "ale": 4}
CALLED: list[str] = []
LONG = {
    "kettle": "A customer bought three red kettles on Monday and wants to return one before the end of the week",
    "lamp": "Count the lamps in the second room of the museum and say how many of them are switched on at noon",
    "train": "Find the slowest train from the harbour to the old mill that carries bicycles and leaves after breakfast",
}


@eth.tool
def price(item: str) -> int:
    CALLED.append(item)
    return PRICES[item]


def broken(task: Task, episode: Any) -> str:
    """Asks for the wrong item."""
    return f"It costs {price(item='ale')}."


def fixed(task: Task, episode: Any) -> str:
    return f"The price is {price(item='tea')}."


def astray(task: Task, episode: Any) -> str:
    return f"The price is {price(item='rum')}."


@pytest.fixture
def shop(tmp_path: Path, home: Home) -> str:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "tasks.yaml").write_text('- {id: tea, prompt: "What does tea cost?", checks: [{contains: "6"}]}\n')
    freeze(str(folder))
    run(str(folder), broken, home=home, run="night")
    run(str(folder), fixed, home=home, run="day")
    return str(folder)


def trace_of(run: str, home: Home) -> str:
    return home.resolve(run).entries[0].head.trace_id


def outcome(run: str, home: Home) -> Scored | Missing:
    (entry,) = home.resolve(run).entries
    return home.resolve(run).trace(entry).outcome


def test_a_promoted_trace_guards_against_its_failure(shop: str, home: Home) -> None:
    failing, passing = trace_of("night", home), trace_of("day", home)
    with pytest.raises(BadUsage, match="does not show what is right"):
        promote(failing, shop, WantedCheck(), home=home)
    made = promote(failing, shop, WantedCheck(reference=passing), home=home)
    assert (made.failure_score, made.reference_score, made.golden.version) == (0.0, 1.0, "1.1.0")
    fixture = json.loads(Path(shop, str(made.fixture)).read_text())
    assert [(c["arguments"], c["result"]) for c in fixture["calls"]] == [({"item": "ale"}, 4), ({"item": "tea"}, 6)]
    CALLED.clear()
    for name, agent in (("again", broken), ("better", fixed), ("other", astray)):
        run(shop, agent, tasks=(made.task,), home=home, run=name)
    assert CALLED == [], "every tool answered from the record"
    again, better, other = (outcome(name, home) for name in ("again", "better", "other"))
    assert isinstance(again, Scored)
    assert again.value == 0.0, "the recorded failure fails it"
    assert isinstance(better, Scored)
    assert better.value == 1.0, "a fixed agent passes it"
    assert isinstance(other, Missing), "what a tool would have said is not known, so nobody is blamed"
    assert other.reason == "deviation"
    assert '{"item":"rum"}' in str(other.detail)


def test_a_fixture_of_the_failure_alone_says_what_it_cannot_answer(shop: str, home: Home) -> None:
    failing, passing = trace_of("night", home), trace_of("day", home)
    made = promote(failing, shop, WantedCheck(expected="6", id="alone"), home=home)
    (note,) = made.notes
    assert "gets no score (deviation); --reference TRACE takes over the answers of a passing attempt" in note
    run(shop, fixed, tasks=("alone",), home=home, run="stuck")
    assert isinstance(outcome("stuck", home), Missing)
    assert promote(failing, shop, WantedCheck(reference=passing), home=home).notes == []


SHOP = Path(__file__).parents[3] / "examples" / "mcp"


def test_tools_over_mcp_answer_from_what_was_promoted(shop: str, home: Home, tmp_path: Path) -> None:
    proxy = f"{Path(sys.executable).with_name('ethogram')} mcp -- {sys.executable}"
    emptied = tmp_path / "emptied.py"
    emptied.write_text((SHOP / "shop_server.py").read_text().replace('"pear": 12', '"pear": 1'))

    def sell(count: int, server: Path) -> str:
        return f"cmd: {sys.executable} {SHOP / 'shop_client.py'} pear {count} {proxy} {server}"

    run(shop, sell(3, SHOP / "shop_server.py"), home=home, run="sold")
    made = promote(trace_of("sold", home), shop, WantedCheck(expected="12 pears are left"), home=home)
    run(shop, sell(3, emptied), tasks=(made.task,), home=home, run="again")
    (again,) = home.resolve("again").traces()
    assert "9 of pear" in str(again.answer), "the stock of the day that was recorded, not of this server"
    assert again.head.meta["served_tools"] == 2
    run(shop, sell(2, emptied), tasks=(made.task,), home=home, run="otherwise")
    other = outcome("otherwise", home)
    assert isinstance(other, Missing)
    assert (other.reason, '"count":2' in str(other.detail)) == ("deviation", True)


@pytest.mark.parametrize("other", [False, True])
def test_a_promoted_task_has_the_files_of_its_own(shop: str, home: Home, tmp_path: Path, other: bool) -> None:
    source = tmp_path / "elsewhere" if other else Path(shop)
    (source / "files").mkdir(parents=True)
    (source / "files" / "list.txt").write_text("tea 6\n")
    (source / "tasks").mkdir(exist_ok=True)
    (source / "tasks" / "look.yaml").write_text(
        "- {id: look, prompt: Look., files: [list.txt], checks: [{contains: tea}]}\n"
    )
    if not other:
        add_tasks(shop, [], why="a task with a file")
    run(str(source), "cmd: echo nothing", tasks=("look",), home=home, run="blind")
    made = promote(trace_of("blind", home), shop, WantedCheck(expected="tea 6"), home=home)
    run(shop, "cmd: cat list.txt", tasks=(made.task,), home=home, run="seen")
    assert outcome("seen", home) == Scored(1.0, by="contains")
    assert (Path(shop, "files", made.task, "list.txt").exists(), made.lost) == (other, [])


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        (WantedCheck(expected="6"), "numeric"),
        (WantedCheck(expected="six"), "contains"),
        (WantedCheck(checks=("numeric=6",)), "numeric"),
    ],
)
def test_what_is_right_may_be_said_in_words(shop: str, home: Home, wanted: WantedCheck, kind: str) -> None:
    made = promote(trace_of("night", home), shop, wanted, home=home)
    assert [c["kind"] for c in made.checks] == [kind]
    assert made.failure_score == 0.0


def test_a_check_that_tells_nothing_is_refused(shop: str, home: Home) -> None:
    failing, passing = trace_of("night", home), trace_of("day", home)
    before = sorted(p.name for p in Path(shop).rglob("*"))
    with pytest.raises(BadUsage, match="the recorded failure passes the check"):
        promote(failing, shop, WantedCheck(checks=("contains=It costs",)), home=home)
    with pytest.raises(BadUsage, match="fails the passing attempt too"):
        promote(failing, shop, WantedCheck(reference=passing, checks=("contains=nine",)), home=home)
    with pytest.raises(BadUsage, match=r"did not pass \(score 0\)"):
        promote(passing, shop, WantedCheck(reference=failing), home=home)
    assert sorted(p.name for p in Path(shop).rglob("*")) == before, "nothing is left behind"


def test_an_incident_is_closed_by_the_task_that_guards_it(shop: str, home: Home) -> None:
    failing, passing = trace_of("night", home), trace_of("day", home)
    opened = open_incident(failing, why="a wrong price", home=home).incident
    assert (opened.facts.evidence.passing, opened.facts.evidence.t_star) == (passing, 0)
    made = promote(failing, shop, WantedCheck(reference=passing), home=home)
    closed = close_incident(opened.id, task=made.task, suite=shop, home=home).incident
    assert closed.state == "closed"
    assert closed.guard is not None
    assert (closed.guard.task, closed.guard.version, closed.guard.failure_score) == (made.task, "1.1.0", 0.0)


# ---- memory ----


def golden(tmp_path: Path) -> str:
    folder = tmp_path / "long"
    folder.mkdir()
    lines = [f'- {{id: {name}, prompt: "{text}", checks: [{{contains: x}}]}}' for name, text in LONG.items()]
    (folder / "tasks.yaml").write_text("\n".join(lines) + "\n")
    freeze(str(folder))
    return str(folder)


def parrot(suite: str) -> Any:
    """A model that has read the suite: it goes on wherever a text of it stops."""
    known = [*LONG.values(), json.loads(Path(suite, "golden.json").read_text())["canary"]]

    def act(task: Task, episode: Any) -> str:
        given = task.prompt.partition("\n\n")[2]
        return next((text[len(given) :] for text in known if text.startswith(given)), "")

    return act


def test_a_model_that_knows_the_tasks_is_caught(tmp_path: Path, home: Home) -> None:
    suite = golden(tmp_path)
    checked = check_golden(suite, home=home)
    assert checked.verdict == "not measured"
    found = probe_memory(checked, suite, parrot(suite), home=home)
    assert found.verdict == "alarm"
    assert found.probe is not None
    assert (found.probe.share.value, found.probe.canary) == (1.0, True)
    assert "continues 3 of 3 tasks from memory" in found.why


@pytest.mark.parametrize("how", ["echo", "silent", "polite"])
def test_a_model_that_does_not_know_them_is_not_accused(tmp_path: Path, home: Home, how: str) -> None:
    suite = golden(tmp_path)

    def act(task: Task, episode: Any) -> str:
        return {"echo": task.prompt, "silent": "", "polite": "I would be glad to help you with the kettles."}[how]

    found = probe_memory(check_golden(suite, home=home), suite, act, ProbeOptions(most=2), home=home)
    assert found.verdict == "no alarm"
    assert found.probe is not None
    assert (found.probe.share.value, found.probe.canary, found.probe.share.n) == (0.0, False, 2)
    assert found.probe.share.high < 1


def test_the_real_local_model_is_probed(tmp_path: Path, home: Home) -> None:
    why = local_model.available()
    if why is not None:
        pytest.skip(why)
    suite = golden(tmp_path)
    options = ProbeOptions(most=1, workers=1)
    found = probe_memory(
        check_golden(suite, home=home), suite, "ethogram.worlds.local_model:writer", options, home=home
    )
    assert found.verdict == "no alarm", "these texts were written for this test"
    assert found.probe is not None
    assert found.probe.cost_usd == 0.0
    assert found.probe.rows[0].reply


def test_a_model_behind_an_endpoint_is_probed_and_priced(
    tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: Any) -> Any:
        given = request.messages[-1].text.partition("\n\n")[2]
        return text_reply(next((text[len(given) :] for text in LONG.values() if text.startswith(given)), "no"))

    suite = golden(tmp_path)
    with serve_model(answer) as server:
        for name, value in server.variables().items():
            monkeypatch.setenv(name, value)
        found = probe_memory(
            check_golden(suite, home=home), suite, AskProbed("gpt-4o-mini"), ProbeOptions(max_usd=1.0), home=home
        )
    assert found.probe is not None
    assert (found.verdict, found.probe.share.value, found.probe.canary) == ("alarm", 1.0, False)
    assert found.probe.cost_usd is not None
    assert 0 < found.probe.cost_usd < 0.01
