"""Worlds to explore by what the user typed: one that ships, or a world of the user's own."""

from __future__ import annotations

import inspect
from typing import Any

from ethogram.errors import BadInput, BadUsage, EthogramError, NotFound
from ethogram.loading import named_object, raised_words
from ethogram.questions.explore.buying.grid import GridWorld

from .toy_v1 import ToyWorld

NEEDED = ("name", "synthetic", "grid", "check", "rate", "episodes")


def known_world(name: str, *, synthetic: bool = False) -> GridWorld:
    """A world by its name, or by where it is defined: `toy_v1`, `file.py:World`, `pkg.mod:WORLD`."""
    if name == "toy_v1":
        return ToyWorld(synthetic=synthetic)
    if ":" not in name:
        raise NotFound.named("world", name, ["toy_v1", "file.py:World"])
    if synthetic:
        raise BadUsage("--synthetic chooses between the two forms of toy_v1; a world of your own has one: leave it out")
    return OwnWorld(name)


class OwnWorld:
    """A world of the user's own. It travels to other processes by its name: its module has no name that they know."""

    def __init__(self, spec: str) -> None:
        """Raises `BadInput` where it cannot be made, or lacks what a world needs."""
        self._spec = spec
        try:
            defined = named_object(spec)
            self._world: Any = defined() if inspect.isclass(defined) else defined
        except EthogramError:
            raise
        except Exception as error:
            raise BadInput(f"the world {spec} cannot be made: {raised_words(error)}", where=spec) from error
        lacking = [part for part in NEEDED if not hasattr(self._world, part)]
        if lacking:
            raise BadInput(f"{spec} is no world to explore: it has no {', '.join(lacking)}", where=spec)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked while it is being unpickled, before there is a world
            raise AttributeError(name)
        return getattr(self._world, name)

    def __reduce__(self) -> tuple[type[OwnWorld], tuple[str]]:
        return OwnWorld, (self._spec,)
