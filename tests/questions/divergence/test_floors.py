"""The floor that is kept with a run: reused while it fits, computed anew where not, gone with the traces."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from ethogram.measures.divergence import distances
from ethogram.measures.noise_floor import NoiseFloor
from ethogram.questions.divergence.floors import FloorRecord, floor_of, kept_floor, own_distances
from ethogram.questions.divergence.question import divergence
from ethogram.questions.divergence.step_sequences import ReadingOptions, by_version, listed, load_readings
from ethogram.questions.home.runs import load, rm
from ethogram.statistics.distance import Alphabet
from ethogram.store import DERIVED, Home, Redactor, RetentionRule, Run, retain_run, verify_run
from ethogram.traces import Head, Scored, Span, SpanId, episode_id, trace_id
from ethogram.traces.ids import digest

PATHS = [["a", "b", "c"], ["a", "b"], ["a", "c", "c", "b"], ["b"]]


@pytest.fixture
def fill(home: Home, plain: Redactor) -> Callable[..., Run]:
    def write(name: str, attempts: range, tasks: int = 3) -> Run:
        run = home.create(name, "import") if name not in home.names() else home.run(name)
        with run.writer(plain, window=None) as writer:
            for task in range(tasks):
                for attempt in attempts:
                    trace, path = trace_id(name, str(task), str(attempt)), PATHS[(task + attempt) % len(PATHS)]
                    sink = writer.trace(trace)
                    for i, tool in enumerate(path):
                        sink.span(Span(trace_id=trace, span_id=SpanId(f"s{i}"), seq=i, kind="tool", name=tool))
                    head = Head(
                        trace_id=trace,
                        episode=episode_id(name, str(task), str(attempt)),
                        task=f"t{task}",
                        attempt=attempt,
                        outcome=Scored(1.0, "test"),
                    )
                    sink.finish(head, ())
        return home.run(name)

    return write


def own_floor(run: Run, how: ReadingOptions | None = None) -> NoiseFloor:
    """What repeats of a run differ by: from its record, else computed and kept."""
    how = how or ReadingOptions()
    groups = [g for episodes in load_readings(run, how).tasks.values() for g in by_version(episodes)]
    return floor_of(groups, own_distances(run, groups, how))


def records(run: Run) -> list[str]:
    return run.files.names(f"{run.path}/{DERIVED}")


def read(run: Run) -> FloorRecord:
    (name,) = records(run)
    return msgspec.json.decode(run.files.read(f"{run.path}/{DERIVED}/{name}"), type=FloorRecord)


def write_back(run: Run, record: FloorRecord) -> None:
    (name,) = records(run)
    run.files.publish(f"{run.path}/{DERIVED}/{name}", msgspec.json.encode(record))


def test_a_record_says_what_it_was_computed_from(home: Home, fill: Callable[..., Run]) -> None:
    run = fill("base", range(4))
    found = own_floor(load("base", home=home))
    record = read(run)
    assert record.noise_floor == found
    assert (record.reading, record.signature, record.by_lane) == ("steps", "structural", True)
    assert {t for r in record.repeats for t in r.traces} == {e.head.trace_id for e in run.entries}
    assert [len(r.d_norm) for r in record.repeats] == [6, 6, 6]
    groups = [g for v in load_readings(run, ReadingOptions()).tasks.values() for g in by_version(v)]
    for square, group in zip(own_distances(run, groups, ReadingOptions()), groups, strict=True):
        readings = [e.reading for e in group]
        assert np.array_equal(square, distances(readings, readings, Alphabet()).d_norm)


def test_the_gate_and_divergence_use_the_record(home: Home, fill: Callable[..., Run]) -> None:
    run = fill("base", range(4))
    fill("cand", range(4))
    truth = divergence("cand", "base", draws=99, home=home)
    record = read(run)  # as if every repeat had been as far apart as can be
    far = [msgspec.structs.replace(r, d_norm=[1.0] * 6) for r in record.repeats]
    changed = msgspec.structs.replace(record, repeats=far, digest="")
    write_back(run, msgspec.structs.replace(changed, digest=digest(msgspec.json.encode(changed))))
    assert divergence("cand", "base", draws=99, home=home).noise_floor.mean == 1.0
    write_back(run, changed)  # a record that does not match its digest is not believed
    assert divergence("cand", "base", draws=99, home=home).noise_floor == truth.noise_floor
    assert read(run) == record  # and is replaced
    run.files.publish(f"{run.path}/{DERIVED}/{records(run)[0]}", b'{"version": 1, "rep')
    assert divergence("cand", "base", draws=99, home=home).noise_floor == truth.noise_floor


def test_other_traces_and_other_rules_have_records_of_their_own(home: Home, fill: Callable[..., Run]) -> None:
    run = fill("base", range(3))
    before = own_floor(run)
    assert len(records(run)) == 1
    own_floor(run, ReadingOptions(signature="kind"))
    assert len(records(run)) == 2
    own_floor(run, ReadingOptions(signature=lambda span: span.name))
    assert len(records(run)) == 2  # code of one's own may change under the same name
    run = fill("base", range(3, 6))
    after = own_floor(run)
    assert len(records(run)) == 3
    assert (before.pairs, after.pairs) == (9, 45)


def test_a_run_that_grows_keeps_no_record(home: Home, plain: Redactor, fill: Callable[..., Run]) -> None:
    run = fill("base", range(3))
    with run.writer(plain, window=None):
        assert own_floor(run).measured
        assert records(run) == []


def test_verify_retention_and_removal(home: Home, fill: Callable[..., Run]) -> None:
    run = fill("base", range(4))
    own_floor(run)
    checked = verify_run(run)
    assert checked.ok
    assert checked.leftovers == []
    retain_run(run, RetentionRule(keep_all_s=0.0, keep_failures=False, sample=0.5), dry_run=False)
    assert records(run) == []
    own_floor(home.run("base"))
    assert len(records(run)) == 1
    rm("base", home=home)
    assert not run.files.exists(f"{run.path}/{DERIVED}")


def test_what_cannot_be_written_is_not_kept(home: Home, fill: Callable[..., Run]) -> None:
    run = fill("base", range(3))
    run.files.publish(f"{run.path}/{DERIVED}", b"no folder")
    assert own_floor(run).measured
    assert run.files.read(f"{run.path}/{DERIVED}") == b"no folder"


def test_a_record_is_found_without_reading_traces(home: Home, fill: Callable[..., Run]) -> None:
    run = fill("base", range(4))
    want = own_floor(run)
    for name in run.files.names(run.path):
        if name.startswith("spans-"):
            run.files.delete(f"{run.path}/{name}")
    groups = [g for v in listed(home.run("base")).tasks.values() for g in by_version(v)]
    record = kept_floor(load("base", home=home), groups, ReadingOptions())
    assert record is not None
    assert record.noise_floor == want
