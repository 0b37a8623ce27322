"""Usage per step, in columns: tokens of each kind per model call, and their cost.

Totals come from leaf model spans only. Nothing here opens a trace: span columns come in as Arrow batches, prices are
looked up once per model, provider and day, and the rest is arithmetic on arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ethogram.arrays import plain_numbers

from .prices import DAY_NS, FREE, MINUTE_NS, PER, PriceList, Quote, Rates, moment

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

TOKENS = {
    "fresh": "input_tokens",
    "cached": "cache_read_tokens",
    "cache_write": "cache_write_tokens",
    "output": "output_tokens",
    "reasoning": "reasoning_tokens",
}
"""Our short names of the columns; all input is fresh + cached + cache write, output includes reasoning."""
CODED = ("trace_id", "lane", "kind", "status", "tool", "name", "model", "provider")
CALL_COLUMNS = (*CODED, "span_id", "seq", "step", "start_ns", "cost_usd", *TOKENS.values())
"""What has to be read of model calls to price them."""
COLUMNS = (*CALL_COLUMNS, "continues", "keep", "input", "result")
"""What has to be read to say of every step what it cost and what context it carries on."""
CLASSES = ("first", "after-tool", "after-error", "after-user", "after-model", "after-other")
"""Of a model call, what went before it in its lane: all that a router can know when it chooses a model."""
SOURCES = ("unpriced", "recorded", "priced", "own")


class Steps(NamedTuple):
    """Every step, ordered by trace, lane and place; codes index the lists of names."""

    traces: list[str]
    models: list[str]
    providers: list[str]
    kinds: list[str]
    tools: list[str]
    trace: Ints
    thread: Ints
    kind: Ints
    tool: Ints
    failed: Bools
    is_model: Bools
    rows: Any
    """The Arrow table behind it, in the same order."""


class Calls(NamedTuple):
    """One row per leaf model call, in the order of the steps; tokens that the log does not give are 0."""

    at: Ints
    """Its row among the steps."""
    trace: Ints
    thread: Ints
    model: Ints
    provider: Ints
    time_ns: Ints
    fresh: Floats
    cached: Floats
    cache_write: Floats
    output: Floats
    reasoning: Floats
    known: dict[str, Bools]
    """Whether the log gives the count, by kind of token."""
    recorded: Floats
    failed: Bools
    kind: Ints
    """Its class, an index of `CLASSES`."""
    after: Ints
    """The tool that it follows, or -1."""

    @property
    def total_input(self) -> Floats:
        """All input tokens."""
        return self.fresh + self.cached + self.cache_write

    @property
    def counted(self) -> Bools:
        """Whether the log gives any token count."""
        return self.known["fresh"] | self.known["cached"] | self.known["cache_write"] | self.known["output"]


class Charged(NamedTuple):
    """What each call cost: NaN where nothing prices it, and `reason` then says why."""

    cost: Floats
    source: Ints
    quote: Ints
    """The price it has, an index of `quotes`, or -1."""
    quotes: list[Quote]
    reason: Ints
    reasons: list[str]
    rates: dict[str, Floats]
    """Dollars per token of every call, by kind of token; NaN where the price is unknown."""


def gather(batches: Iterable[Any], *, keep_empty: bool = False) -> Any:
    """Batches of `COLUMNS` or `CALL_COLUMNS` as one Arrow table: names as codes, messages as their number.

    None where there is no row, unless a batch without rows is to give a table without rows.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    made = []
    for batch in batches:
        if batch.num_rows or keep_empty:
            columns = {n: batch.column(n) for n in batch.schema.names if n != "input"}
            columns |= {n: batch.column(n).dictionary_encode() for n in CODED}
            if "input" in batch.schema.names:
                columns["inputs"] = pc.list_value_length(batch.column("input"))
            made.append(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))
    return pa.Table.from_batches(made).unify_dictionaries().combine_chunks() if made else None


def only(rows: Any, traces: set[str]) -> Any:
    """The rows of some traces."""
    import pyarrow as pa

    code, names = _codes(rows, "trace_id")
    keep = np.asarray([n in traces for n in names] or [False])[code]
    return rows.filter(pa.Array.from_buffers(pa.bool_(), keep.size, [None, _bits(keep)]))


