"""Simulated agents, unchanged and changed: every test of a field keeps its level, the naive ones do not.

Set ETHOGRAM_LONG=1 for the long form; run with -s to read the tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from ethogram.questions.field.ablation import ablate
from ethogram.questions.field.corridor import Corridor
from ethogram.questions.field.field import Field
from ethogram.questions.field.fieldtests import compare_fields
from ethogram.statistics import permutation

LONG = os.environ.get("ETHOGRAM_LONG") == "1"
REPLICATES = 2000 if LONG else 150
DRAWS = 199
ALPHA = 0.05
D = 10
MIX = np.linalg.cholesky(0.3 * np.ones((D, D)) + 0.7 * np.eye(D))
NAMES = [f"x{j}" for j in range(D)]


def replicates(seed: int, n: int = REPLICATES) -> Iterator[np.random.Generator]:
    yield from np.random.default_rng(seed).spawn(n)


def error(n: int, rate: float = ALPHA) -> float:
    return 3 * float(np.sqrt(rate * (1 - rate) / n))


def runs(rng: np.random.Generator, tasks: int, each: int, levels: np.ndarray, shift: np.ndarray | float = 0.0) -> Field:
    logs = np.repeat(levels, each, axis=0) + 0.4 * rng.normal(size=(tasks * each, D)) @ MIX.T + shift
    y = (rng.random(tasks * each) < 0.5).astype(float)
    return Field.from_arrays(np.expm1(logs), y, NAMES, tasks=np.repeat(np.arange(tasks), each))


def levels_of(rng: np.random.Generator, tasks: int) -> np.ndarray:
    return 6 + 0.7 * rng.normal(size=(tasks, D))


@pytest.mark.parametrize(("tasks", "each"), [(1, 20), (10, 4), (20, 4)])
def test_separation_keeps_its_level_where_pooling_does_not(tasks: int, each: int) -> None:
    """Hard tasks are long and fail: nothing differs within a task, yet pooled runs part on every dimension."""
    ours = pooled = single = n = 0
    for rng in replicates(1):
        levels = levels_of(rng, tasks)
        hard = rng.normal(size=tasks) if tasks > 1 else np.zeros(1)
        logs = np.repeat(levels + 1.0 * hard[:, None], each, axis=0) + 0.4 * rng.normal(size=(tasks * each, D)) @ MIX.T
        y = (rng.random(tasks * each) < 1 / (1 + np.exp(2 * np.repeat(hard, each)))).astype(float)
        field = Field.from_arrays(np.expm1(logs), y, NAMES, tasks=np.repeat(np.arange(tasks), each))
        test = field.metrics().separation_test(DRAWS, seed=int(rng.integers(1 << 30)))
        if not test.p:
            continue
        n += 1
        ours += min(test.adjusted.values()) <= ALPHA
        single += min(test.p.values()) <= ALPHA
        found = permutation.association(logs, y, np.zeros(y.size, dtype=int), 1, DRAWS, rng)
        pooled += found.adjusted.min() <= ALPHA
    print(
        f"\nseparation, {tasks} × {each}: max-T {ours / n:.3f}, no adjustment {single / n:.3f}, pooled {pooled / n:.3f}"
    )
    assert n > 0.9 * REPLICATES
    assert ours / n <= 0.07 + error(n)
    assert single / n > 0.15  # "some dimension has p below 0.05"
    if tasks > 1:
        assert ours / n >= 0.03 - error(n, 0.03)
        assert pooled / n > 0.5  # the naive method, shown to fail


@pytest.mark.parametrize(("tasks", "each"), [(1, 6), (10, 2), (10, 4)])
def test_comparisons_keep_their_level(tasks: int, each: int) -> None:
    hits: dict[str, int] = {}
    n = REPLICATES
    for rng in replicates(2):
        levels = levels_of(rng, tasks)
        a, b = (runs(rng, tasks, each, levels) for _ in range(2))
        found = compare_fields(a, b, draws=DRAWS, seed=int(rng.integers(1 << 30)))
        alarms = {t.of: t.p is not None and t.p <= ALPHA for t in found.tests}
        norms = [t.p for t in found.tests if t.of.startswith("centre") and t.p is not None]
        alarms["either norm"] = min(norms) <= ALPHA
        alarms["some dimension"] = any(d.adjusted is not None and d.adjusted <= ALPHA for d in found.dimensions)
        parted = [d.separation_p for d in found.dimensions if d.separation_p is not None]
        alarms["separation"] = bool(parted) and min(parted) <= ALPHA
        for name, alarm in alarms.items():
            hits[name] = hits.get(name, 0) + alarm
    rates = {name: count / n for name, count in hits.items()}
    print(f"\nnothing changed, {tasks} × {each}: {rates}")
    assert all(rate <= 0.07 + error(n) for rate in rates.values())
    if tasks > 1:
        for name in ("either norm", "some dimension"):
            assert rates[name] >= 0.03 - error(n, 0.03)


def test_two_norms_have_power_where_each_should() -> None:
    """Half a sd in 3 of 10 dimensions, alike in every task; and every task drifting its own way."""
    n = REPLICATES // 2
    hits = np.zeros((2, 2))
    for rng in replicates(3, n):
        levels = levels_of(rng, 10)
        base = runs(rng, 10, 5, levels)
        directions = rng.normal(size=(10, D))
        directions *= 0.6 / np.linalg.norm(directions, axis=1, keepdims=True)
        for kind, shift in enumerate((np.r_[[0.2] * 3, np.zeros(7)], np.repeat(directions, 5, axis=0))):
            found = compare_fields(base, runs(rng, 10, 5, levels, shift), draws=DRAWS)
            hits[kind] += [(found.test(t).p or 1) <= ALPHA for t in ("centre", "centre per task")]
    print(f"\npower of (mean shift, shift per task): alike {hits[0] / n}, each its own way {hits[1] / n}")
    assert hits[0, 0] > 1.5 * hits[0, 1]
    assert hits[1, 1] > 1.5 * hits[1, 0]
    assert hits[0, 0] / n > 0.4
    assert hits[1, 1] / n > 0.4


def chat(rng: np.random.Generator, tasks: int, each: int, longer: float) -> Field:
    """Conversations with tools; `longer` multiplies turns and calls alike.

    The sd of logarithms within a task is what public customer-service runs show: turns 0.24, calls 0.6, messages 0.29.
    """
    known = np.random.default_rng(5)
    turns, calls = known.uniform(5, 11, tasks), known.uniform(2, 8, tasks)
    rows = []
    for task in range(tasks):
        for _ in range(each):
            t = max(1, round(turns[task] * longer * np.exp(0.27 * rng.normal())))
            c = round(calls[task] * longer * np.exp(0.75 * rng.normal()))
            writes, errors = rng.binomial(c, 0.3), rng.binomial(c, 0.2)
            rows.append([2 * t + 2 * c, t, c, min(c, 1 + rng.binomial(5, 0.5)), writes, errors])
    names = ["messages", "turns", "calls", "distinct", "writes", "errors"]
    return Field.from_arrays(np.array(rows, dtype=float), None, names, tasks=np.repeat(np.arange(tasks), each))


def test_a_quarter_more_steps_is_detected() -> None:
    """20 tasks × 2 runs on each side: max-T over log counts."""
    n = REPLICATES // 2
    found = calm = 0
    for rng in replicates(4, n):
        base = chat(rng, 20, 2, 1.0)
        for longer in (1.25, 1.0):
            test = compare_fields(base, chat(rng, 20, 2, longer), draws=DRAWS)
            alarm = any(d.adjusted is not None and d.adjusted <= ALPHA for d in test.dimensions)
            found += alarm and longer > 1
            calm += alarm and longer == 1
    print(f"\n25 % more steps from 20 × 2: power {found / n:.2f}, false alarms {calm / n:.3f}")
    assert found / n >= 0.85 - error(n, 0.85)
    assert calm / n <= 0.07 + error(n)


def test_corridor_alarm_and_adherence_keep_their_level() -> None:
    alarms = outside = total = moved = 0
    for rng in replicates(5):
        levels = levels_of(rng, 4)
        old, new = runs(rng, 4, 10, levels), runs(rng, 4, 3, levels)
        corridor = Corridor.of(old, successes=False)
        alarm = corridor.alarm(new, draws=DRAWS, seed=int(rng.integers(1 << 30)))
        alarms += alarm.raised is True
        rows = corridor.adherence(new)
        outside += sum(a.inside is False for a in rows)
        total += len(rows)
        moved += corridor.alarm(runs(rng, 4, 3, levels, 0.4), draws=DRAWS).raised is True
    n = REPLICATES
    print(
        f"\ncorridor: alarm {alarms / n:.3f}, a run outside {outside / total:.3f}; a shift of one sd: {moved / n:.2f}"
    )
    assert alarms / n <= 0.05 + error(n)
    # runs of one replicate share their corridor, so the share varies more than n × 12 single runs would
    assert outside / total <= 0.05 + error(n)
    assert moved / n > 0.8


def test_effects_of_factors_keep_their_level() -> None:
    n = REPLICATES // 4
    hits = {"width": 0, "pass_rate": 0, "centre": 0}
    for rng in replicates(6, n):
        levels = levels_of(rng, 5)
        cells = [({"a": a, "b": b}, runs(rng, 5, 4, levels)) for a in (0, 1) for b in (0, 1)]
        found = ablate(cells)
        for metric in hits:
            hits[metric] += min(e.adjusted[metric] for e in found.effects) <= ALPHA
    print(f"\nfactors without effect, any of three found: { {k: v / n for k, v in hits.items()} }")
    assert all(count / n <= 0.07 + error(n) for count in hits.values())
