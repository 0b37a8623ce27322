"""Retention: what is young, failed, missing or sampled stays; the rest is forgotten, on record, and in no byte."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ethogram.errors import BadUsage, EthogramError, Locked, NotFound
from ethogram.questions.home.maintenance import retain
from ethogram.questions.home.runs import show
from ethogram.store import (
    Home,
    Keyring,
    Lake,
    Redactor,
    RetentionRule,
    Run,
    age_seconds,
    retain_run,
    rewrite,
    sweep,
    verify_run,
)
from ethogram.store.files import LocalFiles
from ethogram.store.ledger_file import unpack
from ethogram.store.retain import decide
from ethogram.traces import SUCCESS_AT, Missing, Scored

DAY = 86_400
NOTE = b'{"origin":{"format":"test"},"report":{"source":"a log"}}'
OLD = RetentionRule(keep_all_s=14 * DAY, keep_failures=True, sample=0.0)


def grep(home: Home, words: str) -> bool:
    """Whether any file of the home holds the words, raw, compressed or inside Parquet."""
    import pyarrow.parquet as pq

    for file in (p for p in Path(home.files.address).rglob("*") if p.is_file()):
        if words.encode() in unpack(file.name, file.read_bytes()):
            return True
        if file.suffix == ".parquet" and any(
            words in str(v) for column in pq.read_table(file).columns for v in column.to_pylist()
        ):
            return True
    return False


def state(home: Home) -> dict[str, str]:
    root = Path(home.files.address)
    files = sorted(p for p in root.rglob("*") if p.is_file())
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def fill(run: Run, plain: Redactor, write_trace: Any, count: int = 3) -> None:
    with run.writer(plain, window=None) as writer:
        for n in range(count):
            words = f"secret of success {n}"
            meta = {"kept": "short", "instruction": "long words of the task " * 5 + words}
            write_trace(writer, f"success {n}", words=words, outcome=Scored(1.0), label=f"why {words}", meta=meta)
            writer.commit()
        write_trace(writer, "failure", words="words of failure", outcome=Scored(0.0), label="why it failed")
        write_trace(writer, "missing", words="words of missing", outcome=Missing("infrastructure.timeout"))
        writer.note("sources", [NOTE])


@pytest.fixture
def run(home: Home, plain: Redactor, write_trace: Any) -> Run:
    made = home.create("run", "import")
    fill(made, plain, write_trace)
    return home.run("run")


def later(run: Run, seconds: float) -> int:
    return max(e.at_ns for e in run.entries) + int(seconds * 1e9)


def test_a_dry_run_changes_nothing(home: Home, run: Run) -> None:
    before = state(home)
    done = retain_run(run, OLD, now_ns=later(run, 15 * DAY))
    assert state(home) == before
    assert (done.dry_run, done.kept, len(done.forgotten), done.bytes_after) == (True, 2, 3, None)
    assert {d.why for d in done.forgotten} == {"older than 1209600 s, not a failure, not in the sample of 0%"}


def test_the_old_successes_are_forgotten_and_the_rest_stays(home: Home, run: Run) -> None:
    before = {e.head.origin.name: e for e in run.entries if e.head.origin}
    kept = {t.head.origin.name: (t.spans, dict(t.texts), t.labels) for t in run.traces() if t.head.origin}
    done = retain_run(run, OLD, dry_run=False, now_ns=later(run, 15 * DAY))
    assert (done.kept, len(done.forgotten)) == (2, 3)
    assert done.bytes_after is not None
    assert done.bytes_after < done.bytes_before
    run = home.run("run")
    entries = {e.head.origin.name: e for e in run.entries if e.head.origin}
    assert entries.keys() == before.keys()
    for name, entry in entries.items():
        assert (entry.totals, entry.head.outcome, entry.at_ns) == (
            before[name].totals,
            before[name].head.outcome,
            before[name].at_ns,
        )
        assert bool(entry.forgotten) == name.startswith("success")
    assert entries["success 0"].head.meta == {"kept": "short"}  # long values are words
    assert {t.head.origin.name: (t.spans, dict(t.texts), t.labels) for t in run.traces() if t.head.origin} == {
        name: kept[name] for name in ("failure", "missing")
    }
    with pytest.raises(NotFound, match="is no longer kept: older than 1209600 s"):
        run.trace(entries["success 0"])
    assert [(x.value, x.why is None) for x in run.labels()] == [(0.5, True)] * 3 + [(0.5, False)]
    assert [line for _, line in run.notes("sources")] == [NOTE]
    found = verify_run(run)
    assert (found.damaged, found.leftovers, found.episodes) == ([], [], 5)
    lake = Lake([run])
    assert lake.sql("SELECT count(*) AS n FROM episodes WHERE forgotten IS NULL").to_pylist() == [{"n": 2}]
    assert lake.columns("kind").num_rows == 14


def test_the_words_are_gone_from_the_bytes(home: Home, run: Run) -> None:
    assert grep(home, "secret of success 1")
    retain_run(run, OLD, dry_run=False, now_ns=later(run, 15 * DAY))
    for n in range(3):
        assert not grep(home, f"secret of success {n}")
    assert grep(home, "words of failure")
    assert grep(home, "why it failed")
    assert grep(home, "the same in every trace")  # shared with those that stay


def test_what_went_and_why_is_on_record(home: Home, run: Run) -> None:
    done = retain_run(run, OLD, dry_run=False, now_ns=later(run, 15 * DAY))
    ((name, line),) = home.run("run").notes("retention")
    record = msgspec.json.decode(line)
    assert name.startswith("retention/")
    assert record == msgspec.to_builtins(done)
    assert [d["trace_id"] for d in record["forgotten"]] == [
        e.head.trace_id for e in home.run("run").entries if e.forgotten
    ]
    fill_again = retain_run(
        home.run("run"), RetentionRule(keep_all_s=0, keep_failures=False), dry_run=False, now_ns=later(run, DAY)
    )
    assert len(fill_again.forgotten) == 2
    assert len(list(home.run("run").notes("retention"))) == 2  # the first record is still there
    assert verify_run(home.run("run")).ok


def test_nothing_to_do_is_nothing_done(home: Home, run: Run) -> None:
    before = state(home)
    done = retain_run(run, OLD, dry_run=False, now_ns=later(run, DAY))
    assert (done.kept, done.forgotten, done.bytes_after) == (5, [], done.bytes_before)
    assert state(home) == before


def test_the_sample_is_stable_and_about_right(plain: Redactor, tmp_path: Path, write_trace: Any) -> None:
    home = Home(LocalFiles(tmp_path / "h"))
    run = home.create("many", "import")
    with run.writer(plain, window=None) as writer:
        for n in range(400):
            write_trace(writer, f"t{n}", steps=0, words="same")
    run = home.run("many")
    now = later(run, 20 * DAY)

    def kept(share: float) -> set[str]:
        rule = RetentionRule(keep_all_s=0, sample=share)
        return {e.head.trace_id for e in run.entries if decide(e, rule, run.success_at, now).keep}

    twenty, forty = kept(0.2), kept(0.4)
    assert 50 < len(twenty) < 115
    assert twenty < forty  # a larger share keeps what a smaller one kept
    assert (kept(0.0), len(kept(1.0))) == (set(), 400)
    retain_run(run, RetentionRule(keep_all_s=0, sample=0.2), dry_run=False, now_ns=now)
    run = home.run("many")
    assert {e.head.trace_id for e in run.entries if not e.forgotten} == twenty == kept(0.2)
    again = retain_run(run, RetentionRule(keep_all_s=0, sample=0.2), dry_run=False, now_ns=now)
    assert again.forgotten == []


@pytest.mark.parametrize(
    ("outcome", "failures", "keep"),
    [
        (Scored(1.0), True, False),
        (Scored(0.5), True, False),
        (Scored(0.49), True, True),
        (Scored(0.0), False, False),
        (Missing("killed"), True, True),
        (Missing("killed"), False, False),
    ],
)
def test_what_counts_as_a_failure(run: Run, outcome: Any, failures: bool, keep: bool) -> None:
    entry = msgspec.structs.replace(run.entries[0], head=msgspec.structs.replace(run.entries[0].head, outcome=outcome))
    rule = RetentionRule(keep_all_s=10, keep_failures=failures)
    assert decide(entry, rule, SUCCESS_AT, entry.at_ns + 11 * 10**9).keep is keep
    assert decide(entry, rule, SUCCESS_AT, entry.at_ns + 9 * 10**9).keep  # young


def test_ages() -> None:
    assert [age_seconds(t) for t in ("30s", "5m", "12h", "14d", " 2w ")] == [30, 300, 43_200, 14 * DAY, 14 * DAY]
    for bad in ("", "14", "d", "-1d", "1.5d", "14 days", "1y"):
        with pytest.raises(BadUsage, match="is not an age; write for example 14d"):
            age_seconds(bad)


def test_refused_while_somebody_writes(home: Home, run: Run, plain: Redactor) -> None:
    before = state(home)
    with run.writer(plain):
        with pytest.raises(Locked, match=r"run 'run' is being written by 1 writer\(s\); try again"):
            retain_run(run, OLD, dry_run=False, now_ns=later(run, 15 * DAY))
        assert retain_run(run, OLD, now_ns=later(run, 15 * DAY)).dry_run  # a dry run disturbs nobody
    assert state(home) == before
    assert retain_run(run, OLD, dry_run=False, now_ns=later(run, 15 * DAY)).forgotten


def test_a_sealed_run_stays_sealed(home: Home, keys: Keyring, plain: Redactor, write_trace: Any) -> None:
    keys.new()
    run = home.create("run", "import")
    fill(run, plain, write_trace)
    retain_run(home.run("run"), OLD, dry_run=False, now_ns=later(home.run("run"), 15 * DAY))
    run = home.run("run")
    assert all(f.key for f in run.standing.named("texts-"))
    assert "words of failure" in next(run.traces()).messages[1].text


def test_the_verb_behind_it(home: Home, run: Run) -> None:
    dry = retain(keep_all="0s", sample=0.0, home=home)
    assert (dry.dry_run, dry.kept, dry.forgotten) == (True, 2, 3)
    done = retain(["run"], keep_all="0s", sample=0.0, apply=True, home=home)
    assert done.forgotten == 3
    assert show("run", home=home).forgotten == 3


def test_large_traces_are_rewritten_in_pieces(home: Home, plain: Redactor, write_trace: Any, monkeypatch: Any) -> None:
    retention = sys.modules["ethogram.store.retain"]
    monkeypatch.setattr(retention, "REWRITE_SPANS", 30)
    monkeypatch.setattr(retention, "REWRITE_CHARS", 2000)
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        for n, steps in enumerate((40, 2, 2, 2, 60)):
            write_trace(writer, f"t{n}", steps=steps)
    before = [(t.spans, dict(t.texts)) for t in home.run("run").traces()]
    rewrite(home.run("run"))
    run = home.run("run")
    assert [(t.spans, dict(t.texts)) for t in run.traces()] == before
    assert len(run.standing.named("spans-")) > 1
    assert len(run.standing.named("texts-")) > 3
    assert all(len(e.spans) <= 2 for e in run.entries)  # rows that lie together are one place
    assert verify_run(run).ok


# -- crashes ---------------------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The power goes out."""


