"""The ledger: an episode exists if a segment names it, and damage never passes for content."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.errors import BadInput, Damaged
from ethogram.store import Home, Lake
from ethogram.store.entry import DataFile, Entry, Header, Place, Segment
from ethogram.store.files import LocalFiles
from ethogram.store.ledger import in_force, read_segments, standing
from ethogram.store.ledger_columns import encode_columns as encode_columns
from ethogram.store.ledger_file import MANY, SCHEMA_VERSION, decode_places, decode_segment, encode_segment, unpack
from ethogram.traces import Head, Missing, Origin, Scored, Totals

WORDS = st.text(max_size=40).filter(lambda t: t.isprintable() or "\n" in t or "\u2028" in t)


def head(trace: Any, episode: Any, **more: Any) -> Head:
    return Head(trace_id=trace, episode=episode, task="t", **more)


def entry(trace: str, episode: str, **more: Any) -> Entry:
    return Entry(head=head(trace, episode), totals=Totals(), at_ns=1, **more)


def segment(
    name: str, *entries: Entry, at: int = 0, files: tuple[str, ...] = (), replaces: tuple[str, ...] = ()
) -> Segment:
    listed = tuple(DataFile(f, 1, 1, "b2:0") for f in files)
    header = Header(
        schema_version=SCHEMA_VERSION, writer=name, number=0, committed_ns=at, files=listed, replaces=replaces
    )
    return Segment(name, header, entries)


entries = st.builds(
    lambda trace, task, seed, value, meta, rows: Entry(
        head=head(
            trace,
            trace,
            seed=seed,
            condition=task,
            outcome=Missing("unscored", task) if value is None else Scored(value, task),
            meta=meta,
            origin=Origin("f", task, "d"),
        ),
        totals=Totals(spans=rows, cost_usd=value),
        at_ns=rows,
        spans=(Place("spans-x.parquet", rows, rows),),
        texts=("texts-x.parquet",),
        supersedes=task or None,
    ),
    WORDS,
    WORDS,
    st.none() | st.integers(-(2**70), 2**70),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
    st.dictionaries(WORDS, st.none() | st.booleans() | st.integers() | WORDS, max_size=3),
    st.integers(0, 2**40),
)


@settings(deadline=None, max_examples=40)
@given(st.lists(entries, max_size=4))
def test_a_segment_survives_the_round_trip(many: list[Entry]) -> None:
    header = Header(
        schema_version=SCHEMA_VERSION,
        writer="w",
        number=3,
        committed_ns=5,
        files=(DataFile("spans-w-000003.parquet", 1, 2, "b2:00", "k-1"),),
        replaces=("a-000000.jsonl",),
    )
    name, data = encode_segment(header, many)
    assert decode_segment(name, data) == Segment(name, header, tuple(many))
    assert unpack(name, data).count(b"\n") == len(many) + 1  # one line each, whatever is in the words


def hashed(number: int) -> str:
    return f"b2:{number:032x}"


def columnar(count: int, **changed: Any) -> list[Entry]:
    """Entries as runs have them: with every field set in some of them."""
    made = []
    for n in range(count):
        full = n % 3 == 0
        more: dict[str, Any] = {"answer": hashed(n), "start_ns": n, "end_ns": 2 * n} if full else {}
        known = Head(
            trace_id=hashed(n),  # type: ignore[arg-type]
            episode=hashed(n + count),  # type: ignore[arg-type]
            task=f"task {n % 7}",
            attempt=n // 7,
            condition="c" if full else "",
            seed=2**64 - 1 - n if full else None,
            outcome=Missing("killed") if n % 5 == 0 else Scored(n / 3, "by" if full else ""),
            meta={"n": n, "x": 0.1, "s": "words", "none": None} if full else {},
            origin=Origin("f", "name") if full else None,
            words={"detail": hashed(n)} if full else {},  # type: ignore[dict-item]
            **more,
        )
        totals = Totals(spans=n, errors=1, input_tokens=n if full else None, cost_usd=0.1 * n if full else None)
        made.append(
            Entry(
                head=known,
                totals=totals,
                at_ns=n,
                spans=() if n % 4 == 0 else (Place("spans-x.parquet", 10 * n, n),),
                texts=("texts-x.parquet", "texts-y.parquet") if full else (),
                supersedes=hashed(n + 9) if full else None,  # type: ignore[arg-type]
                forgotten="too old" if n % 4 == 0 else None,
            )
        )
    return [msgspec.structs.replace(e, **changed) if n == 1 else e for n, e in enumerate(made)]


def test_many_entries_are_columns_and_read_back_the_same() -> None:
    header = Header(schema_version=SCHEMA_VERSION, writer="w", number=3, committed_ns=5, replaces=("a-000000.jsonl",))
    many = columnar(MANY)
    name, data = encode_segment(header, many)
    assert name.endswith(".parquet")
    assert decode_segment(name, data) == Segment(name, header, tuple(many))
    placed = [(e.head.trace_id, e.head.episode, e.spans, e.supersedes) for e in decode_places(name, data).entries]
    assert placed == [(e.head.trace_id, e.head.episode, e.spans, e.supersedes) for e in many]
    lines = encode_segment(header, many[:-1])
    assert lines[0].endswith(".jsonl.zst")
    assert len(data) < len(lines[1])


@pytest.mark.parametrize(
    "changed",
    [
        {"head": head("t1", hashed(1))},
        {"head": head(hashed(1), hashed(2), seed=-1)},
        {"head": head(hashed(1), hashed(2), attempt=2**70)},
        {"head": head(hashed(1), hashed(2), outcome=Missing("killed", "with words"))},
        {"head": head(hashed(1).replace("0", "A"), hashed(2))},
        {"spans": (Place("a", 0, 1), Place("b", 0, 1))},
        {"spans": (Place("a", 0, 7),)},
        {"supersedes": "b2:short"},
    ],
    ids=str,
)
def test_what_no_column_holds_is_written_as_lines(changed: dict[str, Any]) -> None:
    header = Header(schema_version=SCHEMA_VERSION, writer="w", number=0, committed_ns=5)
    assert encode_columns(msgspec.json.encode(header), columnar(4, **changed)) is None
    many = columnar(MANY, **changed)
    name, data = encode_segment(header, many)
    assert name.endswith(".jsonl.zst")
    assert decode_segment(name, data).entries == tuple(many)


def test_every_flipped_byte_and_every_cut_is_found() -> None:
    header = Header(schema_version=SCHEMA_VERSION, writer="w", number=0, committed_ns=5)
    name, data = encode_segment(header, [entry("t1", "e1"), entry("t2", "e2")])
    for at in range(len(data)):
        for flip in (0x01, 0x20, 0x80):
            bad = data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]
            with pytest.raises(Damaged, match=r"ledger segment w-000000-\w+\.jsonl\.zst"):
                decode_segment(name, bad)
    for bad in (*(data[:end] for end in range(len(data))), data + b"\n", data + data):
        with pytest.raises(Damaged):
            decode_segment(name, bad)


def test_every_flipped_byte_of_an_earlier_version_is_found() -> None:
    path = next((Path(__file__).parent / "old_home/runs/sealed/ledger").iterdir())
    data = path.read_bytes()
    for at in range(0, len(data), 3):
        bad = data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :]
        with pytest.raises(Damaged, match=r"ledger segment \w+-000000\.jsonl"):
            decode_segment(path.name, bad)
    for bad in (*(data[:end] for end in range(0, len(data), 5)), data + b"\n", data + data):
        with pytest.raises(Damaged):
            decode_segment(path.name, bad)


def test_a_segment_of_a_later_version_is_refused_in_one_sentence() -> None:
    name, data = encode_segment(Header(schema_version=99, writer="w", number=0, committed_ns=5), [])
    with pytest.raises(BadInput, match=r"schema version 99 .* upgrade Ethogram"):
        decode_segment(name, data)


def test_replaced_segments_do_not_count() -> None:
    old = [segment("a", entry("t1", "e1"), at=1), segment("b", entry("t2", "e2"), at=2)]
    new = segment("r", entry("t1", "e1"), at=2, replaces=("a", "b"))
    late = segment("c", entry("t3", "e3"), at=3)
    assert in_force([late, *old, new]) == [new, late]
    # a second rewrite names what the first one did not get to remove, so the order of removal does not matter
    newer = segment("s", entry("t1", "e1"), at=3, replaces=("a", "b", "r"))
    assert in_force([*old, newer]) == [newer]


def test_the_first_of_an_episode_counts() -> None:
    a = segment("a", entry("t1", "e1", spans=(Place("spans-a", 0, 1),)), at=1, files=("spans-a", "labels/a"))
    b = segment("b", entry("t1", "e1", spans=(Place("spans-b", 0, 1),)), at=2, files=("spans-b", "labels/b"))
    found = standing(in_force([b, a]))
    assert [e.spans[0].file for e in found.live] == ["spans-a"]
    assert set(found.dead) == {("spans-b", "t1"), ("labels/b", "t1")}
    assert [f.name for f in found.named("labels/")] == ["labels/a", "labels/b"]


def test_a_grown_log_supersedes_and_may_be_superseded() -> None:
    chain = [
        segment("a", entry("t1", "e1"), at=1),
        segment("b", entry("t2", "e1", supersedes="t1"), at=2),
        segment("c", entry("t3", "e1", supersedes="t2"), at=3),
    ]
    assert [e.head.trace_id for e in standing(in_force(chain)).live] == ["t3"]
    assert [e.head.trace_id for e in standing(in_force(chain[:2])).live] == ["t2"]
    both = [*chain[:2], segment("d", entry("t2", "e1", supersedes="t1"), at=4)]
    assert len(standing(in_force(both)).live) == 1
    alone = [segment("x", entry("t1", "e1", supersedes="t1"), at=1)]
    assert len(standing(alone).live) == 1  # a trace cannot do away with itself


def test_two_writers_of_one_episode(home: Home, plain: Any, write_trace: Any) -> None:
    """The first counts; spans, labels and texts of the other are seen nowhere."""
    run = home.create("run", "import")
    with run.writer(plain, window=None) as a, run.writer(plain, window=None) as b:
        first = write_trace(a, "one", words="of the first writer", label="why the first", steps=2)
        second = write_trace(b, "one", words="of the second writer", label="why the second", steps=3)
        write_trace(b, "two", steps=1)
        a.commit()
        b.commit()
    assert first == second
    run = home.run("run")
    assert len(run.entries) == 2
    traces = {t.head.trace_id: t for t in run.traces()}
    assert len(traces[first].spans) == 5
    assert "of the first writer" in (traces[first].answer or "")
    assert [traces[first].text(x.why) for x in traces[first].labels if x.why] == ["why the first"]
    lake = Lake([run])
    assert lake.sql("SELECT count(*) AS n FROM spans").to_pylist() == [{"n": 5 + 3}]
    assert sum(b.num_rows for b in lake.spans(["kind"])) == 8
    assert lake.columns("trace_id").num_rows == 8
    assert lake.sql("SELECT count(*) AS n FROM labels").to_pylist() == [{"n": 1}]
    assert lake.sql("SELECT count(*) AS n FROM episodes").to_pylist() == [{"n": 2}]


def test_one_writer_repeats_itself(home: Home, plain: Any, write_trace: Any) -> None:
    """The same trace twice in one group: rows of one trace in one file could not be told apart."""
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        write_trace(writer, "one", steps=2)
        write_trace(writer, "one", steps=4)
        write_trace(writer, "other", steps=1)
    run = home.run("run")
    assert [len(t.spans) for t in run.traces()] == [5, 3]
    assert Lake([run]).columns("kind").num_rows == 8


def test_a_superseded_trace_is_gone_from_sight(home: Home, plain: Any, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        old = write_trace(writer, "log", version="1", steps=1, label="old")
        new = write_trace(writer, "log", version="2", steps=3, label="new", supersedes=old)
    run = home.run("run")
    assert [e.head.trace_id for e in run.entries] == [new]
    assert {s["trace_id"] for s in Lake([run]).sql("SELECT trace_id FROM spans").to_pylist()} == {new}
    assert [x.trace_id for x in run.labels()] == [new]


def test_labels_of_a_trace_that_was_never_committed_are_not_seen(home: Home, plain: Any, write_trace: Any) -> None:
    """Labels are published before the ledger; a crash between the two must leave nothing in sight."""
    run = home.create("run", "import")
    writer = run.writer(plain, window=None)
    write_trace(writer, "one", label="why")
    writer.commit()
    writer.close()
    ledger = Path(run.files.address) / run.path / "ledger"
    for file in ledger.iterdir():
        file.unlink()
    with home.run("run").writer(plain, window=None) as again:
        write_trace(again, "one", label="why")
    assert len(list(home.run("run").labels())) == 1


def test_a_ledger_is_read_while_it_is_rewritten(tmp_path: Path) -> None:
    """Readers that list the folder while one segment replaces all others see all episodes, always."""
    files = LocalFiles(tmp_path)
    names = [f"e{n}" for n in range(40)]
    for n, name in enumerate(names):
        made, data = encode_segment(segment(f"w{n}", entry(name, name), at=n).header, [entry(name, name)])
        files.publish(f"run/ledger/{made}", data)
    stop = threading.Event()

    def rewrite() -> None:
        old = [s.name for s in read_segments(files, "run")]
        for n in range(30):
            if stop.is_set():
                return
            writer = f"r{n}" if n % 2 else f"0r{n}"
            header = Header(schema_version=SCHEMA_VERSION, writer=writer, number=0, committed_ns=n, replaces=tuple(old))
            name, data = encode_segment(header, [entry(x, x) for x in names])
            files.publish(f"run/ledger/{name}", data)
            for gone in old:
                files.delete(f"run/ledger/{gone}")
            old = [name]

    thread = threading.Thread(target=rewrite, daemon=True)
    thread.start()
    try:
        looks = 0
        while thread.is_alive() or looks < 5:
            found = standing(read_segments(files, "run"))
            assert sorted(e.head.trace_id for e in found.live) == sorted(names)
            looks += 1
    finally:
        stop.set()
        thread.join(timeout=60)
    assert looks >= 5


def test_others_read_the_lines_as_json(home: Home, plain: Any, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        write_trace(writer, "one")
    (file,) = (Path(run.files.address) / run.path / "ledger").iterdir()
    first, second = duckdb.sql(f"SELECT type, head.task FROM read_json('{file}')").fetchall()
    assert (first, second) == (("segment", None), ("episode", "task"))


def test_others_read_the_columns(tmp_path: Path) -> None:
    name, data = encode_segment(
        Header(schema_version=SCHEMA_VERSION, writer="w", number=0, committed_ns=5), columnar(MANY)
    )
    (tmp_path / name).write_bytes(data)
    found = duckdb.sql(f"SELECT 'b2:' || lower(hex(episode)), task, score FROM '{tmp_path / name}' LIMIT 2").fetchall()
    assert found == [(hashed(MANY), "task 0", None), (hashed(MANY + 1), "task 1", 1 / 3)]
