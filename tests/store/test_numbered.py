"""Span segments with row numbers for addresses: the same spans come back, and others can join them to texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from ethogram.errors import Damaged
from ethogram.store import Home, Keyring, Lake, Redactor, compact, verify_run
from ethogram.store.numbered import ELSEWHERE, addressed, numbered
from ethogram.store.segment import open_parquet, span_table, spans_of
from ethogram.traces import Ref, Span, SpanId, TraceId

REFS = [Ref(f"b2:{n:032x}") for n in range(6)]


def spans() -> list[Span]:
    own: dict[str, Any] = {"trace_id": TraceId("t"), "kind": "model", "name": "chat"}
    return [
        Span(span_id=SpanId("a"), seq=0, input=(REFS[0], REFS[5]), output=(REFS[1],), error=REFS[4], **own),
        Span(span_id=SpanId("b"), seq=1, **own),
        Span(
            span_id=SpanId("c"), seq=2, arguments=REFS[2], result=REFS[3], attributes=REFS[5], output=(REFS[4],), **own
        ),
    ]


def test_numbers_stand_for_the_same_addresses() -> None:
    import pyarrow as pa

    table = numbered(span_table(spans(), {}), REFS[:4])
    assert table.column("input").to_pylist() == [[0, -1], [], []]
    assert table.column("result").to_pylist() == [None, None, 3]
    assert table.column(ELSEWHERE).to_pylist() == [[REFS[4], REFS[5]], [], []]
    names = pa.array([*REFS[:4], REFS[4], REFS[5]])
    back = addressed(table, names)
    assert [s for batch in back.to_batches() for s in spans_of(batch)] == spans()
    # a slice of a group is read in the same manner, and so are some columns alone
    assert addressed(table.slice(2), names).column("output").to_pylist() == [[REFS[4]]]
    assert addressed(table.select(["result", "kind"]), names).column("result").to_pylist() == [None, None, REFS[3]]
    with pytest.raises(pa.ArrowException):
        addressed(table, names.slice(0, 3))


def test_others_join_spans_and_texts(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        write_trace(writer, "one", steps=3)
    (file,) = run.standing.named("spans-")
    assert file.refers_to == run.standing.named("texts-")[0].name
    folder = Path(run.files.address) / run.path
    rows = f"read_parquet('{folder / file.refers_to}', file_row_number=true)"
    query = f"SELECT t.body FROM '{folder / file.name}' s JOIN {rows} t ON t.file_row_number = s.result ORDER BY s.seq"
    found = [body for (body,) in duckdb.sql(query).fetchall()]
    (trace,) = run.traces()
    assert found == [trace.text(s.result) for s in trace.spans if s.result is not None]
    assert len(found) == 3


def test_texts_of_earlier_commits_lie_elsewhere(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        for key in ("one", "two", "three"):
            write_trace(writer, key, steps=2)  # all have one system prompt
            writer.commit()
    before = {t.head.trace_id: t.spans for t in run.traces()}
    columns = Lake([run]).columns("span_id", "input", "result").to_pylist()
    (away, *_) = _elsewhere(run, run.standing.named("spans-")[1].name)
    assert len(away) == 1
    compact(run, few=0)
    (file,) = run.standing.named("spans-")
    assert not any(_elsewhere(run, file.name))
    assert {t.head.trace_id: t.spans for t in run.traces()} == before
    assert Lake([run]).columns("span_id", "input", "result").to_pylist() == columns
    asked = "SELECT span_id, input, result FROM spans ORDER BY trace_id, seq"
    assert sorted(map(str, Lake([run]).sql(asked).to_pylist())) == sorted(map(str, columns))
    assert verify_run(run).ok


def _elsewhere(run: Any, name: str) -> list[list[str]]:
    with run.files.open(f"{run.path}/{name}") as source:
        found: list[list[str]] = open_parquet(source).read(columns=[ELSEWHERE]).column(0).to_pylist()
    return found


def test_a_sealed_run_keeps_addresses(home: Home, keys: Keyring, plain: Redactor, write_trace: Any) -> None:
    key = keys.new()
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        write_trace(writer, "one", steps=2)
    assert [f.refers_to for f in run.standing.named("spans-")] == [None]
    keys.drop(key)
    assert all(ref.startswith("b2:") for ref in Lake([home.run("run")]).distinct("result")[0])


def test_a_damaged_text_segment_is_named_by_readers_of_spans(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        write_trace(writer, "one")
    (texts,) = (Path(run.files.address) / run.path).glob("texts-*")
    texts.write_bytes(texts.read_bytes()[:-9])
    with pytest.raises(Damaged, match=r"texts-.* cannot be read"):
        next(home.run("run").traces())
    assert [p.where for p in verify_run(home.run("run")).damaged] == [texts.name]
