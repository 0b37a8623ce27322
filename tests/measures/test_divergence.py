"""Two readings side by side: t*, lanes, signatures of one's own, the floor, and K against K."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.measures.behaviour_test import LENGTH, MOST_FEATURES, OTHER, k_by_k, least_p
from ethogram.measures.divergence import distances, diverge, first_aligned, repeat_distances
from ethogram.measures.noise_floor import AgainstFloor, NoiseFloor, against_floor, noise_floor, warning
from ethogram.measures.sequence import Reading, named_signature, of_messages, read_positions
from ethogram.statistics.distance import Alphabet
from ethogram.traces import (
    Head,
    Kind,
    Message,
    Ref,
    Span,
    SpanId,
    Text,
    ToolCall,
    ToolResult,
    Trace,
    episode_id,
    trace_id,
)

QUICK = settings(deadline=None, max_examples=80, derandomize=True)


def reading(*signatures: str, lanes: Sequence[str] | None = None) -> Reading:
    n = len(signatures)
    return Reading(
        signatures=signatures,
        kinds=("tool",) * n,
        names=signatures,
        failed=(False,) * n,
        agents=("",) * n,
        lanes=tuple(lanes) if lanes else ("",) * n,
    )


def trace(*steps: tuple[Kind, str], **more: str) -> Trace:
    tid = trace_id("test", "one")
    spans = tuple(
        Span(trace_id=tid, span_id=SpanId(f"s{i}"), seq=i, kind=kind, name=name, **more)  # type: ignore[arg-type]
        for i, (kind, name) in enumerate(steps)
    )
    return Trace(Head(trace_id=tid, episode=episode_id("test", "one"), task="t"), spans, {})


def test_by_hand() -> None:
    found = diverge(reading("a", "b", "c", "d"), reading("a", "b", "x", "d", "e"))
    assert found.d_norm == pytest.approx(2 / 5)
    assert found.edits == (1, 1, 0)
    assert (found.t_star, found.t_star_norm) == (2, 2 / 5)
    assert found.lanes == 1


def test_nothing_differs_and_nothing_is_there() -> None:
    for one, d_norm in ((reading("a", "b"), 0.0), (reading(), None)):  # no steps captured is not "the same steps"
        found = diverge(one, one)
        assert (found.d_norm, found.t_star, found.t_star_norm) == (d_norm, None, None)
    gone = diverge(reading("a", "b"), reading())
    assert (gone.d_norm, gone.t_star, gone.t_star_norm, gone.edits) == (1.0, 0, 0.0, (0, 0, 2))
    longer = diverge(reading("a"), reading("a", "b"))
    assert (longer.t_star, longer.t_star_norm) == (1, 0.5)


def test_the_scheduler_is_no_divergence() -> None:
    one = reading("a", "x", "b", "y", lanes=["l", "r", "l", "r"])
    two = reading("x", "y", "a", "b", lanes=["r", "r", "l", "l"])
    assert diverge(one, two).d_norm == 0.0
    assert diverge(one, two).t_star is None
    assert diverge(one, two, by_lane=False).d_norm > 0
    assert distances([one], [two], Alphabet()).d_norm[0, 0] == 0.0


def test_lanes_add_up() -> None:
    one = reading("a", "x", "b", "y", "c", lanes=["l", "r", "l", "r", "l"])
    two = reading("a", "x", "b", "z", "z", lanes=["l", "r", "l", "r", "r"])
    found = diverge(one, two)
    assert found.lanes == 2
    assert found.d_norm == pytest.approx((1 + 2) / (3 + 3))  # l: c deleted; r: y became z, z inserted
    assert found.t_star == 3
    assert found.t_star_norm == 3 / 5
    everything = distances([one], [two], Alphabet())
    assert everything.d_norm[0, 0] == found.d_norm
    assert everything.t_star_norm[0, 0] == found.t_star_norm
    assert sorted(s.first for s in found.alignment if s.first is not None) == [0, 1, 2, 3, 4]


def test_lanes_that_are_named_anew_each_time_find_their_like() -> None:
    one = reading("a", "x", "b", "y", lanes=["0x1", "0x2", "0x1", "0x2"])
    two = reading("x", "a", "y", "b", lanes=["0x8", "0x9", "0x8", "0x9"])
    assert diverge(one, two).d_norm == 0.0
    alone = reading("a", "b", lanes=["0x7", "0x7"])
    assert diverge(one, alone).d_norm == pytest.approx(2 / 4)


def known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def test_repeats_without_steps_are_alike_only_where_capture_works() -> None:
    some, none = reading("a", "b"), reading()
    assert repeat_distances([some, none, none], Alphabet()).d_norm.tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    nothing = repeat_distances([none, none], Alphabet()).d_norm
    assert np.isnan(nothing).all()
    floor = noise_floor([nothing])
    assert (floor.measured, floor.pairs, floor.max, floor.without_steps) == (False, 0, None, 1)
    assert "no steps captured" in (warning(floor) or "")
    assert against_floor(None, [0.1, 0.2]) == AgainstFloor()
    assert against_floor(1.0, nothing[0, 1:]).within_noise_floor is False  # the other run has steps: capture works


LANED = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("lr")), max_size=9)


@given(LANED, LANED)
@QUICK
def test_the_distance_is_that_of_the_alignment(a: list[tuple[str, str]], b: list[tuple[str, str]]) -> None:
    """d_norm and t* are measured without an alignment; the one that is computed later must tell the same."""
    both = [("a", "l"), ("a", "r")]  # the same two lanes on each side
    one, two = (reading(*(x for x, _ in side), lanes=[y for _, y in side]) for side in (both + a, both + b))
    by_lane = sum(max(one.lanes.count(lane), two.lanes.count(lane)) for lane in "lr")
    for found, longer in ((diverge(one, two), by_lane), (diverge(one, two, by_lane=False), max(len(one), len(two)))):
        edits = [step for step in found.alignment if step.sign != "="]
        assert found.d_norm == pytest.approx(len(edits) / longer)
        assert found.edits.distance == len(edits)
        assert (found.t_star is None) == (not edits)


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
@QUICK
def test_many_at_once_are_the_same_as_one_by_one(a: list[str], b: list[str]) -> None:
    one, two = reading(*a), reading(*b)
    found, every = diverge(one, two), distances([one], [two], Alphabet())
    assert known(every.d_norm[0, 0]) == found.d_norm
    start = every.t_star_norm[0, 0]
    assert known(start) == found.t_star_norm
    compat = first_aligned(one, two)
    assert (compat is None) == (not found.d_norm)
    assert compat is None or 0 <= compat.position < 1


LANED = st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=8), max_size=3)


@given(LANED, LANED)
@QUICK
def test_lanes_of_many_at_once_are_the_same_as_one_by_one(a: list[list[tuple[str, str]]], b: list[list[Any]]) -> None:
    """Lanes that both have, that one lacks, and that must find their like; none, one and several of them."""
    first, second = ([reading(*(s for s, _ in r), lanes=[n for _, n in r]) for r in side] for side in (a, b))
    every = distances(first, second, Alphabet())
    for i, one in enumerate(first):
        for j, two in enumerate(second):
            found, start = diverge(one, two), every.t_star_norm[i, j]
            assert known(every.d_norm[i, j]) == found.d_norm
            assert known(start) == found.t_star_norm


def test_the_compatibility_reading_can_be_earlier_than_t_star() -> None:
    one, two = reading("a", "b"), reading("a", "b", "a", "b")
    assert diverge(one, two).t_star == 2
    compat = first_aligned(one, two)
    assert compat is not None
    assert (compat.at, compat.sign, compat.first, compat.second) == (0, "+", None, 0)
    assert compat.type == "event_missing_in_clean"


def test_signatures_by_name_and_of_ones_own() -> None:
    run = trace(("model", "chat"), ("tool", "ring"))
    assert read_positions(run).signatures == ("model:chat:-:-", "tool:ring")
    assert read_positions(run, "steps", named_signature("kind")).signatures == ("model", "tool")
    assert read_positions(run, "steps", named_signature("name")).signatures == ("model:chat", "tool:ring")
    assert read_positions(run, "steps", lambda s: s.name[0]).signatures == ("c", "r")
    assert read_positions(run, "steps", lambda s, t: f"{t.head.task}{s.seq}").signatures == ("t0", "t1")
    failed = trace(("tool", "ring"), status="error")
    assert read_positions(failed).signatures == ("tool:ring:error",)
    assert read_positions(failed).failed == (True,)


def test_bad_signatures_are_said_in_one_sentence() -> None:
    run = trace(("tool", "ring"))
    with pytest.raises(NotFound, match="did you mean 'structural'"):
        named_signature("structual")
    with pytest.raises(BadUsage, match="a signature is text"):
        read_positions(run, "steps", lambda s: 3)  # type: ignore[arg-type, return-value]
    with pytest.raises(BadInput, match="failed on a tool step: ZeroDivisionError"):
        read_positions(run, "steps", lambda s: str(1 / 0))
    with pytest.raises(BadUsage, match="no reading 'words'"):
        read_positions(run, "words")
    with pytest.raises(BadUsage, match="its own signature"):
        read_positions(run, "messages", named_signature("kind"))


def test_messages_have_their_own_signature() -> None:
    found = of_messages(
        [
            Message("system", (Text("s"),)),
            Message("user", (Text("u"),)),
            Message("assistant", (ToolCall("ring"), ToolCall("knock"))),
            Message("tool", (ToolResult("ding", "ring", failed=True),)),
            Message("assistant", (Text("done"),)),
        ]
    )
    assert found.signatures == ("system", "user", "assistant:ring,knock", "tool:ring", "assistant")
    assert found.failed == (False, False, False, True, False)
    assert found.count("model") == 2


def test_traxr_signatures_fall_back_where_there_is_no_event() -> None:
    run = trace(("tool", "ring"))
    assert read_positions(run, "steps", named_signature("traxr")).signatures == ("tool:ring",)
    odd = Trace(
        run.head, tuple(Span(**{**_fields(s), "attributes": Ref("r")}) for s in run.spans), {Ref("r"): "[1, 2]"}
    )
    assert read_positions(odd, "steps", named_signature("traxr")).signatures == ("tool:ring",)


def _fields(span: Span) -> dict[str, object]:
    return {f: getattr(span, f) for f in span.__struct_fields__}


# the floor


def square(values: Sequence[float]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    x = np.array(values)
    return np.abs(x[:, None] - x[None, :])


def test_a_floor_is_all_pairs_and_every_task_counts_once() -> None:
    floor = noise_floor([square([0, 0.2, 0.4]), square([0, 0.1]), square([0.0])])
    assert (floor.runs, floor.tasks, floor.pairs, floor.reruns) == (6, 3, 4, 1)
    assert floor.mean == pytest.approx(((0.2 + 0.4 + 0.2) / 3 + 0.1) / 2)
    assert floor.max == pytest.approx(0.4)
    assert warning(floor) is not None
    assert "50 %" in str(warning(floor))


def test_an_unmeasured_floor_is_said_loudly() -> None:
    floor = noise_floor([square([0.0]), square([0.0])])
    assert not floor.measured
    assert floor.mean is None
    assert "was not measured" in str(warning(floor))
    assert against_floor(0.3, []).within_noise_floor is None
    sound = NoiseFloor(runs=6, tasks=1, pairs=15, reruns=5, mean=0.1, q95=0.2, max=0.3)
    assert warning(sound) is None


def test_a_pair_is_held_against_its_own_baseline_run() -> None:
    inside, edge, above = (against_floor(d, [0.1, 0.2, 0.3]) for d in (0.15, 0.3, 0.31))
    assert (inside.within_noise_floor, inside.tail_probability) == (True, 3 / 4)
    assert (edge.within_noise_floor, edge.tail_probability) == (True, 2 / 4)
    assert (above.within_noise_floor, above.tail_probability) == (False, 1 / 4)
    assert above.floor_max == 0.3
    assert against_floor(0.0, [0.0, 0.0]).within_noise_floor is True


# K against K


def runs(rng: np.random.Generator, k: int, think: float) -> list[Reading]:
    found = []
    for _ in range(k):
        steps: list[str] = []
        for _ in range(int(rng.integers(8, 14))):
            steps.append(str(rng.choice(["look", "act"])))
            if rng.random() < think:
                steps.append("think")
        found.append(reading(*steps))
    return found


def test_more_thinking_is_found_and_named() -> None:
    rng = np.random.default_rng(0)
    base = {f"t{t}": runs(rng, 4, 0.1) for t in range(8)}
    candidate = {f"t{t}": runs(rng, 4, 0.6) for t in range(8)}
    found = k_by_k(base, candidate, draws=999)
    assert found is not None
    assert found.verdict == "different"
    assert found.steps[0].signature == "think"
    assert found.steps[0].p_value <= 0.01
    assert found.steps[0].candidate > found.steps[0].base
    assert found.steps[0].edited_between is not None
    assert found.steps[0].edited_between > 0
    assert found.effect.value is not None
    assert found.effect.low is not None
    assert found.effect.low > 0
    assert found.length_ratio.low is not None
    assert found.length_ratio.low > 1
    assert found.between.high is not None
    assert found.between.high <= 1
    assert found.t_star_between.pairs == 8 * 16
    assert found.t_star_within.pairs == 8 * 12
    assert all(0 <= t.q_value <= 1 and t.q_value >= t.p_value for t in found.tasks.values())
    assert "think" in found.evidence
    again = k_by_k(base, candidate, draws=999)
    assert again == found
    other = k_by_k(base, candidate, draws=999, seed=1)
    assert other is not None
    assert other.verdict == "different"


def test_a_changed_order_is_found_by_distance() -> None:
    base = {f"t{t}": [reading(*"abcabcabc")] * 4 for t in range(3)}
    candidate = {f"t{t}": [reading(*"aaabbbccc")] * 4 for t in range(3)}
    found = k_by_k(base, candidate, draws=999)
    assert found is not None
    assert found.tests.same_way == found.tests.own_way == 1.0
    assert found.tests.distance <= 0.01
    assert found.verdict == "different"
    assert "distance between runs exceeds" in found.evidence


def test_the_same_agent_is_undecided_never_the_same() -> None:
    rng = np.random.default_rng(1)
    base = {f"t{t}": runs(rng, 3, 0.2) for t in range(5)}
    candidate = {f"t{t}": runs(rng, 3, 0.2) for t in range(5)}
    found = k_by_k(base, candidate, draws=499)
    assert found is not None
    assert found.verdict == "undecided"
    assert "does not show that the runs are the same" in found.evidence


def test_too_few_runs_say_so() -> None:
    one = k_by_k({"t": [reading("a", "b")]}, {"t": [reading("x")]}, draws=99)
    assert one is not None
    assert one.verdict == "undecided"
    assert "too few attempts" in one.evidence
    assert one.effect.value is None
    assert one.effect.why
    assert one.between.value == 1.0
    assert one.between.low is None
    assert k_by_k({"t": []}, {"t": [reading("a")]}) is None
    assert k_by_k({"t": [reading("a")]}, {"u": [reading("a")]}) is None


def test_the_least_p_is_one_over_the_ways_to_deal() -> None:
    assert least_p([(3, 3)]) == pytest.approx(2 / 20)
    assert least_p([(2, 2)] * 2) == pytest.approx(2 / 36)
    assert least_p([(1, 3), (2, 2)]) == pytest.approx(1 / 24)
    assert least_p([(1, 1)]) == 1.0


def test_rare_signatures_are_counted_together() -> None:
    many = [reading(*(f"s{i}" for i in range(80)))] * 2
    found = k_by_k({"t": many}, {"t": many}, draws=99)
    assert found is not None
    names = {s.signature for s in found.steps}
    assert {LENGTH, OTHER} <= names
    assert len(names) == MOST_FEATURES + 2
    assert next(s for s in found.steps if s.signature == OTHER).base == 80 - MOST_FEATURES


def test_empty_traces_are_runs_too() -> None:
    found = k_by_k({"t": [reading(), reading()]}, {"t": [reading(), reading("a")]}, draws=99)
    assert found is not None
    assert found.tasks["t"].between == 0.5
    assert found.t_star_between.never == 2
