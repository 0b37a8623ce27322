"""Grid worlds behind the engines' port: the same batches from this process and from others, stopped and retried."""

from __future__ import annotations

from typing import Any

import pytest

from ethogram.errors import BadInput
from ethogram.harness.engines.local import LocalEngine
from ethogram.harness.faults import NetworkFault
from ethogram.plans import episode_seed
from ethogram.questions.explore.buying.grid import Cores, GridExecutor, GridReport, GridWork, grid_engine, play_batch
from ethogram.worlds.toy_v1 import ToyWorld, play, v1_grid


def works(count: int, episodes: int = 40) -> list[GridWork]:
    grid = v1_grid()
    return [
        GridWork(run_uuid="u", round=2, point=17 * i, settings=grid.settings(17 * i), count=episodes, first=8)
        for i in range(count)
    ]


def test_a_work_item_becomes_one_batch() -> None:
    work, world = works(3)[2], ToyWorld()
    batch = play_batch(world, work).batch
    assert (batch.task, batch.first, len(batch), batch.by) == ("g0034", 8, 40, "toy_v1")
    assert batch.meta == {**v1_grid().settings(34), "round_num": 2}
    assert batch.seed_list() == [episode_seed("u:2", "34", i) for i in range(40)]
    settings = world.settings(work.settings)
    assert batch.outcomes == "".join(str(int(play(settings, seed))) for seed in batch.seed_list() if seed is not None)
    assert batch.id == work.id


@pytest.mark.parametrize("processes", [1, 2])
def test_every_engine_plays_the_same_batches(processes: int) -> None:
    world = ToyWorld()
    cores = Cores(world, processes) if processes > 1 else None
    engine = grid_engine(world, "local", cores)
    done: list[GridReport] = []
    try:
        engine.run(works(6)[:3], done.append, lambda: False)
        if cores is not None:
            cores.begin(works(6)[4])  # played ahead, reported when it is asked for
        engine.run(works(6)[3:], done.append, lambda: False)
    finally:
        engine.close()
    found = {report.work.id: report.played for report in done}
    assert len(done) == 6
    assert found == {work.id: play_batch(world, work) for work in works(6)}


def test_nothing_begins_after_a_stop() -> None:
    done: list[GridReport] = []
    engine = LocalEngine(GridExecutor(ToyWorld()), 1)
    engine.run(works(5), done.append, lambda: len(done) >= 2)
    assert [report.work.point for report in done] == [0, 17]


class Unsteady(ToyWorld, frozen=True):
    """A world whose network is down for the first tries, and a crash of its own at one point."""

    failures: list[int] = []

    def episodes(self, given: Any, seeds: Any) -> Any:
        """Fail, then play."""
        if given["memory_tokens"] == 32:
            raise ZeroDivisionError("a mistake of the world")
        if self.failures:
            self.failures.pop()
            raise NetworkFault("the line is dead")
        return super().episodes(given, seeds)


def test_the_worlds_faults_are_retried_and_its_mistakes_are_raised() -> None:
    done: list[GridReport] = []
    for failures in ([0, 0], [0, 0, 0]):
        LocalEngine(GridExecutor(Unsteady(failures=failures)), 1).run(works(1), done.append, lambda: False)
    assert done[0].played == play_batch(ToyWorld(), works(1)[0])
    assert (done[1].played.batch.outcomes, done[1].played.batch.missing) == ("-" * 40, "infrastructure.network")
    with pytest.raises(
        BadInput, match=r"the world toy_v1 raised ZeroDivisionError: a mistake of the world \(.*in epis"
    ):
        LocalEngine(GridExecutor(Unsteady()), 1).run(works(2)[1:], done.append, lambda: False)
