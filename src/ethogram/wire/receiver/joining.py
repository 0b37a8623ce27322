"""Spans that wait for the rest of their trace, by trace id; they may be late, doubled or out of order.

Their bytes are in the spool; here are places only, 16 bytes a span. A trace is due when its root has ended and nothing
more of it came for a while; one whose root stays away is due after a longer while.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any

import msgspec

from ethogram.capture.telemetry.spans import Gathered, SpanBuffer, encode_raw
from ethogram.store.spool import Spool, SpooledLine

ROOTLESS_SECONDS = 60.0
"""A trace without a root is written after so long a silence: its root may belong to a service that sends us nothing."""
LONGEST_SECONDS = 300.0
"""A trace that never falls silent is written this often."""


class WaitingTrace(Gathered):
    """What of one trace is in the spool and in no ledger yet."""

    def __init__(self, position: int, now: float) -> None:
        super().__init__()
        self.start = position
        self.upto = position
        self.rooted = False
        self.began = now
        self.last = now

    @property
    def count(self) -> int:
        """How many spans wait."""
        return len(self.spans) // 2

    def is_due(self, now: float, settle: float) -> bool:
        """Whether the trace should be written now."""
        silence = settle if self.rooted else max(settle, ROOTLESS_SECONDS)
        return now - self.last >= silence or now - self.began >= max(settle, LONGEST_SECONDS)


class Joining:
    """Places of all spans that wait, by trace."""

    def __init__(self, spool: Spool, settle: float) -> None:
        """`settle` is how many seconds a trace must be silent after its root has ended."""
        self._spool = spool
        self._settle = settle
        self._waiting: dict[str, WaitingTrace] = {}
        self._numbers: dict[bytes, int] = {}
        self._resources: dict[int, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    def number_of(self, attributes: dict[str, Any]) -> tuple[int, bytes]:
        """The number of a resource, and the resource as it is kept; equal ones share their number."""
        data = encode_raw(attributes)
        mark = blake2b(data, digest_size=16).digest()
        if mark not in self._numbers:
            self._known(max(self._resources, default=-1) + 1, attributes, mark)
        return self._numbers[mark], data

    def resource(self, number: int) -> dict[str, Any]:
        """The attributes of a resource."""
        return self._resources.get(number, {})

    def add(self, lines: Iterable[tuple[str, str, bytes, int, int]], position: int, now: float) -> None:
        """Lines that were added to the spool from a position on."""
        with self._lock:
            for what, trace, line, before, length in lines:
                if trace:
                    self._place(what, trace, position, before, length, now)
                position += len(line)

    def replay(self, lines: Iterable[SpooledLine], stored: Callable[[str], int], now: float) -> int:
        """Lines of an earlier process; `stored` says up to which position those of a trace are in the ledger."""
        count = 0
        for position, line in lines:
            what, *about, body = msgspec.json.decode(line, type=tuple[msgspec.Raw, ...])
            kind, data = msgspec.json.decode(what), bytes(body)
            if kind == "resource":
                number, attributes = msgspec.json.decode(about[0]), msgspec.json.decode(data)
                self._known(number, attributes, blake2b(data, digest_size=16).digest())
                continue
            trace = msgspec.json.decode(about[0])
            if position < stored(trace):
                continue
            before = len(line) - len(data) - 2
            if kind == "event":
                kind = f"event {msgspec.json.decode(about[1])}"
            elif msgspec.json.decode(data, type=_Parent).parent_id is None:
                kind = "root"
            with self._lock:
                self._place(kind, trace, position, before, len(data), now)
            count += 1
        return count

    def take(self, now: float, *, everything: bool = False) -> dict[str, WaitingTrace]:
        """The traces that are due, which then wait no longer."""
        with self._lock:
            due = {k: w for k, w in self._waiting.items() if everything or w.is_due(now, self._settle)}
            for key in due:
                del self._waiting[key]
            return due

    def put_back(self, traces: dict[str, WaitingTrace]) -> None:
        """Traces that could not be written wait on, together with what came in the meantime."""
        with self._lock:
            for key, waiting in traces.items():
                later = self._waiting.get(key)
                if later is not None:
                    waiting.spans.extend(later.spans)
                    for span_id, places in later.events.items():
                        waiting.events.setdefault(span_id, array("Q")).extend(places)
                    waiting.rooted, waiting.upto = waiting.rooted or later.rooted, later.upto
                    waiting.last = later.last
                self._waiting[key] = waiting

    def lowest(self) -> int | None:
        """The position from which on the spool is still needed; None where nothing waits."""
        with self._lock:
            return min((w.start for w in self._waiting.values()), default=None)

    def load(self, key: str, waiting: WaitingTrace, buffer: SpanBuffer) -> None:
        """Read what waited of a trace from the spool, under a key."""
        for at in range(0, len(waiting.spans), 2):
            buffer.keep(key, self._spool.read(waiting.spans[at], waiting.spans[at + 1]))
        for span_id, places in waiting.events.items():
            for at in range(0, len(places), 2):
                buffer.keep_event(key, span_id, self._spool.read(places[at], places[at + 1]))

    def _place(self, what: str, trace: str, position: int, before: int, length: int, now: float) -> None:
        waiting = self._waiting.get(trace)
        if waiting is None:
            waiting = self._waiting[trace] = WaitingTrace(position, now)
        if what.startswith("event"):
            places = waiting.events.setdefault(what[6:], array("Q"))
        else:
            places = waiting.spans
            waiting.rooted = waiting.rooted or what == "root"
        places.append(position + before)
        places.append(length)
        waiting.upto = position + before + length
        waiting.last = now

    def _known(self, number: int, attributes: dict[str, Any], mark: bytes) -> None:
        self._numbers[mark] = number
        self._resources[number] = attributes


class _Parent(msgspec.Struct):
    """The little of a span that says whether it is a root."""

    parent_id: str | None = None
