"""Suites: whatever shape they come in, what is wrong with them is said in one sentence before anything runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ethogram.checks import Evidence
from ethogram.errors import BadInput, EthogramError, NotFound
from ethogram.plans import Check, FileRef, Repository, Task
from ethogram.suites.load import LoadedSuite, load_suite, resolve_tools, world_tools
from ethogram.traces import digest

SUITE = """
name: shop
version: 2
success_at: 0.9
on_crash: zero
tools: tools.py
defaults:
  inputs: {city: Paris, n: 1}
  tools: [price]
  caps: {steps: 10}
"""
TASKS = """
- id: one
  prompt: How much?
  inputs: {n: 2}
  expected: 6
  checks: [numeric]
- id: two
  files: [note.txt]
  tools: [price, stock]
  checks:
    - contains: tea
    - {kind: regex, name: polite, required: false, settings: {pattern: please}}
"""
TOOLS = """
import helper

def price(item: str) -> int:
    return helper.PRICES[item]

def stock(item: str) -> int:
    return 3
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder with every kind of file that a suite may have."""
    root = tmp_path / "shop"
    (root / "files").mkdir(parents=True)
    (root / "suite.yaml").write_text(SUITE)
    (root / "tasks.yaml").write_text(TASKS)
    (root / "tools.py").write_text(TOOLS)
    (root / "helper.py").write_text("PRICES = {'tea': 6}\n")
    (root / "files" / "note.txt").write_text("buy tea\n")
    return root


def written(tmp_path: Path, tasks: Any, **files: str) -> Path:
    """A suite of one JSON-spelled tasks.yaml (JSON is YAML), and other files."""
    root = tmp_path / "suite"
    root.mkdir(exist_ok=True)
    (root / "tasks.yaml").write_text(tasks if isinstance(tasks, str) else json.dumps(tasks))
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def one(tmp_path: Path, checks: Any = (), **fields: Any) -> Task:
    return load_suite(written(tmp_path, [{"id": "t", "checks": list(checks), **fields}])).suite.tasks[0]


def test_a_folder(suite: Path) -> None:
    loaded = load_suite(suite)
    found = loaded.suite
    assert (found.name, found.version, found.success_at, found.on_crash, found.on_cap) == (
        "shop",
        "2",
        0.9,
        "zero",
        "verify",
    )
    first, second = found.tasks
    assert first.inputs == {"city": "Paris", "n": 2}
    assert first.caps == {"steps": 10}
    assert first.tools == ("price",)
    assert first.checks == (Check(kind="numeric"),)
    assert second.tools == ("price", "stock")
    assert second.files == {"note.txt": FileRef("files/note.txt", digest("file", b"buy tea\n"))}
    assert second.checks == (
        Check(kind="contains", settings={"expected": "tea"}),
        Check(kind="regex", name="polite", required=False, settings={"pattern": "please"}),
    )
    assert loaded.root == suite.resolve()
    assert resolve_tools(loaded, first)["price"](item="tea") == 6
    assert str(suite) not in sys.path


def test_tasks_may_stand_in_many_files(tmp_path: Path) -> None:
    root = tmp_path / "many"
    (root / "tasks").mkdir(parents=True)
    (root / "suite.yaml").write_text("tasks: [{id: a}]")
    (root / "tasks.yaml").write_text("tasks:\n  - id: b\n")
    (root / "tasks.jsonl").write_text('{"id": "c"}\n\n{"id": 4}\n')
    (root / "tasks" / "deep.yaml").write_text("prompt: the name of the file is the id\n")
    (root / "tasks" / "list.yml").write_text("- id: e\n- id: f\n")
    (root / "tasks" / "lines.jsonl").write_text('{"id": "g"}')
    found = load_suite(str(root)).suite
    assert found.name == "many"
    assert [t.id for t in found.tasks] == ["a", "b", "c", "4", "deep", "g", "e", "f"]


def test_one_file_is_a_suite_too(tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text("- id: a\n  checks: [{contains: x}]\n")
    (tmp_path / "whole.yaml").write_text("name: n\ndefaults: {prompt: p}\ntasks: [{id: a}]\n")
    (tmp_path / "lines.jsonl").write_text('{"id": "a", "expected": 1, "checks": [{"kind": "numeric"}]}\n')
    (tmp_path / "data.txt").write_text("x")
    assert load_suite(tmp_path / "list.yaml").suite.name == "list"
    assert load_suite(tmp_path / "whole.yaml").suite.tasks[0].prompt == "p"
    assert load_suite(tmp_path / "lines.jsonl").suite.tasks[0].expected == 1
    with pytest.raises(BadInput, match="is not a suite"):
        load_suite(tmp_path / "data.txt")


PYTHON = """
from ethogram.plans import Check, FileRef, Suite, Task

