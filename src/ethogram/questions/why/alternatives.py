"""What to change in an attempt that shows a cause: the step where it was decided, and what a successful attempt at the
same task has at the same place.

The place is the same where all steps before it are alike, or else where the step before it has happened as often. An
answer of a success that ends its run is never taken, since it would bring the success with it. And where the step of
an attempt is itself its last answer, the attempt is taken whether it failed or not: of failed ones alone, that answer
would be known to be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ethogram.errors import BadUsage
from ethogram.findings.finding import quoted
from ethogram.store import Run
from ethogram.traces import Trace, digest
from ethogram.wire.gateway.fork import ForkChange, fork_step, taken_change

from .causes import CauseGroup, Tested
from .decisions import Choice, step_of, step_words
from .run_findings import NEVER, AllFindings, Seen

MOST_READ = 8
"""Successful attempts that are opened for each attempt that is to be changed."""
WIDEST = 200
"""Characters of a step by which two of them are told apart, and shown."""
MISSING = "missing_call:"
_MODEL, _TOOL = "model:", "tool:"


class OtherWay(NamedTuple):
    """Another way for one attempt: `change` at step `at`, taken from step `other_at` of the trace `other`."""

    trace: str
    at: int
    change: ForkChange
    other: str
    other_at: int
    instead: str
    chosen: str


def alternatives(run: Run, found: AllFindings, group: CauseGroup) -> Iterator[OtherWay]:
    """Other ways for attempts that show a cause, one for each attempt that has any.

    The event under which the cause is named goes first; where it has none, the events beside it are asked in turn.
    """
    for tested in (group.head, *group.also):
        any_ = False
        for made in _of_event(run, found, tested):
            any_ = True
            yield made
        if any_:
            return


def _of_event(run: Run, found: AllFindings, tested: Tested) -> Iterator[OtherWay]:
    others: dict[object, list[int]] = {}
    for row, one in enumerate(found.rows):
        if one.failed is False and row not in tested.rows:
            others.setdefault(one.group, []).append(row)
    for row in sorted(tested.rows):
        known = found.rows[row]
        if known.failed is None or not others.get(known.group):
            continue
        pairs = [
            (other, at, other_at)
            for other in others[known.group]
            for at, other_at in _places(tested, row, found.paths[row], found.paths[other])
            if (known.failed or _ends(found.paths[row], at)) and not _ends(found.paths[other], other_at)
        ]
        made = _best(run, found, row, pairs) if pairs else None
        if made is not None:
            yield made


def _places(tested: Tested, row: int, path: Sequence[str], other: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The step of an attempt that decided on an event, with the same place of another attempt; what is best first."""
    seen = tested.seen
    at = step_of(seen, path) if isinstance(seen, Choice) else _seen_at(seen, row)
    if at is None:
        tool = _lacked(seen)
        if tool is not None:
            yield from _where_called(tool, path, other)
        return
    if at < len(path) and path[at].startswith(_TOOL):
        alike = tuple(other[:at]) == tuple(path[:at]) and at < len(other) and _tool(other[at]) == _tool(path[at])
        if alike and other[at] != path[at]:
            yield at, at  # the same call, and another result
    if at >= len(path) or not path[at].startswith(_MODEL):
        at = _last_reply(path, at)  # what asked for the call, or ended the run
    place = None if at is None else _same_place(path, at, other)
    if at is not None and place is not None:
        yield at, place


def _seen_at(seen: Seen, row: int) -> int | None:
    return seen.steps[seen.rows.index(row)] if row in seen.rows else None


def _lacked(seen: Seen | Choice) -> str | None:
    """The tool whose call is missing, if that is what the event says."""
    name = seen.name if isinstance(seen, Seen) else ""
    return next((name.removeprefix(head) for head in (NEVER, MISSING) if name.startswith(head)), None)


def _where_called(tool: str, path: Sequence[str], other: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The reply of another attempt that asks for a tool, and the same place of one that does not."""
    called = next((i for i, sign in enumerate(other) if sign.startswith(_TOOL) and _tool(sign) == tool), None)
    other_at = None if called is None else _last_reply(other, called)
    at = None if other_at is None else _same_place(other, other_at, path)
    if at is not None and other_at is not None:
        yield at, other_at


def _tool(sign: str) -> str:
    return sign.split(":")[1]


def _same_place(path: Sequence[str], at: int, other: Sequence[str]) -> int | None:
    """Where another attempt stands as this one does before a reply: after the same steps, or the last of them."""
    if tuple(other[:at]) == tuple(path[:at]):
        place = at
    else:
        last = path[at - 1]
        times = list(path[:at]).count(last)
        found = [i for i, sign in enumerate(other) if sign == last]
        if len(found) < times:
            return None
        place = found[times - 1] + 1
    return place if place < len(other) and other[place].startswith(_MODEL) else None


def _last_reply(path: Sequence[str], before: int) -> int | None:
    return next((i for i in reversed(range(before)) if path[i].startswith(_MODEL)), None)


def _ends(path: Sequence[str], at: int) -> bool:
    """Whether the reply of a step is the last one: what it says is the answer."""
    return at == _last_reply(path, len(path))


def _best(run: Run, found: AllFindings, row: int, pairs: list[tuple[int, int, int]]) -> OtherWay | None:
    """Of the successes at hand one that heard the same before, else any; which one has nothing to do with outcomes."""
    own = run.trace(found.rows[row].entry)
    name = own.head.trace_id
    pairs.sort(key=lambda p: digest("alternative", name, found.rows[p[0]].entry.head.trace_id))
    fallback: OtherWay | None = None
    for other, at, other_at in pairs[:MOST_READ]:
        trace = run.trace(found.rows[other].entry)
        made = _made(own, at, trace, other_at)
        if made is not None and _heard(own, at) == _heard(trace, other_at):
            return made
        fallback = fallback or made
    return fallback


def _made(own: Trace, at: int, other: Trace, other_at: int) -> OtherWay | None:
    """The change itself; None where both are the same, or where it cannot be made."""
    try:
        change = taken_change(other, other_at)
        same = _words(own, at) == _words(other, other_at)
        if same or (change.what == "result" and _asked(own, at) != _asked(other, other_at)):
            return None
        fork_step(own, at, change)
    except (BadUsage, KeyError):
        return None
    chosen, instead = step_words(other.steps[other_at]), step_words(own.steps[at])
    if change.what == "result":
        chosen, instead = _words(other, other_at), _words(own, at)
    elif chosen == instead:
        chosen, instead = (f"says {_words(trace, place)}" for trace, place in ((other, other_at), (own, at)))
    return OtherWay(own.head.trace_id, at, change, other.head.trace_id, other_at, instead, chosen)


def _asked(trace: Trace, at: int) -> str:
    span = trace.steps[at]
    return "" if span.arguments is None else trace.text(span.arguments)


def _heard(trace: Trace, at: int) -> list[object]:
    """What tools and people told an attempt before a step; equal texts have equal references."""
    return [s.result if s.kind == "tool" else s.output for s in trace.steps[:at] if s.kind in ("tool", "user")]


def _words(trace: Trace, at: int) -> str:
    """What stands at a step: a call with its result, or what a model said and asked for."""
    span = trace.steps[at]
    if span.kind == "tool":
        ref = span.error or span.result
        return f"{span.tool or span.name} gives {quoted(trace.text(ref), WIDEST) if ref is not None else 'nothing'}"
    messages = [trace.message(ref) for ref in span.output]
    calls = [f"{c.name}({c.arguments})" for m in messages for c in m.tool_calls]
    return quoted(" ".join([*(m.text for m in messages if m.text), *calls]), WIDEST)
