"""The arithmetic of the standard field: columns of steps in, one number per trace out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ethogram.arrays import plain_numbers
from ethogram.traces import is_length_stop

from .columns import Bools, Floats, Ints, as_floats
from .standard import StepDimension, plugged_dimensions, tool_classes
from .standard_stream import CHUNK, coded, codes_of, encoded, whole_traces

COLUMNS = (
    "trace_id", "step", "kind", "name", "tool", "status", "lane", "arguments", "stop_reason", "start_ns", "end_ns",
)  # fmt: skip
"""What has to be read of the spans that are steps."""

WIDEST = 1 << 22
LONGEST_CYCLE = 3

_COUNTED = {"model_calls": "model", "tool_calls": "tool", "user_turns": "user", "handoffs": "handoff"}
_COUNTED |= {"retrievals": "retrieval", "memory_steps": "memory"}
_BY_CLASS = {"reads": "read", "writes": "write", "transfers": "transfer", "file_reads": "file_read"}
_BY_CLASS |= {"file_edits": "file_edit", "searches": "search", "commands": "command", "test_runs": "test"}
_BY_CLASS |= {"page_visits": "visit", "clicks": "click", "entries": "typed", "scrolls": "scroll"}
_BY_CLASS |= {"returns": "back", "page_reads": "look"}
_OTHERS = (
    "distinct_tools", "errors", "error_streak", "repeats", "backtracks", "longest_streak", "longest_loop",
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


class StandardValues(NamedTuple):
    """One value per trace and dimension; what logs of this kind record; the tools that were called.

    `broken` says of dimensions of installed packages why they could not be computed.
    """

    values: dict[str, Floats]
    told: frozenset[str]
    tools: frozenset[str]
    broken: dict[str, str]

    @property
    def unrecorded(self) -> dict[str, str]:
        """Why a dimension says nothing."""
        called = bool(self.values["tool_calls"].any())
        silent = {n: why for n, why in _NEEDS.items() if why not in self.told and (why != _NO_ARGUMENTS or called)}
        return silent | self.broken


class StepArrays(NamedTuple):
    """Steps of whole traces, by trace and position; the rows of a trace begin at its `starts`.

    What a dimension of an installed package gets: `per_trace(which)` turns a mask over steps into one number per trace.
    """

    table: Any
    starts: Ints
    trace: Ints
    kinds: list[str]
    kind: npt.NDArray[np.int32]
    failed: Bools
    cut: Bools | None
    seconds: Floats
    told: frozenset[str]

    @property
    def n(self) -> int:
        """How many traces there are."""
        return self.starts.size

    def of_kind(self, kind: str) -> Bools:
        """Which steps are of a kind: model, tool, user, retrieval, memory or handoff."""
        return _equal(self.kinds, self.kind, kind)

    def words(self, column: str) -> list[str | None]:
        """The name, tool, status, lane or stop_reason of every step; None where there is none."""
        words: list[str | None] = self.table.column(column).to_pylist()
        return words

    def per_trace(self, which: Bools) -> Floats:
        """How many of these steps each trace has."""
        return _counts(self.trace[which], self.n)


class _Calls(NamedTuple):
    """The steps that call a tool: their rows, and of each its trace, its tool and whether it failed.

    `call` says which calls are the same by tool and arguments; it is -1 where no arguments are known.
    """

    rows: Ints
    trace: Ints
    names: list[str]
    tool: Ints
    call: Ints
    failed: Bools
    lane: npt.NDArray[np.int32]

    def of_class(self, *classes: str) -> Bools:
        """Which calls are of a tool of one of these classes."""
        return self.tools_of(*classes)[self.tool]

    def tools_of(self, *classes: str) -> Bools:
        """Which tools are of one of these classes."""
        return np.array([bool(tool_classes(n) & set(classes)) for n in self.names], dtype=bool)


def standard_values(batches: Iterable[Any], traces: Sequence[str], steps: Ints, chunk: int = CHUNK) -> StandardValues:
    """All dimensions computed from the steps of these traces; `steps` is the number of steps of each."""
    whole = whole_traces(batches, traces, steps, chunk)
    added = tuple(plugged_dimensions().values().values())
    return together(((rows, _tallied(table, starts, added)) for rows, table, starts in whole), len(traces))


def together(parts: Iterable[tuple[Ints, StandardValues]], n: int) -> StandardValues:
    """One tally of n traces from tallies of some of them each, given with their places among all."""
    values: dict[str, Floats] = {name: np.zeros(n) for name in (*_COUNTED, *_BY_CLASS, *_OTHERS)}
    values["tool_time_share"][:] = np.nan
    values |= {name: np.full(n, np.nan) for name in plugged_dimensions().values()}
    broken: dict[str, str] = {}
    told: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    for rows, part in parts:
        # traces mostly lie as they are asked for: then a copy, not a scattering
        in_line = rows.size > 0 and bool((rows[1:] - rows[:-1] == 1).all())
        place = slice(int(rows[0]), int(rows[-1]) + 1) if in_line else rows
        for name, value in part.values.items():
            values[name][place] = value
        told |= part.told
        tools |= part.tools
        broken |= part.broken
    return StandardValues(values, told, tools, broken)


def _tallied(table: Any, starts: Ints, added: Sequence[StepDimension]) -> StandardValues:
    """The tally of whole traces, whose rows begin at `starts`; `added` are dimensions of installed packages."""
    steps = _steps_of(table, starts)
    calls = _calls_of(table, steps)
    told = steps.told | ({_NO_ARGUMENTS} if (calls.call >= 0).any() else frozenset())
    values, broken = _measured(steps, calls), {}
    for dimension in added:
        try:
            assert dimension.of is not None
            values[dimension.name] = np.broadcast_to(as_floats(dimension.of(steps)), (steps.n,))
        except Exception as error:  # the code of others may raise anything
            values[dimension.name] = np.full(steps.n, np.nan)
            broken[dimension.name] = f"its function fails: {type(error).__name__}: {error}"
    return StandardValues(values, told, frozenset(calls.names), broken)


def _equal(words: list[str], codes: Any, word: str) -> Bools:
    """Which rows of a coded column hold a word; a dictionary may name words that no row at hand holds."""
    return np.equal(codes, words.index(word)) if word in words else np.zeros(codes.size, dtype=bool)


def _steps_of(table: Any, starts: Ints) -> StepArrays:
    kinds, kind = coded(table.column("kind"))
    statuses, status = coded(table.column("status"))
    stops = encoded(table.column("stop_reason"))
    failed = _equal(statuses, status, "error")
    long = np.array([is_length_stop(s) for s in stops.dictionary.to_pylist()] + [False], dtype=bool)
    told = {
        _NO_STATUS: bool(failed.any() or _equal(statuses, status, "ok").any()),
        _NO_STOP: stops.null_count < len(stops),
    }
    return StepArrays(
        table=table,
        starts=starts,
        trace=np.repeat(np.arange(starts.size), np.diff(starts, append=table.num_rows)),
        kinds=kinds,
        kind=kind,
        failed=failed,
        cut=long[codes_of(stops)] & _equal(kinds, kind, "model") if long.any() else None,
        seconds=_durations(table),
        told=frozenset(what for what, is_told in told.items() if is_told),
    )


def _calls_of(table: Any, s: StepArrays) -> _Calls:
    rows = np.flatnonzero(s.of_kind("tool"))
    names, tool = _tools(table, rows)
    content = codes_of(encoded(table.column("arguments")), rows)
    lanes, lane = coded(table.column("lane"))
    return _Calls(
        rows=rows,
        trace=s.trace[rows],
        names=names,
        tool=tool,
        call=np.where(content >= 0, content.astype(np.int64) * len(names) + tool, -1),
        failed=s.failed[rows],
        lane=lane[rows] if len(lanes) > 1 else np.zeros(rows.size, dtype=np.int32),
    )


def _tools(table: Any, rows: Ints) -> tuple[list[str], Ints]:
    """The tools that these rows call, and which one each does; the span's name stands for none given."""
    called = encoded(table.column("tool"))
    names, tool = called.dictionary.to_pylist(), codes_of(called, rows)
    if rows.size and tool.min() < 0:
        more, name = coded(table.column("name"))
        tool = np.where(tool < 0, name[rows] + len(names), tool)
        names = [*names, *more]
    seen = np.bincount(tool, minlength=len(names)) > 0
    distinct = sorted({names[i] for i in np.flatnonzero(seen)})
    place = {n: i for i, n in enumerate(distinct)}
    return distinct, np.array([place.get(n, -1) for n in names], dtype=np.int64)[tool]


