"""Conditions that disturb: a file, the tools or the prompt of an episode, and nobody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadInput
from ethogram.harness import disturbance as place
from ethogram.harness.disturbance import Disturbance, disturb, disturbance_of, seen_by_agent
from ethogram.harness.run_result import RunResult
from ethogram.harness.suites import run as run_suite
from ethogram.perturbations.catalogue import file_operator
from ethogram.perturbations.operator import Change, NotApplicable
from ethogram.plans import Condition, Task
from ethogram.store import Home

TABLE = b"item,price\napple,3\nbread,4\nmilk,2\n"
TOOLS = """
def tools(task, episode):
    table = (episode.workspace / "in.csv").read_text()  # at once, as a tool may

    def read() -> str:
        "the table"
        return table

    def count(of: str) -> str:
        "how often a word stands there"
        return str(table.count(of))

    return {"read": read, "count": count}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "suite"
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "in.csv").write_bytes(TABLE)
    (folder / "tools.py").write_text(TOOLS)
    (folder / "tasks.yaml").write_text(
        "- {id: t, prompt: 'What stands in the table? Answer with the table itself.', files: {in.csv: files/in.csv},"
        " expected: yes, checks: [{kind: contains, expected: apple}]}"
    )
    return folder


def run(home: Home, suite: Path, agent: Any, *wanted: Disturbance, k: int = 3, **more: Any) -> RunResult:
    conditions = tuple(Condition(name=d.operator, settings={**d.settings(), **more}) for d in wanted)
    return run_suite(str(suite), agent, k=k, conditions=(Condition(settings=more), *conditions), run="r", home=home)


def test_a_damaged_file_is_a_copy_under_its_own_name_and_alike_in_every_attempt(home: Home, suite: Path) -> None:
    seen: list[tuple[str, bytes, list[str]]] = []

    def agent(task: Task, episode: Any) -> str:
        files = sorted(p.name for p in episode.workspace.iterdir())
        seen.append((str(episode.workspace), (episode.workspace / "in.csv").read_bytes(), files))
        (episode.workspace / "in.csv").write_text("overwritten")
        return "apple"

    wanted = Disturbance(operator="row_duplicate", seed=5, file="in.csv")
    assert run(home, suite, agent, wanted).scored == 6
    damage = file_operator("row_duplicate", "csv").apply(TABLE, "csv", 5)
    assert sorted(body for _, body, _ in seen) == sorted([TABLE] * 3 + [damage.content] * 3)
    assert len({folder for folder, _, _ in seen}) == 6
    assert all(files == ["in.csv"] for _, _, files in seen)
    assert (suite / "files" / "in.csv").read_bytes() == TABLE
    told = [t.head.meta for t in home.run("r").traces() if t.head.condition]
    assert [m["perturbed_summary"] for m in told] == [damage.summary] * 3
    assert {m["perturbed_file"] for m in told} == {"in.csv"}


def test_tools_that_read_their_file_at_once_read_the_damage(home: Home, suite: Path) -> None:
    def agent(task: Task, episode: Any) -> str:
        return str(episode.tools["read"]())

    run(home, suite, agent, Disturbance(operator="null_content", seed=1, file="in.csv"), k=1)
    by = {e.head.condition: e.head.outcome for e in home.run("r").entries}
    assert (by[""].value, by["null_content"].value) == (1.0, 0.0)  # type: ignore[union-attr]


def test_disturbed_tools_fail_differently_in_every_attempt_and_the_trace_counts_it(home: Home, suite: Path) -> None:
    def agent(task: Task, episode: Any) -> str:
        for _ in range(10):
            try:
                episode.tools["count"](of="a")
            except RuntimeError:
                continue
        return "apple"

    run(home, suite, agent, Disturbance(operator="tool_error", seed=2, intensity=0.5), k=6)
    stored = home.run("r")
    hits = []
    for entry in stored.entries:
        errors = [s.seq for s in stored.trace(entry).steps if s.status == "error"]
        if not entry.head.condition:
            assert not errors
        else:
            assert entry.head.meta["perturbed_calls"] == len(errors)
            hits.append(tuple(errors))
    assert len(set(hits)) > 1
    assert 15 <= sum(map(len, hits)) <= 45


def test_only_the_tools_that_are_named(home: Home, suite: Path) -> None:
    def agent(task: Task, episode: Any) -> str:
        with pytest.raises(RuntimeError):
            episode.tools["count"](of="a")
        return str(episode.tools["read"]())

    wanted = Disturbance(operator="tool_error", seed=2, only=("count",))
    run_suite(str(suite), agent, conditions=(Condition(name="c", settings=wanted.settings()),), run="r", home=home)
    (entry,) = home.run("r").entries
    assert entry.head.outcome.value == 1.0  # type: ignore[union-attr]
    assert entry.head.meta["perturbed_calls"] == 1


