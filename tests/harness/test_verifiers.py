"""Judging what an agent left: files, rows, services, commands, named tests; and whose fault a crash is."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ethogram.checks import KINDS, Evidence
from ethogram.errors import BadInput
from ethogram.harness.faults import VerifierFault
from ethogram.harness.processes import KEPT_END, MAX_OUTPUT, clean_environment, run_process
from ethogram.harness.verifiers import VERIFIERS, JudgingFault, judge_task
from ethogram.harness.verifying_tests import dotted, filled, read_report
from ethogram.harness.workspace import Workspace
from ethogram.plans import Check, FileRef, Repository, Task
from ethogram.traces import Label, Missing, Scored, digest


class Loaded(NamedTuple):
    root: Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with a little in it."""
    path = tmp_path / "workspace"
    (path / "out" / "deep").mkdir(parents=True)
    (path / "note.txt").write_text("hello\n")
    (path / "out" / "total.json").write_text('{"total": 42.0, "items": ["a", "b"]}')
    (path / "out" / "deep" / "x.csv").write_text("1,2")
    (path / "__pycache__").mkdir()
    (path / "__pycache__" / "a.pyc").write_text("")
    return path


def judged(folder: Path | None, kind: str, root: Path | None = None, **settings: Any) -> tuple[float | None, str]:
    """Score and reason of one check of layer L3."""
    task = Task(id="t", checks=(Check(kind=kind, settings=settings),))
    evidence = Evidence(answer="done", workspace=folder, inputs=settings.pop("inputs", {}))
    labels, _ = judge_task(task, Loaded(root or Path()), evidence)
    value = labels[0].value
    assert value is None or isinstance(value, float)
    return value, labels[0].why or ""


# ---- the outcome ----


def test_every_check_is_a_label_and_the_required_ones_decide(tmp_path: Path) -> None:
    checks = (
        Check(kind="contains", settings={"expected": "Paris"}),
        Check(kind="numeric", name="year", settings={"expected": 1999}),
        Check(kind="contains", required=False, settings={"expected": "Rome"}),
    )
    task = Task(id="t", checks=checks)
    labels, outcome = judge_task(task, Loaded(tmp_path), Evidence(answer="Paris in 1999"))
    assert [(x.name, x.value, x.source) for x in labels] == [
        ("contains", 1.0, "verifier"),
        ("year", 1.0, "verifier"),
        ("contains-2", 0.0, "verifier"),
    ]
    assert outcome == Scored(1.0, "contains+year")
    one = Task(id="t", checks=checks, outcome="contains-2")
    assert judge_task(one, Loaded(tmp_path), Evidence(answer="Paris in 1999"))[1] == Scored(0.0, "contains-2")
    assert judge_task(task, Loaded(tmp_path), Evidence(answer="Paris in 1998"))[1] == Scored(0.0, "contains+year")


def test_without_checks_or_without_what_they_need_there_is_no_outcome(tmp_path: Path) -> None:
    assert judge_task(Task(id="t"), Loaded(tmp_path), Evidence(answer="x"))[1] == Missing(
        "unscored", "the task has no required check"
    )
    task = Task(id="t", checks=(Check(kind="files", settings={"exists": ["x"]}),))
    labels, outcome = judge_task(task, Loaded(tmp_path), Evidence(answer="x"))
    assert labels[0].value is None
    assert isinstance(outcome, Missing)
    assert outcome.reason == "unscored"


