"""Prices of the user: from flags, a file, the environment or `ethogram.toml`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ethogram.arguments import path_of
from ethogram.errors import BadUsage

from .prices import OwnPrice, PriceList, own_prices, parse_price, read_prices

SETTINGS = "ethogram.toml"


def price_list(file: str | Path | None = None, prices: Sequence[str] = ()) -> PriceList:
    """Own prices of flags (`NAME=FRESH/OUTPUT`), then of a file, else of ETHOGRAM_PRICES, else of `ethogram.toml`."""
    own: list[OwnPrice] = [parse_price(p) for p in prices]
    named = file or os.environ.get("ETHOGRAM_PRICES")
    if named:
        return PriceList([*own, *read_prices(named)])
    settings = Path(SETTINGS)
    if settings.is_file():
        import tomllib

        try:
            table = tomllib.loads(settings.read_text(encoding="utf-8")).get("prices")
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BadUsage(f"{SETTINGS} is not valid TOML: {error}", where=str(SETTINGS)) from None
        if table is not None:
            own += own_prices(table, SETTINGS)
    return PriceList(own)


PriceSource = PriceList | Mapping[str, Any] | str | Path | None


def as_prices(prices: PriceSource) -> PriceList:
    """A price list from what a caller may give."""
    if isinstance(prices, PriceList):
        return prices
    if isinstance(prices, Mapping):
        return PriceList(own_prices(prices, "prices"))
    return price_list(None if prices is None else path_of("prices", prices))
