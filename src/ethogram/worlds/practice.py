"""The shop: ten small tasks with tools, to practise on; and who works on them here."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from ethogram.run.agents import ScriptedAgent

from .local_model import available

LOCAL = "ethogram.worlds.local_model:agent"
SCRIPTED = "ethogram.worlds.practice:scripted"


class Practice(NamedTuple):
    """A suite, an agent, and why it is not the real model, if it is not."""

    suite: str
    agent: str
    why: str | None


def practice() -> Practice:
    """The shipped suite with the real local model, or with the scripted agent where the model cannot run."""
    why = available()
    return Practice(shop(), LOCAL if why is None else SCRIPTED, why)


def shop() -> str:
    """Where the suite lies."""
    return str(Path(str(files("ethogram.worlds"))) / "shop")


scripted = ScriptedAgent(
    {
        "price-cheese": [[("tool", "price", {"item": "cheese"}), "9"], ["10"]],
        "price-milk": [[("tool", "price", {"item": "milk"}), "2"]],
        "stock-tea": [[("tool", "stock", {"item": "tea"}), "30"], [("tool", "price", {"item": "tea"}), "6"]],
        "two-teas": [[("tool", "price", {"item": "tea"}), "12"], [("tool", "price", {"item": "tea"}), "6"]],
        "order-apple": [[("tool", "order", {"item": "apple"}), "done"]],
        "*": [["40"]],
    },
    name="scripted-shopper",
)
"""A deterministic stand-in: right on some tasks, wrong on others, and now and then both."""
