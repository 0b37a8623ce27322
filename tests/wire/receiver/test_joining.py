"""Late, doubled and out-of-order spans become the trace that they would have been had they come at once."""

from __future__ import annotations

import itertools
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.traces import Trace


def at_once(opened: Any, spans: list[dict[str, Any]], run: str) -> Any:
    with opened(run=run) as receiver:
        receiver.send(*spans)
    return receiver


def alike(trace: Trace, wanted: Trace) -> bool:
    """Whether two traces have the same spans, but for their own ids and what is left in their attributes."""
    return len(trace.spans) == len(wanted.spans) and all(
        msgspec.structs.replace(one, trace_id=two.trace_id, attributes=two.attributes) == two
        for one, two in zip(trace.spans, wanted.spans, strict=True)
    )


def stored(receiver: Any, count: int) -> None:
    """Wait until the server has committed this number of episodes."""
    deadline = time.monotonic() + 20
    while len(receiver.run.entries) < count:
        assert time.monotonic() < deadline, "nothing was stored"
        time.sleep(0.05)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::5])
def test_the_order_in_which_spans_come_does_not_matter(opened: Any, wire: Any, order: tuple[int, ...]) -> None:
    wanted = at_once(opened, wire.agent(), "wanted")
    with opened() as receiver:
        for position in order:
            receiver.send(wire.agent()[position])
            receiver.send(wire.agent()[position], packed=True)
    (trace,) = receiver.run.traces()
    (other,) = wanted.run.traces()
    assert wire.summary(trace) == wire.summary(other)
    assert receiver.result.lost == {"span (delivered twice)": 4}


def test_a_trace_is_stored_once_its_root_has_ended_and_it_is_silent(opened: Any, wire: Any) -> None:
    *inner, root = wire.agent()
    with opened(settle=0.3) as receiver:
        receiver.send(*inner)
        time.sleep(1.0)
        assert not receiver.run.entries, "its root is still at work"
        receiver.send(root)
        stored(receiver, 1)
        assert receiver.run.entries[0].totals.spans == 4
        deadline = time.monotonic() + 10
        while (receiver.home / "runs/live/spool").exists() and list(
            (receiver.home / "runs/live/spool").glob("*.jsonl")
        ):
            assert time.monotonic() < deadline, "the spool is not let go"
            time.sleep(0.05)


@pytest.mark.parametrize("split", [1, 2, 3])
@pytest.mark.parametrize("restart", [False, True])
def test_spans_that_come_after_their_trace_was_stored_supersede_it(
    opened: Any, wire: Any, split: int, restart: bool
) -> None:
    wanted = at_once(opened, wire.agent(), "wanted")
    root, *inner = reversed(wire.agent())
    late = [*inner[:split], inner[0]]  # one of them comes twice
    with opened(settle=0.0) as receiver:
        receiver.send(root, *inner[split:])
        stored(receiver, 1)
        if not restart:
            receiver.send(*late)
            receiver.send(root)  # the exporter did not hear the answer, and sends it again
    if restart:
        with opened() as receiver:
            receiver.send(*late)
            receiver.send(root)
    assert receiver.result.superseded >= 1
    (entry,) = receiver.run.entries
    trace, (other,) = receiver.run.trace(entry), wanted.run.traces()
    assert wire.summary(trace)[:4] == wire.summary(other)[:4]
    assert alike(trace, other)
    assert receiver.result.lost.get("span (delivered twice)", 0) >= 1


def test_only_duplicates_change_nothing(opened: Any, wire: Any) -> None:
    with opened(settle=0.0) as receiver:
        receiver.send(*wire.agent())
        stored(receiver, 1)
        before = receiver.run.entries[0].head.trace_id
        receiver.send(*wire.agent())
    assert receiver.run.entries[0].head.trace_id == before
    assert (receiver.result.traces, receiver.result.superseded) == (1, 0)


