"""A field along its states: its width at each state, and where failures diverge from successes."""

from __future__ import annotations

import msgspec

from ethogram.estimate import Estimate, json_number

from .field import Field
from .horizon import MembershipRule


class HorizonReading(msgspec.Struct, frozen=True, kw_only=True):
    """One horizon. Plain keys are the essay's definitions (drift is None below two successes), `estimates` the default.

    `rule` says who belongs to it.
    """

    state: str
    rule: MembershipRule
    K: int
    successes: int
    width: float | None
    convergence: float | str | None
    drift: float | None
    estimates: dict[str, Estimate]


def walk(field: Field, rule: MembershipRule = "visited", *, level: float = 0.95) -> tuple[HorizonReading, ...]:
    """Every state in order, with width, convergence and drift of its horizon; the terminal one only if visited."""
    states = [s for s in field.states if rule == "visited" or s != field.terminal]
    return tuple(read_horizon(field.horizon(state, rule), state, rule, level) for state in states)


def read_horizon(part: Field, state: str, rule: MembershipRule, level: float) -> HorizonReading:
    """One horizon in both readings."""
    if part.K == 0:
        return HorizonReading(
            state=state, rule=rule, K=0, successes=0, width=None, convergence=None, drift=None, estimates={}
        )
    m, good = part.metrics(), part.success_region()
    width = m.width()
    return HorizonReading(
        state=state,
        rule=rule,
        K=part.K,
        successes=good.K,
        width=width,
        convergence=json_number(m.convergence()),
        drift=width - good.metrics().width() if good.K >= 2 else None,
        estimates={name: m.estimate(name, level=level) for name in ("width", "convergence", "pass_rate", "drift")},
    )