def test_a_check_that_crashes_says_nothing_about_the_agent(tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text(
        "import sys\ndef boom(evidence): raise ZeroDivisionError('oh')\ndef leave(evidence): sys.exit(3)\n"
    )
    good = Check(kind="contains", settings={"expected": "x"})
    for name in ("boom", "leave", "absent"):
        bad = Check(kind="custom", name="own", settings={"function": f"checks.py:{name}"})
        with pytest.raises(VerifierFault, match="the check 'own' of task 't' crashed") as raised:
            judge_task(Task(id="t", checks=(good, bad)), Loaded(tmp_path), Evidence(answer="x"))
        assert raised.value.reason == "infrastructure.verifier"
        assert not raised.value.transient
        assert isinstance(raised.value, JudgingFault)
        assert [x.value for x in raised.value.labels] == [1.0, None]
        aside = Check(kind="custom", name="own", required=False, settings=bad.settings)
        labels, outcome = judge_task(Task(id="t", checks=(good, aside)), Loaded(tmp_path), Evidence(answer="x"))
        assert outcome == Scored(1.0, "contains")
        assert labels[1].value is None


def test_a_failure_of_this_machine_is_not_swallowed(tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text(
        "import errno\ndef full(evidence): raise OSError(errno.ENOSPC, 'No space left on device')\n"
    )
    check = Check(kind="custom", settings={"function": "checks.py:full"})
    with pytest.raises(OSError, match="No space left"):
        judge_task(Task(id="t", checks=(check,)), Loaded(tmp_path), Evidence(answer="x"))


def test_bad_settings_stop_rather_than_score(tmp_path: Path) -> None:
    for check in (Check(kind="contians"), Check(kind="numeric", settings={"tol": 1})):
        with pytest.raises(BadInput):
            judge_task(Task(id="t", checks=(check,)), Loaded(tmp_path), Evidence(answer="x"))


def test_every_kind_of_layer_l3_is_carried_out_here() -> None:
    assert set(VERIFIERS) == {k for k, s in KINDS.items() if s.layer == "L3"}


# ---- files ----


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"exists": ["note.txt", "out", "out/deep/"]}, 1),
        ({"exists": ["missing.txt"]}, 0),
        ({"exists": ["out/*.json"]}, 1),
        ({"exists": ["*.csv"]}, 0),
        ({"exists": ["**/*.csv"]}, 1),
        ({"exists": ["out/**"]}, 1),
        ({"absent": ["missing.txt"]}, 1),
        ({"absent": ["**/*.csv"]}, 0),
        ({"only": ["note.txt", "out/**"]}, 1),
        ({"only": ["note.txt", "out/total.json", "out/deep/x.csv"]}, 1),
        ({"only": ["note.txt"]}, 0),
        ({"only": ["note.txt", "out/**", "more.txt"]}, 0),
        ({"content": {"note.txt": "hello"}}, 1),
        ({"content": {"note.txt": "Hello"}}, 0),
        ({"content": {"note.txt": {"contains": "HELL"}}}, 1),
        ({"content": {"note.txt": {"regex": "^h.*o$"}}}, 1),
        ({"content": {"out/total.json": {"json": {"has": {"total": 42, "items[1]": "b"}}}}}, 1),
        ({"content": {"out/total.json": {"json": {"total": 42, "items": ["a", "b"]}}}}, 1),
        ({"content": {"out/total.json": {"json": {"total": 43, "items": ["a", "b"]}}}}, 0),
        ({"content": {"out": "x"}}, 0),
        ({"content": {"missing.txt": "x"}}, 0),
    ],
)
def test_files(folder: Path, settings: dict[str, Any], wanted: float) -> None:
    score, why = judged(folder, "files", **settings)
    assert score == wanted, why
    assert why


def test_a_link_that_leads_out_is_no_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "solution.txt").write_text("the solution")
    (folder / "answer.txt").symlink_to(tmp_path / "solution.txt")
    (folder / "inner.txt").symlink_to("note.txt")
    (folder / "away").symlink_to(tmp_path)
    (folder / "broken").symlink_to("nowhere")
    (folder / "loop").symlink_to(".")
    assert judged(folder, "files", content={"answer.txt": "the solution"})[0] == 0
    assert judged(folder, "files", exists=["away"])[0] == 0
    assert judged(folder, "files", absent=["broken", "away/**"])[0] == 1
    assert judged(folder, "files", content={"inner.txt": "hello"})[0] == 1


# ---- rows ----


@pytest.fixture
def shop(folder: Path) -> Path:
    with sqlite3.connect(folder / "shop.db") as db:
        db.execute("CREATE TABLE orders (id INTEGER, item TEXT, price REAL)")
        db.executemany("INSERT INTO orders VALUES (?, ?, ?)", [(1, "tea", 6.0), (2, "milk", 2.5)])
    db.close()
    return folder


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"query": "SELECT * FROM orders WHERE item = 'tea'"}, 1),
        ({"query": "SELECT * FROM orders WHERE item = 'lamp'"}, 0),
        ({"query": "SELECT * FROM orders WHERE item = ?", "parameters": ["tea"]}, 1),
        ({"query": "SELECT * FROM orders WHERE item = :i", "parameters": {"i": "tea"}, "count": 1}, 1),
        ({"query": "SELECT * FROM orders", "count": 3}, 0),
        ({"query": "SELECT * FROM orders WHERE id > 9", "count": 0}, 1),
        ({"query": "SELECT count(*) FROM orders", "row": 2}, 1),
        ({"query": "SELECT item, price FROM orders", "row": ["tea", "6"]}, 1),
        ({"query": "SELECT item, price FROM orders", "row": ["6", "tea"]}, 0),
        ({"query": "SELECT * FROM orders", "row": {"item": "milk", "price": 2.5}}, 1),
        ({"query": "SELECT * FROM orders", "row": {"item": "milk", "price": 3}}, 0),
        ({"query": "SELECT item FROM orders", "rows": ["milk", "tea"]}, 1),
        ({"query": "SELECT item FROM orders ORDER BY id", "rows": ["milk", "tea"], "ordered": True}, 0),
        ({"query": "SELECT item FROM orders", "rows": ["milk"]}, 0),
        ({"query": "SELECT price FROM orders", "rows": [6, 2.49], "tolerance": 0.02}, 1),
        ({"query": "SELECT * FROM invoices"}, 0),
        ({"query": "SELECT colour FROM orders"}, 0),
        ({"database": "none.db", "query": "SELECT 1"}, 0),
        ({"database": "note.txt", "query": "SELECT * FROM orders"}, 0),
    ],
)
def test_sql_row(shop: Path, settings: dict[str, Any], wanted: float) -> None:
    score, why = judged(shop, "sql_row", **{"database": "shop.db", **settings})
    assert score == wanted, why


