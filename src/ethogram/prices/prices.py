"""A dated price list: genai-prices, which is bundled and offline, and prices of your own, which go before it.

A model without a price has a reason instead; nobody's price is ever taken to be zero.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from ethogram.errors import BadInput, BadUsage, NotFound, Unreadable

PER = 1_000_000
"""All rates are dollars per this number of tokens."""
CACHED_SHARE = 0.1
"""What a cached token costs beside a fresh one where an own price does not say."""
ONE_HOUR = 2.0
"""What a token costs that is written into a cache for an hour, beside a fresh one, where writing has a rate at all."""
RECORDED = "recorded"
"""The provider of calls that a stored trace answered: nobody was asked, so they cost nothing."""
FREE = frozenset({"local", RECORDED})
"""Providers that cost no money by the token; `local` is that of models on the user's own machine."""
DAY_NS = 86_400_000_000_000
MINUTE_NS = 60_000_000_000
KEYS = ("fresh", "cached", "cache_write", "output", "reasoning")

PriceOrigin = Literal["recorded", "priced", "own"]


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars per million tokens; `reasoning` is a part of the output. `per_call` is a fee for the call itself.

    `cache_write_1h` is what is written for an hour, where that has a rate of its own.
    """

    fresh: float
    cached: float
    cache_write: float
    output: float
    reasoning: float
    per_call: float = 0.0
    cache_write_1h: float | None = None


class Quote(NamedTuple):
    """A price that was found: its rates, dearer ones for long inputs, where it comes from, and whether it
    changes within a day."""

    rates: Rates
    tiers: tuple[tuple[int, Rates], ...]
    source: PriceOrigin
    matched: str
    hourly: bool = False


class OwnPrice(msgspec.Struct, frozen=True, kw_only=True):
    """A price of your own, from its first day to its last; `model` may hold * and ?."""

    model: str
    rates: Rates
    provider: str | None = None
    first: date | None = None
    last: date | None = None

    def fits(self, model: str, provider: str | None, day: date) -> bool:
        """Whether it is the price of this model on this day."""
        if self.provider is not None and self.provider != provider:
            return False
        dated = (self.first is None or self.first <= day) and (self.last is None or day <= self.last)
        return dated and (self.model == model or fnmatchcase(model, self.model))


class PriceList:
    """Own prices first (the exact name before a pattern), then the table."""

    def __init__(self, own: Iterable[OwnPrice] = (), *, table: bool = True) -> None:
        """`table=False` leaves genai-prices out."""
        self.own = tuple(own)
        self._table = table
        self._found: dict[tuple[str, str | None, datetime, str | None], Quote | str] = {}

    def quote(self, model: str | None, provider: str | None, when: datetime, tier: str | None = None) -> Quote | str:
        """The price of a model at a moment, or the reason why there is none; `tier` is the service tier of the call,
        which own prices do not tell apart."""
        if not model:  # only a price for whatever there is can be meant
            return self._own("", provider, when.date()) or "the log does not name the model"
        key = (model, provider, when, tier)
        if key not in self._found:
            self._found[key] = self._own(model, provider, when.date()) or self._listed(model, provider, when, tier)
        return self._found[key]

    def _own(self, model: str, provider: str | None, day: date) -> Quote | None:
        fitting = [p for p in self.own if p.fits(model, provider, day)]
        fitting.sort(key=lambda p: (p.model != model, p.provider is None))
        return Quote(fitting[0].rates, (), "own", fitting[0].model) if fitting else None

    def _listed(self, model: str, provider: str | None, when: datetime, tier: str | None) -> Quote | str:
        late = [p for p in self.own if p.model == model]
        if late:
            return f"your own price is not for {when.date()}"
        if not self._table:
            return "the model is not in the price list"
        return listed_price(model, provider, when, tier)


def listed_price(model: str, provider: str | None, when: datetime, tier: str | None = None) -> Quote | str:
    """The price of genai-prices; `provider/model` is understood as well, and rates of a service tier that has some."""
    from genai_prices import Usage, calc_price  # 0.2 s: only who prices pays

    context = None if tier is None else {"processing" if tier == "batch" else "service_tier": tier}
    for name, at in _spellings(model, provider):
        try:
            found = calc_price(
                Usage(input_tokens=0), name, provider_id=at, genai_request_timestamp=when, price_context=context
            )
        except LookupError:
            continue
        return _quote(found)
    where = f"of provider {provider!r} " if provider else ""
    return f"the model {where}is not in the price table"


def _spellings(model: str, provider: str | None) -> list[tuple[str, str | None]]:
    """Names under which a model may be listed, each with its provider."""
    first, slash, rest = model.partition("/")
    return [(model, provider), *([(rest, first if provider is None else provider)] if slash else [])]


@lru_cache(maxsize=256)
def context_window(model: str, provider: str | None) -> int | None:
    """The most tokens that a call of a model can hold, input and output together; None where the table has none."""
    from genai_prices.data_snapshot import get_snapshot

    for name, at in _spellings(model, provider):
        try:
            window: int | None = get_snapshot().find_provider_model(name, None, at, None)[1].context_window
        except LookupError:
            continue
        return window
    return None


@lru_cache(maxsize=64)
def provider_at(address: str) -> str | None:
    """Whose prices hold for calls to an HTTP address; None where it belongs to no provider of the price table."""
    if not address.startswith("https:"):
        return None  # a server of the user's own, whatever stands behind it
    from genai_prices.data_snapshot import get_snapshot

    return next((p.id for p in get_snapshot().providers if re.match(p.api_pattern, address)), None)


def _quote(found: Any) -> Quote | str:
    price = found.model_price
    matched = f"{found.provider.id}/{found.model.id}"
    if price.input_mtok is None or price.output_mtok is None:
        return f"{matched} has no price per token in the price table"
    starts = sorted({tier.start for key in _TABLE_KEYS for tier in getattr(getattr(price, key), "tiers", ())})
    hourly = any(hasattr(getattr(p, "constraint", None), "start_time") for p in _versions(found.model.prices))
    tiers = tuple((start, _rates(price, start + 1)) for start in starts)
    return Quote(_rates(price, 0), tiers, "priced", matched, hourly)


_TABLE_KEYS = (
    *("input_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok"),
    *("output_mtok", "output_reasoning_mtok"),
)


def _versions(prices: Any) -> Sequence[Any]:
    return prices if isinstance(prices, list) else ()


def _rates(price: Any, total: int) -> Rates:
    """Rates of a request of this input length; what has no rate of its own is priced as what it is a part of."""
    rate: dict[str, float | None] = {}
    for key in _TABLE_KEYS:
        value = getattr(price, key)
        for tier in getattr(value, "tiers", ()):
            if total > tier.start:
                value = tier
        value = getattr(value, "price", getattr(value, "base", value))
        rate[key] = None if value is None else float(value)
    fresh, output = rate["input_mtok"], rate["output_mtok"]
    assert fresh is not None
    assert output is not None
    cached, written, hour, thought = (rate[k] for k in _TABLE_KEYS[1:4] + _TABLE_KEYS[5:])
    fee = price.requests_kcount
    return Rates(
        fresh=fresh,
        cached=fresh if cached is None else cached,
        cache_write=fresh if written is None else written,
        output=output,
        reasoning=output if thought is None else thought,
        per_call=0.0 if fee is None else float(getattr(fee, "base", fee)) / 1000,
        cache_write_1h=hour if hour is not None or written is None or written <= fresh else ONE_HOUR * fresh,
    )


# ---- prices of your own ----


def own_rates(
    fresh: float,
    output: float,
    cached: float | None = None,
    cache_write: float | None = None,
    reasoning: float | None = None,
) -> Rates:
    """Rates with the usual defaults: cached a tenth of fresh, cache write as fresh, reasoning as output."""
    return Rates(
        fresh=fresh,
        cached=CACHED_SHARE * fresh if cached is None else cached,
        cache_write=fresh if cache_write is None else cache_write,
        output=output,
        reasoning=output if reasoning is None else reasoning,
    )


def parse_price(text: str) -> OwnPrice:
    """`NAME=FRESH/OUTPUT[/CACHED[/CACHE_WRITE]]` in dollars per million tokens: `frontier=3/15`."""
    name, _, numbers = text.rpartition("=")
    parts = numbers.split("/")
    try:
        values = [float(p) for p in parts]
    except ValueError:
        values = []
    if not name.strip() or not 2 <= len(values) <= 4:
        raise BadUsage(f"--price {text!r} is not NAME=FRESH/OUTPUT[/CACHED[/CACHE_WRITE]], e.g. frontier=3/15")
    for value in values:
        _money(value, f"--price {text!r}")
    return OwnPrice(model=name.strip(), rates=own_rates(*values))


def read_prices(path: str | Path) -> tuple[OwnPrice, ...]:
    """Own prices of a TOML, YAML or JSON file: models with their rates, at the top or under `prices`."""
    place = Path(path)
    try:
        text = place.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"there is no price file {str(path)!r}", where=str(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"the price file {str(path)!r} cannot be read: {error}", where=str(path)) from None
    content = _parsed(text, place)
    inside = content.get("prices") if isinstance(content, dict) else None
    return own_prices(inside if isinstance(inside, dict) else content, str(path))


def _parsed(text: str, place: Path) -> Any:
    import tomllib

    try:
        if place.suffix == ".toml":
            return tomllib.loads(text)
        if place.suffix == ".json":
            return json.loads(text)
        import yaml

        return yaml.safe_load(text)
    except Exception as error:  # yaml has a tree of its own
        told = " ".join(str(error).split())[:200]
        raise Unreadable(
            f"the price file {str(place)!r} is not valid {place.suffix[1:] or 'YAML'}: {told}", where=str(place)
        ) from None


def own_prices(content: Any, where: str) -> tuple[OwnPrice, ...]:
    """Own prices of a mapping: `{model: {fresh, output, …}}`, or a list of such with dates."""
    if not isinstance(content, Mapping) or not content:
        raise BadInput(
            f"{where} holds no prices: name each model with fresh and output in dollars per million tokens", where=where
        )
    found = []
    for model, entries in content.items():
        for entry in entries if isinstance(entries, list) else [entries]:
            found.append(_own_price(str(model), entry, f"the price of {model!r} in {where}"))
    return tuple(found)


def _own_price(model: str, entry: Any, where: str) -> OwnPrice:
    if not isinstance(entry, Mapping):
        raise BadInput(f"{where} is not a table of rates; give at least fresh and output", where=where)
    unknown = set(entry) - {*KEYS, "from", "until", "provider"}
    if unknown:
        known = ", ".join((*KEYS, "from", "until", "provider"))
        raise BadInput(f"{where} has an unknown key {sorted(map(str, unknown))[0]!r}; known: {known}", where=where)
    if "fresh" not in entry or "output" not in entry:
        raise BadInput(f"{where} lacks {'fresh' if 'fresh' not in entry else 'output'}", where=where)
    rates = {key: _money(entry[key], f"{where}, {key},") for key in KEYS if key in entry}
    provider = entry.get("provider")
    return OwnPrice(
        model=model,
        rates=own_rates(**rates),
        provider=None if provider is None else str(provider),
        first=_day(entry.get("from"), where),
        last=_day(entry.get("until"), where),
    )


def _money(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise BadInput(f"{where} is not a number of dollars of at least 0", where=where.rstrip(","))
    return float(value)


def _day(value: Any, where: str) -> date | None:
    if value is None or (isinstance(value, date) and not isinstance(value, datetime)):
        return value
    if isinstance(value, datetime):
        return value.date()
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise BadInput(f"{where} has a date {value!r} that is not YYYY-MM-DD", where=where) from None


def moment(ns: int) -> datetime:
    """A time in UTC."""
    return datetime.fromtimestamp(ns / 1e9, UTC)
