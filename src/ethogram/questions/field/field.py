"""The behaviour field: K trajectories of an agent as points in a space of named dimensions, with their outcomes.

A subclass says what is measured (`dimensions`, `measure`) and, if it likes, where in the task a step lies (`state`) and
what the agent is up to (`intent`). Horizons, regions, regimes and families are fields again, so all of it composes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
import numpy.typing as npt

from ethogram.errors import BadInput, BadUsage, Refused
from ethogram.measures.columns import NO_LABEL, Bools, Columns, Floats, Ints, LabelPath, collapse, path_length
from ethogram.measures.dimension import Dimension
from ethogram.traces import Trace

from . import horizon as horizons
from .horizon import Program, Split, families, first_seen, has_motif, program

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from .metrics import FieldMetrics

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")  # before Python 3.13 only type checkers know defaults


class Field(Generic[T]):
    """Subclass it with `dimensions()` and `measure(trajectory)`; `add` trajectories; ask `metrics()`.

    `state_order` declares the order of states where first appearance would not give it. `terminal_state` names a label
    that every trajectory gets at its last step whatever it did; None finds it, "" says that there is none.
    `Field[dict]` tells type checkers what a trajectory is.
    """

    state_order: Sequence[str] = ()
    terminal_state: str | None = None

    _origin: tuple[str, ...] = ()
    _parent: Field | None = None
    _warned = False

    def dimensions(self) -> Sequence[Dimension]:
        """The axes, in the order of `measure`."""
        raise NotImplementedError(
            f"{type(self).__name__} needs dimensions(): the list of its Dimension(name, description)"
        )

    def measure(self, trajectory: T) -> npt.ArrayLike:
        """One number per dimension: what the agent did, not how well it went."""
        raise NotImplementedError(f"{type(self).__name__} needs measure(trajectory): one number per dimension")

    def state(self, trajectory: T, t: int) -> str:
        """Where in the task step t lies; labels should only move forward."""
        return NO_LABEL

    def intent(self, trajectory: T, t: int) -> str:
        """What the agent is up to at step t; labels may come back."""
        return NO_LABEL

    def trajectory_length(self, trajectory: T) -> int:
        """How many steps `state` and `intent` are asked about."""
        if isinstance(trajectory, Trace):
            return len(trajectory.steps)
        if isinstance(trajectory, Sequence) and not isinstance(trajectory, str | bytes):
            return len(trajectory)
        raise BadUsage(
            f"{type(self).__name__} has state() or intent(), but the length of a {type(trajectory).__name__} is not "
            "known; add trajectory_length(trajectory), the number of its steps"
        )

    def add(self, trajectory: T, outcome: object = None, *, task: str | None = None, episode: str = "") -> Floats:
        """Measure a trajectory and keep the point, its outcome and its labels; gives the point.

        The outcome is a number, `Scored`, `Missing`, or None for none; a `Trace` brings its own, and its task.
        """
        if isinstance(trajectory, Trace):
            outcome = trajectory.outcome if outcome is None else outcome
            task = trajectory.head.task if task is None else task
            episode = episode or trajectory.head.episode
        point = self._measured(trajectory)
        states, intents = self._labelled(trajectory)
        self._held.append(point, outcome, task or "", episode, states, intents)
        self.__dict__.pop("_order", None)
        return point

    def ingest(
        self, trajectories: Iterable[T], outcomes: Iterable[object] | None = None, tasks: Iterable[str] | None = None
    ) -> None:
        """Add many; as many outcomes (and tasks) as trajectories, where they are given."""
        runs = list(trajectories)
        scores: list[object] = [None] * len(runs) if outcomes is None else list(outcomes)
        names: list[str | None] = [None] * len(runs) if tasks is None else list(tasks)
        for what, count in (("outcomes", len(scores)), ("tasks", len(names))):
            if count != len(runs):
                raise BadInput(f"there are {len(runs)} trajectories but {count} {what}; give one for each")
        for run, outcome, task in zip(runs, scores, names, strict=True):
            self.add(run, outcome, task=task)

    @classmethod
    def from_arrays(
        cls,
        points: npt.ArrayLike,
        outcomes: Any,
        dimensions: Sequence[Dimension | str],
        *,
        tasks: Sequence[object] | npt.NDArray[Any] | None = None,
        episodes: Sequence[str] | None = None,
        states: Sequence[Sequence[str]] | None = None,
        intents: Sequence[Sequence[str]] | None = None,
        state_order: Sequence[str] = (),
    ) -> Field:
        """A field of points that were measured elsewhere; `states` and `intents` hold one label per step."""
        dims = tuple(Dimension(d) if isinstance(d, str) else d for d in dimensions)
        held = Columns.of_arrays(points, outcomes, _names(dims), tasks)
        for name, column in (("episodes", episodes), ("states", states), ("intents", intents)):
            if column is not None and len(column) != len(held):
                raise BadInput(f"there are {len(held)} points but {len(column)} {name}; give one for each", where=name)
        held.episodes = None if episodes is None else list(episodes)
        held.states = None if states is None else [collapse(s) for s in states]
        held.intents = None if intents is None else [collapse(s) for s in intents]
        found = cls._part(dims, held)
        found.state_order = tuple(state_order)
        return found

    def __repr__(self) -> str:
        whence = f", {', '.join(self._origin)}" if self._origin else ""
        return f"{type(self).__name__}(K={self.K}, d={self.d}{whence})"

    @property
    def K(self) -> int:
        """How many trajectories."""
        return len(self._held)

    @property
    def d(self) -> int:
        """How many dimensions."""
        return len(self.dimensions())

    @property
    def names(self) -> list[str]:
        """The names of the dimensions."""
        return _names(self.dimensions())

    @property
    def points(self) -> Floats:
        """The cloud, (K, d)."""
        return self._held.points

    @property
    def outcomes(self) -> Floats:
        """Outcomes, (K,), apart from the cloud; NaN where there is none (`missing` says why)."""
        return self._held.outcomes

    @property
    def scored(self) -> Bools:
        """Which trajectories have an outcome."""
        return ~np.isnan(self._held.outcomes)

    @property
    def missing(self) -> dict[str, int]:
        """Trajectories without an outcome, by reason."""
        return self._held.missing()

    @property
    def tasks(self) -> list[str]:
        """The tasks of these trajectories."""
        return self._held.task_names

    @property
    def task_index(self) -> Ints:
        """The task of each trajectory, as an index into `tasks`."""
        return self._held.tasks

    @property
    def episodes(self) -> list[str]:
        """The id of each trajectory; empty where none was given."""
        return self._held.episodes or [""] * self.K

    @property
    def origin(self) -> tuple[str, ...]:
        """How this field was taken from a larger one, outermost first; names the membership rule of horizons."""
        return self._origin

    @property
    def root(self) -> Field:
        """The field that this one was taken from, itself if it was not."""
        return self if self._parent is None else self._parent.root

    def metrics(self) -> FieldMetrics:
        """Every metric of the cloud as it is now."""
        from .metrics import FieldMetrics

        if self.K == 0:
            where = f" ({', '.join(self._origin)})" if self._origin else ""
            raise Refused(
                f"the field is empty{where}, so it has no metrics; add trajectories, or ask a wider field",
                have=0,
                need=1,
                of="trajectories",
            )
        return FieldMetrics(self)

    def subset(self, mask: npt.ArrayLike, origin: str = "subset") -> Field:
        """The trajectories where the mask is true, or at these indices; a field with the same dimensions."""
        chosen = np.asarray(mask)
        if chosen.dtype == np.bool_:
            if chosen.shape != (self.K,):
                raise BadUsage(f"the mask has the shape {chosen.shape}; give one true or false for each of {self.K}")
            chosen = np.flatnonzero(chosen)
        part = self._part(tuple(self.dimensions()), self._held.take(chosen.astype(np.int64)))
        part._parent = self
        part._origin = (*self._origin, origin)
        part.state_order, part.terminal_state = self.known_states, self.terminal or ""
        part._warned = self._warned
        return part

    def success_region(self, threshold: float = 0.5) -> Field:
        """The trajectories with an outcome of at least the threshold."""
        return self.subset(self.outcomes >= threshold, f"successes (outcome ≥ {threshold:g})")

    def failure_region(self, threshold: float = 0.5) -> Field:
        """The trajectories with an outcome below the threshold; those without an outcome are in neither region."""
        return self.subset(self.outcomes < threshold, f"failures (outcome < {threshold:g})")

    @property
    def known_states(self) -> tuple[str, ...]:
        """Every state in order: as declared, then as they appear; a part of a field knows its parent's too."""
        return self._order

    @property
    def states(self) -> list[str]:
        """The states that occur here, in order."""
        here = {label for path in self._held.paths("states") for label, _ in path}
        return [s for s in self._order if s in here]

    @property
    def terminal(self) -> str | None:
        """The label that every trajectory gets at its last step, which has no rank under `reached`."""
        if self.terminal_state is not None:
            return self.terminal_state or None
        return None if self._held.states is None else horizons.terminal_of(self._held.states)

    @property
    def state_sequences(self) -> list[list[str]]:
        """One label per step of every trajectory."""
        return [[label for label, count in path for _ in range(count)] for path in self._held.paths("states")]

    def backwards(self) -> list[horizons.Backwards]:
        """Trajectories whose state went backwards, each with its first step back."""
        return horizons.steps_back(self._held.paths("states"), self._rank)

    def horizon(self, state: str | Sequence[str], rule: horizons.MembershipRule = "visited") -> Field:
        """The trajectories that visited a state (or any of a list), or that reached it; see `horizon`."""
        wanted = [state] if isinstance(state, str) else list(state)
        horizons.known_or_refuse(wanted, self._order)
        self._warn_of_steps_back()
        mask = horizons.members(self._held.paths("states"), wanted, rule, self._rank)
        return self.subset(np.array(mask, dtype=bool), f"horizon {'|'.join(wanted)} ({rule})")

    def horizon_at(self, t: int) -> Field:
        """The trajectories that had a step t."""
        mask = np.array([path_length(path) > t for path in self._held.paths("states")], dtype=bool)
        return self.subset(mask, f"horizon at step {t}")

    @property
    def intents(self) -> list[str]:
        """Every intent that occurs, by first appearance."""
        return list(dict.fromkeys(label for path in self._held.paths("intents") for label, _ in path))

    @property
    def programs(self) -> list[Program]:
        """Every program that occurs, by first appearance."""
        return first_seen(self._programs)

    def regime(self, pattern: str | Sequence[str]) -> Field:
        """The trajectories whose program contains the pattern in one piece; regimes overlap."""
        motif = (pattern,) if isinstance(pattern, str) else tuple(pattern)
        mask = np.array([has_motif(p, motif) for p in self._programs], dtype=bool)
        return self.subset(mask, f"regime {' → '.join(motif)}")

    def program_family(self, prefix: str | Sequence[str]) -> Field:
        """The trajectories whose program starts with the prefix; families of one depth partition the field."""
        start = (prefix,) if isinstance(prefix, str) else tuple(prefix)
        mask = np.array([p[: len(start)] == start for p in self._programs], dtype=bool)
        return self.subset(mask, f"family {' → '.join(start)}")

    def width_split(self, depth: int | None = None) -> Split:
        """Width within families and between their centres; families share the first `depth` intents, or all."""
        own = families(self._programs, depth)
        names = first_seen(own)
        from .metrics import split_of_width

        within, between = split_of_width(self.points, np.array([names.index(f) for f in own], dtype=np.int64))
        return Split(within + between, within, between, {f: own.count(f) for f in names})

    @classmethod
    def _part(cls, dimensions: tuple[Dimension, ...], held: Columns) -> Field:
        """A field of points that are there already."""
        return HeldField(dimensions, held)

    @cached_property
    def _held(self) -> Columns:
        """Made on first use, so that a subclass with an `__init__` of its own need not call its parent's."""
        return Columns(self.d)

    @property
    def _programs(self) -> list[Program]:
        return [program(path) for path in self._held.paths("intents")]

    @cached_property
    def _order(self) -> tuple[str, ...]:
        if self._held.states is None:
            return tuple(self.state_order) or (NO_LABEL,)
        return tuple(horizons.order_of(self._held.states, self.state_order))

    @property
    def _rank(self) -> dict[str, int]:
        return {s: i for i, s in enumerate(self._order) if s != self.terminal}

    def _measured(self, trajectory: Any) -> Floats:
        names, row = self.names, self.K
        values = self.measure(trajectory)
        try:
            point = np.array(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise BadInput(
                f"measure() gave {values!r} for trajectory {row}; give {len(names)} numbers", where=f"trajectory {row}"
            ) from None
        if point.shape != (len(names),):
            raise BadInput(
                f"measure() gave the shape {point.shape} for trajectory {row}, but there are {len(names)} dimensions "
                f"({', '.join(names)}); give one number for each",
                where=f"trajectory {row}",
            )
        if not np.isfinite(point).all():
            bad = names[int(np.flatnonzero(~np.isfinite(point))[0])]
            raise BadInput(
                f"measure() gave {point[names.index(bad)]} on dimension {bad!r} for trajectory {row}; give a finite "
                "number, or leave that trajectory or that dimension out",
                where=f"trajectory {row}",
            )
        return point

    def _labelled(self, trajectory: Any) -> tuple[LabelPath, LabelPath]:
        """Both label sequences; without functions of its own a field asks for no length it cannot have."""
        kinds = (type(self).state is not Field.state, type(self).intent is not Field.intent)
        try:
            length = self.trajectory_length(trajectory)
        except BadUsage:
            if any(kinds):
                raise
            length = 1
        blank: LabelPath = ((NO_LABEL, length),) if length else ()
        asked = (self.state, self.intent)
        found = [
            collapse(str(ask(trajectory, t)) for t in range(length)) if own else blank
            for own, ask in zip(kinds, asked, strict=True)
        ]
        return found[0], found[1]

    def _warn_of_steps_back(self) -> None:
        if self._warned:
            return
        back = self.backwards()
        if not back:
            return
        self._warned = True
        first = back[0]
        warnings.warn(
            f"state() went backwards in {len(back)} of {self.K} trajectories (first in trajectory {first.trajectory}: "
            f"from {first.left!r} to {first.entered!r}); so the rule 'reached' does not mean 'at least this state': "
            "return the furthest state, or declare state_order",
            horizons.NotMonotone,
            stacklevel=3,
        )


class HeldField(Field):
    """A field of points that are there already: a part of another field, or arrays."""

    def __init__(self, dimensions: tuple[Dimension, ...], held: Columns) -> None:
        self._dimensions = dimensions
        self._held = held

    def dimensions(self) -> Sequence[Dimension]:
        """The axes."""
        return self._dimensions

    def measure(self, trajectory: Any) -> npt.ArrayLike:
        """Not possible here."""
        raise BadUsage(
            "this field holds points that were measured before; add trajectories to the field they came from"
        )


def _names(dimensions: Sequence[Dimension]) -> list[str]:
    names = [d.name for d in dimensions]
    if len(set(names)) != len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise BadInput(f"the dimension {twice!r} occurs twice; give every dimension a name of its own", where=twice)
    if not names:
        raise BadInput("a field needs at least one dimension; return some from dimensions()")
    return names