def steps_of(rows: Any, inner: Callable[[str], set[str]]) -> Steps:
    """Steps from what `gather` gave; `inner(trace)` names the spans that have a model call below them.

    It is asked only for traces in which a model span is not a step: such a span counts if its children are tools.
    """
    import pyarrow as pa

    step = _numbers(rows, "step", -1.0)
    kind, kinds = _codes(rows, "kind")
    model = np.asarray([k == "model" for k in kinds] or [False])[kind]
    loose = np.flatnonzero(model & (step < 0))
    if loose.size:
        keep = step >= 0
        keep[loose] = _leaves(rows, loose, inner)
        rows = rows.filter(pa.Array.from_buffers(pa.bool_(), keep.size, [None, _bits(keep)]))
        step = _numbers(rows, "step", -1.0)
    trace, traces = _codes(rows, "trace_id")
    lane, lanes = _codes(rows, "lane")
    thread = trace * max(len(lanes), 1) + lane
    place = _placed(trace, _numbers(rows, "seq", 0.0), step)
    order = np.lexsort((place, thread))
    if np.any(np.diff(order) != 1):
        rows = rows.take(pa.Array.from_buffers(pa.int64(), order.size, [None, pa.py_buffer(order)]))
    kind, kinds = _codes(rows, "kind")
    tool, tools = _tool_names(rows)
    status, statuses = _codes(rows, "status")
    trace, traces = _codes(rows, "trace_id")
    return Steps(
        traces=traces,
        models=_codes(rows, "model")[1],
        providers=_codes(rows, "provider")[1],
        kinds=kinds,
        tools=tools,
        trace=trace,
        thread=thread[order],
        kind=kind,
        tool=tool,
        failed=np.asarray([s == "error" for s in statuses] or [False])[status],
        is_model=np.asarray([k == "model" for k in kinds] or [False])[kind],
        rows=rows,
    )


def calls_of(steps: Steps) -> Calls:
    """The model calls among the steps, each with its class."""
    at = np.flatnonzero(steps.is_model)
    pick = {n: _numbers(steps.rows, c, 0.0)[at] for n, c in TOKENS.items()}
    known = {n: known_in(steps.rows, c)[at] for n, c in TOKENS.items()}
    before = np.maximum(at - 1, 0)
    same = (at > 0) & (steps.thread[before] == steps.thread[at])
    thread = steps.thread[at]
    first = np.ones(at.size, dtype=bool)
    first[1:] = thread[1:] != thread[:-1]
    sort = np.asarray([_KIND_CLASS.get(k, 5) for k in steps.kinds] or [5])[steps.kind[before]]
    sort = np.where((sort == 1) & steps.failed[before], 2, sort)
    kind = np.where(first, 0, np.where(same, sort, 5))
    return Calls(
        at=at,
        trace=steps.trace[at],
        thread=thread,
        model=_codes(steps.rows, "model")[0][at],
        provider=_codes(steps.rows, "provider")[0][at],
        time_ns=integers(steps.rows, "start_ns")[at],
        known=known,
        recorded=_numbers(steps.rows, "cost_usd", np.nan)[at],
        failed=steps.failed[at],
        kind=kind,
        after=np.where((kind == 1) | (kind == 2), steps.tool[before], -1),
        **pick,
    )


_KIND_CLASS = {"tool": 1, "retrieval": 1, "memory": 1, "user": 3, "model": 4}