def test_a_disturbed_prompt_reaches_the_agent_only(home: Home, suite: Path) -> None:
    said: dict[bool, str] = {}

    def agent(task: Task, episode: Any) -> str:
        said[task.prompt == episode.task.prompt] = task.prompt
        return "apple"

    run_suite(
        str(suite),
        agent,
        conditions=(Condition(name="typo", settings=Disturbance(operator="prompt_typo", seed=3).settings()),),
        run="r",
        home=home,
    )
    assert list(said) == [True]
    assert said[True] != "What stands in the table? Answer with the table itself."
    (entry,) = home.run("r").entries
    assert entry.head.outcome.value == 1.0  # type: ignore[union-attr]


def test_the_agent_is_not_told_that_something_is_disturbed(home: Home, suite: Path) -> None:
    known: list[dict[str, Any]] = []

    def agent(task: Task, episode: Any) -> str:
        known.append(dict(episode.condition))
        return "apple"

    run(home, suite, agent, Disturbance(operator="row_duplicate", seed=5, file="in.csv"), k=1, temperature=0.5)
    assert known == [{"temperature": 0.5}] * 2
    assert seen_by_agent({"perturb": {}, "word": 1}) == {"word": 1}


OWN = """
from pathlib import Path
from ethogram.perturbations.operator import Change


class Upper:
    name, kind, formats, does = "upper", "table", ("csv",), "letters are made large"

    def applicable(self, content, format):
        return None

    def apply(self, content, format, seed, intensity=1.0):
        with Path(__file__).with_name("calls").open("a") as file:
            file.write("x")
        return Change(content.upper(), "all letters", (), (), (), 1)


class Broken(Upper):
    def apply(self, content, format, seed, intensity=1.0):
        raise ZeroDivisionError("a bug of the operator")


class Rubbish(Upper):
    def apply(self, content, format, seed, intensity=1.0):
        return Change("text", "no bytes", (), (), (), 1)


class Plain(Upper):
    def apply(self, content, format, seed, intensity=1.0):
        return content.upper()
"""


def test_an_operator_of_ones_own_damages_once_for_all_attempts(home: Home, suite: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    bodies = []

    def agent(task: Task, episode: Any) -> str:
        bodies.append((episode.workspace / "in.csv").read_bytes())
        return "apple"

    wanted = Disturbance(operator=f"{tmp_path / 'own.py'}:Upper", seed=0, file="in.csv")
    conditions = (Condition(name="upper", settings=wanted.settings()),)
    run_suite(str(suite), agent, k=5, workers=1, conditions=conditions, run="r", home=home)
    assert bodies == [TABLE.upper()] * 5
    assert (tmp_path / "calls").read_text() == "x"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Broken", "crashed: ZeroDivisionError"),
        ("Rubbish", "gave no Change"),
        ("Plain", "apply of the operator upper gave bytes, not a Change"),
    ],
)
def test_a_broken_operator_stops_the_run_and_is_nobodys_score(
    home: Home, suite: Path, tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    wanted = Disturbance(operator=f"{tmp_path / 'own.py'}:{name}", seed=0, file="in.csv")
    with pytest.raises(BadInput, match=said):
        run_suite(
            str(suite),
            lambda task, episode: "apple",
            conditions=(Condition(name="x", settings=wanted.settings()),),
            run="r",
            home=home,
        )
    assert home.run("r").entries == ()


def test_what_cannot_be_disturbed_says_so(tmp_path: Path) -> None:
    task = Task(id="t", prompt="Hm")
    with pytest.raises(NotApplicable, match=r"no file 'x\.csv' for column_swap"):
        disturb(Disturbance(operator="column_swap", seed=1, file="x.csv"), task, 0, tmp_path)
    with pytest.raises(NotApplicable, match="no file"):
        disturb(Disturbance(operator="column_swap", seed=1, file="x.csv"), task, 0, None)
    with pytest.raises(BadInput, match="names none"):
        disturb(Disturbance(operator="column_swap", seed=1), task, 0, tmp_path)
    with pytest.raises(NotApplicable, match="no word"):
        disturb(Disturbance(operator="prompt_typo", seed=1), task, 0, None)
    with pytest.raises(BadInput, match="cannot be read"):
        disturbance_of({"perturb": {"operator": 7}})
    assert disturbance_of({}) is None
    again = Disturbance(operator="tool_error", seed=3, intensity=0.25, only=("a",))
    assert disturbance_of(again.settings()) == again


def test_kept_damage_stays_within_its_room() -> None:
    class Large:
        name, kind, formats, does = "large", "table", ("csv",), "makes a large file"

        def applicable(self, content: bytes, format: str) -> str | None:
            return None

        def apply(self, content: bytes, format: str, seed: int, intensity: float = 1.0) -> Change:
            return Change(bytes(12 << 20), f"{seed}", (), (), (), 1)

    for seed in range(5):
        wanted = Disturbance(operator="large", seed=seed, file="x.csv")
        assert place.damaged(wanted, Large(), b"small").summary == str(seed)  # type: ignore[arg-type]
    assert sum(len(c.content) for c in place._kept.values()) <= place.KEPT_BYTES
