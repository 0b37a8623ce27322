"""Claims: beside truescore (PPI++) and judgy (Rogan-Gladen) on the same draws of a judge with known errors, from 100
labels on, the corrected interval covers at least as often as the smaller of .94 and the peer's coverage, and is no wider
than the peer's wherever that covers .94 to .97; with tasks of several attempts, and with rates near 0 and 1, too.

    python bench/judges.py [--quick]        needs truescore and judgy, which the extra `dev` installs

Coverage is compared within two standard errors of the simulation, width within one per cent. For judgy the labels are a
random sample; it knows nothing of tasks, so it is left out where tasks have several attempts. Its bootstrap is 400 draws.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, table, verdict

from ethogram.questions.calibration.corrected import JudgedSample, Labels, corrected_mean

REPLICATES = 300 if QUICK else 1000
JUDGES = (
    (0.5, 0.9, 0.9),
    (0.7, 0.95, 0.8),
    (0.9, 0.95, 0.8),
    (0.97, 0.97, 0.7),
    (0.98, 0.99, 0.9),
    (0.03, 0.9, 0.98),
    (0.1, 0.6, 0.9),
)
"""Rate of the truth, sensitivity, specificity."""
SIZES = ((100, 1000), (400, 4000))
"""Labels, judged runs."""


class Ends(NamedTuple):
    low: float
    high: float


class Draw(NamedTuple):
    """One simulated run: verdicts, truth, task, and which runs are labelled (whole tasks where they repeat)."""

    verdict: np.ndarray
    truth: np.ndarray
    task: np.ndarray
    at: np.ndarray


def draws(rate: float, sensitivity: float, specificity: float, size: tuple[int, int], attempts: int) -> Iterator[Draw]:
    labels, judged = size
    rng = np.random.default_rng([int(1000 * rate), labels, attempts])
    for _ in range(REPLICATES):
        task = np.arange(judged) // attempts
        tasks = judged // attempts
        rates = np.full(tasks, rate) if attempts == 1 else rng.beta(2 * rate, 2 * (1 - rate), tasks)
        truth = (rng.random(judged) < rates[task]).astype(float)
        right = rng.random(judged) < np.where(truth == 1, sensitivity, specificity)
        at = np.flatnonzero(np.isin(task, rng.choice(tasks, labels // attempts, replace=False)))
        yield Draw(np.where(right, truth, 1 - truth), truth, task, at)


def ours(draw: Draw) -> Ends | None:
    found = corrected_mean(JudgedSample.of(draw.verdict, draw.task), Labels.of(draw.at, draw.truth[draw.at]), 0.95)
    return Ends(found.low, found.high)


def truescore(draw: Draw) -> Ends | None:
    from truescore.correct import ppi_estimate

    repeated = draw.task[-1] + 1 < draw.task.size
    found = ppi_estimate(draw.verdict, draw.truth[draw.at], draw.at, clusters=draw.task if repeated else None)
    return Ends(found.low, found.high)


def judgy(draw: Draw) -> Ends | None:
    from judgy import estimate_success_rate

    rest = np.delete(draw.verdict, draw.at)
    try:
        _, low, high = estimate_success_rate(draw.truth[draw.at], draw.verdict[draw.at], rest, bootstrap_iterations=400)
    except (ValueError, RuntimeError):  # it refuses labels of one kind, and a judge that seems worse than chance
        return None
    return Ends(low, high)


class Seen(NamedTuple):
    """How often an interval was given and held the truth, and its mean width."""

    covered: float
    width: float
    refused: int


def seen(found: list[Ends | None], rate: float) -> Seen:
    given = [e for e in found if e is not None]
    inside = sum(e.low <= rate <= e.high for e in given)
    return Seen(inside / max(len(given), 1), float(np.mean([e.high - e.low for e in given])), len(found) - len(given))


def main() -> bool:
    np.random.seed(1)  # judgy draws from numpy's global generator
    rows, bad_cover, bad_width = [], [], []
    for attempts in (1, 5):
        for size in SIZES:
            for judge in JUDGES:
                made = list(draws(*judge, size, attempts))
                mine = seen([ours(d) for d in made], judge[0])
                peers = {"truescore": seen([truescore(d) for d in made], judge[0])}
                if attempts == 1:
                    few = made[: max(REPLICATES // 5, 100)]
                    peers["judgy"] = seen([judgy(d) for d in few], judge[0])
                name = f"rate {judge[0]}, sens {judge[1]}, spec {judge[2]}, {size[0]} labels, {attempts} attempts"
                for peer, theirs in peers.items():
                    n = REPLICATES if peer == "truescore" else max(REPLICATES // 5, 100)
                    slack = 2 * (0.06 / n) ** 0.5
                    if mine.covered < min(0.94, theirs.covered) - slack:
                        bad_cover.append(f"{name} beside {peer}: {mine.covered:.3f} and {theirs.covered:.3f}")
                    if 0.94 <= theirs.covered <= 0.97 and mine.width > 1.01 * theirs.width:
                        bad_width.append(f"{name} beside {peer}: {mine.width:.4f} and {theirs.width:.4f}")
                told = [f"{s.covered:.3f} / {s.width:.4f}" for s in (mine, peers["truescore"])]
                j = peers.get("judgy")
                rows.append([*judge, *size, attempts, *told, f"{j.covered:.3f} / {j.width:.4f}" if j else "-",
                             j.refused if j else 0])  # fmt: skip
    columns = ["rate", "sens", "spec", "labels", "judged", "attempts", "ours", "truescore", "judgy", "judgy refuses"]
    table(f"coverage / width of 95 % intervals, {REPLICATES} draws each", columns, rows)
    for line in (*bad_cover, *bad_width):
        print(f"  {line}")
    held = verdict("coverage is at least the smaller of .94 and the peer's", not bad_cover)
    return verdict("no wider wherever the peer covers .94 to .97", not bad_width) and held


if __name__ == "__main__":
    try:
        import judgy as _judgy  # noqa: F401
        import truescore as _truescore  # noqa: F401
    except ImportError as error:
        raise SystemExit(f"{error}; install the peers with: uv pip install truescore judgy") from None
    sys.exit(0 if main() else 1)
