"""Overlap of texts: sequences of words of tasks, searched in corpora, prompts and replies.

A run of `n` words (13, as is usual for contamination; a shorter text counts as one run) that stands word for word in
both is no accident. Texts of fewer than 8 words prove nothing and are not looked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

RUN = 13
LEAST_WORDS = 8
PROBE_RUN = 5
"""Words in a row that count when a reply is held against the end of a text."""
LEAST_OWN = 3
"""The fewest runs of words of a text's own that tell memory from chance."""
_WORD = re.compile(r"\w+")


def plain_words(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation."""
    return _WORD.findall(text.casefold())


def runs_of(words: Sequence[str], n: int) -> list[str]:
    """Every run of `n` words, in order."""
    return [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]


class WordsFound(NamedTuple):
    """Runs of words of one text that were found elsewhere, of how many, and where the first stood."""

    found: int
    of: int
    n: int
    where: str | None
    first: str | None


class OverlapSearch:
    """Searches word sequences of many texts at once in the text that it is fed; keeps only the texts themselves."""

    def __init__(self, texts: Mapping[str, str], n: int = RUN) -> None:
        """`texts` by name; those that are too short are in `short`, with the number of their words."""
        self.short: dict[str, int] = {}
        self._runs: dict[str, set[str]] = {}
        self._sizes: dict[str, int] = {}
        self._owners: dict[int, dict[str, list[str]]] = {}
        self._heads: dict[int, set[str]] = {}
        self._hits: dict[str, set[str]] = {}
        self._where: dict[str, tuple[str, str]] = {}
        for name, text in texts.items():
            words = plain_words(text)
            if len(words) < LEAST_WORDS:
                self.short[name] = len(words)
                continue
            size = min(n, len(words))
            self._sizes[name], self._runs[name], self._hits[name] = size, set(runs_of(words, size)), set()
            for run in self._runs[name]:
                self._owners.setdefault(size, {}).setdefault(run, []).append(name)
                self._heads.setdefault(size, set()).add(run.partition(" ")[0])

    @property
    def longest(self) -> int:
        """Words that a piece of a text has to repeat from the piece before it."""
        return max(self._owners, default=1) - 1

    def feed(self, text: str, where: str, skip: str | None = None) -> None:
        """Look through a text; what belongs to the task `skip` does not count, for it was asked there."""
        words = plain_words(text)
        for size, owners in self._owners.items():
            heads = self._heads[size]
            for at in range(len(words) - size + 1):
                if words[at] not in heads:
                    continue
                run = " ".join(words[at : at + size])
                for name in owners.get(run, ()):
                    if name != skip:
                        self._hits[name].add(run)
                        self._where.setdefault(name, (where, run))

    def found(self) -> dict[str, WordsFound]:
        """What was found of every text that is long enough."""
        return {
            name: WordsFound(len(self._hits[name]), len(runs), self._sizes[name], *self._where.get(name, (None, None)))
            for name, runs in self._runs.items()
        }


class Beginning(NamedTuple):
    """A text cut in two: what a model is given, and what it must not know."""

    given: str
    rest: str
    own: frozenset[str]
    """Runs of words of the rest that stand neither in what is given nor in any other text: they cannot be guessed."""


def split_texts(texts: Mapping[str, str]) -> dict[str, Beginning]:
    """Texts cut in the middle; those whose end has too little of its own are left out, for nothing could be told."""
    runs = {name: set(runs_of(plain_words(text), PROBE_RUN)) for name, text in texts.items()}
    out = {}
    for name, text in texts.items():
        given, rest = _halves(text)
        others = set().union(*(r for other, r in runs.items() if other != name)) if len(runs) > 1 else set()
        own = set(runs_of(plain_words(rest), PROBE_RUN)) - others - set(runs_of(plain_words(given), PROBE_RUN))
        if len(own) >= LEAST_OWN:
            out[name] = Beginning(given, rest, frozenset(own))
    return out


def _halves(text: str) -> tuple[str, str]:
    places = [found.end() for found in _WORD.finditer(text)]
    cut = places[len(places) // 2 - 1] if len(places) > 1 else len(text)
    return text[:cut], text[cut:]


def reproduced(beginning: Beginning, reply: str) -> int:
    """How many word sequences of the unseen rest are in a reply."""
    return len(beginning.own & set(runs_of(plain_words(reply), PROBE_RUN)))
