"""Ids that anyone can derive again, and records that hold what they promise."""

from __future__ import annotations

import math
from hashlib import blake2b

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.traces import (
    REASONS,
    SUCCESS_AT,
    Label,
    Missing,
    Outcome,
    Scored,
    Span,
    SpanId,
    TraceId,
    digest,
    episode_id,
    short_id,
    text_ref,
    trace_id,
)

QUICK = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def test_addresses_are_those_that_coreutils_gives() -> None:
    """Made with `printf … | b2sum -l 128`."""
    assert text_ref("hello") == "b2:46fb7408d4f285228f4af516ea25851b"
    assert text_ref("") == "b2:cae66941d9efbd404e4d88758ea67670"
    assert trace_id("a") == "b2:3ff2292be37f92d30449cb7f1be6f5fd"


@QUICK
@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_no_two_lists_of_parts_share_a_digest(one: list[str], two: list[str]) -> None:
    assert (digest(*one) == digest(*two)) == (one == two)


def test_where_one_part_ends_matters() -> None:
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", ""), digest("", "abc")}) == 5
    assert digest("ü") == digest("ü".encode())
    assert str(trace_id("x")) != str(episode_id("x"))


def test_half_characters_have_an_address_too() -> None:
    expected = blake2b("\ud800".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    assert text_ref("\ud800") == f"b2:{expected}"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_an_absent_score_is_not_a_number(value: float) -> None:
    with pytest.raises(ValueError, match="use Missing"):
        Scored(value)


@pytest.mark.parametrize("text", [b'{"outcome":"scored","value":1e999}', b'{"outcome":"missing","reason":"mood"}'])
def test_stored_outcomes_are_checked_when_read(text: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Outcome)


def test_success_begins_at_the_threshold() -> None:
    assert [Scored(v).success(SUCCESS_AT) for v in (0.0, 0.49, 0.5, 1.0)] == [False, False, True, True]
    assert [Scored(v).success(0.8) for v in (0.5, 0.79, 0.8)] == [False, False, True]
    for outcome in (Scored(0.25, "verifier"), *(Missing(r, "why") for r in REASONS)):
        assert msgspec.json.decode(msgspec.json.encode(outcome), type=Outcome) == outcome  # type: ignore[arg-type]


def test_records_are_frozen() -> None:
    span = Span(trace_id=TraceId("t"), span_id=SpanId("s"), seq=0, kind="tool", name="ring")
    label = Label(trace_id=TraceId("t"), name="loud", value=True, by="ear", source="hand")
    for record, field in ((span, "name"), (label, "value"), (Scored(1.0), "value")):
        with pytest.raises(AttributeError):
            setattr(record, field, "other")


def test_a_span_lasts_only_where_both_ends_are_in_order() -> None:
    def lasting(start: int | None, end: int | None) -> float | None:
        span = Span(
            trace_id=TraceId("t"), span_id=SpanId("s"), seq=0, kind="tool", name="x", start_ns=start, end_ns=end
        )
        return span.seconds

    assert [lasting(1, 1_500_000_001), lasting(5, 5)] == [1.5, 0.0]
    assert [lasting(5, 1), lasting(None, 1), lasting(1, None)] == [None, None, None]


def test_the_start_of_an_id_is_as_long_as_it_takes() -> None:
    known = text_ref("words")
    assert short_id(known) == known[3:15]
    assert short_id(known, 10) == short_id(short_id(known), 10) == known[3:13]
