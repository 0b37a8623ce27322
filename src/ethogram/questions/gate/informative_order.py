"""Attempts allocated where a stored first arm says that they are informative, and a comparison along that order.

Every task gets as many attempts in the end; those that inform come early. What an attempt informs about a shift of all
logits is the variance p (1 - p) of its task. Attempt j of a task stands at time (j + place) / speed, in passes: `place`
is a draw from [0, 1) per task, `speed` a mixture of 1 and of the task's variance over the mean variance, and no task
waits for its first attempt longer than `COVERED` passes. After `block` attempts at every task the order begins anew.

The variances come from the first arm's own counts, drawn together as far as the counts differ by chance: where all
tasks are alike, so is their speed. What chance is left moves a task to an earlier or later place, and biases the
weighted difference of the arms; `bias` is how much, and the statistic is freed of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ethogram.statistics import stratified
from ethogram.statistics._numeric import Floats, Ints, Numbers, floats

from . import sequential

EVEN = 0.15
"""The share of a task's speed that is the same for all tasks."""
COVERED = 1.15
"""Passes by whose time every task has its first attempt: a pass needs them all."""


class ShrunkRates(NamedTuple):
    """Rates drawn together: mean + trust × (seen - mean), and the mean variance p (1 - p) of the tasks."""

    mean: float
    trust: float
    variance: float

    def variances(self, successes: Numbers, attempts: Numbers) -> Floats:
        """p (1 - p) of tasks with such counts, never quite 0."""
        seen = (floats(successes) + 0.5) / (floats(attempts) + 1)
        rate = self.mean + self.trust * (seen - self.mean)
        return floats(rate * (1 - rate))


class Schedule(NamedTuple):
    """Who is attempted when: what is believed of the tasks, speeds and places, and attempts at each in a block."""

    belief: ShrunkRates
    speed: Floats
    place: Floats
    block: int


class OrderInformation(NamedTuple):
    """Looks along an order: the information of the score and of the mean difference, and the bias of the former.

    Information is that at the rates to plan by; of the mean there is none before every task was attempted.
    """

    size: Floats
    mean_size: Floats
    bias: Floats


class PlayedComparison(NamedTuple):
    """Simulated decisions (1 found, -1 ruled out, 0 neither) and attempts of the second arm at the stop, per draw."""

    said: Ints
    runs: Ints


def shrunk_rates(successes: Numbers, attempts: Numbers) -> ShrunkRates:
    """Task rates of a first arm, shrunk by the reliability of its counts (as of a test score)."""
    c, n = floats(successes), floats(attempts)
    known = n > 1
    if not np.any(known):
        return ShrunkRates(0.5, 0.0, 0.25)
    rate = c[known] / n[known]
    mean, seen = float(rate.mean()), float(rate.var())
    noise = float(np.mean(rate * (1 - rate) / (n[known] - 1)))
    trust = max(seen - noise, 0.0) / seen if seen > 0 else 0.0
    plain = ShrunkRates(mean, trust, 1.0)
    return plain._replace(variance=float(np.mean(plain.variances(c, n))))


def schedule(successes: Numbers, attempts: Numbers, place: Numbers, block: int) -> Schedule:
    """The order that the counts of a first arm ask for."""
    belief = shrunk_rates(successes, attempts)
    return Schedule(belief, _speed(belief, successes, attempts), floats(place), block)


def ordered(plan: Schedule, count: int) -> Ints:
    """The first `count` entries of a schedule, as task indices."""
    times = _times(plan)
    tasks = np.repeat(np.arange(plan.speed.size), plan.block)
    block = tasks[np.argsort(times.ravel(), kind="stable")]
    return np.resize(block, count).astype(np.int64)


def information(first: Numbers, second: Numbers, spread: Numbers) -> tuple[Floats, Floats]:
    """The information of attempts per task about a shift of all logits, and about the mean difference over tasks.

    `spread` is the variance of one attempt at each task; the mean is unknown until every task has attempts.
    """
    one, two, variance = (floats(x) for x in (first, second, spread))
    each = variance * (1 / np.maximum(one, 1.0) + 1 / np.maximum(two, 1.0))
    total = np.maximum(np.sum(each, axis=-1), 1e-300)
    known = np.all((one > 0) & (two > 0), axis=-1)
    return np.sum(_pull(one, two) * variance, axis=-1), np.where(known, 1 / total, 0.0)


def order_information(plan: Schedule, counts: tuple[Floats, Floats], rates: Floats, looks: Ints) -> OrderInformation:
    """What is known after these numbers of entries; `counts` are the first arm's successes and attempts per task."""
    order, tasks = ordered(plan, int(looks[-1])), plan.speed.size
    second = np.array([np.bincount(order[:now], minlength=tasks) for now in looks])
    size, mean_size = information(counts[1], second, rates * (1 - rates))
    weight = np.maximum(np.sum(_pull(counts[1], floats(second)), axis=-1), 1e-300)
    return OrderInformation(size, mean_size, bias(plan, counts[1], rates, looks) / weight)


