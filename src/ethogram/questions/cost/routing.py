"""Routing some steps to another model: cost from the same tokens, resolution as a variable, and the break-even.

Routing is judged by cost per resolved task: a run that is cheaper and resolves less may be dearer. The tokens and the
cache shares of a step are taken to stay as they are; whether resolution holds must be measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from ethogram.errors import BadUsage
from ethogram.prices.prices import PER, Rates
from ethogram.prices.usage import CLASSES, Bools, Calls, Floats


class Assumed(msgspec.Struct, frozen=True, kw_only=True):
    """A run as one imagines it: steps, input and output tokens of each, and the share of input that is cached."""

    steps: float
    input: float
    output: float
    cached: float = 0.0
    written: float = 0.0
    reasoning: float = 0.0


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Where some steps go: a class of step (after one tool, if that is named), some steps of a run, or a share."""

    what: str
    model: str
    kind: str | None = None
    tool: str | None = None
    steps: float | None = None
    share: float | None = None


def parse_route(text: str) -> Route:
    """`WHAT=MODEL`: a class of step, `after-tool:NAME`, a number of steps of each run, or a share such as `70%`."""
    what, _, model = (part.strip() for part in text.partition("="))
    if not what or not model:
        raise BadUsage(f"--route {text!r} is not WHAT=MODEL, e.g. after-tool=small or 14=small")
    kind, _, tool = what.partition(":")
    if kind in CLASSES:
        if tool and kind not in ("after-tool", "after-error"):
            raise BadUsage(f"--route {text!r}: only after-tool and after-error name a tool")
        return Route(what=what, model=model, kind=kind, tool=tool or None)
    number = what.removesuffix("%")
    try:
        value = float(number)
    except ValueError:
        known = ", ".join(CLASSES)
        raise BadUsage(
            f"--route {text!r}: {what!r} is not a class of step ({known}), number of steps, or share such as 70%"
        ) from None
    if what.endswith("%"):
        if not 0 <= value <= 100:
            raise BadUsage(f"--route {text!r}: a share lies between 0% and 100%")
        return Route(what=what, model=model, share=value / 100)
    if not 0 <= value < float("inf"):
        raise BadUsage(f"--route {text!r}: a number of steps is at least 0")
    return Route(what=what, model=model, steps=value)


def parse_assumed(text: str) -> Assumed:
    """`steps=20,input=12000,output=700,cached=0.6`: steps of a run, tokens of a step; cached and written are shares."""
    values: dict[str, float] = {}
    fields = Assumed.__struct_fields__
    for part in text.split(","):
        name, _, number = (p.strip() for p in part.partition("="))
        if name not in fields:
            raise BadUsage(f"--assume: {name or part!r} is not one of {', '.join(fields)}")
        try:
            values[name] = float(number)
        except ValueError:
            raise BadUsage(f"--assume: {name}={number!r} is not a number") from None
        if not 0 <= values[name] < float("inf"):
            raise BadUsage(f"--assume: {name} must be a number of at least 0")
    lacking = [n for n in ("steps", "input", "output") if n not in values]
    if lacking:
        raise BadUsage(f"--assume lacks {lacking[0]}; give steps, input and output, and cached if any is")
    if values.get("cached", 0.0) + values.get("written", 0.0) > 1:
        raise BadUsage("--assume: cached and written are shares of the input and cannot be above 1 together")
    return Assumed(**values)


def step_cost(assumed: Assumed, rates: Rates) -> float:
    """Dollars of one assumed step."""
    fresh = 1 - assumed.cached - assumed.written
    per_input = fresh * rates.fresh + assumed.cached * rates.cached + assumed.written * rates.cache_write
    thought = min(assumed.reasoning, assumed.output)
    spoken = assumed.output - thought
    return (assumed.input * per_input + spoken * rates.output + thought * rates.reasoning) / PER + rates.per_call


def routed_assumed(assumed: Assumed, base: Rates, routes: Sequence[tuple[Route, Rates]]) -> float:
    """Dollars of one assumed run after routing."""
    left = assumed.steps
    total = 0.0
    for route, rates in routes:
        if route.kind is not None:
            raise BadUsage(f"--route {route.what}={route.model}: assumed steps have no class; give a number or a share")
        moved = route.steps if route.steps is not None else (route.share or 0.0) * assumed.steps
        left -= moved
        total += moved * step_cost(assumed, rates)
    if left < -1e-9:
        raise BadUsage(f"more steps are routed than the {assumed.steps:g} that an attempt has")
    return total + max(left, 0.0) * step_cost(assumed, base)


def matches(calls: Calls, tools: Sequence[str], route: Route) -> Bools:
    """The calls of a class of step."""
    assert route.kind is not None
    found: Bools = calls.kind == CLASSES.index(route.kind)
    if route.tool is not None:
        if route.tool not in tools:
            raise BadUsage(f"--route {route.what}={route.model}: no step uses a tool named {route.tool!r}")
        found &= calls.after == tools.index(route.tool)
    return found


def routed_calls(
    calls: Calls, tools: Sequence[str], cost: Floats, routes: Sequence[Route], priced: Mapping[str, Floats]
) -> tuple[Floats, Floats]:
    """What every call costs after routing, and the share of it that moved; `priced[model]` is its cost there.

    Classes of step are taken first, in the order given; numbers and shares then apply to the steps that are left.
    """
    routed, moved, free = cost.copy(), np.zeros(cost.size), np.ones(cost.size, dtype=bool)
    for route in routes:
        if route.kind is not None:
            chosen = matches(calls, tools, route) & free
            routed[chosen], moved[chosen] = priced[route.model][chosen], 1.0
            free &= ~chosen
    left = np.bincount(calls.trace, weights=free, minlength=1 if not calls.trace.size else int(calls.trace.max()) + 1)
    rest = np.where(free, 1.0, 0.0)
    blend = np.zeros(cost.size)
    for route in routes:
        if route.kind is not None:
            continue
        if route.share is not None:
            share = np.full(cost.size, route.share)
        else:
            share = np.minimum((route.steps or 0.0) / np.maximum(left[calls.trace], 1.0), rest)
        share = np.where(free, share, 0.0)
        rest = rest - share
        blend = blend + np.where(share > 0, share * priced[route.model], 0.0)
        moved = moved + share
    if np.any(rest < -1e-9):
        raise BadUsage("the routes move more than all steps of an attempt; make the numbers or shares smaller")
    return np.where(free, np.where(rest > 0, rest * cost, 0.0) + blend, routed), moved


def break_even(cost: float, resolution: float, routed: float) -> float:
    """The resolution at which routing costs as much per resolved task as before; below it the savings are a loss."""
    return routed * resolution / cost
