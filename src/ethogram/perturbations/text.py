"""Operators on plain text and Markdown: what scanning, copying and editing do to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .encoding import Encoded, decoded
from .figures import NUMBERS
from .operator import Change, Dice, FileOperator, NotApplicable, Notes, count_of, splice
from .passages import PassageRange, paragraphs, sections
from .words import LOOKALIKES, digit_changed

TextPlaces = list[PassageRange]

WORDS = re.compile(r"[^\W\d_]{4,}")


class TextFile:
    """A text file that is being looked at."""

    def __init__(self, content: bytes, markdown: bool) -> None:
        """Raises `NotApplicable` if it is no text."""
        self.file: Encoded = decoded(content)
        self.source = self.file.text
        self.markdown = markdown
        self._line, self._at = 1, 0

    def line(self, at: int) -> str:
        """Which line a place is in; places are asked for in order."""
        if at < self._at:
            self._line, self._at = 1, 0
        self._line += self.source.count("\n", self._at, at)
        self._at = at
        return f"line {self._line}"


def load_text(content: bytes) -> TextFile:
    """A plain text."""
    return TextFile(content, markdown=False)


def load_markdown(content: bytes) -> TextFile:
    """A Markdown text."""
    return TextFile(content, markdown=True)


LOADERS: dict[str, Callable[[bytes], TextFile]] = {"txt": load_text, "md": load_markdown}


def _replace(
    text: TextFile, sites: TextPlaces, dice: Dice, full: float, new: Callable[[str, Any], str], said: str
) -> Change:
    """Replace a share of the sites; what is drawn for a site depends on that site only."""
    edits, notes = [], Notes()
    for pick in dice.picks(len(sites), full):
        start, end = sites[pick]
        old = text.source[start:end]
        put = new(old, dice.rng(f"site {pick}"))
        edits.append((start, end, put))
        if notes.full:
            notes.count()
        else:
            notes.add(text.line(start), old, put)
    noun, _, done = said.partition(" ")
    return notes.change(text.file.encode(splice(text.source, edits)), f"{count_of(notes.places, noun)} {done}")


def _some(sites: TextPlaces, why: str) -> TextPlaces:
    if not sites:
        raise NotApplicable(why)
    return sites


# ocr_noise


def _find_letters(text: TextFile) -> TextPlaces:
    sites = [(i, i + 1) for i, c in enumerate(text.source) if c in LOOKALIKES and c not in ",."]
    return _some(sites, "the text has no letter or digit that a scanner would misread")


def _ocr_noise(text: TextFile, sites: TextPlaces, dice: Dice) -> Change:
    return _replace(text, sites, dice, 0.1, lambda old, rng: LOOKALIKES[old], "character misread")


# number_corruption


def _find_numbers(text: TextFile) -> TextPlaces:
    return _some([m.span() for m in NUMBERS.finditer(text.source)], "the text has no numbers")


def _number_corruption(text: TextFile, sites: TextPlaces, dice: Dice) -> Change:
    return _replace(text, sites, dice, 0.5, digit_changed, "number changed by a digit")


# text_redaction


def _find_words(text: TextFile) -> TextPlaces:
    return _some([m.span() for m in WORDS.finditer(text.source)], "the text has no word of four letters or more")


def _text_redaction(text: TextFile, sites: TextPlaces, dice: Dice) -> Change:
    block = "█" if text.file.can_write("█") else "X"
    if block == "X":
        sites = [s for s in sites if set(text.source[s[0] : s[1]]) != {"X"}]
    return _replace(text, sites, dice, 0.2, lambda old, rng: block * len(old), "word blacked out")


# encoding_error

_TYPOGRAPHIC = {"'": "’", '"': "“", "–": "–", "—": "—"}


def _mistaken(char: str) -> str:
    """What a character becomes when its UTF-8 bytes are read as Windows-1252."""
    raw = _TYPOGRAPHIC.get(char, "\u00a0" if char == " " else char).encode()
    return "".join(bytes([b]).decode("cp1252", "ignore") or "\ufffd" for b in raw)


def _find_foreign(text: TextFile) -> TextPlaces:
    file, source = text.file, text.source
    sites = [
        (i, i + 1)
        for i, c in enumerate(source)
        if (ord(c) > 127 or c in _TYPOGRAPHIC) and c not in "\ufeff\ufffd" and file.can_write(_mistaken(c))
    ]
    if not sites:
        # plain words have no foreign letter; their spaces may have been protected ones
        sites = [m.span() for m in re.finditer(r"(?<=\S) (?=\S)", source) if file.can_write(_mistaken(" "))]
    return _some(sites, "the text has no character that another encoding would damage")


def _encoding_error(text: TextFile, sites: TextPlaces, dice: Dice) -> Change:
    spaces = text.source[sites[0][0]] == " "
    full = 0.2 if spaces else 1.0
    return _replace(text, sites, dice, full, lambda old, rng: _mistaken(old), "character written in the wrong encoding")


# paragraph_shuffle


def _find_paragraphs(text: TextFile) -> TextPlaces:
    found = paragraphs(text.source, text.markdown)
    if len({text.source[a:b] for a, b in found}) < 2:
        raise NotApplicable("the text has a single paragraph")
    return found


def _paragraph_shuffle(text: TextFile, sites: TextPlaces, dice: Dice) -> Change:
    bodies = [text.source[a:b] for a, b in sites]
    moved = dice.picks(len(sites), 1.0, least=2)
    if len({bodies[i] for i in moved}) < 2:
        other = next(i for i, body in enumerate(bodies) if body != bodies[moved[0]])
        moved = sorted([*moved, other])
    order = list(moved)
    rng = dice.rng("order")
    while [bodies[i] for i in order] == [bodies[i] for i in moved]:
        rng.shuffle(order)
    notes = Notes()
    edits = []
    for place, origin in zip(moved, order, strict=True):
        if bodies[place] != bodies[origin]:
            edits.append((*sites[place], bodies[origin]))
            notes.add(f"paragraph {place + 1}, {text.line(sites[place][0])}", bodies[place], bodies[origin])
    return notes.change(
        text.file.encode(splice(text.source, edits)), f"{count_of(len(edits), 'paragraph')} out of order"
    )


# section_removal


def _find_sections(text: TextFile) -> TextPlaces:
    found = sections(text.source, text.markdown)
    if len(found) < 2:
        raise NotApplicable("the text has a single section, and removing it would leave nothing")
    return found


def _section_removal(text: TextFile, sites: TextPlaces, dice: Dice) -> Change:
    notes, edits = Notes(), []
    for pick in dice.picks(len(sites), 1 / 3, most=len(sites) - 1):
        start, end = sites[pick]
        edits.append((start, end, ""))
        notes.add(f"section {pick + 1}, {text.line(start)}", text.source[start:end], "")
    content = text.file.encode(splice(text.source, edits))
    return notes.change(content, f"{count_of(notes.places, 'section')} removed")


# null_content


def _find_all(text: TextFile) -> TextPlaces:
    return paragraphs(text.source, text.markdown)


def _null_content(text: TextFile, sites: TextPlaces, dice: Dice) -> Change:
    notes, edits = Notes(), []
    picks = dice.picks(len(sites))
    for pick in picks:
        start, end = sites[pick]
        edits.append((start, end, ""))
        notes.add(f"paragraph {pick + 1}, {text.line(start)}", text.source[start:end], "")
    left = "" if len(picks) == len(sites) else splice(text.source, edits)
    return notes.change(text.file.encode(left), f"{count_of(notes.places, 'paragraph')} emptied")


def _operator(
    name: str, does: str, dose: str, find: Callable[[TextFile], TextPlaces], edit: Any
) -> FileOperator[TextFile, TextPlaces]:
    return FileOperator(name, "text", does, dose, LOADERS, find, edit)


OPERATORS: tuple[FileOperator[TextFile, TextPlaces], ...] = (
    _operator(
        "ocr_noise", "characters become those a scanner takes them for", "a tenth of them", _find_letters, _ocr_noise
    ),
    _operator(
        "number_corruption", "a digit of a number is changed", "half of the numbers", _find_numbers, _number_corruption
    ),
    _operator("text_redaction", "words are blacked out", "a fifth of the words", _find_words, _text_redaction),
    _operator("paragraph_shuffle", "paragraphs change places", "all paragraphs", _find_paragraphs, _paragraph_shuffle),
    _operator(
        "encoding_error",
        "foreign letters and quotes look as if read in the wrong encoding",
        "all of them",
        _find_foreign,
        _encoding_error,
    ),
    _operator(
        "section_removal",
        "sections are missing with their headings",
        "a third of them",
        _find_sections,
        _section_removal,
    ),
    _operator("null_content", "paragraphs are emptied", "all paragraphs", _find_all, _null_content),
)
