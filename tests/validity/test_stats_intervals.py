"""Simulated suites of known truth: the default intervals of pass@k and pass^k cover as promised, the naive ones do not.

Set ETHOGRAM_LONG=1 for the long form; run with -s to read the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pytest

from ethogram.estimate import Estimate
from ethogram.prices.resolved import PricedEpisodes, per_resolved, per_run
from ethogram.statistics import interval, passk, positive, ratio

LONG = os.environ.get("ETHOGRAM_LONG") == "1"
REPLICATES = 6000 if LONG else 400
LEVEL = 0.95
TASKS = (20, 50, 200) if LONG else (20, 50)
ATTEMPTS, KS = (1, 4, 10), (1, 2, 4, 8, 10)


class Population(NamedTuple):
    """Where tasks' rates come from, and the mean of p^k and (1 - p)^k over it."""

    draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
    power: Callable[[int], float]
    rest: Callable[[int], float]


def beta(a: float, b: float) -> Population:
    def power(k: int, a: float = a, b: float = b) -> float:
        j = np.arange(k)
        return float(np.prod((a + j) / (a + b + j)))

    return Population(lambda rng, size: rng.beta(a, b, size), power, lambda k: power(k, b, a))


def mixture(*rates: float) -> Population:
    p = np.array(rates)
    return Population(
        lambda rng, size: rng.choice(p, size=size),
        lambda k: float(np.mean(p**k)),
        lambda k: float(np.mean((1 - p) ** k)),
    )


POPULATIONS = {
    "beta 1.4 0.6": beta(1.4, 0.6),
    "beta 9 0.5": beta(9, 0.5),
    "beta 0.5 9": beta(0.5, 9),
    "mixture": mixture(0.98, 0.5, 0.02),
    "all alike": mixture(0.9),
}


class Suites(NamedTuple):
    """Simulated suites of one shape: rates (replicates, tasks), and successes of the attempts."""

    name: str
    tasks: int
    attempts: int
    rates: np.ndarray
    successes: np.ndarray
    population: Population

    def orders(self) -> list[int]:
        return [k for k in KS if k <= self.attempts]

    def truths(self, kind: passk.PassKind) -> tuple[np.ndarray, np.ndarray]:
        """For every k: the population's value, and (replicates, k) these very tasks' values."""
        ks = self.orders()
        power, rates = (self.population.power, self.rates) if kind == "hat" else (self.population.rest, 1 - self.rates)
        whole = np.array([power(k) for k in ks])
        own = np.stack([np.mean(rates**k, axis=-1) for k in ks], axis=-1)
        return (whole, own) if kind == "hat" else (1 - whole, 1 - own)

    def cell(self, kind: passk.PassKind, k: int) -> str:
        return f"{self.name}, {self.tasks} × {self.attempts}, pass{'^' if kind == 'hat' else '@'}{k}"


def suites(
    rng: np.random.Generator,
    populations: dict[str, Population],
    tasks: tuple[int, ...] = TASKS,
    attempts: tuple[int, ...] = ATTEMPTS,
) -> Iterator[Suites]:
    for name, population in populations.items():
        for n in tasks:
            rates = population.draw(rng, (REPLICATES, n))
            for k in attempts:
                yield Suites(name, n, k, rates, rng.binomial(k, rates), population)


def coverage(low: np.ndarray, high: np.ndarray, truth: np.ndarray | float) -> float:
    # a truth that lies on an end, as it does when every task is certain, is covered
    return float(np.mean((low <= truth + 1e-12) & (truth <= high + 1e-12)))


def report(title: str, found: dict[str, float]) -> tuple[float, float]:
    mean, worst = float(np.mean(list(found.values()))), min(found.values())
    print(f"\n{title}: {len(found)} cells of {REPLICATES}, mean {mean:.4f}, worst {worst:.4f}")
    for name, share in sorted(found.items(), key=lambda item: item[1])[:5]:
        print(f"  {share:.4f}  {name}")
    return mean, worst


def holds(share: float, bound: float) -> bool:
    """A bound is broken when the 99 % limit of the simulation's own error lies beyond it."""
    return share >= bound - 2.326 * np.sqrt(bound * (1 - bound) / REPLICATES)