def charge(
    calls: Calls,
    names: Steps,
    prices: PriceList,
    *,
    undated_ns: int,
    as_of_ns: int | None = None,
    reprice: bool = False,
    whole: Bools | None = None,
) -> Charged:
    """Price every call: what the log recorded, unless `reprice`; else own prices and the table, at the call's date.

    Calls without a time are priced as of `undated_ns`, all of them as of `as_of_ns` if that is given. A recorded cost
    of 0 for tokens that were used is not believed, except of `FREE` providers: libraries write 0 for models they do not
    know. `whole` marks calls that carry the usage of a whole trace, which says nothing about the size of a request.
    """
    when = np.where(calls.time_ns < 0, undated_ns, calls.time_ns) if as_of_ns is None else None
    if when is None:
        when = np.full(calls.at.size, as_of_ns, dtype=np.int64)
    used = calls.total_input + calls.output
    free = np.isin(calls.provider, [i for i, name in enumerate(names.providers) if name in FREE])
    believed = ~np.isnan(calls.recorded) & ((calls.recorded > 0) | (used == 0) | free) & (not reprice)
    quote, quotes, reason, reasons = _quotes(calls, (names.models, names.providers), prices, when)
    size = calls.total_input if whole is None else np.where(whole, 0.0, calls.total_input)
    rates = {key: _spread(quotes, quote, size, key) / PER for key in TOKENS}
    fee = _spread(quotes, quote, size, "per_call")
    cost = fee + bill(calls, rates)
    cost = np.where(calls.counted, cost, np.nan)
    bare = ~calls.counted
    reasons = [*reasons, "the log gives no token counts", "the call failed and the log gives no token counts"]
    reason = np.where(bare, np.where(calls.failed, len(reasons) - 1, len(reasons) - 2), reason)
    by = np.asarray([0, *(SOURCES.index(q.source) for q in quotes)])[quote + 1]
    source = np.where(believed, 1, np.where(np.isnan(cost), 0, by))
    cost = np.where(believed, calls.recorded, cost)
    return Charged(cost, source, quote, quotes, np.where(np.isnan(cost), reason, -1), reasons, rates)


def bill(calls: Calls, rates: dict[str, Floats]) -> Floats:
    """Tokens times rates; reasoning is a part of the output with a rate of its own."""
    thought = np.minimum(calls.reasoning, calls.output)
    spoken = calls.output - thought
    parts = (calls.fresh, "fresh"), (calls.cached, "cached"), (calls.cache_write, "cache_write")
    return sum((n * rates[k] for n, k in parts), spoken * rates["output"] + thought * rates["reasoning"])


def price_as(calls: Calls, prices: PriceList, model: str, when_ns: Ints, whole: Bools) -> Floats | str:
    """What the calls would cost with another model and the same tokens, or why that is unknown."""
    size = np.where(whole, 0.0, calls.total_input)
    other = calls._replace(model=np.zeros_like(calls.model), provider=np.full_like(calls.provider, -1))
    quote, quotes, reason, reasons = _quotes(other, ([model], []), prices, when_ns)
    if np.any(quote < 0):
        return reasons[int(reason[quote < 0][0])]
    rates = {key: _spread(quotes, quote, size, key) / PER for key in TOKENS}
    cost = bill(calls, rates) + _spread(quotes, quote, size, "per_call")
    return np.where(calls.counted, cost, np.nan)


