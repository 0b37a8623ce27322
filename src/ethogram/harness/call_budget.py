"""Calls and dollars of a command that asks models itself: what a call may use is reserved before it is made."""

from __future__ import annotations

import threading
import time

import msgspec

from ethogram.capture.draft import Draft
from ethogram.errors import BadUsage
from ethogram.prices import Amounts, Budget, Caps, Metering
from ethogram.prices.call_use import CallUse
from ethogram.prices.settings import price_list
from ethogram.traces import TOKEN_FIELDS
from ethogram.wire.gateway.call import Usage

CHARACTERS_PER_TOKEN = 2.5
"""Few, so that what is reserved before a call is not less than what it uses."""


class CallLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may spend."""

    max_usd: float | None = None
    max_calls: int | None = None
    metering: Metering = Metering()


class CallBudget:
    """Calls and dollars of one command; safe to use from several threads."""

    def __init__(self, level: str, limits: CallLimits, way_out: str) -> None:
        """`level` is whose cap it is, and `way_out` what else to do about a model without a price."""
        self._way_out = way_out
        own = limits.metering.prices
        self.limits = limits
        self._prices = Metering(prices=price_list().own if own is None else own).calls()
        self._budget = Budget(level, Caps(usd=limits.max_usd, steps=limits.max_calls))
        self._lock = threading.Lock()
        self._calls = self._cached = 0
        self._known_usd = 0.0
        self._unpriced = False

    def check(self, model: str | None, provider: str | None) -> None:
        """Refuse a cap on dollars that cannot be kept; raises `BadUsage`."""
        priced = self._cost(model, provider, Usage(input_tokens=1, output_tokens=1))
        capped = self.limits.max_usd is not None and self.limits.max_calls is None
        if isinstance(priced, str) and capped and not self.limits.metering.allow_unmetered:
            raise BadUsage(
                f"model {model!r} has no price ({priced}), so --max-usd cannot be enforced; give --price "
                f"'{model or '*'}=FRESH/OUTPUT', or {self._way_out}"
            )

    def count_cached(self) -> None:
        """A reply came from a cache."""
        with self._lock:
            self._cached += 1

    def reserve(self, model: str | None, provider: str | None, most: Usage) -> Amounts:
        """Set aside what a call may use at most; raises `CapReached`."""
        cost = self._cost(model, provider, most)
        want = Amounts(steps=1, usd=0.0 if isinstance(cost, str) else cost)
        self._budget.reserve(want)
        return want

    def settle(self, want: Amounts, model: str | None, provider: str | None, usage: Usage | None) -> float | None:
        """Count a call with what it used; dollars that nobody knows are counted as they were reserved."""
        cost = self._cost(model, provider, usage or Usage())
        known = None if isinstance(cost, str) else cost
        self._budget.settle(want, Amounts(steps=1, usd=want.usd if known is None else known))
        with self._lock:
            self._calls += 1
            self._known_usd += known or 0.0
            self._unpriced = self._unpriced or known is None
        return known

    def release(self, want: Amounts) -> None:
        """Count a call that got no reply, and is not paid for."""
        self._budget.settle(want, Amounts(steps=1))
        with self._lock:
            self._calls += 1

    def use(self) -> CallUse:
        """What was used so far."""
        with self._lock:
            return CallUse(
                calls=self._calls,
                cached=self._cached,
                cost_usd=None if self._unpriced else self._known_usd,
                at_least_usd=self._known_usd,
            )

    def _cost(self, model: str | None, provider: str | None, usage: Usage) -> float | str:
        draft = Draft(kind="model", name="chat", model=model, provider=provider, start_ns=time.time_ns())
        for name in TOKEN_FIELDS:
            setattr(draft, name, getattr(usage, name))
        return self._prices.cost(draft)
