"""Simulated suites of known truth: the default intervals of pass@k and pass^k cover as promised, the naive ones do not.

Set ETHOGRAM_LONG=1 for the long form; run with -s to read the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pytest

from ethogram.stats import interval, passk, ratio

LONG = os.environ.get("ETHOGRAM_LONG") == "1"
REPLICATES = 6000 if LONG else 800
LEVEL = 0.95
TASKS, ATTEMPTS, KS = (20, 50, 200), (1, 4, 10), (1, 2, 4, 8, 10)


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


class Cell(NamedTuple):
    """One simulated cell: rates (replicates, tasks), successes, and the truths of both targets."""

    name: str
    tasks: int
    attempts: int
    k: int
    kind: passk.Kind
    rates: np.ndarray
    successes: np.ndarray
    population: float

    def suite(self) -> np.ndarray:
        return np.mean(self.rates**self.k if self.kind == "hat" else 1 - (1 - self.rates) ** self.k, axis=-1)


def cells(rng: np.random.Generator) -> Iterator[Cell]:
    for name, population in POPULATIONS.items():
        for tasks in TASKS:
            rates = population.draw(rng, (REPLICATES, tasks))
            for attempts in ATTEMPTS:
                successes = rng.binomial(attempts, rates)
                for k in (k for k in KS if k <= attempts):
                    yield Cell(name, tasks, attempts, k, "hat", rates, successes, population.power(k))
                    if k > 1:
                        yield Cell(name, tasks, attempts, k, "at", rates, successes, 1 - population.rest(k))


def coverage(low: np.ndarray, high: np.ndarray, truth: np.ndarray | float) -> float:
    # a truth that lies on an end, as it does when every task is certain, is covered
    return float(np.mean((low <= truth + 1e-12) & (truth <= high + 1e-12)))


def report(title: str, found: dict[str, float]) -> tuple[float, float]:
    mean, worst = float(np.mean(list(found.values()))), min(found.values())
    print(f"\n{title}: {len(found)} cells of {REPLICATES}, mean {mean:.4f}, worst {worst:.4f}")
    for name, share in sorted(found.items(), key=lambda item: item[1])[:5]:
        print(f"  {share:.4f}  {name}")
    return mean, worst


def test_default_intervals_cover() -> None:
    population, suite, narrow = {}, {}, {}
    for cell in cells(np.random.default_rng(20)):
        n = np.full(cell.tasks, cell.attempts)
        name = f"{cell.name}, {cell.tasks} × {cell.attempts}, pass{'^' if cell.kind == 'hat' else '@'}{cell.k}"
        wide = passk.curve(cell.successes, n, [cell.k], LEVEL, kind=cell.kind, target="population")
        own = passk.curve(cell.successes, n, [cell.k], LEVEL, kind=cell.kind, target="suite")
        population[name] = coverage(wide.low[:, 0], wide.high[:, 0], cell.population)
        suite[name] = coverage(own.low[:, 0], own.high[:, 0], cell.suite())
        narrow[name] = float(min(np.min(wide.high - wide.low), np.min(own.high - own.low)))
    error = 3 * np.sqrt(0.9 * 0.1 / REPLICATES)
    for title, found in (("population", population), ("suite", suite)):
        mean, worst = report(title, found)
        assert mean >= 0.94
        assert worst >= 0.90 - error
    assert min(narrow.values()) > 0


def test_the_central_limit_theorem_fails_the_same_check() -> None:
    found, collapsed = {}, 0
    for cell in cells(np.random.default_rng(21)):
        if cell.tasks > 50:
            continue
        values = (passk.pass_hat if cell.kind == "hat" else passk.pass_at)(cell.successes, cell.attempts, [cell.k])[
            ..., 0
        ]
        mean, error = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(cell.tasks)
        low, high = mean - 1.959964 * error, mean + 1.959964 * error
        found[f"{cell.name}, {cell.tasks} × {cell.attempts}, {cell.kind} {cell.k}"] = coverage(
            low, high, cell.population
        )
        collapsed += bool(np.any(high - low == 0))
    mean, worst = report("central limit theorem", found)
    assert mean < 0.90
    assert worst < 0.5
    assert collapsed > 0


def test_runs_taken_as_independent_fail_the_same_check() -> None:
    found = {}
    for cell in cells(np.random.default_rng(22)):
        if cell.k == 1 and cell.attempts > 1:
            total = cell.successes.sum(axis=1)
            low, high = interval.wilson(total, cell.tasks * cell.attempts, LEVEL)
            found[f"{cell.name}, {cell.tasks} × {cell.attempts}"] = coverage(low, high, cell.population)
    _, worst = report("Wilson over runs", found)
    assert worst < 0.7


@pytest.mark.parametrize("kind", ["at", "hat"])
def test_the_naive_estimators_are_biased(kind: passk.Kind) -> None:
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
                    means, spent = ratio.between(x, y), interval.skewed_mean(x, LEVEL)
                    got = ratio.recovered(means, spent, interval.Interval(achieved.low[:, 0], achieved.high[:, 0]))
                    cell = f"{name}, {tasks} × {attempts}, spread {spread}"
                    ours[cell] = coverage(*got, truth)
                    fieller[cell] = coverage(*ratio.fieller(means, LEVEL), truth)
    mean, worst = report("cost per resolved", ours)
    assert mean >= 0.94
    assert worst >= 0.90 - 3 * np.sqrt(0.09 / REPLICATES)
    _, worst = report("cost per resolved, Fieller", fieller)
    assert worst < 0.90