def _measured(s: StepArrays, c: _Calls) -> dict[str, Floats]:
    """Every dimension of every trace at hand."""
    out = _by_kind(s) | _by_tool(c, s.n)
    ends = np.append(s.starts[1:], s.trace.size) - 1
    out["ended_on_tool"] = as_floats(s.of_kind("tool")[ends])
    out["ended_on_error"] = as_floats(s.failed[ends])
    out["length_stops"] = np.zeros(s.n) if s.cut is None else _counts(s.trace[s.cut], s.n)
    out["unconfirmed_writes"] = out["writes"]
    if "user" in s.kinds:
        out["unconfirmed_writes"] = _counts(c.trace[c.of_class("write") & ~_asked_before(s)[c.rows]], s.n)
    known = c.call >= 0
    trace, call = (c.trace, c.call) if known.all() else (c.trace[known], c.call[known])
    out["repeats"] = _repeats(trace, call, s.n)
    out["looks_before_edit"] = _looks_before_edit(c, s.n)
    out |= _in_a_row(c, s.n)
    out["tool_time_share"] = _time_share(s)
    return out


def _counts(trace: Ints, n: int) -> Floats:
    """How many rows each trace has."""
    return as_floats(np.bincount(trace, minlength=n))


def _by_kind(s: StepArrays) -> dict[str, Floats]:
    """Steps by kind, and errors: from one table of traces × kinds × whether it failed."""
    width = len(s.kinds) + 1  # a step of no kind has the code -1
    key = (s.trace * width + (s.kind + 1)) * 2 + s.failed
    counts = as_floats(np.bincount(key, minlength=s.n * width * 2).reshape(s.n, width, 2))
    of = {kind: counts[:, i + 1].sum(axis=1) for i, kind in enumerate(s.kinds)}
    out = {name: of.get(kind, np.zeros(s.n)) for name, kind in _COUNTED.items()}
    return out | {"errors": counts[:, :, 1].sum(axis=1)}


