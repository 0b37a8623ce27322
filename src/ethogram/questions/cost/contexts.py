"""Costs of contexts: how often the result of a tool is read again, and what a broken cache prefix costs.

A context is followed along `continues`: a call carries on the context of another if it keeps all of that call's input.
Logs without messages are read by their token counts: a call whose input is no shorter than that of the call before it,
in the same lane, is taken to carry it on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ethogram.arrays import plain_numbers
from ethogram.prices.usage import Bools, Calls, Charged, Floats, Ints, Steps, integers, known_in

CHARS_PER_TOKEN = 4.0
"""Of a tool's result, where the log counts no tokens for it; about right for English and JSON."""
IDLE_NS = 300_000_000_000
"""A cache is commonly kept for five minutes after its last use."""
_READ = ("tool", "retrieval", "memory")


class ContextChain(NamedTuple):
    """The context that each call carries on: the row of that call, or -1, and how many calls read what was new to it,
    itself included."""

    parent: Ints
    readers: Ints


class ToolUse(NamedTuple):
    """One tool: calls, tokens of its results, of the largest of them, tokens as often as they were read, and dollars;
    `unmeasured` results have no text, `unpriced` ones were read by a model without a price."""

    tool: str
    calls: int
    errors: int
    tokens: float
    largest: float
    read_tokens: float
    cost: float
    unmeasured: int
    unpriced: int


class Breaks(NamedTuple):
    """Calls that had to read again what had been cached: their rows, tokens lost, dollars (NaN: no price), and
    whether the cache had merely run out of time."""

    at: Ints
    tokens: Floats
    cost: Floats
    idle: Bools


def chain_of(steps: Steps, calls: Calls) -> ContextChain:
    """Which call's context each call carries on."""
    parent = _named_parent(steps, calls)
    keep = integers(steps.rows, "keep")[calls.at]
    inputs = integers(steps.rows, "inputs")[calls.at]
    up = np.maximum(parent, 0)
    parent = np.where((parent >= 0) & (keep >= np.maximum(keep[up], 0) + inputs[up]), parent, -1)
    wordless = (inputs <= 0) & ~known_in(steps.rows, "continues")[calls.at]
    parent = np.where(wordless, _silent_parent(calls, wordless), parent)
    return ContextChain(parent, _below(parent, np.ones(parent.size)).astype(np.int64))


def _named_parent(steps: Steps, calls: Calls) -> Ints:
    import pyarrow.compute as pc

    if not calls.at.size:
        return np.empty(0, dtype=np.int64)
    own = steps.rows.column("span_id").combine_chunks()
    own = (own.chunk(0) if hasattr(own, "chunk") else own).dictionary_encode()
    above = pc.index_in(steps.rows.column("continues"), value_set=own.dictionary, skip_nulls=True)
    wanted = np.asarray(plain_numbers(above, -1), dtype=np.int64)[calls.at]
    number = plain_numbers(own.indices, -1).astype(np.int64)[calls.at]
    width = len(own.dictionary) + 1
    key = calls.trace * width + number
    order = np.argsort(key, kind="stable")
    found = np.minimum(np.searchsorted(key, calls.trace * width + wanted, sorter=order), order.size - 1)
    parent = order[found]
    hit = (wanted >= 0) & (key[parent] == calls.trace * width + wanted)
    # a parent stands before its child; a log that says otherwise is not followed in circles
    return np.where(hit & (parent < np.arange(parent.size)), parent, -1)


def _silent_parent(calls: Calls, wordless: Bools) -> Ints:
    before = np.arange(calls.at.size) - 1
    up = np.maximum(before, 0)
    same = (before >= 0) & (calls.thread[up] == calls.thread) & (calls.model[up] == calls.model) & wordless[up]
    return np.where(same & calls.counted & (calls.total_input >= calls.total_input[up]), before, -1)


def _below(parent: Ints, weight: Floats) -> Floats:
    """The weight of each call and of all that carry its context on."""
    total, above = weight.tolist(), parent.tolist()
    for i in range(len(above) - 1, -1, -1):
        if above[i] >= 0:
            total[above[i]] += total[i]
    return np.asarray(total, dtype=np.float64)


