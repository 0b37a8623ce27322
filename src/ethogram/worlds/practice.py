"""The shop: ten small tasks with tools, to practise on; and the agents that work on them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ethogram.harness.agents import ScriptedAgent

from .local_model import available

if TYPE_CHECKING:
    from .model_server import ReplyFunction

OPENAI = "ethogram.worlds.openai_shopper:solve"
LOCAL = "ethogram.worlds.local_model:agent"
SCRIPTED = "ethogram.worlds.practice:scripted"


class Practice(NamedTuple):
    """A suite, an agent, and why it is not the real model, if it is not."""

    suite: str
    agent: str
    why: str | None


def practice() -> Practice:
    """The shipped suite with an agent: one written with the package of OpenAI, in front of the real local model.

    Where the package is not installed, a small agent of our own asks the model; where the model cannot run, a scripted
    agent works, and `why` says so.
    """
    why = available()
    if why is not None:
        return Practice(shop(), SCRIPTED, why)
    return Practice(shop(), OPENAI if importlib.util.find_spec("openai") else LOCAL, None)


@contextmanager
def local_provider() -> Iterator[None]:
    """In the block, clients of OpenAI and Anthropic in this process find the local model in place of the provider."""
    from .model_server.local import LocalReply

    with provided(LocalReply()):
        yield


@contextmanager
def provided(reply: ReplyFunction) -> Iterator[None]:
    """In the block, clients of OpenAI and Anthropic in this process find a model that is served on this machine."""
    from .model_server import serve_model

    with serve_model(reply) as server:
        ours = server.variables()
        before = {name: os.environ.get(name) for name in ours}
        os.environ.update(ours)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


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
