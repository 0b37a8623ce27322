"""Tool calls and errors are counted over steps: in new ledgers when written, in old ones when they are read."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from ethogram.store import Home, Lake, Redactor, Run, compact, ledger, ledger_file
from ethogram.store.entry import End
from ethogram.store.ledger_file import hash_of
from ethogram.traces import Head, Scored, Span, SpanId, episode_id, trace_id


def add(writer: Any, key: str) -> None:
    """A tool that runs a sub-agent, whose own tool fails: three spans say error, one step of two does."""
    tid = trace_id("test", key)
    sink = writer.trace(tid)
    spans = (("run", None, "agent", "error"), ("ask", "run", "tool", "error"), ("think", "ask", "model", "ok"))
    for seq, (name, above, kind, status) in enumerate((*spans, ("look", "ask", "tool", "error"))):
        parent = None if above is None else SpanId(above)
        made = {"trace_id": tid, "span_id": SpanId(name), "parent_id": parent, "seq": seq, "kind": kind, "name": name}
        sink.span(Span(**made, status=status))  # type: ignore[arg-type]
    sink.finish(Head(trace_id=tid, episode=episode_id("test", key), task="t", outcome=Scored(1.0, "test")), ())


@pytest.fixture
def run(home: Home, plain: Redactor) -> Run:
    made = home.create("r", "run")
    for key in ("a", "b"):
        with made.writer(plain) as writer:
            add(writer, key)
    return made


def age(run: Run, forget: int = 0) -> None:
    """The ledger as version 2 wrote it: counts over all spans; the spans of the first few entries were forgotten."""
    for number, segment in enumerate(run.segments()):
        old = [
            msgspec.structs.replace(e, totals=msgspec.structs.replace(e.totals, tool_calls=2, errors=3))
            for e in segment.entries
        ]
        if number < forget:
            old = [msgspec.structs.replace(e, spans=(), forgotten="old success") for e in old]
        header = msgspec.structs.replace(segment.header, schema_version=2)
        body = b"".join(msgspec.json.encode(record) + b"\n" for record in (header, *old))
        end = msgspec.json.encode(End(len(old), hash_of(body))) + b"\n"
        folder = f"{run.path}/{ledger.FOLDER}"
        run.files.delete(f"{folder}/{segment.name}")
        run.files.publish(f"{folder}/{header.writer}-{header.number:06d}.jsonl", body + end)
    run.forget_cache()


def counts(run: Run) -> list[tuple[int | None, int | None]]:
    return [(e.totals.tool_calls, e.totals.errors) for e in run.entries]


def columns(run: Run) -> list[tuple[float, float]]:
    found = run.episodes(["tool_calls", "errors"]).figures
    return list(zip(found["tool_calls"].tolist(), found["errors"].tolist(), strict=True))


def test_only_steps_are_counted(run: Run) -> None:
    assert counts(run) == [(1, 1), (1, 1)]
    assert columns(run) == [(1, 1), (1, 1)]
    found = Lake([run]).sql("select tool_calls, errors, spans, steps from episodes")
    assert [tuple(row.values()) for row in found.to_pylist()] == [(1, 1, 4, 2)] * 2


def test_an_old_ledger_is_counted_anew(run: Run) -> None:
    age(run)
    assert counts(run) == [(1, 1), (1, 1)]
    run.forget_cache()
    assert columns(run) == [(1, 1), (1, 1)]


def test_sql_sees_the_new_counts(run: Run) -> None:
    age(run)
    found = Lake([run]).sql("select tool_calls, errors from episodes")
    assert [tuple(row.values()) for row in found.to_pylist()] == [(1, 1)] * 2


def test_a_rewrite_of_an_old_ledger_has_the_new_counts(run: Run) -> None:
    age(run)
    compact(run, few=1)
    (segment,) = run.segments()
    assert segment.header.schema_version == ledger_file.SCHEMA_VERSION
    assert {(e.totals.tool_calls, e.totals.errors) for e in segment.entries} == {(1, 1)}
    assert counts(run) == columns(run) == [(1, 1), (1, 1)]


def test_what_was_forgotten_stays_unknown(run: Run) -> None:
    age(run, forget=1)
    assert counts(run) == [(None, None), (1, 1)]
    assert [bool(np.isnan(calls)) for calls, _ in columns(run)] == [True, False]
    compact(run, few=1)
    assert counts(run) == [(None, None), (1, 1)]
