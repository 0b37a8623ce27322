"""Model calls and steps of a run as the columns that pricing reads, and the lengths of results."""

from __future__ import annotations

from typing import Any

import numpy as np

from ethogram.arrays import plain_numbers, text_scalar
from ethogram.errors import NotFound
from ethogram.prices.usage import CALL_COLUMNS, COLUMNS, Floats, Steps, gather, only, steps_of
from ethogram.store import Entry, Lake, Run
from ethogram.store.batch import traceless
from ethogram.store.segment import damage, open_texts, span_schema, text_schema
from ethogram.traces import Scored, Totals
from ethogram.traces.steps import inner_ids


def read_steps(run: Run, chosen: list[Entry]) -> Steps:
    """The steps of some episodes, as columns; raises `NotFound` where the run has no episode."""
    rows = gather(Lake([run]).spans(COLUMNS, _is_step_or_call))
    if rows is not None and len(chosen) < len(run.entries):
        rows = only(rows, {e.head.trace_id for e in chosen})
    if not chosen:
        batched = traceless(run.batches)
        what = f"has no episode to price: {batched}" if batched else "has no episode to price"
        raise NotFound(
            f"run {run.name!r} {what}; see what is in it with: ethogram show {run.name}",
            where=f"run {run.name!r}",
            what="episode",
        )
    return _as_steps(run, rows)


def read_calls(run: Run) -> Steps:
    """The model calls of a run alone, as columns: what they cost can be told, not what went before them."""
    return _as_steps(run, gather(Lake([run]).spans(CALL_COLUMNS, _is_call)))


def _as_steps(run: Run, rows: Any) -> Steps:
    if rows is None or not rows.num_rows:
        return steps_of(gather([_no_spans()], keep_empty=True), lambda trace: set())
    entries = {e.head.trace_id: e for e in run.entries}
    return steps_of(rows, lambda trace: inner_ids(run.spans(entries[trace]), frozenset({"model"})))  # type: ignore[index]


def _no_spans() -> Any:
    """A batch of spans without rows: what there is to price of outcomes without traces stands in the ledger."""
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema=span_schema())


def _is_step_or_call(batch: Any) -> Any:
    import pyarrow.compute as pc

    return pc.or_(batch.column("step").is_valid(), _is_call(batch))


def _is_call(batch: Any) -> Any:
    import pyarrow.compute as pc

    return pc.equal(batch.column("kind"), text_scalar("model"))


def text_lengths(run: Run) -> Any:
    """The length of every text of a run, without its body."""
    import pyarrow as pa

    parts = []
    for file in run.standing.named("texts-"):
        key = None if file.key is None else run.keys.get(file.key)
        with damage(f"{file.name} of run {run.name!r}"):
            parts.append(open_texts(run.files.open(f"{run.path}/{file.name}"), key).read(columns=["ref", "chars"]))
    return pa.concat_tables(parts) if parts else text_schema().empty_table()


def recorded_cost(totals: Totals) -> float | None:
    """The cost that an episode without spans had recorded; a 0 for tokens that were used is not believed."""
    return None if totals.cost_usd == 0 and totals.tokens else totals.cost_usd


def is_resolved(entry: Entry, success_at: float) -> bool | None:
    """Whether an episode was resolved, with a score of `success_at` or more; None where the outcome is missing."""
    outcome = entry.head.outcome
    return outcome.success(success_at) if isinstance(outcome, Scored) else None


def result_chars(run: Run, steps: Steps) -> Floats:
    """The length of every step's result, NaN where there is none; raises `Sealed` where texts cannot be read."""
    import pyarrow.compute as pc

    refs = steps.rows.column("result")
    if refs.null_count == len(refs):
        return np.full(len(refs), np.nan)
    texts = text_lengths(run)
    found = pc.index_in(refs, value_set=texts.column("ref").combine_chunks(), skip_nulls=True)
    where = np.asarray(plain_numbers(found, -1), dtype=np.int64)
    chars: Floats = np.append(plain_numbers(texts.column("chars"), 0).astype(np.float64), np.nan)
    return chars[where]
