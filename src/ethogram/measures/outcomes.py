"""The outcomes of a run as columns: the input of reliability, comparison, gate and planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ethogram.traces import PROVIDER_REASONS, REASON_FACTS, SUCCESS_AT, refusal_words

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]
Objects = np.ndarray[Any, np.dtype[np.object_]]

UNJUDGED = frozenset(name for name, facts in REASON_FACTS.items() if facts.unjudged)
"""Reasons for which only the verdict is missing: the episode came to its end, so what it did and cost is known."""
NOT_RUN = "not_run"
"""Planned, and not (or not yet) in the ledger: missing like any other, with a reason of its own."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """One row per episode; tasks are numbered in the order of `tasks`.

    `value` is NaN where the outcome is missing, and `reason` then says why; `figures` holds what else was counted of
    an episode (steps, tokens, cost, seconds), NaN where the log never said. `planned` counts attempts per task. Of
    `part_refused` episodes a provider refused some model calls for good.
    """

    tasks: tuple[str, ...]
    task: Ints
    attempt: Ints
    value: Floats
    reason: Objects
    planned: Ints
    figures: Mapping[str, Floats]
    seed: Objects | None = None
    at_ns: Ints | None = None
    part_refused: Bools | None = None
    success_at: float = SUCCESS_AT

    @cached_property
    def scored(self) -> Bools:
        """Which episodes have a score."""
        return ~np.isnan(self.value)

    @cached_property
    def refused(self) -> Bools:
        """Scored episodes some of whose model calls a provider refused: their score may not be what the agent can."""
        if self.part_refused is None:
            return np.zeros(self.value.shape, dtype=bool)
        return np.asarray(self.part_refused & self.scored)

    @cached_property
    def ended(self) -> Bools:
        """Which episodes came to their end, scored or not: what cut the others off also cut what they did and cost."""
        unjudged = np.array([reason in UNJUDGED for reason in self.reason], dtype=bool)
        return np.asarray(self.scored | unjudged)

    @cached_property
    def success(self) -> Bools:
        """Which episodes succeeded; a missing one did not, and is not counted either."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.value >= self.success_at)

    @cached_property
    def attempts(self) -> Ints:
        """Scored attempts per task."""
        return self._per_task(self.scored)

    @cached_property
    def successes(self) -> Ints:
        """Successes per task."""
        return self._per_task(self.success)

    @cached_property
    def missing_per_task(self) -> Ints:
        """Planned attempts without a score, per task."""
        return np.asarray(np.maximum(self.planned - self.attempts, 0), dtype=np.int64)

    @property
    def binary(self) -> bool:
        """Whether every score is exactly 0 or 1."""
        return bool(np.all(np.isin(self.value[self.scored], (0.0, 1.0))))

    def missing(self, name: str = "success") -> dict[str, int]:
        """How many planned attempts have neither a score nor a value of this metric, by reason.

        Scored attempts whose log never said what the metric needs are not among them.
        """
        counts = Counter(self.reason[~self.scored & np.isnan(self.metric(name))].tolist())
        absent = int(self.planned.sum()) - self.reason.size
        if absent > 0:
            counts[NOT_RUN] += absent
        return dict(sorted(counts.items()))

    def metric(self, name: str) -> Floats:
        """A column by the name of its metric: NaN where the log never said, and where the episode has no score or, of
        a metric that needs none, did not end."""
        if name == "success":
            return np.where(self.scored, self.success.astype(np.float64), np.nan)
        if name == "score":
            return self.value
        if name not in self.figures:
            return np.full(self.value.shape, np.nan)
        return np.where(self.ended, self.figures[name], np.nan)

    def only(self, tasks: Sequence[str]) -> Outcomes:
        """The same outcomes on these tasks, in this order; a task without an episode stays, with none."""
        if tuple(tasks) == self.tasks:
            return self
        place = {name: i for i, name in enumerate(tasks)}
        renumber = np.array([place.get(name, -1) for name in self.tasks], dtype=np.int64)
        new = renumber[self.task] if len(self.tasks) else self.task
        planned = np.zeros(len(tasks), dtype=np.int64)
        planned[renumber[renumber >= 0]] = self.planned[renumber >= 0]
        keep = new >= 0
        return replace(self.where(keep), tasks=tuple(tasks), task=new[keep], planned=planned)

    def upto(self, attempts: Ints) -> Outcomes:
        """What the first planned attempts of each task gave, scored or not."""
        cut = self.where(self.attempt < attempts[self.task])
        return replace(cut, planned=np.minimum(self.planned, attempts))

    def where(self, keep: Bools) -> Outcomes:
        """Some of the episodes, of the same tasks."""
        return replace(
            self,
            task=self.task[keep],
            attempt=self.attempt[keep],
            value=self.value[keep],
            reason=self.reason[keep],
            figures={name: column[keep] for name, column in self.figures.items()},
            seed=None if self.seed is None else self.seed[keep],
            at_ns=None if self.at_ns is None else self.at_ns[keep],
            part_refused=None if self.part_refused is None else self.part_refused[keep],
        )

    def grid(self, name: str) -> Floats:
        """A metric as (attempts, tasks), NaN where there is none: row k is the k-th pass over the tasks."""
        values = self.metric(name)
        rows = int(self.attempt.max(initial=-1)) + 1
        out = np.full((rows, len(self.tasks)), np.nan)
        out[self.attempt, self.task] = values
        return out

    def _per_task(self, which: Bools) -> Ints:
        return np.bincount(self.task[which], minlength=len(self.tasks)).astype(np.int64)