def test_a_query_changes_nothing_and_its_own_mistakes_are_not_the_agents(shop: Path) -> None:
    before = (shop / "shop.db").read_bytes()
    endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"
    for query, said in (("DELETE FROM orders", "readonly"), ("SELEC 1", "syntax error"), (endless, "interrupted")):
        with pytest.raises(VerifierFault, match=said):
            judged(shop, "sql_row", database="shop.db", query=query, timeout=0.2)
    assert (shop / "shop.db").read_bytes() == before


def test_a_database_that_was_left_open_is_read_with_its_log(folder: Path) -> None:
    db = sqlite3.connect(folder / "wal.db")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE t (x)")
    db.execute("INSERT INTO t VALUES (7)")
    db.commit()
    assert (folder / "wal.db-wal").stat().st_size > 0
    assert judged(folder, "sql_row", database="wal.db", query="SELECT x FROM t", row=7)[0] == 1
    db.close()


# ---- services ----


class _Service(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = {"/gone": 404, "/away": 302, "/broken": 500}.get(self.path, 200)
        body = b'{"order": {"id": 7, "items": ["tea"]}, "who": "%s"}' % self.headers.get("x-who", "").encode()
        self.send_response(status)
        if status == 302:
            self.send_header("location", "http://example.invalid/")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Service)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join(timeout=60)


@pytest.mark.parametrize(
    ("path", "settings", "wanted"),
    [
        ("/", {}, 1),
        ("/", {"has": {"order.id": "7", "order.items[0]": "tea"}}, 1),
        ("/", {"has": {"order.id": 8}}, 0),
        ("/", {"has": {"order.total": 8}}, 0),
        ("/", {"body": {"contains": "tea"}}, 1),
        ("/", {"body": {"contains": "coffee"}}, 0),
        ("/", {"headers": {"x-who": "me"}, "has": {"who": "me"}}, 1),
        ("/gone", {}, 0),
        ("/gone", {"status": 404}, 1),
        ("/broken", {"status": None, "has": {"order.id": 7}}, 1),
        ("/away", {"status": 302}, 1),
    ],
)
def test_http_state(port: int, path: str, settings: dict[str, Any], wanted: float) -> None:
    score, why = judged(None, "http_state", url=f"http://127.0.0.1:{port}{path}", **settings)
    assert score == wanted, why
    task = Task(
        id="t", checks=(Check(kind="http_state", settings={"url": "http://127.0.0.1:{port}" + path, **settings}),)
    )
    labels, _ = judge_task(task, Loaded(Path()), Evidence(answer="x", inputs={"port": port}))
    assert labels[0].value == wanted


def test_other_machines_are_not_asked(port: int) -> None:
    for url in ("http://example.invalid/", f"http://127.0.0.1.nip.io:{port}/", "http://0.0.0.0/", "http://2130706433/"):
        with pytest.raises(VerifierFault, match="not on this machine"):
            judged(None, "http_state", url=url)


def test_a_service_that_does_not_answer_is_a_fault_unless_it_was_the_agents() -> None:
    url = "http://127.0.0.1:1/"
    with pytest.raises(VerifierFault, match="did not answer"):
        judged(None, "http_state", url=url)
    assert judged(None, "http_state", url=url, unreachable="fail")[0] == 0


