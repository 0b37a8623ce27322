"""Agents outside this process, and what must not keep us waiting: children that stay, endpoints that wish too much."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.harness.agents import load_agent
from ethogram.harness.faults import RateLimited
from ethogram.harness.options import AllCaps
from ethogram.harness.outside_agents import HttpAgent
from ethogram.harness.processes import KEPT_END
from ethogram.harness.suites import run
from ethogram.harness.supervisor import descendants
from ethogram.plans import Check, Suite, Task
from ethogram.prices import Caps
from ethogram.questions.home.buying import drill
from ethogram.questions.home.kill_switch import kill
from ethogram.store import Home


def suite(tasks: int = 1) -> Suite:
    check = Check(kind="equals")
    made = tuple(Task(id=f"t{i}", prompt="?", expected="42", checks=(check,)) for i in range(tasks))
    return Suite(name="outside", tasks=made)


def gone(pid: int, seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("shut", ["", ">/dev/null 2>&1"], ids=["it holds the output open", "it is silent"])
def test_what_a_command_leaves_running_neither_delays_nor_outlives_it(home: Home, tmp_path: Path, shut: str) -> None:
    script = tmp_path / "agent.sh"
    script.write_text(f"sleep 300 {shut} &\necho $! > {tmp_path}/child\necho 42\n")
    began = time.monotonic()
    result = run(suite(), f"cmd: sh {script}", home=home, run="a", isolation="none")
    assert time.monotonic() - began < 60
    assert (result.scored, result.successes) == (1, 1)
    assert gone(int((tmp_path / "child").read_text()))


def test_a_command_that_is_out_of_time_goes_with_its_children(home: Home, tmp_path: Path) -> None:
    script = tmp_path / "agent.sh"
    child = f"sh -c 'trap \"\" TERM; echo $$ > {tmp_path}/child; while :; do sleep 0.1; done'"
    script.write_text(f"{child} &\nsleep 300\n")
    result = run(
        suite(), f"cmd: sh {script}", caps=AllCaps(episode=Caps(seconds=1.0)), home=home, run="a", isolation="none"
    )
    assert (result.scored, result.successes) == (1, 0)
    assert gone(int((tmp_path / "child").read_text()))


def test_long_words_of_a_command_are_cut_and_its_last_error_is_kept(home: Home, tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(
        "import sys\nsys.stderr.write('x' * 9_000_000 + '\\nthe end')\n"
        "print('first' + 'y' * 9_000_000 + 'last', end='')\nsys.exit(3)\n"
    )
    run(suite(), f"cmd: python {script}", home=home, run="a")
    (entry,) = home.run("a").entries
    assert home.run("a").head(entry).meta["crash"] == "AgentCrash: exit code 3: the end"
    trace = home.run("a").trace(entry)
    assert trace.answer is not None
    assert trace.answer.startswith("firsty")
    assert trace.answer.endswith("ylast"), "an answer stands at the end"
    lost = home.run("a").head(entry).meta["left_out"]
    assert 0 <= lost - (9_000_009 - 2 * KEPT_END) < 10_000  # words are left out as a whole
    assert f"[... {lost} bytes left out ...]" in trace.answer
    (span,) = trace.spans
    assert span.truncated


AWAY = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in (0, 1, 2):
            os.close(fd)
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(300)
    os._exit(0)
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read():
    time.sleep(0.01)
print(42, end="")
"""


def test_a_child_that_leaves_its_session_ends_with_the_episode(home: Home, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AWAY)
    command = f"cmd: python {tmp_path}/agent.py {tmp_path}/child"
    result = run(suite(), command, home=home, run="a", isolation="none")
    assert result.successes == 1
    assert gone(int((tmp_path / "child").read_text()))


def test_a_program_that_ends_by_a_signal_is_told_apart(home: Home) -> None:
    result = run(suite(), "cmd: sh -c 'kill -SEGV $$'", home=home, run="a", isolation="none")
    assert result.crash == "AgentCrash: exit code -11: no message"


