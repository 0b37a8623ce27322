"""Reports that pytest does not make: on all attempts of a test, and on the session's verdict."""

from __future__ import annotations

from typing import Any

import pytest
from _pytest._code.code import ReprFileLocation, TerminalRepr
from _pytest._io import TerminalWriter

ATTEMPTS = "ethogram"
"""The phase of a report that tells of all attempts of a test, and the attribute that holds them: the session logs the
usual three phases once it has its verdict. Other plug-ins take it for a phase that passed."""


def make_report(nodeid: str, location: tuple[str, int | None, str], when: str, **more: Any) -> pytest.TestReport:
    """A report that our own hooks know by its attribute; it passed, unless `more` says otherwise."""
    fields: dict[str, Any] = {"keywords": {}, "outcome": "passed", "longrepr": None, ATTEMPTS: {}, "when": when, **more}
    return pytest.TestReport(nodeid=nodeid, location=location, **fields)


class FailureWords(TerminalRepr):
    """Why a test failed, in words: the first line is what summaries show."""

    def __init__(self, words: str) -> None:
        """`words` may have many lines."""
        self._words = words
        self.reprcrash = ReprFileLocation("", 0, words.partition("\n")[0])

    def toterminal(self, tw: TerminalWriter) -> None:
        """Write all of it."""
        for line in self._words.splitlines():
            tw.line(line)
