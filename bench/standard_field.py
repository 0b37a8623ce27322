"""Claim: standard dimensions of a lake of 100 000 traces of 40 steps, from its columns, at least 50 times faster than
a Python loop that reads each trace from the same lake and measures it.

The loop is timed on one segment per round and extrapolated, in turn with ours on all of them; both are given the ledger
already read, both unpack every row group once. Values agree. Then the same from workers of a local Ray cluster."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from ethogram.store import ledger_file
from ethogram.store.entry import Header

sys.path.insert(0, str(Path(__file__).parent))
import msgspec
import numpy as np
from _common import QUICK, cpu, new_home, plain_writer, table, verdict

from ethogram.arrays import column
from ethogram.measures.standard import of_tally, tool_classes
from ethogram.questions.field.question import field
from ethogram.questions.field.results import standard_table
from ethogram.reading.step_columns import StoredSteps
from ethogram.store import Entry, Home, Lake, Run, ledger
from ethogram.store.entry import Place
from ethogram.store.segment import SPAN_COLUMNS
from ethogram.store.writer import publish_table
from ethogram.traces import Head, Message, Scored, Span, SpanId, Text, Trace, episode_id, trace_id
from ethogram.traces.message import pack_message

TRACES = 5_000 if QUICK else 100_000
STEPS = 40
TEMPLATE = 2_500
ROUNDS = 4
TOOLS = ("search_files", "read_file", "edit_file", "run_tests", "bash")


def template(home: Home) -> None:
    """Some thousand different traces through the store's own writer: one segment of the size that it writes."""
    rng = np.random.default_rng(1)
    with plain_writer(home, "lake") as writer:
        for i in range(TEMPLATE):
            sink = writer.trace(trace_id("bench", str(i)))
            for t in range(STEPS):
                sink.span(_span(i, t, rng, sink))
            sink.finish(head(i), ())


def _span(i: int, t: int, rng: np.random.Generator, sink: Any) -> Span:
    """Model and tool in turn, each with its words, as logs have them; copies of a trace share their words."""
    start = 1_700_000_000_000_000_000 + i * 10**10 + t * 50_000_000
    common: dict[str, Any] = {
        "trace_id": trace_id("bench", str(i)), "span_id": SpanId(f"s{t}"), "seq": t, "start_ns": start,
        "end_ns": start + int(rng.integers(1, 45)) * 1_000_000,
    }  # fmt: skip
    said = sink.text(pack_message(Message("assistant", (Text(f"step {t} of {i}: " + "words " * 30),)), _none), "output")
    if t % 2 == 0:
        tokens = {"input_tokens": 900, "output_tokens": int(rng.integers(10, 90))}
        common |= {"output": (said,), "stop_reason": "tool_calls", **tokens}
        return Span(kind="model", name="chat", status="ok", **common)
    tool = TOOLS[int(rng.integers(len(TOOLS)))]
    ref = sink.text(f'{{"path": "file{int(rng.integers(400))}.py"}}', "arguments")
    status: Any = "error" if rng.random() < 0.1 else "ok"
    return Span(kind="tool", name=tool, tool=tool, arguments=ref, output=(said,), status=status, **common)


def _none(body: str) -> Any:
    raise AssertionError(body)


def head(i: int) -> Head:
    start = 1_700_000_000_000_000_000 + i * 10**10
    return Head(
        trace_id=trace_id("bench", str(i)),
        episode=episode_id("bench", str(i)),
        task=f"task-{i % 50}",
        attempt=i // 50,
        outcome=Scored(float(i % 3 > 0), "bench"),
        start_ns=start,
        end_ns=start + STEPS * 50_000_000,
    )


