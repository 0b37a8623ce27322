"""The outline of a trace says the same as the trace itself, and finds the same words, without building it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.errors import BadUsage
from ethogram.questions.logs.imports import import_logs
from ethogram.reading.outline import trace_outline
from ethogram.reading.text_search import find_in_trace
from ethogram.reading.trace_words import StepReader, chosen_steps, step_choice
from ethogram.store import Home, Policy, Redactor, open_home
from ethogram.traces import Head, Span, Trace
from ethogram.traces.ids import SpanId, episode_id, trace_id

TRACE = trace_id("outline", "0")
HEAD = Head(trace_id=TRACE, episode=episode_id("outline", "0"), task="t")
IDS = [str(i) for i in range(9)]
SPANS = st.lists(
    st.tuples(
        st.sampled_from([*IDS, "unknown", None]),
        st.none() | st.integers(1, 5),
        st.sampled_from(["agent", "model", "tool", "user", "other"]),
        st.sampled_from(["ok", "error"]),
    ),
    min_size=1,
    max_size=len(IDS),
)


def spans_of(rows: list[tuple[Any, ...]]) -> tuple[Span, ...]:
    return tuple(
        Span(
            trace_id=TRACE,
            span_id=SpanId(str(i)),
            seq=i,
            kind=kind,
            name=f"n{i}",
            parent_id=parent,
            start_ns=start,
            end_ns=None if start is None else start + 2,
            status=status,
            input_tokens=i if kind == "model" else None,
        )
        for i, (parent, start, kind, status) in enumerate(rows)
    )


@settings(max_examples=60, deadline=None)
@given(rows=SPANS)
def test_tree_steps_and_turns_are_those_of_the_trace(rows: list[tuple[Any, ...]], tmp_path_factory: Any) -> None:
    spans = spans_of(rows)
    home = open_home(str(tmp_path_factory.mktemp("outline")))
    run = home.create("r", "import")
    with run.writer(Redactor(b"k", Policy(kinds=())), window=None) as writer:
        sink = writer.trace(TRACE)
        for span in spans:
            sink.span(span)
        sink.finish(HEAD, ())
    outline = trace_outline(run, run.entries[0])
    whole = Trace(HEAD, spans, {})
    walked = list(whole.walk())
    assert [(int(d), spans[r].span_id) for d, r in zip(outline.depth, outline.row, strict=True)] == [
        (depth, span.span_id) for depth, span in walked
    ]
    for place, (depth, _) in enumerate(walked):
        below = next((i for i in range(place + 1, len(walked)) if walked[i][0] <= depth), len(walked))
        assert outline.end[place] == below
    assert [spans[r] for r in outline.steps] == list(whole.steps)
    assert outline.failed.sum() == sum(s.status == "error" for s in spans)
    starts = [i for i, s in enumerate(whole.steps) if i == 0 or s.kind in ("model", "user")]
    assert outline.turns.tolist() == starts
    hidden = outline.visible(None, [0])
    assert set(range(len(spans))) - set(hidden.tolist()) == set(range(1, int(outline.end[0])))


def test_outline_totals_and_only_errors_count_the_same_errors(tmp_path: Path) -> None:
    """A log may keep the text of an error with a call that it says went well."""
    home = open_home(str(tmp_path))
    run = home.create("r", "import")
    rows = [(None, i + 1, "tool", status) for i, status in enumerate(("ok", "error", "unset"))]
    with run.writer(Redactor(b"k", Policy(kinds=())), window=None) as writer:
        sink = writer.trace(TRACE)
        for span in spans_of(rows):
            sink.span(msgspec.structs.replace(span, error=sink.text("went wrong", "error")))
        sink.finish(HEAD, ())
    outline, trace = trace_outline(run, run.entries[0]), run.trace(run.entries[0])
    assert outline.failed.tolist() == [False, True, False]
    assert outline.visible("errors").tolist() == [1]
    assert chosen_steps(trace, step_choice(None, 0, None, "errors", False))[0] == [1]
    assert trace.totals.errors == 1


def test_words_and_what_is_found_are_those_of_the_trace(logs: Any, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    import_logs(logs.put("log.json", [logs.turns(1, 0, 0.0), logs.turns(1, 1)]), run="r", home=home)
    run = open_home(home).resolve("r")
    for entry in run.entries:
        outline, trace = trace_outline(run, entry), run.trace(entry)
        reader = StepReader(trace)
        every = range(len(trace.steps))
        assert [parts for _, _, parts in outline.words(every)] == [reader.parts(i) for i in every]
        for text in ("BELL", "ding", "ring", "times", "nowhere", "[("):
            _, expected = chosen_steps(trace, step_choice(None, 0, text, None, False))
            assert find_in_trace(outline, text) == expected
    with pytest.raises(BadUsage, match="nothing to look for"):
        find_in_trace(outline, "  ")


def test_points_hold_every_turn_once(tmp_path: Path) -> None:
    home: Home = open_home(str(tmp_path))
    run = home.create("r", "import")
    rows = [(None, i + 1, "model" if i % 3 == 0 else "tool", "error" if i == 4 else "ok") for i in range(30)]
    with run.writer(Redactor(b"k", Policy(kinds=())), window=None) as writer:
        sink = writer.trace(TRACE)
        for span in spans_of(rows):
            sink.span(span)
        sink.finish(HEAD, ())
    outline = trace_outline(run, run.entries[0])
    whole, few = outline.points(600), outline.points(4)
    assert whole.context.tolist() == [0.0, 3.0, 6.0, 9.0, 12.0, 15.0, 18.0, 21.0, 24.0, 27.0]
    assert few.step.tolist() == [0, 9, 18, 27]
    assert few.context.tolist() == [6.0, 15.0, 24.0, 27.0]
    assert few.failed.tolist() == [True, False, False, False]
    assert np.isnan(few.output).all(), "what the log never said is no zero"
