"""Claim: pass@k and pass^k for k = 1 … 20 with both intervals, and the whole comparison with flags per task, of
10 000 tasks × 20 attempts in under two seconds of CPU, start of the interpreter included; beside plain loops."""

from __future__ import annotations

import random
import sys
from math import comb
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, child, cpu, table, verdict

from ethogram.statistics import exact, multiplicity, passk, stratified

KS = range(1, 21)

WHOLE = """
import sys
import numpy as np
from ethogram.statistics import exact, multiplicity, passk, stratified
rng = np.random.default_rng(1)
tasks = int(sys.argv[1])
p = rng.beta(1.4, 0.6, tasks)
a, b = rng.binomial(20, p), rng.binomial(20, p)
n = np.full(tasks, 20)
for kind in ("at", "hat"):
    for target in ("population", "suite"):
        passk.curve(a, n, range(1, 21), 0.95, kind=kind, target=target)
one, two = stratified.sums_of_counts(a, n), stratified.sums_of_counts(b, n)
found = stratified.difference(one, two, 0.95, equal=False, step=1.0)
stratified.difference_between_tasks(one, two, 0.95)
exact.common_odds(a, n, b, n, 0.95)
multiplicity.benjamini_hochberg(exact.task_tests(a, n, b, n).two_sided)
OUT = {"difference": float(found.value)}
"""


def curves_in_a_loop(successes: list[int], attempts: int) -> list[list[float]]:
    """Both curves, the obvious way."""
    at, hat = [], []
    for k in KS:
        ways = comb(attempts, k)
        at.append(sum(1 - comb(attempts - c, k) / ways for c in successes) / len(successes))
        hat.append(sum(comb(c, k) / ways for c in successes) / len(successes))
    return [at, hat]


def resamples_in_a_loop(successes: list[int], attempts: int, times: int) -> list[list[list[float]]]:
    """Both curves of resampled tasks: what an interval by the bootstrap takes, the obvious way."""
    drawn = random.Random(1)
    return [curves_in_a_loop(drawn.choices(successes, k=len(successes)), attempts) for _ in range(times)]


def fisher_in_a_loop(first: list[int], second: list[int], n: int) -> list[float]:
    """Two-sided p of every task, the obvious way."""
    out = []
    for a, b in zip(first, second, strict=True):
        m = a + b
        law = [comb(n, x) * comb(n, m - x) / comb(2 * n, m) for x in range(max(0, m - n), min(n, m) + 1)]
        seen = comb(n, b) * comb(n, a) / comb(2 * n, m)
        out.append(min(1.0, sum(w for w in law if w <= seen * (1 + 1e-7))))
    return out


def main() -> bool:
    tasks = 2000 if QUICK else 10_000
    rng = np.random.default_rng(1)
    p = rng.beta(1.4, 0.6, tasks)
    a, b, n = rng.binomial(20, p), rng.binomial(20, p), np.full(tasks, 20)
    passk.curve(a, n, KS, 0.95, kind="at", target="population")  # loads scipy.special once

    ours, curves = cpu(lambda: [passk.curve(a, n, KS, 0.95, kind=kind, target="population") for kind in ("at", "hat")])
    loop, plain = cpu(lambda: curves_in_a_loop(a.tolist(), 20), 1)
    np.testing.assert_allclose([c.value for c in curves], plain, rtol=1e-9)
    few = 10
    bootstrap = cpu(lambda: resamples_in_a_loop(a.tolist(), 20, few), 1)[0] * 1000 / few
    suites, _ = cpu(lambda: [passk.curve(a, n, KS, 0.95, kind=kind, target="suite") for kind in ("at", "hat")])
    fisher, flags = cpu(lambda: exact.task_tests(a, n, b, n).two_sided)
    fisher_loop, plain_flags = cpu(lambda: fisher_in_a_loop(a.tolist(), b.tolist(), 20), 1)
    np.testing.assert_allclose(flags, plain_flags, rtol=1e-6)
    arms = stratified.sums_of_counts(a, n), stratified.sums_of_counts(b, n)
    compare, _ = cpu(lambda: stratified.difference(*arms, 0.95, equal=False, step=1.0))
    adjust, _ = cpu(lambda: multiplicity.benjamini_hochberg(flags))
    table(
        f"{tasks:,} tasks × 20 attempts, CPU milliseconds",
        ["what", "plain loop", "ours"],
        [
            ["both curves, k = 1 … 20, no interval", 1e3 * loop, ""],
            ["… with intervals (loop: 1000 resamples, from 10)", 1e3 * bootstrap, 1e3 * ours],
            ["… with intervals for the suite", "", 1e3 * suites],
            ["difference with test and interval", "", 1e3 * compare],
            ["exact test of every task", 1e3 * fisher_loop, 1e3 * fisher],
            ["Benjamini-Hochberg over tasks", "", 1e3 * adjust],
        ],
    )
    whole = min(child(WHOLE, str(tasks))["cpu_s"] for _ in range(3))
    print(f"  everything in a fresh interpreter: {whole:.2f} s of CPU")
    ratio = bootstrap / ours
    held = [
        verdict(f"under two seconds in a fresh interpreter ({whole:.2f} s)", whole < 2),
        verdict(
            f"curves with intervals at least 200 times faster than resampling in a loop ({ratio:.0f}×)", ratio > 200
        ),
    ]
    return all(held)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