def _by_tool(c: _Calls, n: int) -> dict[str, Floats]:
    """Calls by class of tool, and how many different tools: from a table of traces × tools, unless that is too wide."""
    weights = {name: as_floats(c.tools_of(of)) for name, of in _BY_CLASS.items()}
    width = len(c.names)
    if n * width > WIDEST:
        out = {name: as_floats(np.bincount(c.trace, weights=w[c.tool], minlength=n)) for name, w in weights.items()}
        out["failed_writes"] = _counts(c.trace[c.failed & c.of_class("write")], n)
        return out | {"distinct_tools": _counts(c.trace, n) - _repeats(c.trace, c.tool, n)}
    key = (c.trace * width + c.tool) * 2 + c.failed
    counts = as_floats(np.bincount(key, minlength=n * width * 2).reshape(n, width, 2))
    failed, called = counts[:, :, 1], counts.sum(axis=2)
    out = {name: called @ w for name, w in weights.items()}
    out["failed_writes"] = failed @ weights["writes"]
    return out | {"distinct_tools": as_floats((called > 0).sum(axis=1))}


def _repeats(trace: Ints, value: Ints, n: int) -> Floats:
    """How many rows have a value that an earlier row of their trace has; rows of a trace lie together."""
    # sorting leaves every trace where it lies
    key = np.sort(_paired(trace, value))
    return _counts(trace[1:][key[1:] == key[:-1]], n)


def _paired(group: Ints, value: Ints) -> Any:
    """One number for each pair of a group and a value, in half the bytes if it fits; groups come in rising order."""
    if value.size == 0:
        return value
    base = int(value.max()) + 1
    key = group * base + value
    return key.astype(np.int32) if (int(group[-1]) + 1) * base < 1 << 31 else key


def _asked_before(s: StepArrays) -> Bools:
    """Whether a user spoke between a step and the tool call before it, in the same trace."""
    at = np.arange(s.trace.size)
    first = s.starts[s.trace]
    user = np.maximum.accumulate(np.where(s.of_kind("user"), at, -1))
    tool = np.maximum.accumulate(np.where(s.of_kind("tool"), at, -1))
    before = np.concatenate([[-1], tool[:-1]])
    return (user >= first) & (user > np.where(before >= first, before, first - 1))


