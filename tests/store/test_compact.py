"""Compaction: many small files become few, and nothing else changes, whatever happens in between."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import EthogramError, Locked
from ethogram.questions.home.maintenance import retain
from ethogram.store import Home, Keyring, Lake, Redactor, Run, compact, retain_run, rewrite, sweep, verify_run
from ethogram.store.files import LocalFiles
from ethogram.store.rescore import append_outcomes
from ethogram.store.retain import RetentionRule
from ethogram.traces import Missing, Scored, TraceId

NOTE = b'{"origin":{"format":"test"},"report":{"source":"a log"}}'


def fill(run: Run, plain: Redactor, write_trace: Any, count: int = 8, start: int = 0) -> list[TraceId]:
    """A slow run: every trace in a segment of its own."""
    made = []
    with run.writer(plain, window=None) as writer:
        for n in range(start, start + count):
            made.append(write_trace(writer, f"trace {n}", steps=n % 4, label=f"why {n}", words=f"words {n % 3}"))
            writer.commit()
        writer.note("sources", [NOTE])
    return made


def contents(run: Run, *views: str) -> dict[str, Any]:
    """Everything that a reader sees, order aside; by default in SQL too."""
    run.forget_cache()
    traces = {
        t.head.trace_id: (t.head, t.spans, dict(t.texts), sorted(map(str, t.labels)), t.answer) for t in run.traces()
    }
    lake = Lake([run])
    tables = {
        view: lake.sql(f"SELECT * FROM {view} ORDER BY ALL").to_pylist()
        for view in views or ("spans", "texts", "labels", "messages")
    }
    return {"traces": traces, **tables, "notes": sorted(line for _, line in run.notes("sources"))}


def files(run: Run) -> list[str]:
    root = Path(run.files.address) / run.path
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def spent(run: Run) -> float:
    return sum(e.totals.cost_usd or 0.0 for s in run.segments() for e in s.entries)


def test_many_small_files_become_few_and_nothing_else_changes(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    fill(run, plain, write_trace)
    before, count = contents(run), len(files(run))
    done = compact(run)
    assert (done.segments_before, done.segments_after) == (9, 1)
    assert contents(home.run("run")) == before
    assert len(files(run)) == 6 < count  # run.json, ledger, spans, texts, labels, the note
    found = verify_run(run)
    assert (found.damaged, found.leftovers, found.episodes) == ([], [], 8)
    assert home.run("run").leases() == {}
    state = files(run)
    assert compact(run).segments_after == 1
    assert files(run) == state


def test_a_few_segments_are_left_alone(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    fill(run, plain, write_trace, count=3)
    state = files(run)
    assert compact(run).segments_before == 4
    assert files(run) == state


def test_writing_and_compacting_in_turn(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    for turn in range(4):
        fill(run, plain, write_trace, start=turn * 8)
        before = contents(run)
        assert compact(run).segments_after == 1
        assert contents(run) == before
    assert verify_run(run).episodes == 32


def test_nothing_happens_while_somebody_writes(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    fill(run, plain, write_trace)
    state = files(run)
    with run.writer(plain):
        with pytest.raises(Locked, match="is being written by 1 writer"):
            compact(run)
        assert [f for f in files(run) if not f.startswith("writers/")] == state
    compact(run)
    assert verify_run(run).ok


def test_replaced_outcomes_go_but_what_they_cost_was_paid(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        for n in range(6):
            lost = write_trace(writer, f"t{n}", outcome=Missing("infrastructure.network"), label="lost")
            write_trace(writer, f"other {n}", steps=2)
            writer.commit()
            write_trace(writer, f"t{n}", version="2", supersedes=lost, outcome=Scored(1.0), label="found")
            writer.commit()
    before, paid = contents(run), spent(run)
    assert len(before["traces"]) == 12
    compact(run)
    after = contents(home.run("run"))
    gone = {r["ref"] for r in before["texts"]} - {r["ref"] for r in after["texts"]}
    assert gone == set()
    assert after == before
    assert spent(run) == pytest.approx(paid)
    assert {label.why and run.texts.get(label.why, e.texts) for e in run.entries for label in run.labels()
            if label.trace_id == e.head.trace_id} == {"found"}  # fmt: skip
    assert len(run.segments()) == 1
    assert verify_run(run).ok
    rewrite(run)
    assert contents(run)["traces"] == before["traces"]
    assert spent(run) == pytest.approx(paid)
    assert (verify_run(run).ok, len(run.entries)) == (True, 12)


def test_one_episode_written_twice_is_still_one(home: Home, plain: Redactor, write_trace: Any) -> None:
    """A lost node's work was done again elsewhere, and both came through: the same trace in two segments."""
    run = home.create("run", "import")
    with run.writer(plain, window=None) as one, run.writer(plain, window=None) as two:
        for n in range(6):
            write_trace(one, f"t{n}", label="one")
            one.commit()
            write_trace(one, f"alone {n}")
            one.commit()
        write_trace(two, "t3", label="one")
        two.commit()
    before = contents(run)
    assert len(before["traces"]) == 12
    compact(run)
    assert contents(home.run("run")) == before
    assert len(run.segments()) == 3
    assert verify_run(run).ok


