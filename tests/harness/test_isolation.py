"""What a command sees and may use by default: ordinary agents work, and the suite, the home and the rest are closed."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadUsage
from ethogram.harness.isolation import AUTO, READONLY, isolation_here, why_not_isolated
from ethogram.harness.options import RunOptions, parse_bounds
from ethogram.harness.processes import CommandBounds
from ethogram.harness.run_result import RunResult
from ethogram.harness.suites import run
from ethogram.store import Home

isolated = pytest.mark.skipif(why_not_isolated() is not None, reason=f"nothing is isolated: {why_not_isolated()}")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an agent, a module beside it, a suite, and a home of Ethogram."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
    (tmp_path / "suite").mkdir()
    return tmp_path


def asked(home: Home, project: Path, program: str, folder: str = "suite", **options: Any) -> tuple[RunResult, Any]:
    """The result of a run whose agent is `program`, and what it printed."""
    (project / "agent.py").write_text(program)
    (project / folder / "tasks.jsonl").write_text(
        json.dumps({"id": "t", "prompt": "?", "expected": "a-secret", "checks": ["equals"]}) + "\n"
    )
    options = {"redact": "none", "run": "r", "capture": "off", **options}
    result = run(str(project / folder), f"cmd: {sys.executable} agent.py", home=home, **options)
    recorded = home.run("r")
    answer = recorded.trace(recorded.entries[0]).answer or ""
    return result, json.loads(answer) if answer.startswith("{") else answer


TRIES = """
import json, os, sys
from pathlib import Path
from beside import WORD

def tried(act):
    try:
        return act() is not None
    except OSError:
        return False

