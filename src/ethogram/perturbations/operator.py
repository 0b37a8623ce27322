"""What an operator is: one kind of change, seeded and pure, that says what it did or why it cannot."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

import msgspec

from ethogram.display.shorten import shortened
from ethogram.errors import BadInput, BadUsage
from ethogram.plans import derived_seed

OperatorKind = Literal["table", "text", "pdf", "data", "tool", "prompt", "model"]
KINDS: tuple[OperatorKind, ...] = ("table", "text", "pdf", "data", "tool", "prompt", "model")

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".txt": "txt",
    ".text": "txt",
    ".md": "md",
    ".markdown": "md",
    ".pdf": "pdf",
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
}
FORMATS = ("csv", "xlsx", "txt", "md", "pdf", "json", "yaml")

MOST_PLACES = 50
"""How many changed places are listed one by one; `places` counts all of them."""
EXCERPT = 80


class NotApplicable(BadInput):
    """An operator cannot change this content; the message is the reason."""


class Change(msgspec.Struct, frozen=True):
    """What an operator did: the new content, how many places it changed, which (the first of them), and from what
    to what."""

    content: bytes
    summary: str
    where: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    places: int
    intensity: float = 1.0


@runtime_checkable
class Operator(Protocol):
    """One kind of change to a file. Users' own operators have these names and nothing else."""

    name: str
    kind: OperatorKind
    formats: tuple[str, ...]
    does: str

    def applicable(self, content: bytes, format: str) -> str | None:
        """Why this content cannot be changed, or None if it can."""
        ...

    def apply(self, content: bytes, format: str, seed: int, intensity: float = 1.0) -> Change:
        """The change: the same content, seed and intensity give the same bytes."""
        ...


ParsedFile = TypeVar("ParsedFile")
Sites = TypeVar("Sites")


class FileOperator(Generic[ParsedFile, Sites]):
    """An operator in three steps: `load` the format, `find` where a change is possible, `edit` there.

    The first two raise `NotApplicable` and draw nothing, so that what is applicable does not depend on a seed.
    """

    def __init__(
        self,
        name: str,
        kind: OperatorKind,
        does: str,
        dose: str,
        loaders: dict[str, Callable[[bytes], ParsedFile]],
        find: Callable[[ParsedFile], Sites],
        edit: Callable[[ParsedFile, Sites, Dice], Change],
    ) -> None:
        """`dose` says what an intensity of 1 means; smaller intensities change a part of the same places."""
        self.name = name
        self.kind = kind
        self.does = does
        self.dose = dose
        self.formats = tuple(loaders)
        self._loaders = loaders
        self._find = find
        self._edit = edit

    def __repr__(self) -> str:
        return f"<operator {self.name} ({', '.join(self.formats)})>"

    def applicable(self, content: bytes, format: str) -> str | None:
        """Why this content cannot be changed, or None if it can."""
        try:
            self._find(self._load(content, format))
        except NotApplicable as reason:
            return str(reason)
        return None

    def apply(self, content: bytes, format: str, seed: int, intensity: float = 1.0) -> Change:
        """The change, or `NotApplicable`."""
        dice = Dice(seed, self.name, checked_intensity(intensity))
        document = self._load(content, format)
        change = self._edit(document, self._find(document), dice)
        if change.content == content:
            raise NotApplicable(f"{self.name} finds nothing here that it would change")
        return msgspec.structs.replace(change, intensity=intensity)

    def _load(self, content: bytes, format: str) -> ParsedFile:
        if format not in self._loaders:
            raise NotApplicable(f"{self.name} works on {', '.join(self.formats)}, not on {format}")
        if not content:
            raise NotApplicable("the file is empty")
        other = looks_like(content)
        if other is not None and other != format:
            raise NotApplicable(f"the file is named as {format.upper()} but its content is {other.upper()}")
        return self._loaders[format](content)


