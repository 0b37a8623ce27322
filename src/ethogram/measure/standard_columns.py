"""The arithmetic of the standard field: columns of steps in, one number per trace out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .columns import Bools, Floats, Ints, floats
from .standard import tool_classes
from .standard_stream import CHUNK, coded, codes_of, encoded, whole_traces

COLUMNS = (
    "trace_id", "step", "kind", "name", "tool", "status", "lane", "arguments", "stop_reason", "start_ns", "end_ns",
)  # fmt: skip
"""What has to be read of the spans that are steps."""

WIDEST = 1 << 22
LONGEST_CYCLE = 3
LENGTH_STOPS = frozenset({"length", "maxtokens", "maxoutputtokens", "tokenlimit", "modellength", "contextlength"})

_COUNTED = {"model_calls": "model", "tool_calls": "tool", "user_turns": "user", "handoffs": "handoff"}
_COUNTED |= {"retrievals": "retrieval", "memory_steps": "memory"}
_BY_CLASS = {"reads": "read", "writes": "write", "transfers": "transfer", "file_reads": "file_read"}
_BY_CLASS |= {"file_edits": "file_edit", "searches": "search", "commands": "command", "test_runs": "test"}
_BY_CLASS |= {"page_visits": "visit", "clicks": "click", "entries": "typed", "scrolls": "scroll"}
_BY_CLASS |= {"returns": "back", "page_reads": "look"}
_OTHERS = (
    "steps", "distinct_tools", "errors", "error_streak", "repeats", "backtracks", "longest_streak", "longest_loop",
    "failed_writes", "unconfirmed_writes", "looks_before_edit", "length_stops", "ended_on_tool", "ended_on_error",
    "tool_time_share",
)  # fmt: skip

_NO_STATUS = "no step says whether it went well"
_NO_ARGUMENTS = "no tool call records its arguments"
_NO_STOP = "no model step says why it stopped"
_NEEDS = {
    "errors": _NO_STATUS, "error_streak": _NO_STATUS, "failed_writes": _NO_STATUS, "ended_on_error": _NO_STATUS,
    "repeats": _NO_ARGUMENTS, "longest_loop": _NO_ARGUMENTS, "length_stops": _NO_STOP,
}  # fmt: skip


class Tally(NamedTuple):
    """One value per trace and dimension; why a dimension says nothing; the tools that were called."""

    values: dict[str, Floats]
    unrecorded: dict[str, str]
    tools: tuple[str, ...]


class _Steps(NamedTuple):
    """Steps of whole traces, by trace and position. `call` is -1 where no arguments are known, `tool` off tools."""

    n: int
    trace: Ints
    starts: Ints
    kind: dict[str, Bools]
    tool: Ints
    names: list[str]
    failed: Bools
    lane: Ints
    call: Ints
    cut: Bools
    seconds: Floats
    told: set[str]


def tally(batches: Iterable[Any], traces: Sequence[str], steps: Ints, chunk: int = CHUNK) -> Tally:
    """All dimensions that steps tell of these traces; `steps` is how many each has."""
    names = (*_COUNTED, *_BY_CLASS, *_OTHERS)
    values: dict[str, Floats] = {n: np.zeros(len(traces)) for n in names}
    values["tool_time_share"][:] = np.nan
    told: set[str] = set()
    tools: set[str] = set()
    for rows, table, where in whole_traces(batches, traces, steps, chunk):
        part = _steps_of(table, where)
        for name, value in _measured(part).items():
            values[name][rows] = value
        told |= part.told
        tools.update(part.names)
    values["steps"] = steps.astype(np.float64)
    called = bool(values["tool_calls"].any())
    missing = {name: why for name, why in _NEEDS.items() if why not in told and (why != _NO_ARGUMENTS or called)}
    return Tally(values, missing, tuple(sorted(tools)))


def _steps_of(table: Any, trace: npt.NDArray[np.int64]) -> _Steps:
    kinds, kind = coded(table.column("kind"))
    is_kind = {k: kind == kinds.index(k) if k in kinds else np.zeros(trace.size, dtype=bool) for k in _COUNTED.values()}
    calls = is_kind["tool"]
    names, own = _tools(table, calls)
    statuses, status = coded(table.column("status"))
    failed = status == statuses.index("error") if "error" in statuses else np.zeros(trace.size, dtype=bool)
    content = codes_of(encoded(table.column("arguments")))
    known = calls & (content >= 0)
    call = np.where(known, content.astype(np.int64) * max(len(names), 1) + own, -1)
    stops, stop = coded(table.column("stop_reason"))
    long = np.array([_letters(s) in LENGTH_STOPS for s in stops] + [False], dtype=bool)
    _, lane = coded(table.column("lane"))
    told = {
        why
        for why, is_told in (
            (_NO_STATUS, set(statuses) & {"ok", "error"}),
            (_NO_ARGUMENTS, known.any()),
            (_NO_STOP, bool(stops)),
        )
        if is_told
    }
    starts = np.flatnonzero(np.concatenate([[True], np.diff(trace) != 0]))
    return _Steps(
        n=starts.size,
        trace=trace,
        starts=starts,
        kind=is_kind,
        tool=own,
        names=names,
        failed=failed,
        lane=lane.astype(np.int64),
        call=call,
        cut=is_kind["model"] & long[stop],
        seconds=_durations(table),
        told=told,
    )


def _tools(table: Any, calls: Bools) -> tuple[list[str], Ints]:
    """The tools that are called, and which one each step calls, -1 off tools; the span's name stands for none given."""
    names, tool = coded(table.column("tool"))
    nameless = calls & (tool < 0)
    if nameless.any():
        more, name = coded(table.column("name"))
        tool = np.where(nameless, name + len(names), tool)
        names = [*names, *more]
    # the last place is that of no tool, where -1 points
    seen = np.bincount(np.where(calls, tool, len(names)), minlength=len(names) + 1)[:-1] > 0
    distinct = sorted({names[i] for i in np.flatnonzero(seen)})
    place = {n: i for i, n in enumerate(distinct)}
    code = np.array([*(place.get(n, -1) for n in names), -1], dtype=np.int64)
    return distinct, np.where(calls, code[tool], -1)


