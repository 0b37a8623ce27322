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
