"""The cost of a single call while it is recorded, by the rules of `usage.charge`: budgets see dollars at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from ethogram.traces import Span, tokens_of

from .prices import DAY_NS, FREE, MINUTE_NS, PER, OwnPrice, PriceList, Quote, Rates, moment


class Recorded(Protocol):
    """What pricing needs of a model call that is being recorded; input tokens are fresh ones, output has reasoning."""

    model: str | None
    provider: str | None
    start_ns: int | None
    input_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None

    attributes: Any


TIER = "service_tier"
HOUR_WRITES = "cache_write_1h_tokens"
"""Attributes of a model call: the tier that served it, and how many of its cache writes are kept for an hour."""


class Metering(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How recorded use becomes dollars, and what a cap does where it cannot.

    `prices` go before the table; None takes them from the user's settings. A cap on what cannot be counted is refused,
    unless `allow_unmetered`: then it holds for what is recorded, and the rest is unknown.
    """

    prices: tuple[OwnPrice, ...] | None = None
    allow_unmetered: bool = False

    def over(self, earlier: Metering) -> Metering:
        """This, and what an earlier session of the run was given."""
        prices = None if self.prices is earlier.prices is None else (*(self.prices or ()), *(earlier.prices or ()))
        return Metering(prices=prices, allow_unmetered=self.allow_unmetered or earlier.allow_unmetered)

    def calls(self) -> CallPrices:
        """Prices of single calls."""
        return CallPrices(PriceList(self.prices or ()))


class CallPrices:
    """Prices calls one by one."""

    def __init__(self, prices: PriceList) -> None:
        """Nothing is looked up yet."""
        self._prices = prices
        self._of_day: dict[tuple[str | None, str | None, str | None, int], Quote | str] = {}

    def cost(self, call: Recorded | Span) -> float | str:
        """Dollars of a call, or why they are unknown.

        What was recorded stands, but for a cost of 0 for tokens that were used: libraries write that for models they do
        not know. It is believed of the provider `local`, the user's own machine.
        """
        used = tokens_of(call)
        if call.cost_usd is not None and (call.cost_usd > 0 or not used or call.provider in FREE):
            return call.cost_usd
        if used is None:
            return "the call tells no token counts"
        tier = _facts(call).get(TIER)
        quote = self._quote(call.model, call.provider, call.start_ns or 0, tier if isinstance(tier, str) else None)
        return quote if isinstance(quote, str) else _bill(call, quote)

    def rates_at_most(
        self, model: str | None, provider: str | None, at_ns: int, tier: str | None, tokens: int
    ) -> Rates | None:
        """The dearest rates of a call with at most this many tokens of input; None where the model has no price."""
        quote = self._quote(model, provider, at_ns, tier)
        return None if isinstance(quote, str) else _rates_for(quote, tokens)

    def _quote(self, model: str | None, provider: str | None, at_ns: int, tier: str | None) -> Quote | str:
        """A price is asked for once a day, and once a minute where it changes within a day."""
        day = (model, provider, tier, at_ns // DAY_NS)
        quote = self._of_day.get(day)
        if quote is None:
            quote = self._of_day[day] = self._prices.quote(model, provider, moment(day[3] * DAY_NS), tier)
        if isinstance(quote, Quote) and quote.hourly:
            return self._prices.quote(model, provider, moment(at_ns // MINUTE_NS * MINUTE_NS), tier)
        return quote


def _facts(call: Recorded | Span) -> Mapping[str, Any]:
    """Facts beside the counts, of a call that is being recorded; of a stored span they are a text elsewhere."""
    return call.attributes if isinstance(call.attributes, Mapping) else {}


def _rates_for(quote: Quote, tokens: int) -> Rates:
    rates = quote.rates
    for start, dearer in quote.tiers:
        rates = dearer if tokens > start else rates
    return rates


def _bill(call: Recorded | Span, quote: Quote) -> float:
    fresh, cached, written = call.input_tokens or 0, call.cache_read_tokens or 0, call.cache_write_tokens or 0
    output = call.output_tokens or 0
    thought = min(call.reasoning_tokens or 0, output)
    rates = _rates_for(quote, fresh + cached + written)
    tokens = fresh * rates.fresh + cached * rates.cached + written * rates.cache_write
    hourly = _facts(call).get(HOUR_WRITES)
    if rates.cache_write_1h is not None and isinstance(hourly, int):
        tokens += min(hourly, written) * (rates.cache_write_1h - rates.cache_write)
    return rates.per_call + (tokens + (output - thought) * rates.output + thought * rates.reasoning) / PER
