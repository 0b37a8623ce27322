"""Where the paragraphs and the sections of a text are."""

from __future__ import annotations

import re

PassageRange = tuple[int, int]

_FENCE = re.compile(r"[ ]{0,3}(```+|~~~+)")
_ATX = re.compile(r"[ ]{0,3}#{1,6}(?:\s|$)")
_UNDERLINE = re.compile(r"[ ]{0,3}(?:=+|-{2,}|~{3,})\s*$")
_NUMBERED = re.compile(r"\s*(?:\d+(?:\.\d+)*[.)]?|[IVX]+\.|chapter|section|appendix|part)\s+\S", re.IGNORECASE)
LONGEST_HEADING = 80


def _lines(text: str) -> list[PassageRange]:
    """Every line with its ending."""
    found, start = [], 0
    for line in text.splitlines(keepends=True):
        found.append((start, start + len(line)))
        start += len(line)
    return found


def paragraphs(text: str, markdown: bool = False) -> list[PassageRange]:
    """Paragraphs without the white space around them; a fenced block of Markdown is one, blank lines and all."""
    found: list[PassageRange] = []
    begin: int | None = None
    finish = 0
    fence = ""
    for start, end in _lines(text):
        line = text[start:end]
        marks = _FENCE.match(line) if markdown else None
        if marks and not fence:
            fence = marks[1]
        elif fence and line.strip().startswith(fence):
            fence = ""
        if not line.strip() and not fence:
            if begin is not None:
                found.append((begin, finish))
            begin = None
            continue
        if begin is None:
            begin = start
        finish = start + len(line.rstrip())
    if begin is not None:
        found.append((begin, finish))
    return found


def sections(text: str, markdown: bool = False) -> list[PassageRange]:
    """Sections from one heading to the next; where there are no headings, paragraphs. What stands before the first
    heading belongs to none."""
    heads = _headings(text, markdown)
    if len(heads) >= 2:
        return list(zip(heads, [*heads[1:], len(text)], strict=True))
    found = paragraphs(text, markdown)
    starts = [start for start, _ in found]
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


def _headings(text: str, markdown: bool) -> list[int]:
    lines = _lines(text)
    found: list[int] = []
    fence = ""
    for i, (start, end) in enumerate(lines):
        line = text[start:end]
        marks = _FENCE.match(line) if markdown else None
        if marks:
            fence = "" if fence and line.strip().startswith(fence) else fence or marks[1]
            continue
        if fence or not line.strip():
            continue
        before = text[slice(*lines[i - 1])].strip() if i else ""
        after = text[slice(*lines[i + 1])] if i + 1 < len(lines) else ""
        underlined = _UNDERLINE.match(after) is not None and not before and _UNDERLINE.match(line) is None
        if markdown:
            if _ATX.match(line) or underlined:
                found.append(start)
        elif underlined or (not before and _is_heading(line.strip(), after.strip())):
            found.append(start)
    return found


def _is_heading(line: str, after: str) -> bool:
    """A short line on its own that is shouted or numbered, in a text without markup."""
    if len(line) > LONGEST_HEADING or line.endswith((".", ",", ";")):
        return False
    return (line.isupper() and any(c.isalpha() for c in line)) or (not after and _NUMBERED.match(line) is not None)
