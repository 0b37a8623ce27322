"""A thread that turns waiting spans into traces of a run, commits them, and frees the spool.

A trace is known by its id wherever its spans come from. Spans that come after it was written are joined with the stored
version: that is read back as spans of our own writer, and the joined trace supersedes it. The ledger says up to which
position of the spool a trace is stored, so that after a crash nothing is counted twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.register import Register
from ethogram.capture.telemetry.assemble import write_trace
from ethogram.capture.telemetry.gathering import Gathering
from ethogram.capture.telemetry.spans import RawEvent, RawSpan, SpanBuffer, decode_span
from ethogram.capture.telemetry.wire import taken_apart
from ethogram.capture.writers.otlp import document_of
from ethogram.errors import EthogramError
from ethogram.store import Entry, Run, RunWriter, TraceWriter
from ethogram.store.spool import Spool
from ethogram.traces import EpisodeId, Head, Label, Missing, Origin, Trace, TraceId, episode_id

from .batch import FORMAT
from .joining import Joining, WaitingTrace

SOURCE = "serve"
"""What the origin of a trace names as its source."""
ROUND_SECONDS = 0.25
COMMIT_SECONDS = 1.0
COMMIT_SPANS = 20_000
IDLE_SECONDS = 30.0
"""A commit of nothing says that the writer is still there."""


class TraceWriting:
    """Writes traces that are due, one round after the other."""

    def __init__(self, run: Run, writer: RunWriter, spool: Spool, joining: Joining, say: Callable[[str], None]) -> None:
        """`say` is told in one sentence of what goes wrong while nobody waits for an answer."""
        self.report = SourceReport(source=SOURCE)
        self.superseded = 0
        self._run = run
        self._writer = writer
        self._spool = spool
        self._joining = joining
        self._say = say
        self._register = Register(run)
        self._upto: dict[EpisodeId, int] = stored_positions(run)
        self._spans = 0
        self._committed = time.monotonic()
        self._over = threading.Event()
        self._complaint = ""
        self._thread = threading.Thread(target=self._rounds, name="otlp traces", daemon=True)

    def start(self) -> None:
        """Begin to write what is due."""
        self._thread.start()

    def close(self) -> None:
        """Write everything that waits, and commit it; raises what keeps it from that."""
        self._over.set()
        self._thread.join()
        self._write(everything=True)
        self._commit()

    def _rounds(self) -> None:
        while not self._over.wait(ROUND_SECONDS):
            try:
                self._write()
                if time.monotonic() - self._committed >= (COMMIT_SECONDS if self._spans else IDLE_SECONDS):
                    self._commit()
                self._complaint = ""
            except (EthogramError, OSError) as error:  # the spool keeps what could not be written
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    self._say(f"traces wait in the spool: {error}")

    def _write(self, *, everything: bool = False) -> None:
        due = self._joining.take(time.monotonic(), everything=everything)
        try:
            entries = self._stored(due)
            for key in list(due):
                self._one(key, due[key], entries)
                self._spans += due.pop(key).count
                if self._spans >= COMMIT_SPANS:
                    self._writer.commit()
                    self._spans = 0
        finally:
            self._joining.put_back(due)  # after a failure; else nothing is left

    def _commit(self) -> None:
        self._writer.commit()
        self._spans, self._committed = 0, time.monotonic()
        position = self._spool.position  # before the look at what waits: whatever comes later stands behind it
        lowest = self._joining.lowest()
        self._spool.release(position if lowest is None else min(position, lowest))

    def _stored(self, due: dict[str, WaitingTrace]) -> dict[str, Entry]:
        """The entries of those traces that are stored already, as the ledger has them now."""
        wanted = {episode for key in due if (episode := episode_of(key)) in self._register.episodes}
        if not wanted:
            return {}
        self._writer.commit()
        self._run.forget_cache()
        return {e.head.episode: e for e in self._run.entries if e.head.episode in wanted and not e.forgotten}

    def _before(self, key: str, entries: dict[str, Entry]) -> tuple[str, Trace | None]:
        """The stored version of a trace, if there is one, and the key under which new spans are written.

        Where the stored version cannot be read any more, they become a trace of their own.
        """
        if episode_of(key) not in self._register.episodes:
            return key, None
        try:
            return key, self._run.trace(entries[episode_of(key)])
        except (KeyError, EthogramError):
            apart = f"{key}#{self._spool.position}"
            self._say(f"trace {key} is stored and cannot be read; spans that came later are kept as trace {apart}")
            return apart, None

    def _one(self, key: str, waiting: WaitingTrace, entries: dict[str, Entry]) -> None:
        """Write one trace: what waited of it, together with what is stored of it."""
        key, before = self._before(key, entries)
        buffer = SpanBuffer(resources=self._joining.resource)
        try:
            self._joining.load(key, waiting, buffer)
            if before is not None and not self._merge(key, before, buffer):
                self.report.unchanged += 1
                return
            upto = max(waiting.upto, self._upto.get(episode_of(key), 0))
            sinks: dict[TraceId, TraceWriter] = {}

            def open_sink(trace: TraceId) -> TraceWriter:
                sinks[trace] = self._writer.trace(trace)
                return sinks[trace]

            def settle(head: Head, labels: Sequence[Label], spans: int) -> Head | None:
                known = self._register.entry(head)
                if known is not None and known.trace_id == head.trace_id:
                    return None  # it was written before something else failed
                if known is not None:
                    sinks[head.trace_id].supersedes = known.trace_id
                    self.superseded += 1
                return self._register.number(head, spans, self.report)

            expect = None if self._writer.redactor.idle else self._writer.expect
            origin = Origin(FORMAT, SOURCE, str(upto))
            intake = Intake(open_sink, origin, self.report, settle, expect=expect)
            write_trace(buffer, key, intake, finish=None if before is None else _knowing(before.head))
            self._upto[episode_of(key)] = upto
        finally:
            buffer.close()

    def _merge(self, key: str, before: Trace, buffer: SpanBuffer) -> bool:
        """Put the stored spans beside the new ones, unless nothing is new; what came a second time is dropped."""
        there = {(s.span_id, s.start_ns, s.end_ns) for s in before.spans}
        fresh = []
        for position in range(len(buffer.sizes(key))):
            data = buffer.encoded(key, position)
            span = decode_span(data)
            if (span.span_id, span.start_ns, span.end_ns) in there:
                self.report.lose("span (delivered twice)")
            else:
                fresh.append(data)
        found = buffer.traces[key]
        if not fresh and not found.events:
            return False
        del found.spans[:]
        taker = _OneTrace(key, buffer)
        intake = Intake(_no_sink, Origin(FORMAT), self.report)
        Gathering(taker, intake).pieces("", taken_apart(document_of(before, self.report.lost)))
        for data in fresh:
            buffer.keep(key, data)
        return True


def episode_of(key: str) -> EpisodeId:
    """The episode of a trace id: the same whether its spans come live or in a file."""
    return episode_id(FORMAT, "", key)


def stored_positions(run: Run) -> dict[EpisodeId, int]:
    """Up to which position of the spool each trace of a run is stored."""
    found: dict[EpisodeId, int] = {}
    for entry in run.entries:
        origin = entry.head.origin
        if origin is not None and origin.name == SOURCE and origin.digest.isdigit():
            found[entry.head.episode] = int(origin.digest)
    return found


class _OneTrace:
    """Takes spans of our own writer back under the trace id that they came with; their resource was ours."""

    def __init__(self, key: str, buffer: SpanBuffer) -> None:
        self._key = key
        self._buffer = buffer

    def resource(self, attributes: dict[str, object]) -> int:
        return -1

    def open_resource(self) -> int:
        return -1

    def fill_resource(self, number: int, attributes: dict[str, object]) -> None:
        pass

    def add(self, trace: str, span: RawSpan) -> None:
        span.resource = -1
        self._buffer.add(self._key, span)

    def add_event(self, trace: str, span_id: str, event: RawEvent) -> None:
        self._buffer.add_event(self._key, span_id, event)


def _knowing(head: Head) -> Callable[[TraceBuilder, str, dict[str, str]], None]:
    """Completes a joined trace with what the stored version knew and the new spans do not say."""

    def finish(trace: TraceBuilder, key: str, ids: dict[str, str]) -> None:
        trace.meta = {**head.meta, **trace.meta}
        trace.task = trace.task or head.task
        trace.condition = trace.condition or head.condition
        trace.agent = trace.agent or head.agent
        trace.seed = head.seed if trace.seed is None else trace.seed
        if isinstance(trace.outcome, Missing):
            trace.outcome = head.outcome

    return finish


def _no_sink(trace: TraceId) -> TraceWriter:
    raise AssertionError("stored spans are only gathered here")
