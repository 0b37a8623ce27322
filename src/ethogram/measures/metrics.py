"""Metrics of an episode, each defined once: name, unit, which way is better, formula and function.

`compare`, `gate`, `field`, the report and `--help` ask this catalogue; installed packages add to it through the entry
points of the group `ethogram.metrics`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

import msgspec
import numpy as np

from ethogram.errors import BadInput
from ethogram.plugins import Plugged, plugged
from ethogram.traces import TOKEN_PARTS

from .columns import Floats

GROUP = "ethogram.metrics"
OUTCOME = ("success", "score")
"""Columns of the outcome itself; a metric that needs one is no behaviour, and no dimension of a field."""


def as_it_is(column: Floats) -> Floats:
    """One column, unchanged."""
    return column


def sum_of_known(*parts: Floats) -> Floats:
    """The sum of the columns that are known; NaN where none is."""
    stacked = np.stack(parts)
    return np.where(np.all(np.isnan(stacked), axis=0), np.nan, np.nansum(stacked, axis=0))


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of one episode.

    `of` takes the columns that `needs` names, in that order, and gives one number per episode; all are numpy arrays,
    NaN where something is unknown. A column is the name of a standard dimension (`steps`, `errors`, `repeats`, …) or of
    an amount in the ledger (`cost_usd`, `input_tokens`, `seconds`, …), or `score` or `success`. Another formula is
    another `version`. `step` is the smallest change that one attempt can make (0: there is none); `in_field` says
    whether `field` shows the metric as a dimension.
    """

    name: str
    unit: str
    better: Literal["more", "less"]
    formula: str
    needs: tuple[str, ...]
    of: Callable[..., Floats] = as_it_is
    version: int = 1
    step: float = 0.0
    in_field: bool = True

    @property
    def worse_sign(self) -> float:
        """What to multiply a difference (second minus first) by, so that a change for the worse is positive."""
        return -1.0 if self.better == "more" else 1.0

    @property
    def is_dimension(self) -> bool:
        """Whether a field shows it."""
        return self.in_field and not set(self.needs) & set(OUTCOME)

    def measured(self, columns: Mapping[str, Floats]) -> Floats:
        """The metric of every episode; raises `BadInput` if a column is missing or the function fails."""
        try:
            with np.errstate(invalid="ignore", divide="ignore"):  # 0/0, say of a trace without steps, is NaN
                values = np.asarray(self.of(*(columns[name] for name in self.needs)), dtype=np.float64)
        except Exception as error:  # the function may be of another package
            why = f"there is no column {error}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
            raise BadInput(
                f"the metric {self.name!r} cannot be computed: {why}", where=f"the metric {self.name!r}"
            ) from error
        rows = len(columns[self.needs[0]])
        if values.shape != (rows,):
            raise BadInput(
                f"the metric {self.name!r} gives {values.shape} numbers for {rows} episodes; give one each",
                where=f"the metric {self.name!r}",
            )
        return values


_OWN = (
    Metric(
        name="success",
        unit="rate",
        better="more",
        step=1.0,
        needs=("success",),
        formula="1 where the score is at least success_at",
    ),
    Metric(name="score", unit="score", better="more", needs=("score",), formula="the score as it is"),
    Metric(
        name="cost",
        unit="USD",
        better="less",
        version=2,
        needs=("cost_usd",),
        in_field=False,  # a field has it as cost_usd
        formula="recorded cost, else tokens × price, over leaf model spans; unknown unless every call has one",
    ),
    Metric(name="steps", unit="steps", better="less", needs=("steps",), formula="steps of the linear reading"),
    Metric(
        name="tokens",
        unit="tokens",
        better="less",
        needs=TOKEN_PARTS,
        of=sum_of_known,
        in_field=False,  # a field has its parts, and a sum of dimensions would count them twice
        formula="fresh input + cache read + cache write + output, over leaf model spans",
    ),
    Metric(
        name="seconds",
        unit="s",
        better="less",
        version=2,
        needs=("seconds",),
        formula="of a live episode, wall clock from when the agent got its task until it had ended; "
        "of a log, end of the trace minus its start, or the seconds that it states where it has no times",
    ),
    Metric(
        name="tool_calls",
        unit="calls",
        better="less",
        version=2,
        needs=("tool_calls",),
        formula="steps of kind tool; a tool that runs a sub-agent is not a step, its inner steps are counted instead",
    ),
    Metric(
        name="errors",
        unit="errors",
        better="less",
        version=4,
        needs=("errors",),
        formula="steps that ended in an error; a tool call without a status did where its result begins with 'Error', "
        "'Exception:', the name of an error and a colon ('ValueError:', 'TimeoutException:') or a traceback; the spans "
        "around a step repeat its error and are not counted",
    ),
)

METRICS: Mapping[str, Metric] = MappingProxyType({m.name: m for m in _OWN})
"""Ethogram's own metrics; `metrics()` also has those of installed packages."""


def metric(name: str) -> Metric:
    """A metric by its name; raises `BadInput` if there is none, or if the package that has it is broken."""
    if name in METRICS:
        return METRICS[name]
    added = plugged_metrics()
    known = added.values()
    if name not in known:
        raise added.missing(name, [*METRICS, *known])
    return known[name]


def metrics() -> dict[str, Metric]:
    """Every metric by its name: Ethogram's own, then those of installed packages."""
    return {**METRICS, **plugged_metrics().values()}


def plugged_metrics() -> Plugged[Metric]:
    """The metrics of installed packages; none may have the name of one of ours, or of a standard dimension."""
    from .standard import DIMENSIONS

    others = {d.name: "dimension" for d in DIMENSIONS if d.name not in METRICS}
    return plugged(GROUP, _checked, taken={*METRICS, *others}, nouns=others)


def _checked(loaded: Any, name: str) -> Metric:
    if not isinstance(loaded, Metric):
        raise BadInput(f"it is a {type(loaded).__name__}, not an ethogram.extend.Metric")
    if loaded.name != name:
        raise BadInput(
            f"its entry point is named {name!r} and the metric {loaded.name!r}; give both one name",
            where=f"the entry point {name!r}",
        )
    if loaded.better not in ("more", "less"):
        raise BadInput(f"better is {loaded.better!r}; write 'more' or 'less'")
    if isinstance(loaded.needs, str) or not loaded.needs or not callable(loaded.of):
        raise BadInput("needs is not a tuple of names of columns, or of is not a function")
    return loaded
