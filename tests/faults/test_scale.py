"""A trace that is too large to wait in memory goes in through its spill and comes out whole."""

from __future__ import annotations

import json
from pathlib import Path

from ethogram.questions.home.maintenance import verify
from ethogram.questions.logs.imports import import_logs
from ethogram.reading.traces import trace as show_trace
from ethogram.store import Home, Lake
from ethogram.traces import text_ref

SPANS = 60_000


def one_large_trace(path: Path) -> Path:
    """Our own JSON lines: model and tool in turn, a thousand different results."""
    trace = "b2:" + "7" * 32
    results = [f"result number {n}" for n in range(1000)]
    with path.open("w") as out:
        head = {
            "trace_id": trace,
            "episode": "b2:" + "8" * 32,
            "task": "large",
            "outcome": {"outcome": "scored", "value": 1},
        }
        out.write(json.dumps({"type": "trace", "schema_version": 1, "head": head}) + "\n")
        for body in results:
            out.write(json.dumps({"type": "text", "ref": text_ref(body), "body": body}) + "\n")
        for n in range(SPANS):
            span = {"type": "span", "trace_id": trace, "span_id": f"s{n}", "seq": n, "start_ns": 10**18 + n}
            if n % 2:
                span |= {"kind": "tool", "name": "t", "tool": "t", "result": text_ref(results[n % 1000])}
            else:
                span |= {"kind": "model", "name": "chat", "input_tokens": 3, "output_tokens": 2}
            out.write(json.dumps(span) + "\n")
        out.write(json.dumps({"type": "end", "spans": SPANS}) + "\n")
    return path


def test_a_trace_of_sixty_thousand_spans(home: Home, tmp_path: Path) -> None:
    done = import_logs(one_large_trace(tmp_path / "large.jsonl"), home=home, run="large", redact="none")
    assert (done.traces, done.spans, done.skipped) == (1, SPANS, [])
    run = home.run("large")
    (entry,) = run.entries
    assert len(entry.spans) > 1  # it was spilled: a file for each part
    trace = run.trace(entry)
    assert len(trace.spans) == len(trace.steps) == SPANS
    assert [s.seq for s in trace.spans[:: SPANS // 10]] == list(range(0, SPANS, SPANS // 10))
    assert trace.text(trace.spans[-1].result or "") == "result number 999"  # type: ignore[arg-type]
    assert entry.totals == trace.totals
    assert entry.totals.input_tokens == 3 * SPANS // 2
    steps = Lake([run]).columns("step").column(0).to_pylist()
    assert steps == list(range(SPANS))
    tree = show_trace(entry.head.trace_id, home=home, limit=50)
    assert (tree.shown, tree.of) == (50, SPANS)
    assert verify(home=home).ok
