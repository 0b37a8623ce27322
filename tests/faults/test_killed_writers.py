"""Writers are killed, disks are full, imports collide: the lake verifies and holds exactly what was committed."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ethogram.store import Home, Lake, Redactor, Run, sweep, verify_run
from ethogram.store.files import LocalFiles
from ethogram.traces import Missing

HERE = Path(__file__).parent
ROUNDS = 50 if os.environ.get("ETHOGRAM_LONG") else 6


def steps_of(name: str) -> int:
    """As in `fleet.py`."""
    return sum(name.encode()) % 9


def acknowledged(place: Path) -> dict[int, set[str]]:
    """What each writer says was committed; its last line may be cut off if it was killed."""
    found = {}
    for file in place.glob("acknowledged-*"):
        lines = file.read_text().split("\n")[:-1]
        found[int(file.name.rpartition("-")[2])] = set(lines)
    return found


def names(run: Run) -> list[str]:
    return [e.head.origin.name for e in run.entries if e.head.origin]


def check_whole(run: Run) -> None:
    """Every trace that is seen is whole: its spans, its words, its label."""
    for trace in run.traces():
        assert trace.head.origin is not None
        steps = steps_of(trace.head.origin.name)
        assert len(trace.spans) == 1 + 2 * steps
        assert len(trace.messages) == (2 + 2 * steps if steps else 0)
        assert [trace.text(x.why) for x in trace.labels if x.why] == [trace.head.origin.name]
        assert trace.answer


def test_a_writer_is_killed_at_a_random_moment(tmp_path: Path) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}, {ROUNDS} rounds")  # shown if something fails
    out = subprocess.run(
        [sys.executable, str(HERE / "fleet.py"), str(tmp_path), str(HERE.parent), str(ROUNDS), str(seed)],
        capture_output=True,
        text=True,
        timeout=30 + 20 * ROUNDS,
    )
    assert out.returncode == 0, out.stderr
    rounds = [json.loads(line) for line in out.stdout.splitlines()]
    assert [r.get("failed") for r in rounds] == [None] * ROUNDS
    home = Home(LocalFiles(tmp_path))
    for told in rounds:
        run = home.run(told["run"])
        assert [bool(end) for end in told["ends"]] == [n == told["victim"] for n in range(4)]
        lists = acknowledged(tmp_path / "lists" / run.name)
        found = verify_run(run)
        assert found.damaged == [], told
        seen = names(run)
        assert len(seen) == len(set(seen)), told
        committed = set().union(*lists.values())
        assert committed <= set(seen), told
        extra = {n for n in set(seen) - committed if not n.startswith((f"writer {told['victim']} ", "shared"))}
        assert extra == set(), told  # only the dead writer may have committed what it could not tell
        check_whole(run)
        rows = sum(1 + 2 * steps_of(n) for n in seen)
        assert Lake([run]).columns("kind").num_rows == rows
        before = sorted(seen)
        sweep(run)
        again = verify_run(home.run(run.name))
        assert (again.damaged, again.leftovers) == ([], []), told
        assert sorted(names(home.run(run.name))) == before
        assert home.run(run.name).leases() == {}


# -- a full disk -----------------------------------------------------------------------------------------------------


def logs(folder: Path, files: int, traces: int, words: int) -> Path:
    """A folder of tau-bench results, each file other words."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(7)
    for file in range(files):
        results: list[dict[str, Any]] = []
        for n in range(traces):
            said = " ".join(f"{draw.getrandbits(40):x}" for _ in range(words))
            talk = [{"role": "user", "content": f"task {n}"}, {"role": "assistant", "content": said}]
            results.append({"task_id": f"{file}-{n}", "trial": 0, "reward": 1.0, "info": {}, "traj": talk})
        (folder / f"{folder.name}-{file:02d}.json").write_text(json.dumps(results))
    return folder