def _measured(s: _Steps) -> dict[str, Floats]:
    """Every dimension of every trace at hand."""

    def count(mask: Bools) -> Floats:
        return floats(_sums(mask, s))

    is_tool = s.kind["tool"]
    of_class = _class_masks(s)
    out = {name: count(s.kind[kind]) for name, kind in _COUNTED.items()} | _by_tool(s)
    out["errors"] = count(s.failed)
    out["length_stops"] = count(s.cut)
    out["failed_writes"] = count(of_class["write"] & s.failed)
    known = s.call >= 0
    out["repeats"] = count(known) - _distinct(s.trace[known], s.call[known], s.n)
    ends = np.append(s.starts[1:], s.trace.size) - 1
    out["ended_on_tool"] = is_tool[ends].astype(np.float64)
    out["ended_on_error"] = s.failed[ends].astype(np.float64)
    out["unconfirmed_writes"] = count(of_class["write"] & ~_asked_before(s))
    out["looks_before_edit"] = _before_first(of_class["file_read"] | of_class["search"], of_class["file_edit"], s)
    out |= _in_a_row(s)
    out["tool_time_share"] = _time_share(s)
    return out


def _sums(values: Any, s: _Steps) -> Any:
    """Sums per trace; rows of a trace lie together, which is several times faster than scattering them."""
    if values.dtype == np.bool_:
        return np.add.reduceat(values.view(np.int8), s.starts, dtype=np.int32)
    return np.add.reduceat(values, s.starts)


def _by_tool(s: _Steps) -> dict[str, Floats]:
    """Calls by class of tool, and how many different tools: from a table of traces × tools, unless that is too wide."""
    rows = np.flatnonzero(s.kind["tool"])
    trace, tool, width = s.trace[rows], s.tool[rows], len(s.names)
    weights = {
        name: np.array([c in tool_classes(n) for n in s.names], dtype=np.float64) for name, c in _BY_CLASS.items()
    }
    if s.n * width > WIDEST:
        masked = {name: floats(np.bincount(trace, weights=w[tool], minlength=s.n)) for name, w in weights.items()}
        return masked | {"distinct_tools": _distinct(trace, tool, s.n)}
    counts = np.bincount(trace * width + tool, minlength=s.n * width).reshape(s.n, width).astype(np.float64)
    out = {name: counts @ w for name, w in weights.items()}
    return out | {"distinct_tools": (counts > 0).sum(axis=1).astype(np.float64)}


def _class_masks(s: _Steps) -> dict[str, Bools]:
    classes = [tool_classes(n) for n in s.names]
    masks = {}
    for c in ("write", "file_read", "search", "file_edit"):
        own = np.array([c in found for found in classes] + [False], dtype=bool)
        masks[c] = own[s.tool]
    return masks


