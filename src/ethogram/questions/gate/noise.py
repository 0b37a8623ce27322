"""Noise of outcomes: the baseline against itself, pass by pass and session by session."""

from __future__ import annotations

import msgspec
import numpy as np

from ethogram.measures.outcomes import Floats, Ints, Outcomes

from . import power

SESSION_GAP_NS = 30 * 60 * 10**9
"""Attempts committed further apart than this belong to different sessions: another hour, another load."""


class OutcomeFloor(msgspec.Struct, frozen=True, kw_only=True):
    """What one version does to itself.

    `within` is the variance of one attempt around its task's mean, `session` that of whole sessions around each other
    and `session_error` the latter's standard error; None where there is nothing to measure it by. `swing` is one
    standard deviation of the mean of a single pass.
    """

    metric: str
    within: float | None
    session: float | None
    sessions: int
    passes: float
    tasks: int
    swing: float | None
    why: str | None = None
    session_error: float | None = None


def outcome_floor(outcomes: Outcomes, name: str = "success") -> OutcomeFloor:
    """The floor of a metric, from the repeats of one version."""
    grid = outcomes.grid(name)
    tasks = int(np.any(~np.isnan(grid), axis=0).sum()) if grid.size else 0
    passes = float(np.sum(~np.isnan(grid))) / max(tasks, 1)
    sessions = session_of(outcomes)
    count = int(sessions.max(initial=-1)) + 1
    made = OutcomeFloor(metric=name, within=None, session=None, sessions=count, passes=passes, tasks=tasks, swing=None)
    if not np.any(np.sum(~np.isnan(grid), axis=0) > 1):
        return msgspec.structs.replace(made, why="every task was attempted once, so its own noise cannot be measured")
    within = power.pass_floor(grid).within
    between, error = None, None
    if count > 1:
        whole = power.pass_floor(_by_session(outcomes, name, sessions, count))
        between, error = whole.session, whole.session_error
    swing = float(np.sqrt(within / max(tasks, 1) + (between or 0.0)))
    why = None if count > 1 else "the baseline has one session, so differences between sessions are unknown"
    return msgspec.structs.replace(made, within=within, session=between, swing=swing, why=why, session_error=error)


def session_of(outcomes: Outcomes) -> Ints:
    """The session of every episode, numbered in time; one session where no times are known."""
    if outcomes.at_ns is None or outcomes.at_ns.size == 0:
        return np.zeros(outcomes.task.size, dtype=np.int64)
    order = np.argsort(outcomes.at_ns, kind="stable")
    new = np.diff(outcomes.at_ns[order], prepend=outcomes.at_ns[order[0]]) > SESSION_GAP_NS
    numbered = np.empty(order.size, dtype=np.int64)
    numbered[order] = np.cumsum(new)
    return numbered


def _by_session(outcomes: Outcomes, name: str, sessions: Ints, count: int) -> Floats:
    """The mean of every task in every session, NaN where it was not attempted."""
    values = outcomes.metric(name)
    known = ~np.isnan(values)
    place = sessions[known] * len(outcomes.tasks) + outcomes.task[known]
    cells = count * len(outcomes.tasks)
    n = np.bincount(place, minlength=cells)
    total = np.bincount(place, weights=values[known], minlength=cells)
    means = np.where(n > 0, total / np.maximum(n, 1), np.nan)
    return means.reshape(count, len(outcomes.tasks))
