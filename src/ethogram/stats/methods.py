"""Other methods by name: for a rate, for a mean over tasks, and for many p-values; each says where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from . import interval, multiplicity, passk, resample
from ._numeric import Floats, Numbers, floats, normal_quantile
from .interval import Interval

RateInterval = Callable[[Numbers, Numbers, float], Interval]
"""From successes, n and level."""

MeanInterval = Callable[[Floats, Floats, float, np.random.Generator], Interval]
"""From one value per task between 0 and 1, attempts per task, level and a generator (used by the bootstraps)."""

Adjustment = Callable[[Numbers], Floats]

_DRAWS = 4000


def wilson_effective(values: Floats, attempts: Floats, level: float, _: np.random.Generator) -> Interval:
    """Wilson (1927) with the effective n of tasks as clusters (Kish 1965), as `passk.population`."""
    found = passk.population(values[:, None], attempts, [1], level)
    return Interval(found.low[0], found.high[0])


def wilson_tasks(values: Floats, _: Floats, level: float, __: np.random.Generator) -> Interval:
    """Wilson as if every task were one trial (Wilson 1927): never too short, often too wide."""
    return interval.wilson(values.sum(), values.size, level)


def normal_clustered(values: Floats, _: Floats, level: float, __: np.random.Generator) -> Interval:
    """The central limit theorem clustered by task (Miller 2024): collapses where all tasks agree."""
    half = float(normal_quantile(0.5 + level / 2)) * np.sqrt(values.var(ddof=1) / values.size)
    return Interval(floats(values.mean() - half), floats(values.mean() + half))


def student_clustered(values: Floats, _: Floats, level: float, __: np.random.Generator) -> Interval:
    """The t interval over task means (Student 1908): collapses where all tasks agree."""
    return interval.student(values.mean(), values.var(ddof=1) / values.size, values.size - 1, level)


def bootstrap_percentile(values: Floats, _: Floats, level: float, rng: np.random.Generator) -> Interval:
    """The percentile bootstrap over tasks (Efron 1981): collapses where all tasks agree."""
    return resample.percentile(values[:, None], _only, level, _DRAWS, rng)


def bootstrap_bca(values: Floats, _: Floats, level: float, rng: np.random.Generator) -> Interval:
    """The BCa bootstrap over tasks (Efron 1987): collapses where all tasks agree."""
    return resample.bca(values[:, None], _only, level, _DRAWS, rng)


def bootstrap_student(values: Floats, _: Floats, level: float, rng: np.random.Generator) -> Interval:
    """The bootstrap-t over tasks (Hall 1988): collapses where all tasks agree."""
    return resample.studentised(values, level, _DRAWS, rng)


RATES: Mapping[str, RateInterval] = MappingProxyType(
    {
        "wilson": interval.wilson,
        "wilson-edge": interval.wilson_edge,
        "clopper-pearson": interval.clopper_pearson,
        "jeffreys": interval.jeffreys,
        "agresti-coull": interval.agresti_coull,
        "wald": interval.wald,
    }
)

MEANS: Mapping[str, MeanInterval] = MappingProxyType(
    {
        "wilson-neff": wilson_effective,
        "wilson-tasks": wilson_tasks,
        "normal-clustered": normal_clustered,
        "student-clustered": student_clustered,
        "bootstrap-percentile": bootstrap_percentile,
        "bootstrap-bca": bootstrap_bca,
        "bootstrap-t": bootstrap_student,
    }
)

ADJUSTMENTS: Mapping[str, Adjustment] = MappingProxyType(
    {
        "holm": multiplicity.holm,
        "hochberg": multiplicity.hochberg,
        "bonferroni": multiplicity.bonferroni,
        "benjamini-hochberg": multiplicity.benjamini_hochberg,
        "benjamini-yekutieli": multiplicity.benjamini_yekutieli,
    }
)


def _only(means: Floats) -> Floats:
    return means[:, 0]