def turned(base: Outcomes, candidate: Outcomes, verdict: str, name: str) -> tuple[Outcomes, Outcomes] | None:
    """Both versions as they would speak most against a verdict, had no provider refused calls; None if none did.

    Of a regression, the candidate's refused attempts succeed and the base's fail, those that are missing too; else the
    other way round, for scored ones alone. For a metric that is no outcome they are left out.
    """
    worse = verdict == "regression"
    sides = []
    for outcomes, score in ((base, 0.0 if worse else 1.0), (candidate, 1.0 if worse else 0.0)):
        gone = np.isin(outcomes.reason.astype(str), list(PROVIDER_REASONS)) & ~outcomes.scored
        which = outcomes.refused | gone if worse else outcomes.refused
        if name not in ("success", "score"):
            which, score = outcomes.refused, np.nan
        sides.append((outcomes, which, score))
    if not any(which.any() for _, which, _ in sides):
        return None
    one, two = (
        replace(
            outcomes,
            value=np.where(which, score, outcomes.value),
            figures={n: np.where(which, np.nan, column) for n, column in outcomes.figures.items()},
        )
        for outcomes, which, score in sides
    )
    return one, two


def refused_words(sides: tuple[Outcomes, Outcomes], names: tuple[str, str]) -> str:
    """What providers refused of a base and a candidate, in words; empty where they refused nothing."""
    parts = []
    for outcomes, name in zip(sides, names, strict=True):
        words = refusal_words(outcomes.missing(), int(outcomes.planned.sum()))
        parts += [f"{words} of {name}"] if words else []
        partly = int(outcomes.refused.sum())
        parts += [f"{partly:,} scored attempts of {name} went on after calls that were refused"] if partly else []
    return "; ".join(parts)


def outcomes_of(
    rows: Iterable[tuple[str, int, float | None, str | None]],
    *,
    planned: Mapping[str, int] | None = None,
    success_at: float = SUCCESS_AT,
) -> Outcomes:
    """Outcomes from plain rows (task, attempt, score or None, reason if None): for notebooks, tests and simulations."""
    listed = list(rows)
    names = tuple(dict.fromkeys([r[0] for r in listed] + list(planned or ())))
    place = {name: i for i, name in enumerate(names)}
    task = np.array([place[r[0]] for r in listed], dtype=np.int64)
    seen = np.bincount(task, minlength=len(names)) if listed else np.zeros(len(names), dtype=np.int64)
    wanted = np.array([(planned or {}).get(name, 0) for name in names], dtype=np.int64)
    return Outcomes(
        tasks=names,
        task=task,
        attempt=np.array([r[1] for r in listed], dtype=np.int64),
        value=np.array([np.nan if r[2] is None else r[2] for r in listed], dtype=np.float64),
        reason=np.array([None if r[2] is not None else (r[3] or "unscored") for r in listed], dtype=object),
        planned=np.maximum(seen.astype(np.int64), wanted),
        figures={},
        success_at=success_at,
    )
