"""`Field` and `FieldMetrics` with the conventions of `agent_fields`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ethogram.measures.columns import Columns, Floats
from ethogram.measures.dimension import Dimension
from ethogram.questions.field import field as measured
from ethogram.questions.field import metrics
from ethogram.questions.field.horizon import MembershipRule

T = TypeVar("T")


class CountedAsZero(UserWarning):
    """A metric that cannot be had is 0 in this package; Ethogram says None."""


class FieldMetrics(metrics.FieldMetrics):
    """The metrics of a cloud: `FieldMetrics(points, outcomes, dimensions)`, or `field.metrics()`."""

    def __init__(self, points: npt.ArrayLike, outcomes: npt.ArrayLike, dimensions: Sequence[Dimension]) -> None:
        self._measure(Field.from_arrays(points, outcomes, dimensions))

    @classmethod
    def of(cls, field: measured.Field) -> FieldMetrics:
        """The metrics of a field, with its tasks."""
        made = cls.__new__(cls)
        made._measure(field)
        return made

    def _measure(self, field: measured.Field) -> None:
        super().__init__(field)
        self._dimensions = list(field.dimensions())

    def separation(self, threshold: float = 0.5) -> Floats:
        """Centre of the successes minus centre of the failures; zeros, with a warning, if there are none of either."""
        apart = super().separation(threshold)
        if apart is not None:
            return apart
        _warn("separation", "all outcomes are on one side of the threshold")
        return np.zeros(self.d)

    def skew(self, dimension: str | int) -> float:
        """The correlation of the outcome with a dimension; 0, with a warning, if either is constant."""
        found = super().skew(dimension)
        if found is not None:
            return found
        _warn("skew", "the dimension or the outcome never varies")
        return 0.0

    def report(self, *, level: float = 0.95, draws: int = 999, seed: int = 0) -> metrics.FieldReport:
        """Every metric in both readings, None where there is nothing to say: what `eth.field` is made of."""
        return metrics.FieldMetrics(self._field).report(level=level, draws=draws, seed=seed)

    def summary(self) -> dict[str, Any]:
        """The values by name; convergence is a number, infinite where every run succeeds."""
        return {**super().summary(), "convergence": self.convergence()}


class Field(measured.Field[T]):
    """Subclass it with `dimensions()` and `measure(trajectory)`, as in `agent_fields`."""

    def metrics(self) -> FieldMetrics:
        """Every metric of the cloud as it is now."""
        super().metrics()  # refuses an empty field
        return FieldMetrics.of(self)

    def horizon(self, state: str | Sequence[str], rule: MembershipRule = "visited") -> measured.Field:
        """The trajectories that visited a state, or any of a list; none where nobody did."""
        wanted = {state} if isinstance(state, str) else set(state)
        known = [s for s in self.known_states if s in wanted]
        return super().horizon(known, rule) if known else self.subset(np.zeros(self.K, dtype=bool), "horizon of nobody")

    @property
    def states(self) -> list[str]:
        """Every state that occurs, by first appearance."""
        return list(dict.fromkeys(label for labels in self.state_sequences for label in labels))

    @property
    def _outcomes(self) -> list[float]:
        return [float(y) for y in self.outcomes]

    @property
    def _points(self) -> list[Floats]:
        return list(self.points)

    @property
    def _state_sequences(self) -> list[list[str]]:
        return self.state_sequences

    @classmethod
    def _part(cls, dimensions: tuple[Dimension, ...], held: Columns) -> measured.Field:
        return _Part(dimensions, held)


class _Part(Field[Any], measured.HeldField):
    """A part of such a field, or arrays."""


def _warn(metric: str, why: str) -> None:
    warnings.warn(f"{metric} is 0 because {why}, which is no evidence of equality", CountedAsZero, stacklevel=3)
