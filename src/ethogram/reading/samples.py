"""Runs whose episodes may be counted: replays and forks repeat recorded answers: no independent attempts."""

from __future__ import annotations

from ethogram.errors import BadUsage, Refused
from ethogram.store import Entry, Home, Run, run_of
from ethogram.store.lake import FORK, REPLAY, REPLAYED
from ethogram.traces import is_outcome_only


def sampled_run(run: Run | str, home: Home | str | None = None) -> Run:
    """The run that is meant, for questions about samples.

    Raises `BadUsage` for a replay: its answers were recorded, so its episodes repeat those of another run; and for a
    fork: its episodes share their beginning with one recorded trace.
    """
    found = run_of(run, home)
    if found.info.kind == REPLAY:
        source = found.info.plan.get(REPLAYED, "")
        raise BadUsage(
            f"run {found.name!r} repeats the recorded answers of {source!r}, so its episodes are not independent "
            f"attempts; ask about {source!r} instead, or look at it with: ethogram show {found.name}"
        )
    if found.info.kind == FORK:
        raise BadUsage(
            f"run {found.name!r} continues recorded traces, so its episodes are not independent attempts; "
            f"ethogram fork shows their effect, and ethogram show {found.name} lists them"
        )
    return found


def traced_run(run: Run | str, home: Home | str | None, question: str) -> Run:
    """A sampled run for a question about steps; raises `Refused` for outcomes without traces, as a table gives them."""
    return need_traces(sampled_run(run, home), question)


def need_traces(run: Run, question: str) -> Run:
    """The run itself; raises `Refused` where all its episodes are outcomes without traces."""
    if run.entries and all(is_outcome_only(e.head) for e in run.entries):
        raise Refused(
            f"run {run.name!r} holds outcomes without traces, as a table gives them, and {question} needs the steps "
            "of traces; stats, compare, gate, plan, cost and report work on it",
            have=0,
            need=1,
            of="traces with steps",
        )
    return run


def need_trace(entry: Entry, question: str) -> Entry:
    """The entry itself; raises `Refused` where it is an outcome without a trace."""
    if is_outcome_only(entry.head):
        name = entry.head.trace_id.partition(":")[2][:12]
        raise Refused(
            f"{name} is an outcome without a trace, as a table gives it, and {question} needs the steps of a trace",
            have=0,
            need=1,
            of="traces with steps",
        )
    return entry