def bias(plan: Schedule, attempts: Floats, rates: Floats, looks: Ints) -> Floats:
    """How far the sum of pull × (second - first) lies from 0 at each look though nothing changed.

    For every task, the mean over all counts c of `attempts` that it could have shown of pull(c) × (p - c / n), where
    pull(c) is what the schedule would have given it: 0 if the order did not depend on c.
    """
    times = np.sort(_times(plan).ravel())
    done, left = np.divmod(looks - 1, times.size)
    at = times[left][:, None, None]
    out = np.zeros(looks.size)
    for n in np.unique(attempts[attempts > 0]):
        here = np.flatnonzero(attempts == n)
        c = np.arange(int(n) + 1.0)
        met = _by(at, _speed(plan.belief, c, n), plan.place[here][:, None], plan.block)
        pull = _pull(np.asarray(n), met + (done * plan.block)[:, None, None])
        off = _binomial(int(n), rates[here]) * (rates[here][:, None] - c / n)
        out += np.einsum("kic,ic->k", pull, off)
    return out


def look_bounds(walked: OrderInformation, alpha: float, power: float, delta: float) -> tuple[Floats, Floats]:
    """How z is judged at each look, and how far out the bound of the mean drop lies: none until every task is seen."""
    fractions = walked.size / walked.size[-1]
    upper = sequential.wang_tsiatis(fractions, alpha, delta)
    return upper, reaches(walked.mean_size, float(walked.mean_size[-1]), power)


def reaches(mean_size: Floats, whole: float, power: float) -> Floats:
    """How far out the bound of the mean drop lies at such information; `whole` is that of the last planned look."""
    reach = np.full(mean_size.shape, np.inf)
    seen = np.flatnonzero(np.diff(mean_size, prepend=0.0) > 0)
    if seen.size and whole > 0:
        spend = (1 - power) * np.minimum(mean_size[seen] / whole, 1.0) ** 2
        reach[seen] = sequential.bounds_from_spending(mean_size[seen], spend)
    return reach


class Looks(NamedTuple):
    """A plan as it is played: the order, entries by each look, how z and the mean are judged there, and the bias."""

    order: Ints
    at: Ints
    upper: Floats
    reach: Floats
    bias: Floats


def simulate_looks(
    rates: Numbers,
    first: tuple[Numbers, Numbers],
    looks: Looks,
    margin: float,
    rng: np.random.Generator,
    *,
    extra: float = 0.0,
    missing: float = 0.0,
) -> PlayedComparison:
    """The comparison on many second arms with these pass rates, (draws, tasks), against a first arm that stays.

    `first` are its successes and attempts; `extra` is variance of the difference from elsewhere. The share `missing` of
    the second arm's attempts has no outcome.
    """
    q = np.atleast_2d(floats(rates))
    draws, tasks = q.shape
    whole, least = int(looks.at[-1]), float(looks.upper[-1])
    known = rng.random((draws, whole)) >= missing if missing > 0 else np.ones((draws, whole), dtype=bool)
    passed = known & (rng.random((draws, whole)) < q[:, looks.order[:whole]])
    one = stratified.sums_of_counts(np.broadcast_to(floats(first[0]), q.shape), floats(first[1]))
    said, runs = np.zeros(draws, dtype=np.int64), np.full(draws, whole)
    going, b, n = np.ones(draws, dtype=bool), np.zeros(q.shape), np.zeros(q.shape)
    unit, before = np.eye(tasks), 0
    for k, now in enumerate(looks.at):
        places = unit[looks.order[before:now]]
        b += passed[:, before:now].astype(np.float64) @ places
        n += known[:, before:now].astype(np.float64) @ places
        two = stratified.sums_of_counts(b, n)
        found = stratified.score(one, two, equal=False, step=1.0, reach=least, extra=extra, bias=looks.bias[k])
        crossed = going & (-found.z >= looks.upper[k])
        ruled = np.zeros(draws, dtype=bool)
        if np.isfinite(looks.reach[k]):
            mean = stratified.score(one, two, equal=True, step=1.0, reach=least, extra=extra)
            ruled = going & ~crossed & (-stratified.lower_end(mean, looks.reach[k]) < margin)
        said[crossed], said[ruled] = 1, -1
        runs[crossed | ruled] = now
        going &= ~(crossed | ruled)
        before = int(now)
    return PlayedComparison(said, runs)


def _speed(belief: ShrunkRates, successes: Numbers, attempts: Numbers) -> Floats:
    if belief.variance <= 0:
        return np.ones(np.broadcast(successes, attempts).shape)
    return floats(EVEN + (1 - EVEN) * belief.variances(successes, attempts) / belief.variance)


def _times(plan: Schedule) -> Floats:
    """When each attempt of a block stands, (tasks, block)."""
    times = (np.arange(plan.block) + plan.place[:, None]) / plan.speed[:, None]
    times[:, 0] = _first(plan.speed, plan.place)
    return floats(times)


def _first(speed: Floats, place: Floats) -> Floats:
    """When a task has its first attempt; tasks that would wait too long come at random in what is left of the time."""
    at = place / speed
    return np.where(at > COVERED, COVERED * (0.2 + 0.8 * place), at)


def _by(time: Floats, speed: Floats, place: Floats, block: int) -> Floats:
    """Attempts by a time."""
    met = np.floor(time * speed - place + 1e-9) + 1
    return floats(np.clip(np.maximum(met, time >= _first(speed, place)), 0, block))


def _pull(first: Floats, second: Floats) -> Floats:
    return floats(first * second / np.maximum(first + second, 1.0))


def _binomial(n: int, p: Floats) -> Floats:
    """Probabilities of 0 to n successes, (tasks, n + 1)."""
    c = np.arange(n + 1.0)
    ways = np.concatenate([[0.0], np.cumsum(np.log((n - c[:-1]) / (c[:-1] + 1)))])
    p = np.clip(p, 1e-12, 1 - 1e-12)[:, None]
    return floats(np.exp(ways + c * np.log(p) + (n - c) * np.log1p(-p)))
