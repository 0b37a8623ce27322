"""A corner shop: prices, stock, capitals for small talk, an order book, and a shelf of files."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

PRICES = {"apple": 3, "bread": 4, "milk": 2, "cheese": 9, "tea": 6, "lamp": 40, "soap": 5}
STOCK = {"apple": 12, "bread": 0, "milk": 7, "cheese": 1, "tea": 30, "lamp": 2, "soap": 4}


def price(item: str) -> int:
    """the price of an item"""
    return _look(PRICES, item)


def stock(item: str) -> int:
    """how many of an item are in stock"""
    return _look(STOCK, item)


def add(a: float, b: float) -> float:
    """the sum of two numbers"""
    return a + b


def _look(table: dict[str, int], item: str) -> int:
    name = item.strip().lower()
    if name not in table:
        raise LookupError(f"the shop has no {item!r}")
    return table[name]


def tools(task: Any, episode: Any) -> dict[str, Callable[..., Any]]:
    """Tools of one episode: orders and files live in its own workspace."""

    def order(item: str) -> str:
        """order one of an item"""
        _look(PRICES, item)
        book = episode.workspace / "orders.json"
        orders = json.loads(book.read_text(encoding="utf-8")) if book.exists() else []
        book.write_text(json.dumps([*orders, item.strip().lower()]))
        return "ordered"

    def read_file(name: str) -> str:
        """the content of a file"""
        return _inside(episode.workspace, name).read_text(encoding="utf-8")

    def write_file(name: str, content: str) -> str:
        """write a file anew"""
        _inside(episode.workspace, name).write_text(content, encoding="utf-8")
        return "written"

    everything = {f.__name__: f for f in (price, stock, add, order, read_file, write_file)}
    return {name: everything[name] for name in task.tools}


def _inside(folder: Any, name: str) -> Any:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ValueError(f"{name!r} lies outside the workspace")
    if not path.is_file():
        raise LookupError(f"there is no file {name!r}")
    return path
