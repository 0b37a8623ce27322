"""The metrics of a field: plain, as the essay defines them, and the default ones as `Estimate`."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from ethogram.errors import BadUsage, NotFound
from ethogram.estimate import Estimate, json_number
from ethogram.measures.columns import Floats, Ints, as_floats
from ethogram.statistics import spread
from ethogram.traces.outcome import SUCCESS_AT

from . import standardised
from .field import Field
from .fieldtests import SeparationTest, separation_test

SINGLE = ("width", "spread", "convergence", "pass_rate", "drift")
PER_DIMENSION = ("center", "variance", "separation", "skew")


class DimensionReading(msgspec.Struct, frozen=True, kw_only=True):
    """One dimension: the essay's values, then the default reading under `estimates`.

    `p` is of no difference between success and failure within tasks, `adjusted` the same over all dimensions.
    """

    name: str
    description: str
    mean: float
    variance: float
    separation: float | None
    skew: float | None
    estimates: dict[str, Estimate]
    p: float | None = None
    adjusted: float | None = None


class FieldReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one cloud. Plain keys are the essay's definitions, `estimates` the default reading."""

    K: int
    d: int
    tasks: int
    successes: int
    failures: int
    missing: dict[str, int]
    origin: tuple[str, ...]
    width: float
    convergence: float | str | None
    dimensions: tuple[DimensionReading, ...]
    estimates: dict[str, Estimate]
    constant: tuple[str, ...]
    notes: tuple[str, ...]
    test_method: str
    draws: int
    seed: int


