"""The breaker of a run: once a provider goes on refusing, its calls are no longer forwarded.

A refusal that waiting does not cure opens it for good, after a dozen equal ones with nothing answered in between. Of an
overload it rests: calls are answered here, one at a time is let through to try, and each rest is twice as long. Only
where an attempt has spent its retries and the refusals have lasted does it open for good.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from threading import Lock

import msgspec

from ethogram.traces import REASON_FACTS

from .refusals import ProviderRefusal

EQUAL_REFUSALS = 12
LASTING_SECONDS = 60.0
"""How long an overload must last before it ends a run."""
FIRST_REST, LONGEST_REST = 0.5, 30.0
PROBE_SECONDS = 60.0
"""After this long without a reply, another call is let through."""


class Breaker:
    """One for all episodes of a session in a process; safe to use from several threads."""

    def __init__(
        self, most: int = EQUAL_REFUSALS, lasting: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`most` equal refusals open it, 0 never; an overload must have lasted for `lasting` seconds."""
        self.opened_by: ProviderRefusal | None = None
        """What ends the run, once something does."""
        self._most, self._clock = most, clock
        self._lasting = LASTING_SECONDS if lasting is None else lasting
        self._equal: Counter[tuple[object, ...]] = Counter()
        self._resting: ProviderRefusal | None = None
        self._since: float | None = None
        self._rest = self._until = 0.0
        self._probing = False
        self._lock = Lock()

    def answered(self) -> None:
        """A provider answered: what it refused before counts no longer."""
        if self._equal:
            with self._lock:
                self._equal.clear()
                self._resting = self._since = None
                self._rest, self._probing = 0.0, False

    def refused(self, refusal: ProviderRefusal) -> None:
        """A provider refused a call that was forwarded, or that nobody saw pass."""
        with self._lock:
            kind = (refusal.provider, refusal.reason, refusal.status)
            self._equal[kind] += 1
            enough = 0 < self._most <= self._equal[kind]
            if not REASON_FACTS[refusal.reason].passes:
                self.opened_by = self.opened_by or (refusal if enough else None)
                return
            now = self._clock()
            self._since = now if self._since is None else self._since
            if enough and (self._resting is None or self._probing):
                self._rest = min(max(2 * self._rest, FIRST_REST), LONGEST_REST)
                self._until = now + max(self._rest, min(refusal.retry_after or 0.0, LONGEST_REST))
                self._resting, self._probing = refusal, False

    def instead(self) -> ProviderRefusal | None:
        """What to answer in place of forwarding a call; None where it may go."""
        if self.opened_by is not None or self._resting is None:
            return self.opened_by
        with self._lock:
            now, resting = self._clock(), self._resting
            if resting is not None and now >= self._until:
                self._probing, self._until = True, now + PROBE_SECONDS
                return None
            wait = self._rest if self._probing else self._until - now
            return resting and msgspec.structs.replace(resting, retry_after=round(wait, 3))

    def spent(self) -> None:
        """An attempt has spent its retries on an overload."""
        with self._lock:
            if self._resting is not None and self._clock() - (self._since or 0.0) >= self._lasting:
                self.opened_by = self.opened_by or self._resting
