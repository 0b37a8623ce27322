"""One trace, one number: tool calls and errors are the same in every place that names them."""

from __future__ import annotations

from typing import Any

import pytest

from ethogram.lab.field.fields import field_of
from ethogram.lab.gate.comparison import compare
from ethogram.lab.home.queries import sql
from ethogram.lab.home.runs import show_run
from ethogram.lab.outcomes.metrics import metric_means
from ethogram.lab.outcomes.reliability import reliability
from ethogram.store import Home, Redactor
from ethogram.trace import Head, Scored, Span, SpanId, Trace, episode_id, trace_id

# a tool runs a sub-agent, and a tool of that fails: the two spans above it end in an error as well
SPANS = (
    ("run", None, "agent", "error"),
    ("ask", "run", "tool", "error"),
    ("think", "ask", "model", "ok"),
    ("look", "ask", "tool", "error"),
)


def spans_of(trace: Any, thoughts: int) -> list[Span]:
    """The spans, with some thoughts more, so that traces differ."""
    more = [(f"think-{i}", "run", "model", "ok") for i in range(thoughts)]
    return [
        Span(
            trace_id=trace,
            span_id=SpanId(name),
            parent_id=None if above is None else SpanId(above),
            seq=seq,
            kind=kind,  # type: ignore[arg-type]
            name=name,
            status=status,  # type: ignore[arg-type]
        )
        for seq, (name, above, kind, status) in enumerate((*SPANS, *more))
    ]


@pytest.fixture
def runs(home: Home, plain: Redactor) -> Home:
    for name in ("base", "new"):
        with home.create(name, "import").writer(plain) as writer:
            for i in range(4):
                tid = trace_id("test", f"{name}-{i}")
                sink = writer.trace(tid)
                for span in spans_of(tid, i):
                    sink.span(span)
                outcome = Scored(float(i > 1), "test")
                sink.finish(Head(trace_id=tid, episode=episode_id(name, str(i)), task=f"t{i % 2}", outcome=outcome), ())
    return home


@pytest.mark.parametrize("name", ["errors", "tool_calls"])
def test_one_number(runs: Home, name: str) -> None:
    told = {
        "compare": compare("base", "new", home=runs, metric=name).base.value,
        "field": field_of("base", home=runs, dimensions=[name, "steps"]).dimensions[name].mean,
        "report": next(m.mean.value for m in metric_means("base", home=runs).metrics if m.name == name),
        "show": getattr(show_run("base", home=runs).totals, name) / 4,
        "sql": sql(f"select avg({name}) as mean from episodes where run = 'base'", home=runs).rows()[0]["mean"],
        "trace": getattr(Trace(Head(**HEAD), tuple(spans_of(HEAD["trace_id"], 0)), {}).totals, name),
    }
    assert told == dict.fromkeys(told, 1.0)


HEAD: dict[str, Any] = {"trace_id": trace_id("test", "x"), "episode": episode_id("x", "x"), "task": "t"}


def test_steps_that_err_compound(runs: Home) -> None:
    """What `stats` says of errors per step rests on the same count: 4 errors in 4 × 2 steps and 6 thoughts."""
    found = reliability("base", [1], home=runs).compounding
    assert found is not None
    assert found.per_step == pytest.approx(1 - 4 / 14)
