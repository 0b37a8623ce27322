"""Episodes as columns: the same as whole entries say, whatever was rewritten, replaced or found out later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ethogram.errors import BadUsage, Damaged
from ethogram.store import Home, Lake, Redactor, Run, compact
from ethogram.store.episodes import FIGURES
from ethogram.store.rescore import append_outcomes
from ethogram.traces import Head, Missing, Scored, Span, SpanId, TraceId, episode_id, trace_id

Write = Callable[..., TraceId]


def add(writer: Any, key: str, episode: str, supersedes: TraceId | None = None, **told: Any) -> TraceId:
    tid = trace_id("test", key)
    sink = writer.trace(tid, supersedes)
    model = told.pop("model", None)
    sink.span(Span(trace_id=tid, span_id=SpanId("s"), seq=0, kind="model", name="chat", model=model, cost_usd=0.5))
    known = {"task": "a", "outcome": Scored(1.0, "test"), **told}
    sink.finish(Head(trace_id=tid, episode=episode_id("test", episode), **known), ())
    return tid


def rows(run: Run) -> list[tuple[Any, ...]]:
    """What the columns say."""
    found = run.episodes(FIGURES)
    names = [[found.names[n][i] for i in getattr(found, n)] for n in ("task", "condition", "agent")]
    numbers = [found.attempt, found.seed, found.reason, found.at_ns]
    floats = [found.value, *(found.figures[name] for name in FIGURES)]
    told = [[None if np.isnan(v) else float(v) for v in column] for column in floats]
    return list(zip(*names, *(n.tolist() for n in numbers), *told, strict=True))


def expected(run: Run) -> list[tuple[Any, ...]]:
    """What whole entries say."""
    made = []
    for e in run.entries:
        h, o = e.head, e.head.outcome
        seconds = None if h.start_ns is None or h.end_ns is None else (h.end_ns - h.start_ns) / 1e9
        reason, value = (o.reason, None) if isinstance(o, Missing) else (None, o.value)
        figures = [getattr(e.totals, name) for name in FIGURES if name != "seconds"]
        made.append((h.task, h.condition, h.agent, h.attempt, h.seed, reason, e.at_ns, value, *figures, seconds))
    return made


def test_columns_say_what_entries_say(home: Home, plain: Redactor) -> None:
    run = home.create("r", "run")
    with run.writer(plain) as writer:
        one = add(writer, "one", "e1", model="old", meta={"scaffold": "bare", "temperature": 0.5})
        add(writer, "two", "e2", task="b", attempt=3, seed=2**63 + 5, condition="hot", agent="x", start_ns=5, end_ns=9)
        add(writer, "three", "e3", outcome=Missing("infrastructure.timeout", "slow"))
        again = add(writer, "four", "e4", outcome=Missing("unscored"))
    assert rows(run) == expected(run)
    assert run.episodes().said == {"model": set(), "temperature": {"0.5"}, "scaffold": {"bare"}}
    with run.writer(plain) as writer:
        add(writer, "five", "e1", supersedes=one, model="new", outcome=Scored(0.0, "test"))
        add(writer, "six", "e2", task="b")  # the episode is there already
    append_outcomes(run, {again: Scored(0.25, "later")}, [], plain)
    run.forget_cache()
    assert rows(run) == expected(run)
    found = run.episodes()
    assert (len(found), found.replaced) == (4, 2)
    assert found.said["scaffold"] == set(), "what a replaced trace said does not count"
    assert Lake([run]).distinct("model", "name") == [{"new"}, {"chat"}]
    compact(run)
    assert rows(home.run("r")) == expected(home.run("r"))


def test_an_empty_run_has_no_rows(home: Home) -> None:
    run = home.create("r", "run")
    assert len(run.episodes(["steps"])) == 0
    assert run.episodes().figures["steps"].size == 0, "what was read with more figures is kept"


def test_more_figures_are_read_when_asked_for(home: Home, plain: Redactor, write_trace: Write) -> None:
    run = home.create("r", "run")
    with run.writer(plain) as writer:
        write_trace(writer, "one")
    first = run.episodes()
    assert first.figures == {}
    assert run.episodes() is first
    assert set(run.episodes(["cost_usd", "seconds"]).figures) == {"cost_usd", "seconds"}
    with pytest.raises(BadUsage, match="no figure 'dollars'; they have: steps"):
        run.episodes(["dollars"])


def test_damage_is_named(home: Home, plain: Redactor, write_trace: Write) -> None:
    run = home.create("r", "run")
    with run.writer(plain) as writer:
        write_trace(writer, "one")
    (name,) = run.files.names("runs/r/ledger")
    data = run.files.read(f"runs/r/ledger/{name}")
    for bad in (data[:-20], data[:30] + b"x" + data[31:], data[len(data) // 2 :], b"", b"\n"):
        run.files.publish(f"runs/r/ledger/{name}", bad)
        with pytest.raises(Damaged, match="does not match its hash"):
            home.run("r").episodes()
