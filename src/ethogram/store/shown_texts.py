"""Texts for a screen or a `--json` document: secrets in them become marks, as in what is stored.

What stands in a trace was redacted when it was written, under the policy of its run. Other words were not: what an
agent crashed with, the address of an agent, the sentence of an error. So everything that is printed passes here.
Marks are keyed anew in every process: on one screen equal secrets look equal, and nobody can test a guess.
"""

from __future__ import annotations

import os
from functools import cache

import msgspec

from .redact import SECRETS, Redactor


@cache
def _redactor() -> Redactor:
    return Redactor(os.urandom(32), SECRETS)


def shown(text: str) -> str:
    """A text as it may be printed."""
    return _redactor().redact(text).text


def shown_json(document: str) -> str:
    """A JSON document as it may be printed: words in it become marks, numbers stay as they are."""
    if not _redactor().find(document):
        return document
    return msgspec.json.encode(_redactor().redact_all(msgspec.json.decode(document))).decode()
