"""A corridor: the behaviour of successful attempts at a task, to compare other attempts with.

It may come from another model, from golden runs or from people's traces, if they were measured through the same field.
Adherence is conformal: under the same conditions as the corridor's runs, a new run falls outside with probability at
most alpha, whatever the distribution, and exactly so in finite samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import numpy as np

from ethogram.errors import BadInput, BadUsage
from ethogram.estimate import Estimate
from ethogram.measures.columns import Floats, Ints
from ethogram.measures.dimension import Dimension
from ethogram.statistics import permutation, spread

from . import fieldtests, standardised
from .field import Field
from .horizon import MembershipRule

FORMAT = 1
MOST_REFERENCES = 2000
"""Runs that a new one is held against; evenly taken from a larger corridor."""


class CorridorGap(msgspec.Struct, frozen=True, kw_only=True):
    """One horizon of a field against the corridor.

    `width_gap` is the essay's W(horizon) - W(corridor); `width_ratio` and `distance` are the default reading; `p` is of
    a distance of 0, which the interval of `distance` leaves out exactly where p is at most 1 - level. `dimensions`
    holds the plain centroid gap and its standardised form with interval and p.
    """

    state: str
    rule: MembershipRule
    K: int
    width: float
    width_gap: float
    width_ratio: Estimate
    distance: Estimate
    p: float | None
    dimensions: tuple[fieldtests.DimensionShift, ...]
    centroid_gap: dict[str, float]


class Adherence(msgspec.Struct, frozen=True, kw_only=True):
    """One run against the corridor: `p` is the share of runs at least as far out, itself included.

    `inside` is None where the corridor is too small for the level. `distance` is over the median of the reference.
    """

    episode: str
    task: str
    p: float
    inside: bool | None
    distance: float | None
    reference: Literal["task", "all tasks"]
    n: int
    why: str | None = None


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """Whether new runs as a whole left the corridor: a permutation test of their distance, at level alpha."""

    raised: bool | None
    p: float | None
    alpha: float
    distance: float | None
    K: int
    untested: int
    outside: int
    draws: int
    seed: int
    why: str | None = None


class Corridor:
    """Runs that serve as a ruler."""

    def __init__(self, field: Field, name: str = "") -> None:
        if field.K == 0:
            raise BadInput("a corridor needs successes, and there are none; use a field that has some")
        self.field = field
        self.name = name

    @classmethod
    def of(cls, *fields: Field, name: str = "", threshold: float = 0.5, successes: bool = True) -> Corridor:
        """From the successes of one or several fields; `successes=False` takes every run given, as selected."""
        if not fields:
            raise BadUsage("a corridor needs at least one field")
        parts = [f.success_region(threshold) if successes else f for f in fields]
        first = parts[0]
        if any(p.names != first.names for p in parts):
            raise BadUsage("a corridor takes fields with the same dimensions in the same order; measure all alike")
        whole = (
            Field.from_arrays(
                np.concatenate([p.points for p in parts]),
                np.concatenate([p.outcomes for p in parts]),
                first.dimensions(),
                tasks=[p.tasks[i] for p in parts for i in p.task_index],
                episodes=[e for p in parts for e in p.episodes],
            )
            if sum(p.K for p in parts)
            else first
        )
        return cls(whole, name)

    @property
    def K(self) -> int:
        """How many runs."""
        return self.field.K

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        field = self.field
        return {
            "format": FORMAT,
            "name": self.name,
            "dimensions": [{"name": d.name, "description": d.description} for d in field.dimensions()],
            "runs": [
                {
                    "episode": field.episodes[i],
                    "task": field.tasks[field.task_index[i]],
                    "outcome": None if np.isnan(field.outcomes[i]) else float(field.outcomes[i]),
                    "point": field.points[i].tolist(),
                }
                for i in range(field.K)
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Corridor:
        """The inverse of `to_dict`."""
        try:
            if data["format"] != FORMAT:
                raise BadInput(f"the corridor has the format {data['format']!r}, and only {FORMAT} is known here")
            runs = data["runs"]
            field = Field.from_arrays(
                np.array([r["point"] for r in runs], dtype=np.float64),
                [r["outcome"] for r in runs],
                [Dimension(d["name"], d.get("description", "")) for d in data["dimensions"]],
                tasks=[r["task"] for r in runs],
                episodes=[r["episode"] for r in runs],
            )
            return cls(field, str(data.get("name", "")))
        except (KeyError, TypeError, ValueError) as error:
            raise BadInput(f"this is not a corridor ({type(error).__name__}: {error}); save a new one") from None

    def gaps(
        self, field: Field, rule: MembershipRule = "visited", *, level: float = 0.95, draws: int = 999, seed: int = 0
    ) -> tuple[CorridorGap, ...]:
        """Width and centre of every horizon against the corridor, in the order of states."""
        self._same_dimensions(field)
        parts = [(s, field.horizon(s, rule)) for s in field.states]
        return tuple(self._gap(s, rule, p, level, draws, seed) for s, p in parts if p.K)

    def adherence(self, field: Field, alpha: float = 0.05) -> tuple[Adherence, ...]:
        """Each run of a field against the corridor; against runs of its own task where they are enough.

        Guarantee: if a run is exchangeable with the reference, P(outside) ≤ alpha. Against all tasks it holds on
        average over tasks drawn as the corridor's were, not for each task.
        """
        self._same_dimensions(field)
        needed = int(np.ceil(1 / alpha - 1e-9)) - 1
        mine, theirs = spread.log_features(self.field.points), spread.log_features(field.points)
        sizes = np.bincount(self.field.task_index, minlength=len(self.field.tasks))
        enough = {t: i for i, t in enumerate(self.field.tasks) if sizes[i] >= needed}
        out: list[Adherence | None] = [None] * field.K
        by_task = np.array([t in enough for t in field.tasks], dtype=bool)[field.task_index]
        parts: list[tuple[Ints, Floats, Literal["task", "all tasks"]]] = [
            (np.flatnonzero(field.task_index == i), mine[self.field.task_index == enough[t]], "task")
            for i, t in enumerate(field.tasks)
            if t in enough
        ]
        parts.append((np.flatnonzero(~by_task), mine, "all tasks"))
        episodes = field.episodes
        for rows, reference, kind in parts:
            # any part of the reference that is chosen without looking is as good; more than this adds nothing
            used = reference[:: -(-reference.shape[0] // MOST_REFERENCES)]
            few = used.shape[0] < needed
            why = f"{used.shape[0]} runs cannot exclude any at {alpha:g}; it needs {needed}" if few else None
            for row, p, distance in zip(rows, *permutation.conformal_p(used, theirs[rows]), strict=True):
                out[row] = Adherence(
                    episode=episodes[row],
                    task=field.tasks[field.task_index[row]],
                    p=float(p),
                    inside=None if few else bool(p > alpha),
                    distance=float(distance) if np.isfinite(distance) else None,
                    reference=kind,
                    n=used.shape[0],
                    why=why,
                )
        return tuple(a for a in out if a is not None)

    def alarm(self, field: Field, alpha: float = 0.05, *, draws: int = 999, seed: int = 0) -> Alarm:
        """Test whether new attempts left the corridor: old and new are permuted within tasks; the level is exact.

        Runs of tasks that the corridor lacks are counted as untested.
        """
        self._same_dimensions(field)
        outside = sum(a.inside is False for a in self.adherence(field, alpha))
        draws = standardised.fewer_draws(draws, self.K + field.K)
        known = set(self.field.tasks)
        shared = np.array([t in known for t in field.tasks], dtype=bool)
        tested = int(np.sum(shared[field.task_index]))
        common: dict[str, Any] = {
            "alpha": alpha, "K": field.K, "untested": field.K - tested, "outside": outside,
            "draws": draws, "seed": seed,
        }  # fmt: skip
        if not shared.any():
            why = "the corridor has none of these tasks; build it from attempts at the same tasks"
            return Alarm(raised=None, p=None, distance=None, why=why, **common)
        pair = self._pooled(field)
        least = float(np.exp(-permutation.log_arrangements(pair.task, pair.second, len(pair.tasks))))
        if least > alpha or not pair.alive.any():
            why = f"too few attempts to raise an alarm at {alpha:g} (p is at least {least:.2g})"
            if not pair.alive.any():
                why = "no dimension varies within a task, in the corridor or in the new attempts"
            return Alarm(raised=None, p=None, distance=None, why=why, **common)
        far, p = permutation.distance_test(
            pair.x, pair.second, pair.task, len(pair.tasks), draws, fieldtests.generator(seed, "corridor alarm")
        )
        return Alarm(raised=p <= alpha, p=p, distance=float(np.sqrt(far / pair.alive.sum())), **common)

    def _pooled(self, field: Field) -> fieldtests.Pair:
        """Both on the scale of all their runs together: a scale that knows who is new would spoil the level."""
        rough = fieldtests.paired(self.field, field)
        both = np.concatenate([p.points for p in rough.parts])
        scale = standardised.scale_from(spread.cells(both, rough.task, len(rough.tasks), spread.log_features))
        return fieldtests.paired(self.field, field, scale)

    def _gap(self, state: str, rule: MembershipRule, part: Field, level: float, draws: int, seed: int) -> CorridorGap:
        m, ruler = part.metrics(), self.field.metrics()
        plain = dict(zip(part.names, (m.center() - ruler.center()).tolist(), strict=True))
        common: dict[str, Any] = {"state": state, "rule": rule, "K": part.K, "width": m.width()}
        common |= {"width_gap": m.width() - ruler.width(), "centroid_gap": plain}
        if not set(part.tasks) & set(self.field.tasks):
            why = "the corridor has none of these tasks, so tasks and agents cannot be separated"
            none = Estimate(value=None, why=why, level=level, n=part.K, of="trajectories")
            return CorridorGap(width_ratio=none, distance=none, p=None, dimensions=(), **common)
        found = fieldtests.compare_fields(self.field, part, level=level, draws=draws, seed=seed)
        return CorridorGap(
            width_ratio=found.width_ratio,
            distance=found.centre_shift,
            p=found.test("centre").p,
            dimensions=found.dimensions,
            **common,
        )

    def _same_dimensions(self, field: Field) -> None:
        if field.names != self.field.names:
            raise BadUsage(
                f"the corridor measures {', '.join(self.field.names)}, the field {', '.join(field.names)}; "
                "measure both alike"
            )
