"""Draw the map of a stored exploration of worlds/corner: docs/assets/explore-local-model.svg.

python scripts/make_corner_picture.py [RUN] [--home HOME]        needs the extra `charts`; docs/guide/explore.md says
                                                                 how the run is made
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ethogram.display.chart import CONFIG, Chart
from ethogram.questions.explore.charts import rate_map
from ethogram.questions.explore.maps import ExplorationMap, map_exploration

ASSETS = Path(__file__).parents[1] / "docs" / "assets"
X, Y, SIDE = "temperature", "busy", "other_tools"


def draw(found: ExplorationMap) -> Chart:
    """One map for each value of the third parameter, side by side."""
    sides = []
    for value in found.parameters[SIDE]:
        rows = [
            {"x": p.settings[X], "y": p.settings[Y], "rate": p.rate.value, "low": p.rate.low, "high": p.rate.high}
            | {"verdict": p.verdict}
            for p in found.points
            if p.settings[SIDE] == value
        ]
        spec = rate_map(rows, X, Y, [found.parameters[X], found.parameters[Y]], "").spec
        kept = {k: v for k, v in spec.items() if k not in ("$schema", "config", "description")}
        sides.append({**kept, "title": f"{SIDE} {value}"})
    words = f"failure rate of the local model's agent, its 95 % interval, and the verdict at tau {found.tau:g}"
    return Chart({"hconcat": sides, "config": {**CONFIG, "background": "white"}}, words)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="?", default="corner")
    parser.add_argument("--home", default=None)
    asked = parser.parse_args()
    found = map_exploration(asked.run, home=asked.home)
    ASSETS.mkdir(parents=True, exist_ok=True)
    draw(found).save(ASSETS / "explore-local-model.svg")
    print("wrote docs/assets/explore-local-model.svg")
    print(found.established)
    return 0


if __name__ == "__main__":
    sys.exit(main())
