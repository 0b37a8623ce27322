"""The marks that stand in stored texts where redaction took something out."""

from __future__ import annotations

import re

REDACTION_MARK = re.compile(r"\[REDACTED:[a-z0-9-]{1,40}:(?:[0-9a-f]{32}|[0-9a-f]{8})\]")
"""A mark: the kind of what was taken out, and 8 digits of its hash; all 32 under a policy that keeps the hash."""
_WHOLE = re.compile(r"\[REDACTED:(?:field:[0-9a-f]{8}|hash:[0-9a-f]{32})\]")


def is_marked(text: str) -> bool:
    """Whether something was taken out of a text."""
    return REDACTION_MARK.search(text) is not None


def is_all_marked(text: str) -> bool:
    """Whether a text is one mark that stands for a whole field."""
    return _WHOLE.fullmatch(text) is not None


_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}-----")
_BETWEEN_WORDS = " \n\t\r\"'`<>{}[](),;|"


_LONGEST = 4096
"""No detector looks further for the end of a word that is a secret."""


def cut_whole(text: str, most: int) -> str:
    """The beginning of a text that nobody has redacted yet, cut between words: of a secret it holds all or nothing."""
    if len(text) <= most:
        return text
    low = max(0, most - _LONGEST)
    return text[: max(low, *(text.rfind(sign, low, most + 1) for sign in _BETWEEN_WORDS))]


def end_whole(text: str, most: int) -> str:
    """The end of such a text, from the beginning of a line: what tells a secret stands before it, and of a private key
    that begins in the part that is left out nothing is kept."""
    if len(text) <= most:
        return text
    line = text.find("\n", len(text) - most, len(text) - most + _LONGEST)
    kept = text[line + 1 if line >= 0 else len(text) - most + _LONGEST :] if line >= 0 or most > _LONGEST else ""
    ended = _KEY_END.search(kept, 0, _LONGEST)
    return kept[ended.end() :] if ended and "-----BEGIN" not in kept[: ended.start()] else kept