def _distinct(trace: Ints, value: Ints, n: int) -> Floats:
    """How many different values each trace has."""
    if trace.size == 0:
        return np.zeros(n)
    base = int(value.max()) + 1
    key = trace * base + value
    # half the bytes, half the time
    key = np.sort(key.astype(np.int32) if n * base < 1 << 31 else key)
    new = np.concatenate([[True], np.diff(key) != 0])
    return np.bincount(key[new] // base, minlength=n).astype(np.float64)


def _asked_before(s: _Steps) -> Bools:
    """Whether a user spoke between a step and the tool call before it, in the same trace."""
    if not s.kind["user"].any():
        return np.zeros(s.trace.size, dtype=bool)
    at = np.arange(s.trace.size)
    first = s.starts[s.trace]
    user = np.maximum.accumulate(np.where(s.kind["user"], at, -1))
    tool = np.maximum.accumulate(np.where(s.kind["tool"], at, -1))
    before = np.concatenate([[-1], tool[:-1]])
    return (user >= first) & (user > np.where(before >= first, before, first - 1))


def _before_first(what: Bools, bound: Bools, s: _Steps) -> Floats:
    """How many of one kind come before the first of another, trace by trace."""
    passed = np.cumsum(bound, dtype=np.int32)
    earlier = passed[s.starts] - bound[s.starts]
    return floats(_sums(what & (passed == earlier[s.trace]), s))


def _in_a_row(s: _Steps) -> dict[str, Floats]:
    """What needs the order of tool calls, lane by lane."""
    rows = np.flatnonzero(s.kind["tool"])
    none = {name: np.zeros(s.n) for name in ("error_streak", "backtracks", "longest_streak", "longest_loop")}
    if rows.size == 0:
        return none
    if s.lane.max() > 0:
        rows = rows[np.lexsort((rows, s.lane[rows], s.trace[rows]))]
    trace, tool, call, failed = s.trace[rows], s.tool[rows], s.call[rows], s.failed[rows]
    # the first row of every lane: nothing before it counts
    fresh = np.concatenate([[True], (np.diff(trace) != 0) | (np.diff(s.lane[rows]) != 0)])
    begins = np.flatnonzero(fresh)
    age = np.arange(rows.size) - np.repeat(begins, np.diff(np.append(begins, rows.size)))

    def same(column: Ints, back: int) -> Bools:
        equal = np.zeros(rows.size, dtype=bool)
        equal[back:] = (column[back:] == column[:-back]) & (column[back:] >= 0)
        return equal & (age >= back)

    longest = _longest(trace, fresh, s.n)
    again, twice = same(tool, 1), same(tool, 2)
    streak = longest(again) + 1.0
    streak[np.bincount(trace, minlength=s.n) == 0] = 0.0
    loop = np.zeros(s.n)
    for cycle in range(1, LONGEST_CYCLE + 1):
        run = longest(same(call, cycle))
        # a cycle counts once it has come round in full
        loop = np.maximum(loop, np.where(run >= cycle, run + cycle, 0.0))
    returned = np.bincount(trace[twice & ~again], minlength=s.n).astype(np.float64)
    return {
        "error_streak": longest(failed),
        "backtracks": returned,
        "longest_streak": streak,
        "longest_loop": loop,
    }


def _longest(trace: Ints, fresh: Bools, n: int) -> Callable[[Bools], Floats]:
    """A function that gives the longest run of trues per trace; runs end where a lane does."""

    def longest(mask: Bools) -> Floats:
        out = np.zeros(n)
        begins = mask & np.concatenate([[True], ~mask[:-1] | fresh[1:]])
        begin = np.flatnonzero(begins)
        if begin.size == 0:
            return out
        total = np.cumsum(mask, dtype=np.int32)
        lengths = np.append(total[begin[1:] - 1], total[-1]) - total[begin] + 1
        owner = trace[begin]
        first = np.flatnonzero(np.concatenate([[True], np.diff(owner) != 0]))
        out[owner[first]] = np.maximum.reduceat(lengths, first)
        return out

    return longest


def _time_share(s: _Steps) -> Floats:
    """Seconds in tools over seconds in all steps; NaN where a model or tool step has no times.

    A log whose model steps all take no time has moments, not durations, and says nothing either.
    """
    unknown = np.isnan(s.seconds)
    if unknown.all():
        return np.full(s.n, np.nan)
    timed = np.where(unknown, 0.0, s.seconds)
    whole, tools, asked = (_sums(part, s) for part in (timed, timed * s.kind["tool"], timed * s.kind["model"]))
    absent = _sums(unknown & (s.kind["tool"] | s.kind["model"]), s) > 0
    absent |= (asked == 0) & (_sums(s.kind["model"], s) > 0)
    share = np.divide(tools, whole, out=np.full(s.n, np.nan), where=whole > 0)
    return np.where(absent, np.nan, share)


def _durations(table: Any) -> Floats:
    """Seconds of each step, NaN where an end is missing or before the start; subtracted as whole nanoseconds."""
    import pyarrow.compute as pc

    start, end = table.column("start_ns"), table.column("end_ns")
    if len(start) in (start.null_count, end.null_count):
        return np.full(len(start), np.nan)
    spent = pc.subtract(end, start)
    whole = spent.fill_null(-1).to_numpy()
    return np.where(whole >= 0, whole / 1e9, np.nan)


def _letters(reason: str) -> str:
    return "".join(c for c in reason.lower() if c.isalpha())