class Dice:
    """The randomness of one change: all of it comes from a seed and the operator's name.

    What is drawn for one place depends on that place only, so that a larger intensity changes the same places and more.
    """

    def __init__(self, seed: int, name: str, intensity: float = 1.0) -> None:
        """`intensity` is the dose, above 0 and at most 1."""
        self.intensity = intensity
        self._seed = derived_seed(seed, f"perturb:{name}")

    def rng(self, purpose: str = "") -> random.Random:
        """A generator for one purpose or one place."""
        return random.Random(derived_seed(self._seed, purpose))

    def chosen(self, count: int, full: float = 1.0, *, least: int = 1, most: int | None = None) -> bytearray:
        """Which of `count` places are changed: a share of `intensity × full` of them, as one byte for each."""
        wanted = max(least, round(count * full * self.intensity))
        wanted = min(wanted, count if most is None else most, count)
        if wanted >= count:
            return bytearray(b"\x01") * count
        draw = self.rng("places").random
        drawn = array("d", (draw() for _ in range(count)))
        limit = _smallest(drawn, wanted)
        return bytearray(value <= limit for value in drawn)

    def picks(self, count: int, full: float = 1.0, *, least: int = 1, most: int | None = None) -> list[int]:
        """The places of `chosen`, as their numbers."""
        return [i for i, hit in enumerate(self.chosen(count, full, least=least, most=most)) if hit]


def _smallest(values: array[float], rank: int) -> float:
    """The value of this rank, from below; linear, since a table may have millions of rows."""
    if len(values) < 10_000:
        return sorted(values)[rank - 1]
    import numpy as np

    return float(np.partition(np.frombuffer(values), rank - 1)[rank - 1])


class Notes:
    """Collects what was changed while it is being changed; the list stays short however large the file."""

    def __init__(self) -> None:
        self.places = 0
        self._where: list[str] = []
        self._before: list[str] = []
        self._after: list[str] = []

    @property
    def full(self) -> bool:
        """Whether further places are only counted, so that nobody needs to describe them."""
        return len(self._where) >= MOST_PLACES

    def add(self, where: str, before: str, after: str) -> None:
        """One changed place."""
        self.places += 1
        if not self.full:
            self._where.append(where)
            self._before.append(excerpt(before))
            self._after.append(excerpt(after))

    def count(self) -> None:
        """One more changed place, not described."""
        self.places += 1

    def change(self, content: bytes, summary: str) -> Change:
        """The record of it all."""
        return Change(content, summary, tuple(self._where), tuple(self._before), tuple(self._after), self.places)


def excerpt(text: str) -> str:
    """A short piece of a text, on one line."""
    flat = " ".join(text.split())
    return shortened(flat, EXCERPT)


def count_of(count: int, noun: str) -> str:
    """A count with its noun."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeou" else f"{count:,} {noun}s"


def checked_intensity(intensity: float) -> float:
    """An intensity that makes sense."""
    if not 0.0 < intensity <= 1.0:
        raise BadUsage(f"the intensity {intensity!r} makes no sense; give a number above 0 and up to 1")
    return intensity


def format_of(name: str) -> str | None:
    """The format of a file by its suffix, or None."""
    dot = name.rfind(".")
    return SUFFIXES.get(name[dot:].lower()) if dot > max(name.rfind("/"), -1) else None


def looks_like(content: bytes) -> str | None:
    """The format that the first bytes of a file betray, where they do."""
    if content[:1024].lstrip()[:5] == b"%PDF-":
        return "pdf"
    if content[:4] == b"PK\x03\x04":
        return "xlsx" if b"xl/" in content else "zip"
    if content[:8] == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
        return "an old or password-protected office file"
    if content[:8] == b"\x89PNG\r\n\x1a\n" or content[:3] == b"\xff\xd8\xff":
        return "image"
    return None


def splice(source: str, edits: Sequence[tuple[int, int, str]]) -> str:
    """A text with pieces replaced; everything else stays as it was."""
    parts: list[str] = []
    at = 0
    for start, end, new in sorted(edits):
        parts += [source[at:start], new]
        at = end
    parts.append(source[at:])
    return "".join(parts)


def is_operator(value: Any) -> bool:
    """Whether a value can be used as an operator on files."""
    return isinstance(value, Operator) and not isinstance(value, type) and callable(value.apply)
