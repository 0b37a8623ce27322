"""Retention, compaction and key rotation: three reasons to write a run's segments anew.

The new segments are published first, then one ledger segment that replaces the old ones, then the old
files go. A crash at any point leaves either the old run or the new one, and leftovers to sweep.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from ethogram.errors import BadUsage, Locked
from ethogram.trace import Missing, Ref, Scored

from . import ledger
from .lake import Run
from .ledger import DataFile, Entry, Place
from .segment import TextRow, text_table
from .verify import sweep
from .writer import lease, publish_table

REWRITE_SPANS = 50_000
REWRITE_CHARS = 16 << 20
_AGE = re.compile(r"^(\d+)\s*([smhdw])$")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What to keep: everything younger than `keep_all_s`, then all failures (and missing ones), and a sample."""

    keep_all_s: float
    keep_failures: bool = True
    sample: float = 0.0
    success_at: float = 0.5


class Decision(msgspec.Struct, frozen=True):
    """What becomes of one trace, and why."""

    trace_id: str
    task: str
    keep: bool
    why: str


class Retention(msgspec.Struct, kw_only=True):
    """A retention pass over one run: a plan if `dry_run`, a record of what went otherwise."""

    run: str
    dry_run: bool
    rule: Rule
    at_ns: int
    kept: int = 0
    forgotten: list[Decision] = []
    bytes_before: int = 0
    bytes_after: int | None = None


def age_seconds(text: str) -> float:
    """Seconds of an age such as `14d` or `12h`."""
    match = _AGE.match(text.strip())
    if match is None:
        raise BadUsage(f"{text!r} is not an age; write for example 14d, 12h or 2w")
    return float(int(match.group(1)) * _SECONDS[match.group(2)])


def decide(entry: Entry, rule: Rule, now_ns: int) -> Decision:
    """Keep or forget one trace. The sample is drawn by hashing the episode, so that it never changes."""
    head, outcome = entry.head, entry.head.outcome
    age = (now_ns - entry.at_ns) / 1e9
    if age < rule.keep_all_s:
        keep, why = True, "younger than the limit"
    elif rule.keep_failures and isinstance(outcome, Missing):
        keep, why = True, f"outcome missing ({outcome.reason})"
    elif rule.keep_failures and isinstance(outcome, Scored) and not outcome.success(rule.success_at):
        keep, why = True, "a failure"
    elif _share(head.episode) < rule.sample:
        keep, why = True, "in the sample"
    else:
        keep, why = False, f"older than {rule.keep_all_s:.0f} s, not a failure, not in the sample of {rule.sample:.0%}"
    return Decision(head.trace_id, head.task, keep, why)


def _share(episode: str) -> float:
    return int.from_bytes(blake2b(episode.encode(), digest_size=8).digest(), "little") / 2**64


def retain(run: Run, rule: Rule, *, dry_run: bool = True, now_ns: int | None = None) -> Retention:
    """Apply a rule to a run. Outcomes and totals of forgotten traces stay in the ledger; their spans and words go."""
    now = time.time_ns() if now_ns is None else now_ns
    record = Retention(run=run.name, dry_run=dry_run, rule=rule, at_ns=now, bytes_before=_bytes(run))
    reasons: dict[str, str] = {}
    for entry in run.entries:
        decision = decide(entry, rule, now)
        if decision.keep or entry.forgotten:
            record.kept += 0 if entry.forgotten else 1
        else:
            record.forgotten.append(decision)
            reasons[entry.head.trace_id] = decision.why
    if dry_run:
        return record
    if reasons:
        rewrite(run, lambda e: reasons.get(e.head.trace_id))
    record.bytes_after = _bytes(Run(run.files, run.path, run.keys))
    line = msgspec.json.encode(record)
    run.files.publish(f"{run.path}/retention/{now}.json", msgspec.json.format(line))
    return record


def _bytes(run: Run) -> int:
    return sum(f.bytes for f in run.standing.files)


def rewrite(run: Run, forget: Callable[[Entry], str | None] = lambda e: None, *, key: str | None = None) -> None:
    """Write the live part of a run anew; `forget` gives a reason to drop a trace's spans and words.

    `key` seals the texts with that key (rotation); by default with the active one if the run is sealed.
    """
    busy = run.busy()
    if busy:
        raise Locked(f"run {run.name!r} is being written by {len(busy)} writer(s); try again when they have finished")
    name = "r" + secrets.token_hex(4)
    held = f"{run.path}/writers/{name}.json"
    run.files.publish(held, msgspec.json.encode(lease()))
    try:
        _Rewriter(run, name, key or _seal(run)).write(run.segments(), forget)
    finally:
        run.files.delete(held)
    run.forget_cache()
    sweep(run)


def _seal(run: Run) -> str | None:
    sealed = any(f.key for f in run.standing.files)
    return run.keys.active() if sealed else None


class _Rewriter:
    """Collects surviving traces into new segments."""

    def __init__(self, run: Run, name: str, key: str | None) -> None:
        self.run = run
        self.name = name
        self.key = key
        self.files: list[DataFile] = []
        self.known: dict[Ref, str] = {}
        self.texts: list[TextRow] = []
        self.chars = 0
        self.rows: list[Any] = []
        self.count = 0
        self.number = {"spans": 0, "texts": 0}

    def write(self, segments: list[ledger.Segment], forget: Callable[[Entry], str | None]) -> None:
        """Publish the new data files and the ledger segment that replaces all others."""
        entries = [self._entry(e, forget(e)) for e in ledger.standing(segments).live]
        self._flush_texts()
        self._flush_spans()
        header = ledger.Header(
            schema_version=ledger.SCHEMA_VERSION,
            writer=self.name,
            number=0,
            committed_ns=max((s.header.committed_ns for s in segments), default=time.time_ns()),
            files=tuple(self.files),
            replaces=tuple(s.name for s in segments),
        )
        path = f"{self.run.path}/{ledger.FOLDER}/{ledger.segment_name(self.name, 0)}"
        self.run.files.publish(path, ledger.encode_segment(header, entries))

    def _entry(self, entry: Entry, reason: str | None) -> Entry:
        if reason is not None or entry.forgotten:
            head = msgspec.structs.replace(entry.head, answer=None)
            return Entry(head=head, totals=entry.totals, at_ns=entry.at_ns, forgotten=entry.forgotten or reason)
        used = {self._keep(ref, entry) for ref in sorted(self.run.all_refs(entry))}
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

    def _places(self, entry: Entry) -> Iterator[Place]:
        for batch in self.run.span_batches(entry):
            yield Place(self._name("spans"), self.count, batch.num_rows)
            self.rows.append(batch)
            self.count += batch.num_rows
            if self.count >= REWRITE_SPANS:
                self._flush_spans()

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
        key_name = self.key if key is not None else None
        self.files.append(publish_table(self.run.files, self.run.path, self._name(kind), table, key_name, key))
        self.number[kind] += 1
