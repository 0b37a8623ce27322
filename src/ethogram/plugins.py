"""Plug-ins: what installed packages add to Ethogram, found by entry point and loaded when a door is first used.

A package declares what it adds in its `pyproject.toml`, and nothing changes here:

    [project.entry-points."ethogram.metrics"]
    retries = "my_package.metrics:RETRIES"

The module that owns a kind of thing (readers, metrics) calls `plugged` with a function that checks what was loaded.
A plug-in that cannot be used is left out with one sentence that names its package; the others work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ethogram.errors import BadInput, EthogramError, NotFound

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

DOORS: Mapping[str, str] = {
    "ethogram.readers": "reader",
    "ethogram.writers": "writer",
    "ethogram.metrics": "metric",
    "ethogram.dimensions": "dimension",
    "ethogram.checks": "kind of check",
    "ethogram.operators": "operator",
    "ethogram.parts": "report part",
}
"""Groups of entry points, and what one entry adds."""

T = TypeVar("T")


class Plugin(NamedTuple, Generic[T]):
    """One thing that a package adds; `place` is where its code is, as `module:NAME` or `module`."""

    name: str
    package: str
    place: str
    value: T


class Plugged(NamedTuple, Generic[T]):
    """What came through one door: the plug-ins that work, and the sentence about each that does not, by its name."""

    noun: str
    working: tuple[Plugin[T], ...]
    broken: tuple[tuple[str, str], ...]

    def values(self) -> dict[str, T]:
        """The things themselves, by the names of their entry points."""
        return {plugin.name: plugin.value for plugin in self.working}

    def missing(self, name: str, known: Iterable[str], noun: str | None = None) -> BadInput:
        """The error for a name that nothing in use has: why the plug-in of that name is left out, or what is known."""
        why = next((sentence for broken, sentence in self.broken if broken == name), None)
        return NotFound.named(noun or self.noun, name, [*known]) if why is None else BadInput(why)


class Known(Mapping[str, T]):
    """Things by name: Ethogram's own, found without looking further, then those of installed packages."""

    def __init__(self, own: Mapping[str, T], added: Callable[[], Mapping[str, T]]) -> None:
        """`added` gives what came through the door; it is asked anew each time, for what it reads is kept elsewhere."""
        self.own = own
        self._added = added

    def __getitem__(self, name: str) -> T:
        return self.own[name] if name in self.own else self._added()[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from self._added()

    def __len__(self) -> int:
        return len(self.own) + len(self._added())


_problems: dict[str, None] = {}


def new_problems() -> list[str]:
    """One sentence for each plug-in that was left out since this was last asked, each once."""
    told = list(_problems)
    _problems.clear()
    return told


def plugged(
    group: str,
    check: Callable[[Any, str], T],
    *,
    taken: Collection[str] = (),
    names: Callable[[T], Iterable[str]] | None = None,
) -> Plugged[T]:
    """What installed packages add through one door.

    Takes the group of entry points (a key of `DOORS`); `check`, which gets the loaded object and the name of its entry
    point, gives the thing to use, and raises `BadInput` with the reason if the object cannot be one; `taken`, the names
    that Ethogram uses itself; `names`, for things that are known by other names than that of their entry point.

    A plug-in whose name is taken is refused, and so are two plug-ins that share a name. Raises nothing for a plug-in
    that is broken or refused: its sentence is in `broken`, and in `new_problems()`.
    """
    noun = DOORS[group]
    loaded: list[tuple[Plugin[T], list[str]]] = []
    broken: list[tuple[str, str]] = []
    for point in _entry_points(group, tuple(sys.path)):
        package = point.dist.name if point.dist is not None else point.value
        place = f"{point.module}:{point.attr}" if point.attr else point.module
        try:
            value = check(point.load(), point.name)
            own = [*names(value)] if names is not None else [point.name]
        except (Exception, SystemExit) as error:  # the code of others may raise anything
            why = str(error) if isinstance(error, EthogramError) else f"{type(error).__name__}: {error}"
            broken.append((point.name, f"the {noun} {point.name!r} of {package} cannot be loaded: {why}"))
            continue
        loaded.append((Plugin(point.name, package, place, value), own))
    owners: dict[str, list[str]] = {name: ["Ethogram"] for name in taken}
    for plugin, own in loaded:
        for name in own:
            owners.setdefault(name, []).append(plugin.package)
    working = []
    for plugin, own in loaded:
        clash = next((name for name in own if len(owners[name]) > 1), None)
        if clash is None:
            working.append(plugin)
            continue
        others = [*owners[clash]]
        others.remove(plugin.package)
        why = f"{others[0]} has a {noun} of that name too; rename one of them"
        broken.append((plugin.name, f"the {noun} {clash!r} of {plugin.package} is refused: {why}"))
    broken = [(name, " ".join(sentence.split())) for name, sentence in broken]
    _problems.update((sentence, None) for _, sentence in broken)
    return Plugged(noun, tuple(working), tuple(broken))


@lru_cache(maxsize=32)
def _entry_points(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points of a group, by name; looked up again when the path for imports has changed."""
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=group), key=lambda point: (point.name, point.value)))