FILES = {"x": FileRef("x.txt", "")}
TASKS = [Task(id="a", expected=1, checks=(Check(kind="numeric"),), tools=("double",), files=FILES)]
SUITE = Suite(name="mine", tasks=tuple(TASKS))

def double(x: int) -> int:
    return 2 * x

def made():
    return TASKS
"""


def test_python_is_a_suite_too(tmp_path: Path) -> None:
    path = tmp_path / "asked.py"
    path.write_text(PYTHON)
    (tmp_path / "x.txt").write_text("x")
    whole, listed, called = load_suite(path), load_suite(f"{path}:TASKS"), load_suite(f"{path}:made")
    assert whole.suite.name == "mine"
    assert listed.suite.name == called.suite.name == "asked"
    assert whole.suite.tasks == listed.suite.tasks == called.suite.tasks
    assert whole.suite.tasks[0].files["x"].digest == digest("file", b"x")
    assert resolve_tools(whole, whole.suite.tasks[0])["double"](x=4) == 8
    path.write_text(PYTHON.replace("SUITE =", "OTHER =") + "\ndef suite():\n    return OTHER\n")
    assert load_suite(path).suite.name == "mine"
    path.write_text(PYTHON.replace('FileRef("x.txt", "")', 'FileRef("x.txt", "b2:0")'))
    with pytest.raises(BadInput, match=r"asked\.py, task 'a': the file 'x\.txt' does not have the hash"):
        load_suite(path)


def test_a_module_of_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "asked_by_name.py").write_text("from ethogram.plans import Task\nSUITE = [Task(id='a')]\n")
    code = "from ethogram.suites.load import load_suite; print(load_suite('asked_by_name').suite.name)"
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    assert said.stdout == "asked_by_name\n"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("no/such/folder", "no such folder or file"),
        ("nothing.yaml", "no folder, file or module with a suite named 'nothing.yaml'"),
        ("nothing.py", "no suite at 'nothing.py'"),
        ("no_such_module_here", "no folder, file or module with a suite named 'no_such_module_here'"),
        ("json", "json has no 'SUITE'"),
        ("json:loads", "cannot be imported: TypeError"),
        ("sys:path", "is list; give a Suite"),
    ],
)
def test_what_is_no_suite(spec: str, said: str) -> None:
    with pytest.raises((BadInput, NotFound), match=said):
        load_suite(spec)


# ---- the digest ----


def copied(suite: Path, where: Path) -> Path:
    return Path(shutil.copytree(suite, where / suite.name))


def test_the_same_content_elsewhere_is_the_same_suite(suite: Path, tmp_path: Path) -> None:
    first = load_suite(suite).suite
    other = copied(suite, tmp_path / "another machine")
    for junk in ("files/__pycache__/a.pyc", "__pycache__/tools.pyc"):
        (other / junk).parent.mkdir(exist_ok=True)
        (other / junk).write_text("left over")
    assert load_suite(other).suite == first
    assert load_suite(other).suite.digest == first.digest
    renamed = tmp_path / "renamed"
    shutil.copytree(suite, renamed)
    assert load_suite(renamed).suite.digest == first.digest, "the suite has a name of its own"


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("tasks.yaml", "How much?", "How many?"),
        ("tasks.yaml", "expected: 6", "expected: 7"),
        ("tasks.yaml", "contains: tea", "contains: milk"),
        ("suite.yaml", "0.9", "0.8"),
        ("suite.yaml", "steps: 10", "steps: 11"),
        ("tools.py", "return 3", "return 4"),
        ("helper.py", "6", "7"),
        ("files/note.txt", "tea", "milk"),
    ],
)
def test_any_change_of_content_is_another_suite(suite: Path, tmp_path: Path, file: str, old: str, new: str) -> None:
    other = copied(suite, tmp_path / "b")
    text = (other / file).read_text()
    assert old in text
    (other / file).write_text(text.replace(old, new))
    assert load_suite(other).suite.digest != load_suite(suite).suite.digest


def test_files_that_checks_lean_on_count(tmp_path: Path) -> None:
    tasks = [
        {
            "id": "t",
            "checks": [
                {"custom": "checks.py:grade"},
                {"json_schema": "schema.json"},
                {"command": ["{python}", "{suite}/verify.py"]},
                {"tests": ["tests/test_a.py::test_a"], "test_files": {"tests/test_a.py": "hidden/test_a.py"}},
            ],
        }
    ]
    files = {
        "checks_dot_py": "from rules import limit\ndef grade(evidence): return True\n",
        "rules_dot_py": "limit = 1\n",
        "schema_dot_json": "{}",
        "verify_dot_py": "pass\n",
        "hidden__test_a_dot_py": "def test_a(): pass\n",
    }
    root = written(tmp_path, tasks, **files)
    before = load_suite(root).suite.digest
    assert load_suite(root).suite.digest == before
    seen = {before}
    for name in files:
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.write_text(path.read_text() + "\n")
        seen.add(load_suite(root).suite.digest)
    assert len(seen) == 1 + len(files)


KEYS = st.text("abc", min_size=1, max_size=3)
PLAIN = st.none() | st.booleans() | st.integers(-99, 99) | st.text(st.characters(codec="utf-8"), max_size=8)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(KEYS, st.lists(PLAIN, max_size=3) | PLAIN, max_size=4), st.dictionaries(KEYS, PLAIN, max_size=4))
def test_yaml_and_json_lines_say_the_same(tmp_path: Path, inputs: dict[str, Any], meta: dict[str, Any]) -> None:
    task = {"id": "t", "inputs": inputs, "meta": meta, "expected": inputs}
    (tmp_path / "s.yaml").write_text(json.dumps([task]))
    (tmp_path / "s.jsonl").write_text(json.dumps(task))
    by_yaml, by_lines = load_suite(tmp_path / "s.yaml").suite, load_suite(tmp_path / "s.jsonl").suite
    assert by_yaml.digest == by_lines.digest
    assert by_lines.tasks[0].inputs == inputs


# ---- YAML ----


def test_yaml_means_what_it_says(tmp_path: Path) -> None:
    text = """
