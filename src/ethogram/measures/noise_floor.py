"""The noise floor: distances between repeats of an unchanged agent.

The floor is measured by R re-runs of a baseline run of the same task; its distribution is over all pairs of those R + 1
runs. A changed run is held against the baseline run it is paired with, and so is compared with that run's distances to
its own re-runs: without any change the new distance is then one of R + 1 that are exchangeable. Hence

    `within_noise_floor`: at or below the largest of those R distances; holds in 1 - 1/(R+1) of unchanged pairs,
    `tail_probability`: (1 + how many of the R are at least as large) / (R + 1); at most q in a share q of such pairs.

Ties count as within, so that an agent with few distances errs towards "nothing happened". (The largest of all pairs
would be above the new distance more often than that: the runs it may choose from are more.) One re-run is allowed and
misleads: half of all pairs then lie above the floor with nothing changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from .divergence import Floats

USUAL_RERUNS = 5
FEW_RERUNS = 3
"""Below this number of re-runs more than a quarter of unchanged pairs lie above the floor."""
_SLACK = 1e-12


class NoiseFloor(msgspec.Struct, frozen=True, kw_only=True):
    """Distances of a baseline to itself; numbers are None where no task has two runs.

    `runs` and `pairs` are counted over all tasks; `reruns` is the least R of a task that has any; `without_steps`
    counts tasks whose runs recorded no step, so that their distances are unavailable.
    """

    runs: int
    tasks: int
    pairs: int
    reruns: int
    mean: float | None = None
    median: float | None = None
    q95: float | None = None
    max: float | None = None
    without_steps: int = 0

    @property
    def measured(self) -> bool:
        """Whether there is anything to compare with."""
        return self.pairs > 0


class AgainstFloor(msgspec.Struct, frozen=True, kw_only=True):
    """One changed run against the floor; None, None where the floor was not measured."""

    within_noise_floor: bool | None = None
    tail_probability: float | None = None
    reruns: int = 0
    floor_max: float | None = None


def noise_floor(tasks: Sequence[Floats]) -> NoiseFloor:
    """The floor of a baseline from the square matrix of distances of each task's runs.

    A matrix of NaN is that of a task whose runs recorded no step: it says nothing of the floor.
    """
    several = [m for m in tasks if m.shape[0] > 1 and not np.isnan(m).any()]
    runs = sum(int(m.shape[0]) for m in tasks)
    bare = sum(m.shape[0] > 1 and bool(np.isnan(m).any()) for m in tasks)
    if not several:
        return NoiseFloor(runs=runs, tasks=len(tasks), pairs=0, reruns=0, without_steps=bare)
    pooled = np.concatenate([m[np.triu_indices(m.shape[0], 1)] for m in several])
    # every task counts once, however many runs it has
    means = [float(np.mean(m[np.triu_indices(m.shape[0], 1)])) for m in several]
    return NoiseFloor(
        runs=runs,
        tasks=len(tasks),
        pairs=int(pooled.size),
        reruns=min(int(m.shape[0]) for m in several) - 1,
        mean=float(np.mean(means)),
        median=float(np.median(pooled)),
        q95=float(np.quantile(pooled, 0.95)),
        max=float(pooled.max()),
        without_steps=bare,
    )


def against_floor(d_norm: float | None, own: Sequence[float] | Floats) -> AgainstFloor:
    """A distance to a baseline run against that run's distances to its re-runs.

    Re-runs that, like the baseline run itself, recorded no step (NaN) are alike once the other run has steps.
    """
    reruns = np.nan_to_num(np.asarray(own, dtype=np.float64), nan=0.0)
    if d_norm is None or reruns.size == 0:
        return AgainstFloor()
    largest = float(reruns.max())
    above = int(np.sum(reruns >= d_norm - _SLACK))
    return AgainstFloor(
        within_noise_floor=bool(d_norm <= largest + _SLACK),
        tail_probability=(1 + above) / (1 + reruns.size),
        reruns=int(reruns.size),
        floor_max=largest,
    )


def warning(floor: NoiseFloor) -> str | None:
    """What a reader must know before believing a distance; None where the floor is sound."""
    if not floor.measured and floor.without_steps:
        return (
            "distances and the noise floor are unavailable: no steps captured; let the agent call episode.tools, use "
            "episode.record, or run it behind the gateway"
        )
    if not floor.measured:
        return (
            "the noise floor was not measured: no task of the baseline has two attempts, so a change "
            f"cannot be distinguished from the agent's run-to-run variation; run the baseline {USUAL_RERUNS + 1} times"
        )
    if floor.reruns < FEW_RERUNS:
        share = round(100 / (floor.reruns + 1))
        return (
            f"the noise floor rests on {floor.reruns} re-run{'s' if floor.reruns > 1 else ''} of a baseline attempt: "
            f"with nothing changed, {share} % of pairs are above it; {USUAL_RERUNS} re-runs or more are advised"
        )
    return None
