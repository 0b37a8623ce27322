"""Verify names whatever changed, in every kind of file; sweep removes what nobody committed and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import Damaged
from ethogram.questions.home.maintenance import verify
from ethogram.store import (
    Home,
    Keyring,
    Limits,
    Redactor,
    RetentionRule,
    Run,
    ledger_file,
    retain_run,
    sweep,
    verify_run,
)
from ethogram.store.entry import Header
from ethogram.store.files import LocalFiles
from ethogram.traces import Scored


@pytest.fixture
def run(home: Home, plain: Redactor, write_trace: Any) -> Run:
    """A run with every kind of file: retention has been at work, and a writer after it."""
    made = home.create("run", "import", tags=("a",), meta={"k": "v"})
    with made.writer(plain, window=None) as writer:
        write_trace(writer, "old", label="why", outcome=Scored(1.0))
        write_trace(writer, "kept", label="why", outcome=Scored(0.0))
        writer.note("sources", [b'{"origin":{"format":"test"},"report":{"source":"a log"}}'])
    opened = home.run("run")
    retain_run(opened, RetentionRule(keep_all_s=1), dry_run=False, now_ns=opened.entries[0].at_ns + 10**11)
    with home.run("run").writer(plain, window=None, limits=Limits(spill_spans=4, spill_chars=1000)) as writer:
        write_trace(writer, "large", steps=6, label="why")
        write_trace(writer, "small", steps=1)
    return home.run("run")


def root(run: Run) -> Path:
    return Path(run.files.address, run.path)


def files(run: Run) -> list[Path]:
    return sorted(p for p in root(run).rglob("*") if p.is_file())


def kind(path: Path) -> str:
    return path.name.split("-")[0] if path.suffix == ".parquet" else path.parent.name if path.name != "run.json" else ""


def test_a_trace_that_was_written_twice_with_other_words_is_whole(
    home: Home, plain: Redactor, write_trace: Any
) -> None:
    made = home.create("run", "import")
    for words in ("the first words", "other words"):
        with made.writer(plain, window=None) as writer:
            write_trace(writer, "one", label=words)
    found = verify_run(home.run("run"))
    assert (found.damaged, found.episodes) == ([], 1)
    (entry,) = home.run("run").entries
    trace = home.run("run").trace(entry)
    assert [trace.text(x.why) for x in trace.labels if x.why] == ["the first words"]
    gone = next(p for p in sorted(root(made).glob("texts-*")))
    gone.unlink()
    assert not verify_run(home.run("run")).ok


def test_all_is_well(run: Run) -> None:
    found = verify_run(run)
    assert (found.damaged, found.leftovers, found.ok) == ([], [], True)
    assert (found.episodes, found.spans, found.sealed_away) == (4, 7 + 13 + 3, 0)
    assert found.files == len(run.standing.files)
    assert {kind(p) for p in files(run)} == {"", "spans", "texts", "ledger", "labels", "sources", "retention"}
    seen: list[int] = []
    verify_run(run, seen.append)
    assert sum(seen) == sum(f.bytes for f in run.standing.files)


def test_one_flipped_byte_anywhere_is_named(run: Run) -> None:
    """Every file, at its start, its end and in between."""
    for path in files(run):
        data = path.read_bytes()
        places = {0, 1, len(data) // 3, len(data) // 2, len(data) - 2, len(data) - 1}
        for at in sorted(p for p in places if 0 <= p < len(data)):
            if path.name == "run.json" and data[at : at + 1].isspace():
                continue  # white space says nothing there
            path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            named = {p.where for p in verify_run(run).damaged}
            assert str(path.relative_to(root(run))) in named, (path, at, named)
        path.write_bytes(data)
    assert verify_run(run).ok


def test_every_byte_of_run_json_counts(home: Home) -> None:
    run = home.create("empty", "import", tags=("a",), meta={"k": "v"}, plan={"n": 1.5})
    path = root(run) / "run.json"
    data = path.read_bytes()
    for at in range(len(data)):
        if not data[at : at + 1].isspace():
            path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            assert [p.where for p in verify_run(run).damaged] == ["run.json"], at
    path.unlink()
    assert [p.where for p in verify_run(run).damaged] == ["run.json"]


def test_cut_and_grown_files_are_named(run: Run) -> None:
    assert files(run)
    for path in files(run):
        data = path.read_bytes()
        for changed in (b"", data[:-1], data + b"\n", data + data):
            if path.name == "run.json" and changed.strip() == data.strip():
                continue
            path.write_bytes(changed)
            assert str(path.relative_to(root(run))) in {p.where for p in verify_run(run).damaged}, path
        path.write_bytes(data)


def test_missing_files_are_named(run: Run) -> None:
    named = [p for p in files(run) if p.parent.name != "ledger"]  # what no segment names never was; see below
    assert named
    for path in named:
        data = path.read_bytes()
        path.unlink()
        assert str(path.relative_to(root(run))) in {p.where for p in verify_run(run).damaged}, path
        path.write_bytes(data)


def test_a_ledger_segment_that_is_gone_leaves_leftovers(run: Run) -> None:
    """A segment is the commit itself; without it the data files are there and nobody committed them."""
    (last,) = [s.name for s in run.segments() if not s.header.replaces]
    (root(run) / "ledger" / last).unlink()
    found = verify_run(run)
    assert found.ok
    assert found.episodes == 2
    assert {kind(root(run) / p) for p in found.leftovers} == {"spans", "texts", "labels"}


def test_every_problem_is_one_sentence_with_a_place(run: Run) -> None:
    for path in files(run):
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
    found = verify_run(run)
    assert len(found.damaged) >= 2
    assert all(p.where and p.what and "\n" not in p.what for p in found.damaged)


def test_a_text_under_a_wrong_address_is_found(home: Home, plain: Redactor, write_trace: Any) -> None:
    """Not an accident: somebody rewrote a text and the ledger, hashes and all."""
    from ethogram.store.segment import TextRow, open_parquet, text_table
    from ethogram.store.writer import publish_table

    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        write_trace(writer, "one")
    run = home.run("run")
    (old,) = run.segments()
    (texts,) = run.standing.named("texts-")
    table = open_parquet(run.files.open(f"{run.path}/{texts.name}")).read()
    rows = [TextRow(*v) for v in zip(*(c.to_pylist() for c in table.columns), strict=True)]
    forged = [TextRow(rows[0].ref, "I never said that", 5, None), *rows[1:]]
    made = publish_table(run.files, run.path, texts.name, text_table(forged), None, None)
    header = Header(
        schema_version=1,
        writer=old.header.writer,
        number=0,
        committed_ns=old.header.committed_ns,
        files=tuple(made if f.name == texts.name else f for f in old.header.files),
    )
    run.files.delete(f"{run.path}/ledger/{old.name}")
    name, data = ledger_file.encode_segment(header, old.entries)
    run.files.publish(f"{run.path}/ledger/{name}", data)
    assert [p.what for p in verify_run(run).damaged] == [f"text {rows[0].ref} does not match its address"]
    made = publish_table(run.files, run.path, texts.name, text_table(rows[:-1]), None, None)
    header = Header(schema_version=1, writer="w", number=0, committed_ns=1, files=(made, *header.files[1:]))
    run.files.delete(f"{run.path}/ledger/{name}")
    name, data = ledger_file.encode_segment(header, old.entries)
    run.files.publish(f"{run.path}/ledger/{name}", data)
    assert any(f"{rows[-1].ref} is not where the ledger says" in p.what for p in verify_run(run).damaged)


# -- sweeping --------------------------------------------------------------------------------------------------------

_DIES = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from conftest import build_trace
from ethogram.store import Home, Limits, Policy, Redactor
from ethogram.store.files import LocalFiles
run = Home(LocalFiles(Path(sys.argv[1]))).run("run")
writer = run.writer(Redactor(b"k", Policy(kinds=())), window=None, limits=Limits(spill_chars=500, spill_spans=3))
build_trace(writer, "committed", steps=4, label="why")
writer.commit()
def wait():
    print("spilled", writer.name, flush=True)
    time.sleep(60)
build_trace(writer, "never", steps=9, label="why", before_close=wait)
"""