- id: 7
  inputs: {country: no, time: 12:30, code: 007, day: 2024-01-05, on: yes, n: 1_000, x: 1e3, y: true, z: ~, f: 0.5}
"""
    task = load_suite(written(tmp_path, text)).suite.tasks[0]
    assert task.id == "7"
    assert task.inputs == {
        "country": "no",
        "time": "12:30",
        "code": "007",
        "day": "2024-01-05",
        "on": "yes",
        "n": 1000,
        "x": 1000.0,
        "y": True,
        "z": None,
        "f": 0.5,
    }


def test_anchors_and_merges_work(tmp_path: Path) -> None:
    text = "- &a {id: a, prompt: p, checks: [json]}\n- {<<: *a, id: b}\n"
    assert [t.prompt for t in load_suite(written(tmp_path, text)).suite.tasks] == ["p", "p"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- id: a\n  prompt: [\n", r"tasks\.yaml line \d is not valid YAML"),
        ("- id: a\n  id: b\n", r"tasks\.yaml line 2 .*'id' is repeated"),
        ("- id: !!python/object:os.system a\n", r"tasks\.yaml line 1 is not valid YAML: could not determine"),
        ("- id: a\n  expected: .nan\n", "not finite"),
        ("- id: a\n  inputs: {1: x}\n", "the key 1, which is not text"),
        ("- id: a\n  inputs: {x: !!binary aGk=}\n", "kind 'bytes'"),
        ("- &a [*a]\n", "unfolds to more than"),
        ("a: &a [x,x]\nb: &b [*a,*a]\n" + "".join(f"k{i}: &k{i} [{'*k' + str(i - 1) if i else '*b'}"
         + f",{'*k' + str(i - 1) if i else '*b'}]\n" for i in range(24)), "unfolds to more than"),
        ('- id: "\\ud800"', r"tasks\.yaml line 1 .*half a character"),
        ("just words", "tasks are a list, not str"),
        ("- just words", "a task is a mapping"),
        ("\xff", "not UTF-8"),
    ],
)  # fmt: skip
def test_bad_yaml(tmp_path: Path, text: str, said: str) -> None:
    root = written(tmp_path, "")
    (root / "tasks.yaml").write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInput, match=said) as raised:
        load_suite(root)
    assert "\n" not in str(raised.value)


def test_bad_json_lines(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"id": "a"}\n{"id": \n')
    with pytest.raises(BadInput, match=r"s\.jsonl line 2 is not JSON"):
        load_suite(tmp_path / "s.jsonl")


# ---- what may be wrong ----


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"promt": "x"}, "a task has no field 'promt'; did you mean 'prompt'"),
        ({"checks": [{"contians": "x"}]}, "no kind of check named 'contians'; did you mean 'contains'"),
        ({"checks": ["numerc"]}, "no kind of check named 'numerc'; did you mean 'numeric'"),
        ({"checks": [{"numeric": 1, "tolerence": 2}]}, "no setting 'tolerence'; did you mean 'tolerance'"),
        (
            {"checks": [{"numeric": {"tolerence": 2}}], "expected": 3},
            "no setting 'tolerence'; did you mean 'tolerance'",
        ),
        ({"checks": [{"contains": {"al": ["x"]}}]}, "no setting 'al'; did you mean 'all'"),
        ({"checks": [{"regex": {"patern": "x"}}]}, "no setting 'patern'; did you mean 'pattern'"),
        ({"checks": [{"kind": "numeric", "tolerence": 2}]}, "no setting 'tolerence'; did you mean 'tolerance'"),
        ({"checks": [{"contains": "x", "regex": "y"}]}, "the check 'contains' has no setting 'regex'"),
        ({"checks": [{}]}, "a check has no kind"),
        ({"checks": [3]}, "a check is written as"),
        ({"checks": ["contains"]}, "check 'contains' has nothing to compare with"),
        ({"checks": [{"regex": "("}]}, "not a regular expression"),
        ({"checks": [{"json": None, "required": "yes"}]}, "'required' is true or false"),
        ({"checks": [{"kind": "json", "settings": 3}]}, "settings of a check are a mapping"),
        ({"checks": [{"custom": "absent.py:f"}]}, "no file 'absent.py' in the suite"),
        ({"checks": [{"custom": "../x.py:f"}]}, "leads out of the suite"),
        ({"checks": [{"json_schema": {"type": "objekt"}}]}, "JSON schema is not valid"),
        ({"checks": [{"tests": ["test_a.py::test_a"]}]}, "the test file 'test_a.py', which is neither"),
        (
            {"checks": [{"contains": "x"}], "outcome": "regex"},
            "the outcome is to come from 'regex'; the checks are contains",
        ),
        ({"files": ["absent.txt"]}, "no file 'absent.txt'"),
        ({"files": ["*.absent"]}, r"no file '\*.absent'"),
        ({"files": ["../secret"]}, "leads out of the suite"),
        ({"files": ["/etc/passwd"]}, "leads out of the suite"),
        ({"files": {"../x": "a.txt"}}, "cannot be a name in the workspace"),
        ({"files": {"/x": "a.txt"}}, "cannot be a name in the workspace"),
        ({"files": {"x": 3}}, "does not name a file"),
        ({"files": 3}, "'files' is a list of names"),
        ({"files": {"x": "a.txt", "x/y": "a.txt"}}, "a file and a folder"),
        ({"files": ["link.txt"]}, "leads out of the suite"),
        ({"tools": ["price"]}, "no tool 'price': the suite has no tools.py"),
        ({"tools": ["json:lods"]}, "did you mean 'loads'"),
        ({"tools": ["no_such_module:f"]}, "cannot import"),
        ({"caps": {"stepps": 3}}, "'stepps' cannot be capped; did you mean 'steps'"),
        ({"caps": {"steps": 0}}, "must be more than 0"),
        ({"caps": {"steps": "many"}}, "Expected `float`"),
        ({"prompt": 3}, "Expected `str`"),
        ({"id": ""}, "the task has no id"),
        ({"id": None}, "the task has no id"),
        ({"id": True}, "the task has no id"),
        ({"id": "a\x07"}, "cannot be printed"),
        ({"repository": {"path": "repo"}}, "needs a path and a commit"),
        ({"repository": {"path": "repo", "commit": "x"}}, "no repository 'repo'"),
        ({"repository": {"path": "../..", "commit": "x"}}, "leads out"),
        ({"repository": {"path": "a.txt", "commit": "main"}}, "full hash"),
    ],
)
def test_one_sentence_names_the_file_the_task_and_the_mistake(
    tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    root = written(tmp_path, [{"id": "t", **fields}], a_dot_txt="a")
    (tmp_path / "secret").write_text("outside")
    (root / "link.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(BadInput, match=said) as raised:
        load_suite(root)
    assert str(raised.value).startswith("tasks.yaml")
    assert fields.get("id", "t") != "t" or "task 't'" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("nam: x", r"suite\.yaml: a suite has no field 'nam'; did you mean 'name'"),
        ("- a", r"suite\.yaml: a suite is a mapping"),
        ("defaults: 3", "'defaults' is a mapping"),
        ("defaults: {id: 3}", "cannot share a default id"),
        ("on_crash: shrug", "Invalid enum value 'shrug'"),
        ("success_at: high", "Expected `float`"),
        ("tools: 3", "'tools' names a Python file"),
        ("tools: absent.py", "no Python file at 'absent.py'"),
        ("tools: ../outside.py", "leads out"),
        ("tools: broken.py", r"broken\.py line 1 is not valid Python"),
        ("tools: crash.py", r"crash\.py cannot be imported: ZeroDivisionError"),
    ],
)
def test_a_bad_head(tmp_path: Path, head: str, said: str) -> None:
    root = written(tmp_path, [{"id": "t"}], suite_dot_yaml=head, broken_dot_py="def (", crash_dot_py="1 / 0")
    with pytest.raises(EthogramError, match=said) as raised:
        load_suite(root)
    assert raised.value.exit_code == 64


def test_two_tasks_of_one_name_and_no_task_at_all(tmp_path: Path) -> None:
    root = written(tmp_path, [{"id": "t"}], tasks_dot_jsonl='{"id": "u"}\n{"id": "t"}')
    with pytest.raises(BadInput, match=r"tasks\.jsonl line 2, task 't': tasks\.yaml has a task with this id already"):
        load_suite(root)
    (tmp_path / "empty").mkdir()
    (tmp_path / "none.yaml").write_text("[]")
    for nothing in (tmp_path / "empty", tmp_path / "none.yaml"):
        with pytest.raises(BadInput, match="has no tasks"):
            load_suite(nothing)


# ---- files and repositories ----


def test_files_by_name_glob_folder_and_mapping(tmp_path: Path) -> None:
    def names(files: Any) -> dict[str, str]:
        return {name: ref.path for name, ref in one(tmp_path, files=files).files.items()}

    written(
        tmp_path,
        [],
        files__a_dot_txt="a",
        files__repo__src__m_dot_py="m",
        files__repo____pycache___dot_pyc="junk",
        top_dot_txt="top",
    )
    root = tmp_path / "suite"
    (root / "files" / "repo" / "__pycache__").mkdir()
    (root / "files" / "repo" / "__pycache__" / "m.pyc").write_text("junk")
    assert names(["a.txt", "top.txt"]) == {"a.txt": "files/a.txt", "top.txt": "top.txt"}
    assert names(["*.txt"]) == {"a.txt": "files/a.txt"}
    assert names(["repo"])["repo/src/m.py"] == "files/repo/src/m.py"
    assert "repo/__pycache__/m.pyc" not in names(["repo"])
    assert names(["**/*.py"]) == {"repo/src/m.py": "files/repo/src/m.py"}
    assert names({"b.txt": "a.txt", "top.txt": None}) == {"b.txt": "files/a.txt", "top.txt": "top.txt"}
    assert names({"b.txt": "files/a.txt"}) == {"b.txt": "files/a.txt"}
    assert names({".": "repo/src"}) == {"m.py": "files/repo/src/m.py"}
    assert names({"pkg": "repo/src"}) == {"pkg/m.py": "files/repo/src/m.py"}
    with pytest.raises(BadInput, match="two files would be named"):
        names(["a.txt", "*.txt"])


def test_a_repository_is_pinned_to_what_its_branch_names_now(tmp_path: Path) -> None:
    root = written(tmp_path, [{"id": "t", "repository": {"path": "repo", "commit": "trunk"}}])
    repo = root / "repo"
    repo.mkdir()
    for words in (
        ["init", "-q", "-b", "trunk"],
        ["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", *words], cwd=repo, check=True, timeout=120)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, text=True, check=True, timeout=120
    ).stdout
    assert load_suite(root).suite.tasks[0].repository == Repository("repo", head.strip())
    written(tmp_path, [{"id": "t", "repository": {"path": "repo", "commit": "0" * 40}}])
    with pytest.raises(BadInput, match="has no commit '0000"):
        load_suite(root)


# ---- checks ----


def test_checks_in_every_spelling(tmp_path: Path) -> None:
    spelled = [
        "json",
        {"json": None},
        {"contains": ["a", "b"]},
        {"contains": {"any": ["a"]}, "name": "some"},
        {"equals": True},
        {"numeric": 42, "tolerance": 0.5, "required": False},
        {"kind": "numeric", "expected": 42},
        {"tool_calls": [{"name": "f"}], "mode": "superset"},
        {"json": {"a": 1}},
        {"json": {"has": {"a": 1}}},
    ]
    assert one(tmp_path, spelled).checks == (
        Check(kind="json"),
        Check(kind="json"),
        Check(kind="contains", settings={"expected": ["a", "b"]}),
        Check(kind="contains", name="some", settings={"any": ["a"]}),
        Check(kind="equals", settings={"expected": True}),
        Check(kind="numeric", required=False, settings={"expected": 42, "tolerance": 0.5}),
        Check(kind="numeric", settings={"expected": 42}),
        Check(kind="tool_calls", settings={"calls": [{"name": "f"}], "mode": "superset"}),
        Check(kind="json", settings={"expected": {"a": 1}}),
        Check(kind="json", settings={"has": {"a": 1}}),
    )
    assert one(tmp_path, [{"contains": "a"}, {"contains": "b"}], outcome="contains-2").outcome == "contains-2"


# ---- tools ----

WORLD = """
def price(item):
    return 6