class FieldMetrics:
    """Metrics of the cloud as it was when they were asked for; variances are ddof 0, as in the essay.

    Absence is None: separation with one outcome class, skew of a constant, convergence without outcomes.
    """

    def __init__(self, field: Field) -> None:
        self._field = field
        self.K, self.d = field.K, field.d
        self.names = field.names

    def __repr__(self) -> str:
        return f"{type(self).__name__}(K={self.K}, d={self.d}, width={self.width():.3g})"

    def center(self) -> Floats:
        """The mean per dimension."""
        return as_floats(self._moments.mean[0])

    def variance(self) -> Floats:
        """The variance per dimension (ddof 0)."""
        return as_floats(self._moments.squares[0] / self.K)

    def width(self) -> float:
        """The sum of the variances (ddof 0)."""
        return float(np.sum(self.variance()))

    def covariance(self, ddof: int = 1) -> Floats | None:
        """The covariance matrix, (d, d): ddof 1 unless asked otherwise; its trace is the width with ddof 0.

        None if there are no more trajectories than ddof.
        """
        if ddof >= self.K:
            return None
        return spread.products(self._field.points, self.center()) / (self.K - ddof)

    def convergence(self) -> float | None:
        """Mean over standard deviation (ddof 0) of the outcomes; inf or 0 without spread; None without outcomes."""
        y = self._scores
        if y.size == 0:
            return None
        mean, sd = float(np.mean(y)), float(np.std(y))
        if sd <= 1e-15 * abs(mean):
            return float("inf") if mean > 0 else 0.0
        return mean / sd

    def separation(self, threshold: float = 0.5) -> Floats | None:
        """Centre of the successes minus centre of the failures; None if there are none of either."""
        found = self._by_class(threshold)
        return found.mean[1] - found.mean[0] if found.n[0] > 0 and found.n[1] > 0 else None

    def skew(self, dimension: str | int) -> float | None:
        """The correlation of the outcome with a dimension; None if either is constant or there are no outcomes."""
        return self._skews[self._place(dimension)]

    def summary(self) -> dict[str, Any]:
        """The essay's values by name; in JSON's terms, so infinity is a word."""
        apart, center, variance = self.separation(), self.center(), self.variance()
        return {
            "K": self.K,
            "d": self.d,
            "width": self.width(),
            "convergence": json_number(self.convergence()),
            "dimensions": {
                dimension.name: {
                    "description": dimension.description,
                    "mean": float(center[j]),
                    "variance": float(variance[j]),
                    "separation": None if apart is None else float(apart[j]),
                    "skew": self.skew(j),
                }
                for j, dimension in enumerate(self._field.dimensions())
            },
        }

    def estimate(self, metric: str, dimension: str | int | None = None, *, level: float = 0.95) -> Estimate:
        """The default reading of a metric, with its interval or the reason why there is none.

        Of the whole cloud: width, spread, convergence, pass_rate, drift; of a dimension: center, variance, separation,
        skew.
        """
        if metric in SINGLE:
            if dimension is not None:
                raise BadUsage(f"{metric} is of the whole field; leave the dimension out")
            return self._single(metric, level)
        if metric not in PER_DIMENSION:
            raise NotFound.named("metric of a field", metric, [*SINGLE, *PER_DIMENSION])
        if dimension is None:
            raise BadUsage(f"{metric} is per dimension; name one of {', '.join(self._field.names)}")
        name = self._field.names[self._place(dimension)]
        return self.estimates(metric, level=level)[name]

    def estimates(self, metric: str, *, level: float = 0.95) -> dict[str, Estimate]:
        """The default reading of a metric that is per dimension, by name."""
        if metric not in PER_DIMENSION:
            raise NotFound.named("metric per dimension", metric, list(PER_DIMENSION))
        function = {
            "center": standardised.center,
            "variance": standardised.variance,
            "separation": standardised.separation,
            "skew": standardised.skew,
        }[metric]
        return function(self._field, level)

    def separation_test(self, draws: int = 999, seed: int = 0) -> SeparationTest:
        """On which dimensions successes and failures differ: labels permuted within tasks, max-T over dimensions."""
        return separation_test(self._field, draws, seed)

    def report(self, *, level: float = 0.95, draws: int = 999, seed: int = 0) -> FieldReport:
        """Every metric in both readings, with tests; the seed is kept with the numbers that it drew."""
        field, test = self._field, self.separation_test(draws, seed)
        apart, center, variance = self.separation(), self.center(), self.variance()
        per = {metric: self.estimates(metric, level=level) for metric in PER_DIMENSION}
        kinds = standardised.classes(field)
        rows = tuple(
            DimensionReading(
                name=dimension.name,
                description=dimension.description,
                mean=float(center[j]),
                variance=float(variance[j]),
                separation=None if apart is None else float(apart[j]),
                skew=self.skew(j),
                estimates={metric: per[metric][dimension.name] for metric in PER_DIMENSION},
                p=test.p.get(dimension.name),
                adjusted=test.adjusted.get(dimension.name),
            )
            for j, dimension in enumerate(field.dimensions())
        )
        return FieldReport(
            K=self.K,
            d=self.d,
            tasks=len(field.tasks),
            successes=int(np.sum(kinds == 1)),
            failures=int(np.sum(kinds == 0)),
            missing=field.missing,
            origin=field.origin,
            width=self.width(),
            convergence=json_number(self.convergence()),
            dimensions=rows,
            estimates={name: self._single(name, level) for name in SINGLE},
            constant=tuple(
                n for n, alive in zip(field.names, standardised.scale_of(field).alive, strict=True) if not alive
            ),
            notes=tuple(n for n in (test.why,) if n),
            test_method=test.method,
            draws=test.draws,
            seed=seed,
        )

    def _single(self, metric: str, level: float) -> Estimate:
        if metric == "spread":
            return standardised.width(self._field, level, scaled=False)
        function = {
            "width": standardised.width,
            "convergence": standardised.convergence,
            "pass_rate": standardised.pass_rate,
            "drift": standardised.drift,
        }[metric]
        return function(self._field, level)

    @cached_property
    def _moments(self) -> spread.Cells:
        # one pass serves the classes too
        return spread.merged(self._by_class(SUCCESS_AT), standardised.CLASSES)

    @cached_property
    def _scores(self) -> Floats:
        return self._field.outcomes[self._field.scored]

    @cached_property
    def _skews(self) -> list[float | None]:
        scored = self._field.scored
        whole = bool(scored.all())
        x, y = (self._field.points, self._field.outcomes) if whole else (self._field.points[scored], self._scores)
        if y.size == 0 or float(np.ptp(y)) == 0:
            return [None] * self.d
        moments = self._moments if whole else spread.cells(x, _one_group(y.size), 1)
        score = spread.products(x, moments.mean[0], y - y.mean())
        below = np.sqrt(moments.squares[0] * float(np.sum((y - y.mean()) ** 2)))
        constant = [_is_constant(x[:, j], float(moments.squares[0, j])) for j in range(self.d)]
        return [None if constant[j] else float(np.clip(score[j] / below[j], -1, 1)) for j in range(self.d)]

    def _by_class(self, threshold: float) -> spread.Cells:
        kept: dict[float, spread.Cells] = self.__dict__.setdefault("_classes", {})
        if threshold not in kept:
            kept[threshold] = spread.cells(
                self._field.points, standardised.classes(self._field, threshold), standardised.CLASSES
            )
        return kept[threshold]

    def _place(self, dimension: str | int) -> int:
        names = self._field.names
        if isinstance(dimension, int):
            if not -self.d <= dimension < self.d:
                raise NotFound(
                    f"there is no dimension {dimension}; there are {self.d}, from 0 to {self.d - 1}",
                    what="dimension",
                    name=str(dimension),
                    known=self._field.names,
                )
            return dimension % self.d
        if dimension not in names:
            raise NotFound.named("dimension", dimension, names)
        return names.index(dimension)


def _one_group(count: int) -> Ints:
    return np.zeros(count, dtype=np.int64)


def _is_constant(column: Floats, squares: float) -> bool:
    """Rounding may leave a trace of spread in a column of equal numbers."""
    return squares <= 1e-18 * float(np.abs(column[0])) ** 2 * column.size + 1e-300 and float(np.ptp(column)) == 0.0


def split_of_width(points: Floats, family: Ints) -> tuple[float, float]:
    """Width within families and between their centres, ddof 0: they add up to the width."""
    if points.shape[0] == 0:
        return 0.0, 0.0
    found = spread.cells(points, family, int(family.max()) + 1)
    centre = found.n @ found.mean / points.shape[0]
    between = float(np.sum(found.n[:, None] * (found.mean - centre) ** 2)) / points.shape[0]
    return float(found.squares.sum()) / points.shape[0], between
