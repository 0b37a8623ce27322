"""Claims: episodes that the default strategy needs for a balanced accuracy of 95 % and 99 % (zone ± 0.02), against
uniform sampling (exact), v1, the best rule that treats every point for itself, and the limit of all such rules; on
reference maps, on fresh random ones, and on one without structure. And: when it says that enough is known, it is right.

`--quick` uses few seeds, `--seeds=8` so many; name maps (`sharp`), `fresh`, `certified` or `certified-sharp` to
run only these.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

import numpy as np
from scipy.special import bdtrc

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, table, verdict

from ethogram.decide.explore import Problem
from ethogram.stats.surface import Axis
from ethogram.study.race import episodes_to, trial
from ethogram.worlds.toy_v1 import ToyWorld, v1_grid

TAU, ZONE = 0.2, 0.02
LEVELS = np.array(list(itertools.product(range(4), repeat=5)))
PROBLEM = Problem(LEVELS.astype(np.int64), tuple(Axis(4, True) for _ in range(5)), TAU, ZONE)
ASKED = [int(a.partition("=")[2]) for a in sys.argv if a.startswith("--seeds=")]
SEEDS = ASKED[0] if ASKED else 4 if QUICK else 24
FRESH_SEEDS = ASKED[0] if ASKED else 2 if QUICK else 20


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


def fresh(kind: str, share: float, seed: int) -> np.ndarray:
    """A random map: logits shifted so that a stated share lies above tau."""
    rng = np.random.default_rng([seed, int(100 * share)])
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
    cut = np.quantile(logit, 1 - share)
    return 1 / (1 + np.exp(-(logit - cut + np.log(TAU / (1 - TAU)))))


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


def runs_of(name: str, strategy: str, p: np.ndarray, seeds: int, budget: int, until_enough: bool = False) -> list:
    found = []
    for seed in range(seeds):
        run = []
        for look in trial(name, strategy, p, PROBLEM, seed, budget):
            run.append(look)
            if until_enough and look.enough:
                break
        found.append(run)
    return found


def ratio(ours: float | None, theirs: float) -> str:
    return "–" if ours is None else f"1/{theirs / ours:.1f}" if ours < theirs else f"{ours / theirs:.2f}"


def main() -> bool:
    began, held = time.process_time(), []
    named = [a for a in sys.argv[1:] if not a.startswith("-")]
    maps = reference()
    goal = {"v1_synth": 25, "v1_real": 25, "sharp": 18, "pockets": 10}
    budgets = {"v1_synth": 4000, "v1_real": 1200, "sharp": 1500, "pockets": 14000, "shuffled": 8000}
    rows = []
    for name, p in maps.items():
        if named and name not in named:
            continue
        uniform, best = uniform_exact(p, (0.95, 0.99)), limit(p, (0.95, 0.99))
        ours = runs_of(name, "default", p, SEEDS, budgets[name])
        lsa = runs_of(name, "lsa", p, max(2, SEEDS // 6), 65536)
        v1 = runs_of(name, "v1", p, max(2, SEEDS // 6), 65536)
        n95, n99 = (episodes_to(ours, level, budgets[name]) for level in (0.95, 0.99))
        others = [episodes_to(r, 0.95, 65536) for r in (v1, lsa)]
        rows.append(
            [
                name,
                n95,
                n99,
                *map(round, uniform),
                *[o or ">65k" for o in others],
                *map(round, best),
                ratio(n95, uniform[0]),
                ratio(n99, uniform[1]),
                ratio(n95, best[0]),
            ]
        )
        if name in goal:
            held.append(
                verdict(
                    f"{name}: at most 1/{goal[name]} of uniform's episodes ({ratio(n95, uniform[0])})",
                    n95 is not None and uniform[0] / n95 >= goal[name],
                )
            )
            held.append(
                verdict(
                    f"{name}: at most half the limit without sharing ({ratio(n95, best[0])})",
                    n95 is not None and n95 <= 0.5 * best[0],
                )
            )
        else:
            held.append(
                verdict(
                    f"{name}: at most 1.6 times the limit without sharing ({ratio(n95, best[0])})",
                    n95 is not None and n95 <= 1.6 * best[0],
                )
            )
    columns = [
        "map",
        "default 95",
        "99",
        "uniform 95",
        "99",
        "v1 fine 95",
        "lsa 95",
        "limit 95",
        "99",
        "to uniform 95",
        "99",
        "to limit 95",
    ]
    if rows:
        table(f"episodes to a balanced accuracy, mean over {SEEDS} seeds", columns, rows)
    if not named or "fresh" in named:
        held += fresh_maps()
    if not named or any(n.startswith("certified") for n in named):
        held += certified(maps)
    print(f"  {time.process_time() - began:.0f} CPU seconds")
    return all(held)


def fresh_maps() -> list[bool]:
    rows, ratios, ratios99, bounds = [], [], [], []
    kinds = [(k, s) for k in ("additive", "gp", "tree") for s in ((0.3,) if QUICK else (0.1, 0.3, 0.6))]
    for kind, share in kinds:
        p = fresh(kind, share, 20261116)
        name = f"{kind} {share:g}"
        uniform, best = uniform_exact(p, (0.95, 0.99)), limit(p, (0.95, 0.99))
        budget = int(min(uniform[0] / 2, 24000))
        ours = runs_of(name, "default", p, FRESH_SEEDS, budget)
        n95, n99 = (episodes_to(ours, level, budget) for level in (0.95, 0.99))
        rows.append(
            [
                name,
                n95,
                n99,
                *(round(u) if np.isfinite(u) else ">1M" for u in uniform),
                round(best[0]),
                ratio(n95, uniform[0]),
                ratio(n99, uniform[1]),
                ratio(n95, best[0]),
            ]
        )
        ratios.append(uniform[0] / n95 if n95 else 0.0)
        ratios99.append(uniform[1] / n99 if n99 else 0.0)
        bounds.append(n95 / best[0] if n95 else np.inf)
    table(
        f"fresh random maps, mean over {FRESH_SEEDS} seeds",
        ["map", "default 95", "99", "uniform 95", "99", "limit 95", "to uniform 95", "99", "to limit"],
        rows,
    )
    return [
        verdict(
            f"fresh maps: median at most 1/12 of uniform at 95 % (1/{np.median(ratios):.1f})", np.median(ratios) >= 12
        ),
        verdict(f"fresh maps: worst at most 1/5 of uniform at 95 % (1/{min(ratios):.1f})", min(ratios) >= 5),
        verdict(
            f"fresh maps: median at most 1/15 of uniform at 99 % (1/{np.median(ratios99):.1f})",
            np.median(ratios99) >= 15,
        ),
        verdict(f"fresh maps: at most half the limit without sharing (worst {max(bounds):.2f})", max(bounds) <= 0.5),
    ]


def certified(maps: dict[str, np.ndarray]) -> list[bool]:
    rows, held = [], []
    seeds = ASKED[0] if ASKED else 2 if QUICK else 24
    for name, p in maps.items():
        if any(f"certified-{m}" in sys.argv for m in maps) and f"certified-{name}" not in sys.argv:
            continue
        runs = runs_of(name, "default", p, seeds, 65536, until_enough=True)
        stops = [run[-1] for run in runs if run[-1].enough]
        right = sum(s.balanced_accuracy >= 0.95 for s in stops)
        achieved = np.median([next((x.episodes for x in run if x.balanced_accuracy >= 0.95), 65536) for run in runs])
        at = np.median([s.episodes for s in stops]) if stops else float("nan")
        worst = min((s.balanced_accuracy for s in stops), default=float("nan"))
        rows.append(
            [
                name,
                float(achieved),
                float(at),
                float(at / achieved),
                float(worst),
                f"{right}/{len(stops)} of {len(runs)}",
            ]
        )
        held.append(
            verdict(
                f"{name}: certified runs are right ({right} of {len(stops)})",
                len(stops) > 0 and right >= 0.95 * len(stops),
            )
        )
    table(
        "certified stop",
        ["map", "achieved (median)", "certified (median)", "ratio", "worst balanced accuracy", "right"],
        rows,
    )
    return held


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
