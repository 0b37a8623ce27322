"""Tools of the corner shop; `busy` and `other_tools` of the condition say how the shop behaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PRICES = {"apple": 3, "bread": 4, "milk": 2, "cheese": 9, "tea": 6, "lamp": 75, "soap": 5}


def tools(task: Any, episode: Any) -> dict[str, Callable[..., Any]]:
    """The price list, and as many tools that do not help as the condition asks for."""
    till = episode.random("till")
    busy = float(episode.condition.get("busy", 0.0))
    more = int(episode.condition.get("other_tools", 0))

    def price(item: str) -> int:
        """the price of an item"""
        if till.random() < busy:
            raise RuntimeError("the till is busy, try again")
        return PRICES[_known(item)]

    return {"price": price, **dict(list(OTHERS.items())[:more])}


def stock(item: str) -> int:
    """how many of an item are in stock"""
    return 7 + len(_known(item))


def weight(item: str) -> int:
    """the weight of an item"""
    return 100 * len(_known(item))


def discount(item: str) -> int:
    """the discount on an item"""
    return len(_known(item)) % 3


def shelf(item: str) -> int:
    """the shelf on which an item stands"""
    return 10 + len(_known(item))


OTHERS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (stock, weight, discount, shelf)}


def _known(item: str) -> str:
    name = item.strip().lower()
    if name not in PRICES:
        raise LookupError(f"the shop has no {item!r}")
    return name
