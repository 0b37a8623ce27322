"""Claims: v1 explores no slower than a plain Python loop of the same definition, ledger and files included, and bit for
bit the same; at least half of the 64 000 episodes per second that it had before its episodes went through an engine and
the ledger; nearly twice as fast with two workers, where a world plays its episodes one by one. One round of the default takes less than 20 ms at 1 024 points and less
than 0.5 s at 100 000.

`--before PATH` names the `src` of an earlier version: both explore in turn, and this one must keep half of its rate."""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, child, cpu, new_home, table, verdict

import ethogram
from ethogram.questions.explore.buying.start import ExploreOptions
from ethogram.questions.explore.buying.world import begin_exploration
from ethogram.questions.explore.problem import Problem, Tally
from ethogram.questions.explore.strategies import RoundSizes, make_strategy
from ethogram.questions.explore.surface import Axis
from ethogram.worlds.toy_v1 import ToyWorld, play, play_synthetic, v1_grid

TARGETS = 16 if QUICK else 64
BEFORE = 64_000
"""Episodes of the real toy world per second, when its outcomes were notes beside the ledger."""


def plain_loop(uuid: str, synthetic: bool) -> list[int]:
    """The definition, one episode after the other; no files."""
    grid, world = v1_grid(), ToyWorld(synthetic)
    found = []
    for point in range(TARGETS):
        settings = world.settings(grid.settings(point))
        for i in range(256):
            seed = int.from_bytes(blake2b(f"{uuid}:1:{point}:{i}".encode(), digest_size=8).digest(), "little")
            found.append(int(play_synthetic(settings, seed) if synthetic else play(settings, seed)))
    return found


class OneByOne(ToyWorld, frozen=True):
    """The toy world without its arithmetic on arrays: its episodes are played one after the other, as most worlds do."""

    def episodes(self, given: Mapping[str, Any], seeds: Sequence[int]) -> np.ndarray:
        settings = self.settings(given)
        return np.array([play(settings, int(seed)) for seed in seeds])


def ours(world: ToyWorld, workers: int, rounds: int = 1, targets: int = TARGETS) -> tuple[list[int], float]:
    with tempfile.TemporaryDirectory() as folder:
        options = ExploreOptions(
            strategy="v1",
            rounds=rounds,
            run_uuid="bench",
            run_dir=f"{folder}/r",
            targets_per_round=targets,
            workers=workers,
        )
        began = time.perf_counter()
        begin_exploration(world, options, home=new_home(Path(folder) / "home"))
        wall = time.perf_counter() - began
        text = (next(Path(folder).glob("r/rounds/R0001*")) / "agent_results.csv").read_text().splitlines()[1:]
        return [int(line.split(",")[4]) for line in text], wall


def episodes() -> list[bool]:
    rows, held = [], []
    count = TARGETS * 256
    for synthetic in (True, False):
        theirs, plain = cpu(lambda: plain_loop("bench", synthetic), 1)
        mine, (found, _) = cpu(lambda: ours(ToyWorld(synthetic), 1), 5)
        kind = "synthetic" if synthetic else "real"
        rows.append([kind, count / theirs, count / mine, theirs / mine, "yes" if found == plain else "NO"])
        held.append(
            verdict(
                f"{kind}: no slower than the plain loop ({theirs / mine:.1f}×), bit for bit the same",
                theirs >= mine and found == plain,
            )
        )
    claim = f"real: at least half of {BEFORE:,} episodes per CPU second ({count / mine:,.0f})"
    held.append(verdict(claim, count / mine >= BEFORE / 2))
    table("episodes per CPU second, ledger and files included", ["world", "plain loop", "ours", "ratio", "same"], rows)
    return held


RATE = """
import sys, tempfile, time
from pathlib import Path
from ethogram.questions.explore.buying import world as explore_world
from ethogram.questions.explore.buying.rounds import ExploreOptions
from ethogram.worlds.toy_v1 import ToyWorld

begin_exploration = getattr(explore_world, "begin_exploration", explore_world.explore)  # its name in earlier versions

def rate(synthetic, rounds):
    with tempfile.TemporaryDirectory() as folder:
        options = ExploreOptions(strategy="v1", rounds=rounds, run_uuid="bench", run_dir=f"{folder}/r")
        began = time.process_time()
        begin_exploration(ToyWorld(synthetic), options, home=f"{folder}/home")
        return rounds * 16384 / (time.process_time() - began)

rate(True, 1)
OUT = {kind: max(rate(kind == "synthetic", 2) for _ in range(3)) for kind in ("synthetic", "real")}
"""


