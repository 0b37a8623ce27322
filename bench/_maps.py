"""Maps of failure rates over a grid of 1 024 settings, and what methods without sharing can reach on them."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.special import bdtrc

from ethogram.questions.explore.problem import Problem
from ethogram.questions.explore.surface import Axis
from ethogram.worlds.toy_v1 import ToyWorld, v1_grid

TAU, ZONE = 0.2, 0.02
LEVELS = np.array(list(itertools.product(range(4), repeat=5)))
KINDS = ("additive", "gp", "tree")
PROBLEM = Problem(LEVELS.astype(np.int64), tuple(Axis(4, True) for _ in range(5)), TAU, ZONE)


def reference() -> dict[str, np.ndarray]:
    a, b, c, d, e = LEVELS.T
    x = LEVELS / 3
    sharp = 0.05 + 0.02 * (a + b) / 6
    sharp = np.where(((a >= 2) & (c >= 2)) | ((e == 0) & (d >= 2) & (b >= 1)), 0.55, sharp)
    sharp = np.where((a >= 2) & (c >= 2) & (e == 3), 0.12, sharp)

    def pocket(*centre: float) -> np.ndarray:
        return np.exp(-((x - np.array(centre)) ** 2).sum(1) / (2 * 0.33**2))

    pockets = 0.03 + 0.06 * x[:, 0] * x[:, 2] + 0.04 * x[:, 3] * (1 - x[:, 4])
    pockets = pockets + 0.355 * pocket(1, 0.67, 0.33, 1, 0) + 0.34 * pocket(0, 1, 1, 0, 0.67)
    grid = v1_grid()
    rates = {
        w.synthetic: np.array([w.rate(grid.settings(i)) for i in range(1024)]) for w in (ToyWorld(), ToyWorld(True))
    }
    return {
        "v1_synth": rates[True],
        "v1_real": rates[False],
        "sharp": sharp,
        "pockets": pockets,
        "shuffled": np.random.default_rng(123).permutation(sharp),
    }


def fresh(kind: str, share: float, draw: int, seed: int) -> np.ndarray:
    """A random map: logits shifted so that a stated share lies above tau."""
    rng = np.random.default_rng([seed, draw, int(100 * share), KINDS.index(kind)])
    if kind == "additive":
        logit = sum(rng.normal(0, 1.0, 4)[LEVELS[:, d]] for d in range(5))
        for i, j in itertools.combinations(range(5), 2):
            if rng.random() < 0.4:
                logit = logit + rng.normal(0, 0.6, (4, 4))[LEVELS[:, i], LEVELS[:, j]]
    elif kind == "gp":
        scale = np.where(rng.random(5) < 0.25, 1e6, rng.uniform(0.8, 4.0, 5))
        corr = np.ones((1024, 1024))
        for d in range(5):
            corr *= np.exp(-0.5 * ((LEVELS[:, None, d] - LEVELS[None, :, d]) / scale[d]) ** 2)
        logit = 1.5 * np.linalg.cholesky(corr + 1e-6 * np.eye(1024)) @ rng.standard_normal(1024)
    else:
        logit = np.zeros(1024)
        _grow(logit, np.arange(1024), 5, rng)
    cut = _between(logit, share) if kind == "tree" else np.quantile(logit, 1 - share)
    return 1 / (1 + np.exp(-(logit - cut + np.log(TAU / (1 - TAU)))))


def _between(logit: np.ndarray, share: float) -> float:
    """A cut half-way between two levels, so that no leaf lies at tau, with nearly that share above."""
    levels = np.unique(logit)
    above = np.array([(logit > level).mean() for level in levels[:-1]])
    nearest = int(np.argmin(np.abs(above - share)))
    return float((levels[nearest] + levels[nearest + 1]) / 2)


def _grow(logit: np.ndarray, rows: np.ndarray, depth: int, rng: np.random.Generator) -> None:
    """A random tree: every leaf has a level of its own."""
    d, cut = int(rng.integers(5)), int(rng.integers(1, 4))
    left = rows[LEVELS[rows, d] < cut]
    right = rows[LEVELS[rows, d] >= cut]
    if depth == 0 or not len(left) or not len(right):
        logit[rows] = rng.normal(0, 1.5)
        return
    _grow(logit, left, depth - 1, rng)
    _grow(logit, right, depth - 1, rng)


def uniform_exact(p: np.ndarray, levels: tuple[float, ...], most: int = 1000) -> list[float]:
    """Episodes after which uniform sampling has reached a level for good, exactly, in whole passes over the grid: the
    better of calling by the Beta(1, 1) mean and by the share of failures."""
    gap = np.round(p - TAU, 12)
    above, below = gap >= ZONE, gap <= -ZONE
    curves = []
    for rule in (lambda n: TAU * (n + 2) - 1, lambda n: TAU * n):
        curve = [0.5]
        for n in range(1, most + 1):
            least = int(np.floor(rule(n) + 1e-9)) + 1
            called = bdtrc(least - 1, n, p) if 1 <= least <= n else np.full(len(p), float(least < 1))
            curve.append(0.5 * called[above].mean() + 0.5 * (1 - called[below].mean()))
        curves.append(np.array(curve))
    passes = [min(np.flatnonzero(c < level)[-1] + 1 for c in curves) for level in levels]
    return [float(len(p) * n) if n <= most else float("inf") for n in passes]


def limit(p: np.ndarray, levels: tuple[float, ...], most: int = 800) -> list[float]:
    """The least expected episodes of any method that treats points as exchangeable and knows the histogram of p.

    With a price per episode every point is the same stopping problem; its value over prices gives the whole trade-off.
    """
    gap = np.round(p - TAU, 12)
    near = np.abs(gap) < 0.1
    atoms, counts = np.unique(np.where(near, np.round(p, 3), np.round(p, 2)).clip(0.001, 0.999), return_counts=True)
    unsafe, safe = (atoms - TAU >= ZONE - 1e-9), (TAU - atoms >= ZONE - 1e-9)
    weight_u, weight_s = 0.5 / counts[unsafe].sum(), 0.5 / counts[safe].sum()
    log_p, log_q = np.log(atoms), np.log1p(-atoms)
    ends = []
    for n in range(most + 1):
        f = np.arange(n + 1)[:, None]
        like = np.exp(f * log_p + (n - f) * log_q) * counts
        ends.append((np.minimum(weight_u * like[:, unsafe].sum(1), weight_s * like[:, safe].sum(1)), like.sum(1)))

    def value(price: float) -> float:
        v = ends[most][0]
        for n in range(most - 1, -1, -1):
            stop, mass = ends[n]
            v = np.minimum(stop, price * mass + v[1:] + v[:-1])
        return float(v[0])

    prices = np.geomspace(1e-8, 1e-3, 60)
    step = 1.02
    curve = []
    for price in prices:
        low, high = value(price / step), value(price * step)
        episodes = (high - low) / (price * step - price / step)
        curve.append((value(price) - price * episodes, episodes))
    errors, episodes = np.array(curve).T
    order = np.argsort(errors)
    return [
        float(
            np.exp(np.interp(np.log(1 - level), np.log(errors[order].clip(1e-9)), np.log(episodes[order].clip(1e-9))))
        )
        for level in levels
    ]
