"""The cost of a single call while it is recorded, by the rules of `usage.charge`: budgets see dollars at once."""

from __future__ import annotations

from typing import Protocol

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
        self._of_day: dict[tuple[str | None, str | None, int], Quote | str] = {}

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
        quote = self._quote(call.model, call.provider, call.start_ns or 0)
        return quote if isinstance(quote, str) else _bill(call, quote)

    def _quote(self, model: str | None, provider: str | None, at_ns: int) -> Quote | str:
        """A price is asked for once a day, and once a minute where it changes within a day."""
        day = (model, provider, at_ns // DAY_NS)
        quote = self._of_day.get(day)
        if quote is None:
            quote = self._of_day[day] = self._prices.quote(model, provider, moment(day[2] * DAY_NS))
        if isinstance(quote, Quote) and quote.hourly:
            return self._prices.quote(model, provider, moment(at_ns // MINUTE_NS * MINUTE_NS))
        return quote


def _bill(call: Recorded | Span, quote: Quote) -> float:
    fresh, cached, written = call.input_tokens or 0, call.cache_read_tokens or 0, call.cache_write_tokens or 0
    output = call.output_tokens or 0
    thought = min(call.reasoning_tokens or 0, output)
    rates: Rates = quote.rates
    for start, dearer in quote.tiers:
        rates = dearer if fresh + cached + written > start else rates
    tokens = fresh * rates.fresh + cached * rates.cached + written * rates.cache_write
    return rates.per_call + (tokens + (output - thought) * rates.output + thought * rates.reasoning) / PER
