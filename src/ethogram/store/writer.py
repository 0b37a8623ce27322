"""Writing a run: many traces at once, committed in groups; many writers at once, one set of file names each.

A trace is buffered until it is complete, so that a published segment never holds half a trace. One that
grows too large for memory spills: its texts into segments of its own (sealed and redacted like all), its
spans into an unnamed temporary file until its steps can be numbered.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import msgspec

from ethogram.trace import Head, Label, Ref, Span, SpanId, Totals, TraceId, step_order, text_ref, total
from ethogram.trace.ids import ALGORITHM

from . import ledger
from .files import Files
from .ledger import DataFile, Entry, Place
from .redact import Redactor
from .segment import TextRow, parquet_bytes, span_table, step_numbers, text_table

COMMIT_WINDOW = 0.5
GROUP_SPANS = 100_000
GROUP_CHARS = 32 << 20
SPILL_SPANS = 50_000
SPILL_CHARS = 16 << 20
REMEMBERED_TEXTS = 300_000


class _Place(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What numbering steps needs to know of a span that was spilled."""

    span_id: SpanId
    parent_id: SpanId | None
    kind: str
    seq: int
    start_ns: int | None


class _Done(msgspec.Struct):
    """A complete trace that waits for its commit."""

    head: Head
    totals: Totals
    labels: Sequence[Label]
    texts: dict[Ref, TextRow]
    used: set[str]
    files: list[DataFile]
    spans: Sequence[Span] = ()
    places: tuple[Place, ...] = ()
    steps: dict[str, int] = {}
    supersedes: TraceId | None = None


