"""Whether behaviour changed; informational, does not affect the gate's verdict."""

from __future__ import annotations

import msgspec

from ethogram.measures.noise_floor import NoiseFloor
from ethogram.questions.divergence.question import divergence
from ethogram.store import Home, Run


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """Whether behaviour changed: the noise floor of the baseline's behaviour, and the candidate compared with it.

    Informational, does not affect the verdict: a version may pass although its behaviour changed.
    """

    noise_floor: NoiseFloor
    distance: float | None
    verdict: str | None
    p_value: float | None
    evidence: str | None


def behaviour_of(
    base: str | Run, candidate: str | Run, *, common_tasks: bool = False, home: Home | str | None = None
) -> Behaviour:
    """Compare the candidate's behaviour with the variation between repeats of the baseline."""
    found = divergence(candidate, base, common_tasks=common_tasks, home=home)
    return Behaviour(
        noise_floor=found.noise_floor,
        distance=found.mean_of_means,
        verdict=found.verdict,
        p_value=found.p_value,
        evidence=found.evidence,
    )
