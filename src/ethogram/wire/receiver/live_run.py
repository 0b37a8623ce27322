"""A run that grows by the spans of live agents: the spool keeps them durably, a thread writes their traces."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ethogram.capture.intake import SourceReport
from ethogram.errors import BadUsage
from ethogram.store import Home
from ethogram.store.files import LocalFiles
from ethogram.store.redact import policy_from
from ethogram.store.spool import FOLDER, Spool

from .ingest import Ingest
from .joining import Joining
from .writing import TraceWriting, episode_of, stored_positions

KIND = "serve"


class LiveRun:
    """Takes spans by `ingest`, and writes their traces once they fall silent."""

    def __init__(self, home: Home, name: str, *, settle: float, redact: str, say: Callable[[str], None]) -> None:
        """Takes the spool of the run, and what an earlier process left in it; `start` begins to work.

        A trace is written `settle` seconds after its root has ended; `say` is told in one sentence of what goes wrong.
        Raises `BadUsage` for a home that is no folder of this machine, and for a run of another kind.
        """
        if policy_from(redact).fields:
            raise BadUsage("serve keeps spans before it understands them: --redact cannot name single fields here")
        if not isinstance(home.files, LocalFiles):
            raise BadUsage(f"serve needs a home in a folder of this machine, not {home.files.address}: see --home")
        self.run, _ = home.run_of_kind(name, KIND, redaction=redact)
        stored = stored_positions(self.run)
        self._spool = Spool(Path(home.files.root) / self.run.path / FOLDER, start=max(stored.values(), default=0))
        redactor = home.redactor(policy_from(self.run.info.redaction))
        joining = Joining(self._spool, settle)
        self.recovered = joining.replay(
            self._spool.lines(), lambda key: stored.get(episode_of(key), 0), time.monotonic()
        )
        self.problems = list(self._spool.problems)
        if home.keys.active():
            self.problems.append("a key is active: spans are sealed once stored, and unsealed in the spool before")
        self._writer = self.run.writer(redactor, window=None)
        self.ingest = Ingest(self._spool, joining, redactor)
        self._writing = TraceWriting(self.run, self._writer, self._spool, joining, say)

    @property
    def report(self) -> SourceReport:
        """What was written, and what was wrong."""
        return self._writing.report

    @property
    def superseded(self) -> int:
        """Traces that were written again, because more of them came."""
        return self._writing.superseded

    def start(self) -> None:
        """Begin to take spans and to write traces."""
        self.ingest.start()
        self._writing.start()

    def close(self) -> None:
        """Keep what has come, write every trace, and give back the run."""
        try:
            self.ingest.close()
            self._writing.close()
        finally:
            self.give_up()
            self.run.forget_cache()

    def give_up(self) -> None:
        """Give back the run and the spool; what waits there is taken up by the next process."""
        with suppress(OSError):
            self._spool.close()
        self._writer.close()