def test_when_ethogram_is_killed_its_agents_end_and_the_next_run_sweeps(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AWAY + "time.sleep(300)\n")
    (tmp_path / "tasks.yaml").write_text(
        "- {id: t, expected: '42', meta: {workspace: true}, checks: [{kind: equals}]}\n"
    )
    temp = tmp_path / "temp"
    temp.mkdir()
    env = {**os.environ, "TMPDIR": str(temp), "ETHOGRAM_HOME": str(tmp_path / "home")}
    words = [str(Path(sys.executable).with_name("ethogram")), "run", "tasks.yaml", "--isolation", "none", "--agent"]
    child = tmp_path / "child"
    process = subprocess.Popen([*words, f"cmd: python agent.py {child}"], cwd=tmp_path, env=env)
    until = time.monotonic() + 60
    while not (child.exists() and child.read_text()) and time.monotonic() < until:
        time.sleep(0.02)
    family = [int(child.read_text()), *descendants(process.pid)]
    assert len(family) >= 3, "the supervisor, the agent and its child"
    process.kill()
    process.wait(timeout=60)
    assert all(gone(pid) for pid in family)
    (left,) = temp.glob("ethogram-*")
    assert {p.name.partition("-")[0] for p in left.iterdir()} == {"lock", "ws", "cmd"}
    with subprocess.Popen(["sh", "-c", "read wait"], stdin=subprocess.PIPE) as living:
        held = temp / f"ethogram-{living.pid}-held"
        held.mkdir()
        with (held / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a run that still lives
            done = subprocess.run([*words, "cmd: echo 42"], cwd=tmp_path, env=env, capture_output=True, timeout=120)
            assert done.returncode == 0, done.stderr
            assert list(temp.glob("ethogram-*")) == [held]
        living.communicate(b"")


def test_a_command_finds_files_of_the_workspace_first_and_then_ours(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "act.py").write_text("print(42, end='')\n")
    assert run(suite(), "cmd: python act.py", home=home, run="a").successes == 1
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "act.py").write_text("print('of the workspace', end='')\n")
    (tmp_path / "tasks.yaml").write_text(
        "- {id: t, expected: of the workspace, files: {act.py: files/act.py}, checks: [{kind: equals}]}\n"
    )
    assert run(str(tmp_path / "tasks.yaml"), "cmd: python act.py", home=home, run="b").successes == 1


def test_what_cannot_be_started_leaves_no_run(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.txt").write_text("no program")
    for agent, said in (("cmd: no-such-command", "there is no command"), ("cmd: ./plain.txt", "Permission denied")):
        with pytest.raises(BadUsage, match=said):
            run(suite(), agent, home=home, run="a")
    with pytest.raises(BadUsage, match="choose never, failure or always"):
        run(suite(), "cmd: true", home=home, run="a", keep="sometimes")
    with pytest.raises(NotFound, match="no engine named 'moon'"):
        run(suite(), "cmd: true", home=home, run="a", engine="moon")
    assert home.names() == []


def test_a_crash_is_told(home: Home) -> None:
    result = run(suite(2), "cmd: sh -c 'echo oh no >&2; exit 7'", home=home, run="a", workers=1)
    assert (result.scored, result.crashed, result.crash) == (2, 2, "AgentCrash: exit code 7: oh no")


@pytest.mark.parametrize("broken", ["def f(:", "raise RuntimeError('first line\\nsecond')", "1 / 0"])
def test_an_agent_that_cannot_be_imported_is_bad_input_each_time(tmp_path: Path, broken: str) -> None:
    (tmp_path / "bad.py").write_text(broken)
    for _ in range(2):  # half a module must not be taken for the whole one
        with pytest.raises(BadInput, match="fails when it is imported"):
            load_agent(f"{tmp_path / 'bad.py'}:agent")


def test_one_agent_serves_several_event_loops(home: Home, http_agent: Any) -> None:
    """As on a Ray worker, where every batch has a loop of its own, and the agent is the same."""
    agent = HttpAgent(http_agent(lambda path, task: {"answer": "42"}))
    for name in ("a", "b", "c"):
        result = run(suite(3), agent, home=home, run=name, retries=0)
        assert (result.successes, result.missing) == (3, {})


def test_a_wish_of_a_day_is_not_waited_for_and_a_kill_ends_the_waiting(home: Home) -> None:
    def busy(task: Task, episode: Any) -> str:
        raise RateLimited("come back tomorrow", 86_400.0)

    def pull() -> None:
        until = time.monotonic() + 60
        while "a" not in home.names() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.5)
        kill("a", home=home)

    switch = threading.Thread(target=pull, daemon=True)
    switch.start()
    began = time.monotonic()
    result = run(suite(4), busy, home=home, run="a", workers=2)
    switch.join(timeout=60)
    assert time.monotonic() - began < 40  # not the minute that a wish is cut to, and not three of them
    assert result.stopped == "killed"
    assert set(result.missing) == {"infrastructure.rate_limit"}
    assert result.not_run >= 2


def test_a_drill_that_is_too_short_says_so_at_once(home: Home) -> None:
    began = time.monotonic()
    with pytest.raises(NotFound, match="give it more episodes"):
        drill(home=home, episodes=2, in_flight=4, seconds=0.01)
    assert time.monotonic() - began < 8