# ---- commands ----


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"run": "test -f note.txt"}, 1),
        ({"run": "test -f missing.txt"}, 0),
        ({"run": ["{python}", "-c", "import sys; sys.exit(3)"], "exit": 3}, 1),
        ({"run": ["{python}", "-c", "import sys; sys.exit(3)"]}, 0),
        ({"run": "cat note.txt", "stdout": "hello"}, 1),
        ({"run": "cat note.txt", "stdout": {"contains": "bye"}}, 0),
        ({"run": "exit 4", "exit": None, "stdout": ""}, 1),
        ({"run": 'echo "$COLOUR"', "env": {"COLOUR": "green"}, "stdout": "green"}, 1),
        ({"run": "sleep 30", "timeout": 0.2}, 0),
        ({"run": "python -c 'print(1)'", "stdout": "1"}, 1),
    ],
)
def test_command(folder: Path, settings: dict[str, Any], wanted: float) -> None:
    score, why = judged(folder, "command", **settings)
    assert score == wanted, why


def test_a_command_of_the_suite(folder: Path, tmp_path: Path) -> None:
    suite = tmp_path / "a suite"
    suite.mkdir()
    (suite / "verify.py").write_text("print(open('note.txt').read().strip())")
    assert judged(folder, "command", suite, run="{python} {suite}/verify.py", stdout="hello")[0] == 1
    assert judged(folder, "command", suite, run=["{python}", "{suite}/verify.py"], stdout="hello")[0] == 1


def test_a_command_that_cannot_be_run_is_a_fault(folder: Path) -> None:
    for run in (["no-such-command-here"], "no-such-command-here"):
        with pytest.raises(VerifierFault):
            judged(folder, "command", run=run)
    with pytest.raises(VerifierFault, match="did not end"):
        judged(folder, "command", run="sleep 30", timeout=0.1, on_timeout="fault")


def test_a_workspace_that_is_gone_failed(tmp_path: Path) -> None:
    for kind, settings in (("command", {"run": "true"}), ("tests", {"fail_to_pass": ["t.py::a"]})):
        assert judged(tmp_path / "gone", kind, **settings) == (0.0, "the workspace is gone")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] not in "ZX"


