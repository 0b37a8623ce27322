"""The episodes of a run as columns: only the fields that counting and pricing need.

Most of a ledger says where spans and texts lie. Code that only counts leaves that undecoded, and keeps arrays only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from ethogram.arrays import plain_numbers
from ethogram.errors import BadUsage
from ethogram.traces import Param, is_unmetered, seconds_between

from . import ledger, ledger_file
from .batch import FAILURE, MISSING, SUCCESS, Batch, distinct
from .entry import DataFile, End, Header, Revision
from .files import Files
from .ledger_columns import ids_of

_TOTALS = (
    "steps",
    "model_calls",
    "tool_calls",
    "errors",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cost_usd",
)
_COUNTS = 4
"""The first totals are counts: an absent one is 0. The others are unknown where the log never said."""
_OVER_STEPS = ("tool_calls", "errors")
"""Counts that earlier versions of the ledger took over all spans: there they are unknown, unless they are 0."""
FIGURES = (*_TOTALS, "seconds")
"""What was counted of an episode, and can be asked for."""
NAMED = ("task", "condition", "agent")
"""Columns of names that repeat."""


@dataclass(frozen=True, eq=False)
class Episodes:
    """Committed episodes that count, one row each, as numpy arrays.

    `task`, `condition` and `agent` are numbers of a row's name in `names["task"]` and so on. `value` is NaN where the
    outcome is missing, and `reason` says why; `refused` tells of which a provider refused calls. `figures` holds those
    that were asked for, NaN where the log never said. `said` is what traces say of their `model`, `temperature` and
    `scaffold`. `replaced` counts entries that another one took the place of; `uncounted` names figures that an earlier
    version of the ledger did not count over steps; `files` are those that the ledger makes visible. Rows stand in the
    order of `Run.entries`; the episodes of batches follow after.
    """

    names: dict[str, tuple[str, ...]]
    task: Any
    condition: Any
    agent: Any
    attempt: Any
    seed: Any
    value: Any
    reason: Any
    at_ns: Any
    refused: Any
    figures: dict[str, Any]
    said: dict[str, frozenset[str]]
    replaced: int
    files: tuple[DataFile, ...]
    uncounted: tuple[str, ...] = ()

    def __len__(self) -> int:
        """How many episodes."""
        return int(self.task.size)

    def recount(self, name: str, counts: Sequence[int | None]) -> None:
        """Take over a figure of the entries that was counted elsewhere; None where it is unknown."""
        self.figures[name][: len(counts)] = np.array(counts, dtype=float)


class _Outcome(msgspec.Struct, frozen=True, gc=False):
    value: float = float("nan")
    reason: str | None = None


class _Facts(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Compared by identity: those who say nothing share one."""

    model: Param = None
    temperature: Param = None
    scaffold: Param = None
    unmetered: Param = None
    seconds: Param = None
    provider_refused: Param = None


class _Segment(msgspec.Struct, frozen=True):
    name: str
    header: Header
    episodes: list[str]
    traces: list[str]
    superseded: set[str]
    columns: list[dict[str, Any]]
    revisions: list[Revision]
    batches: list[Batch]


