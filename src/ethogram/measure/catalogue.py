"""What can be measured of an episode, each defined once: name, unit, which way is better, and the formula in words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from ethogram.errors import NotFound


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of one episode; `step` is the smallest change that one attempt can make (0: there is none)."""

    name: str
    unit: str
    better: Literal["more", "less"]
    formula: str
    version: int = 1
    step: float = 0.0

    @property
    def worse_sign(self) -> float:
        """What to multiply a difference (second minus first) by, so that a change for the worse is positive."""
        return -1.0 if self.better == "more" else 1.0


_ALL = (
    Metric(name="success", unit="rate", better="more", step=1.0, formula="1 where the score is at least success_at"),
    Metric(name="score", unit="score", better="more", formula="the score as it is"),
    Metric(name="cost", unit="USD", better="less", formula="the sum of cost_usd over leaf model spans"),
    Metric(name="steps", unit="steps", better="less", formula="leaf spans of the linear reading"),
    Metric(
        name="tokens",
        unit="tokens",
        better="less",
        formula="fresh input + cache read + cache write + output, over leaf model spans",
    ),
    Metric(
        name="seconds",
        unit="s",
        better="less",
        version=2,
        formula="of a live episode, wall clock from when the agent got its task until it had ended; "
        "of a log, end of the trace minus its start",
    ),
    Metric(name="tool_calls", unit="calls", better="less", formula="tool spans"),
    Metric(name="errors", unit="errors", better="less", formula="steps whose status is an error"),
)

METRICS: Mapping[str, Metric] = MappingProxyType({m.name: m for m in _ALL})


def metric(name: str) -> Metric:
    """A metric by its name."""
    if name not in METRICS:
        raise NotFound.named("metric", name, list(METRICS))
    return METRICS[name]