def _quotes(
    calls: Calls, names: tuple[list[str], list[str]], prices: PriceList, when: Ints
) -> tuple[Ints, list[Quote], Ints, list[str]]:
    """A price for every call: asked once per model, provider and day (per minute where prices change within a day)."""
    quotes: list[Quote] = []
    reasons: list[str] = []
    quote, reason = (np.full(calls.at.size, -1, dtype=np.int64) for _ in range(2))

    def ask(rows: Ints, unit: int) -> None:
        key = np.stack([calls.model[rows], calls.provider[rows], when[rows] // unit], axis=1)
        distinct, which = _unique_rows(key)
        found_quote, found_reason = [], []
        for n, (model, provider, number) in enumerate(distinct.tolist()):
            name = names[0][model] if model >= 0 else None
            found = prices.quote(name, names[1][provider] if provider >= 0 else None, moment(number * unit))
            if isinstance(found, Quote) and found.hourly and unit == DAY_NS:
                ask(rows[which == n], MINUTE_NS)
                found_quote.append(-2)
                found_reason.append(-2)
            else:
                found_quote.append(_index(quotes, found) if isinstance(found, Quote) else -1)
                found_reason.append(-1 if isinstance(found, Quote) else _index(reasons, found))
        got = np.asarray(found_quote or [-1])[which]
        done = got > -2
        quote[rows[done]] = got[done]
        reason[rows[done]] = np.asarray(found_reason or [-1])[which][done]

    if calls.at.size:
        ask(np.arange(calls.at.size), DAY_NS)
    return quote, quotes, reason, reasons


def _unique_rows(key: Ints) -> tuple[Ints, Ints]:
    """Distinct rows and the number of each row's own, without the slow sort of whole rows."""
    low = key.min(axis=0)
    span = key.max(axis=0) - low + 1
    flat = ((key[:, 0] - low[0]) * span[1] + key[:, 1] - low[1]) * span[2] + key[:, 2] - low[2]
    _, first, which = np.unique(flat, return_index=True, return_inverse=True)
    return key[first], which


def _index(known: list[Any], value: Any) -> int:
    if value not in known:
        known.append(value)
    return known.index(value)


def _spread(quotes: list[Quote], quote: Ints, size: Floats, key: str) -> Floats:
    """One rate for every call; a dearer tier applies to the whole request once its input is above the start."""
    if not quotes:
        return np.full(quote.size, np.nan)

    def rate(rates: Rates) -> float:
        return float(getattr(rates, key))

    got = np.asarray([np.nan, *(rate(q.rates) for q in quotes)])[quote + 1]
    for n, one in enumerate(quotes):
        for start, rates in one.tiers:
            got = np.where((quote == n) & (size > start), rate(rates), got)
    return got


# ---- columns ----


def _codes(rows: Any, name: str) -> tuple[Ints, list[str]]:
    """A column of names as numbers, -1 where there is none, and the names."""
    column = rows.column(name)
    if column.num_chunks == 0:
        return np.empty(0, dtype=np.int64), []
    whole = column.combine_chunks()
    whole = whole.chunk(0) if hasattr(whole, "chunk") else whole
    return plain_numbers(whole.indices, -1).astype(np.int64), whole.dictionary.to_pylist()


def _numbers(rows: Any, name: str, absent: float) -> Floats:
    column = rows.column(name)
    if column.null_count == 0:
        return np.asarray(plain_numbers(column, 0), dtype=np.float64)
    got: Floats = np.asarray(plain_numbers(column, 0), dtype=np.float64)
    return np.where(known_in(rows, name), got, absent)


def integers(rows: Any, name: str) -> Ints:
    """Whole numbers, -1 where there is none."""
    return np.asarray(plain_numbers(rows.column(name), -1), dtype=np.int64)


def known_in(rows: Any, name: str) -> Bools:
    """Where a column has a value."""
    return np.asarray(plain_numbers(rows.column(name).is_valid().cast("uint8"), 0), dtype=bool)


def _bits(mask: Bools) -> Any:
    import pyarrow as pa

    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def _tool_names(rows: Any) -> tuple[Ints, list[str]]:
    """The name of each step's tool; a step without one is called by its own name."""
    tool, tools = _codes(rows, "tool")
    name, names = _codes(rows, "name")
    both = list(dict.fromkeys([*tools, *names]))
    number = {n: i for i, n in enumerate(both)}
    as_tool = np.asarray([number[t] for t in tools] or [-1])
    as_name = np.asarray([number[n] for n in names] or [-1])
    return np.where(tool >= 0, as_tool[tool], np.where(name >= 0, as_name[name], -1)), both


def _leaves(rows: Any, loose: Ints, inner: Callable[[str], set[str]]) -> Bools:
    """Of model spans that are no step, those with no model call below them."""
    traces = [rows.column("trace_id")[int(i)].as_py() for i in loose]
    spans = [rows.column("span_id")[int(i)].as_py() for i in loose]
    above = {t: inner(t) for t in dict.fromkeys(traces)}
    return np.asarray([s not in above[t] for t, s in zip(traces, spans, strict=True)], dtype=bool)


def _placed(trace: Ints, seq: Floats, step: Floats) -> Floats:
    """The place of each row in its trace: its step, or half a step after the one that stands before it in the log."""
    if not np.any(step < 0):
        return step
    order = np.lexsort((seq, trace))
    place = step.copy()
    last, at = -1.0, -1
    for row in order.tolist():
        if trace[row] != at:
            last, at = -1.0, int(trace[row])
        if step[row] < 0:
            place[row] = last + 0.5
        else:
            last = float(step[row])
    return place
