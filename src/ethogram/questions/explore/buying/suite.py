"""Exploring any agent on any suite: a grid point is a condition that the harness hands to the agent and its world."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.harness.agents import Agent, load_object
from ethogram.harness.options import RunOptions
from ethogram.harness.planning import agent_for, check_meters, meters_of, suite_of
from ethogram.harness.run_result import Quiet
from ethogram.harness.session import Session
from ethogram.plans import Episode, Suite, episode_seed
from ethogram.questions.explore.documents import grid_of_file
from ethogram.questions.explore.exploration import Metadata, csv_value
from ethogram.questions.explore.grid import ROUND, Grid, grid_from
from ethogram.questions.explore.point_outcomes import PointOutcomes, bought_outcomes
from ethogram.store import Home, Run, RunWriter, home_of
from ethogram.store.batch import MISSING
from ethogram.store.lake import METERS
from ethogram.suites.load import LoadedSuite
from ethogram.traces import Outcome, episode_id

from .rounds import Buyer, ExploreResult, GridTarget, RoundWatcher, explore_plan
from .start import ExplorationPlan, ExploreOptions

GridSpec = str | Path | Grid


def load_grid(spec: GridSpec) -> Grid:
    """A grid from a YAML, JSON or .npz file, or from Python (`module:name`, `file.py:name`)."""
    if isinstance(spec, Grid):
        return spec
    path = Path(spec)
    if path.suffix in (".yaml", ".yml", ".json", ".npz"):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise NotFound(
                f"no grid at {spec}; name a YAML, JSON or .npz file, or module:name", where=str(spec), what="grid"
            ) from None
        except IsADirectoryError:
            raise BadInput(f"{spec} is a folder, not a grid; name a file in it", where=str(spec)) from None
        return grid_of_file(data, str(spec)) if path.suffix == ".npz" else _written(data, str(spec))
    found = load_object(str(spec))
    found = found() if callable(found) and not isinstance(found, Grid) else found
    if not isinstance(found, Grid):
        raise BadInput(
            f"{spec} is not a grid but a {type(found).__name__}; make one with ethogram.questions.explore.grid",
            where=str(spec),
        )
    return found


def _written(data: bytes, where: str) -> Grid:
    """A grid that was written as YAML or JSON."""
    import yaml

    try:
        return grid_from(yaml.safe_load(data.decode()), where)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        told = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise BadInput(f"the grid {where} cannot be read{line}: {told}; fix the file", where=f"{where}{line}") from None


def explore_suite(
    suite: str | Path | Suite,
    agent: str | Agent | Callable[..., Any] | None,
    grid: GridSpec | None,
    options: ExploreOptions | None = None,
    *,
    running: RunOptions | None = None,
    home: Home | str | None = None,
    progress: RoundWatcher | None = None,
) -> ExploreResult:
    """Explore an agent over a grid of conditions: `explore_suite("suite/", "agent.py:solve", "grid.yaml")`.

    `running` says how episodes are run (caps, environment); engine, workers and seed are those of `options`.
    """
    if agent is None or grid is None:
        raise BadUsage(
            "exploring a suite needs an agent and a grid: explore(suite, agent=…, grid=…), or "
            "ethogram explore SUITE --agent AGENT --grid FILE"
        )
    options = options or ExploreOptions()
    lake = home_of(home)
    running = msgspec.structs.replace(
        running or RunOptions(), engine=options.engine, workers=max(options.workers, 1), seed=options.seed
    ).resolved()
    loaded, acting, chosen = suite_of(suite), agent_for(agent, running), load_grid(grid)
    spec = agent if isinstance(agent, str) else acting.name
    check_meters(acting, running, loaded.suite)
    plan = ExplorationPlan(
        grid=chosen,
        world=loaded.suite.name,
        synthetic=False,
        truth=None,
        settings={"suite_digest": loaded.suite.digest, "agent": spec},
        tasks=tuple(t.id for t in loaded.suite.tasks),
        success_at=loaded.suite.success_at,
        record={
            "success_at": loaded.suite.success_at,
            "suite": loaded.suite.name if isinstance(suite, Suite) else str(suite),
            "agent": spec,
            METERS: sorted(meters_of(acting, running)),
        },
    )

    def buyer(run: Run, metadata: Metadata, writer: RunWriter) -> Buyer:
        return SuiteBuyer(lake, run, writer, loaded, acting, spec, chosen, metadata, running)

    return explore_plan(plan, options, buyer, home=lake, watch=progress)


class SuiteRows:
    """Lines of `agent_results.csv` for episodes of a suite."""

    def __init__(self, buyer: SuiteBuyer) -> None:
        names = buyer.grid.names
        self.columns = ("round_id", "grid_idx", "episode_idx", "episode_seed", "success", "task", "attempt", *names)
        self._buyer = buyer

    def __call__(self, identity: str, bought: PointOutcomes) -> Iterable[str]:
        """One line per episode; a missing outcome leaves `success` empty."""
        tail = ",".join(csv_value(v) for v in self._buyer.grid.settings(bought.point).values())
        for i, letter in enumerate(bought.outcomes):
            episode = self._buyer.episode(bought.point, bought.first + i)
            success = letter.strip(MISSING)
            yield f"{identity},{bought.point},{i},{episode.seed},{success},{episode.task},{episode.attempt},{tail}"


class SuiteBuyer:
    """Buys episodes from the harness. Attempts at a point are numbered over all rounds; tasks take turns."""

    def __init__(
        self,
        home: Home,
        run: Run,
        writer: RunWriter,
        loaded: LoadedSuite,
        agent: Agent,
        spec: str,
        grid: Grid,
        metadata: Metadata,
        options: RunOptions,
    ) -> None:
        """`writer` commits the plan of a round; `spec` names the agent for engines elsewhere."""
        self.grid = grid
        self.rows = SuiteRows(self)
        self.stopped: str | None = None
        self._home, self._run, self._writer, self._loaded, self._agent = home, run, writer, loaded, agent
        self._spec, self._metadata, self._options = spec, metadata, options
        self._tasks = metadata.tasks

    def episode(self, point: int, number: int) -> Episode:
        """The n-th episode at a point. The point is part of the seed: neighbours must not share their luck."""
        task = self._tasks[number % len(self._tasks)]
        attempt = number // len(self._tasks)
        condition = self.grid.condition(point).name
        return Episode(
            id=episode_id("explore", self._metadata.run_uuid, condition, task, str(attempt)),
            task=task,
            agent=self._agent.name,
            attempt=attempt,
            seed=episode_seed(f"{self._metadata.run_uuid}:{point}", task, attempt),
            condition=condition,
        )

    def buy(self, number: int, wanted: Sequence[GridTarget]) -> list[PointOutcomes]:
        """Run what the ledger lacks, once it holds the plan; then read the outcomes of all from it."""
        self._writer.commit()
        plan = {t: [self.episode(t.point, t.first + i) for i in range(t.episodes)] for t in wanted}
        self._run.forget_cache()
        self._execute(number, [e for episodes in plan.values() for e in episodes], [t.point for t in wanted])
        self._run.forget_cache()
        outcomes: dict[str, Outcome] = {e.head.episode: e.head.outcome for e in self._run.entries}
        whole = {t: episodes for t, episodes in plan.items() if all(e.id in outcomes for e in episodes)}
        return [
            bought_outcomes(number, t.point, t.first, [outcomes[e.id] for e in episodes], self._run.success_at)
            for t, episodes in whole.items()
        ]

    def foresee(self, number: int, wanted: Sequence[GridTarget]) -> None:
        """Episodes cost money: none is run before its round begins."""

    def close(self) -> None:
        """Nothing is held between rounds."""

    def _execute(self, number: int, episodes: Sequence[Episode], points: Sequence[int]) -> None:
        conditions = tuple(self.grid.condition(p) for p in points)
        facts = {**self._options.meta, ROUND: number}
        options = msgspec.structs.replace(self._options, conditions=conditions, meta=facts)
        session = Session(self._home, self._run, self._loaded, self._agent, self._spec, options)
        result = session.go(episodes, (), Quiet())
        result.check_caps_kept()
        self.stopped = "budget" if result.stopped == "cap.experiment" else result.stopped
