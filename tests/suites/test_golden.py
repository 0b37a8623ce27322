"""Golden sets on disk: versions follow from what changed, history is kept, and tasks are cut out of text safely."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.errors import BadInput, BadUsage
from ethogram.plans import Check, Suite, Task
from ethogram.plans.golden import (
    SuiteChanges,
    changes_since,
    first_frozen,
    frozen_again,
    next_version,
    parsed_version,
)
from ethogram.questions.golden.versions import add_tasks, freeze, golden_diff, remove_task
from ethogram.store import Home
from ethogram.suites.load import load_suite

TASKS = """# prices of the shop
name: shop
tasks:
  # the first one
  - id: tea
    prompt: What does tea cost?
    checks: [{contains: "6"}]

  - {id: ale, prompt: "What does ale cost?", checks: [{contains: "4"}]}
  # the last one
  - id: milk
    prompt: What does milk cost?
    checks:
      - contains: "2"
"""


@pytest.fixture
def shop(tmp_path: Path) -> str:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "suite.yaml").write_text(TASKS)
    return str(folder)


def edit(shop: str, old: str, new: str) -> None:
    path = Path(shop, "suite.yaml")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_a_set_is_frozen_with_version_digest_and_canary(shop: str) -> None:
    before = load_suite(shop).suite
    made = freeze(shop, by="ada")
    stored = json.loads(Path(shop, "golden.json").read_text())
    assert (made.version, made.tasks, made.digest) == ("1.0.0", 3, before.digest)
    assert stored["history"][0]["by"] == "ada"
    assert made.canary in Path(shop, "suite.yaml").read_text(), "the canary stands in the frozen file"
    assert load_suite(shop).suite.digest == before.digest, "a comment changes nothing that is asked"
    with pytest.raises(BadInput, match="nothing changed"):
        freeze(shop)


def test_what_changed_decides_the_version(shop: str) -> None:
    freeze(shop)
    edit(shop, "What does tea cost?", "What is the price of tea?")
    assert golden_diff(shop).changes.reworded == ["tea"]
    assert freeze(shop).version == "1.0.1"
    edit(shop, "  # the last one\n", '  - {id: rye, prompt: "Rye?", checks: [{contains: "3"}]}\n  # the last one\n')
    assert add_tasks(shop, []).version == "1.1.0"
    edit(shop, 'contains: "4"', 'contains: "5"')
    with pytest.raises(
        BadUsage, match=r"changed checks, files, tools or rules of ale: .* needs a written reason; give why"
    ):
        freeze(shop)
    assert freeze(shop, why="the price rose").version == "2.0.0"
    assert [e.version for e in golden_diff(shop, since="1.0.1").history] == ["1.1.0", "2.0.0"]
    edit(shop, "name: shop", "name: shop\nsuccess_at: 0.9")
    assert golden_diff(shop).changes.changed == ["tea", "ale", "rye", "milk"], "another bar is another demand on all"


def test_files_and_tools_that_a_task_leans_on_are_demands(shop: str) -> None:
    edit(
        shop,
        "    prompt: What does tea cost?\n",
        "    prompt: What does tea cost?\n    files: [list.txt]\n    tools: [look]\n",
    )
    Path(shop, "list.txt").write_text("tea 6")
    Path(shop, "tools.py").write_text("def look(): return 6\n")
    freeze(shop)
    Path(shop, "list.txt").write_text("tea 7")
    assert golden_diff(shop).changes == SuiteChanges(changed=["tea"])
    Path(shop, "list.txt").write_text("tea 6")
    Path(shop, "tools.py").write_text("def look(): return 7\n")
    assert golden_diff(shop).changes == SuiteChanges(changed=["tea"])


@pytest.mark.parametrize("task", ["tea", "ale", "milk"])
def test_a_task_is_removed_with_a_reason_and_nothing_else_is_touched(shop: str, task: str, home: Home) -> None:
    freeze(shop)
    before = load_suite(shop).suite
    with pytest.raises(BadUsage, match="needs a written reason"):
        remove_task(shop, task, why=None, home=home)
    with pytest.raises(BadUsage, match="needs a written reason"):
        remove_task(shop, task, why="  ", home=home)
    made = remove_task(shop, task, why="no longer sold", home=home)
    assert (made.version, made.change.why) == ("2.0.0", "no longer sold")
    now = load_suite(shop)
    assert now.suite.tasks == tuple(t for t in before.tasks if t.id != task)
    assert "# prices of the shop" in Path(shop, "suite.yaml").read_text()
    assert now.golden is not None
    assert [h.version for h in now.golden.history] == ["1.0.0", "2.0.0"]


def test_a_task_that_cannot_be_cut_out_is_left_to_people(tmp_path: Path, home: Home) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(
        'tasks: [{id: a, prompt: "A?", checks: [{contains: x}]}, {id: b, prompt: "B?", checks: [{contains: y}]}]\n'
    )
    freeze(str(path))
    before = path.read_text()
    with pytest.raises(BadInput, match="take it out by hand, then repeat"):
        remove_task(str(path), "a", why="old", home=home)
    assert path.read_text() == before
    path.write_text('tasks: [{id: b, prompt: "B?", checks: [{contains: y}]}]\n')
    assert remove_task(str(path), "a", why="old", home=home).version == "2.0.0"


def test_json_lines_lose_one_line(tmp_path: Path, home: Home) -> None:
    path = tmp_path / "lines.jsonl"
    lines = [json.dumps({"id": f"t{i}", "prompt": "?", "checks": [{"contains": "x"}]}) for i in range(3)]
    path.write_text("\n".join(lines) + "\n")
    freeze(str(path))
    assert (tmp_path / "lines.golden.json").is_file()
    remove_task(str(path), "t1", why="twice the same", home=home)
    assert path.read_text().splitlines() == [lines[0], lines[2]]


def test_tasks_are_added_from_files(shop: str, tmp_path: Path) -> None:
    freeze(shop)
    new = tmp_path / "rye.yaml"
    new.write_text("prompt: What does rye cost?\nchecks: [{contains: '3'}]\n")
    made = add_tasks(shop, [new], why="asked by a customer")
    assert made.version == "1.1.0"
    assert load_suite(shop).suite.task("rye").prompt == "What does rye cost?"
    with pytest.raises(BadInput, match="has a task 'rye' already"):
        add_tasks(shop, [new])
    edit(shop, 'contains: "4"', 'contains: "5"')
    with pytest.raises(BadUsage, match="more than added tasks changed"):
        add_tasks(shop, [])


def test_a_history_that_was_edited_is_refused(shop: str, home: Home) -> None:
    freeze(shop)
    remove_task(shop, "ale", why="sold out", home=home)
    path = Path(shop, "golden.json")
    good = json.loads(path.read_text())
    for spoil, said in (
        ({"history": good["history"][:1]}, "its history ends with 1.0.0"),
        ({"history": []}, "it has no history"),
        ({"version": "9.0.0"}, "its history ends with 2.0.0"),
        ({"tasks": {}}, "disagree about"),
    ):
        path.write_text(json.dumps(good | spoil))
        with pytest.raises(BadInput, match=said):
            load_suite(shop)
    path.write_text("{")
    with pytest.raises(BadInput, match="is not a golden set"):
        load_suite(shop)


@given(st.lists(st.sampled_from(["major", "minor", "patch"]), min_size=1, max_size=8))
def test_versions_only_grow(bumps: list[str]) -> None:
    version = "1.0.0"
    for bump in bumps:
        following = next_version(version, bump)
        assert parsed_version(following) > parsed_version(version)
        version = following


@given(st.sets(st.sampled_from("abcdef"), min_size=1), st.sets(st.sampled_from("abcdef"), min_size=1))
def test_changes_are_the_difference_of_the_sets(before: set[str], after: set[str]) -> None:
    def made(names: set[str]) -> Suite:
        return Suite(
            name="s",
            tasks=tuple(
                Task(id=n, checks=(Check(kind="contains", settings={"expected": "x"}),)) for n in sorted(names)
            ),
        )

    golden = first_frozen(made(before), "1.0.0", {"at": "", "by": "", "why": "x"}, "")
    changes = changes_since(golden, made(after))
    assert (set(changes.added), set(changes.removed)) == (after - before, before - after)
    assert bool(changes) == (before != after)
    if before != after:
        bump = "major" if before - after else "minor"
        assert frozen_again(golden, made(after), {"at": "", "by": "", "why": "x"}).version == next_version(
            "1.0.0", bump
        )
