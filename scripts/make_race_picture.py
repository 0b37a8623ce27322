"""Race the strategies on the toy world and draw how they learn: docs/assets/race.svg and race-tube.svg.

python scripts/make_race_picture.py [--seeds 10] [--episodes 16384]      needs the extra `charts`; about a minute of CPU
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from ethogram.display.chart import CONFIG
from ethogram.questions.explore.buying.race import race
from ethogram.questions.explore.charts import learning_curves
from ethogram.worlds.toy_v1 import known_world

ASSETS = Path(__file__).parents[1] / "docs" / "assets"
STRATEGIES = ("default", "apt", "uniform", "v1", "boundary", "variance")
PICTURES = {"race.svg": "balanced_accuracy", "race-tube.svg": "tube_var_sum"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=16384)
    asked = parser.parse_args()
    began = time.process_time()
    world = known_world("toy_v1", synthetic=True)
    result = race(world, STRATEGIES, seeds=asked.seeds, max_episodes=asked.episodes)
    ASSETS.mkdir(parents=True, exist_ok=True)
    for name, metric in PICTURES.items():
        drawn = learning_curves(result.banded(metric), metric)
        drawn.spec["config"] = {**CONFIG, "background": "white"}  # a page may be dark
        drawn.save(ASSETS / name)
        print(f"wrote docs/assets/{name}")
    for s in result.standings:
        print(f"{s.strategy:10} 95 %: {s.n95}  99 %: {s.n99}  balanced {s.balanced_accuracy:.3f}")
    print(f"{asked.seeds} seeds, {result.max_episodes:,} episodes each, {time.process_time() - began:.0f} CPU seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
