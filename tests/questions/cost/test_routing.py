"""The worked example to the cent, routing of calls, and words that make no sense."""

from __future__ import annotations

import numpy as np
import pytest

from ethogram.errors import BadUsage
from ethogram.prices.prices import own_rates
from ethogram.prices.usage import CLASSES, TOKENS, Calls
from ethogram.questions.cost.routing import (
    Assumed,
    Route,
    break_even,
    parse_assumed,
    parse_route,
    routed_assumed,
    routed_calls,
    step_cost,
)

RUN = Assumed(steps=20, input=12_000, output=700, cached=0.6)
FRONTIER, MID, SMALL = own_rates(3.0, 15.0), own_rates(0.8, 4.0), own_rates(0.15, 0.6)


def test_the_worked_example():
    frontier = 20 * step_cost(RUN, FRONTIER)
    routed = routed_assumed(RUN, FRONTIER, [(parse_route("14=small"), SMALL)])
    assert round(frontier, 2) == 0.54
    assert round(frontier / 0.65, 2) == 0.83
    assert round(10_000 * frontier, 0) == 5412
    assert round(10_000 * frontier, -2) == 5400
    assert round(routed, 2) == 0.18
    assert round(routed / 0.60, 2) == 0.30
    assert round(routed / 0.20, 2) == 0.90
    assert 2.9 < frontier / routed < 3.1
    even = break_even(frontier, 0.65, routed)
    assert routed / even == pytest.approx(frontier / 0.65)
    assert round(even, 3) == 0.216
    # to the last digit, by hand: 240,000 tokens in, of which 60 % at a tenth, and 14,000 out
    assert frontier == pytest.approx((96_000 * 3 + 144_000 * 0.3 + 14_000 * 15) / 1e6, rel=1e-12)
    assert routed == pytest.approx(0.179832, rel=1e-12)
    assert 20 * step_cost(RUN, MID) == pytest.approx(0.14432, rel=1e-12)


def test_cache_writes_and_reasoning_have_rates_of_their_own():
    rates = own_rates(1.0, 10.0, cached=0.1, cache_write=2.0, reasoning=20.0)
    step = Assumed(steps=1, input=1_000_000, output=100_000, cached=0.5, written=0.25, reasoning=40_000)
    assert step_cost(step, rates) == pytest.approx(0.25 + 0.05 + 0.5 + 0.6 + 0.8)


@pytest.mark.parametrize(
    ("text", "route"),
    [
        ("14=small", Route(what="14", model="small", steps=14)),
        ("70%=a/b=c", Route(what="70%", model="a/b=c", share=0.7)),
        ("after-tool=small", Route(what="after-tool", model="small", kind="after-tool")),
        ("after-error:grep=m", Route(what="after-error:grep", model="m", kind="after-error", tool="grep")),
    ],
)
def test_routes_are_read(text, route):
    assert parse_route(text) == route


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("small", "WHAT=MODEL"),
        ("=small", "WHAT=MODEL"),
        ("after-tool=", "WHAT=MODEL"),
        ("tools=small", "is not a class of step"),
        ("first:grep=m", "only after-tool and after-error"),
        ("120%=m", "between 0% and 100%"),
        ("-1=m", "at least 0"),
    ],
)
def test_routes_that_make_no_sense(text, words):
    with pytest.raises(BadUsage, match=words):
        parse_route(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("steps=20,input=12000", "lacks output"),
        ("steps=20,input=12000,output=x", "not a number"),
        ("steps=20,in=12000", "'in' is not one of|in is not one of"),
        ("steps=20,input=1,output=1,cached=0.7,written=0.4", "above 1 together"),
        ("steps=-1,input=1,output=1", "at least 0"),
    ],
)
def test_assumptions_that_make_no_sense(text, words):
    with pytest.raises(BadUsage, match=words):
        parse_assumed(text)


def test_more_steps_than_a_run_has_cannot_be_routed():
    with pytest.raises(BadUsage, match="more steps are routed"):
        routed_assumed(RUN, FRONTIER, [(parse_route("14=small"), SMALL), (parse_route("7=small"), SMALL)])
    with pytest.raises(BadUsage, match="no class"):
        routed_assumed(RUN, FRONTIER, [(parse_route("after-tool=small"), SMALL)])


def calls(kinds: list[str], after: list[int], trace: list[int]) -> Calls:
    n = len(kinds)
    zeros, no = np.zeros(n), np.zeros(n, dtype=bool)
    at = np.arange(n)
    kind = np.asarray([CLASSES.index(k) for k in kinds])
    where = np.asarray(trace)
    known = dict.fromkeys(TOKENS, ~no)
    return Calls(
        at, where, where, at, at, at, zeros, zeros, zeros, zeros, zeros, known, zeros, no, kind, np.asarray(after)
    )


def test_calls_are_routed_by_class_then_by_share():
    some = calls(["first", "after-tool", "after-tool", "after-error"], [-1, 0, 1, 1], [0, 0, 0, 0])
    cost, cheap = np.asarray([4.0, 4.0, 4.0, 4.0]), {"s": np.ones(4), "t": np.full(4, 2.0)}

    def routed(*texts: str) -> tuple[list[float], list[float]]:
        found = routed_calls(some, ["grep", "read"], cost, [parse_route(t) for t in texts], cheap)
        return found[0].tolist(), found[1].tolist()

    assert routed("after-tool=s") == ([4, 1, 1, 4], [0, 1, 1, 0])
    assert routed("after-tool:read=s") == ([4, 4, 1, 4], [0, 0, 1, 0])
    assert routed("after-tool:read=t", "after-tool=s") == ([4, 1, 2, 4], [0, 1, 1, 0])
    assert routed("50%=s") == ([2.5] * 4, [0.5] * 4)
    assert routed("2=s") == ([2.5] * 4, [0.5] * 4)
    assert routed("after-tool=s", "1=t") == ([3, 1, 1, 3], [0.5, 1, 1, 0.5])
    assert routed("100%=s") == ([1] * 4, [1] * 4)
    assert routed("9=s") == ([1] * 4, [1] * 4)
    with pytest.raises(BadUsage, match="more than all steps"):
        routed("60%=s", "60%=t")
    with pytest.raises(BadUsage, match="no step uses a tool named 'cat'"):
        routed("after-tool:cat=s")
