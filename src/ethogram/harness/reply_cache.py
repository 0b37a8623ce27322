"""Replies of models that were paid for, kept beside the other derived files of a run: asked again, they cost nothing.

They are redacted, and forgotten with the run's traces. A sealed run keeps none, because words would be readable.
"""

from __future__ import annotations

import msgspec

from ethogram.errors import EthogramError
from ethogram.store import DERIVED, Redactor, Run


class _Cached(msgspec.Struct, frozen=True):
    text: str


class ReplyCache:
    """Replies by the digest of what was asked; `name` is what asked."""

    def __init__(self, run: Run, redactor: Redactor, name: str) -> None:
        self._run, self._redactor, self._name = run, redactor, name

    @classmethod
    def of(cls, run: Run, redactor: Redactor, name: str) -> ReplyCache | None:
        """The cache of a run; None where its words are sealed."""
        sealed = run.keys.active() is not None or any(f.key for f in run.standing.files)
        return None if sealed else cls(run, redactor, name)

    def find(self, asked: str) -> str | None:
        """A reply that was kept."""
        try:
            return msgspec.json.decode(self._run.files.read(self._path(asked)), type=_Cached).text
        except (EthogramError, msgspec.MsgspecError, UnicodeDecodeError, OSError):
            return None

    def keep(self, asked: str, text: str) -> None:
        """Keep a reply, redacted; a home that may only be read keeps none."""
        clean = self._redactor.redact(text, "label").text
        try:
            self._run.files.publish(self._path(asked), msgspec.json.encode(_Cached(clean)))
        except (EthogramError, OSError):
            return

    def _path(self, asked: str) -> str:
        return f"{self._run.path}/{DERIVED}/{self._name}-{asked.rpartition(':')[2]}.json"
