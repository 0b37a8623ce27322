"""Whole experiments on the real harness with agents whose truth is known: is what is called noise noise?

Agents walk at random with randomness of their own, as outside agents do: that two attempts share a seed means nothing
to them. One ignores the file it is given, one breaks where it is damaged. `ETHOGRAM_LONG=1` takes eight times the
tasks; run with -s to read the shares.
"""

from __future__ import annotations

import math
import os
import random
from pathlib import Path
from typing import Any

import pytest

from ethogram.harness.options import RunOptions
from ethogram.plans import Task
from ethogram.questions.experiment.buying.experiment import Experiment
from ethogram.questions.experiment.records import ExperimentResults
from ethogram.store import Home

TASKS = 800 if os.environ.get("ETHOGRAM_LONG") else 100
TABLE = b"item,price\napple,3\nbread,4\nmilk,2\n"
KINDS = 8
SUITE = """
from ethogram.plans import Check, FileRef, Suite, Task
from ethogram.traces import digest

TABLE = {table!r}
SUITE = Suite(name="walks", tasks=tuple(
    Task(id=f"t{{i}}", prompt="Walk.", files={{"in.csv": FileRef("in.csv", digest("file", TABLE))}},
         expected="done", checks=(Check(kind="equals"),)) for i in range({tasks})))

def tools(task, episode):
    return {{f"way_{{i}}": lambda: "on" for i in range({kinds})}}
"""


class Walker:
    """Takes a random walk through the tools; `breaks`: gives up early where the table is damaged."""

    meters = frozenset({"steps", "tokens", "usd", "seconds"})

    def __init__(self, seed: int, breaks: bool) -> None:
        self.name = "breaking" if breaks else "ignoring"
        self._rng = random.Random(seed)
        self._breaks = breaks

    async def act(self, task: Task, episode: Any) -> Any:
        from ethogram.harness.agents import Answer

        rng = self._rng
        if self._breaks and (episode.workspace / "in.csv").read_bytes() != TABLE:
            for _ in range(3):
                episode.tools["way_0"]()
            return Answer("lost")
        at = 0
        for _ in range(max(6, round(rng.gauss(30, 4)))):
            at = (at + rng.choice((0, 1, 1, 2, 5))) % KINDS
            episode.tools[f"way_{at}"]()
        return Answer("done")


def experiment(home: Home, place: Path, *, breaks: bool, reruns: int) -> ExperimentResults:
    (place / "in.csv").write_bytes(TABLE)
    (place / "walks.py").write_text(SUITE.format(table=TABLE, tasks=TASKS, kinds=KINDS))
    return Experiment(
        suite=place / "walks.py",
        agent=Walker(7, breaks),
        operators=["row_duplicate"],
        noise_floor=reruns,
        home=home,
        run="x",
        options=RunOptions(workers=1, redact="none"),  # one by one: the walker's own randomness is in order
    ).run()


@pytest.mark.parametrize("reruns", [5, 1])
def test_an_agent_that_ignores_its_input_is_within_its_floor(home: Home, tmp_path: Path, reruns: int) -> None:
    """Within in 1 - 1/(R+1) of pairs, up to simulation error; ties of d_norm count as within, hence the upper slack.

    With a single re-run half of the pairs lie above a floor although nothing happened: that floor misleads.
    """
    found = experiment(home, tmp_path, breaks=False, reruns=reruns)
    assert len(found.pairs) == TASKS
    share = sum(bool(p.pair.within_noise_floor) for p in found.pairs) / TASKS
    truth = 1 - 1 / (reruns + 1)
    error = math.sqrt(truth * (1 - truth) / TASKS)
    print(f"R = {reruns}: {share:.3f} of {TASKS} pairs within, {truth:.3f} expected, standard error {error:.3f}")
    assert truth - 3.3 * error <= share <= truth + 0.07 + 3.3 * error
    surprising = [p.pair.tail_probability for p in found.pairs if p.pair.tail_probability is not None]
    for level in (0.2, 0.5):
        at_most = sum(p <= level for p in surprising) / TASKS
        assert at_most <= level + 3.3 * math.sqrt(level * (1 - level) / TASKS)
    assert bool(found.warnings) == (reruns == 1)
    assert found.overall.accuracy_lost.value == 0.0


def test_an_agent_that_breaks_on_damage_is_not(home: Home, tmp_path: Path) -> None:
    found = experiment(home, tmp_path, breaks=True, reruns=5)
    above = sum(p.pair.within_noise_floor is False for p in found.pairs) / TASKS
    print(f"{above:.3f} of {TASKS} pairs above the floor")
    assert above > 0.95
    assert found.overall.accuracy_lost.value == pytest.approx(1.0)
    assert found.overall.accuracy_lost.low is not None
    assert found.overall.accuracy_lost.low > 0.9
    assert found.overall.manifestations["no_observable_effect"].value == 0.0