def command(home: Path, *arguments: str, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which may write no file larger than `limit`."""

    def restrict() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    environment = {**os.environ, "ETHOGRAM_HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-m", "ethogram.cli.main", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        preexec_fn=restrict,
        timeout=120,
    )


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """What was committed before is there, the sentence says what to think, and with room it goes on."""
    home, small, large = tmp_path / "home", logs(tmp_path / "a", 1, 2, 20), logs(tmp_path / "b", 1, 40, 400)
    assert command(home, "import", str(small), "--format", "tau-bench", "--run", "r", "--json").returncode == 0
    full = command(home, "import", str(large), "--format", "tau-bench", "--run", "r", "--json", limit=60_000)
    assert full.returncode == 64
    assert json.loads(full.stdout)["error"].startswith("cannot write ")
    last = full.stderr.strip().splitlines()[-1]
    assert last.startswith("ethogram import: cannot write ")
    assert last.endswith(": File too large; everything committed before is safe")
    assert "Traceback" not in full.stderr
    lake = Home(LocalFiles(home))
    found = verify_run(lake.run("r"))
    assert (found.damaged, found.episodes) == ([], 2)
    assert lake.run("r").busy() == []
    again = command(home, "import", str(large), "--format", "tau-bench", "--run", "r", "--json")
    assert json.loads(again.stdout)["traces"] == 40
    found = verify_run(Home(LocalFiles(home)).run("r"))
    assert (found.damaged, found.episodes) == ([], 42)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], capture_output=True, text=True, timeout=120
    )
    if done.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip() or 'not allowed'}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True, timeout=120)


def test_a_disk_that_is_full(small_disk: Path, tmp_path: Path, plain: Redactor, write_trace: Any) -> None:
    """A real full disk, for a writer that goes on as long as it can."""
    from ethogram.errors import EthogramError

    home = Home(LocalFiles(small_disk / "home"))
    run = home.create("run", "import")
    writer = run.writer(plain, window=None)
    committed = []
    told = ""
    for n in range(10_000):
        name = f"trace {n}"
        words = random.Random(n).randbytes(8000).hex()
        try:
            write_trace(writer, name, steps=1, words=words, label=name)
            writer.commit()
        except EthogramError as error:
            told = str(error)
            break
        committed.append(name)
    assert "No space left on device; everything committed before is safe" in told
    assert "\n" not in told
    assert len(committed) > 3
    assert sorted(names(home.run("run"))) == sorted(committed)
    assert verify_run(home.run("run")).damaged == []
    with pytest.raises(EthogramError, match="No space left on device"):
        writer.close()
    assert home.run("run").busy() == []
    sweep(home.run("run"))
    found = verify_run(home.run("run"))
    assert (found.damaged, found.leftovers, found.episodes) == ([], [], len(committed))


# -- two imports at once ---------------------------------------------------------------------------------------------


def test_imports_of_the_same_folder_at_once(tmp_path: Path) -> None:
    """Three processes, one folder, one new run: every episode once, every file told of once."""
    home, folder = tmp_path / "home", logs(tmp_path / "logs", 6, 5, 30)
    environment = {**os.environ, "ETHOGRAM_HOME": str(home), "XDG_CONFIG_HOME": str(tmp_path)}
    arguments = ["import", str(folder), "--format", "tau-bench", "--run", "both", "--json"]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "ethogram.cli.main", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(3)
    ]
    ends = [(p.communicate(timeout=120), p.returncode) for p in running]
    assert [code for _, code in ends] == [0, 0, 0], ends
    results = [json.loads(out) for (out, _), _ in ends]
    assert all(r["traces"] + r["unchanged"] == 30 for r in results)
    lake = Home(LocalFiles(home))
    run = lake.run("both")
    found = verify_run(run)
    assert (found.damaged, found.leftovers, found.episodes) == ([], [], 30)
    assert len({(e.head.task, e.head.attempt) for e in run.entries}) == 30
    assert sum(1 for _ in run.traces()) == 30
    (count,) = Lake([run]).sql("SELECT count(*) AS n, count(DISTINCT (trace_id, span_id)) AS d FROM spans").to_pylist()
    assert count["n"] == count["d"] == sum(e.totals.spans for e in run.entries)
    from ethogram.capture.register import read_files

    assert len(list(read_files(run))) == 6
    marks = (Path(home) / "redaction.key").read_text()
    assert len(marks) == 64
    assert all(isinstance(e.head.outcome, Missing) is False for e in run.entries)
    again = json.loads(command(home, *arguments).stdout)
    assert (again["traces"], again["unchanged"]) == (0, 30)


def test_an_import_is_killed_and_done_again(tmp_path: Path) -> None:
    """Nothing is counted half, nothing twice."""
    home, folder = tmp_path / "home", logs(tmp_path / "logs", 40, 5, 200)
    environment = {**os.environ, "ETHOGRAM_HOME": str(home), "XDG_CONFIG_HOME": str(tmp_path)}
    arguments = ["import", str(folder), "--format", "tau-bench", "--run", "r", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ethogram.cli.main", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    until = time.monotonic() + 60
    while not (home / "runs" / "r" / "writers").is_dir() and process.poll() is None and time.monotonic() < until:
        pass
    process.kill()
    process.wait(timeout=60)
    lake = Home(LocalFiles(home))
    assert verify_run(lake.run("r")).damaged == []
    done = json.loads(command(home, *arguments).stdout)
    assert done["traces"] + done["unchanged"] == 200
    sweep(lake.run("r"))
    found = verify_run(lake.run("r"))
    assert (found.damaged, found.leftovers, found.episodes) == ([], [], 200)
