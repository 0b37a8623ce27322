"""Retention, compaction and key rotation: three reasons to write a run's segments anew.

The new segments are published first, then one ledger segment that replaces the old ones, then the old
files go. A crash at any point leaves either the old run or the new one, and leftovers to sweep.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import msgspec

from ethogram.errors import BadUsage, EthogramError, Sealed
from ethogram.traces import Head, Label, Missing, Ref, Scored, TraceId

from . import lease, ledger, ledger_file
from .compact import REPLACED, compact
from .entry import DataFile, Entry, Header, Place, Segment
from .lake import DERIVED
from .recount import recounted
from .segment import TextRow, text_table
from .stored_run import Run
from .verify import sweep
from .writer import publish_lines, publish_table

REWRITE_SPANS = 50_000
REWRITE_CHARS = 16 << 20
SHORT = 64
"""Meta values longer than this are words, and go with the words of a forgotten trace."""
RECORDS = "retention"
_AGE = re.compile(r"^(\d+)\s*([smhdw])$")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class RetentionRule(msgspec.Struct, frozen=True, kw_only=True):
    """What to keep: everything younger than `keep_all_s`, then all failures (and missing ones), and a sample.

    What a failure is, each run says itself.
    """

    keep_all_s: float
    keep_failures: bool = True
    sample: float = 0.0


class RetentionDecision(msgspec.Struct, frozen=True):
    """What becomes of one trace, and why."""

    trace_id: str
    task: str
    keep: bool
    why: str


class Retention(msgspec.Struct, kw_only=True):
    """A retention pass over one run: a plan if `dry_run`, a record of what went otherwise."""

    run: str
    dry_run: bool
    rule: RetentionRule
    at_ns: int
    kept: int = 0
    forgotten: list[RetentionDecision] = []
    bytes_before: int = 0
    bytes_after: int | None = None


def age_seconds(text: str) -> float:
    """Seconds of an age such as `14d` or `12h`."""
    match = _AGE.match(text.strip())
    if match is None:
        raise BadUsage(f"{text!r} is not an age; write for example 14d, 12h or 2w")
    return float(int(match.group(1)) * _SECONDS[match.group(2)])


def decide(entry: Entry, rule: RetentionRule, success_at: float, now_ns: int) -> RetentionDecision:
    """Keep or forget one trace of a run in which `success_at` is a success.

    The sample is drawn by hashing the episode, so that it never changes.
    """
    head, outcome = entry.head, entry.head.outcome
    age = (now_ns - entry.at_ns) / 1e9
    if age < rule.keep_all_s:
        keep, why = True, "younger than the limit"
    elif rule.keep_failures and isinstance(outcome, Missing):
        keep, why = True, f"outcome missing ({outcome.reason})"
    elif rule.keep_failures and isinstance(outcome, Scored) and not outcome.success(success_at):
        keep, why = True, "a failure"
    elif _share(head.episode) < rule.sample:
        keep, why = True, "in the sample"
    else:
        keep, why = False, f"older than {rule.keep_all_s:.0f} s, not a failure, not in the sample of {rule.sample:.0%}"
    return RetentionDecision(head.trace_id, head.task, keep, why)


def _share(episode: str) -> float:
    return int.from_bytes(blake2b(episode.encode(), digest_size=8).digest(), "little") / 2**64


def retain_run(run: Run, rule: RetentionRule, *, dry_run: bool = True, now_ns: int | None = None) -> Retention:
    """Apply a rule to a run. Outcomes and totals of forgotten traces stay in the ledger; their spans and words go."""
    run.forget_cache()
    now = time.time_ns() if now_ns is None else now_ns
    record = Retention(run=run.name, dry_run=dry_run, rule=rule, at_ns=now, bytes_before=_bytes(run))
    reasons: dict[str, str] = {}
    for entry in run.entries:
        decision = decide(entry, rule, run.success_at, now)
        if decision.keep or entry.forgotten:
            record.kept += 0 if entry.forgotten else 1
        else:
            record.forgotten.append(decision)
            reasons[entry.head.trace_id] = decision.why
    if dry_run:
        return record
    record.bytes_after = record.bytes_before
    if reasons:

        def describe(after: int) -> bytes:
            record.bytes_after = after
            return msgspec.json.encode(record)

        rewrite(run, lambda e: reasons.get(e.head.trace_id), describe=describe)
    else:
        compact(run)
        record.bytes_after = _bytes(run)
    return record


def _bytes(run: Run) -> int:
    return sum(f.bytes for f in run.standing.files)


def rewrite(
    run: Run,
    forget: Callable[[Entry], str | None] = lambda e: None,
    *,
    key: str | None = None,
    describe: Callable[[int], bytes] | None = None,
) -> None:
    """Write the live part of a run anew; `forget` gives a reason to drop a trace's spans and words.

    `key` seals the texts with that key (rotation); by default a sealed run stays sealed. `describe` gives a
    record of what is done, told how many bytes stay; it is committed together with the deed.
    """
    name = "r" + secrets.token_hex(4)
    lease.take(run.files, run.path, name, alone=True)
    run.forget_cache()
    rewriter = _Rewriter(run, name, key or _seal(run))
    try:
        rewriter.write(forget, describe)
    except BaseException:
        rewriter.discard()
        raise
    finally:
        lease.release_lease(run.files, run.path, name)
    run.forget_cache()
    run.files.delete(f"{run.path}/{DERIVED}")  # figures of traces that are forgotten go with them
    sweep(run)


def _seal(run: Run) -> str | None:
    """What was sealed stays sealed: with the active key, else with one that sealed it. Without any of its keys
    at hand nothing that was sealed can be read, so nothing of it is written."""
    used = [f.key for f in run.standing.files if f.key]
    if not used:
        return None
    at_hand = set(run.keys.ids())
    return run.keys.active() or next((k for k in reversed(used) if k in at_hand), None)


class _Rewriter:
    """Collects surviving traces into new segments."""

    def __init__(self, run: Run, name: str, key: str | None) -> None:
        self.run = run
        self.name = name
        self.key = key
        self.files: dict[str, DataFile] = {}
        self.known: dict[Ref, str] = {}
        self.texts: list[TextRow] = []
        self.chars = 0
        self.rows: list[Any] = []
        self.count = 0
        self.number = {"spans": 0, "texts": 0}
        self.committing = False

    def discard(self) -> None:
        """Remove what was written, unless it may be committed: a disk that is full should not stay so because of us."""
        for file in [] if self.committing else self.files:
            if self.name in file:
                with suppress(EthogramError):
                    self.run.files.delete(f"{self.run.path}/{file}")

    def write(self, forget: Callable[[Entry], str | None], describe: Callable[[int], bytes] | None) -> None:
        """Publish the new files and the ledger segment that replaces all others."""
        run = self.run
        found = ledger.read_all(run.files, run.path, ledger_file.decode_segment)
        segments = ledger.in_force(found)
        standing = ledger.standing(segments)
        # counted anew, if need be, while the spans are still there
        entries = [self._entry(e, forget(e)) for e in recounted(run.files, run.path, standing.live)]
        entries += _paid(segments, {e.head.trace_id for e in standing.live})
        self._flush_texts()
        self._flush_spans()
        self._labels({e.head.trace_id for e in entries if e.forgotten})
        kept = [f for f in standing.files if not f.name.endswith(".parquet") and not _is_label(f)]
        self.files.update({f.name: f for f in kept})
        if describe is not None:
            after = sum(f.bytes for f in self.files.values())
            self._lines(f"{RECORDS}/{self.name}-000000.jsonl.zst", [describe(after)])
        header = Header(
            schema_version=ledger_file.SCHEMA_VERSION,
            writer=self.name,
            number=0,
            committed_ns=max((s.header.committed_ns for s in segments), default=time.time_ns()),
            files=tuple(self.files.values()),
            # what an interrupted rewrite replaced and did not get to remove is replaced by this one too
            replaces=tuple(s.name for s in found),
        )
        name, data = ledger_file.encode_segment(header, entries, batches=standing.batches)
        self.committing = True
        run.files.publish(f"{run.path}/{ledger.FOLDER}/{name}", data)

    def _entry(self, entry: Entry, reason: str | None) -> Entry:
        if reason is not None or entry.forgotten:
            head = _forgotten(entry.head)
            return Entry(head=head, totals=entry.totals, at_ns=entry.at_ns, forgotten=entry.forgotten or reason)
        try:
            used = {self._keep(ref, entry) for ref in self.run.all_refs(entry)}
        except Sealed:
            used = self._carry(entry)
        return msgspec.structs.replace(
            entry, spans=tuple(self._places(entry)), texts=tuple(sorted(used)), supersedes=None
        )

    def _keep(self, ref: Ref, entry: Entry) -> str:
        """Copy a text once; gives the name of the segment that will hold it."""
        if ref not in self.known:
            row = self.run.texts.row(ref, entry.texts)
            self.texts.append(row)
            self.chars += len(row.body)
            self.known[ref] = self._name("texts")
            if self.chars >= REWRITE_CHARS:
                self._flush_texts()
        return self.known[ref]

    def _carry(self, entry: Entry) -> set[str]:
        """Words whose key is gone cannot be copied: their segments stay as they are, for the key may come back."""
        for file in self.run.standing.files:
            if file.name in entry.texts:
                self.files[file.name] = file
        return set(entry.texts)

    def _places(self, entry: Entry) -> Iterator[Place]:
        held = Place("", 0, 0)
        for batch in self.run.span_batches(entry):
            name = self._name("spans")
            if held.file == name:
                held = Place(name, held.row, held.rows + batch.num_rows)
            else:
                if held.rows:
                    yield held
                held = Place(name, self.count, batch.num_rows)
            self.rows.append(batch)
            self.count += batch.num_rows
            if self.count >= REWRITE_SPANS:
                self._flush_spans()
        if held.rows:
            yield held

    def _labels(self, forgotten: set[str]) -> None:
        """Labels of traces that count; those of forgotten ones keep their value and lose their words."""
        labels: list[Label] = []
        for label in self.run.labels():
            labels.append(
                msgspec.structs.replace(label, why=None, words=None) if label.trace_id in forgotten else label
            )
        if labels:
            self._lines(f"{ledger.LABELS}/{self.name}-000000.jsonl.zst", [msgspec.json.encode(x) for x in labels])

    def _name(self, kind: str) -> str:
        return f"{kind}-{self.name}-{self.number[kind]:06d}.parquet"

    def _flush_texts(self) -> None:
        if self.texts:
            key = self.run.keys.get(self.key) if self.key else None
            self._publish("texts", text_table(self.texts), key)
        self.texts, self.chars = [], 0

    def _flush_spans(self) -> None:
        if self.rows:
            import pyarrow as pa

            self._publish("spans", pa.Table.from_batches(self.rows), None)
        self.rows, self.count = [], 0

    def _publish(self, kind: str, table: Any, key: bytes | None) -> None:
        name, key_name = self._name(kind), self.key if key is not None else None
        self.files[name] = publish_table(self.run.files, self.run.path, name, table, key_name, key)
        self.number[kind] += 1

    def _lines(self, name: str, lines: list[bytes]) -> None:
        self.files[name] = publish_lines(self.run.files, self.run.path, name, lines)


def _paid(segments: Iterable[Segment], live: set[TraceId]) -> Iterator[Entry]:
    """Outcomes that a later attempt replaced: nothing of them stays but what they cost. They stand after those that
    count, so that they never count themselves."""
    for entry in (e for s in segments for e in s.entries if e.head.trace_id not in live):
        head = _forgotten(entry.head)
        yield Entry(head=head, totals=entry.totals, at_ns=entry.at_ns, forgotten=entry.forgotten or REPLACED)


def _is_label(file: DataFile) -> bool:
    return file.name.startswith(ledger.LABELS + "/")


def _forgotten(head: Head) -> Head:
    """A head without its words; runs of earlier versions have them in `meta` and in the outcome's detail."""
    meta = {k: v for k, v in head.meta.items() if not isinstance(v, str) or len(v) <= SHORT}
    outcome = Missing(head.outcome.reason) if isinstance(head.outcome, Missing) else head.outcome
    return msgspec.structs.replace(head, answer=None, outcome=outcome, meta=meta, words={})
