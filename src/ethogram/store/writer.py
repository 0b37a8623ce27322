"""Writing a run: many traces at once, committed in groups; many writers at once, one set of file names each.

A commit publishes texts, spans, labels and notes, and last the ledger segment that makes them exist. A commit
that fails (a full disk, a lost connection) keeps its group whole and in line: the next one tries it again.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from ethogram.arrays import arrow_table
from ethogram.errors import EthogramError
from ethogram.traces import Ref, TraceId

from . import ledger, ledger_file
from .batch import Batch
from .entry import DataFile, Entry, Header, Place
from .files import Files
from .head_texts import name_of_words
from .lease import RENEW_NS, check_there, release_lease, renew, take
from .numbered import numbered_spans
from .redact import Redacted, Redactor
from .segment import TextRow, columns_of_spans, parquet_bytes, span_schema, text_table
from .sink import Done, Limits, TraceWriter
from .texts import stored_refs

COMMIT_WINDOW = 0.5
REMEMBERED_CHARS = 4 << 20
LEARNED_FILES = 64
SHORT, TOGETHER = 1000, 1 << 16
"""Values up to the first length are searched together, up to the second length of all."""


LIMITS = Limits()


class _Group:
    """What one ledger segment will commit. Once it was tried it no longer grows, so that trying again is the same."""

    def __init__(self, number: int, texts_name: str) -> None:
        self.number = number
        self.texts_name = texts_name
        self.done: list[Done] = []
        self.traces: set[TraceId] = set()
        self.texts: dict[Ref, TextRow] = {}
        self.notes: dict[str, list[bytes]] = {}
        self.batches: list[Batch] = []
        self.spans = 0
        self.chars = 0
        self.files: dict[str, DataFile] = {}
        self.segment: tuple[str, bytes] | None = None

    def __bool__(self) -> bool:
        return bool(self.done or self.notes or self.batches)


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
        limits: Limits = LIMITS,
    ) -> None:
        """`key` seals texts; `window` is the longest time that a complete trace waits (None: until `commit`)."""
        self.files = files
        self.path = path
        self.redactor = redactor
        self.key = key
        self.limits = limits
        self.name = secrets.token_hex(5)
        self.redactions: dict[str, int] = {}
        self.unmarked: set[str] = set()
        self._marked: dict[str | tuple[str, str | None], Redacted] = {}
        self._cleaned_chars = 0
        self._window = window
        self._spilled = 0
        self._group = self._new_group(0)
        self._waiting: list[_Group] = []
        self._known: OrderedDict[Ref, str] | None = None
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._closed = False
        self._lease = take(files, path, self.name)

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def trace(self, trace: TraceId, supersedes: TraceId | None = None) -> TraceWriter:
        """A sink for one trace."""
        return TraceWriter(self, trace, supersedes)

    def close(self) -> None:
        """Commit what is complete and give up the lease; what is complete is worth keeping whatever went wrong."""
        with self._lock:
            if self._closed:
                return
            try:
                self.commit()
            finally:
                self._closed = True
                self._stop_timer()
                release_lease(self.files, self.path, self.name)

    def stored(self, texts: Mapping[Ref, TextRow]) -> dict[Ref, str]:
        """Those of some texts that this writer knows in a text segment, each with the segment."""
        with self._lock:
            known = self._remembered if self._known is None else self._known
            found: dict[Ref, str] = {}
            if known:
                for ref in texts.keys() & known.keys():
                    found[ref] = known[ref]
                    known.move_to_end(ref)
            for group in (*self._waiting, self._group):
                if both := texts.keys() & group.texts.keys():
                    found.update(dict.fromkeys(both, group.texts_name))
            return found

    def add(self, done: Done) -> None:
        """Queue a complete trace; commits if the group is full, else when the window has passed."""
        with self._lock:
            self._check_open()
            if done.head.trace_id in self._group.traces:
                self._close_group()  # rows of one trace in one file are told apart by its id alone
            for ref, name in self.stored(done.texts).items():
                done.used.add(name)
                done.chars -= len(done.texts.pop(ref).body)
            group = self._group
            group.done.append(done)
            group.traces.add(done.head.trace_id)
            group.texts.update(done.texts)
            group.spans += len(done.spans)
            group.chars += done.chars
            # an outcome without a trace has no spans, and yet takes its place in memory
            rows = group.spans + len(group.done)
            full = rows >= self.limits.group_spans or group.chars >= self.limits.group_chars
            self._soon(full or bool(self._waiting))

    def note(self, folder: str, lines: Sequence[bytes]) -> None:
        """Queue lines for a file in a folder of the run: visible, and under the ledger's hash, from the next commit."""
        with self._lock:
            self._check_open()
            self._group.notes.setdefault(folder, []).extend(lines)
            self._soon(bool(self._waiting))

    def batch(self, batch: Batch) -> None:
        """Queue a batch of episodes; it exists from the next commit on."""
        with self._lock:
            self._check_open()
            self._group.batches.append(self._cleaned_batch(batch))
            self._soon(bool(self._waiting))

    def _cleaned_batch(self, batch: Batch) -> Batch:
        """A batch as it is stored: names and facts are redacted, as those of a trace are."""
        fields = {"task": "task", "condition": "task", "agent": "name", "by": "name"}
        names = {name: self.clean(getattr(batch, name), field) for name, field in fields.items()}
        facts = {k: self.clean(v, "meta") if isinstance(v, str) else v for k, v in batch.meta.items()}
        return msgspec.structs.replace(batch, **names, meta=facts)

    def commit(self) -> None:
        """Publish all that is complete; what an earlier commit could not publish goes first."""
        with self._lock:
            self._stop_timer()
            self._close_group()
            try:
                if self._waiting:
                    check_there(self.files, self.path, self.name)
                while self._waiting:
                    self._publish_group(self._waiting[0])
                    self._remember(self._waiting.pop(0))
            except BaseException:
                if self._window is not None:
                    self._start_timer(10 * self._window)  # it may work later, even if nobody calls any more
                raise
            if time.time_ns() - self._lease.seen_ns > RENEW_NS:
                self._lease = renew(self.files, self.path, self.name)

    def publish(self, name: str, table: Any, *, seal: bool) -> DataFile:
        """Publish a data file of this run."""
        key_name, key = self.key if self.key and seal else (None, None)
        return publish_table(self.files, self.path, name, table, key_name, key)

    def spill_name(self, kind: str) -> str:
        """A file name for a part of a trace that is too large to wait."""
        with self._lock:
            self._spilled += 1
            return f"{kind}-{self.name}-x{self._spilled:06d}.parquet"

    def clean(self, value: str, field: str) -> str:
        """A value, redacted under the policy of its field.

        Names stand in every span, and words in a message, in an argument and in a result: what was just redacted
        is remembered. Clearing the memory when it is full is enough, and safe when threads race.
        """
        if self.redactor.idle or value in self.unmarked:
            return value
        fields = self.redactor.policy.fields
        key = (value, fields.get(field)) if fields else value
        known = self._marked.get(key)
        if known is None:
            known = self.redactor.redact(value, field)
            self._remember_cleaned(len(value) + 100)
            if known.findings or fields:
                self._marked[key] = known
            else:
                self.unmarked.add(value)
        if known.findings:
            with self._lock:
                for finding in known.findings:
                    self.redactions[finding.kind] = self.redactions.get(finding.kind, 0) + 1
        return known.text

    def named(self, words: str) -> str:
        """A name made of words of a payload: redacted, then cut; sealed with them, it is a keyed hash."""
        return name_of_words(words, self.redactor, sealed=self.key is not None)

    def expect(self, values: Iterable[str]) -> None:
        """Short values that may come soon: those without a secret are found in one search, which is far faster."""
        if self.redactor.policy.fields:
            return
        known, found = self.unmarked, self._marked
        fresh = [v for v in dict.fromkeys(values) if len(v) <= SHORT and v not in known and v not in found]
        size, start = 0, 0
        for end, value in enumerate(fresh, start=1):
            size += len(value)
            if size > TOGETHER or end == len(fresh):
                self._expect(fresh[start:end])
                size, start = 0, end

    def _expect(self, values: list[str]) -> None:
        """Remember what is clean; where something is found, look in both halves."""
        if not values:
            return
        if self.redactor.are_clean(values):
            self._remember_cleaned(sum(map(len, values)) + 100 * len(values))
            self.unmarked.update(values)
        elif len(values) > 4:
            self._expect(values[: len(values) // 2])
            self._expect(values[len(values) // 2 :])

    def _remember_cleaned(self, size: int) -> None:
        """Make room for values of this size: sinks hold the set itself, so it is emptied and not replaced."""
        if self._cleaned_chars > REMEMBERED_CHARS:
            self.unmarked.clear()
            self._marked.clear()
            self._cleaned_chars = 0
        self._cleaned_chars += size

    @property
    def _remembered(self) -> OrderedDict[Ref, str]:
        """Texts that are committed already, and where; at first those that the run held before this writer came."""
        if self._known is None:
            self._known = OrderedDict()
            own = self.key[0] if self.key else None
            held = ledger.standing(ledger.read_segments(self.files, self.path)).named("texts-")
            same = [f for f in held if f.key == own][-LEARNED_FILES:]
            for ref, name in stored_refs(self.files, self.path, same, self.key[1] if self.key else None):
                self._known[ref] = name
            self._trim()
        return self._known

    def _new_group(self, number: int) -> _Group:
        return _Group(number, self._file_name("texts", number))

    def _file_name(self, kind: str, number: int) -> str:
        return f"{kind}-{self.name}-{number:06d}.parquet"

    def _check_open(self) -> None:
        if self._closed:
            raise EthogramError(f"this writer of {self.path.rpartition('/')[2]!r} is closed; open another one")

    def _close_group(self) -> None:
        if self._group:
            self._waiting.append(self._group)
            self._group = self._new_group(self._group.number + 1)

    def _soon(self, at_once: bool) -> None:
        if at_once:
            self.commit()
        elif self._timer is None and self._window is not None:
            self._start_timer(self._window)

    def _start_timer(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._commit_late)
        self._timer.daemon = True
        self._timer.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _commit_late(self) -> None:
        with self._lock:
            if not self._closed:
                with suppress(Exception):  # a timer has no caller: the next add or commit raises it
                    self.commit()

    def _publish_group(self, group: _Group) -> None:
        if group.segment is None:
            texts = group.texts_name
            if group.texts and texts not in group.files:
                group.files[texts] = self.publish(texts, text_table(group.texts.values()), seal=True)
            self._publish_spans(group)
            labels = [msgspec.json.encode(label) for done in group.done for label in done.labels]
            for folder, lines in {ledger.LABELS: labels, **group.notes}.items():
                name = f"{folder}/{self.name}-{group.number:06d}.jsonl.zst"
                if lines and name not in group.files:
                    group.files[name] = publish_lines(self.files, self.path, name, lines)
            group.segment = self._segment(group, texts)
        name, data = group.segment
        self.files.publish(f"{self.path}/{ledger.FOLDER}/{name}", data)

    def _publish_spans(self, group: _Group) -> None:
        name = self._file_name("spans", group.number)
        if name in group.files:
            return
        traces, row = [], 0
        for done in group.done:
            if done.spans:
                traces.append((done.spans, done.steps))
                done.places = (Place(name, row, len(done.spans)),)
                row += len(done.spans)
        if traces:
            columns = columns_of_spans(traces)
            texts = group.files.get(group.texts_name)
            if texts is None or texts.key is not None:  # without the key nobody could tell what the numbers stand for
                group.files[name] = self.publish(name, arrow_table(columns, span_schema()), seal=False)
            else:
                file = self.publish(name, numbered_spans(columns, group.texts), seal=False)
                group.files[name] = msgspec.structs.replace(file, refers_to=texts.name)

    def _segment(self, group: _Group, texts: str) -> tuple[str, bytes]:
        now = time.time_ns()
        header = Header(
            schema_version=ledger_file.SCHEMA_VERSION,
            writer=self.name,
            number=group.number,
            committed_ns=now,
            files=(*(f for done in group.done for f in done.files), *group.files.values()),
        )
        entries = [
            Entry(
                head=done.head,
                totals=done.totals,
                at_ns=now,
                spans=done.places,
                texts=tuple(sorted(done.used | ({texts} if done.texts else set()))),
                supersedes=done.supersedes,
            )
            for done in group.done
        ]
        batches = [msgspec.structs.replace(batch, at_ns=now) for batch in group.batches]
        return ledger_file.encode_segment(header, entries, batches=batches)

    def _remember(self, group: _Group) -> None:
        if self._known is None:
            return  # no text was asked for yet; the first request reads the ledger
        self._known.update(dict.fromkeys(group.texts, group.texts_name))
        for done in group.done:
            self._known.update(done.spilled)
        self._trim()

    def _trim(self) -> None:
        assert self._known is not None
        while len(self._known) > self.limits.remembered_texts:
            self._known.popitem(last=False)


def publish_table(files: Files, path: str, name: str, table: Any, key_name: str | None, key: bytes | None) -> DataFile:
    """Publish a Parquet file in a run directory and describe it for the ledger."""
    data = memoryview(parquet_bytes(table, key))
    files.publish(f"{path}/{name}", data)
    return DataFile(name, table.num_rows, data.nbytes, ledger_file.hash_of(data), key_name)


def publish_lines(files: Files, path: str, name: str, lines: Sequence[bytes]) -> DataFile:
    """Publish JSON lines in a run directory and describe them for the ledger."""
    data = ledger_file.pack_lines(lines)
    files.publish(f"{path}/{name}", data)
    return DataFile(name, len(lines), len(data), ledger_file.hash_of(data))