def tools(task, episode):
    box = []

    def put(item):
        box.append(item)
        return len(box)

    if task.id == "crash":
        raise KeyError("x")
    if task.id == "wrong":
        return ["put"]
    if task.id == "fault":
        raise ConnectionError("the world is away")
    return {"put": put, "who": lambda: episode}
"""


def test_a_world_of_each_episodes_own(tmp_path: Path) -> None:
    tasks = [
        {"id": "a", "tools": ["put", "price", "json:loads"]},
        {"id": "all"},
        {"id": "lost", "tools": ["putt"]},
        *({"id": name} for name in ("crash", "wrong", "fault")),
    ]
    loaded = load_suite(written(tmp_path, tasks, tools_dot_py=WORLD))
    assert set(resolve_tools(loaded, loaded.suite.task("a"))) == {"price", "loads"}
    first, second = (world_tools(loaded, loaded.suite.task("a"), None) for _ in range(2))
    assert list(first) == ["put", "price", "loads"]
    assert (first["put"]("x"), first["put"]("y"), second["put"]("x")) == (1, 2, 1)
    assert first["loads"]("[1]") == [1]
    everything = world_tools(loaded, loaded.suite.task("all"), "the handle")
    assert set(everything) == {"put", "who"}
    assert everything["who"]() == "the handle"
    for task, error, said in (
        ("lost", NotFound, "did you mean 'put'"),
        ("crash", BadInput, "crashed for task 'crash': KeyError"),
        ("wrong", BadInput, "must give a mapping"),
        ("fault", ConnectionError, "away"),
    ):
        with pytest.raises(error, match=said):
            world_tools(loaded, loaded.suite.task(task), None)


def test_a_tool_that_does_not_exist_is_named_with_the_nearest(suite: Path) -> None:
    (suite / "tasks.yaml").write_text("- {id: a, tools: [prize]}\n")
    with pytest.raises(BadInput, match=r"tasks\.yaml, task 'a': no tool named 'prize'; did you mean 'price'"):
        load_suite(suite)


def test_two_tools_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="two tools are named 'loads'"):
        one(tmp_path, tools=["json:loads", "pickle:loads"])


def test_the_suites_that_ship_can_be_loaded() -> None:
    package = Path(sys.modules["ethogram"].__file__ or "").parent
    found = [p.parent for p in package.rglob("tasks.yaml")]
    assert len(found) >= 2
    for root in found:
        loaded = load_suite(root)
        assert isinstance(loaded, LoadedSuite)
        assert all(t.checks for t in loaded.suite.tasks)
        assert Evidence(answer=None).root is None
