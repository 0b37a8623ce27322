"""Standard dimensions: from columns, however they are cut, the same as by hand from whole traces."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.arrays import arrow_table
from ethogram.errors import BadUsage, Damaged, NotFound
from ethogram.measures.metrics import METRICS
from ethogram.measures.standard import (
    DIMENSIONS,
    PRESETS,
    TOOL_CLASSES,
    Standards,
    amounts_of,
    chosen,
    dimensions,
    of_preset,
    of_tally,
    tool_classes,
)
from ethogram.measures.standard_columns import COLUMNS, WIDEST, standard_values
from ethogram.measures.standard_states import COLUMNS as STATE_COLUMNS
from ethogram.measures.standard_states import DEFAULT_STATES, default_states, state_labels
from ethogram.measures.standard_stream import CHUNK
from ethogram.store.segment import columns_of_spans, span_schema
from ethogram.traces import UNMETERED, Head, Ref, Scored, Span, SpanId, Totals, Trace, episode_id, trace_id

TOOLS = (
    "get_order",
    "update_order",
    "search_files",
    "edit_file",
    "run_tests",
    "transfer_to_human_agents",
    "think",
    "go",
)


def longest(flags: list[bool]) -> int:
    best = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        best = max(best, run)
    return best


def lanes_of(calls: list[Span]) -> list[list[Span]]:
    return [[c for c in calls if c.lane == lane] for lane in dict.fromkeys(c.lane for c in calls)]


def name_of(span: Span) -> str:
    return span.tool or span.name


def loop(calls: list[Span]) -> int:
    """The longest stretch that repeats a cycle of up to three equal calls; without arguments no call equals another."""
    keys = [(name_of(c), c.arguments) if c.arguments else object() for c in calls]
    runs = {n: longest([a == b for a, b in zip(keys[n:], keys, strict=False)]) for n in (1, 2, 3)}
    return max(run + n if run >= n else 0 for n, run in runs.items())


def unconfirmed(steps: list[Span]) -> int:
    count = 0
    for i, step in enumerate(steps):
        if step.kind == "tool" and "write" in tool_classes(name_of(step)):
            before = max((j for j in range(i) if steps[j].kind == "tool"), default=-1)
            count += not any(s.kind == "user" for s in steps[before + 1 : i])
    return count


def by_hand(trace: Trace) -> dict[str, float | None]:
    """Every dimension, as the table says; None where the trace does not record it."""
    steps = list(trace.steps)
    calls = [s for s in steps if s.kind == "tool"]
    kinds = [tool_classes(name_of(c)) for c in calls]
    known = [(name_of(c), c.arguments) for c in calls if c.arguments is not None]
    lanes = lanes_of(calls)
    edits = [i for i, k in enumerate(kinds) if "file_edit" in k]
    timed = [s.seconds for s in steps if s.kind in ("model", "tool")]
    whole = sum(s.seconds or 0.0 for s in steps)
    asked = [s.seconds or 0.0 for s in steps if s.kind == "model"]
    share = None
    if None not in timed and whole > 0 and (sum(asked) > 0 or not asked):
        share = sum(s.seconds or 0.0 for s in calls) / whole
    head, totals = trace.head, trace.totals
    seconds = None if head.start_ns is None or head.end_ns is None else (head.end_ns - head.start_ns) / 1e9

    def tokens(name: str) -> float | None:
        return getattr(totals, name)

    of_class = {"reads": "read", "writes": "write", "transfers": "transfer", "file_reads": "file_read"}
    of_class |= {"file_edits": "file_edit", "searches": "search", "commands": "command", "test_runs": "test"}
    of_class |= {"page_visits": "visit", "clicks": "click", "entries": "typed", "scrolls": "scroll", "returns": "back"}
    of_class |= {"page_reads": "look"}
    of_kind = {"model_calls": "model", "tool_calls": "tool", "user_turns": "user", "handoffs": "handoff"}
    of_kind |= {"retrievals": "retrieval", "memory_steps": "memory"}
    return {
        "steps": len(steps),
        **{n: sum(s.kind == k for s in steps) for n, k in of_kind.items()},
        **{n: sum(c in k for k in kinds) for n, c in of_class.items()},
        "distinct_tools": len({name_of(c) for c in calls}),
        "errors": sum(s.status == "error" for s in steps),
        "error_streak": max((longest([c.status == "error" for c in lane]) for lane in lanes), default=0),
        "repeats": len(known) - len(set(known)),
        "backtracks": sum(
            name_of(a) == name_of(c) != name_of(b)
            for lane in lanes
            for a, b, c in zip(lane, lane[1:], lane[2:], strict=False)
        ),
        "longest_streak": max(
            (longest([name_of(a) == name_of(b) for a, b in pairwise(x)]) + 1 for x in lanes), default=0
        ),
        "longest_loop": max(map(loop, lanes), default=0),
        "failed_writes": sum("write" in k and c.status == "error" for k, c in zip(kinds, calls, strict=True)),
        "unconfirmed_writes": unconfirmed(steps),
        "looks_before_edit": sum(
            bool(k & {"file_read", "search"}) and (not edits or i < edits[0]) for i, k in enumerate(kinds)
        ),
        "length_stops": sum(s.kind == "model" and s.stop_reason in ("length", "max_tokens") for s in steps),
        "ended_on_tool": steps[-1].kind == "tool",
        "ended_on_error": steps[-1].status == "error",
        **{
            n: tokens(n)
            for n in ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
        },
        "cost_usd": tokens("cost_usd"),
        "seconds": seconds,
        "seconds_per_step": None if seconds is None else seconds / len(steps),
        "tool_time_share": share,
    }


def made(number: int, rng: np.random.Generator, *, timed: bool = True, told: bool = True) -> Trace:
    """A trace with everything that logs have: lanes, sub-agents, spans that are no steps, calls without a name."""
    own = trace_id("t", str(number))
    spans: list[Span] = []
    clock = 1_700_000_000_123_456_789 + number * 10**12
    for i in range(int(rng.integers(1, 30))):
        kind: Any = rng.choice(
            ["model", "tool", "tool", "tool", "user", "agent", "judge", "retrieval", "handoff", "memory"]
        )
        clock += int(rng.integers(1, 10**9))
        fields: dict[str, Any] = {"lane": str(rng.choice(["", "", "a"])), "status": "ok" if told else "unset"}
        if told and rng.random() < 0.2:
            fields["status"] = "error"
        if spans and rng.random() < 0.3:
            fields["parent_id"] = spans[int(rng.integers(len(spans)))].span_id
        if timed or rng.random() < 0.5:
            fields |= {"start_ns": clock, "end_ns": clock + int(rng.integers(-1, 10**9))}
        name = str(rng.choice(TOOLS))
        if kind == "tool" and rng.random() < 0.9:
            fields["tool"] = name
        if kind == "tool" and rng.random() < 0.8:
            fields["arguments"] = Ref(f"b:{int(rng.integers(3))}")
        if kind == "model":
            fields |= {"output_tokens": int(rng.integers(100)), "cost_usd": 0.01}
            fields["stop_reason"] = str(rng.choice(["stop", "length", "max_tokens", "tool_calls"]))
        spans.append(Span(trace_id=own, span_id=SpanId(f"s{i}"), seq=i, kind=kind, name=name, **fields))
    if not any(s.kind == "tool" for s in spans):
        spans.append(
            Span(trace_id=own, span_id=SpanId("last"), seq=99, kind="tool", name="go", start_ns=clock, end_ns=clock)
        )
    head = Head(
        trace_id=own,
        episode=episode_id(str(number)),
        task="t",
        outcome=Scored(1.0),
        start_ns=clock,
        end_ns=clock + 10**9,
    )
    return Trace(head, tuple(spans), {})


def cut(
    traces: list[Trace], rows: int, *, coded: bool = False, shuffle: int | None = None, columns: Any = COLUMNS
) -> list[Any]:
    whole = columns_of_spans([(t.spans, {s.span_id: i for i, s in enumerate(t.steps)}) for t in traces])
    table = arrow_table(whole, span_schema()).select(list(columns))
    if shuffle is not None:
        table = table.take(pa.array(np.random.default_rng(shuffle).permutation(table.num_rows)))
    if coded:
        names = [f.name for f in table.schema if pa.types.is_string(f.type)]
        batches = []
        for batch in table.to_batches(max_chunksize=rows):
            part = pa.Table.from_batches([batch])
            for name in names:
                part = part.set_column(part.column_names.index(name), name, part.column(name).dictionary_encode())
            batches += part.to_batches()
        return batches
    return table.to_batches(max_chunksize=rows)


def measured(traces: list[Trace], batches: list[Any], chunk: int | None = None) -> Standards:
    heads, totals = [t.head for t in traces], [t.totals for t in traces]
    costs = np.array([t.cost_usd for t in totals], dtype=float)
    steps = np.array([t.steps for t in totals], dtype=np.int64)
    return of_tally(standard_values(batches, [h.trace_id for h in heads], steps, chunk or CHUNK), heads, totals, costs)


def same(found: Standards, traces: list[Trace]) -> None:
    assert set(found.values) == set(dimensions())
    for i, trace in enumerate(traces):
        for name, value in by_hand(trace).items():
            got = found.values[name][i]
            if value is None:
                assert np.isnan(got), (name, i, got)
            else:
                assert got == pytest.approx(float(value), rel=1e-12, abs=1e-12), (name, i)


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("coded", [True, False])
def test_columns_say_what_traces_say(timed, coded):
    rng = np.random.default_rng(5)
    traces = [made(i, rng, timed=timed) for i in range(120)]
    found = measured(traces, cut(traces, 10_000, coded=coded))
    same(found, traces)
    assert found.unrecorded == {}
    assert found.tools == tuple(sorted({name_of(s) for t in traces for s in t.steps if s.kind == "tool"}))


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 40),
    mixed=st.booleans(),
    coded=st.booleans(),
    chunk=st.integers(1, 60),
)
def test_however_batches_cut_and_mix_traces(seed, rows, mixed, coded, chunk):
    rng = np.random.default_rng(seed)
    traces = [made(i, rng) for i in range(6)]
    batches = cut(traces, rows, coded=coded, shuffle=seed if mixed else None)
    same(measured(traces, batches, chunk), traces)
    same(measured(traces[2:4], batches, chunk), traces[2:4])


def test_many_tools_take_the_narrow_way():
    traces = [plain([(f"get_{(7 * i + j) % 3001}", "x") for j in range(i % 4 + 1)], number=i) for i in range(1500)]
    found = measured(traces, cut(traces, 10_000))
    assert len(traces) * len(found.tools) > WIDEST
    assert found.values["reads"].tolist() == found.values["tool_calls"].tolist() == [i % 4 + 1 for i in range(1500)]
    same(found, traces[:40])


def plain(calls: list[tuple[str, str]], number: int = 0, **fields: Any) -> Trace:
    own = trace_id("plain", str(number))
    spans = tuple(
        Span(
            trace_id=own,
            span_id=SpanId(f"s{i}"),
            seq=i,
            kind="tool",
            name=n,
            tool=n,
            arguments=Ref(a) if a else None,
            **fields,
        )
        for i, (n, a) in enumerate(calls)
    )
    return Trace(Head(trace_id=own, episode=episode_id("x", str(number)), task="t"), spans, {})


@pytest.mark.parametrize(
    ("calls", "repeats", "backtracks", "streak", "longest_loop"),
    [
        ("Ax Bx Ax", 1, 1, 1, 0),
        ("Ax Ax Ax", 2, 0, 3, 3),
        ("Ax Ay Az", 0, 0, 3, 0),
        ("Ax Bx Ax Bx Ax", 3, 3, 1, 5),
        ("Ax Bx Cx Ax Bx Cx", 3, 0, 1, 6),
        ("Ax Bx Ay Bx", 1, 2, 1, 0),
        ("Ax Bx Cx Dx Ax Bx Cx Dx", 4, 0, 1, 0),
    ],
)
def test_loops_by_hand(calls, repeats, backtracks, streak, longest_loop):
    trace = plain([(c[0], c[1]) for c in calls.split()])
    found = measured([trace], cut([trace], 100))
    got = [found.values[n][0] for n in ("repeats", "backtracks", "longest_streak", "longest_loop")]
    assert got == [repeats, backtracks, streak, longest_loop]


def test_what_the_harness_could_not_count_is_unknown_and_not_the_rest():
    heads = [
        Head(trace_id=trace_id("t", str(i)), episode=episode_id("t", str(i)), task="t", meta=meta)
        for i, meta in enumerate(({}, {UNMETERED: "usd"}, {UNMETERED: "tokens,unseen"}))
    ]
    found = amounts_of(heads, [Totals(model_calls=1, input_tokens=7, cost_usd=0.5)] * 3)
    assert [None if np.isnan(v) else v for v in found["input_tokens"]] == [7, 7, None]
    assert "cost_usd" not in found, "what an episode cost is priced, not taken from the ledger"


def test_what_a_log_never_says_is_left_out_with_a_reason():
    trace = plain([("get_order", ""), ("update_order", "")])
    found = measured([trace], cut([trace], 100))
    gaps = found.gaps(list(dimensions()))
    assert gaps["errors"] == "no step says whether it went well"
    assert gaps["repeats"] == "no tool call records its arguments"
    assert gaps["length_stops"] == "no model step says why it stopped"
    assert gaps["seconds"] == gaps["tool_time_share"] == "no trace records it"
    assert not {"steps", "tool_calls", "reads", "writes"} & set(gaps), "those are told, or truly 0"
    assert {"input_tokens", "cost_usd"} <= set(gaps), "no model call is recorded; that none was made is not known"
    assert set(found.idle(["reads", "handoffs", "user_turns"])) == {"handoffs", "user_turns"}


def test_a_dimension_that_some_traces_lack_says_how_many():
    rng = np.random.default_rng(2)
    traces = [made(i, rng) for i in range(5)]
    bare = Trace(Head(trace_id=traces[0].head.trace_id, episode=episode_id("e"), task="t"), traces[0].spans, {})
    found = measured([bare, *traces[1:]], cut([bare, *traces[1:]], 1000))
    assert found.gaps(["seconds"]) == {"seconds": "recorded in 4 of 5 traces only"}


def test_moments_are_no_durations():
    own = trace_id("moments")
    spans = tuple(
        Span(trace_id=own, span_id=SpanId(f"s{i}"), seq=i, kind=k, name="x", start_ns=i * 10**9, end_ns=i * 10**9 + e)
        for i, (k, e) in enumerate((("model", 0), ("tool", 5 * 10**8)))
    )
    trace = Trace(Head(trace_id=own, episode=episode_id("m"), task="t"), spans, {})
    assert np.isnan(measured([trace], cut([trace], 100)).values["tool_time_share"][0])


def test_a_trace_with_lost_rows_is_damage():
    trace = plain([("a", "x"), ("b", "y")])
    with pytest.raises(Damaged, match="fewer steps than the ledger says"):
        measured([trace], cut([trace], 1)[:1])


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("get_reservation_details", {"read"}),
        ("update_reservation_flights", {"write"}),
        ("search_direct_flight", {"read", "search"}),
        ("transfer_to_human_agents", {"transfer"}),
        ("WebSearch", {"read", "search"}),
        ("web-search", {"read", "search"}),
        ("str_replace_editor", {"write", "file_edit"}),
        ("Read", {"read", "file_read"}),
        ("TodoWrite", set()),
        ("think", set()),
        ("get_update_history", {"read"}),
        ("execute_bash", {"command"}),
        ("run_tests", {"command", "test"}),
        ("bash", {"command"}),
        ("browser_click", {"click"}),
        ("forget", set()),
        ("", set()),
    ],
)
def test_tools_are_told_apart_by_the_words_of_their_names(name, classes):
    assert tool_classes(name) == classes


def test_the_table_is_whole():
    assert len({d.name for d in DIMENSIONS}) == len(DIMENSIONS)
    for preset in PRESETS:
        names = of_preset(preset)
        assert {"steps", "tool_calls", "errors", "repeats", "output_tokens", "seconds"} <= set(names)
    own = {p: set(of_preset(p)) for p in PRESETS}
    assert {"file_edits", "test_runs"} <= own["coding"] - own["service"]
    assert {"transfers", "unconfirmed_writes"} <= own["service"] - own["coding"]
    assert {"page_visits", "clicks"} <= own["web"] - own["standard"]
    assert all(words for words in TOOL_CLASSES.values())
    assert set(DEFAULT_STATES) == set(PRESETS)
    assert dimensions()["repeats"].dimension.description.endswith("of an earlier one (calls)")
    for name in ("steps", "tool_calls", "errors", "seconds"):
        assert dimensions()[name].formula == METRICS[name].formula


def test_names_are_checked():
    with pytest.raises(NotFound, match="no preset named 'codng'; did you mean 'coding'"):
        of_preset("codng")
    with pytest.raises(NotFound, match="no standard dimension named 'step'; did you mean 'steps'"):
        chosen(["step"])
    with pytest.raises(BadUsage, match="each only once"):
        chosen(["steps", "steps"])
    with pytest.raises(BadUsage, match="at least one"):
        chosen([])


@pytest.mark.parametrize("coded", [True, False])
def test_states_from_columns_are_those_of_the_steps(coded):
    rng = np.random.default_rng(11)
    traces = [made(i, rng) for i in range(30)]
    stones = default_states("service", sorted(TOOLS))
    assert stones is not None
    assert stones.states == ("start", "looked up", "acted")
    ids = [t.head.trace_id for t in traces]
    steps = np.array([len(t.steps) for t in traces])
    found = state_labels(cut(traces, 7, coded=coded, columns=STATE_COLUMNS), ids, steps, stones)
    assert found == [tuple(stones.labels(t.steps)) for t in traces]
    assert {label for path in found for label in path} == {"start", "looked up", "acted"}


def test_default_states_need_tools_of_their_classes():
    assert default_states("web", ["think"]) is None
    found = default_states("coding", ["edit_file", "odd[name"])
    assert found is not None
    assert found.states == ("start", "editing")