def _looks_before_edit(c: _Calls, n: int) -> Floats:
    """Calls that read or search files, before the first that edits one or all of them."""
    looks, edits = c.of_class("file_read", "search"), c.of_class("file_edit")
    before = np.cumsum(edits, dtype=np.int32) - edits
    first = np.flatnonzero(np.diff(c.trace, prepend=-1))
    earlier = np.repeat(before[first], np.diff(first, append=c.trace.size))
    return _counts(c.trace[looks & (before == earlier)], n)


def _in_a_row(c: _Calls, n: int) -> dict[str, Floats]:
    """What needs the order of tool calls, lane by lane."""
    trace, lane, tool, call, failed = c.trace, c.lane, c.tool, c.call, c.failed
    if lane.any():
        order = np.lexsort((c.rows, lane, trace))
        trace, lane, tool, call, failed = trace[order], lane[order], tool[order], call[order], failed[order]
    # the first row of every lane: nothing before it counts
    fresh = np.ones(trace.size, dtype=bool)
    fresh[1:] = (trace[1:] != trace[:-1]) | (lane[1:] != lane[:-1])
    stretch = np.cumsum(fresh)
    tools, calls = _paired(stretch, tool), _paired(stretch, call)
    if trace.size and call.min() < 0:
        # calls of unknown arguments are like no other
        calls = np.where(call < 0, -1 - np.arange(trace.size), calls)

    def same(column: Ints, back: int) -> Bools:
        equal = np.zeros(trace.size, dtype=bool)
        np.equal(column[back:], column[:-back], out=equal[back:])
        return equal

    def longest(mask: Bools) -> Floats:
        return _longest(np.flatnonzero(mask), trace, fresh, n)

    again = same(tools, 1)
    loop = np.zeros(n)
    for cycle in range(1, LONGEST_CYCLE + 1):
        run = longest(same(calls, cycle))
        # a cycle counts once it has come round in full
        loop = np.maximum(loop, np.where(run >= cycle, run + cycle, 0.0))
    return {
        "error_streak": longest(failed),
        "backtracks": _counts(trace[same(tools, 2) & ~again], n),
        "longest_streak": longest(again) + (np.bincount(trace, minlength=n) > 0),
        "longest_loop": loop,
    }


def _longest(at: Ints, trace: Ints, fresh: Bools, n: int) -> Floats:
    """The longest run of neighbouring rows among these, per trace; runs end where a lane does."""
    out = np.zeros(n)
    if at.size == 0:
        return out
    begins = np.flatnonzero((np.diff(at, prepend=-2) != 1) | fresh[at])
    lengths = np.diff(begins, append=at.size)
    owner = trace[at[begins]]
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    out[owner[first]] = np.maximum.reduceat(lengths, first)
    return out


def _time_share(s: StepArrays) -> Floats:
    """Seconds in tools over seconds in all steps; NaN where a model or tool step has no times.

    A log whose model steps all take no time has moments, not durations, and says nothing either.
    """
    unknown = np.isnan(s.seconds)
    if unknown.all():
        return np.full(s.n, np.nan)
    is_tool, is_model = s.of_kind("tool"), s.of_kind("model")
    timed, absent = s.seconds, np.zeros(s.n, dtype=bool)
    if unknown.any():
        timed = np.where(unknown, 0.0, timed)
        absent = np.logical_or.reduceat(unknown & (is_tool | is_model), s.starts)
    # rows of a trace lie together: summing them where they lie is several times faster than scattering them
    whole, tools, asked = (np.add.reduceat(part, s.starts) for part in (timed, timed * is_tool, timed * is_model))
    absent |= (asked == 0) & np.logical_or.reduceat(is_model, s.starts)
    share = np.divide(tools, whole, out=np.full(s.n, np.nan), where=whole > 0)
    return np.where(absent, np.nan, share)


def _durations(table: Any) -> Floats:
    """Seconds of each step, NaN where an end is missing or before the start; subtracted as whole nanoseconds."""
    import pyarrow.compute as pc

    start, end = table.column("start_ns"), table.column("end_ns")
    if len(start) in (start.null_count, end.null_count):
        return np.full(len(start), np.nan)
    spent = pc.subtract(end, start)
    whole = plain_numbers(spent, -1)
    seconds = whole / 1e9
    seconds[whole < 0] = np.nan
    return as_floats(seconds)
