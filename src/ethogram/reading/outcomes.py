"""Outcomes of a stored run as columns: everything that counts passes reads them here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.measures.columns import Floats
from ethogram.measures.metrics import OUTCOME, Metric, metric, metrics
from ethogram.measures.outcomes import Outcomes
from ethogram.plans import Condition
from ethogram.store import Entry, Home, Run
from ethogram.store.episodes import FIGURES, Episodes
from ethogram.store.stored_run import EXTENSIONS
from ethogram.traces import Head

from .episode_costs import known_costs
from .samples import sampled_run
from .task_names import natural, task_name

UNKNOWN = "unknown"
_COUNTED = frozenset(FIGURES) - {"cost_usd"}
"""Columns that are taken as the ledger has them; what an episode cost is priced."""


def load_outcomes(
    run: str | Run,
    *,
    home: Home | str | None = None,
    condition: str | None = None,
    agent: str | None = None,
    metrics: Sequence[str] = (),
) -> Outcomes:
    """The outcomes of a run, with these metrics; for a run with several conditions one must be chosen."""
    found = sampled_run(run, home)
    wanted_metrics = [m for m in map(metric, metrics) if m.name not in OUTCOME]
    needs = {column for m in wanted_metrics for column in m.needs}
    rows = found.episodes(sorted(needs & _COUNTED))
    chosen = _choose(found.name, rows, condition, agent)
    held, task = np.unique(rows.task[chosen], return_inverse=True)
    names = [rows.names["task"][i] for i in held]
    if "" in names:
        names, task = _apart(names, task, [found.entries[i].head for i in chosen])
    plan = _plan(found, names, condition)
    if not names and not plan:
        raise NotFound(
            f"run {found.name!r} has no episodes yet; run or import something first",
            where=f"run {found.name!r}",
            what="episode",
        )
    order = sorted(range(len(names)), key=lambda i: natural(names[i]))
    task = np.argsort(np.array(order, dtype=np.int64))[task]
    names = [names[i] for i in order]
    names += [t for t in plan if t not in set(names)]
    seen = np.bincount(task, minlength=len(names)).astype(np.int64)
    wanted = np.array([plan.get(name, 0) for name in names], dtype=np.int64)
    return Outcomes(
        tasks=tuple(names),
        task=task,
        attempt=_attempts(rows.attempt[chosen], task, planned=found.info.kind == "run"),
        value=rows.value[chosen],
        reason=rows.reason[chosen],
        part_refused=rows.refused[chosen],
        planned=np.maximum(seen, wanted),
        figures=_measured(wanted_metrics, _columns(found, rows, chosen, needs)),
        seed=rows.seed[chosen],
        at_ns=rows.at_ns[chosen],
        success_at=found.success_at,
    )


def episode_metrics(run: Run) -> dict[str, Floats]:
    """Every metric of every episode, in the order of `Run.entries`, then of those of batches; NaN where it is unknown,
    and where the function of a plug-in fails."""
    kinds = metrics().values()
    needs = {column for kind in kinds for column in kind.needs}
    rows = run.episodes(sorted(needs & _COUNTED))
    columns = _columns(run, rows, np.arange(len(rows)), needs)
    found = {}
    for kind in kinds:
        try:
            found[kind.name] = kind.measured(columns)
        except BadInput:
            found[kind.name] = np.full(len(rows), np.nan)
    return found


def clean_condition(run: Run) -> str | None:
    """The condition of clean attempts in a paired experiment, where the disturbed ones are asked about apart; else
    None."""
    return "" if "experiment" in run.info.plan else None


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
    """The episodes of one agent under one condition, for those who open them."""
    chosen = _choose(run.name, run.episodes(), condition, agent)
    return [run.entries[i] for i in chosen if i < len(run.entries)]  # those of batches come after, and have no trace


def _choose(run: str, rows: Episodes, condition: str | None, agent: str | None) -> Any:
    """The rows of one agent under one condition; a run that holds several conditions must be told which."""
    agents, conditions = rows.names["agent"], rows.names["condition"]
    if agent is not None and agent not in agents:
        raise NotFound.named("agent", agent, sorted(filter(None, agents)), where=f"run {run!r}")
    theirs = np.arange(len(rows)) if agent is None else np.flatnonzero(rows.agent == agents.index(agent))
    held = sorted(conditions[i] for i in np.unique(rows.condition[theirs]))
    if condition is None:
        if len(held) > 1:
            shown = ", ".join(repr(c) for c in held[:6]) + (", …" if len(held) > 6 else "")
            raise BadUsage(
                f"run {run!r} holds {len(held)} conditions ({shown}); choose one with --condition: "
                "results of different conditions are not pooled"
            )
        return theirs
    if condition not in held:
        if held == [""]:
            raise NotFound(
                f"run {run!r} has no conditions; leave out --condition", what="condition", name=condition, where=run
            )
        raise NotFound.named("condition", condition, held, where=f"run {run!r}")
    return theirs[rows.condition[theirs] == conditions.index(condition)]


def _plan(run: Run, tasks: Sequence[str], condition: str | None) -> dict[str, int]:
    """Planned attempts per task, where the run says so: what it began with, and what was added since.

    A condition may concern some tasks only, and want fewer attempts than the others.
    """
    plan = run.info.plan
    options = plan.get("options")
    if run.info.kind != "run" or not isinstance(options, dict):
        return {}
    begun = plan.get("tasks") or sorted(tasks, key=natural)
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


def _apart(names: list[str], task: Any, heads: Sequence[Head]) -> tuple[list[str], Any]:
    """Every trace without a task made a task of its own: nobody knows which of them attempt the same one."""
    alone = np.flatnonzero(task == names.index(""))
    own = [task_name(heads[i]) for i in alone.tolist()]
    task = task.copy()
    task[alone] = len(names) + np.arange(alone.size)
    held, task = np.unique(task, return_inverse=True)
    names = [*names, *own]
    return [names[i] for i in held], task


def _attempts(given: Any, task: Any, planned: bool) -> Any:
    """Attempt numbers as planned; those of foreign logs, which count from 1, leave gaps or repeat, are made anew."""
    order = np.lexsort((given, task))
    if planned and not np.any((np.diff(task[order]) == 0) & (np.diff(given[order]) == 0)):
        return given
    starts = np.concatenate([[0], np.flatnonzero(np.diff(task[order])) + 1])
    within = np.arange(task.size) - np.repeat(starts, np.diff(np.append(starts, task.size)))
    out = np.empty_like(given)
    out[order] = within
    return out


def _measured(metrics: Sequence[Metric], columns: Mapping[str, Floats]) -> dict[str, Floats]:
    return {m.name: m.measured(columns) for m in metrics}


def _columns(run: Run, rows: Episodes, chosen: Any, needs: set[str]) -> dict[str, Floats]:
    """The columns that metrics need: of the outcome, of the ledger, what model calls cost, and what steps tell."""
    value = rows.value[chosen]
    columns = {"score": value, "success": np.where(np.isnan(value), np.nan, value >= run.success_at)}
    columns |= {name: rows.figures[name][chosen] for name in needs & _COUNTED}
    if "cost_usd" in needs:
        columns["cost_usd"] = _costs(run, len(rows))[chosen]
    unread = needs - columns.keys()
    return columns | _from_steps(run, chosen, unread) if unread else columns


def _costs(run: Run, rows: int) -> Floats:
    """Dollars of every episode; NaN where they are unknown, as those of batches are."""
    costs = np.full(rows, np.nan)
    known = known_costs((run, entry) for entry in run.entries)
    costs[: len(known)] = np.array(known, dtype=np.float64)
    return costs


def _from_steps(run: Run, chosen: Any, names: set[str]) -> dict[str, Floats]:
    """Standard dimensions of the chosen episodes; NaN where a log does not record one, or the spans are gone."""
    from ethogram.measures.standard import of_tally

    from .step_columns import StoredSteps

    entries = run.entries
    own = [(row, entries[i]) for row, i in enumerate(chosen.tolist()) if i < len(entries)]
    own = [(row, entry) for row, entry in own if entry.spans and entry.totals.steps]
    tallied = StoredSteps([(run, entry) for _, entry in own]).tally()
    costs = np.array(known_costs((run, entry) for _, entry in own), dtype=np.float64)
    found = of_tally(tallied, [e.head for _, e in own], [e.totals for _, e in own], costs)
    out = {}
    for name in names & found.values.keys():
        out[name] = np.full(len(chosen), np.nan)
        if name not in found.unrecorded:
            out[name][[row for row, _ in own]] = found.values[name]
    return out


def _said(run: Run, name: str) -> set[str]:
    """What the run or its traces say of themselves."""
    if name in run.info.meta:
        return {str(run.info.meta[name])}
    return set(run.episodes().said[name])


def _from_spans(run: Run) -> tuple[set[str], set[str]]:
    """Models and temperatures of the spans, read as two columns."""
    from ethogram.store.query import Lake

    models, settings = Lake([run]).distinct("model", "params")
    params = [msgspec.json.decode(text) for text in settings]
    return models, {str(p["temperature"]) for p in params if isinstance(p, dict) and "temperature" in p}


def _joined(values: set[str]) -> str:
    listed = sorted(values)
    if not listed:
        return UNKNOWN
    return ", ".join(listed[:4]) + (f", and {len(listed) - 4} more" if len(listed) > 4 else "")
