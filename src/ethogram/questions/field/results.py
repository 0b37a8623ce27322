"""Results of a field."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from ethogram.display import Drawing, Presentation
from ethogram.estimate import Estimate
from ethogram.measures.standard import PRESETS, TOOL_CLASSES, dimensions, of_preset
from ethogram.result import Result

from .ablation import Ablation
from .chain import Chain, HorizonReading
from .corridor import Adherence, Alarm, CorridorGap
from .fieldtests import FieldComparison
from .horizon import MembershipRule


class PlainDimension(msgspec.Struct, frozen=True, kw_only=True):
    """One dimension by the essay's definitions: ddof 0, all tasks pooled; None where there is nothing to say."""

    mean: float
    variance: float
    separation: float | None
    skew: float | None


class DimensionRow(PlainDimension, frozen=True, kw_only=True):
    """The essay's values, then the default reading: center, separation and skew within tasks, with intervals.

    `p` is of no difference between success and failure, `adjusted` the same over all dimensions.
    """

    description: str
    estimates: dict[str, Estimate]
    p: float | None
    adjusted: float | None


class HorizonRow(HorizonReading, frozen=True, kw_only=True):
    """The trajectories that visited, or reached, a state. Plain keys are the essay's, `estimates` the default."""

    mean_outcome: float | None
    dimensions: dict[str, PlainDimension]


class CorridorCheck(msgspec.Struct, frozen=True, kw_only=True):
    """These runs against a corridor: gaps per horizon, every run's adherence, and whether they left it as a whole."""

    file: str
    name: str
    K: int
    dimensions: list[str]
    not_compared: dict[str, str]
    rule: MembershipRule
    gaps: tuple[CorridorGap, ...]
    adherence: tuple[Adherence, ...]
    alarm: Alarm


class FieldResult(Result, kw_only=True):
    """A behaviour field. `left_out` names dimensions without a value here, `missing` traces, by reason."""

    presentation: ClassVar[Presentation] = Presentation(
        headline="{run}: {K} traces of {tasks} tasks, {successes} succeeded, {failures} failed. {advice_text}",
        facts=("condition", "field", "reading", "rule", "against", "missing"),
        columns=("dimension", "mean", "estimates.separation", "estimates.skew", "adjusted", "description"),
        drawing=Drawing("dimension", "estimates.separation", "successes − failures within tasks, in sd"),
    )

    run: str
    joined: list[str]
    condition: str | None
    field: str
    reading: str
    rule: MembershipRule
    level: float
    K: int
    d: int
    tasks: int
    successes: int
    failures: int
    mean_outcome: float
    width: float
    convergence: float | str | None
    dimensions: dict[str, DimensionRow]
    horizons: list[HorizonRow]
    estimates: dict[str, Estimate]
    advice: str
    advice_text: str
    chain: Chain
    missing: dict[str, int]
    left_out: dict[str, str]
    constant: list[str]
    notes: list[str]
    draws: int
    seed: int
    test_method: str = ""
    against: str | None = None
    comparison: FieldComparison | None = None
    corridor: CorridorCheck | None = None
    saved_corridor: str | None = None
    ablation: Ablation | None = None

    @property
    def one_class(self) -> bool:
        """Whether all scored traces have the same outcome, so that successes and failures cannot be compared."""
        return self.successes == 0 or self.failures == 0

    def rows(self) -> list[dict[str, Any]]:
        """One row per dimension."""
        return [{"dimension": name, **msgspec.to_builtins(row)} for name, row in self.dimensions.items()]


class StandardDimension(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table of standard dimensions."""

    name: str
    unit: str
    formula: str
    presets: list[str]


class StandardTable(Result, kw_only=True):
    """The standard dimensions, the presets that choose among them, and the words that classify tools."""

    preset: str | None
    dimensions: list[StandardDimension]
    presets: dict[str, str]
    tool_classes: dict[str, list[str]]

    def rows(self) -> list[dict[str, Any]]:
        """One row per dimension."""
        return [msgspec.to_builtins(d) for d in self.dimensions]


def standard_table(preset: str | None = None) -> StandardTable:
    """The table of standard dimensions, all or those of a preset."""
    names = None if preset is None else set(of_preset(preset))
    return StandardTable(
        preset=preset,
        dimensions=[
            StandardDimension(name=d.name, unit=d.unit, formula=d.formula, presets=list(d.presets))
            for d in dimensions().values()
            if names is None or d.name in names
        ],
        presets=dict(PRESETS),
        tool_classes={name: list(words) for name, words in TOOL_CLASSES.items()},
    )
