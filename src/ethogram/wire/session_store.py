"""Sessions that no run planned, of MCP or of a gateway: a run of their own, with one trace per session.

A session may last for days and end by SIGKILL, so its trace is stored while it grows: each version supersedes the one
before it, as the versions of a growing log do.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from msgspec.structs import replace

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.intake import Intake, SourceReport
from ethogram.errors import EthogramError
from ethogram.prices import CallPrices, Meter
from ethogram.store import Home, RunWriter, compact
from ethogram.store.redact import policy_from
from ethogram.traces import Head, Label, Origin, Ref, Span, TraceId, episode_id, text_ref, trace_id
from ethogram.wire.recorder import Recorder

EVERY_SECONDS = 1.0
"""How often growing sessions are stored, at most."""
SPANS_PER_SECOND = 500
"""A longer session is stored less often, so that all its versions together stay small."""
COMMITS = 2000
"""After this number of commits the small files of the run are merged."""


class SessionStore:
    """One writer into a run of sessions."""

    def __init__(
        self, home: Home, name: str, kind: str, *, redact: str = "default", plan: dict[str, Any] | None = None
    ) -> None:
        """Open the run, or make it; raises `BadUsage` where the name belongs to another kind of run."""
        self.run, _ = home.run_of_kind(name, kind, redaction=redact, plan=plan or {})
        self.kind = kind
        self._redactor = home.redactor(policy_from(self.run.info.redaction))
        self.writer = self._new_writer()
        self._attempts = count(len(self.run.entries))
        self._sessions: list[StoredSession] = []
        self._commits = 0
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._storing = threading.Thread(target=self._store_now_and_then, name=f"{kind} store", daemon=True)
        self._storing.start()

    def session(
        self, task: str, *, attempt: int | None = None, meter: Meter | None = None, prices: CallPrices | None = None
    ) -> StoredSession:
        """A new session; `task` is what its trace is listed under, `attempt` by default its number in the run.

        It takes no lock: the thread that asks serves clients, and must not wait for a commit.
        """
        number = next(self._attempts) if attempt is None else attempt
        session = StoredSession(self, task, number, meter, prices)
        self._sessions.append(session)
        return session

    def end(self, session: StoredSession) -> None:
        """A session is over: store the last version of it."""
        with self._lock:
            session.store()
            self.writer.commit()
            self._sessions.remove(session)

    def close(self) -> None:
        """Store what every session has, and give up the run."""
        self._closed.set()
        self._storing.join()
        try:
            with self._lock:
                for session in list(self._sessions):
                    session.store()
                self._sessions.clear()
        finally:
            self.writer.close()
        with suppress(EthogramError):  # many small files are a nuisance, and others may still write
            compact(self.run)

    def _store_now_and_then(self) -> None:
        while not self._closed.wait(EVERY_SECONDS):
            with self._lock, suppress(EthogramError, OSError):  # the next time, or the end, raises it
                self._store()

    def _store(self) -> None:
        over = [session for session in self._sessions if session.over]
        stored = [session for session in list(self._sessions) if session.store(only_if_due=True)]
        for session in over:
            self._sessions.remove(session)
        if not stored:
            return
        self.writer.commit()
        self._commits += 1
        if self._commits % COMMITS == 0:
            self.writer.close()
            try:
                compact(self.run)
            finally:
                self.writer = self._new_writer()

    def _new_writer(self) -> RunWriter:
        return self.run.writer(self._redactor, window=None)


class StoredSession:
    """The trace of one session while it grows."""

    def __init__(
        self, store: SessionStore, task: str, attempt: int, meter: Meter | None, prices: CallPrices | None
    ) -> None:
        """Nothing is written before the first `store`."""
        self._sink = _GrowingSink(store)
        kind, run, key = store.kind, store.run.name, secrets.token_hex(8)
        intake = Intake(
            lambda trace: self._sink, Origin(kind, self._sink.clean(task, "task")), SourceReport(source=kind)
        )
        self.trace = TraceBuilder(intake, trace_id(kind, run, key), episode_id(kind, run, key))
        self.trace.task, self.trace.attempt = task, attempt
        self.record = Recorder(self.trace, meter, prices=prices)
        self.facts: Callable[[], dict[str, str]] = dict
        """What the trace says of itself by now, beside its spans."""
        self.over = False
        """Whether nothing more comes: it is stored for the last time, and forgotten."""
        self._told: tuple[str, str | None, dict[str, Any]] | None = None
        """What the last version said beside its spans: some of it may come after the last span."""

    def store(self, *, only_if_due: bool = False) -> bool:
        """Hand over the trace as it is now, if it has grown; the store commits it. Gives whether it was handed over."""
        trace = self.trace
        trace.meta.update(self.facts())
        told = (trace.agent, trace.answer, dict(trace.meta))
        if not self._sink.grown(told != self._told, only_if_due and not self.over):
            return False
        trace.close()
        self._told = told
        return True


class _GrowingSink:
    """Keeps a trace, redacted already, and writes a version of it whenever it is told that the trace is complete."""

    idle = False

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._texts: dict[Ref, tuple[str, str | None]] = {}
        self._spans: list[Span] = []
        self._stored = 0
        self._stored_at = 0.0
        self._versions = 0
        self._version: TraceId | None = None

    def grown(self, more: bool, only_if_due: bool) -> bool:
        """Whether there is more than was stored: spans, or facts beside them; a long trace is due less often."""
        due = time.monotonic() - self._stored_at >= len(self._spans) / SPANS_PER_SECOND
        return (len(self._spans) > self._stored or (more and self._stored > 0)) and (due or not only_if_due)

    def text(self, body: str, field: str, original: str | None = None) -> Ref:
        """Keep a text, redacted."""
        if field:
            redacted = self.clean(body, field)
            body, original = redacted, body if redacted != body else None
        ref = text_ref(body)
        self._texts.setdefault(ref, (body, original))
        return ref

    def clean(self, value: str, field: str) -> str:
        """A value, redacted."""
        return self._store.writer.clean(value, field)

    def named(self, words: str) -> str:
        """A name made of words of a session."""
        return self._store.writer.named(words)

    def span(self, span: Span) -> None:
        """Keep a span."""
        self._spans.append(span)

    def finish(self, head: Head, labels: Sequence[Label]) -> None:
        """Write a version: all that there is by now, under an id of its own."""
        spans, texts = self._spans[:], list(self._texts.values())
        self._versions += 1
        version = trace_id(self._store.kind, head.trace_id, str(self._versions))
        sink = self._store.writer.trace(version, self._version)
        for body, original in texts:
            sink.text(body, "", original)
        for span in spans:
            sink.span(replace(span, trace_id=version))
        sink.finish(replace(head, trace_id=version), labels)
        self._stored, self._version, self._stored_at = len(spans), version, time.monotonic()

    def abort(self) -> None:
        """Nothing is forgotten: versions that were stored stay."""
