"""A simulated judge of known sensitivity and specificity: corrected rates cover as promised, raw ones do not.

Set ETHOGRAM_LONG=1 for the long form; run with -s to read the table.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from ethogram.questions.calibration import agreement, judge_accuracy
from ethogram.questions.calibration.components import LEVELS, components
from ethogram.questions.calibration.corrected import JudgedSample, Labels, corrected_mean
from ethogram.questions.calibration.judge_accuracy import (
    Paired,
    calibration_of,
    corrected_difference,
    corrected_rate,
    labels_for_width,
    raw_rate,
)

LONG = os.environ.get("ETHOGRAM_LONG") == "1"
REPLICATES = 3000 if LONG else 250
SLACK = 2.6 * (0.95 * 0.05 / REPLICATES) ** 0.5


class World(NamedTuple):
    """A rate of the truth, a judge's sensitivity and specificity, attempts per task (1: tasks do not matter)."""

    rate: float
    sensitivity: float
    specificity: float
    attempts: int = 1

    def draw(self, rng: np.random.Generator, judged: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Truth, verdict and task of every run."""
        task = np.arange(judged) // self.attempts
        rates = np.full(judged, self.rate)
        if self.attempts > 1:
            rates = rng.beta(2 * self.rate, 2 * (1 - self.rate), task[-1] + 1)[task]
        truth = (rng.random(judged) < rates).astype(float)
        right = rng.random(judged) < np.where(truth == 1, self.sensitivity, self.specificity)
        return truth, np.where(right, truth, 1 - truth), task


WORLDS = (
    World(0.7, 0.95, 0.8),
    World(0.9, 0.9, 0.8),
    World(0.97, 0.97, 0.7),
    World(0.03, 0.8, 0.95),
    World(0.7, 0.95, 0.8, 5),
    World(0.9, 0.9, 0.8, 5),
)


def paired(rng: np.random.Generator, world: World, judged: int, labels: int, neyman: bool) -> Paired:
    """Labels in proportion, or half of them among each verdict."""
    truth, verdict, task = world.draw(rng, judged)
    if neyman:
        parts = [rng.permutation(np.flatnonzero(verdict == v))[: labels // 2] for v in (0, 1)]
        at = np.concatenate(parts)
        likely = np.concatenate([np.full(p.size, p.size / np.sum(verdict == v)) for v, p in enumerate(parts)])
    else:
        at, likely = rng.choice(judged, labels, replace=False), np.full(labels, labels / judged)
    return Paired(verdict, task, at, truth[at], likely, truth[at][:, None])


def test_corrected_rates_cover_and_raw_ones_do_not() -> None:
    for world in WORLDS:
        for neyman in (False, True):
            rng = np.random.default_rng([1, neyman])
            inside = np.zeros(2)
            for _ in range(REPLICATES):
                data = paired(rng, world, 1000, 100, neyman)
                for i, found in enumerate((corrected_rate(data, 0.95)[0], raw_rate(data, 0.95))):
                    assert found.low is not None
                    assert found.high is not None
                    inside[i] += found.low <= world.rate <= found.high
            good, raw = inside / REPLICATES
            print(f"{world} {'by verdict' if neyman else 'in proportion'}: corrected {good:.3f}, raw {raw:.3f}")
            assert good >= 0.94 - SLACK, (world, neyman, good)
            if world.attempts == 1 and world.rate != 0.7:
                assert raw < 0.6, (world, raw)


def test_corrected_differences_cover_though_the_judge_changed() -> None:
    """The judge is milder with the new version: the raw difference has the wrong sign, the corrected one covers."""
    before, after = World(0.8, 0.9, 0.9, 2), World(0.7, 0.98, 0.6, 2)
    rng = np.random.default_rng(7)
    inside = wrong_sign = 0
    for _ in range(REPLICATES):
        sides = [paired(rng, world, 800, 150, neyman=True) for world in (before, after)]
        found = corrected_difference(*(corrected_rate(side, 0.95)[0] for side in sides))
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= -0.1 <= found.high
        wrong_sign += raw_rate(sides[1], 0.95).value > raw_rate(sides[0], 0.95).value
    print(f"difference: corrected {inside / REPLICATES:.3f}; raw verdicts say better in {wrong_sign / REPLICATES:.3f}")
    assert inside / REPLICATES >= 0.94 - SLACK
    assert wrong_sign / REPLICATES > 0.9


def test_the_planned_number_of_labels_gives_the_wanted_width() -> None:
    for world in (World(0.7, 0.95, 0.8), World(0.7, 0.7, 0.7), World(0.8, 0.9, 0.8, 4)):
        rng = np.random.default_rng(8)
        ratios = []
        for _ in range(REPLICATES // 5):
            plan = labels_for_width(paired(rng, world, 4000, 150, neyman=False), 0.04, 0.95)
            assert plan.labels is not None
            found = corrected_rate(paired(rng, world, 4000, plan.labels, neyman=False), 0.95)[0]
            assert found.low is not None
            assert found.high is not None
            ratios.append((found.high - found.low) / 0.08)
        print(f"{world}: half widths {np.mean(ratios):.3f} of what was asked for, {np.quantile(ratios, [0.1, 0.9])}")
        assert 0.9 < np.mean(ratios) < 1.1, world


def test_naive_ways_fail() -> None:
    """Labels that were taken where the judge says no, used as if they were drawn at random; tasks that are ignored."""
    rng = np.random.default_rng(2)
    unweighted = tasks_ignored = 0
    for _ in range(REPLICATES):
        data = paired(rng, World(0.9, 0.9, 0.8), 1000, 100, neyman=True)
        found = corrected_mean(JudgedSample.of(data.verdict), Labels.of(data.place, data.truth), 0.95)
        unweighted += found.low <= 0.9 <= found.high
        truth, verdict, task = World(0.7, 0.95, 0.8, 10).draw(rng, 1000)
        at = np.flatnonzero(np.isin(task, rng.choice(100, 20, replace=False)))
        found = corrected_mean(JudgedSample.of(verdict), Labels.of(at, truth[at]), 0.95)
        tasks_ignored += found.low <= 0.7 <= found.high
    assert unweighted / REPLICATES < 0.9
    assert tasks_ignored / REPLICATES < 0.9


def test_agreement_intervals_cover() -> None:
    world = World(0.7, 0.95, 0.8, 2)
    # kappa of that world: observed .905, chance from the two rates
    passes = 0.7 * 0.95 + 0.3 * 0.2
    chance = 0.7 * passes + 0.3 * (1 - passes)
    kappa = (0.7 * 0.95 + 0.3 * 0.8 - chance) / (1 - chance)
    share = (0.7 + passes) / 2
    by_chance = 2 * share * (1 - share)
    ac1 = (0.7 * 0.95 + 0.3 * 0.8 - by_chance) / (1 - by_chance)
    rng = np.random.default_rng(3)
    inside = np.zeros(5)
    for _ in range(REPLICATES):
        found = calibration_of(paired(rng, world, 400, 150, neyman=False))
        for i, (figure, truth) in enumerate(
            (
                (found.j, 0.75),
                (found.kappa, kappa),
                (found.sensitivity, 0.95),
                (found.specificity, 0.8),
                (found.ac1, ac1),
            )
        ):
            assert figure.low is not None
            assert figure.high is not None
            inside[i] += figure.low <= truth <= figure.high
    assert np.all(inside / REPLICATES >= 0.94 - SLACK), inside / REPLICATES


def test_intervals_of_weighted_kappa_cover_and_know_their_tasks() -> None:
    # attempts at a task have equal grades, so copies of them are no further evidence
    rng = np.random.default_rng(6)

    def graded(tasks: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        task = np.repeat(np.arange(tasks), 4)
        truth = rng.choice([1, 3, 5], tasks, p=[0.45, 0.1, 0.45])
        judge = np.where(rng.random(tasks) < 0.3, rng.choice([1, 2, 5], tasks), truth)
        return judge[task], truth[task], task

    known = agreement.weighted_kappa(*graded(100_000)[:2], 1.0, np.arange(400_000), 0.95).value
    assert known is not None
    inside = alone = 0
    for _ in range(REPLICATES):
        judge, truth, task = graded(60)
        found = agreement.weighted_kappa(judge, truth, 1.0, task, 0.95)
        ignored = agreement.weighted_kappa(judge, truth, 1.0, np.arange(240), 0.95)
        assert found.low is not None
        assert found.high is not None
        assert ignored.low is not None
        assert ignored.high is not None
        inside += found.low <= known <= found.high
        alone += ignored.low <= known <= ignored.high
    assert inside / REPLICATES >= 0.94 - SLACK, inside / REPLICATES
    assert alone / REPLICATES < 0.85, "without tasks it must cover too little"


def test_alpha_intervals_cover_where_ratings_are_missing() -> None:
    rng = np.random.default_rng(4)
    big = np.where(
        rng.random((200_000, 3)) < 0.85, (rng.random(200_000) < 0.4)[:, None], rng.random((200_000, 3)) < 0.4
    )
    truth = agreement.krippendorff(big.astype(float), np.arange(200_000), 0.95).value
    inside = 0
    for _ in range(REPLICATES):
        y = rng.random(120) < 0.4
        ratings = np.where(rng.random((120, 3)) < 0.85, y[:, None], rng.random((120, 3)) < 0.4).astype(float)
        ratings[rng.random(ratings.shape) < 0.2] = np.nan
        found = agreement.krippendorff(ratings, np.arange(120), 0.95)
        assert truth is not None
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= truth <= found.high
    assert inside / REPLICATES >= 0.93 - SLACK


def test_the_audit_raises_few_false_alarms_and_finds_drift() -> None:
    rng = np.random.default_rng(5)
    false = found = 0
    after: list[int] = []
    for _ in range(2 * REPLICATES):
        first = (rng.random(100) < 0.92).sum()
        false += judge_accuracy.watch_fall(first, 100, rng.random(400) < 0.92, 0.05).alarm is not None
        seen = judge_accuracy.watch_fall(first, 100, rng.random(400) < 0.70, 0.05).alarm
        found += seen is not None
        after += [seen] if seen is not None else []
    runs = 2 * REPLICATES
    print(f"false alarms {false / runs:.4f}, found {found / runs:.3f}, median after {np.median(after):.0f} labels")
    assert false / runs <= 0.05
    assert found / runs >= 0.95


def test_components_cover() -> None:
    truth = {"task": 1.0, "environment": 0.3, "agent": 0.5, "judge": 0.2, "repeat": 0.1}
    inside = dict.fromkeys(LEVELS, 0)
    replicates = REPLICATES // 2
    shape = (40, 2, 3, 2, 2)
    places = np.indices(shape).reshape(5, -1)
    rng = np.random.default_rng(6)
    for _ in range(replicates):
        parts = [rng.normal(0, truth[n] ** 0.5, (*shape[: i + 1], *(1,) * (4 - i))) for i, n in enumerate(LEVELS)]
        kept = rng.random(places.shape[1]) > 0.1
        values = np.asarray(sum(parts)).ravel()[kept]
        found = components(values, (places[0][kept], places[1][kept], places[2][kept], places[3][kept]), 0.95)
        for name in LEVELS:
            part = found.levels[name]
            assert part.low is not None
            assert part.high is not None
            inside[name] += part.low <= truth[name] <= part.high
    print({name: round(n / replicates, 3) for name, n in inside.items()})
    assert min(inside.values()) / replicates >= 0.94 - 2.6 * (0.95 * 0.05 / replicates) ** 0.5


def test_components_of_passes_and_failures_cover() -> None:
    """Rates of tasks are Beta(2, 2): their variance is .05, and that of attempts .2."""
    for tasks, attempts in ((40, 8), (100, 3)):
        rng = np.random.default_rng(9)
        task = np.repeat(np.arange(tasks), attempts)
        alike = np.zeros_like(task)
        inside = np.zeros(2)
        for _ in range(REPLICATES):
            values = (rng.random(task.size) < rng.beta(2, 2, tasks)[task]).astype(float)
            found = components(values, (task, alike, np.arange(task.size), alike), 0.95).levels
            for i, (name, truth) in enumerate((("task", 0.05), ("agent", 0.2))):
                low, high = found[name].low, found[name].high
                assert low is not None
                assert high is not None
                inside[i] += low <= truth <= high
        print(f"{tasks} tasks of {attempts} attempts, task and agent: {inside / REPLICATES}")
        assert inside.min() / REPLICATES >= 0.94 - SLACK
