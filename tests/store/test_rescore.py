"""Revisions: a committed trace gets a new outcome and new labels, and everything else stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ethogram.errors import Locked, Sealed
from ethogram.store import Home, Keyring, Lake, Policy, Redactor, RetentionRule, retain_run, rewrite, sweep, verify_run
from ethogram.store.entry import Header, Revision
from ethogram.store.lease import release_lease, take
from ethogram.store.ledger_file import decode_segment, encode_segment, unpack
from ethogram.store.rescore import append_outcomes
from ethogram.traces import Label, Missing, Ref, Scored, TraceId

Write = Callable[..., TraceId]


def label(trace: TraceId, value: float, why: str | None = None) -> Label:
    return Label(trace_id=trace, name="grade", value=value, by="me", source="hand", why=Ref(why) if why else None)


def test_a_revision_survives_its_bytes() -> None:
    header = Header(schema_version=1, writer="s1", number=0, committed_ns=5)
    revisions = (
        Revision(trace_id=TraceId("t"), at_ns=1, outcome=Scored(0.5, "x"), texts=("texts-a.parquet",)),
        Revision(trace_id=TraceId("u"), at_ns=1, outcome=Missing("unscored", "why")),
        Revision(trace_id=TraceId("v"), at_ns=1),
    )
    read = decode_segment(*encode_segment(header, (), revisions))
    assert read.revisions == revisions
    assert read.entries == ()


def test_the_newest_outcome_counts_and_spans_count_once(home: Home, plain: Redactor, write_trace: Write) -> None:
    run = home.create("r", "run")
    with run.writer(plain) as writer:
        one, two = write_trace(writer, "one"), write_trace(writer, "two", label="old words")
    spans = Lake([run]).sql("SELECT count(*) AS n FROM spans").to_pylist()
    append_outcomes(run, {one: Scored(0.0, "first")}, [], plain)
    append_outcomes(run, {one: Scored(0.25, "second")}, [label(one, 0.25, "new words"), label(two, 1.0)], plain)
    by_id = {e.head.trace_id: e for e in run.entries}
    assert by_id[one].head.outcome == Scored(0.25, "second")
    assert by_id[two].head.outcome == Scored(1.0, "test")
    assert Lake([run]).sql("SELECT count(*) AS n FROM spans").to_pylist() == spans
    trace = run.trace(by_id[one])
    assert [(x.name, x.value, trace.text(x.why or Ref(""))) for x in trace.labels] == [("grade", 0.25, "new words")]
    assert trace.labels[0].at_ns is not None
    told = run.trace(by_id[two])
    assert [x.name for x in told.labels] == ["quality", "grade"]
    assert verify_run(run).ok
    assert verify_run(run).episodes == 2
    assert sweep(run) == []


def test_what_is_said_later_is_redacted_too(home: Home, write_trace: Write) -> None:
    redactor = home.redactor(Policy())
    run = home.create("r", "run")
    with run.writer(redactor) as writer:
        one = write_trace(writer, "one")
    append_outcomes(run, {}, [label(one, 1.0, "he wrote to joe@example.org")], redactor)
    trace = run.trace(run.entries[0])
    assert trace.text(trace.labels[0].why or Ref("")).startswith("he wrote to [REDACTED:email:")
    assert run.entries[0].head.outcome == Scored(1.0, "test"), "no new outcome, so the old one stands"


def test_a_rewrite_folds_revisions_in(home: Home, plain: Redactor, write_trace: Write) -> None:
    run = home.create("r", "run")
    with run.writer(plain) as writer:
        one, two = write_trace(writer, "one"), write_trace(writer, "two")
    append_outcomes(run, {one: Scored(0.0, "x")}, [label(one, 0.0, "words")], plain)
    rewrite(run)
    assert len(run.segments()) == 1
    assert run.segments()[0].revisions == ()
    by_id = {e.head.trace_id: e for e in run.entries}
    assert by_id[one].head.outcome == Scored(0.0, "x")
    assert by_id[two].head.outcome == Scored(1.0, "test")
    trace = run.trace(by_id[one])
    assert trace.text(trace.labels[0].why or Ref("")) == "words"
    assert verify_run(run).ok
    forgotten = retain_run(run, RetentionRule(keep_all_s=0.0), dry_run=False).forgotten
    assert [d.trace_id for d in forgotten] == [two], "the new outcome is a failure, and failures are kept"
    append_outcomes(run, {two: Scored(0.5, "late")}, [label(two, 0.5, "words for a forgotten trace")], plain)
    assert next(e for e in run.entries if e.head.trace_id == two).head.outcome == Scored(0.5, "late")
    assert verify_run(run).ok


def test_a_superseded_trace_takes_its_revision_with_it(home: Home, plain: Redactor, write_trace: Write) -> None:
    run = home.create("r", "import")
    with run.writer(plain) as writer:
        old = write_trace(writer, "one")
    append_outcomes(run, {old: Scored(0.0, "x")}, [label(old, 0.0)], plain)
    with run.writer(plain) as writer:
        new = write_trace(writer, "one", version="2", supersedes=old)
    run.forget_cache()
    assert [(e.head.trace_id, e.head.outcome) for e in run.entries] == [(new, Scored(1.0, "test"))]
    assert list(run.labels()) == []
    assert verify_run(run).ok


def test_a_sealed_run_stays_sealed(home: Home, keys: Keyring, plain: Redactor, write_trace: Write) -> None:
    key = keys.new()
    run = home.create("r", "run")
    with run.writer(plain) as writer:
        one = write_trace(writer, "one")
    append_outcomes(run, {one: Scored(0.0, "x")}, [label(one, 0.0, "sealed words")], plain)
    assert all(f.key == key for f in run.standing.named("texts-"))
    root = Path(home.files.address) / run.path
    assert not any(b"sealed words" in unpack(p.name, p.read_bytes()) for p in root.rglob("*") if p.is_file())
    keys.drop(key)
    with pytest.raises(Sealed):
        append_outcomes(run, {one: Scored(1.0, "x")}, [label(one, 1.0, "more words")], plain)
    run.forget_cache()
    assert run.entries[0].head.outcome == Scored(0.0, "x")
    assert run.busy() == []


def test_nothing_is_added_while_a_run_is_rewritten(home: Home, plain: Redactor, write_trace: Write) -> None:
    run = home.create("r", "run")
    with run.writer(plain) as writer:
        one = write_trace(writer, "one")
    take(run.files, run.path, "rewriter", alone=True)
    with pytest.raises(Locked):
        append_outcomes(run, {one: Scored(0.0, "x")}, [], plain)
    release_lease(run.files, run.path, "rewriter")
    append_outcomes(run, {}, [], plain)
    assert len(run.segments()) == 1
