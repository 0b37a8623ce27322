"""Claim: every metric of a field of 1 000 000 trajectories × 16 dimensions, with closed-form intervals, in under a second
of CPU and under 100 MB beyond the data; beside plain Python loops."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, child, cpu, table, verdict

from ethogram.questions.field.field import Field

D = 16

WHOLE = """
import resource, sys, time
import numpy as np
from ethogram.questions.field.field import Field
from ethogram.statistics import spread
K, tasks = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(1)
points = np.empty((K, 16))
for j in range(16):
    points[:, j] = rng.gamma(2.0, 5.0, K)
outcomes = (rng.random(K) < 0.6).astype(float)
task = rng.integers(0, tasks, K)
# a small field first, so that what is loaded once is not counted as working memory
warm = Field.from_arrays(points[:500], outcomes[:500], [f"x{j}" for j in range(16)], tasks=task[:500]).metrics()
warm.estimate("width"), warm.estimates("separation"), warm.estimate("convergence"), warm.estimates("center")
del warm
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
field = Field.from_arrays(points, outcomes, [f"x{j}" for j in range(16)], tasks=task)
m = field.metrics()
seed = m.summary()
covariance = m.covariance()
estimates = [m.estimate("width"), m.estimate("convergence")]
parts = [m.estimates("separation"), m.estimates("center")]
spent = time.process_time() - start
more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
start = time.process_time()
test = m.separation_test()
tested = time.process_time() - start
OUT = {"spent": spent, "tested": tested, "more_mb": more / 1024, "width": seed["width"], "low": estimates[0].low}
"""


def metrics_in_a_loop(points: list[list[float]], outcomes: list[float]) -> dict[str, list[float]]:
    """The essay's values, trajectory by trajectory."""
    k, d = len(points), len(points[0])
    mean, total = [0.0] * d, 0.0
    for row, y in zip(points, outcomes, strict=True):
        total += y
        for j in range(d):
            mean[j] += row[j]
    mean, rate = [s / k for s in mean], total / k
    variance, cross, good, bad, passed = [0.0] * d, [0.0] * d, [0.0] * d, [0.0] * d, 0
    for row, y in zip(points, outcomes, strict=True):
        passed += y >= 0.5
        side = good if y >= 0.5 else bad
        for j in range(d):
            off = row[j] - mean[j]
            variance[j] += off * off
            cross[j] += off * (y - rate)
            side[j] += row[j]
    spread = rate * (1 - rate)
    return {
        "variance": [v / k for v in variance],
        "separation": [g / passed - b / (k - passed) for g, b in zip(good, bad, strict=True)],
        "skew": [c / k / (v / k * spread) ** 0.5 for c, v in zip(cross, variance, strict=True)],
    }


def main() -> bool:
    held, rows = [], []
    size, loop = (200_000, 5_000) if QUICK else (1_000_000, 20_000)
    rng = np.random.default_rng(2)
    points, outcomes = rng.gamma(2.0, 5.0, (loop, D)), (rng.random(loop) < 0.6).astype(float)
    plain, slow = cpu(lambda: metrics_in_a_loop(points.tolist(), outcomes.tolist()), 1)
    m = Field.from_arrays(points, outcomes, [f"x{j}" for j in range(D)]).metrics()
    assert np.allclose(m.variance(), slow["variance"])
    assert np.allclose(m.separation(), slow["separation"])
    assert np.allclose([m.skew(j) for j in range(D)], slow["skew"])
    for tasks in (1, 50):
        found = min((child(WHOLE, str(size), str(tasks)) for _ in range(2)), key=lambda o: o["spent"])
        loops = plain * size / loop
        rows.append([size, tasks, loops, found["spent"], loops / found["spent"], found["more_mb"], found["tested"]])
        held.append(verdict_of(found, size))
    names = ["trajectories", "tasks", "loop CPU s *", "ours CPU s", "ratio", "MB beyond data", "max-T CPU s"]
    table(f"metrics with intervals, × {D} dimensions (* the essay's values alone, scaled from {loop:,})", names, rows)
    return all(held)


def verdict_of(found: dict[str, float], size: int) -> bool:
    fast = verdict(f"{size:,} × {D} in under 1 s of CPU ({found['spent']:.2f} s)", found["spent"] < 1)
    return verdict(f"under 100 MB beyond the data ({found['more_mb']:.0f} MB)", found["more_mb"] < 100) and fast


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
