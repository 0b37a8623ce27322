"""Operators on prompts: the same request in different words."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

import msgspec

from ethogram.errors import NotFound

from .operator import Change, Dice, NotApplicable, Notes, OperatorKind, checked_intensity, count_of, splice
from .passages import paragraphs
from .words import typo

_SENTENCE = re.compile(r"[^\s](?:[^.!?\n]|[.!?](?!\s|$))*[.!?]*(?=\s|$)")
_WORD = re.compile(r"\b[^\W\d_]{4,}\b")

PHRASES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("what is", ("could you tell me", "please state")),
    ("what are", ("which are", "please name")),
    ("how many", ("what number of", "what is the count of")),
    ("how much", ("what amount of", "what quantity of")),
    ("which", ("what",)),
    ("find", ("look up", "locate")),
    ("give", ("provide", "supply")),
    ("list", ("enumerate", "name")),
    ("show", ("display", "present")),
    ("tell me", ("let me know", "say")),
    ("calculate", ("compute", "work out")),
    ("compute", ("calculate", "work out")),
    ("write", ("compose", "put down")),
    ("explain", ("describe", "make clear")),
    ("summarise", ("sum up", "condense")),
    ("summarize", ("sum up", "condense")),
    ("use", ("make use of", "employ")),
    ("answer", ("reply", "respond")),
    ("only", ("just", "solely")),
    ("total", ("sum", "overall amount")),
    ("average", ("mean", "typical value")),
    ("file", ("document",)),
    ("table", ("chart of rows and columns",)),
    ("number", ("figure",)),
    ("please", ("kindly",)),
    ("largest", ("biggest", "greatest")),
    ("smallest", ("least", "lowest")),
    ("before", ("prior to",)),
    ("after", ("following",)),
    ("must", ("has to", "needs to")),
    ("all", ("every one of the",)),
)
"""Ways to say the same; the first of each row is what is replaced."""


class PromptChange(msgspec.Struct, frozen=True):
    """What an operator did to a prompt."""

    text: str
    summary: str
    where: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    places: int
    intensity: float = 1.0


PromptEdits = list[tuple[int, int, str]]


class PromptOperator:
    """One kind of change to a prompt."""

    kind: OperatorKind = "prompt"
    formats: tuple[str, ...] = ("prompt",)

    def __init__(
        self,
        name: str,
        does: str,
        dose: str,
        find: Callable[[str], Sequence[tuple[int, int]]],
        edit: Callable[[str, Sequence[tuple[int, int]], Dice], PromptEdits],
    ) -> None:
        """`find` draws nothing, so that what is applicable does not depend on a seed."""
        self.name = name
        self.does = does
        self.dose = dose
        self._find = find
        self._edit = edit

    def __repr__(self) -> str:
        return f"<operator {self.name} (prompt)>"

    def applicable(self, text: str) -> str | None:
        """Why this prompt cannot be changed, or None if it can."""
        try:
            self._find(text)
        except NotApplicable as reason:
            return str(reason)
        return None

    def apply(self, text: str, seed: int, intensity: float = 1.0) -> PromptChange:
        """The change: the same text, seed and intensity give the same text."""
        dice = Dice(seed, self.name, checked_intensity(intensity))
        edits = self._edit(text, self._find(text), dice)
        notes = Notes()
        for start, end, new in sorted(edits):
            notes.add(f"character {start + 1}", text[start:end], new)
        done: Change = notes.change(b"", f"{self.does}: {count_of(notes.places, 'place')}")
        return PromptChange(
            splice(text, edits), done.summary, done.where, done.before, done.after, done.places, intensity
        )


def _find_units(text: str) -> list[tuple[int, int]]:
    """What can change places: paragraphs, else lines, else sentences."""
    for found in (
        paragraphs(text),
        [m.span() for m in re.finditer(r"\S[^\n]*", text)],
        [m.span() for m in _SENTENCE.finditer(text)],
    ):
        if len({text[a:b] for a, b in found}) > 1:
            return found
    raise NotApplicable("the prompt is a single sentence")


def _reorder(text: str, units: Sequence[tuple[int, int]], dice: Dice) -> PromptEdits:
    moved = dice.picks(len(units), least=2)
    texts = [text[a:b] for a, b in units]
    if len({texts[i] for i in moved}) < 2:
        moved = sorted([*moved, next(i for i, t in enumerate(texts) if t != texts[moved[0]])])
    order, rng = list(moved), dice.rng("order")
    while [texts[i] for i in order] == [texts[i] for i in moved]:
        rng.shuffle(order)
    return [(*units[i], texts[j]) for i, j in zip(moved, order, strict=True) if texts[i] != texts[j]]


def _find_words(text: str) -> list[tuple[int, int]]:
    found = [m.span() for m in _WORD.finditer(text)]
    if not found:
        raise NotApplicable("the prompt has no word of four letters or more")
    return found


def _typos(text: str, words: Sequence[tuple[int, int]], dice: Dice) -> PromptEdits:
    edits = []
    for pick in dice.picks(len(words), 0.25):
        start, end = words[pick]
        rng = dice.rng(f"word {pick}")
        new = text[start:end]
        while new == text[start:end]:
            new = typo(new, rng)
        edits.append((start, end, new))
    return edits


_PHRASE = re.compile(r"\b(?:" + "|".join(re.escape(p) for p, _ in PHRASES) + r")\b", re.IGNORECASE)
_OTHERS = dict(PHRASES)


def _find_phrases(text: str) -> list[tuple[int, int]]:
    found = [m.span() for m in _PHRASE.finditer(text)]
    if not found:
        raise NotApplicable("the prompt has no phrase for which the list has another; give paraphrases of your own")
    return found


def _phrases(text: str, found: Sequence[tuple[int, int]], dice: Dice) -> PromptEdits:
    edits = []
    for pick in dice.picks(len(found)):
        start, end = found[pick]
        old = text[start:end]
        new = dice.rng(f"phrase {pick}").choice(_OTHERS[old.lower()])
        edits.append((start, end, new[0].upper() + new[1:] if old[0].isupper() else new))
    return edits


OPERATORS: tuple[PromptOperator, ...] = (
    PromptOperator("prompt_reorder", "parts of the prompt change places", "all parts", _find_units, _reorder),
    PromptOperator("prompt_typo", "words are mistyped", "a quarter of the words", _find_words, _typos),
    PromptOperator(
        "prompt_paraphrase", "phrases are replaced by others of the same meaning", "all", _find_phrases, _phrases
    ),
)
BY_NAME = {operator.name: operator for operator in OPERATORS}


def prompt_operator(name: str) -> PromptOperator:
    """A prompt operator by its name."""
    if name not in BY_NAME:
        raise NotFound.named("prompt operator", name, list(BY_NAME))
    return BY_NAME[name]


def paraphrases(*texts: str) -> PromptOperator:
    """An operator that puts one of your own wordings in the place of the prompt."""

    def find(text: str) -> list[tuple[int, int]]:
        if not any(other != text for other in texts):
            raise NotApplicable("no paraphrase was given that differs from the prompt")
        return [(0, len(text))]

    def edit(text: str, whole: Sequence[tuple[int, int]], dice: Dice) -> PromptEdits:
        rng: random.Random = dice.rng("wording")
        return [(0, len(text), rng.choice([other for other in texts if other != text]))]

    return PromptOperator("prompt_paraphrase", "the prompt is worded otherwise", "the whole prompt", find, edit)