def test_default_intervals_cover() -> None:
    population, suite, narrow = {}, {}, 1.0
    for drawn in suites(np.random.default_rng(20), POPULATIONS):
        n, ks = np.full(drawn.tasks, drawn.attempts), drawn.orders()
        for kind in ("hat", "at"):
            whole, own = drawn.truths(kind)
            wide = passk.curve(drawn.successes, n, ks, LEVEL, kind=kind, target="population")
            these = passk.curve(drawn.successes, n, ks, LEVEL, kind=kind, target="suite")
            narrow = min(narrow, float(np.min(wide.high - wide.low)), float(np.min(these.high - these.low)))
            for i, k in enumerate(ks):
                if k > 1 or kind == "hat":
                    population[drawn.cell(kind, k)] = coverage(wide.low[:, i], wide.high[:, i], whole[i])
                    suite[drawn.cell(kind, k)] = coverage(these.low[:, i], these.high[:, i], own[:, i])
    mean, worst = report("population", population)
    assert mean >= 0.94
    assert holds(worst, 0.93)
    mean, worst = report("suite", suite)
    assert mean >= 0.94
    assert holds(worst, 0.90)
    assert narrow > 0


def plain(values: np.ndarray, attempts: int) -> tuple[np.ndarray, np.ndarray]:
    """Wilson with the effective n of clustered tasks, neither capped nor ordered: what was the default before."""
    tasks, mean = values.shape[1], values.mean(axis=1)
    variance = values.var(axis=1, ddof=1) / tasks
    student = interval.student(0.0, 1.0, tasks - 1, LEVEL).high / 1.959964
    n = interval.effective_n(mean, variance * student**2, 1.0, tasks * attempts, tasks)
    return interval.wilson_edge(mean * n, n, LEVEL)


UNEVEN = {
    "95 % at .995, 5 % at .1": mixture(*([0.995] * 19), 0.1),
    "10 % at .6, 90 % at .01": mixture(0.6, *([0.01] * 9)),
    "beta .5 .5": beta(0.5, 0.5),
    "beta 8 2": beta(8, 2),
    "beta .2 .2": beta(0.2, 0.2),
    "all .9": mixture(0.9),
    "all .99": mixture(0.99),
    "all .5": mixture(0.5),
}


def test_population_intervals_cover_where_few_tasks_differ_and_the_plain_ones_do_not() -> None:
    ours, before = {}, {}
    print(f"\n{'tasks drawn from':26} {'T × K':>8}  {'plain cover width':>18}  {'ours cover width':>17}")
    for drawn in suites(np.random.default_rng(30), UNEVEN, (20, 60), (8,)):
        n = np.full(drawn.tasks, drawn.attempts)
        found = passk.curve(drawn.successes, n, [1], LEVEL, kind="hat", target="population")
        old = plain(drawn.successes / drawn.attempts, drawn.attempts)
        truth, cell = drawn.population.power(1), drawn.cell("hat", 1)
        ours[cell] = coverage(found.low[:, 0], found.high[:, 0], truth)
        before[cell] = coverage(*old, truth)
        widths = [float(np.mean(high - low)) for low, high in (old, (found.low[:, 0], found.high[:, 0]))]
        shape = f"{drawn.tasks} × {drawn.attempts}"
        print(f"{drawn.name:26} {shape:>8}  {before[cell]:12.3f} {widths[0]:.3f}  {ours[cell]:11.3f} {widths[1]:.3f}")
    assert holds(min(ours.values()), 0.93)
    assert min(before.values()) < 0.85


def test_the_central_limit_theorem_fails_the_same_check() -> None:
    found, collapsed = {}, 0
    for drawn in suites(np.random.default_rng(21), POPULATIONS, (20, 50)):
        for kind, estimator in (("hat", passk.pass_hat), ("at", passk.pass_at)):
            values = estimator(drawn.successes, drawn.attempts, drawn.orders())
            mean, error = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(drawn.tasks)
            low, high = mean - 1.959964 * error, mean + 1.959964 * error
            truth = drawn.truths(kind)[0]
            for i, k in enumerate(drawn.orders()):
                found[drawn.cell(kind, k)] = coverage(low[:, i], high[:, i], truth[i])
            collapsed += bool(np.any(high - low == 0))
    mean, worst = report("central limit theorem", found)
    assert mean < 0.90
    assert worst < 0.5
    assert collapsed > 0


def test_runs_taken_as_independent_fail_the_same_check() -> None:
    found = {}
    for drawn in suites(np.random.default_rng(22), POPULATIONS, TASKS, (4, 10)):
        total = drawn.successes.sum(axis=1)
        low, high = interval.wilson(total, drawn.tasks * drawn.attempts, LEVEL)
        found[drawn.cell("hat", 1)] = coverage(low, high, drawn.population.power(1))
    _, worst = report("Wilson over runs", found)
    assert worst < 0.7


