"""Exit codes, one clear sentence, pipes that close, Ctrl-C, and no traceback ever."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ethogram.cli.main import VERBS, verb_paths


def test_done_is_0(shell, lake):
    for line in ("ethogram", "ethogram --help", "ethogram -h", "ethogram help", "ethogram --version", "ethogram runs"):
        said = shell(line)
        assert (said.code, said.err) == (0, ""), line


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_pipe_gets_utf8_whatever_the_system_prefers(env, lake, encoding):
    words = [sys.executable, "-m", "ethogram", "stats", "desk"]
    done = subprocess.run(
        words, env={**env, "PYTHONIOENCODING": encoding}, capture_output=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert "━●━" in done.stdout.decode("utf-8")


def test_version(call):
    from ethogram import __version__

    assert call("--version").out == f"ethogram {__version__}\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("imprt", "no command named 'imprt'; did you mean 'import'?"),
        ("qqq", "no command named 'qqq'; ethogram --help lists them"),
        ("show --limt 3", "--limit"),
        ("show --limit many", "--limit"),
        ("show nope", "no run named"),
        ("show dsk", "did you mean 'desk'?"),
        ("show desk extra", "extra"),
        ("trace ffffffff", "no trace 'ffffffff'"),
        ("trace ffffffff --run desk", "list them with: ethogram show desk"),
        ("trace", "Missing argument"),
        ("import", "Missing argument"),
        ("import nofile.json", "no file or folder at 'nofile.json'"),
        ("import desk.json --format tau-bnch", "did you mean 'tau-bench'?"),
        ("import desk.json --redact all", "known: default, secrets, none"),
        ("import desk.json --pattern nameless", "NAME=REGEX"),
        ("import desk.json --pattern 'x=('", "not a regular expression"),
        ("import desk.json --task-from foo", "name:REGEX, meta:KEY, label:NAME or csv:FILE[:COLUMN]"),
        ("import desk.json --task-from 'name:('", "not a regular expression"),
        ("import desk.json --outcome-from csv:no.csv", "no CSV file"),
        ("import desk.json --run ../up", "cannot name a run"),
        ("import desk.json --seal", "ethogram keys new"),
        ("export desk --to xml", "no export format named 'xml'"),
        ("verify nope", "no run named"),
        ("retain --keep-all soon", "write for example 14d, 12h or 2w"),
        ("retain --sample 7", "write for example 5% or 0.05"),
        ("keys drop", "keys drop KEY"),
        ("keys drop k-0 --yes", "no key named 'k-0'"),
        ("redact nofile", "no file or folder"),
        ("rm nope --yes", "no run named"),
        ("completion tcsh", "there is bash, zsh and fish"),
    ],
)
def test_bad_input_is_64_and_one_sentence(call, lake, line, words):
    import shlex

    said = call(*shlex.split(line))
    assert said.code == 64
    assert said.out == ""
    assert words in said.err
    assert said.err.startswith("ethogram")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err


def test_bad_input_leaves_no_run_behind(document, call, log):
    for extra in (["--seal"], ["--format", "nope"], ["--redact", "all"], ["--task-from", "foo"]):
        assert call("import", log, "--run", "ghost", *extra).code == 64
    assert document("runs")["runs"] == []


def test_an_import_of_nothing_leaves_no_run_behind(document, call, env):
    Path("notes.txt").write_text("shopping list\n")
    assert call("import", "notes.txt").code == 64
    assert document("runs")["runs"] == []


def test_a_damaged_ledger_is_said_not_thrown(call, document, lake, home):
    ledger = next((home / "runs" / "desk" / "ledger").iterdir())
    ledger.write_bytes(ledger.read_bytes()[:-20])
    said = call("show", "desk")
    assert said.code == 1
    assert said.err.count("\n") == 1
    assert "ledger" in said.err
    listed = document("runs")["runs"]
    assert [r["run"] for r in listed] == ["desk"]
    assert "ledger" in listed[0]["problem"]


def test_a_home_that_cannot_be_is_said_not_thrown(call, env, log):
    Path("file").write_text("not a folder")
    said = call("import", log, "--home", "file")
    assert said.code == 64
    assert "Traceback" not in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    [
        "ethogram runs > /dev/full",
        "ethogram export desk --to jsonl -o /dev/full/x",
        "ethogram export desk --to csv -o /proc/nowhere",
        "ethogram demo --logs /proc/nowhere",
    ],
)
def test_a_full_or_forbidden_disk_is_said_not_thrown(shell, lake, line):
    said = shell(line)
    assert said.code == 64
    assert "Traceback" not in said.err
    assert said.err.count("\n") == 1


# completion prints a script and nothing else; a verb with sub-commands alone is a list of them
WITH_JSON = [
    path
    for verb in VERBS
    for path in verb_paths(verb)
    if path != "completion" and (len(verb_paths(verb)) == 1 or path != verb.name)
]


@pytest.mark.parametrize("path", WITH_JSON)
def test_every_command_has_json(call, path):
    assert "--json" in call(*path.split(), "--help").out


@pytest.mark.parametrize(
    "line",
    [
        "ethogram sql 'SELECT * FROM range(20000)' --limit 0 | head -1",
        "ethogram sql 'SELECT * FROM range(20000)' --limit 0 --json | head -c 1",
        "ethogram --help | true",
        "ethogram show --help | true",
        "ethogram runs | true",
        "ethogram runs --json | true",
        "ethogram completion bash | true",
    ],
)
@pytest.mark.parametrize("buffering", ["", "1"])
def test_a_pipe_may_close(shell, lake, line, buffering):
    said = shell(f"{line}; exit ${{PIPESTATUS[0]}}", PYTHONUNBUFFERED=buffering)
    assert (said.code, said.err) == (0, "")


def test_a_verdict_stands_whatever_happens_to_its_output(shell, ran, home):
    for name, agent, k in (("main", "good", 20), ("bad", "bad", 4), ("sure", "sure", 8), ("torn", "same", 1)):
        ran(name, agent, k)
    ledger = max((home / "runs" / "torn" / "ledger").iterdir())
    ledger.write_bytes(ledger.read_bytes()[:-40])
    gate = "ethogram gate main bad --margin 0.1"
    for line, code in (
        (f"{gate} | true", 1),
        (f"{gate} | head -1 > /dev/null", 1),
        (f"{gate} --json 2>&1 | true", 1),
        (f"{gate} >&-", 1),
        (f"{gate} > /dev/full", 1),
        ("ethogram gate main sure --margin 0.1 > /dev/full", 64),
        ("ethogram gate main bad --margin 0.1 --monitor | true", 1),
        ("ethogram verify torn | true", 1),
        ("ethogram verify torn --json | true", 1),
    ):
        said = shell(f"{line}; exit ${{PIPESTATUS[0]}}")
        assert said.code == code, (line, said)
        assert "Traceback" not in said.err
        assert ("cannot write the answer" in said.err) == ("/dev/full" in line)


def test_ctrl_c_stops_a_watch_and_keeps_what_came_in(env, document, log):
    """The first file is imported, then a second one that appears while it watches, then Ctrl-C."""
    folder = Path("logs")
    folder.mkdir()
    log.rename(folder / "desk.json")
    with subprocess.Popen(
        ["ethogram", "import", str(folder), "--run", "watched", "--watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    ) as watching:
        try:
            _wait_for(lambda: _episodes(document) == 4)
            more = json.loads((folder / "desk.json").read_text())
            for item in more:
                item["trial"] += 2
            (folder / "more.json").write_text(json.dumps(more))
            _wait_for(lambda: _episodes(document) == 8)
            watching.send_signal(signal.SIGINT)
            out, err = watching.communicate(timeout=30)
        finally:
            watching.kill()
    assert watching.returncode == 130
    assert "stopped; what was committed is kept" in err
    assert "Traceback" not in err
    assert "run watched: 4 traces" in out
    assert document("verify", "watched")["ok"] is True
    assert document("verify", "watched")["runs"][0]["leftovers"] == []


def test_a_watch_with_json_speaks_at_once(env, log):
    """Scripts follow it line by line: one document per round, not held back until the end."""
    with subprocess.Popen(
        ["ethogram", "import", str(log), "--watch", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={k: v for k, v in env.items() if k != "PYTHONUNBUFFERED"},
    ) as watching:
        try:
            assert watching.stdout is not None
            os.set_blocking(watching.stdout.fileno(), False)
            data: list[bytes] = []
            _wait_for(lambda: bool(data.append(watching.stdout.read() or b"") or b"".join(data)))
        finally:
            watching.send_signal(signal.SIGINT)
            try:
                watching.wait(timeout=30)
            finally:
                watching.kill()
    assert json.loads(b"".join(data))["traces"] == 4
    assert watching.returncode == 130


def _episodes(document) -> int:
    return sum(r["episodes"] for r in document("runs")["runs"] if r["run"] == "watched")


def _wait_for(done, seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.2)
