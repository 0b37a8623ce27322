"""A log that grows, moves, is compressed and whose import is killed is counted as one import of the final file."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from growing_files import Killer, final_files, holdings, one_import, walk

from ethogram.capture.readers import MODULES
from ethogram.questions.logs.imports import import_logs
from ethogram.store import Home

WALKS = 2


@pytest.mark.parametrize("format", list(MODULES))
def test_any_sequence_of_steps_is_one_import(format: str, samples: dict[str, bytes], tmp_path: Path) -> None:
    walks(format, samples[format], tmp_path, None, WALKS)


@pytest.mark.parametrize("format", ["openai-chat", "claude-code", "mast"])
def test_imports_that_are_killed_leave_no_second_count(format: str, samples: dict[str, bytes], tmp_path: Path) -> None:
    with Killer() as killer:
        walks(format, samples[format], tmp_path, killer, 2)


def walks(format: str, sample: bytes, folder: Path, killer: Killer | None, count: int) -> None:
    for form, versions in final_files(sample).items():
        for number in range(count):
            place = folder / "walk"
            path, steps = walk(versions, random.Random(f"{format} {form} {number}"), place, killer)
            once = one_import(path, place / "once")
            assert not once or holdings(place / "home") == once, f"{form}, seed {number}: {steps}"
            shutil.rmtree(place)


def test_one_line_that_becomes_three(logs, home: Home) -> None:
    one = b'{"messages": [{"role": "user", "content": "task %d"}, {"role": "assistant", "content": "ok"}]}\n'
    path = logs.put("a.jsonl", one % 1)
    import_logs(path, home=home, run="r")
    path.write_bytes(one % 1 + one % 2 + one % 3)
    result = import_logs(path, home=home, run="r")
    assert (result.traces, result.superseded) == (3, 1)
    assert sorted(e.head.task for e in home.run("r").entries) == ["task 1", "task 2", "task 3"]


def test_a_longer_file_beside_a_shorter_one_is_another_log(logs, home: Home) -> None:
    """Only what is gone can have moved: two files that begin alike are two."""
    short, long = logs.chat("hello", "you " * 20), logs.chat("hello", "you " * 20) + logs.chat("more", "words")
    logs.put("b.jsonl", short)
    import_logs(logs.root, home=home, run="r")
    logs.put("a.jsonl", long)
    assert import_logs(logs.root, home=home, run="r").superseded == 0
    assert len(home.run("r").entries) == 3


def test_a_log_that_takes_the_name_of_one_that_moved_is_another_log(logs, home: Home) -> None:
    """Logs are rotated: a new one starts under the old name."""
    path = logs.put("a.jsonl", logs.chat("old", "log " * 20))
    import_logs(path, home=home, run="r")
    with path.rename(logs.root / "a.1.jsonl").open("ab") as moved:
        moved.write(logs.chat("the end", "of it"))
    import_logs(logs.root, home=home, run="r")
    path.write_bytes(logs.chat("new", "log " * 30))
    assert import_logs(logs.root, home=home, run="r").superseded == 0
    assert len(home.run("r").entries) == 3
