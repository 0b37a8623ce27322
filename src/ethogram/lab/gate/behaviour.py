"""Does the candidate also behave otherwise? Information beside the gate's verdict."""

from __future__ import annotations

import msgspec

from ethogram.lab.divergence.divergence import divergence
from ethogram.measure.floor import NoiseFloor
from ethogram.store import Home, Run


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """Did it also behave otherwise? The behavioural noise floor of the baseline, and the candidate against it.

    Information beside the verdict: a version may pass and still have changed its ways.
    """

    noise_floor: NoiseFloor
    distance: float | None
    verdict: str | None
    p_value: float | None
    evidence: str | None


def behaviour_of(
    base: str | Run, candidate: str | Run, *, common_tasks: bool = False, home: Home | str | None = None
) -> Behaviour:
    """The candidate's behaviour against the variation of the baseline's own repeats, whatever the pass rates say."""
    found = divergence(candidate, base, common_tasks=common_tasks, home=home)
    return Behaviour(
        noise_floor=found.noise_floor,
        distance=found.mean_of_means,
        verdict=found.verdict,
        p_value=found.p_value,
        evidence=found.evidence,
    )
