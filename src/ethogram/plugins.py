"""Plug-ins: what installed packages add to Ethogram, found by entry point and loaded on first use.

A package declares what it adds in its `pyproject.toml`, and nothing changes here:

    [project.entry-points."ethogram.metrics"]
    retries = "my_package.metrics:RETRIES"

The module that owns a kind of thing (readers, metrics) calls `plugged` with a function that checks what was loaded.
A plug-in that cannot be used is left out with one sentence that names its package; the others work. With
`ETHOGRAM_PLUGINS=off` in the environment, none is looked for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ethogram.errors import BadInput, EthogramError, NotFound

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class ExtensionPoint(NamedTuple):
    """What an entry of a group adds, and the function that gives the plug-ins of the group, as `module:name`."""

    noun: str
    lookup: str


EXTENSION_POINTS: Mapping[str, ExtensionPoint] = {
    "ethogram.readers": ExtensionPoint("reader", "ethogram.capture.readers:plugged_readers"),
    "ethogram.writers": ExtensionPoint("writer", "ethogram.questions.home.exports:plugged_formats"),
    "ethogram.metrics": ExtensionPoint("metric", "ethogram.measures.metrics:plugged_metrics"),
    "ethogram.dimensions": ExtensionPoint("dimension", "ethogram.measures.standard:plugged_dimensions"),
    "ethogram.checks": ExtensionPoint("kind of check", "ethogram.checks.settings:plugged_checks"),
    "ethogram.operators": ExtensionPoint("operator", "ethogram.questions.experiment.operators:plugged_operators"),
    "ethogram.parts": ExtensionPoint("report part", "ethogram.viewer.report.parts:plugged_parts"),
}
"""The groups of entry points; the functions are named by text, because most of them import this module."""

T = TypeVar("T")


class Plugin(NamedTuple, Generic[T]):
    """One thing that a package adds; `place` is where its code is, as `module:NAME` or `module`."""

    name: str
    package: str
    place: str
    value: T


class Plugged(NamedTuple, Generic[T]):
    """The plug-ins of one extension point: those that work, and the sentence about each that does not, by its name."""

    noun: str
    working: tuple[Plugin[T], ...]
    broken: tuple[tuple[str, str], ...]

    def values(self) -> dict[str, T]:
        """The things themselves, by the names of their entry points."""
        return {plugin.name: plugin.value for plugin in self.working}

    def missing(self, name: str, known: Iterable[str], noun: str | None = None) -> BadInput:
        """The error for a name that nothing in use has: why the plug-in of that name is left out, or what is known."""
        why = next((sentence for broken, sentence in self.broken if broken == name), None)
        if why is None:
            return NotFound.named(noun or self.noun, name, [*known])
        _problems.pop(why, None)  # the error says it
        return BadInput(why)


class Known(Mapping[str, T]):
    """Things by name: Ethogram's own, found without looking further, then those of installed packages."""

    def __init__(self, own: Mapping[str, T], added: Callable[[], Mapping[str, T]]) -> None:
        """`added` gives those of installed packages; it is asked each time, for what it reads is kept elsewhere."""
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
    found = list(_problems)
    _problems.clear()
    return found


def plugged(
    group: str,
    check: Callable[[Any, str], T],
    *,
    taken: Collection[str] = (),
    nouns: Mapping[str, str] = MappingProxyType({}),
) -> Plugged[T]:
    """What installed packages add at one extension point.

    Takes the group of entry points (a key of `EXTENSION_POINTS`); `check`, which gets the loaded object and the name of
    its entry point, gives the thing to use, and raises `BadInput` with the reason if the object cannot be one; `taken`,
    the names that Ethogram uses itself; `nouns`, what those of them are that are of another kind.

    A plug-in whose name is taken is refused, and so are two plug-ins that share a name. Raises nothing for a plug-in
    that is broken or refused: its sentence is in `broken`, and in `new_problems()`.
    """
    noun = EXTENSION_POINTS[group].noun
    loaded: list[Plugin[T]] = []
    broken: list[tuple[str, str]] = []
    for point in _entry_points(group):
        package = _package(point)
        place = f"{point.module}:{point.attr}" if point.attr else point.module
        try:
            value = check(point.load(), point.name)
        except (Exception, SystemExit) as error:  # the code of others may raise anything
            why = str(error) if isinstance(error, EthogramError) else f"{type(error).__name__}: {error}"
            broken.append((point.name, f"the {noun} {point.name!r} of {package} cannot be loaded: {why}"))
            continue
        loaded.append(Plugin(point.name, package, place, value))
    owners: dict[str, list[str]] = {name: ["Ethogram"] for name in taken}
    for plugin in loaded:
        owners.setdefault(plugin.name, []).append(plugin.package)
    working = []
    for plugin in loaded:
        others = [*owners[plugin.name]]
        others.remove(plugin.package)
        if not others:
            working.append(plugin)
            continue
        theirs = nouns.get(plugin.name, noun)
        why = f"{others[0]} has {_a(theirs)} of that name too; rename one of them"
        broken.append((plugin.name, f"the {noun} {plugin.name!r} of {plugin.package} is refused: {why}"))
    broken = [(name, " ".join(sentence.split())) for name, sentence in broken]
    _problems.update((sentence, None) for _, sentence in broken)
    return Plugged(noun, tuple(working), tuple(broken))


class Installed(NamedTuple):
    """The plug-ins that are installed: those that work by group, and the sentence about each that does not."""

    working: dict[str, tuple[Plugin[Any], ...]]
    broken: tuple[str, ...]


def installed_plugins() -> Installed:
    """Load every plug-in that is installed, and say of each whether it works.

    An entry point in a group that starts with `ethogram.` but is not an extension point is among the broken ones.
    """
    from difflib import get_close_matches
    from pkgutil import resolve_name

    working: dict[str, tuple[Plugin[Any], ...]] = {}
    broken: list[str] = []
    for group in _groups():
        if group in EXTENSION_POINTS:
            found: Plugged[Any] = resolve_name(EXTENSION_POINTS[group].lookup)()
            working[group] = found.working
            broken += [sentence for _, sentence in found.broken]
            continue
        near = get_close_matches(group, EXTENSION_POINTS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(EXTENSION_POINTS)}"
        broken += [
            f"{point.name!r} of {_package(point)} is not used: {group!r} is not an extension point; {hint}"
            for point in _entry_points(group)
        ]
    for sentence in broken:
        _problems.pop(sentence, None)  # they are in the answer
    return Installed(working, tuple(broken))


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _wanted() -> bool:
    return os.environ.get("ETHOGRAM_PLUGINS") != "off"


def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    return _found(group, tuple(sys.path)) if _wanted() else ()


def _groups() -> list[str]:
    """The groups of installed entry points that begin as ours do."""
    from importlib.metadata import entry_points

    return sorted(group for group in entry_points().groups if group.startswith("ethogram.")) if _wanted() else []


@lru_cache(maxsize=32)
def _found(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points of a group, by name; looked up again when the path for imports has changed."""
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=group), key=lambda point: (point.name, point.value)))