def copies(home: Home) -> None:
    """The template again and again under other ids: the same rows in segments of the same kind."""
    run = home.run("lake")
    rows = Lake([run]).columns(*SPAN_COLUMNS)
    place = list(SPAN_COLUMNS).index("trace_id")
    ids = rows.column("trace_id").to_pylist()
    entries = run.entries
    for copy in range(1, TRACES // TEMPLATE):
        new = {e.head.trace_id: trace_id("bench", str(copy * TEMPLATE + i)) for i, e in enumerate(entries)}
        named = rows.set_column(place, "trace_id", column([new[i] for i in ids], rows.schema.field(place).type))
        name = f"spans-bench-{copy:06d}.parquet"
        file = publish_table(run.files, run.path, name, named, None, None)
        offsets = {e.head.trace_id: k * STEPS for k, e in enumerate(entries)}
        own = [
            msgspec.structs.replace(
                e,
                head=msgspec.structs.replace(
                    e.head, trace_id=new[e.head.trace_id], episode=episode_id("b", str(copy), str(i))
                ),
                spans=(Place(name, offsets[e.head.trace_id], STEPS),),
            )
            for i, e in enumerate(entries)
        ]
        top = Header(
            schema_version=ledger_file.SCHEMA_VERSION,
            writer="bench",
            number=copy,
            committed_ns=time.time_ns(),
            files=(file,),
        )
        name, segment = ledger_file.encode_segment(top, own)
        run.files.publish(f"{run.path}/{ledger.FOLDER}/{name}", segment)


def by_hand(trace: Trace) -> dict[str, float]:
    """The dimensions of the coding preset of one trace, in plain Python, as their table says."""
    steps = trace.steps
    calls = [s for s in steps if s.kind == "tool"]
    names = [s.tool or s.name for s in calls]
    keys = [(s.tool or s.name, s.arguments) for s in calls]
    kinds = [tool_classes(n) for n in names]
    edits = [i for i, k in enumerate(kinds) if "file_edit" in k]
    looked = [i for i, k in enumerate(kinds) if k & {"file_read", "search"}]
    totals, head = trace.totals, trace.head
    assert head.start_ns is not None
    assert head.end_ns is not None
    seconds = (head.end_ns - head.start_ns) / 1e9
    in_tools = sum(s.seconds or 0.0 for s in calls)
    return {
        "steps": len(steps),
        "model_calls": sum(s.kind == "model" for s in steps),
        "tool_calls": len(calls),
        "distinct_tools": len(set(names)),
        "errors": sum(s.status == "error" for s in steps),
        "error_streak": longest([s.status == "error" for s in calls]),
        "repeats": len(keys) - len(set(keys)),
        "backtracks": sum(a == c != b for a, b, c in zip(names, names[1:], names[2:], strict=False)),
        "longest_streak": longest([a == b for a, b in pairwise(names)]) + 1 if names else 0,
        "longest_loop": max(
            run + cycle if (run := longest([a == b for a, b in zip(keys[cycle:], keys, strict=False)])) >= cycle else 0
            for cycle in (1, 2, 3)
        ),
        "file_reads": sum("file_read" in k for k in kinds),
        "file_edits": len(edits),
        "searches": sum("search" in k for k in kinds),
        "commands": sum("command" in k for k in kinds),
        "test_runs": sum("test" in k for k in kinds),
        "looks_before_edit": sum(not edits or i < edits[0] for i in looked),
        "length_stops": sum(s.kind == "model" and s.stop_reason in ("length", "max_tokens") for s in steps),
        "ended_on_tool": steps[-1].kind == "tool",
        "ended_on_error": steps[-1].status == "error",
        "input_tokens": totals.input_tokens or 0,
        "output_tokens": totals.output_tokens or 0,
        "seconds": seconds,
        "seconds_per_step": seconds / len(steps),
        "tool_time_share": in_tools / sum(s.seconds or 0.0 for s in steps),
    }


def longest(flags: list[bool]) -> int:
    """The longest run of trues."""
    best = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        best = max(best, run)
    return best


def rounds(run: Run, entries: list[Entry]) -> dict[str, float]:
    """CPU seconds of either way, the least of some rounds in turn, so that both meet the same neighbours; of the loop
    for all traces. A round reads a segment that the last one did not, so that nothing is unpacked already."""
    kept = [(run, e) for e in entries]
    heads, totals = [e.head for e in entries], [e.totals for e in entries]
    recorded = np.array([t.cost_usd for t in totals], dtype=float)
    best: dict[str, float] = {}
    scale = len(entries) / TEMPLATE
    run.trace(entries[0])
    for turn in range(ROUNDS):
        picked = range(turn % int(scale) * TEMPLATE, (turn % int(scale) + 1) * TEMPLATE)
        ours, found = cpu(lambda: of_tally(StoredSteps(kept).tally(), heads, totals, recorded), 2)
        whole, told = cpu(lambda: [by_hand(run.trace(entries[i])) for i in picked], 1)
        bare = lambda i: Trace(heads[i], tuple(run.spans(entries[i])), {})  # noqa: E731
        light, again = cpu(lambda: [by_hand(bare(i)) for i in picked], 1)
        assert told == again
        for row, i in zip(told, picked, strict=True):
            for name, value in row.items():
                assert np.isclose(found.values[name][i], value, rtol=1e-12), (name, i, value)
        taken = {"columns": ours, "whole": whole * scale, "light": light * scale}
        best = {name: min(seconds, best.get(name, seconds)) for name, seconds in taken.items()}
    return best


def beside_ray(run: Run, entries: list[Entry]) -> None:
    """The same tally here and by workers, in seconds on the clock; bit for bit the same."""
    if find_spec("ray") is None:
        print("  not compared with Ray: the extra 'ray' is not installed")
        return
    from ethogram.cluster import Cluster

    kept = [(run, e) for e in entries]
    with Cluster() as cluster:
        cluster.map(standard_table, [(None,)] * 4)  # workers start and import
        timed = {}
        for name, where in (("here", None), ("Ray", cluster)):
            began = time.perf_counter()
            found = StoredSteps(kept, where).tally()
            timed[name] = time.perf_counter() - began, found
    (here, one), (there, other) = timed["here"], timed["Ray"]
    assert all(one.values[n].tobytes() == other.values[n].tobytes() for n in one.values)
    print(f"  on the clock: {here:.2f} s here, {there:.2f} s by {os.cpu_count()} Ray workers; the same bits")


def main() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        home = new_home(Path(folder) / "home")
        started = time.process_time()
        template(home)
        copies(home)
        made = time.process_time() - started
        run = home.run("lake")
        entries = list(run.entries)
        best = rounds(run, entries)
        verb, result = cpu(lambda: field(home.run("lake"), preset="coding"), 1)
        assert len(entries) == result.K
        ours = best["columns"]
        rows = [
            ["columns", ours, 1.0],
            ["loop over whole traces (a segment, extrapolated)", best["whole"], best["whole"] / ours],
            ["loop over spans without texts (a segment, extrapolated)", best["light"], best["light"] / ours],
            ["the verb: ledger, dimensions, metrics, tests, chain", verb, verb / ours],
        ]
        table(
            f"standard dimensions of {TRACES:,} traces of {STEPS} steps (made in {made:.0f} CPU s)",
            ["", "CPU s", "× columns"],
            rows,
        )
        beside_ray(run, entries)
    ratio = best["whole"] / ours
    return verdict(f"at least 50 times faster than the loop that reads each trace ({ratio:.0f}×)", ratio >= 50)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
