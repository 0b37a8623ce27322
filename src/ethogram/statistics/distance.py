"""Edit distance of sequences: how far apart, which edits, where the first difference is.

A sequence of anything that can be hashed is written once as a word, one character per item (`Alphabet`); a single pair
of lists of strings may be given as it is. An edit turns the first word into the second: `~` substitutes, `-` deletes,
`+` inserts, `=` keeps.

Two roads to the edits, both of the least possible number and the same on every call. `edits` counts them with
rapidfuzz, in about the time that the distance itself takes; where several alignments are equally short, rapidfuzz's
own choice stands. `align` gives the alignment step by step under a stated rule: the common prefix first, then, from
the end backwards, match before substitution before insertion before deletion, as Wagner and Fischer (1974) are
usually backtracked.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein, Postfix, Prefix

from ._numeric import Floats, Ints

Sign = Literal["=", "~", "+", "-"]
Items = str | Sequence[str]
"""A word, or a list of strings that has not been written as one."""

_FIRST, _GAP, _GAP_SIZE, _LAST = 0x100, 0xD800, 0x800, 0x10FFFF
MOST_CELLS = 400_000_000
"""With more cells (2 bits each) an alignment is left to rapidfuzz, which splits long words (Hirschberg 1975)."""


class Edits(NamedTuple):
    """How many edits of each kind."""

    substitutions: int
    insertions: int
    deletions: int

    @property
    def distance(self) -> int:
        """All edits."""
        return self.substitutions + self.insertions + self.deletions


class Aligned(NamedTuple):
    """One position of an alignment: what happens there, and the index on each side (None where that side is empty)."""

    sign: Sign
    first: int | None
    second: int | None


class Alphabet(dict[Hashable, str]):
    """Gives every distinct item a character of its own, in order of appearance."""

    def word(self, items: Iterable[Hashable]) -> str:
        """A sequence as a word."""
        return "".join(map(self.__getitem__, items))

    def items_by_letter(self) -> dict[str, Hashable]:
        """The item behind each letter."""
        return {letter: item for item, letter in self.items()}

    def __missing__(self, item: Hashable) -> str:
        """A new letter for a new item."""
        code = _FIRST + len(self)
        code += _GAP_SIZE if code >= _GAP else 0  # surrogates are no characters
        if code > _LAST:
            raise ValueError(f"more than {len(self):,} distinct items cannot be aligned")
        letter = self[item] = chr(code)
        return letter


def distance(first: Items, second: Items) -> int:
    """The least number of edits (Levenshtein 1966)."""
    return int(Levenshtein.distance(first, second))


def normalised(first: Items, second: Items) -> float:
    """The distance over the longer length, 0 to 1; two empty words are alike."""
    longer = max(len(first), len(second))
    return distance(first, second) / longer if longer else 0.0


def common_prefix(first: Items, second: Items) -> int:
    """How many items agree before the first difference."""
    return int(Prefix.similarity(first, second))


def edits(first: Items, second: Items) -> Edits:
    """The edits, counted; ties as rapidfuzz decides them."""
    found = Levenshtein.editops(first, second)
    changed = len(first) - sum([block.size for block in found.as_matching_blocks()])  # substituted or deleted
    insertions = len(found) - changed
    deletions = insertions - (len(second) - len(first))
    return Edits(changed - deletions, insertions, deletions)


def edited(first: str, second: str) -> str:
    """The letters that edits touch, on both sides of a substitution; ties as rapidfuzz decides them."""
    touched = []
    for tag, i, j in Levenshtein.editops(first, second).as_list():
        if tag != "insert":
            touched.append(first[int(i)])
        if tag != "delete":
            touched.append(second[int(j)])
    return "".join(touched)


def count_edits(alignment: Iterable[Aligned]) -> Edits:
    """The edits of an alignment."""
    signs = [step.sign for step in alignment]
    return Edits(signs.count("~"), signs.count("+"), signs.count("-"))


def align(first: str, second: str, *, prefix_first: bool = True) -> list[Aligned]:
    """The alignment, ties broken as the head of this file says.

    `prefix_first=False` leaves the prefix to the backtracking: the reading of tools that keep the whole table.
    """
    kept = common_prefix(first, second) if prefix_first else 0
    a, b = first[kept:], second[kept:]
    tail = int(Postfix.similarity(a, b))  # what the backtracking would match first anyhow
    a, b = a[: len(a) - tail], b[: len(b) - tail]
    found = _backtracked(a, b, kept) if len(a) * len(b) <= MOST_CELLS else _by_rapidfuzz(a, b, kept)
    head = [Aligned("=", i, i) for i in range(kept)]
    return head + found + [Aligned("=", len(first) - k, len(second) - k) for k in range(tail, 0, -1)]


def pairwise(words: Sequence[str]) -> Floats:
    """Normalised distances of all pairs, (words, words)."""
    return distances_between(words, words)


def distances_between(first: Sequence[str], second: Sequence[str]) -> Floats:
    """Normalised distances of every word of the first list to every word of the second, (first, second)."""
    counts = _crossed(first, second, Levenshtein.distance)
    return np.asarray(counts / np.maximum(_longer(first, second), 1), dtype=np.float64)


def prefixes(first: Sequence[str], second: Sequence[str]) -> Ints:
    """Lengths of common prefixes, (first, second)."""
    return _crossed(first, second, Prefix.similarity)


def _crossed(first: Sequence[str], second: Sequence[str], scorer: Any) -> Ints:
    if not first or not second:
        return np.zeros((len(first), len(second)), dtype=np.int64)
    return np.asarray(process.cdist(first, second, scorer=scorer, dtype=np.int32), dtype=np.int64)


def _longer(first: Sequence[str], second: Sequence[str]) -> Ints:
    lengths = [np.fromiter((len(w) for w in side), np.int64, count=len(side)) for side in (first, second)]
    return np.maximum(lengths[0][:, None], lengths[1][None, :])


def _backtracked(a: str, b: str, skipped: int) -> list[Aligned]:
    """Backtracking over the table in bits: whether a diagonal step is free, whether a step along b costs one.

    The columns are those of Hyyrö (2001), each a whole number of len(a) bits, so the table takes 2 bits per cell.
    Places count from `skipped` on, the length of what was taken off both words before.
    """
    free, dearer = _columns(a, b)
    i, j = len(a) - 1, len(b) - 1
    found: list[Aligned] = []
    while i >= 0 and j >= 0:
        if a[i] == b[j]:
            found.append(Aligned("=", i + skipped, j + skipped))
            i, j = i - 1, j - 1
        elif not free[j] >> i & 1:
            found.append(Aligned("~", i + skipped, j + skipped))
            i, j = i - 1, j - 1
        elif dearer[j] >> i & 1:
            found.append(Aligned("+", None, j + skipped))
            j -= 1
        else:
            found.append(Aligned("-", i + skipped, None))
            i -= 1
    found.extend(Aligned("+", None, k + skipped) for k in range(j, -1, -1))
    found.extend(Aligned("-", k + skipped, None) for k in range(i, -1, -1))
    found.reverse()
    return found


def _columns(a: str, b: str) -> tuple[list[int], list[int]]:
    where: dict[str, int] = {}
    for i, letter in enumerate(a):
        where[letter] = where.get(letter, 0) | (1 << i)
    mask = (1 << len(a)) - 1
    up, down = mask, 0
    free: list[int] = []
    dearer: list[int] = []
    for letter in b:
        equal = where.get(letter, 0)
        diagonal = ((((equal & up) + up) ^ up) | equal | down) & mask
        along = down | (mask & ~(diagonal | up))
        free.append(diagonal)
        dearer.append(along)
        back = up & diagonal
        along = ((along << 1) | 1) & mask
        back = (back << 1) & mask
        up = back | (mask & ~(diagonal | along))
        down = along & diagonal
    return free, dearer


def _by_rapidfuzz(a: str, b: str, skipped: int) -> list[Aligned]:
    found: list[Aligned] = []
    for block in Levenshtein.opcodes(a, b):
        one = range(block.src_start + skipped, block.src_end + skipped)
        two = range(block.dest_start + skipped, block.dest_end + skipped)
        if block.tag == "delete":
            found.extend(Aligned("-", i, None) for i in one)
        elif block.tag == "insert":
            found.extend(Aligned("+", None, j) for j in two)
        else:
            sign: Sign = "=" if block.tag == "equal" else "~"
            found.extend(Aligned(sign, i, j) for i, j in zip(one, two, strict=True))
    return found