@pytest.mark.parametrize("kind", ["at", "hat"])
def test_the_naive_estimators_are_biased(kind: passk.PassKind) -> None:
    rng = np.random.default_rng(23)
    rates = rng.beta(1.4, 0.6, (REPLICATES, 50))
    c = rng.binomial(4, rates)
    truth = POPULATIONS["beta 1.4 0.6"].power(4) if kind == "hat" else 1 - POPULATIONS["beta 1.4 0.6"].rest(4)
    ours, naive = (passk.pass_hat, passk.naive_hat) if kind == "hat" else (passk.pass_at, passk.naive_at)
    error = 4 * ours(c, 4, [4]).mean(axis=1).std() / np.sqrt(REPLICATES)
    assert abs(ours(c, 4, [4]).mean() - truth) < error
    assert abs(naive(c, 4, [4]).mean() - truth) > 3 * error


def test_cost_per_resolved_covers_and_fieller_does_not_where_money_is_skewed() -> None:
    rng = np.random.default_rng(24)
    ours, fieller = {}, {}
    for name, a, b in (("usual", 1.4, 0.6), ("hard", 1.0, 4.0), ("easy", 9.0, 0.5)):
        for tasks in TASKS:
            for attempts in (1, 4):
                for spread in (0.3, 1.0):
                    p = rng.beta(a, b, (REPLICATES, tasks))
                    passed = rng.random((REPLICATES, tasks, attempts)) < p[..., None]
                    task = np.exp(spread * rng.standard_normal(p.shape))[..., None]
                    cost = task * np.where(passed, 1.0, 1.6) * np.exp(0.3 * rng.standard_normal(passed.shape))
                    rate = a / (a + b)
                    truth = np.exp((spread**2 + 0.09) / 2) * (rate + 1.6 * (1 - rate)) / rate
                    x, y = cost.mean(axis=-1), passed.mean(axis=-1)
                    achieved = passk.population(y[..., None], np.full(tasks, attempts), [1], LEVEL)
                    means, spent = ratio.cluster_means(x, y), positive.population_mean(x, LEVEL)
                    got = ratio.mover_ratio(means, spent, interval.Interval(achieved.low[:, 0], achieved.high[:, 0]))
                    cell = f"{name}, {tasks} × {attempts}, spread {spread}"
                    ours[cell] = coverage(*got, truth)
                    fieller[cell] = coverage(*ratio.fieller(means, LEVEL), truth)
    mean, worst = report("cost per resolved", ours)
    assert mean >= 0.94
    assert holds(worst, 0.93)
    _, worst = report("cost per resolved, Fieller", fieller)
    assert worst < 0.90


def within(estimate: Estimate, truth: float) -> bool:
    if estimate.low is None or estimate.high is None:
        assert "an interval would end at" in (estimate.why or "")
        return True  # refused, because the interval is too wide to be of use: it claims nothing
    return estimate.low <= truth <= estimate.high


@pytest.mark.parametrize(("tasks", "attempts"), [(1, 5), (2, 2), (3, 4), (5, 1), (10, 3), (19, 2)])
def test_costs_of_few_tasks_cover_and_students_interval_does_not(tasks: int, attempts: int) -> None:
    """Lognormal dollars (spread 1 within tasks and between them), dearer where an attempt fails."""
    rng = np.random.default_rng([40, tasks, attempts])
    n = REPLICATES // 2
    run = resolved = student = 0
    task = np.repeat(np.arange(tasks), attempts)
    for _ in range(n):
        dear, p = np.exp(rng.standard_normal(tasks)), rng.beta(1.4, 0.6, tasks)
        passed = rng.random(task.size) < p[task]
        cost = dear[task] * np.where(passed, 1.0, 1.6) * np.exp(rng.standard_normal(task.size))
        truth = float(np.mean(dear * (p + 1.6 * (1 - p)))) * np.exp(0.5)
        episodes = PricedEpisodes(task, cost, passed.astype(float))
        run += within(per_run(episodes, LEVEL), truth)
        resolved += within(per_resolved(episodes, LEVEL), truth / float(p.mean()))
        # before: Student's with the degrees of freedom of all tasks together
        means = ratio.task_means(cost, passed, task, tasks)
        low, high = interval.student(means.x, means.xx, max(tasks * (attempts - 1), tasks - 1), LEVEL)
        student += low <= truth <= high
    print(f"\ncosts, {tasks} × {attempts}: per run {run / n:.3f}, per resolved {resolved / n:.3f}, t {student / n:.3f}")
    slack = 2.326 * np.sqrt(0.93 * 0.07 / n)
    assert min(run, resolved) / n >= 0.93 - slack
    assert student / n < 0.93 - slack
