"""Writing: in groups, within the window, by many threads, spilled or not, through failures; never half a trace."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.errors import EthogramError, Locked
from ethogram.store import COMMIT_WINDOW, Home, Keyring, Lake, Limits, Policy, Redactor, Run, rewrite, sweep, verify_run
from ethogram.store.files import LocalFiles
from ethogram.traces import Message, Origin, Scored, Text, Trace

PLAIN = Redactor(b"k", Policy(kinds=()))


class Failing(LocalFiles):
    """A folder whose disk is full now and then: `refuse` says which paths cannot be written."""

    refuse = ""
    asked = 0

    def publish(self, path: str, data: bytes | memoryview) -> None:
        if self.refuse and self.refuse in path:
            self.asked += 1
            raise EthogramError(f"cannot write {path}: No space left on device; everything committed before is safe")
        super().publish(path, data)


def files_of(run: Run, start: str) -> list[Path]:
    return sorted(
        p for p in (Path(run.files.address) / run.path).rglob("*") if p.is_file() and p.name.startswith(start)
    )


def everything(trace: Trace) -> tuple[Any, ...]:
    """All that a trace holds, texts included."""
    return (trace.head, trace.spans, trace.steps, trace.totals, trace.messages, trace.answer, dict(trace.texts))


# -- the window ------------------------------------------------------------------------------------------------------


def test_a_finished_trace_is_seen_within_the_window_without_further_calls(home: Home, write_trace: Any) -> None:
    assert COMMIT_WINDOW == 0.5
    run = home.create("run", "import")
    with run.writer(PLAIN) as writer:
        begun = time.monotonic()
        write_trace(writer, "one")
        write_trace(writer, "two")
        done = time.monotonic()
        while len(home.run("run").entries) < 2:
            assert time.monotonic() - done < COMMIT_WINDOW + 20  # slack for a machine that does much else
            time.sleep(0.02)
        assert time.monotonic() - begun >= COMMIT_WINDOW  # it waited for company
        assert len(files_of(run, writer.name)) == 2  # the lease, and one ledger segment for both


def test_without_a_window_nothing_is_seen_before_the_commit(home: Home, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(PLAIN, window=None) as writer:
        write_trace(writer, "one")
        time.sleep(0.05)
        assert not home.run("run").entries
        writer.commit()
        assert len(home.run("run").entries) == 1
        write_trace(writer, "two")
    assert len(home.run("run").entries) == 2  # leaving commits


@pytest.mark.parametrize("limits", [Limits(group_spans=10), Limits(group_chars=2000)])
def test_a_full_group_is_committed_at_once(home: Home, write_trace: Any, limits: Limits) -> None:
    run = home.create("run", "import")
    with run.writer(PLAIN, window=None, limits=limits) as writer:
        write_trace(writer, "one", steps=6)
        assert len(home.run("run").entries) == 1


def test_half_a_character_is_mended_not_fatal(home: Home, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(PLAIN, window=None) as writer:
        write_trace(writer, "one", words="half \ud83d of a character", meta={"\ud83d": "\ud83d"})
    (trace,) = home.run("run").traces()
    assert "half \ufffd of a character" in trace.messages[1].text
    assert trace.head.meta == {"\ufffd": "\ufffd"}


def test_a_closed_writer_takes_nothing(home: Home, write_trace: Any) -> None:
    run = home.create("run", "import")
    writer = run.writer(PLAIN)
    writer.close()
    writer.close()
    with pytest.raises(EthogramError, match="writer of 'run' is closed"):
        write_trace(writer, "late")
    assert run.busy() == []
    assert verify_run(run).ok


# -- texts -----------------------------------------------------------------------------------------------------------


def stored(run: Run) -> list[str]:
    import pyarrow.parquet as pq

    return [b for file in files_of(run, "texts-") for b in pq.read_table(file).column("body").to_pylist()]


def test_a_text_is_stored_once_across_traces_and_segments(home: Home, write_trace: Any) -> None:
    run = home.create("run", "import")
    limits = Limits(spill_chars=3000)
    with run.writer(PLAIN, window=None, limits=limits) as writer:
        for n in range(4):
            write_trace(writer, f"same-{n}", words="the same words", steps=4)
            writer.commit()
        write_trace(writer, "long", words="other words", steps=20)  # spills
        writer.commit()
        write_trace(writer, "long-again", words="other words", steps=20)
    bodies = stored(run)
    assert len(bodies) == len(set(bodies))
    # a writer that comes later knows what the run holds: a log that grows is imported again and again
    with home.run("run").writer(PLAIN, window=None) as later:
        write_trace(later, "same-0", version="2", words="the same words", steps=5)
    again = stored(run)
    assert len(again) == len(set(again))
    assert 0 < len(again) - len(bodies) < 8
    assert verify_run(home.run("run")).ok
    assert all(len(t.messages) for t in home.run("run").traces())


def test_texts_of_traces_that_overlap_in_time_are_stored_once(home: Home, write_trace: Any) -> None:
    """Both buffer the same words before either is complete; the second finds them committed when it finishes."""
    run = home.create("run", "import")
    with run.writer(PLAIN, window=None) as writer:

        def inner() -> None:
            write_trace(writer, "inner", words="shared")
            writer.commit()

        write_trace(writer, "outer", words="shared", before_close=inner)
    bodies = stored(run)
    assert len(bodies) == len(set(bodies))
    assert verify_run(home.run("run")).ok
    inner_trace, outer_trace = home.run("run").traces()
    assert inner_trace.messages == outer_trace.messages


def test_texts_are_not_lost_when_another_trace_aborts(home: Home, write_trace: Any) -> None:
    """What a complete trace refers to never depends on one that may still be given up."""
    run = home.create("run", "import")
    with run.writer(PLAIN, window=None, limits=Limits(spill_chars=500)) as writer:

        def inner() -> None:
            write_trace(writer, "kept", words="shared")
            raise KeyError("the reader gives up")

        with pytest.raises(KeyError):
            write_trace(writer, "given-up", words="shared", before_close=inner, steps=5)
    run = home.run("run")
    (trace,) = run.traces()
    assert "shared" in trace.messages[1].text
    found = verify_run(run)
    assert (found.ok, found.leftovers) == (True, [])


def test_texts_under_another_key_are_stored_again(home: Home, keys: Keyring, write_trace: Any) -> None:
    """A text that only an old key opens would go with that key."""
    run = home.create("run", "import")
    with run.writer(PLAIN, window=None) as writer:
        write_trace(writer, "open", words="same")
    keys.new()
    with home.run("run").writer(PLAIN, window=None) as writer:
        write_trace(writer, "sealed", words="same")
    entry = home.run("run").find(home.run("run").entries[1].head.trace_id)
    by_name = {f.name: f for f in home.run("run").standing.files}
    assert entry.texts
    assert all(by_name[name].key for name in entry.texts)


def test_what_was_redacted_is_told_by_length_and_mark(home: Home, write_trace: Any) -> None:
    run = home.create("run", "import")
    redactor = home.redactor(Policy())
    with run.writer(redactor, window=None) as writer:
        write_trace(writer, "a", words="write to ada.lovelace@example.org today", steps=1)
        assert writer.redactions["email"] > 3
    rows = Lake([home.run("run")]).sql("SELECT * FROM texts WHERE body LIKE '%REDACTED:email%'").to_pylist()
    assert rows
    assert all(r["chars"] < len(r["body"]) and r["mark"] for r in rows)
    # a message whose tool result stands apart is marked too: it is not what the log said either
    untouched = "SELECT * FROM texts WHERE body NOT LIKE '%REDACTED:%' AND body NOT LIKE '%tool_result_ref%'"
    clean = Lake([home.run("run")]).sql(untouched).to_pylist()
    assert clean
    assert all(r["chars"] == len(r["body"]) and r["mark"] is None for r in clean)


# -- spilling --------------------------------------------------------------------------------------------------------

shapes = st.lists(
    st.tuples(
        st.sampled_from(["model", "tool", "agent", "user"]),
        st.none() | st.integers(0, 30),
        st.none() | st.integers(1, 50),
        st.text("abc ", max_size=30),
        st.none() | st.integers(0, 2**40),
        st.none() | st.floats(0, 10),
    ),
    min_size=1,
    max_size=30,
)


def write_shape(writer: Any, key: str, shape: list[tuple[Any, ...]]) -> None:
    intake = Intake(writer.trace, Origin("test", key, "1"), SourceReport(source=key))
    with intake.trace(key) as trace:
        trace.outcome, trace.answer = Scored(0.25), "answer"
        talk: list[Message] = []
        for n, (kind, parent, start, words, tokens, cost) in enumerate(shape):
            talk.append(Message("user", (Text(words),)))
            trace.add(
                Draft(
                    kind=kind,
                    name=kind,
                    parent_id=None if parent is None or parent == n else f"s{parent}",
                    start_ns=start,
                    status="error" if n % 4 == 0 else "ok",
                    params={"n": n, "huge": 2**70},
                    input=talk[-5:] if kind == "model" else (),
                    output=(Message("assistant", (Text(words[::-1]),)),),
                    result=words * 3,
                    attributes={"words": words},
                    input_tokens=tokens,
                    cost_usd=cost,
                )
            )


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=shapes, spans=st.integers(1, 6), chars=st.integers(1, 60))
def test_a_spilled_trace_is_the_same_trace(tmp_path: Path, shape: Any, spans: int, chars: int) -> None:
    home = Home(LocalFiles(Path(tempfile.mkdtemp(dir=tmp_path))))
    made = {}
    for name, limits in (("whole", Limits()), ("spilled", Limits(spill_spans=spans, spill_chars=chars))):
        run = home.create(name, "import")
        with run.writer(PLAIN, window=None, limits=limits) as writer:
            write_shape(writer, "same", shape)
        made[name] = home.run(name)
    whole, spilled = (next(run.traces()) for run in made.values())
    assert everything(spilled) == everything(whole)
    assert made["spilled"].entries[0].totals == made["whole"].entries[0].totals == whole.totals
    columns = [Lake([run]).columns("span_id", "step").sort_by("span_id").to_pylist() for run in made.values()]
    assert columns[0] == columns[1]
    assert len(made["spilled"].entries[0].spans) == -(-len(shape) // spans) or len(shape) < spans
    assert verify_run(made["spilled"]).damaged == []


def test_giving_up_a_spilled_trace_leaves_nothing(home: Home, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(PLAIN, window=None, limits=Limits(spill_spans=2, spill_chars=100)) as writer:
        seen = []

        def give_up() -> None:
            seen.extend(files_of(run, "texts-"))
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            write_trace(writer, "one", steps=10, before_close=give_up)
        assert seen  # parts were out already
        assert files_of(run, "texts-") == files_of(run, "spans-") == []
    run = home.run("run")
    assert run.entries == ()
    assert Lake([run]).columns("kind").num_rows == 0
    assert verify_run(run).ok


def test_no_room_for_a_large_trace(home: Home, write_trace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = home.create("run", "import")
    with run.writer(PLAIN, window=None, limits=Limits(spill_spans=2)) as writer:
        write_trace(writer, "fits", steps=0)
        monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
        with pytest.raises(EthogramError, match=r"cannot keep a large trace in .*TMPDIR"):
            write_trace(writer, "large", steps=10)
    monkeypatch.undo()
    assert len(home.run("run").entries) == 1
    assert verify_run(home.run("run")).ok


# -- threads ---------------------------------------------------------------------------------------------------------


def test_eight_threads_share_a_writer(home: Home, write_trace: Any) -> None:
    run = home.create("run", "import")
    failures: list[BaseException] = []
    limits = Limits(group_spans=40, spill_spans=25, spill_chars=4000)
    with run.writer(PLAIN, window=0.05, limits=limits) as writer:

        def work(worker: int) -> None:
            try:
                for n in range(12):
                    write_trace(writer, f"{worker}-{n}", words=f"words {n}", steps=(worker + n) % 7, label=f"label {n}")
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(w,), daemon=True) for w in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
    assert failures == []
    run = home.run("run")
    assert len(run.entries) == 96
    found = verify_run(run)
    assert (found.damaged, found.leftovers) == ([], [])
    assert sum(1 for _ in run.labels()) == 96
    bodies = stored(run)
    assert len(bodies) - len(set(bodies)) <= 40  # only texts of spills that ran at the same moment may stand twice
    for trace in run.traces():
        assert len(trace.spans) == trace.totals.spans
        assert trace.totals == run.find(trace.head.trace_id).totals
        assert trace.answer is not None


# -- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["texts-", "spans-", "labels/", "ledger/"])
def test_a_commit_that_fails_is_told_and_tried_again(tmp_path: Path, write_trace: Any, part: str) -> None:
    files = Failing(tmp_path)
    run = Home(files).create("run", "import")
    writer = run.writer(PLAIN, window=None)
    write_trace(writer, "before", label="x")
    writer.commit()
    files.refuse = part
    write_trace(writer, "during", label="x")
    with pytest.raises(EthogramError, match="No space left on device; everything committed before is safe"):
        writer.commit()
    assert verify_run(Home(files).run("run")).ok
    assert [e.head.origin.name for e in Home(files).run("run").entries] == ["before"]  # type: ignore[union-attr]
    with pytest.raises(EthogramError, match="No space left"):
        write_trace(writer, "meanwhile", label="x")
    files.refuse = ""
    write_trace(writer, "after", label="x")
    writer.close()
    found = verify_run(Home(files).run("run"))
    assert (found.damaged, found.leftovers, found.episodes) == ([], [], 4)
    assert len(list(Home(files).run("run").labels())) == 4


def test_a_late_commit_that_fails_is_heard_of_by_the_next_caller(tmp_path: Path, write_trace: Any) -> None:
    files = Failing(tmp_path)
    run = Home(files).create("run", "import")
    writer = run.writer(PLAIN, window=0.02)
    files.refuse = "ledger/"
    write_trace(writer, "one")
    until = time.monotonic() + 30
    while files.asked == 0 and time.monotonic() < until:
        time.sleep(0.01)
    assert files.asked
    with pytest.raises(EthogramError, match="No space left"):
        write_trace(writer, "two")
    files.refuse = ""
    until = time.monotonic() + 30
    while len(Home(files).run("run").entries) < 2 and time.monotonic() < until:
        time.sleep(0.02)  # nobody calls: the window goes on trying
    assert len(Home(files).run("run").entries) == 2
    writer.close()


def test_closing_after_a_failure_gives_the_lease_up(tmp_path: Path, write_trace: Any) -> None:
    files = Failing(tmp_path)
    run = Home(files).create("run", "import")
    writer = run.writer(PLAIN, window=None)
    write_trace(writer, "one")
    files.refuse = "spans-"
    with pytest.raises(EthogramError, match="No space left"):
        writer.close()
    assert run.busy() == []
    files.refuse = ""
    assert verify_run(run).ok
    assert [p.split("-")[0] for p in sweep(run)] == ["texts"]


# -- leases ----------------------------------------------------------------------------------------------------------


def test_a_writer_and_a_rewriter_exclude_each_other(home: Home, write_trace: Any) -> None:
    from ethogram.store import lease

    run = home.create("run", "import")
    with run.writer(PLAIN, window=None) as writer:
        write_trace(writer, "one")
        writer.commit()
        with pytest.raises(Locked, match=r"is being written by 1 writer\(s\)"):
            rewrite(run)
        with run.writer(PLAIN):  # writers do not mind each other
            assert len(run.busy()) == 2
    lease.take(run.files, run.path, "r0", alone=True)
    with pytest.raises(Locked, match="is being rewritten"):
        run.writer(PLAIN)
    with pytest.raises(Locked, match="is being rewritten"):
        rewrite(run)
    assert run.busy() == ["r0"]  # those who were refused left no lease
    lease.release_lease(run.files, run.path, "r0")
    rewrite(run)
    assert verify_run(run).ok


def test_a_lease_of_a_process_that_is_gone_counts_for_nothing(home: Home) -> None:
    from ethogram.store.lease import BELIEVED_NS, Lease, is_alive, leases, renew

    run = home.create("run", "import")
    mine = renew(run.files, run.path, "me")
    assert is_alive(mine)
    assert leases(run.files, run.path) == {"me": mine}
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    until = time.monotonic() + 60
    while not (stat := Path(f"/proc/{gone}/stat")).exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until, "it never ended"
        time.sleep(0.01)
    assert not is_alive(Lease(gone, mine.boot, mine.born, mine.seen_ns))  # ended, though nobody has buried it yet
    os.waitpid(gone, 0)
    assert not is_alive(Lease(gone, mine.boot, mine.born, mine.seen_ns))
    assert not is_alive(Lease(mine.pid, mine.boot, "0", mine.seen_ns))  # the same id, given again
    assert is_alive(Lease(1, "elsewhere", "0", mine.seen_ns))  # another machine is believed
    assert not is_alive(Lease(1, "elsewhere", "0", mine.seen_ns - BELIEVED_NS))  # for a day


def test_notes_are_committed_with_their_group(home: Home, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(PLAIN, window=None) as writer:
        writer.note("sources", [b'{"a":1}', b'{"b":2}'])
        assert list(home.run("run").notes("sources")) == []
        writer.commit()
        writer.note("sources", [b'{"c":3}'])
    assert [line for _, line in home.run("run").notes("sources")] == [b'{"a":1}', b'{"b":2}', b'{"c":3}']
    assert verify_run(home.run("run")).ok


def test_what_is_expected_is_redacted_as_if_it_came_alone(home: Home) -> None:
    values = [f"value {i}" for i in range(50)]
    values[7], values[31] = "mail joe@example.org", "password = Hunter2!hunter"
    redactor = Redactor(b"a key")
    with home.create("r", "import").writer(redactor) as writer:
        writer.expect(values)
        assert [writer.clean(v, "input") for v in values] == [redactor.redact(v, "input").text for v in values]
        assert writer.redactions == {"email": 1, "password": 1}