wanted = json.load(open(os.environ["WANTED"]))
print(json.dumps({
    "beside": WORD,
    "read": [p for p in wanted["read"] if tried(lambda: Path(p).read_bytes() or None)],
    "listed": [p for p in wanted["list"] if tried(lambda: os.listdir(p) or None)],
    "written": [p for p in wanted["write"] if tried(lambda: Path(p).write_text("x"))],
    "processes": len([p for p in os.listdir("/proc") if p.isdigit()]),
}))
"""


def wishes(project: Path, monkeypatch: pytest.MonkeyPatch, **wanted: list[str]) -> None:
    (project / "wanted.json").write_text(json.dumps({"read": [], "list": [], "write": [], **wanted}))
    monkeypatch.setenv("WANTED", str(project / "wanted.json"))


@isolated
def test_by_default_the_suite_the_home_and_the_keys_are_closed_and_nothing_else_is_written(
    home: Home, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = project / "keys.json"
    keys.write_text("{}")
    monkeypatch.setenv("ETHOGRAM_KEYS", str(keys))
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("history")
    read = ["suite/tasks.jsonl", "keys.json", ".git/config", "beside.py"]
    write = ["beside.py", "new.txt", "suite/tasks.jsonl"]
    wishes(
        project,
        monkeypatch,
        read=[str(project / name) for name in read],
        list=[home.files.reach, str(project / "suite")],
        write=[*(str(project / name) for name in write), "/etc/ethogram-test", "here.txt", "/tmp/ethogram-test"],
    )
    result, told = asked(home, project, TRIES)
    assert told["read"] == [str(project / "beside.py")], "its own project is there, to be read"
    assert told["listed"] == []
    assert told["written"] == ["here.txt", "/tmp/ethogram-test"]
    assert told["processes"] < 10, "it does not see other processes"
    assert not Path("/tmp/ethogram-test").exists(), "temporary files are the attempt's own"
    assert not (project / "new.txt").exists()
    assert result.warnings == ()
    assert home.run("r").info.plan["options"]["isolation"] == READONLY


@isolated
def test_where_the_suite_holds_the_agent_its_files_are_closed_one_by_one(
    home: Home, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wishes(project, monkeypatch, read=[str(project / "tasks.jsonl"), str(project / "beside.py")])
    _, told = asked(home, project, TRIES, folder=".")
    assert told["read"] == [str(project / "beside.py")]


@isolated
def test_caches_of_the_user_are_written_and_settings_read(
    home: Home, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = project / "user"
    for name in (".cache", ".claude", ".config"):
        (user / name).mkdir(parents=True)
    (user / ".config" / "settings.json").write_text("{}")
    monkeypatch.setenv("HOME", str(user))
    written = [str(user / name / "x") for name in (".cache", ".claude", ".config")]
    wishes(project, monkeypatch, read=[str(user / ".config" / "settings.json")], write=written)
    _, told = asked(home, project, TRIES)
    assert told["read"] == [str(user / ".config" / "settings.json")]
    assert told["written"] == written[:2]
    assert Path(written[0]).exists()


@isolated
def test_what_the_guide_says_remains_possible(home: Home, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = project / "user"
    for name in (".ssh", ".cache"):
        (user / name).mkdir(parents=True)
    (user / ".ssh" / "id").write_text("a key")
    monkeypatch.setenv("HOME", str(user))
    read, written = [str(user / ".ssh" / "id")], [str(user / ".cache" / "left")]
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as service:
        service.bind("service")
        service.listen()
        ways = [(socket.AF_INET, server.getsockname()), (socket.AF_UNIX, str(project / "service"))]
        reach = "".join(f"\nimport socket\nsocket.socket({int(kind)}).connect({at!r})\n" for kind, at in ways)
        wishes(project, monkeypatch, read=read, write=written)
        _, told = asked(home, project, TRIES + reach)
    assert (told["read"], told["written"]) == (read, written)
    assert Path(written[0]).exists()


def test_a_run_that_is_not_isolated_says_so(home: Home, project: Path) -> None:
    result, _ = asked(home, project, "print('a-secret', end='')", isolation="none")
    (said,) = result.warnings
    assert said.startswith("the agent was not isolated (--isolation none)") == (why_not_isolated() is None)
    assert "not isolated" in said


def test_runs_of_earlier_versions_are_resumed_as_they_were(home: Home) -> None:
    assert RunOptions.stored({"options": {"k": 2}}).isolation == "none"
    assert RunOptions().resolved().isolation == isolation_here(AUTO)


# ---- bounds ----

HOLD = "\nimport time\ntime.sleep(60)\n"
MANY_FILES = "for i in range(40):\n    open(f'{i}', 'wb').write(b'x' * (1 << 20))\n"
MANY = "import subprocess, sys\nall = [subprocess.Popen(['sleep', '60']) for _ in range(40)]\n"
LARGE = "x = bytearray(200 << 20)\nfor i in range(0, len(x), 4096):\n    x[i] = 1\n"


@pytest.mark.parametrize(
    ("program", "name", "most"),
    [
        (MANY_FILES + HOLD, "disk_mib", 20),
        (MANY_FILES, "disk_mib", 20),
        ("import os\nos.chdir(os.environ.get('TMPDIR', '.'))\n" + MANY_FILES + HOLD, "disk_mib", 20),
        (MANY + HOLD, "processes", 20),
        (LARGE + HOLD, "memory_mib", 100),
    ],
    ids=["disk", "disk at the end", "temporary", "processes", "memory"],
)
def test_a_command_that_uses_more_than_its_bounds_is_ended(
    home: Home, project: Path, program: str, name: str, most: int
) -> None:
    if "TMPDIR" in program and why_not_isolated():
        pytest.skip("temporary files are counted where they are the attempt's own")
    result, _ = asked(home, project, program, bounds=CommandBounds(**{name: most}))
    assert (result.scored, result.successes) == (1, 0)
    assert f"ended by Ethogram: the bound {name}={most} was broken" in (result.crash or "")


def test_a_file_that_is_larger_than_the_bound_is_refused_wherever_it_lies(home: Home, project: Path) -> None:
    program = "import os\nopen(os.path.expanduser('big'), 'wb').truncate(30 << 20)\n"
    result, _ = asked(home, project, program, bounds=CommandBounds(disk_mib=20))
    assert "File too large" in (result.crash or "")


def test_what_a_command_finds_is_not_what_it_wrote(home: Home, project: Path) -> None:
    (project / "suite" / "files").mkdir()
    (project / "suite" / "files" / "large").write_bytes(os.urandom(1 << 20) * 8)
    program = "print('a-secret', end='')" + HOLD.replace("60", "1")
    (project / "agent.py").write_text(program)
    task = {"id": "t", "prompt": "?", "expected": "a-secret", "checks": ["equals"], "files": {"large": "files/large"}}
    (project / "suite" / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    result = run("suite", f"cmd: {sys.executable} agent.py", home=home, bounds=CommandBounds(disk_mib=4))
    assert (result.successes, result.crash) == (1, None)


@pytest.mark.parametrize("word", ["disk=7", "disk_mib=0", "disk_mib=1.5", "disk_mib"])
def test_bounds_that_are_none_are_refused(word: str) -> None:
    with pytest.raises(BadUsage, match=r"is not a bound; write for example bound disk_mib=2048"):
        parse_bounds((word,))


# ---- the suite while it runs ----


@pytest.mark.parametrize("when", ["while it is judged", "before the next attempt", "at the end"])
def test_an_edited_suite_ends_the_run(home: Home, project: Path, when: str) -> None:
    file = project / "suite" / "tasks.jsonl"

    def agent(task: Any, episode: Any) -> str:
        if episode.attempt == 0:
            facts = file.stat()
            file.write_text(file.read_text().replace("a-secret", "b-secret"))
            if when == "at the end":
                os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        return "a-secret"

    file.write_text(json.dumps({"id": "t", "prompt": "?", "expected": "a-secret", "checks": ["equals"]}) + "\n")
    with pytest.raises(BadUsage, match=r"the suite was edited while it ran: 'tasks\.jsonl'"):
        run(str(project / "suite"), agent, k=1 if when == "at the end" else 3, workers=1, home=home, run="r")


def test_a_file_of_the_suite_that_is_only_touched_ends_nothing(home: Home, project: Path) -> None:
    file = project / "suite" / "tasks.jsonl"
    file.write_text(json.dumps({"id": "t", "prompt": "?", "expected": "42", "checks": ["equals"]}) + "\n")

    def agent(task: Any, episode: Any) -> str:
        os.utime(file)
        return "42"

    assert run(str(project / "suite"), agent, k=2, home=home).successes == 2