def test_no_child_outlives_a_command(folder: Path) -> None:
    for run, timeout in (("sleep 60 & echo $! > pid", 10.0), ("(sleep 60 & echo $! > pid; wait)", 0.5)):
        started = time.monotonic()
        judged(folder, "command", run=run, timeout=timeout)
        assert time.monotonic() - started < 8
        pid = int((folder / "pid").read_text())
        deadline = time.monotonic() + 5
        while alive(pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not alive(pid)


def test_a_flood_of_output_is_cut(folder: Path) -> None:
    done = run_process(["sh", "-c", "yes | head -c 12000000"], folder=folder, timeout=30)
    assert done.code == 0
    assert len(done.stdout) <= MAX_OUTPUT
    (lost,) = re.findall(r"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n", done.stdout)
    assert 0 <= int(lost) - (12_000_000 - 2 * KEPT_END) < 10_000, "both ends are kept, cut between words"
    endless = run_process(["yes"], folder=folder, timeout=60)
    assert endless.code is None
    assert endless.seconds < 30


def test_secrets_stay_out_of_the_environment() -> None:
    os.environ["ETHOGRAM_TEST_API_KEY"] = "secret"
    try:
        env = clean_environment({"WANTED_TOKEN": "given on purpose"})
    finally:
        del os.environ["ETHOGRAM_TEST_API_KEY"]
    assert "ETHOGRAM_TEST_API_KEY" not in env
    assert env["WANTED_TOKEN"] == "given on purpose"
    assert env["PATH"].startswith(str(Path(sys.executable).parent))


# ---- named tests ----

BUGGY = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return 2 * a\n"
MENDED = "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return 2 * a\n"
TESTS = """
import pytest
from calc import add, double


class TestAdd:
    @pytest.mark.parametrize("b", [1, 2])
    def test_add(self, b):
        assert add(1, b) == 1 + b


def test_double():
    assert double(2) == 4


@pytest.mark.xfail
def test_dream():
    assert add(1, 1) == 3


@pytest.mark.skip
def test_skipped():
    pass
"""
FAIL = ["tests/test_calc.py::TestAdd::test_add[1]", "tests/test_calc.py::TestAdd::test_add[2]"]
PASS = ["tests/test_calc.py::test_double", "tests/test_calc.py::test_dream"]


class Repo(NamedTuple):
    """A tiny repository with a bug, as a suite's task and as an agent's workspace."""

    root: Path
    folder: Path
    task: Task

    def judge(self, **settings: Any) -> Label:
        wanted = {"fail_to_pass": FAIL, "pass_to_pass": PASS, "timeout": 60, **settings}
        task = Task(id="swe", files=self.task.files, checks=(Check(kind="tests", settings=wanted),))
        return judge_task(task, Loaded(self.root), Evidence(answer="", workspace=self.folder))[0][0]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    root, folder = tmp_path / "suite", tmp_path / "workspace"
    files = {"calc.py": BUGGY, "tests/test_calc.py": TESTS}
    refs = {}
    for name, text in files.items():
        for place in (root / "files", folder):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
        refs[name] = FileRef(f"files/{name}", digest("file", text.encode()))
    return Repo(root, folder, Task(id="swe", files=refs))


def test_a_bug_fails_and_its_mending_passes(repo: Repo) -> None:
    before = repo.judge()
    assert before.value == 0
    assert before.why is not None
    assert before.why.splitlines()[0] == "FAIL_TO_PASS 0/2, PASS_TO_PASS 2/2"
    assert f"failed {FAIL[0]}: assert 0 == (1 + 1)" in before.why
    assert f"passed {PASS[0]}" in before.why
    (repo.folder / "calc.py").write_text(MENDED)
    after = repo.judge()
    assert after.value == 1, after.why
    assert not list(repo.folder.rglob("__pycache__")), "the workspace itself is not touched"


def test_what_worked_must_not_break(repo: Repo) -> None:
    (repo.folder / "calc.py").write_text(MENDED.replace("2 * a", "3 * a"))
    label = repo.judge()
    assert label.value == 0
    assert label.why is not None
    assert label.why.splitlines()[0] == "FAIL_TO_PASS 2/2, PASS_TO_PASS 1/2"


def test_a_test_that_is_missing_or_skipped_failed(repo: Repo) -> None:
    (repo.folder / "calc.py").write_text(MENDED)
    assert repo.judge(pass_to_pass=["tests/test_calc.py::test_skipped"]).value == 0
    label = repo.judge(pass_to_pass=["tests/test_calc.py::test_nowhere", "tests/none.py::test_x"])
    assert label.value == 0
    assert label.why is not None
    assert label.why.splitlines()[0] == "FAIL_TO_PASS 2/2, PASS_TO_PASS 0/2"
    assert "not among the tests that ran" in label.why


PYTEST_CALL = "import pytest\ndef add(a, b):\n    {call}\ndef double(a):\n    {call}\n"
EASY = (
    "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
    "    out = yield\n    out.get_result().outcome = 'passed'\n    out.get_result().longrepr = None\n"
)
LIAR = (
    "class Any:\n    def __eq__(self, other):\n        return {equal}\n    __hash__ = None\n"
    "def add(a, b):\n    return Any()\ndef double(a):\n    return 2 * a\n"
)
FORGED = (
    "import atexit, glob, json, os\n"
    "def forge():\n"
    "    for name in glob.glob('../report-*'):\n"
    "        lines = open(name).read().split(chr(10), 1)\n"
    "        open(name, 'w').write(lines[0] + chr(10) + lines[1].replace('failed', 'passed'))\n"
    "    os._exit(0)\n"
    "atexit.register(forge)\n" + BUGGY
)
REGISTERED = (
    "import gc, pytest\n"
    "class Easy:\n"
    "    @pytest.hookimpl(hookwrapper=True)\n"
    "    def pytest_runtest_makereport(self, item, call):\n"
    "        out = yield\n"
    "        if 'probe' not in item.nodeid:\n"
    "            out.get_result().outcome, out.get_result().longrepr = 'passed', None\n"
    "for o in gc.get_objects():\n"
    "    if isinstance(o, pytest.PytestPluginManager):\n"
    "        o.register(Easy())\n"
)
CHEATS = {
    "tests that always pass": {"tests/test_calc.py": "def test_double(): pass\n"},
    "a conftest that rewrites results": {
        "conftest.py": "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    out = yield\n    out.get_result().outcome = 'passed'\n    out.get_result().longrepr = None\n"
    },
    "a conftest beside the tests": {"tests/conftest.py": "collect_ignore_glob = ['*']\n"},
    "a runner of its own": {"pytest.py": "def main(args): return 0\n"},
    "settings of the runner": {"pytest.ini": "[pytest]\naddopts = --collect-only\n"},
    "a site of its own": {"sitecustomize.py": "import os; os._exit(0)\n"},
    "printing results": {"calc.py": BUGGY + f"print('PASSED {FAIL[0]}')\n"},
    "leaving early": {"calc.py": "import os\nos._exit(0)\n"},
    "leaving in good order": {"calc.py": "import sys\nsys.exit(0)\n"},
    "calling xfail": {"calc.py": "import pytest\npytest.xfail('later')\n"},
    "calling xfail in a function": {"calc.py": PYTEST_CALL.format(call="pytest.xfail('later')")},
    "skipping": {"calc.py": PYTEST_CALL.format(call="pytest.skip('later')")},
    "ending the session": {"calc.py": PYTEST_CALL.format(call="pytest.exit('done', 0)")},
    "options in pyproject.toml": {
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-p easy'\n",
        "easy.py": EASY,
    },
    "options in setup.cfg": {"setup.cfg": "[tool:pytest]\naddopts = -p easy\n", "easy.py": EASY},
    "options in tox.ini": {"tox.ini": "[pytest]\naddopts = -p easy\n", "easy.py": EASY},
    "options beside the tests": {"tests/pytest.ini": "[pytest]\naddopts = -p easy\n", "easy.py": EASY},
    "an object that equals everything": {"calc.py": LIAR.format(equal="True")},
    "an object that equals every number": {"calc.py": LIAR.format(equal="isinstance(other, int)")},
    "a number that equals everything": {"calc.py": LIAR.replace("class Any:", "class Any(int):").format(equal="True")},
    "a list of objects that equal everything": {
        "calc.py": LIAR.format(equal="True").replace("return Any()", "return Any() if a else [Any()]")
    },
    "a report of its own": {"calc.py": FORGED},
    "another way to run functions": {
        "calc.py": "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n" + BUGGY
    },
    "another way to make reports": {
        "calc.py": "import _pytest.reports as r\nold = r.TestReport.__init__\n"
        "def new(self, *a, **k):\n    old(self, *a, **k)\n    self.outcome, self.longrepr = 'passed', None\n"
        "r.TestReport.__init__ = new\n" + BUGGY
    },
    "other code for the tests": {
        "calc.py": "import gc, types\n"
        "def add(a, b):\n    for f in gc.get_objects():\n"
        "        if isinstance(f, types.FunctionType) and f.__name__ in ('test_add', 'test_double'):\n"
        "            f.__code__ = (lambda *a, **k: None).__code__\n    return a + b\n"
        "def double(a):\n    return 0\n"
    },
    "a plugin registered from inside": {"calc.py": REGISTERED + BUGGY},
    "marks put on the test module": {
        "calc.py": "import sys, pytest\n"
        "f = sys._getframe()\nwhile f and 'test_calc' not in f.f_code.co_filename:\n    f = f.f_back\n"
        "f.f_globals['pytestmark'] = pytest.mark.xfail\n" + BUGGY
    },
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_an_agent_cannot_cheat_by(repo: Repo, cheat: str) -> None:
    for name, text in CHEATS[cheat].items():
        (repo.folder / name).write_text(text)
    label = repo.judge()
    assert label.value == 0
    assert label.why is not None
    assert label.why.splitlines()[0] != "FAIL_TO_PASS 2/2, PASS_TO_PASS 2/2"


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.cfg", "tox.ini"])
def test_settings_of_a_workspace_do_not_reach_a_runner_of_ones_own(repo: Repo, name: str) -> None:
    section = {"pyproject.toml": "tool.pytest.ini_options", "setup.cfg": "tool:pytest", "tox.ini": "pytest"}[name]
    value = "'-p easy'" if name == "pyproject.toml" else "-p easy"
    (repo.folder / name).write_text(f"[{section}]\naddopts = {value}\n")
    (repo.folder / "easy.py").write_text(EASY)
    assert repo.judge(command="python -m pytest -q").value == 0


def test_the_suites_own_settings_are_kept_and_those_of_the_agent_are_not(repo: Repo) -> None:
    text = "[project]\nname = 'x'\n[tool.pytest.ini_options]\npython_functions = 'check_*'\npythonpath = ['lib']\n"
    tests = "from calc import add\nfrom more import one\ndef check_one():\n    assert add(one, one) == 2\n"
    files = {"pyproject.toml": text, "tests/test_one.py": tests, "lib/more.py": "one = 1\n"}
    refs = dict(repo.task.files)
    for name, body in files.items():
        for place in (repo.root / "files", repo.folder):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(body)
        refs[name] = FileRef(f"files/{name}", digest("file", body.encode()))
    own = repo._replace(task=Task(id="swe", files=refs))
    named = {"fail_to_pass": ["tests/test_one.py::check_one"], "pass_to_pass": []}
    assert own.judge(**named).value == 0
    (repo.folder / "pyproject.toml").write_text(text.replace("check_*", "nothing_*"))
    (repo.folder / "calc.py").write_text(MENDED)
    for command in (None, "python -m pytest -q"):
        label = own.judge(**named, **({} if command is None else {"command": command}))
        assert label.value == 1, label.why


PATCHES = {
    "": 1.0,
    "import unittest\nunittest.TestCase.assertEqual = lambda *a: None": 0.0,
    "import contextlib, pytest\npytest.raises = lambda *a, **k: contextlib.nullcontext()": 0.0,
    "import builtins\nbuiltins.sum = lambda *a: 3": 0.0,
}


@pytest.mark.parametrize("patch", PATCHES)
def test_what_tests_check_with_is_not_the_agents(repo: Repo, patch: str) -> None:
    tests = (
        "import unittest, pytest\nfrom calc import add\n"
        "class TestAll(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(add(1, 2), 3)\n"
        "        assert sum([add(1, 1), 1]) == 3\n"
        "        with pytest.raises(TypeError):\n            add(1, '')\n"
    )
    (repo.root / "hidden.py").write_text(tests)
    (repo.folder / "calc.py").write_text(f"{patch}\n{MENDED}")
    label = repo.judge(
        fail_to_pass=["test_h.py::TestAll::test_it"], pass_to_pass=[], test_files={"test_h.py": "hidden.py"}
    )
    assert label.value == PATCHES[patch], label.why


def test_honest_classes_may_be_compared(repo: Repo) -> None:
    tests = """
import unittest
from unittest import mock
import pytest
from calc import Money, Point


def test_points():
    assert Point(1) == Point(1)
    assert [Point(1)] != [Point(2)]
    assert Money(3) == 3
    assert Money(3) in [Money(1), Money(3)]
    assert Point(1) == mock.ANY
    assert Money(1) < Money(2) <= Money(2)
    assert 0.1 + 0.2 == pytest.approx(0.3)


class TestMoney(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(Money(3), Money(3))
        self.assertIn(3, [Money(3)])
        self.assertNotEqual(Money(3), 4)
"""
    code = """
from dataclasses import dataclass
@dataclass
class Point:
    x: int
class Money:
    def __init__(self, n): self.n = n
    def __eq__(self, other): return self.n == getattr(other, "n", other)
    def __lt__(self, other): return self.n < other.n
    def __le__(self, other): return self.n <= other.n
"""
    (repo.root / "hidden.py").write_text(tests)
    (repo.folder / "calc.py").write_text(code)
    label = repo.judge(
        fail_to_pass=["tests/test_m.py::test_points", "tests/test_m.py::TestMoney::test_equal"],
        pass_to_pass=[],
        test_files={"tests/test_m.py": "hidden.py"},
    )
    assert label.value == 1, label.why


def test_an_agent_cannot_cheat_by_links(repo: Repo, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "test_calc.py").write_text("def test_double(): pass\n")
    (repo.folder / "tests" / "test_calc.py").unlink()
    (repo.folder / "tests").rmdir()
    (repo.folder / "tests").symlink_to(elsewhere)
    assert repo.judge().value == 0
    assert (elsewhere / "test_calc.py").read_text() == "def test_double(): pass\n"


def test_deleting_the_tests_is_no_defence_either(repo: Repo) -> None:
    (repo.folder / "tests" / "test_calc.py").unlink()
    (repo.folder / "calc.py").write_text(MENDED)
    assert repo.judge().value == 1


def test_code_that_cannot_be_collected_failed_and_a_hang_too(repo: Repo) -> None:
    (repo.folder / "calc.py").write_text("def add(:\n")
    broken = repo.judge()
    assert broken.value == 0
    assert broken.why is not None
    assert broken.why.startswith("FAIL_TO_PASS 0/2, PASS_TO_PASS 0/2")
    (repo.folder / "calc.py").write_text("import time\ntime.sleep(60)\n")
    slow = repo.judge(timeout=3)
    assert slow.value == 0
    assert slow.why is not None
    assert "did not end within 3 s" in slow.why
    with pytest.raises(VerifierFault, match="did not end"):
        repo.judge(timeout=1, on_timeout="fault")


def test_a_broken_runner_is_not_the_agents_fault(repo: Repo) -> None:
    for command in (
        ["no-such-runner", "{files}", "{report}"],
        "no-such-runner {files} {report}",
        f"{sys.executable} -S -m pytest -q",
    ):
        with pytest.raises(VerifierFault):
            repo.judge(command=command)
    with pytest.raises(VerifierFault, match="does not work here"):
        repo.judge(command=["true", "{files}", "{report}"], probe="exit 1")
    assert repo.judge(command=["true", "{files}", "{report}"]).value == 0


@pytest.mark.parametrize(
    "command",
    [
        "python -m pytest -q",
        ["{python}", "-m", "pytest", "-q"],
        "python -m pytest -q --rootdir=. --junitxml={report} {tests}",
        ["{python}", "-m", "pytest", "-q", "{test}"],
        "python -m pytest -q {test}",
    ],
)
def test_runners_of_ones_own(repo: Repo, command: Any) -> None:
    named = {"fail_to_pass": FAIL[:1], "pass_to_pass": PASS[:1], "command": command}
    assert repo.judge(**named).value == 0
    (repo.folder / "calc.py").write_text(MENDED)
    label = repo.judge(**named)
    assert label.value == 1, label.why


def test_tests_that_the_agent_never_saw(repo: Repo) -> None:
    hidden = "from calc import add\n\ndef test_hidden():\n    assert add(2, 2) == 4\n"
    (repo.root / "hidden.py").write_text(hidden)
    named = {
        "fail_to_pass": ["tests/test_hidden.py::test_hidden"],
        "pass_to_pass": [],
        "test_files": {"tests/test_hidden.py": "hidden.py"},
        "sources": {"hidden.py": digest("file", hidden.encode())},
    }
    assert repo.judge(**named).value == 0
    (repo.folder / "tests" / "test_hidden.py").write_text("def test_hidden(): pass\n")
    assert repo.judge(**named).value == 0
    (repo.folder / "calc.py").write_text(MENDED)
    assert repo.judge(**named).value == 1
    (repo.root / "hidden.py").write_text("def test_hidden(): pass\n")
    with pytest.raises(VerifierFault, match="has changed"):
        repo.judge(**named)


def test_a_suites_own_conftest_is_kept(repo: Repo) -> None:
    text = "import pytest\n@pytest.fixture\ndef two(): return 2\n"
    (repo.root / "files" / "conftest.py").write_text(text)
    (repo.folder / "conftest.py").write_text("raise SystemExit('changed by the agent')")
    tests = "from calc import add\ndef test_two(two):\n    assert add(two, two) == 4\n"
    (repo.root / "files" / "tests" / "test_two.py").write_text(tests)
    files = {
        **repo.task.files,
        "conftest.py": FileRef("files/conftest.py", digest("file", text.encode())),
        "tests/test_two.py": FileRef("files/tests/test_two.py", digest("file", tests.encode())),
    }
    (repo.folder / "calc.py").write_text(MENDED)
    both = repo._replace(task=Task(id="swe", files=files))
    label = both.judge(fail_to_pass=["tests/test_two.py::test_two"], pass_to_pass=[])
    assert label.value == 1, label.why


def test_the_pieces_around_a_runner(tmp_path: Path) -> None:
    assert dotted("tests/a/test_x.py::TestB::test_c[1-a/b::c]") == "tests.a.test_x.TestB.test_c[1-a/b::c]"
    assert dotted("./test_x.py::test_c") == "test_x.test_c"
    assert filled("run {tests} {x} {a}", {"tests": ["a b", "c"], "a": ["'"]}) == "run 'a b' c {x} ''\"'\"''"
    assert filled(["run", "{tests}", "--at={a}"], {"tests": ["a b", "c"], "a": ["{tests}"]}) == [
        "run",
        "a b",
        "c",
        "--at={tests}",
    ]
    report = tmp_path / "r.xml"
    assert read_report(report) == {}
    report.write_text("<testsuites><testsuite><testcase classname='m' name='t'/>")
    assert read_report(report) == {}
    report.write_text(
        "<s><testcase classname='m' name='t'/><testcase classname='m' name='t'><error message='late'/></testcase></s>"
    )
    assert read_report(report) == {"m.t": ("error", "late")}


def test_a_repositorys_own_tests_are_asked_whatever_the_agent_made_of_them(tmp_path: Path) -> None:
    repo = tmp_path / "suite" / "repo"
    files = {"calc.py": BUGGY, "tests/test_calc.py": TESTS, "tests/conftest.py": "collect_ignore = []\n"}
    for name, text in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*identity, "commit", "-q", "-m", "the bug"]):
        subprocess.run(["git", *words], cwd=repo, check=True, timeout=120)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, text=True, check=True, timeout=120
    ).stdout
    check = Check(kind="tests", settings={"fail_to_pass": FAIL, "pass_to_pass": PASS})
    task = Task(id="swe", repository=Repository("repo", commit.strip()), checks=(check,))
    with Workspace(task, repo.parent) as workspace:

        def outcome() -> Any:
            return judge_task(task, Loaded(repo.parent), Evidence(answer="", workspace=workspace.path))[1]

        (workspace.path / "tests" / "test_calc.py").write_text("def test_double(): pass\n")
        (workspace.path / "tests" / "conftest.py").write_text("raise SystemExit(0)\n")
        (workspace.path / "conftest.py").write_text("raise SystemExit(0)\n")
        assert outcome() == Scored(0.0, "tests")
        (workspace.path / "calc.py").write_text(MENDED)
        assert outcome() == Scored(1.0, "tests")
        assert (workspace.path / "conftest.py").exists(), "the workspace itself stays as the agent left it"
