"""Error templates: the text of an error with ids, numbers, paths and quoted values masked, so that the same error of
different runs is counted as one."""

from __future__ import annotations

import re
from hashlib import blake2b

import msgspec

from ethogram.traces import REDACTION_MARK

MOST_LENGTH = 400
"""Of an error that is longer, the first line and the last lines count: a traceback says what went wrong at its end."""

_MASKS = re.compile(
    rf"(?P<mark>{REDACTION_MARK.pattern})"
    r"""
  | (?P<url>\b[a-z][a-z0-9+.-]{1,20}://[^\s'"<>)\]]+)
  | (?P<mail>\b[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+)
  | (?P<path>(?<![\w.])(?:[A-Za-z]:\\|~?/|\.{1,2}/)[\w@+.~/\\-]+)
  | (?P<uuid>\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b)
  | (?P<time>\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?)
  | (?P<hex>\b0x[0-9a-fA-F]+\b)
  | (?P<quoted>'[^'\n]{1,200}'|"[^"\n]{1,200}"|`[^`\n]{1,200}`)
  | (?P<id>[\#@]?\b(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Za-z])[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*\b)
  | (?P<number>[-+]?\d+(?:[.,]\d+)*)
    """,
    re.VERBOSE,
)
_SHOWN = {"mark": "<redacted>", "time": "<time>", "quoted": "<value>", "number": "<n>", "hex": "<id>", "uuid": "<id>"}
_BLANKS = re.compile(r"\s+")


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A masked error: a short id that is the same everywhere, and its words."""

    id: str
    words: str


def template_of(error: str) -> Template:
    """The template of an error text.

    Example: `template_of("order #W12 of user_7 not found").words` is `order <id> of <id> not found`.
    """
    words = _BLANKS.sub(" ", _MASKS.sub(_masked, _essence(error))).strip() or "no words"
    return Template(id=blake2b(words.casefold().encode(), digest_size=4).hexdigest(), words=words)


def _masked(match: re.Match[str]) -> str:
    kind = match.lastgroup or "id"
    return _SHOWN.get(kind, f"<{kind}>")


def _essence(error: str) -> str:
    """The part of an error that says what it is: of a Python traceback its last line, else its beginning."""
    text = error.strip()
    if "Traceback (most recent call last)" in text:
        lines = [line for line in text.splitlines() if line.strip()]
        last = next((line for line in reversed(lines) if line[:1].strip() and not line.startswith("Traceback")), "")
        text = last or lines[-1]
    return text[:MOST_LENGTH]
