"""Help: every verb explains itself with an example that works, the top level is light, the shell can complete."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ethogram.cli.main import VERBS, verb_paths

NAMES = [v.name for v in VERBS]
PATHS = [path for verb in VERBS for path in verb_paths(verb)]
CPU_MS = 200
"""The promise for `ethogram --help`; best of three, processor time, so that a busy machine does not count."""


@pytest.mark.parametrize("path", PATHS)
def test_every_command_has_an_example_with_options_that_exist(call, path):
    said = call(*path.split(), "--help")
    assert (said.code, said.err) == (0, "")
    text = " ".join(said.out.split())
    assert text.count("Example: ") == 1
    example = shlex.split(text.partition("Example: ethogram ")[2].partition(" ╭─")[0])
    assert " ".join(example).startswith(path)
    known = said.out if path != "explore" else call("explore", "run", "--help").out
    for word in example:
        if word.startswith("--"):
            assert word in known


def test_bare_explore_is_short_for_explore_run(call):
    short, full = (call(*words, "--world", "nowhere") for words in (["explore"], ["explore", "run"]))
    assert short.code == full.code == 64
    assert short.err == full.err
    assert "no world named 'nowhere'" in short.err
    assert call("explore", "suite", "--help").out == call("explore", "run", "--help").out
    for name in ("run", "map", "effects", "near", "slice", "export", "race"):
        assert f"explore {name}" in PATHS


def test_the_top_level_lists_every_verb(call):
    said = call("--help")
    for verb in VERBS:
        assert re.search(rf"^  {verb.name} +{re.escape(verb.help)}$", said.out, re.MULTILINE)
    assert call().out == said.out


def test_the_top_level_is_light(env):
    code = "import sys; from ethogram.cli.main import run_verb; run_verb(['--help']); print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env, timeout=120
    )
    loaded = set(done.stdout.split())
    assert not loaded & {"typer", "rich", "click", "msgspec", "numpy", "pyarrow", "duckdb"}


def test_the_top_level_is_quick(env):
    times = []
    for _ in range(3):
        child = subprocess.Popen(["ethogram", "--help"], stdout=subprocess.DEVNULL, env=env)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        times.append(1000 * (usage.ru_utime + usage.ru_stime))
    assert min(times) < CPU_MS, f"ethogram --help costs {min(times):.0f} ms of processor time"


def test_unknown_verbs_are_light_too(env):
    code = "import sys; from ethogram.cli.main import run_verb; run_verb(['shwo']); print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env, timeout=120
    )
    assert not set(done.stdout.split()) & {"typer", "rich"}
    assert "did you mean 'show'?" in done.stderr


COMPLETE = """
source <(ethogram completion bash)
complete -p ethogram
COMP_WORDS=({words}); COMP_CWORD={at}; _ethogram; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(shell, words: str, at: int) -> list[str]:
    said = shell(COMPLETE.format(words=words, at=at))
    assert (said.code, said.err) == (0, "")
    registered, *found = said.out.splitlines()
    assert registered.endswith("-F _ethogram ethogram")
    return found


def test_bash_completes_verbs_options_and_files(shell, env):
    assert completed(shell, "ethogram ''", 1) == NAMES
    assert completed(shell, "ethogram re", 1) == ["replay", "report", "retain", "redact"]
    assert completed(shell, "ethogram import --ta", 2) == ["--tag", "--task-from"]
    assert completed(shell, "ethogram import logs --outc", 3) == ["--outcome-from"]
    Path("night.json").write_text("[]")
    assert completed(shell, "ethogram import ni", 2) == ["night.json"]
    assert "--home" in completed(shell, "ethogram trace --h", 2)
    assert completed(shell, "ethogram explore ma", 2) == ["map"]
    assert completed(shell, "ethogram explore race --see", 3) == ["--seed", "--seed-mode", "--seeds"]


def test_fish_and_zsh_scripts_name_every_verb(call):
    fish = call("completion", "fish").out
    for verb in VERBS:
        assert f"-a {verb.name} -d " in fish
    assert "-n '__fish_seen_subcommand_from retain' -l keep-all" in fish
    zsh = call("completion", "zsh").out
    assert "bashcompinit" in zsh
    assert " ".join(NAMES) in zsh