class _Reader:
    """Segments into columns, a block of entries at a time; equal names get equal numbers in all of them."""

    def __init__(self, figures: Sequence[str]) -> None:
        self.figures = figures
        self.shape, self.decoder = _shape(tuple(figures))
        # an unknown name gets the next number
        self.numbers = {name: defaultdict[str, int](count().__next__) for name in NAMED}

    def __call__(self, name: str, data: bytes) -> _Segment:
        if name.endswith(ledger_file.COLUMNS):
            return self._from_columns(name, data)
        blocks = ledger_file.decode_blocks(name, data, self.decoder)
        first = next(blocks)
        made = _Segment(name, first[0], [], [], set(), [], [], [])
        for block in chain([first], blocks):
            entries = block
            if set(map(type, block)) != {self.shape}:
                entries = [r for r in block if type(r) is self.shape]
                made.revisions.extend(r for r in block if type(r) is Revision)
                made.batches.extend(r for r in block if type(r) is Batch)
            heads = [e.head for e in entries]
            made.episodes.extend([h.episode for h in heads])
            made.traces.extend([h.trace_id for h in heads])
            made.superseded.update(e.supersedes for e in entries if e.supersedes and e.supersedes != e.head.trace_id)
            made.columns.append(self.columns(entries, heads))
            if made.header.schema_version < ledger_file.STEP_COUNTS:
                for name in set(_OVER_STEPS) & set(self.figures):
                    column = made.columns[-1][name]
                    column[column > 0] = np.nan
        return made

    def _from_columns(self, name: str, data: bytes) -> _Segment:
        """A segment that is stored as columns already."""
        totals = [f for f in self.figures if f in _TOTALS]
        times = ["start_ns", "end_ns"] if "seconds" in self.figures else []
        wanted = ("trace_id", "episode", "supersedes", *NAMED, "attempt", "seed", "score", "reason", "at_ns", "meta")
        header, found = ledger_file.decode_columns(name, data, (*wanted, *totals, *times))
        traces, episodes, olds = (ids_of(found.column(c)) for c in ("trace_id", "episode", "supersedes"))
        meta = found.column("meta").combine_chunks().dictionary_encode()
        facts = [msgspec.json.decode(m, type=_Facts) for m in meta.dictionary.to_pylist()]
        facts.append(_Facts())
        which = plain_numbers(meta.indices, len(facts) - 1)
        columns: dict[str, Any] = {
            **{n: self._coded(n, found.column(n)) for n in NAMED},
            "attempt": plain_numbers(found.column("attempt"), 0),
            "seed": np.array(found.column("seed").to_pylist(), dtype=object),
            "meta": np.array(facts, dtype=object)[which],
            "value": _floats(found.column("score")),
            "reason": np.array(found.column("reason").to_pylist(), dtype=object),
            "at_ns": plain_numbers(found.column("at_ns"), 0),
            **{n: _floats(found.column(n)) for n in totals},
        }
        if times:
            start, end = (found.column(n) for n in times)
            columns["seconds"] = np.array(
                [
                    seconds_between(a, b, facts[i].seconds)
                    for a, b, i in zip(start.to_pylist(), end.to_pylist(), which.tolist(), strict=True)
                ],
                dtype=float,
            )
        for n in totals:
            hidden = [i for i, f in enumerate(facts) if is_unmetered(f.unmetered, n)]
            if hidden:
                columns[n][np.isin(which, hidden)] = np.nan
        old = {o for o, t in zip(olds, traces, strict=True) if o and o != t}
        return _Segment(name, header, episodes, traces, old, [columns], [], [])

    def _coded(self, name: str, column: Any) -> Any:
        coded = column.combine_chunks().dictionary_encode()
        numbers = np.array([self.numbers[name][v] for v in coded.dictionary.to_pylist()], dtype=np.int64)
        return numbers[plain_numbers(coded.indices, 0)]

    def columns(self, entries: Sequence[Any], heads: Sequence[Any]) -> dict[str, Any]:
        """The columns of some entries."""
        outcomes = [h.outcome for h in heads]
        return {
            "task": self._numbers("task", [h.task for h in heads]),
            "condition": self._numbers("condition", [h.condition for h in heads]),
            "agent": self._numbers("agent", [h.agent for h in heads]),
            "attempt": _column(heads, "attempt", np.int64),
            "seed": _column(heads, "seed", object),
            "meta": _column(heads, "meta", object),
            "value": _column(outcomes, "value", float),
            "reason": _column(outcomes, "reason", object),
            "at_ns": _column(entries, "at_ns", np.int64),
            **{name: _figure(entries, name) for name in self.figures},
        }

    def batch_columns(self, batches: Sequence[Batch]) -> dict[str, Any]:
        """The columns of the episodes of some batches; what they cost and did was not recorded."""
        sizes = np.array([len(b) for b in batches], dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        letters = np.frombuffer("".join(b.outcomes for b in batches).encode(), np.uint8)
        value = np.full(letters.size, np.nan)
        value[letters == ord(SUCCESS)], value[letters == ord(FAILURE)] = 1.0, 0.0
        reason = np.repeat(np.array([b.missing for b in batches], dtype=object), sizes)
        reason[letters != ord(MISSING)] = None
        first = np.array([b.first for b in batches], dtype=np.int64)
        return {
            **{n: np.repeat(self._numbers(n, [getattr(b, n) for b in batches]), sizes) for n in NAMED},
            "attempt": np.arange(letters.size) + np.repeat(first - starts, sizes),
            "seed": np.array([seed for b in batches for seed in b.seed_list()], dtype=object),
            "value": value,
            "reason": reason,
            "refused": np.zeros(letters.size, dtype=bool),
            "at_ns": np.repeat(np.array([b.at_ns for b in batches], dtype=np.int64), sizes),
            **{name: np.full(letters.size, np.nan) for name in self.figures},
        }

    def _numbers(self, name: str, column: list[str]) -> Any:
        numbers = self.numbers[name]
        if column and column.count(column[0]) == len(column):  # most runs have one agent and one condition
            return np.full(len(column), numbers[column[0]])
        return np.fromiter(map(numbers.__getitem__, column), np.int64, len(column))


def read_episodes(files: Files, run_path: str, figures: Sequence[str] = ()) -> Episodes:
    """The columns of a run's ledger as it stands, with these figures."""
    unknown = [f for f in figures if f not in FIGURES]
    if unknown:
        raise BadUsage(f"episodes have no figure {unknown[0]!r}; they have: {', '.join(FIGURES)}")
    reader = _Reader(figures)
    with ledger.gc_paused():
        segments = ledger.unreplaced(ledger.read_all(files, run_path, reader))
        blocks = [b for s in segments for b in s.columns] or [reader.columns([], [])]
        columns = {name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]}
        episodes, traces = ([i for s in segments for i in ids(s)] for ids in map(attrgetter, ("episodes", "traces")))
        live = ledger.counted(episodes, traces, {t for s in segments for t in s.superseded})
        _revise(columns, traces, [r for s in segments for r in s.revisions])
        if len(live) < len(episodes):
            columns = {name: column[live] for name, column in columns.items()}
        meta = columns.pop("meta").tolist()
        facts = set(meta)
        spoiled = {f for f in facts if f.provider_refused is not None}
        columns["refused"] = np.array([f in spoiled for f in meta] if spoiled else np.zeros(len(meta)), dtype=bool)
        batches = distinct(b for s in segments for b in s.batches)
        if batches:
            more = reader.batch_columns(batches)
            columns = {name: np.concatenate([column, more[name]]) for name, column in columns.items()}
    return Episodes(
        names={name: tuple(numbers) for name, numbers in reader.numbers.items()},
        figures={name: columns[name] for name in figures},
        said={name: _said(facts, name) for name in ("model", "temperature", "scaffold")},
        replaced=len(episodes) - len(live),
        files=tuple(f for s in segments for f in s.header.files),
        uncounted=tuple(f for f in _OVER_STEPS if f in figures and np.isnan(columns[f][: len(live)]).any()),
        **{name: column for name, column in columns.items() if name not in figures},
    )


