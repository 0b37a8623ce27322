"""Claims: episodes that the default strategy needs for a balanced accuracy of 95 % and 99 % (zone ± 0.02), against
uniform sampling (exact), v1, the best rule that treats every point for itself, and the limit of all such rules; on
reference maps, on fresh random ones, and on one without structure. And: when it says that enough is known, it is right.

`--quick` uses few seeds, `--seeds=8` eight, `--drawn=7` other fresh maps. Name `reference`, `fresh`, `certified`,
`certified-fresh` to run only these.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, table, verdict
from _maps import KINDS, PROBLEM, fresh, limit, reference, uniform_exact

from ethogram.questions.explore.race import RacePosition, episodes_to, trial

Runs = list[list[RacePosition]]

SHARES = (0.6,) if QUICK else (0.1, 0.3, 0.6)
DRAWS = 1 if QUICK else 2
MOSTLY, NEARLY = 0.95, 0.99
GOAL = {"v1_synth": 25, "v1_real": 25, "sharp": 18, "pockets": 10}
"""Uniform sampling needs at least this many times the episodes."""
MOST = 65536


def asked(name: str, usual: int) -> int:
    """The number of an option such as `--seeds=8`."""
    return next((int(a.partition("=")[2]) for a in sys.argv if a.startswith(f"--{name}=")), usual)


def together(name: str, strategy: str, p: np.ndarray, seeds: Sequence[int], most: int, level: float) -> Runs:
    """Runs side by side, round by round, until their mean balanced accuracy has reached a level."""
    trials = [trial(name, strategy, p, PROBLEM, seed, most) for seed in seeds]
    runs: Runs = [[] for _ in seeds]
    for looks in zip(*trials, strict=True):
        for run, look in zip(runs, looks, strict=True):
            run.append(look)
        if np.mean([look.balanced_accuracy for look in looks]) >= level:
            break
    return runs


def until_enough(name: str, p: np.ndarray, seeds: Sequence[int]) -> Runs:
    """Runs of the default until each says by itself that enough is known."""
    runs: Runs = []
    for seed in seeds:
        runs.append([])
        for look in trial(name, "default", p, PROBLEM, seed, MOST):
            runs[-1].append(look)
            if look.enough:
                break
    return runs


def ratio(ours: float | None, theirs: float) -> str:
    if ours is None:
        return "–"
    sign = "" if np.isfinite(theirs) else "<"
    theirs = min(theirs, 1024000.0)
    return f"{sign}1/{theirs / ours:.1f}" if ours < theirs else f"{ours / theirs:.2f}"


def told(episodes: float | None, most: int) -> int | str:
    return f">{most:,}" if episodes is None or not np.isfinite(episodes) else round(episodes)


def on_reference() -> list[bool]:
    rows, held = [], []
    seeds = range(asked("seeds", 4 if QUICK else 24))
    for name, p in reference().items():
        uniform, best = uniform_exact(p, (MOSTLY, NEARLY)), limit(p, (MOSTLY, NEARLY))
        ours = together(name, "default", p, seeds, MOST, NEARLY)
        n95, n99 = (episodes_to(ours, level, MOST) for level in (MOSTLY, NEARLY))
        few = seeds[: max(2, len(seeds) // 6)]
        others = [episodes_to(together(name, s, p, few, MOST, MOSTLY), MOSTLY, MOST) for s in ("v1", "lsa")]
        ratios = [ratio(n95, uniform[0]), ratio(n99, uniform[1]), ratio(n95, best[0])]
        others_told = [told(o, MOST) for o in others]
        rows.append([name, told(n95, MOST), told(n99, MOST), *map(round, uniform), *others_told, *map(round, best)])
        rows[-1] += ratios
        enough = n95 is not None
        if name in GOAL:
            claim = f"{name}: at most 1/{GOAL[name]} of uniform's episodes ({ratios[0]})"
            held.append(verdict(claim, enough and uniform[0] / n95 >= GOAL[name]))
        most = 0.5 if name in GOAL else 1.6
        claim = f"{name}: at most {most} times the limit without sharing ({n95 / best[0] if enough else np.inf:.2f})"
        held.append(verdict(claim, enough and n95 <= most * best[0]))
    columns = ["map", "default 95", "99", "uniform 95", "99", "v1 fine 95", "lsa 95", "limit 95", "99"]
    columns += ["to uniform 95", "99", "to limit 95"]
    table(f"episodes to a balanced accuracy, mean over {len(seeds)} seeds", columns, rows)
    return held


def fresh_maps() -> list[tuple[str, np.ndarray]]:
    drawn = asked("drawn", 61116)
    made = itertools.product(KINDS, SHARES, range(DRAWS))
    return [(f"{kind} {share:g} {'ab'[draw]}", fresh(kind, share, draw, drawn)) for kind, share, draw in made]


def on_fresh() -> list[bool]:
    rows, ratios, bounds = [], [], []
    seeds = range(asked("seeds", 2 if QUICK else 20))
    for name, p in fresh_maps():
        uniform, best = uniform_exact(p, (MOSTLY, NEARLY)), limit(p, (MOSTLY,))[0]
        most = int(min(uniform[1] / 5, 40000))
        ours = together(name, "default", p, seeds, most, NEARLY)
        found = [episodes_to(ours, level, most) for level in (MOSTLY, NEARLY)]
        ratios.append([min(u, 1024000.0) / n if n else 0.0 for u, n in zip(uniform, found, strict=True)])
        bounds.append(found[0] / best if found[0] else np.inf)
        rows.append([name, *(told(n, most) for n in found), *(told(u, 1024000) for u in uniform), round(best)])
        rows[-1] += [*map(ratio, found, uniform), ratio(found[0], best)]
        print("  ", *rows[-1], flush=True)
    columns = ["map", "default 95", "99", "uniform 95", "99", "limit 95", "to uniform 95", "99", "to limit 95"]
    table(f"{len(rows)} fresh random maps, mean over {len(seeds)} seeds", columns, rows)
    mostly, nearly = np.median(ratios, axis=0)
    least = np.min(ratios, axis=0)
    return [
        verdict(f"fresh maps: median at most 1/12 of uniform at 95 % (1/{mostly:.1f})", mostly >= 12),
        verdict(f"fresh maps: worst at most 1/5 of uniform at 95 % (1/{least[0]:.1f})", least[0] >= 5),
        verdict(f"fresh maps: median at most 1/15 of uniform at 99 % (1/{nearly:.1f})", nearly >= 15),
        verdict(f"fresh maps: worst at most 1/5 of uniform at 99 % (1/{least[1]:.1f})", least[1] >= 5),
        verdict(f"fresh maps: at most half the limit without sharing (worst {max(bounds):.2f})", max(bounds) <= 0.5),
    ]


def certified(groups: dict[str, list[tuple[str, np.ndarray]]], seeds: Sequence[int]) -> list[bool]:
    """Whether runs that stopped by themselves are right; these seeds are used for nothing else."""
    rows, held = [], []
    for title, maps in groups.items():
        runs = [run for name, p in maps for run in until_enough(f"{name}, certified", p, seeds)]
        stops = [run[-1] for run in runs if run[-1].enough]
        right = sum(s.balanced_accuracy >= MOSTLY for s in stops)
        reached = [next((x.episodes for x in run if x.balanced_accuracy >= MOSTLY), MOST) for run in runs]
        achieved, at = float(np.median(reached)), float(np.median([s.episodes for s in stops])) if stops else np.inf
        worst = min((s.balanced_accuracy for s in stops), default=0.0)
        rows.append([title, len(runs), len(stops), right, told(achieved, MOST), told(at, MOST)])
        rows[-1] += [f"{at / achieved:.1f}", f"{worst:.3f}"]
        print("  ", *rows[-1], flush=True)
        claim = f"{title}: of {len(stops)} certified runs at least 95 % are right ({right})"
        held.append(verdict(claim, right >= 0.95 * len(stops)))
    all_runs, all_stops = (sum(row[i] for row in rows) for i in (1, 2))
    claim = f"most runs are certified within {MOST:,} episodes ({all_stops} of {all_runs})"
    held.append(verdict(claim, all_stops > all_runs / 2))
    columns = [
        "map",
        "runs",
        "certified",
        "right",
        "achieved (median)",
        "certified (median)",
        "ratio",
        "least accuracy",
    ]
    table(f"certified stop, {len(seeds)} seeds a map that were used for nothing else", columns, rows)
    return held


def main() -> bool:
    began = time.process_time()
    named = [a for a in sys.argv[1:] if not a.startswith("-")]
    parts = {
        "reference": on_reference,
        "fresh": on_fresh,
        "certified": lambda: certified(
            {name: [(name, p)] for name, p in reference().items()},
            range(1000, 1000 + asked("seeds", 2 if QUICK else 24)),
        ),
        "certified-fresh": lambda: certified(
            {kind: [m for m in fresh_maps() if m[0].startswith(kind)] for kind in KINDS},
            range(1000, 1000 + (1 if QUICK else 4)),
        ),
    }
    held = []
    for name in named or parts:
        at = time.process_time()
        held += parts[name]()
        print(f"  {time.process_time() - at:.0f} CPU seconds for {name}", flush=True)
    print(f"  {time.process_time() - began:.0f} CPU seconds")
    return all(held)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
