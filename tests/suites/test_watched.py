"""Files of a suite are compared at every attempt that reads them; of thousands that are read once, not at every one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ethogram.errors import BadUsage
from ethogram.suites.load import load_suite
from ethogram.suites.watched import SHARE, WatchedFiles


class Looks:
    """A clock on which each look at all files takes a second."""

    def __init__(self) -> None:
        self.now, self.asked = 100.0, 0

    def __call__(self) -> float:
        self.asked += 1
        self.now += 1.0
        return self.now


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "tasks").mkdir()
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("1,2\n")
        (tmp_path / "tasks" / f"{name}.yaml").write_text(
            f"id: {name}\nprompt: say hi\nexpected: hi\nchecks: [equals]\nfiles: {{in.csv: {name}.csv}}\n"
        )
    return tmp_path


def test_what_an_attempt_reads_is_compared_each_time(suite: Path) -> None:
    clock = Looks()
    watched = WatchedFiles(load_suite(suite), clock)
    watched.check_unchanged("a")
    (suite / "a.csv").write_text("1,3\n3\n")
    with pytest.raises(BadUsage, match=r"the suite was edited while it ran: 'a\.csv'"):
        watched.check_unchanged("a")
    watched.check_unchanged("b")  # too soon after the first look at all files
    clock.now += 1 / SHARE
    with pytest.raises(BadUsage, match=r"a\.csv"):
        watched.check_unchanged("b")


def test_looks_at_all_files_take_a_small_share_of_the_time(suite: Path) -> None:
    clock = Looks()
    watched = WatchedFiles(load_suite(suite), clock)
    began = clock.now
    for _ in range(1000):
        watched.check_unchanged("a")
    looks = clock.asked - 1000  # a look asks the clock once more, at its end
    assert 0 < looks <= SHARE * (clock.now - began) + 1


def test_at_the_end_every_file_is_read(suite: Path) -> None:
    watched = WatchedFiles(load_suite(suite))
    file = suite / "tasks" / "b.yaml"
    facts = file.stat()
    file.write_text(file.read_text().replace("hi", "ho"))
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with pytest.raises(BadUsage, match=r"'b\.yaml'"):
        watched.check_unchanged()