class Failing(LocalFiles):
    """A folder on a machine that dies during its n-th change; `full` makes it a full disk instead."""

    def __init__(self, root: Path, left: int, full: bool) -> None:
        super().__init__(root)
        self.left = left
        self.full = full

    def _spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise EthogramError("cannot write: No space left on device") if self.full else Crash

    def publish(self, path: str, data: bytes | memoryview) -> None:
        self._spend()
        super().publish(path, data)

    def delete(self, path: str) -> None:
        if not self.full:
            self._spend()
        super().delete(path)


@pytest.mark.parametrize("full", [False, True], ids=["crash", "full disk"])
@pytest.mark.parametrize("deed", ["forget", "rotate"])
def test_an_interruption_anywhere_leaves_the_old_run_or_the_new_one(
    tmp_path: Path, plain: Redactor, write_trace: Any, keys: Keyring, full: bool, deed: str
) -> None:
    old_key, new_key = keys.new(), keys.new()
    file = msgspec.json.decode(keys.path.read_bytes())
    keys.path.write_bytes(msgspec.json.encode({**file, "active": old_key}))
    change: Callable[[Run], Any] = {
        "forget": lambda run: retain_run(run, OLD, dry_run=False, now_ns=later(run, 15 * DAY)),
        "rotate": lambda run: rewrite(run, key=new_key),
    }[deed]
    seen, completed, left = set(), False, 0
    fill(Home(LocalFiles(tmp_path / "whole"), keys).create("run", "import"), plain, write_trace, count=2)
    while not completed:
        root = tmp_path / f"{left}"
        shutil.copytree(tmp_path / "whole", root)
        try:
            change(Home(Failing(root, left, full), keys).run("run"))
            completed = True
        except (Crash, EthogramError):
            pass
        home = Home(LocalFiles(root), keys)
        run = home.run("run")
        found = verify_run(run)
        assert found.damaged == [], (left, found.damaged)
        assert found.episodes == 4
        forgotten = sum(e.forgotten is not None for e in run.entries)
        assert forgotten in (0, 2)
        assert bool(forgotten) == bool(list(run.notes("retention")))  # nothing goes without a record
        seen.add((forgotten, tuple(sorted({f.key or "" for f in run.standing.named("texts-")}))))
        assert sum(1 for t in run.traces() for _ in t.messages) > 0
        # a crash leaves a lease behind only in name: this process lives on, so it must be given up by hand
        for name in run.leases():
            run.files.delete(f"{run.path}/writers/{name}.json")
        sweep(run)
        again = verify_run(home.run("run"))
        assert (again.damaged, again.leftovers, again.episodes) == ([], [], 4)
        change(home.run("run"))  # and the next attempt goes through
        assert verify_run(home.run("run")).ok
        left += 1
    assert left > 5
    assert seen == {(0, (old_key,)), (2, (old_key,)) if deed == "forget" else (0, (new_key,))}


def test_an_interrupted_rewrite_is_not_undone_by_the_next(tmp_path: Path, plain: Redactor, write_trace: Any) -> None:
    """Two rewrites, both cut off while they remove what they replaced: no old segment ever comes back to life."""
    for first in range(4, 13, 2):
        for second in (4, 7):
            root = tmp_path / f"{first}-{second}"
            fill(Home(LocalFiles(root)).create("run", "import"), plain, write_trace, count=2)
            for left in (first, second):
                run = Home(Failing(root, left, full=False)).run("run")
                try:
                    rewrite(run)
                except Crash:
                    for name in run.leases():
                        LocalFiles(root).delete(f"{run.path}/writers/{name}.json")
            found = verify_run(Home(LocalFiles(root)).run("run"))
            assert (found.damaged, found.episodes) == ([], 4), (first, second)