class RunWriter:
    """One writer of a run. Use as a context manager: leaving it commits what is complete."""

    def __init__(
        self,
        files: Files,
        path: str,
        redactor: Redactor,
        *,
        key: tuple[str, bytes] | None = None,
        window: float | None = COMMIT_WINDOW,
    ) -> None:
        """`key` seals texts; `window` is the longest time that a complete trace waits (None: until `commit`)."""
        self.files = files
        self.path = path
        self.redactor = redactor
        self.key = key
        self.name = secrets.token_hex(5)
        self.redactions: dict[str, int] = {}
        self._window = window
        self._number = 0
        self._spilled = 0
        self._pending: list[_Done] = []
        self._pending_texts: dict[Ref, TextRow] = {}
        self._pending_size = [0, 0]
        self._known: OrderedDict[Ref, str] = OrderedDict()
        self._lock = threading.RLock()
        self._failure: BaseException | None = None
        self._timer: threading.Timer | None = None
        files.publish(f"{path}/writers/{self.name}.json", msgspec.json.encode(lease()))

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def trace(self, trace: TraceId, supersedes: TraceId | None = None) -> TraceWriter:
        """A sink for one trace."""
        return TraceWriter(self, trace, supersedes)

    def close(self) -> None:
        """Commit what is complete and give up the lease; what is complete is worth keeping whatever went wrong."""
        try:
            self.commit()
        finally:
            self.files.delete(f"{self.path}/writers/{self.name}.json")

    def where(self, ref: Ref) -> str | None:
        """The text segment that holds a text, if this writer remembers having written it."""
        with self._lock:
            if ref in self._pending_texts:
                return self._file_name("texts")
            found = self._known.get(ref)
            if found is not None:
                self._known.move_to_end(ref)
            return found

    def add(self, done: _Done) -> None:
        """Queue a complete trace; commits if the group is full, else when the window has passed."""
        with self._lock:
            self._raise_failure()
            self._pending.append(done)
            self._pending_texts.update(done.texts)
            self._pending_size[0] += len(done.spans)
            self._pending_size[1] += sum(len(t.body) for t in done.texts.values())
            if self._pending_size[0] >= GROUP_SPANS or self._pending_size[1] >= GROUP_CHARS:
                self.commit()
            elif self._timer is None and self._window is not None:
                self._timer = threading.Timer(self._window, self._commit_late)
                self._timer.daemon = True
                self._timer.start()

    def commit(self) -> None:
        """Publish all complete traces: texts, spans, labels, and last the ledger segment that makes them exist."""
        with self._lock:
            self._raise_failure()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            pending = self._pending
            if not pending:
                return
            files = [f for done in pending for f in done.files]
            texts_name = self._file_name("texts")
            if self._pending_texts:
                files.append(self.publish(texts_name, text_table(self._pending_texts.values()), seal=True))
            files.extend(self._publish_spans(pending))
            self._publish_labels(pending)
            now = time.time_ns()
            entries = [self._entry(done, texts_name, now) for done in pending]
            header = ledger.Header(
                schema_version=ledger.SCHEMA_VERSION,
                writer=self.name,
                number=self._number,
                committed_ns=now,
                files=tuple(files),
            )
            name = ledger.segment_name(self.name, self._number)
            self.files.publish(f"{self.path}/{ledger.FOLDER}/{name}", ledger.encode_segment(header, entries))
            self._remember(self._pending_texts, texts_name)
            self._number += 1
            self._pending, self._pending_texts, self._pending_size = [], {}, [0, 0]

    def publish(self, name: str, table: Any, *, seal: bool) -> DataFile:
        """Publish a data file of this run."""
        key_name, key = self.key if self.key and seal else (None, None)
        return publish_table(self.files, self.path, name, table, key_name, key)

    def spill_name(self, kind: str) -> str:
        """A file name for a part of a trace that is too large to wait."""
        with self._lock:
            self._spilled += 1
            return f"{kind}-{self.name}-x{self._spilled:06d}.parquet"

    def count(self, kind: str) -> None:
        """Count a redaction."""
        with self._lock:
            self.redactions[kind] = self.redactions.get(kind, 0) + 1

    def _file_name(self, kind: str) -> str:
        return f"{kind}-{self.name}-{self._number:06d}.parquet"

    def _commit_late(self) -> None:
        with self._lock:
            self._timer = None
            try:
                self.commit()
            except Exception as error:  # the next caller hears of it: a timer has nobody to tell
                self._failure = error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _publish_spans(self, pending: list[_Done]) -> list[DataFile]:
        import pyarrow as pa

        name = self._file_name("spans")
        tables, row = [], 0
        for done in pending:
            if done.spans:
                tables.append(span_table(done.spans, done.steps))
                done.places = (Place(name, row, len(done.spans)),)
                row += len(done.spans)
        return [self.publish(name, pa.concat_tables(tables), seal=False)] if tables else []

    def _publish_labels(self, pending: list[_Done]) -> None:
        labels = [label for done in pending for label in done.labels]
        if labels:
            name = ledger.segment_name(self.name, self._number)
            self.files.publish(f"{self.path}/labels/{name}", b"".join(msgspec.json.encode(x) + b"\n" for x in labels))

    def _entry(self, done: _Done, texts_name: str, now: int) -> Entry:
        used = done.used | ({texts_name} if done.texts else set())
        return Entry(
            head=done.head,
            totals=done.totals,
            at_ns=now,
            spans=done.places,
            texts=tuple(sorted(used)),
            supersedes=done.supersedes,
        )

    def _remember(self, refs: dict[Ref, TextRow], name: str) -> None:
        for ref in refs:
            self._known[ref] = name
        while len(self._known) > REMEMBERED_TEXTS:
            self._known.popitem(last=False)


