"""`make quick` sees every kind of change, and runs the nearest tests first."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from types import ModuleType

import pytest

TABLE = {"low": set[str](), "middle": {"low"}, "high": {"middle"}}


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def write(folder: Path, name: str, text: str = "") -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A branch that left main; nothing is changed yet."""
    for name in ("low/a", "low/b", "middle/c", "high/d"):
        write(tmp_path, f"src/ethogram/{name}.py")
    for name in ("low/test_a", "low/test_other", "middle/test_c", "high/test_d", "architecture/test_imports"):
        write(tmp_path, f"tests/{name}.py")
    write(tmp_path, "tests/middle/test_uses.py", "def test_it():\n    from ethogram.low import b\n")
    git(tmp_path, "init", "--initial-branch", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    git(tmp_path, "checkout", "-b", "branch")
    return tmp_path


def test_no_change(quick: ModuleType, checkout: Path) -> None:
    since, changed = quick.changes(checkout)
    assert since.startswith("main (")
    assert changed == []


def test_every_kind_of_change_is_seen(quick: ModuleType, checkout: Path) -> None:
    write(checkout, "committed.py")
    git(checkout, "add", ".")
    git(checkout, "commit", "-m", "second")
    write(checkout, "staged.py")
    git(checkout, "add", ".")
    write(checkout, "src/ethogram/low/a.py", "edited = 1")
    write(checkout, "new.py")
    assert quick.changes(checkout)[1] == ["committed.py", "new.py", "src/ethogram/low/a.py", "staged.py"]


def test_what_main_did_meanwhile_is_no_change_of_ours(quick: ModuleType, checkout: Path) -> None:
    git(checkout, "checkout", "main")
    write(checkout, "src/ethogram/low/a.py", "edited = 1")
    git(checkout, "commit", "-am", "second")
    git(checkout, "checkout", "branch")
    assert quick.changes(checkout)[1] == []


def test_a_checkout_without_main_is_compared_with_its_last_commit(quick: ModuleType, checkout: Path) -> None:
    git(checkout, "branch", "-D", "main")
    write(checkout, "new.py")
    assert quick.changes(checkout) == ("the last commit", ["new.py"])


def test_the_nearest_tests_come_first(quick: ModuleType, checkout: Path) -> None:
    chosen = quick.choose(checkout, ["src/ethogram/low/b.py", "tests/high/test_d.py"], TABLE)
    assert list(chosen.items()) == list(
        {
            "tests/high/test_d.py": "tests/high/test_d.py changed",
            "tests/middle/test_uses.py": "imports or is named after low.b",
            "tests/architecture/test_imports.py": "tests of architecture",
            "tests/low/test_a.py": "tests of low",
            "tests/low/test_other.py": "tests of low",
            "tests/middle/test_c.py": "middle may import low",
        }.items()
    )


def test_a_test_named_after_a_module_is_near_it(quick: ModuleType, checkout: Path) -> None:
    chosen = quick.choose(checkout, ["src/ethogram/low/a.py"], TABLE)
    assert next(iter(chosen.items())) == ("tests/low/test_a.py", "imports or is named after low.a")


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("tests/low/conftest.py", ["tests/low/test_a.py", "tests/low/test_other.py"]),
        ("docs/guide/run.md", ["tests/docs/test_words.py", "tests/docs/test_docs_run.py::test_a_page_runs[run]"]),
        ("docs/design/0001.md", ["tests/docs/test_words.py"]),
        ("tests/low/test_gone.py", []),
        ("bench/run.py", []),
    ],
)
def test_other_files_stand_for_their_tests(quick: ModuleType, checkout: Path, changed: str, tests: list[str]) -> None:
    assert list(quick.choose(checkout, [changed], TABLE)) == tests


def test_the_table_of_imports_is_the_real_one(quick: ModuleType) -> None:
    table = quick.import_table()
    assert {"errors", "store"} <= table["reading"]
    assert "questions/compare" in table["questions/gate"]


def test_a_question_is_a_folder_of_its_own(quick: ModuleType, checkout: Path) -> None:
    for name in ("gate/test_plan", "compare/test_question", "why/test_question"):
        write(checkout, f"tests/questions/{name}.py")
    table = {"questions/gate": {"questions/compare"}, "viewer": {"questions"}}
    write(checkout, "tests/viewer/test_server.py")
    assert list(quick.choose(checkout, ["src/ethogram/questions/compare/question.py"], table).values()) == [
        "imports or is named after questions.compare.question",
        "tests of architecture",
        "questions/gate may import questions/compare",
        "viewer may import questions",
    ]


def test_nothing_is_started_when_the_time_is_up(quick: ModuleType) -> None:
    def report(when: str, outcome: str) -> pytest.TestReport:
        return pytest.TestReport("tests/x.py::y", ("x", 1, "y"), {}, outcome, None, when)  # type: ignore[arg-type]

    early = quick.Deadline(time.monotonic() + 60)
    early.pytest_runtest_logreport(report("teardown", "passed"))
    assert early.reached == {"tests/x.py"}
    late = quick.Deadline(time.monotonic() - 1)
    late.pytest_runtest_logreport(report("call", "failed"))
    with pytest.raises(pytest.exit.Exception) as stopped:
        late.pytest_runtest_logreport(report("teardown", "passed"))
    assert stopped.value.returncode == 1, "a failure is told although the session was cut short"