def tool_use(steps: Steps, calls: Calls, chain: ContextChain, charged: Charged, chars: Floats) -> list[ToolUse]:
    """Per tool: what its results put into contexts, and what reading them cost. `chars` is NaN where there is no text.

    A token is paid at the fresh or the cache-write rate by the first call that reads it, then at the cached rate by
    calls that read from the cache, else at the fresh rate.
    """
    reads = np.asarray([k in _READ for k in steps.kinds] or [False])[steps.kind]
    at = np.flatnonzero(reads)
    if not at.size:
        return []
    tokens = np.ceil(chars[at] / CHARS_PER_TOKEN)
    measured = ~np.isnan(tokens)
    tokens = np.where(measured, tokens, 0.0)
    reader = np.searchsorted(calls.at, at)
    some = reader < calls.at.size
    reader = np.minimum(reader, max(calls.at.size - 1, 0))
    if calls.at.size:
        some &= calls.thread[reader] == steps.thread[at]
        again = np.where(calls.cached > 0, charged.rates["cached"], charged.rates["fresh"])
        entry = np.where(calls.cache_write > 0, charged.rates["cache_write"], charged.rates["fresh"])
        known = _below(chain.parent, np.isnan(again).astype(np.float64)) == 0
        later = _below(chain.parent, np.nan_to_num(again)) - np.nan_to_num(again)
        per_token = np.where(known, np.nan_to_num(entry) + later, np.nan)[reader]
        times = np.where(some, chain.readers[reader], 0)
    else:
        per_token, times = np.full(at.size, np.nan), np.zeros(at.size, dtype=np.int64)
    cost = np.where(some, tokens * per_token, 0.0)
    return _by_tool(steps, at, tokens, measured, times, cost)


def _by_tool(steps: Steps, at: Ints, tokens: Floats, measured: Bools, times: Ints, cost: Floats) -> list[ToolUse]:
    which = np.maximum(steps.tool[at], 0)
    size = len(steps.tools)
    unknown = np.isnan(cost) & measured & (times > 0)

    def total(weights: Floats | Bools | None) -> Floats:
        return np.bincount(which, weights=weights, minlength=size).astype(np.float64)

    largest = np.zeros(size)
    np.maximum.at(largest, which, tokens)
    columns = (
        total(None),
        total(steps.failed[at]),
        total(tokens),
        largest,
        total(tokens * times),
        total(np.nan_to_num(cost)),
        total(~measured),
        total(unknown),
    )
    found = []
    for n in np.flatnonzero(columns[0]).tolist():
        calls, errors, held, most, read, dollars, bare, dear = (float(c[n]) for c in columns)
        found.append(ToolUse(steps.tools[n], int(calls), int(errors), held, most, read, dollars, int(bare), int(dear)))
    return sorted(found, key=lambda t: (-t.read_tokens, -t.tokens, t.tool))


def breaks_of(calls: Calls, chain: ContextChain, charged: Charged) -> Breaks:
    """Calls that carry on a context and yet read less from the cache than the call before had put or found there.

    What was lost is priced at what it cost instead (the cache-write rate as far as the call wrote it anew, else the
    fresh rate) less the cached rate.
    """
    up = np.maximum(chain.parent, 0)
    told = calls.known["cached"]
    same = (chain.parent >= 0) & told & told[up] & (calls.model[up] == calls.model)
    stood = np.minimum(calls.cached[up] + calls.cache_write[up], calls.total_input)
    lost = np.where(same, np.maximum(stood - calls.cached, 0.0), 0.0)
    at = np.flatnonzero(lost > 0)
    tokens = lost[at]
    anew = np.minimum(calls.cache_write[at], tokens)
    rates = {k: v[at] for k, v in charged.rates.items()}
    paid = anew * rates["cache_write"] + (tokens - anew) * rates["fresh"]
    gap = calls.time_ns[at] - calls.time_ns[up[at]]
    idle = (calls.time_ns[at] >= 0) & (calls.time_ns[up[at]] >= 0) & (gap > IDLE_NS)
    return Breaks(at, tokens, paid - tokens * rates["cached"], idle)
