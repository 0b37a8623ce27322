"""Usage, dated prices, nested budgets. Never calls a provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ethogram.lazy import names_in

from .budget import NOTHING, Amounts, Budget, CapReached, Caps, Meter, Unmetered

if TYPE_CHECKING:
    from .metering import CallPrices, Metering
    from .prices import OwnPrice, PriceList, Rates, own_rates, read_prices
    from .resolved import per_resolved

_LATE = {
    "CallPrices": "prices.metering",
    "Metering": "prices.metering",
    "OwnPrice": "prices.prices",
    "PriceList": "prices.prices",
    "Rates": "prices.prices",
    "own_rates": "prices.prices",
    "per_resolved": "prices.resolved",
    "read_prices": "prices.prices",
}
"""Imported on use: a recorder needs budgets, and neither arrays nor prices."""
__getattr__ = names_in(__name__, _LATE)

__all__ = [
    "NOTHING",
    "Amounts",
    "Budget",
    "CallPrices",
    "CapReached",
    "Caps",
    "Meter",
    "Metering",
    "OwnPrice",
    "PriceList",
    "Rates",
    "Unmetered",
    "own_rates",
    "per_resolved",
    "read_prices",
]