@pytest.fixture
def dying(home: Home, run: Run) -> Any:
    """A process that has committed one trace and spilled half of another."""
    process = subprocess.Popen(
        [sys.executable, "-c", _DIES, home.files.address, str(Path(__file__).parents[1])],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.name = process.stdout.readline().split()[1]  # type: ignore[attr-defined]
    yield process
    process.kill()
    process.wait(timeout=60)
    process.stdout.close()


def test_files_of_a_living_writer_are_left_alone(run: Run, dying: Any, home: Home) -> None:
    mine = [p for p in files(run) if dying.name in p.name]
    assert any("-x0" in p.name for p in mine)  # parts of a trace that is not complete
    found = verify_run(run)
    assert (found.damaged, found.leftovers, found.episodes) == ([], [], 5)
    assert sweep(run) == []
    assert [p for p in files(run) if dying.name in p.name] == mine
    assert run.busy() == [dying.name]


def test_what_a_killed_writer_left_is_swept(run: Run, dying: Any, home: Home) -> None:
    os.kill(dying.pid, signal.SIGKILL)
    dying.wait(timeout=60)
    draft = root(run) / f".texts-{dying.name}-000009.parquet.abcd.tmp"
    draft.write_bytes(b"half")
    before = verify_run(run)
    assert before.ok
    assert before.episodes == 5
    assert draft.name in before.leftovers
    assert any(p.startswith("texts-") and "-x0" in p for p in before.leftovers)
    result = verify(home=home, sweep=True)
    assert result.swept == [f"run/{p}" for p in before.leftovers]
    after = verify_run(run)
    assert (after.damaged, after.leftovers, after.episodes) == ([], [], 5)
    assert run.leases() == {}
    assert not draft.exists()
    assert all("-x0" not in p.name or dying.name not in p.name for p in files(run) if p.name in before.leftovers)
    assert sum(len(t.spans) for t in home.run("run").traces()) == after.spans


def test_leftovers_of_all_kinds(run: Run, home: Home) -> None:
    for name in ("spans-dead-000000.parquet", "texts-dead-x000001.parquet", "labels/dead-000000.jsonl",
                 "sources/dead-000000.jsonl", "ledger/.dead-000000.jsonl.12345678.tmp"):  # fmt: skip
        (root(run) / name).write_bytes(b"left over")
    (root(run) / "stop.json").write_bytes(b"{}")  # not ours to judge
    old = root(run) / "ledger" / ".dead-000000.jsonl.12345678.tmp"
    assert len(verify_run(run).leftovers) == 4  # a draft of nobody known may be somebody's, for a while
    os.utime(old, (time.time() - 3600,) * 2)
    found = verify_run(run)
    assert found.ok
    assert len(found.leftovers) == 5
    assert sweep(run) == found.leftovers
    assert verify_run(run).leftovers == []
    assert (root(run) / "stop.json").exists()
    assert verify_run(run).episodes == 4


def test_nothing_is_swept_where_the_ledger_is_damaged(run: Run, home: Home) -> None:
    """A segment that cannot be read may have committed what would be taken for a leftover."""
    segment = sorted((root(run) / "ledger").iterdir())[0]
    data = segment.read_bytes()
    segment.write_bytes(data[:-5])
    before = files(run)
    with pytest.raises(Damaged, match=f"ledger segment {segment.name} does not match its hash") as raised:
        sweep(run)
    for way_out in ("ethogram verify RUN", "restore the file from a copy", "remove it", "ethogram run --resume RUN"):
        assert way_out in str(raised.value)
    result = verify(home=home, sweep=True)
    assert (result.ok, result.swept) == (False, [])
    assert files(run) == before
    segment.write_bytes(data)
    assert verify(home=home).ok


def test_a_writer_that_begins_while_the_sweeper_looks_loses_nothing(
    tmp_path: Path, keys: Keyring, plain: Redactor, write_trace: Any
) -> None:
    """Between any two looks of the sweeper a writer comes, publishes, and perhaps commits and goes."""

    class Interrupted(LocalFiles):
        """A folder in which somebody else acts at the n-th look."""

        looks = -1
        at = -1

        def names(self, folder: str) -> list[str]:
            self.looks += 1
            if self.looks == self.at:
                act()
            return super().names(folder)

    for stays in (True, False):
        at, acted = 0, True
        while acted:
            slow = Interrupted(tmp_path / f"{stays}-{at}")
            home = Home(slow, keys)
            run = home.create("run", "import")
            with run.writer(plain, window=None) as writer:
                write_trace(writer, "first", steps=1)
            others: list[Any] = []

            def act(run: Run = run, others: list[Any] = others, stays: bool = stays) -> None:
                fast = Run(LocalFiles(Path(run.files.address)), run.path, run.keys)
                other = fast.writer(plain, window=None, limits=Limits(spill_chars=100))
                if stays:
                    write_trace(other, "second", steps=2, before_close=lambda: None)
                else:
                    write_trace(other, "second", steps=2)
                    other.close()
                others.append(other)

            slow.at, slow.looks = at, -1
            sweep(run)
            slow.at = -1
            acted = bool(others)
            for other in others:
                other.close()
            found = verify_run(home.run("run"))
            assert (found.damaged, found.episodes) == ([], 1 + acted), (stays, at)
            at += 1
        assert at > 5