def test_later_scores_still_stand(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    made = fill(run, plain, write_trace)
    append_outcomes(run, {made[2]: Scored(0.0, "a second look")}, (), plain)
    fill(run, plain, write_trace, start=8)
    before = contents(run)
    assert compact(run).segments_after == 2
    assert contents(home.run("run")) == before
    assert next(e.head.outcome for e in run.entries if e.head.trace_id == made[2]) == Scored(0.0, "a second look")
    assert verify_run(run).ok


def test_sealed_texts_stay_sealed_and_lost_keys_keep_their_files(
    home: Home, keys: Keyring, plain: Redactor, write_trace: Any
) -> None:
    run = home.create("run", "import")
    fill(run, plain, write_trace, count=3)
    first = keys.new()
    fill(run, plain, write_trace, count=4, start=3)
    second = keys.new()
    fill(run, plain, write_trace, count=4, start=7)
    before = contents(run)
    compact(run)
    assert contents(home.run("run")) == before
    assert sorted(f.key or "" for f in run.standing.named("texts-")) == sorted(["", first, second])
    fill(run, plain, write_trace, count=5, start=11)
    keys.drop(first)
    compact(run)
    found = verify_run(home.run("run"))
    assert (found.damaged, found.sealed_away, found.episodes) == ([], 1, 16)


def test_it_goes_on_in_batches(home: Home, plain: Redactor, write_trace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys.modules["ethogram.store.compact"], "MERGED_BYTES", 60_000)
    run = home.create("run", "import")
    fill(run, plain, write_trace, count=24)
    before = contents(run)
    done = compact(run)
    assert 1 < done.segments_after < 12
    assert contents(home.run("run")) == before
    assert verify_run(run).ok


def test_retention_compacts_what_it_keeps(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    fill(run, plain, write_trace)
    assert retain_run(run, RetentionRule(keep_all_s=1e6)).bytes_after is None
    assert len(run.segments()) == 9
    done = retain(["run"], apply=True, home=home)
    (told,) = done.runs
    assert told.bytes_after is not None
    assert told.bytes_after < told.bytes_before / 2
    assert len(run.segments()) == 1


def test_a_run_is_rewritten_after_it_was_compacted(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    fill(run, plain, write_trace)
    before = contents(run)
    compact(run)
    rewrite(run)
    assert contents(run) == before
    assert verify_run(run).ok


class Crash(BaseException):
    """The power goes out."""


class Failing(LocalFiles):
    """A folder on a machine that dies during its n-th change; `full` makes it a full disk instead."""

    def __init__(self, root: Path, left: int, full: bool) -> None:
        super().__init__(root)
        self.left, self.full = left, full

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
def test_an_interruption_anywhere_changes_nothing_that_is_seen(
    tmp_path: Path, plain: Redactor, write_trace: Any, full: bool
) -> None:
    completed, left, segments = False, 0, set()
    made = Home(LocalFiles(tmp_path / "whole")).create("run", "import")
    fill(made, plain, write_trace, count=5)
    before = contents(made, "labels")
    while not completed:
        root = tmp_path / f"{left}"
        shutil.copytree(tmp_path / "whole", root)
        for again in (left, left + 3):  # cut off twice, at different moments
            run = Home(Failing(root, again, full)).run("run")
            try:
                compact(run)
                completed = completed or again == left
            except (Crash, EthogramError):
                pass
            run = Home(LocalFiles(root)).run("run")
            assert verify_run(run).damaged == [], (left, again)
            assert contents(run, "labels") == before, (left, again)
            segments.add(len(run.segments()))
            # this process lives on, so a lease that a crash left behind must be given up by hand
            for name in run.leases():
                run.files.delete(f"{run.path}/writers/{name}.json")
        compact(run)
        sweep(run)
        found = verify_run(run)
        assert (found.damaged, found.leftovers, found.episodes, len(run.segments())) == ([], [], 5, 1), left
        assert contents(run, "labels") == before
        left += 1 if left < 12 else 4  # first everything that is written, then what is removed
    assert left > 4
    assert segments == {1, 6}