class TraceWriter:
    """The sink of one trace: redacts, addresses and buffers."""

    def __init__(self, run: RunWriter, trace: TraceId, supersedes: TraceId | None) -> None:
        """Nothing is written before the trace is complete, unless it outgrows memory."""
        self._run = run
        self._trace = trace
        self.supersedes = supersedes
        self._spans: list[Span] = []
        self._texts: dict[Ref, TextRow] = {}
        self._chars = 0
        self._used: set[str] = set()
        self._files: list[DataFile] = []
        self._gone: set[Ref] = set()
        self._parts: IO[bytes] | None = None
        self._places: list[_Place] = []

    def text(self, body: str, field: str, original: str | None = None) -> Ref:
        """Keep a text, redacted under the policy of its field."""
        if field:
            redacted = self.clean(body, field)
            original = body if redacted != body else None
            body = redacted
        ref = text_ref(body)
        if ref in self._texts or ref in self._gone:
            return ref
        known = self._run.where(ref)
        if known is not None:
            self._used.add(known)
            return ref
        mark = None if original is None else self._run.redactor.mark(original)
        self._texts[ref] = TextRow(ref, body, len(body if original is None else original), mark)
        self._chars += len(body)
        if self._chars > SPILL_CHARS:
            self._spill_texts()
        return ref

    def clean(self, value: str, field: str) -> str:
        """A value, redacted under the policy of its field."""
        redacted = self._run.redactor.redact(value, field)
        for finding in redacted.findings:
            self._run.count(finding.kind)
        return redacted.text

    def span(self, span: Span) -> None:
        """Buffer a span."""
        self._spans.append(span)
        if len(self._spans) >= SPILL_SPANS:
            self._spill_spans()

    def finish(self, head: Head, labels: Sequence[Label]) -> None:
        """Hand the complete trace to its run."""
        done = _Done(
            head=head,
            totals=Totals(),
            labels=labels,
            texts=self._texts,
            used=self._used,
            files=self._files,
            supersedes=self.supersedes,
        )
        if self._parts is None:
            done.spans = self._spans
            done.totals = total(tuple(self._spans))
            done.steps = step_numbers(self._spans)
        else:
            self._spill_spans()
            done.totals = total(self._spilled_spans(), self._places)
            done.places = self._publish_parts()
        self._run.add(done)
        self._forget_buffers()

    def abort(self) -> None:
        """Forget the trace; parts that were published already are left over, and swept one day."""
        self._forget_buffers()

    def _forget_buffers(self) -> None:
        if self._parts is not None:
            self._parts.close()
        self._spans, self._texts, self._parts = [], {}, None

    def _spill_texts(self) -> None:
        name = self._run.spill_name("texts")
        self._files.append(self._run.publish(name, text_table(self._texts.values()), seal=True))
        self._used.add(name)
        self._gone.update(self._texts)
        self._texts, self._chars = {}, 0

    def _spill_spans(self) -> None:
        if self._parts is None:
            self._parts = tempfile.TemporaryFile(prefix="ethogram-spans-")  # noqa: SIM115 - closed in _forget_buffers
        data = msgspec.msgpack.encode(self._spans)
        self._parts.write(len(data).to_bytes(8, "little"))
        self._parts.write(data)
        self._places.extend(_Place(s.span_id, s.parent_id, s.kind, s.seq, s.start_ns) for s in self._spans)
        self._spans = []

    def _spilled_parts(self) -> Iterator[list[Span]]:
        assert self._parts is not None
        self._parts.seek(0)
        decoder = msgspec.msgpack.Decoder(list[Span])
        while length := self._parts.read(8):
            yield decoder.decode(self._parts.read(int.from_bytes(length, "little")))

    def _spilled_spans(self) -> Iterator[Span]:
        for part in self._spilled_parts():
            yield from part

    def _publish_parts(self) -> tuple[Place, ...]:
        steps: dict[str, int] = {s.span_id: i for i, s in enumerate(step_order(self._places))}
        places = []
        for part in self._spilled_parts():
            if part:
                name = self._run.spill_name("spans")
                self._files.append(self._run.publish(name, span_table(part, steps), seal=False))
                places.append(Place(name, 0, len(part)))
        return tuple(places)


class Lease(msgspec.Struct, frozen=True):
    """Who writes: enough to tell whether that process still lives."""

    pid: int
    boot: str
    started_ns: int


def lease() -> Lease:
    """The lease of this process."""
    return Lease(os.getpid(), _boot(), time.time_ns())


def is_alive(held: Lease) -> bool:
    """Whether a writer may still be at work; one on another machine is believed for a day."""
    if held.boot != _boot():
        return time.time_ns() - held.started_ns < 86_400_000_000_000
    try:
        os.kill(held.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _boot() -> str:
    """A hash that tells one start of one machine from all others, and says nothing else about it."""
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        start = str(os.getppid()).encode()
    return blake2b(start, digest_size=8).hexdigest()


def publish_table(files: Files, path: str, name: str, table: Any, key_name: str | None, key: bytes | None) -> DataFile:
    """Publish a Parquet file in a run directory and describe it for the ledger."""
    data = memoryview(parquet_bytes(table, key))
    files.publish(f"{path}/{name}", data)
    return DataFile(name, table.num_rows, data.nbytes, ALGORITHM + blake2b(data, digest_size=16).hexdigest(), key_name)
