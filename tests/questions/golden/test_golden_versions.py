"""Scores of different versions of a suite are not compared, and a suite that was edited is noticed everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadUsage
from ethogram.harness.suites import run
from ethogram.plans import Task
from ethogram.questions.compare.question import compare
from ethogram.questions.divergence.question import divergence
from ethogram.questions.gate.question import gate
from ethogram.questions.golden.versions import freeze
from ethogram.questions.why.question import why
from ethogram.store import Home
from ethogram.viewer.report.report import report


def suite_at(folder: Path, demands: dict[str, str]) -> str:
    folder.mkdir(exist_ok=True)
    lines = [f'- {{id: {t}, prompt: "say {t}", checks: [{{equals: "{x}"}}]}}' for t, x in demands.items()]
    (folder / "tasks.yaml").write_text("\n".join(lines) + "\n")
    return str(folder)


def agent(rate: float) -> Any:
    def flip(task: Task, episode: Any) -> str:
        return "yes" if episode.random("fate").random() < rate else "no"

    return flip


@pytest.fixture
def two_versions(tmp_path: Path, home: Home) -> str:
    names = [f"t{i}" for i in range(8)]
    folder = suite_at(tmp_path / "coins", dict.fromkeys(names, "yes"))
    freeze(folder)
    run(folder, agent(0.9), k=8, home=home, run="old")
    suite_at(tmp_path / "coins", dict.fromkeys(names[:6], "yes") | {"t6": "no", "extra": "yes"})
    freeze(folder, why="t6 was wrong, t7 is gone")
    run(folder, agent(0.3), k=8, home=home, run="new")
    return folder


def test_versions_are_not_mixed(two_versions: str, home: Home, tmp_path: Path) -> None:
    said = (
        r"'old' ran coins 1\.0\.0 \(b2:\w{12}\) and 'new' ran coins 2\.0\.0 \(b2:\w{12}\): added extra; removed t7; "
        r"changed t6; scores of different versions are not compared; .*common_tasks to compare the 6 tasks"
    )
    for ask in (
        lambda: compare("old", "new", home=home),
        lambda: gate("old", "new", home=home),
        lambda: report("old", tmp_path / "r.html", candidate="new", home=home),
        lambda: why("new", against="old", home=home),
        lambda: divergence("new", "old", home=home),
    ):
        with pytest.raises(BadUsage, match=said):
            ask()


def test_common_tasks_are_those_of_equal_content(two_versions: str, home: Home, tmp_path: Path) -> None:
    same = [f"t{i}" for i in range(6)]
    found = compare("old", "new", home=home, common_tasks=True)
    assert [t.task for t in found.tasks] == same
    assert found.verdict == "regression"
    assert found.suite is not None
    assert (found.suite.base.version, found.suite.candidate.version, found.suite.same) == ("1.0.0", "2.0.0", 6)
    judged = gate("old", "new", home=home, common_tasks=True)
    assert judged.verdict == "regression"
    assert {t.task for t in judged.tasks} <= set(same)
    told = why("new", against="old", home=home, common_tasks=True)
    assert told.against is not None
    assert told.against.tasks == 6
    assert list(divergence("new", "old", home=home, common_tasks=True).tasks) == same
    written = report("old", tmp_path / "r.html", candidate="new", common_tasks=True, home=home)
    assert "compare" in written.sections


def test_an_edited_suite_is_noticed(tmp_path: Path, home: Home) -> None:
    folder = suite_at(tmp_path / "coins", {"a": "yes", "b": "yes", "c": "yes"})
    freeze(folder)
    assert run(folder, agent(0.9), k=4, home=home, run="clean").warnings == ()
    suite_at(tmp_path / "coins", {"a": "yes", "b": "yes", "c": "no"})
    (warning,) = run(folder, agent(0.9), k=4, home=home, run="edited").warnings
    assert "changed checks, files, tools or rules of c" in warning
    run(folder, agent(0.9), k=4, home=home, run="again")
    assert (
        compare("edited", "again", home=home).suite.base.unrecorded == "changed checks, files, tools or rules of c"
    ), "same digest, but told"
    with pytest.raises(BadUsage, match=r"'edited' ran coins with changes that version 1\.0\.0 does not have"):
        gate("edited", "again", home=home)
    with pytest.raises(BadUsage, match=r"edited since \(changed checks, files, tools or rules of c\)"):
        compare("clean", "edited", home=home)


def test_runs_of_another_suite_altogether_have_nothing_in_common(tmp_path: Path, home: Home) -> None:
    run(suite_at(tmp_path / "one", {"a": "yes"}), agent(1), home=home, run="one")
    run(suite_at(tmp_path / "two", {"b": "yes"}), agent(1), home=home, run="two")
    with pytest.raises(BadUsage, match="no task is the same in both"):
        compare("one", "two", home=home, common_tasks=True)
