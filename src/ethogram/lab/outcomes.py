"""From a stored run to its outcomes as columns: the one way in for everything that counts passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from ethogram.errors import BadUsage, NotFound
from ethogram.measure.outcomes import Outcomes
from ethogram.plan import Condition
from ethogram.store import Entry, Home, Run, open_home
from ethogram.store.lake import EXTENSIONS
from ethogram.trace import SUCCESS_AT, Missing, Scored

from .order import natural

UNKNOWN = "unknown"
_TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")


def run_of(run: str | Run, home: Home | str | None = None) -> Run:
    """A run by its name, unless it is one already."""
    if isinstance(run, Run):
        return run
    return (home if isinstance(home, Home) else open_home(home)).resolve(run)


def load_outcomes(
    run: str | Run, *, home: Home | str | None = None, condition: str | None = None, agent: str | None = None
) -> Outcomes:
    """The outcomes of a run; one with several conditions must be told which is meant."""
    found = run_of(run, home)
    entries = chosen_entries(found, condition, agent)
    plan = _plan(found, entries, condition)
    if not entries and not plan:
        raise NotFound(f"run {found.name!r} has no episodes yet; run or import something first")
    names = sorted({e.head.task for e in entries}, key=natural)
    there = set(names)
    names += [t for t in plan if t not in there]
    place = {name: i for i, name in enumerate(names)}
    task = np.array([place[e.head.task] for e in entries], dtype=np.int64)
    seen = np.bincount(task, minlength=len(names)).astype(np.int64)
    wanted = np.array([plan.get(name, 0) for name in names], dtype=np.int64)
    outcomes = [e.head.outcome for e in entries]
    return Outcomes(
        tasks=tuple(names),
        task=task,
        attempt=_attempts(entries, task, planned=found.info.kind == "run"),
        value=np.array([o.value if isinstance(o, Scored) else np.nan for o in outcomes], dtype=np.float64),
        reason=tuple(o.reason if isinstance(o, Missing) else None for o in outcomes),
        planned=np.maximum(seen, wanted),
        figures=_figures(entries),
        seed=tuple(e.head.seed for e in entries),
        at_ns=np.array([e.at_ns for e in entries], dtype=np.int64),
        success_at=success_at(found),
    )


def success_at(run: Run) -> float:
    """From which score on an episode is a success, as the run's suite says."""
    return float(run.info.plan.get("success_at", SUCCESS_AT))


def facts_of(run: Run) -> dict[str, str]:
    """Model, temperature and scaffold: from the run's own words, else from its traces, else `unknown`.

    No number must be read without them.
    """
    found = {name: _said(run, name) for name in ("model", "temperature", "scaffold")}
    if not found["model"] or not found["temperature"]:
        models, temperatures = _from_spans(run)
        found["model"] = found["model"] or models
        found["temperature"] = found["temperature"] or temperatures
    return {name: _joined(values) for name, values in found.items()}


def chosen_entries(run: Run, condition: str | None, agent: str | None) -> list[Entry]:
    """The episodes of one agent under one condition; a run that holds several conditions must be told which."""
    entries = [e for e in run.entries if agent is None or e.head.agent == agent]
    if agent is not None and not entries:
        raise NotFound.named(f"agent in run {run.name!r}", agent, sorted({e.head.agent for e in run.entries}))
    conditions = sorted({e.head.condition for e in entries})
    if condition is None:
        if len(conditions) > 1:
            shown = ", ".join(repr(c) for c in conditions[:6]) + (", …" if len(conditions) > 6 else "")
            raise BadUsage(
                f"run {run.name!r} holds {len(conditions)} conditions ({shown}); choose one with --condition, "
                "for their mixture is no behaviour of anything"
            )
        return entries
    if condition not in conditions:
        raise NotFound.named(f"condition in run {run.name!r}", condition, conditions)
    return [e for e in entries if e.head.condition == condition]


def _plan(run: Run, entries: Sequence[Entry], condition: str | None) -> dict[str, int]:
    """Planned attempts per task, where the run says so: what it began with, and what was added since.

    A condition may concern some tasks only, and want fewer attempts than the others.
    """
    plan = run.info.plan
    options = plan.get("options")
    if run.info.kind != "run" or not isinstance(options, dict):
        return {}
    begun = plan.get("tasks") or sorted({e.head.task for e in entries}, key=natural)
    planned = dict.fromkeys(begun, int(options.get("k", 1)))
    for _, line in run.notes(EXTENSIONS):
        added = msgspec.json.decode(line)
        for task in added["tasks"]:
            planned[task] = max(planned.get(task, 0), int(added["k"]))
    among = msgspec.convert(options.get("conditions", [{}]), list[Condition])
    chosen = [c for c in among if c.name == condition] if condition is not None else among
    if len(chosen) != 1:
        return planned
    (only,) = chosen
    most = max(planned.values(), default=0) if only.attempts is None else only.attempts
    return {task: min(n, most) for task, n in planned.items() if not only.tasks or task in only.tasks}


def _attempts(entries: Sequence[Entry], task: Any, planned: bool) -> Any:
    """Attempt numbers as planned; those of foreign logs, which count from 1, leave gaps or repeat, are made anew."""
    given = np.array([e.head.attempt for e in entries], dtype=np.int64)
    order = np.lexsort((given, task))
    if planned and not np.any((np.diff(task[order]) == 0) & (np.diff(given[order]) == 0)):
        return given
    starts = np.concatenate([[0], np.flatnonzero(np.diff(task[order])) + 1])
    within = np.arange(task.size) - np.repeat(starts, np.diff(np.append(starts, task.size)))
    out = np.empty_like(given)
    out[order] = within
    return out


def _figures(entries: Sequence[Entry]) -> dict[str, Any]:
    totals = [e.totals for e in entries]

    def column(name: str) -> Any:
        """NaN where the log never said."""
        return np.array([getattr(t, name) for t in totals], dtype=np.float64)

    parts = np.stack([column(name) for name in _TOKENS])
    unsaid = np.all(np.isnan(parts), axis=0)
    times = [(e.head.start_ns, e.head.end_ns) for e in entries]
    return {
        "cost": column("cost_usd"),
        "steps": column("steps"),
        "tokens": np.where(unsaid, np.nan, np.nansum(parts, axis=0)),
        "seconds": np.array([np.nan if a is None or b is None else (b - a) / 1e9 for a, b in times], dtype=np.float64),
        "tool_calls": column("tool_calls"),
        "errors": column("errors"),
    }


def _said(run: Run, name: str) -> set[str]:
    """What the run or its traces say of themselves."""
    if name in run.info.meta:
        return {str(run.info.meta[name])}
    return {str(e.head.meta[name]) for e in run.entries if name in e.head.meta}


def _from_spans(run: Run) -> tuple[set[str], set[str]]:
    """Models and temperatures of the spans, read as two columns."""
    from ethogram.store.query import Lake

    models: set[str] = set()
    settings: set[str] = set()
    for batch in Lake([run]).spans(["model", "params"]):
        for seen, column in ((models, batch.column(0)), (settings, batch.column(1))):
            seen.update(v for v in column.unique().to_pylist() if v is not None)
    params = [msgspec.json.decode(text) for text in settings]
    return models, {str(p["temperature"]) for p in params if isinstance(p, dict) and "temperature" in p}


def _joined(values: set[str]) -> str:
    listed = sorted(values)
    if not listed:
        return UNKNOWN
    return ", ".join(listed[:4]) + (f", and {len(listed) - 4} more" if len(listed) > 4 else "")