def before(source: str) -> list[bool]:
    """Episodes per CPU second of an earlier version and of this one, in turn; the best of each."""
    best: dict[str, dict[str, float]] = {"earlier": {}, "now": {}}
    paths = {"earlier": source, "now": str(Path(ethogram.__file__).parents[1])}
    for _ in range(1 if QUICK else 3):
        for side, path in paths.items():
            found = child(f"import sys; sys.path.insert(0, {path!r})\n{RATE}")
            best[side] = {k: max(found[k], best[side].get(k, 0.0)) for k in ("synthetic", "real")}
    kinds = ("synthetic", "real")
    ratios = {k: best["now"][k] / best["earlier"][k] for k in kinds}
    table(
        "episodes per CPU second",
        ["world", "earlier", "now", "ratio"],
        [[k, best["earlier"][k], best["now"][k], ratios[k]] for k in kinds],
    )
    return [verdict(f"{k}: at least half of the earlier rate ({ratios[k]:.2f}×)", ratios[k] >= 0.5) for k in kinds]


def workers() -> list[bool]:
    """Wall time, the best of a few turns: other load of the machine is in every one of them."""
    rounds, walls, found = (4, 2, []) if QUICK else (10, 4, [])
    best = {1: float("inf"), 2: float("inf")}
    left = 0.0
    for _ in range(walls):
        for count in best:
            before = time.process_time()
            results, wall = ours(OneByOne(), count, rounds, 64)
            left = time.process_time() - before
            best[count] = min(best[count], wall)
            found.append(results)
    ratio = best[1] / best[2]
    print(
        f"  {rounds * 16384:,} real episodes, played one by one: one process {best[1]:.2f} s wall; two workers {best[2]:.2f} s, their start "
        f"included, with {left:.2f} s CPU in the driver; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    claim = f"two workers at least 1.6 times as fast as one ({ratio:.2f}×), bit for bit the same"
    return [verdict(claim, ratio >= 1.6 and all(f == found[0] for f in found))]


def rounds() -> list[bool]:
    rows, held = [], []
    for axes, most, sampled in (((4,) * 5, 0.020, 900), ((10,) * 5, 0.5, 4000), ((10,) * 5, 0.5, 20000)):
        levels = np.array(list(itertools.product(*(range(a) for a in axes))), dtype=np.int64)
        problem = Problem(levels, tuple(Axis(a, True) for a in axes), 0.2, 0.02)
        rng = np.random.default_rng(0)
        truth = 1 / (1 + np.exp(-(levels / np.array(axes) @ np.array([3.0, 2, 1, 0, 0]) - 4)))
        n = np.zeros(len(levels), dtype=np.int64)
        n[rng.permutation(len(levels))[:sampled]] = 2
        strategy = make_strategy("default", problem, RoundSizes())
        began = time.process_time()
        strategy.look(Tally(n, rng.binomial(n, truth)))
        first = time.process_time() - began
        times = []
        for _ in range(3 if QUICK else 8):
            began = time.process_time()
            proposal = strategy.propose(rng)
            n = n.copy()
            n[proposal.points] += proposal.episodes
            strategy.look(Tally(n, rng.binomial(n, truth)))
            times.append(time.process_time() - began)
        rows.append([len(levels), int((n > 0).sum()), first, float(np.median(times)) * 1000, min(times) * 1000])
        held.append(
            verdict(
                f"a round at {len(levels):,} points, {sampled:,} sampled, under {most * 1000:.0f} ms ({1000 * np.median(times):.1f} ms)",
                np.median(times) < most,
            )
        )
    table(
        "one round of the default (propose and look), CPU",
        ["points", "sampled", "first look with kernel search, s", "median ms", "least ms"],
        rows,
    )
    return held


def main() -> bool:
    earlier = before(sys.argv[sys.argv.index("--before") + 1]) if "--before" in sys.argv else []
    return all([*earlier, *episodes(), *workers(), *rounds()])


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
