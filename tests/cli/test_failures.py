"""Under --json every failure is one document on stdout, whatever the verb; the exit code and the sentence stay."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from ethogram.cli.main import VERBS, verb_paths

PATHS = [path for verb in VERBS for path in verb_paths(verb)]


@pytest.fixture(scope="module")
def schema():
    schema = json.loads((files("ethogram") / "schemas" / "error.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", PATHS)
def test_bad_usage_of_every_verb_is_a_document(call, schema, path):
    said = call(*path.split(), "--json", "--no-such-option")
    document = json.loads(said.out)
    schema.validate(document)
    assert said.code == document["exit_code"] == 64
    assert document["kind"] == "usage"
    assert document["hint"].startswith(f"ethogram {path.split()[0]}")
    assert said.err == f"ethogram {document['verb']}: {document['error']}\n"


@pytest.mark.parametrize(
    ("line", "code", "facts"),
    [
        ("show nope --json", 64, {"kind": "NotFound", "name": "nope", "verb": "show"}),
        ("show dsk --json", 64, {"hint": "did you mean 'desk'?"}),
        ("import nofile.json --json", 64, {"kind": "NotFound", "where": "nofile.json"}),
        ("export desk --to xml --json", 64, {"what": "export format"}),
        ("imprt --json", 64, {"kind": "usage", "hint": "did you mean 'import'?"}),
        ("export desk --to jsonl -o /proc/nowhere/x --json", 64, {"kind": "machine"}),
        ("stats desk --k x --json", 64, {"kind": "BadUsage"}),
    ],
)
def test_failures_carry_their_facts(call, lake, schema, line, code, facts):
    said = call(*line.split())
    document = json.loads(said.out)
    schema.validate(document)
    assert said.code == document["exit_code"] == code
    assert facts.items() <= document.items()


def test_a_refusal_tells_what_there_is_and_what_is_needed(call, env):
    Path("r.csv").write_text("task,score\na,1\nb,0\n")
    assert call("import", "r.csv").code == 0
    said = call("field", "r", "--json")
    document = json.loads(said.out)
    assert said.code == 2
    assert (document["have"], document["need"], document["of"]) == (0, 1, "traces with steps")
    said = call("trace", json.loads(call("show", "r", "--json").out)["traces"][0]["trace_id"])
    assert said.code == 2
    assert "an outcome without a trace" in said.err


def test_json_behind_two_dashes_is_not_ours(call):
    assert call("mcp", "--no-such-option", "--", "server", "--json").out == ""


def test_the_package_is_a_command_too(env):
    said = subprocess.run([sys.executable, "-m", "ethogram", "--version"], capture_output=True, text=True, env=env)
    assert said.stdout.startswith("ethogram ")


def test_a_silent_verb_shows_that_it_is_at_work(env, tmp_path):
    """At a terminal, after two seconds, on stderr; the line is gone before the answer."""
    program = tmp_path / "slow.py"
    program.write_text(
        "import time, sys\nfrom ethogram.cli import waiting\nfrom ethogram.cli.printing import say\n"
        "waiting.PATIENCE = 0.1\n"
        "with waiting.sign_of_life('plan'):\n    time.sleep(0.6)\n    say('done')\n"
    )
    leader, follower = pty.openpty()
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, stderr=follower, env=env) as running:
        os.close(follower)
        shown = b""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                shown += os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
        assert running.stdout is not None
        assert running.stdout.read() == b""
    os.close(leader)
    assert b"ethogram plan is at work" in shown
    assert shown.rstrip().endswith(b"done")
    quiet = subprocess.run([sys.executable, program], capture_output=True, env=env)
    assert quiet.stderr == b"done\n"


SHELLS = {
    "bash": 'source {script}; COMP_WORDS=(ethogram {typed}); COMP_CWORD={place}; _ethogram; echo "${{COMPREPLY[@]}}"',
    "fish": 'source {script}; complete -C "ethogram {typed}"',
}


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_completion_works_in_the_shell(call, tmp_path, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "completion"
    script.write_text(call("completion", shell).out)
    for typed, found in (("sta", "stats"), ("plan --max-u", "--max-usd"), ("explore rac", "race")):
        line = SHELLS[shell].format(script=script, typed=typed, place=len(typed.split()))
        said = subprocess.run([shell, "-c", line], capture_output=True, text=True, cwd=tmp_path)
        assert found in said.stdout.split(), said


def test_completion_works_in_zsh(call, tmp_path):
    """Also where a newcomer's zsh has not turned completion on; typed at a terminal, for it works nowhere else."""
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    script = tmp_path / "completion"
    script.write_text(call("completion", "zsh").out)
    process, terminal = pty.fork()
    if process == 0:  # pragma: no cover - the shell itself
        os.execvpe("zsh", ["zsh", "-f"], {**os.environ, "PS1": "> ", "HOME": str(tmp_path), "TERM": "xterm"})
    shown = b""
    try:
        for typed, wanted in (
            (f"source {script}; echo rea''dy\n", b"ready"),
            ("ethogram plan --max-u\t", b"--max-usd"),
        ):
            os.write(terminal, typed.encode())
            until = time.monotonic() + 60
            while wanted not in shown and time.monotonic() < until:
                shown += os.read(terminal, 4096)
        os.write(terminal, b"\x15exit\n")
    finally:
        os.close(terminal)
        os.waitpid(process, 0)
    assert b"--max-usd" in shown