def _revise(columns: dict[str, Any], traces: list[str], revisions: list[Revision]) -> None:
    """Outcomes as they were found later on, the newest of each trace."""
    later: dict[str, Any] = {r.trace_id: r.outcome for r in revisions if r.outcome is not None}
    for i, trace in enumerate(traces if later else ()):
        if trace in later:
            columns["value"][i] = getattr(later[trace], "value", np.nan)
            columns["reason"][i] = getattr(later[trace], "reason", None)


@lru_cache(maxsize=16)
def _shape(figures: tuple[str, ...]) -> tuple[Any, Any]:
    """An entry with the names of `Entry` and no more of them than these figures need, and its decoder."""
    head: list[Any] = [("trace_id", str), ("episode", str), ("task", str), ("attempt", int, 0)]
    head += [("condition", str, ""), ("agent", str, ""), ("seed", int | None, None)]
    head += [("outcome", _Outcome, _Outcome(reason="unscored")), ("meta", _Facts, _Facts())]
    if "seconds" in figures:
        head += [("start_ns", int | None, None), ("end_ns", int | None, None)]
    made = msgspec.defstruct("Head", head, frozen=True, gc=False)
    entry: list[Any] = [("head", made), ("at_ns", int), ("supersedes", str | None, None)]
    totals = [(f, float | None, 0.0 if _TOTALS.index(f) < _COUNTS else np.nan) for f in figures if f in _TOTALS]
    if totals:
        entry.append(("totals", msgspec.defstruct("Totals", totals, frozen=True, gc=False)))
    shape = msgspec.defstruct("Entry", entry, frozen=True, gc=False, tag="episode", kw_only=True)
    return shape, msgspec.json.Decoder(Header | shape | Revision | Batch | End)


def _column(records: Sequence[Any], name: str, kind: Any) -> Any:
    """One field of all records."""
    return np.fromiter(map(attrgetter(name), records), kind, len(records))


def _figure(entries: Sequence[Any], name: str) -> Any:
    if name != "seconds":
        column = _column(entries, f"totals.{name}", float)
        for i, entry in enumerate(entries):
            if entry.head.meta.unmetered and is_unmetered(entry.head.meta.unmetered, name):
                column[i] = np.nan
        return column
    heads = [e.head for e in entries]
    return np.array([seconds_between(h.start_ns, h.end_ns, h.meta.seconds) for h in heads], dtype=float)  # None: NaN


def _floats(column: Any) -> Any:
    """A column of numbers with NaN where it has none; the array is one's own to change."""
    return plain_numbers(column.cast("float64"), np.nan).copy()


def _said(facts: set[_Facts], name: str) -> frozenset[str]:
    return frozenset(str(value) for value in {getattr(f, name) for f in facts} if value is not None)
