"""The metrics of the catalogue as screens need them: their names for `--help`, and the mean of each over a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ethogram.errors import BadInput
from ethogram.estimate import Estimate
from ethogram.measures.comparison import arm_mean
from ethogram.measures.metrics import OUTCOME, Metric, metrics
from ethogram.result import Result
from ethogram.store import Home, Run

from .outcomes import load_outcomes
from .samples import sampled_run


def metric_names() -> str:
    """The names of all metrics as a phrase: `success, score, cost … or errors`."""
    *first, last = metrics()
    return f"{', '.join(first)} or {last}"


class MetricRow(msgspec.Struct, frozen=True, kw_only=True):
    """One metric: its mean over tasks, or why there is none; `formula` says how it is computed, in this `version`."""

    name: str
    unit: str
    better: str
    mean: Estimate
    formula: str
    version: int


class MetricMeans(Result, kw_only=True):
    """What an attempt of a run took, metric by metric."""

    run: str
    metrics: list[MetricRow]

    def rows(self) -> list[dict[str, Any]]:
        """One row per metric."""
        return [msgspec.to_builtins(row) for row in self.metrics]


def metric_means(
    run: str | Run, *, home: Home | str | None = None, condition: str | None = None, level: float = 0.95
) -> MetricMeans:
    """The mean over tasks of every metric of behaviour; success and score have their own estimates (`reliability`)."""
    found = sampled_run(run, home)
    kinds = [kind for kind in metrics().values() if kind.name not in OUTCOME]
    return MetricMeans(
        run=found.name,
        metrics=[
            MetricRow(
                name=kind.name,
                unit=kind.unit,
                better=kind.better,
                mean=mean,
                formula=kind.formula,
                version=kind.version,
            )
            for kind, mean in zip(kinds, _means(found, kinds, condition, level), strict=True)
        ],
    )


def _means(run: Run, kinds: Sequence[Metric], condition: str | None, level: float) -> list[Estimate]:
    try:
        outcomes = load_outcomes(run, condition=condition, metrics=[kind.name for kind in kinds])
    except BadInput as error:
        if len(kinds) == 1:
            return [Estimate(value=None, level=level, n=0, of="tasks", why=error.cli_message)]
        # the function of a plug-in may have failed: then the other metrics are none the worse
        return [mean for kind in kinds for mean in _means(run, [kind], condition, level)]
    return [arm_mean(outcomes, kind.name, level) for kind in kinds]
