"""Changing what a stored trace was scored: labels and a revision of its outcome are added, nothing is rewritten."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence

import msgspec

from ethogram.traces import Label, Outcome, Ref, TraceId, text_ref
from ethogram.traces.codec import check

from . import lease, ledger, ledger_file
from .entry import Header, Revision
from .head_texts import label_without_words, outcome_without_words
from .redact import Redactor
from .segment import TextRow, text_table
from .stored_run import SCORINGS, Run
from .writer import publish_lines, publish_table


def append_outcomes(
    run: Run,
    outcomes: Mapping[TraceId, Outcome],
    labels: Sequence[Label],
    redactor: Redactor,
    *,
    success_at: float | None = None,
) -> None:
    """Add labels and new outcomes to committed traces, all of them or, after a crash, none.

    The `why` of each label is its words: they are redacted and stored here like all texts. Two who score at
    once do not disturb each other: the one that commits last has the last word on an outcome. `success_at` is from
    which score on an episode is a success from now on, where that changes.
    """
    if not outcomes and not labels and success_at is None:
        return
    now = time.time_ns()
    texts: dict[Ref, TextRow] = {}
    keep = _Keep(texts, redactor)
    stored = [_stored(label, keep, now) for label in labels]
    settled = {trace: outcome_without_words(outcome, keep) for trace, outcome in outcomes.items()}
    name = "s" + secrets.token_hex(5)
    lease.take(run.files, run.path, name)
    try:
        files = []
        if texts:
            active = _seal(run)
            key = run.keys.get(active) if active else None
            file = f"texts-{name}-000000.parquet"
            files.append(publish_table(run.files, run.path, file, text_table(texts.values()), active, key))
        if stored:
            lines = [msgspec.json.encode(label) for label in stored]
            file = f"{ledger.LABELS}/{name}-000000.jsonl.zst"
            files.append(publish_lines(run.files, run.path, file, lines))
        if success_at is not None:
            line = msgspec.json.encode({"success_at": success_at})
            files.append(publish_lines(run.files, run.path, f"{SCORINGS}/{name}-000000.jsonl.zst", [line]))
        worded = {label.trace_id for label in stored if label.why or label.words}
        worded |= {trace for trace, (_, words) in settled.items() if words}
        revisions = [
            Revision(
                trace_id=trace,
                at_ns=now,
                outcome=settled[trace][0] if trace in settled else None,
                texts=(files[0].name,) if trace in worded else (),
                words=settled[trace][1] if trace in settled else {},
            )
            for trace in dict.fromkeys((*outcomes, *(label.trace_id for label in stored)))
        ]
        header = Header(
            schema_version=ledger_file.SCHEMA_VERSION, writer=name, number=0, committed_ns=now, files=tuple(files)
        )
        segment, data = ledger_file.encode_segment(header, (), revisions)
        run.files.publish(f"{run.path}/{ledger.FOLDER}/{segment}", data)
    finally:
        lease.release_lease(run.files, run.path, name)
    run.forget_cache()


def _seal(run: Run) -> str | None:
    """The key for new texts: the active one, and in a sealed run never none."""
    used = [f.key for f in run.standing.files if f.key]
    at_hand = set(run.keys.ids()) if used else set()
    return run.keys.active() or next((k for k in reversed(used) if k in at_hand), used[-1] if used else None)


class _Keep:
    """Redacts words and keeps them as texts."""

    def __init__(self, texts: dict[Ref, TextRow], redactor: Redactor) -> None:
        self._texts = texts
        self.redactor = redactor

    def __call__(self, words: str, field: str) -> Ref:
        body = self.redactor.redact(words, field).text
        ref = text_ref(body)
        mark = None if body == words else self.redactor.mark(words)
        self._texts.setdefault(ref, TextRow(ref, body, len(words), mark))
        return ref


def _stored(label: Label, keep: _Keep, now: int) -> Label:
    """A label as it is stored: redacted, with the address of its words."""

    def clean(words: str) -> str:
        return keep.redactor.redact(words, "label").text

    label = label_without_words(label, keep)
    stored = msgspec.structs.replace(
        label,
        name=clean(label.name),
        by=clean(label.by),
        value=clean(label.value) if isinstance(label.value, str) else label.value,
        why=None if label.why is None else keep(label.why, "label"),
        at_ns=now if label.at_ns is None else label.at_ns,
    )
    return check(stored)