def test_late_spans_of_a_trace_that_cannot_be_read_any_more_are_kept_apart(opened: Any, wire: Any) -> None:
    root, *inner = reversed(wire.agent())
    with opened() as receiver:
        receiver.send(root)
    for file in (receiver.home / "runs" / "live").glob("spans-*.parquet"):
        file.unlink()
    with opened() as receiver:
        receiver.send(*inner)
    assert sorted(e.totals.spans for e in receiver.run.entries) == [1, 3]
    (said,) = receiver.said
    assert "cannot be read" in said
    assert receiver.result.superseded == 0


def test_two_traces_with_one_id_are_kept_whole(opened: Any, wire: Any) -> None:
    """Two processes that drew the same id: one trace with two roots, and every span of both, equal ids or not."""
    twin = [one | {"name": f"other {one['name']}"} for one in wire.agent()]
    with opened() as receiver:
        receiver.send(*wire.agent(), service="one")
        receiver.send(*twin, service="two")
    (trace,) = receiver.run.traces()
    assert len(trace.spans) == 8
    assert len({s.span_id for s in trace.spans}) == 8
    assert sum(s.name.startswith("other ") for s in trace.spans) >= 3
    assert receiver.result.lost == {"span_id (repeated)": 4}


def test_clocks_that_disagree(opened: Any, wire: Any) -> None:
    """A child that began before its parent, an end before the start, a time beyond the calendar, none at all."""
    skewed = wire.span(2, "early", parent=1, start=-3600, end=-3599)
    backwards = wire.span(3, "backwards", parent=1, start=5, end=2)
    beyond = wire.span(4, "beyond", parent=1) | {"startTimeUnixNano": str(2**63), "endTimeUnixNano": str(2**64 - 1)}
    never = wire.span(5, "never", parent=1) | {"startTimeUnixNano": "0", "endTimeUnixNano": "0"}
    with opened() as receiver:
        receiver.send(skewed, backwards, beyond, never, wire.span(1, "root", end=9))
    (trace,) = receiver.run.traces()
    times = {s.name: (s.start_ns, s.end_ns) for s in trace.spans}
    assert times["early"] == (wire.BASE - 3600 * 10**9, wire.BASE - 3599 * 10**9)
    assert times["backwards"] == (wire.BASE + 5 * 10**9, None)
    assert times["beyond"] == times["never"] == (None, None)
    assert receiver.result.lost == {"end time (before start)": 1, "time (out of range)": 2}


def test_many_traces_at_once_are_told_apart(opened: Any, wire: Any) -> None:
    traces = [wire.agent(16 * i + 16, f"{i + 1:032x}") for i in range(60)]
    with opened() as receiver:
        for together in zip(*traces, strict=True):
            receiver.send(*together)
    assert [len(t.spans) for t in receiver.run.traces()] == [4] * 60
    assert sorted(e.head.attempt for e in receiver.run.entries) == list(range(60))


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_any_delivery_gives_the_same_trace(tmp_path_factory: pytest.TempPathFactory, wire: Any, data: Any) -> None:
    """Any order, any doubles, any cut into requests, a restart anywhere."""
    from ethogram.store import open_home
    from ethogram.wire.receiver.serving import OtlpService, ServeSettings

    home = open_home(str(tmp_path_factory.mktemp("home")))
    spans = wire.agent()
    deliveries = data.draw(st.permutations([*range(4), *data.draw(st.lists(st.integers(0, 3), max_size=4))]))
    stop = data.draw(st.integers(0, len(deliveries)))

    def serve(run: str, part: list[int]) -> None:
        service = OtlpService(home, ServeSettings(port=0, run=run), print)
        port = int(service.start().address.rpartition(":")[2])
        for position in part:
            assert wire.post(port, wire.protobuf(spans[position])).status == 200
        service.close()

    serve("wanted", [0, 1, 2, 3])
    serve("live", deliveries[:stop])
    serve("live", deliveries[stop:])
    (trace,), (wanted,) = home.resolve("live").traces(), home.resolve("wanted").traces()
    assert wire.summary(trace)[:4] == wire.summary(wanted)[:4]
    assert alike(trace, wanted)
