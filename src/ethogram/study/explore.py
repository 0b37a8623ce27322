"""Exploration: propose, run, store, decide, again, until enough is known or the budget ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from ethogram.decide.acquire import EPISODES_PER_UNIT
from ethogram.decide.explore import (
    Problem,
    Progress,
    Proposal,
    StopRule,
    Strategy,
    Tally,
    is_enough,
    problem_of,
    progress,
)
from ethogram.decide.strategies import SEEDS_OWN, make_strategy
from ethogram.decide.strategies import Rounds as Sizes
from ethogram.decide.tube import against_truth, certainty, established, tube_metrics, tube_status
from ethogram.errors import BadInput, BadUsage, Locked, NotFound
from ethogram.lab.exploration import (
    BATCHES,
    Batch,
    Counts,
    Metadata,
    PlanSize,
    RoundMetrics,
    add_up,
    round_id,
    same_grid,
)
from ethogram.lab.result import Result
from ethogram.plan.grid import Grid
from ethogram.store import Home, Run, RunWriter, open_home
from ethogram.store.files import LocalFiles
from ethogram.store.lake import SCHEMA_VERSION, RunInfo, info_digest
from ethogram.store.redact import Policy
from ethogram.store.stop import pulled, release

from .explore_v1 import RoundsWriter, Rows, check_same, derived_uuid, plan_record, results_csv, round_rng

USUAL_ROUNDS = 5
"""Additional rounds of the first version's strategies when none are named."""
SEED_MODES = ("increment", "fixed")


class ExploreOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to explore. `rounds` are additional ones; `until_round` is where to end, whatever was done before."""

    strategy: str = "default"
    rounds: int | None = None
    until_round: int | None = None
    max_episodes: int | None = None
    seed: int = 12345
    seed_mode: str = "increment"
    run_uuid: str | None = None
    targets_per_round: int = 64
    episodes_per_budget_unit: int = 1
    tau: float = 0.2
    zone: float = 0.02
    level: float = 0.95
    stop: StopRule | None = None
    engine: str = "local"
    workers: int = 1
    trace: bool = False
    name: str | None = None
    run_dir: str | None = None


class ExploreResult(Result, kw_only=True):
    """What an exploration found. `metrics` is the last round's `metrics.json`, `summary` the rows of `summary.csv`."""

    run: str
    run_dir: str
    run_uuid: str
    world: str
    strategy: str
    points: int
    rounds: int
    new_rounds: int
    episodes: int
    stopped: str
    enough: bool
    established: str
    metrics: RoundMetrics
    summary: list[dict[str, Any]]

    def rows(self) -> list[dict[str, Any]]:
        """One row per round."""
        return self.summary


class Buyer(Protocol):
    """Buys the episodes of a round, and writes them as lines of a table."""

    @property
    def rows(self) -> Rows:
        """Makes lines of `agent_results.csv`."""
        ...

    @property
    def stopped(self) -> str | None:
        """Why nothing more can be bought, if that is so."""
        ...

    def buy(self, number: int, wanted: Sequence[tuple[int, int]]) -> Iterator[list[Batch]]:
        """Batches as they come in, for targets (point, episodes); fewer if it was told to stop."""
        ...

    def close(self) -> None:
        """Let go of whatever was held."""
        ...


Watch = Callable[[RoundMetrics], None]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """An exploration, made ready: its question and its place."""

    grid: Grid
    world: str
    synthetic: bool
    truth: Any
    """Known rates of all points, or None."""
    settings: dict[str, Any] = {}
    """What must be the same when the exploration is resumed."""
    record: dict[str, Any] = {}
    """What else `run.json` keeps."""


def explore_plan(
    plan: Plan,
    options: ExploreOptions,
    make_buyer: Callable[[Run, Metadata, RunWriter], Buyer],
    *,
    home: Home | str | None = None,
    watch: Watch | None = None,
) -> ExploreResult:
    """Explore, or go on exploring what was begun at the same place."""
    _check(options)
    lake = home if isinstance(home, Home) else open_home(home)
    problem = problem_of(plan.grid, options.tau, options.zone)
    strategy = make_strategy(options.strategy, problem, _sizes(options))
    asked = _metadata(plan, options)
    run = _open_run(lake, options, asked, plan.record)
    rounds = RoundsWriter(run)
    metadata = _begin(rounds, plan, asked, options)
    if run.busy():
        raise Locked(f"{run.name!r} is being explored by another process; wait for it, or stop it first")
    release(run.files, run.path)
    with run.writer(lake.redactor(Policy(kinds=())), seal=False, window=None) as writer:
        buyer = make_buyer(run, metadata, writer)
        try:
            explorer = _Explorer(rounds, metadata, strategy, problem, plan, buyer, writer, options)
            explorer.catch_up()
            return explorer.go(watch or (lambda metrics: None))
        finally:
            buyer.close()


class _Explorer:
    """One session of an exploration."""

    def __init__(
        self,
        rounds: RoundsWriter,
        metadata: Metadata,
        strategy: Strategy,
        problem: Problem,
        plan: Plan,
        buyer: Buyer,
        writer: RunWriter,
        options: ExploreOptions,
    ) -> None:
        self.rounds, self.metadata, self.strategy, self.problem = rounds, metadata, strategy, problem
        self.plan, self.buyer, self.writer, self.options = plan, buyer, writer, options
        self.tally = Tally.empty(problem.points)
        self.done: list[RoundMetrics] = []
        self.seen: list[Progress] = []
        self.pending: dict[int, Batch] = {}
        self.bought = 0

    def catch_up(self) -> None:
        """Posteriors from the committed rounds; the strategy sees every tally that it saw before."""
        self.done = self.rounds.committed()
        batches = self.rounds.batches()
        for metrics in self.done:
            part = self._recorded(metrics.round_num, batches)
            self._take_in(part)
        going = len(self.done) + 1
        self.pending = {point: batch for (number, point), batch in batches.items() if number == going}
        self.rounds.check_posteriors(self.tally, self._ahead)
        self.rounds.publish_posteriors(self.tally, self.metadata.run_uuid, self.plan.grid.version)
        if self.done:
            self.rounds.conclude(self.done)

    def _recorded(self, number: int, batches: dict[tuple[int, int], Batch]) -> list[Batch]:
        targets = self.rounds.plan(number, self.metadata.run_uuid)
        try:
            return [batches[number, int(point)] for point in targets.points]
        except KeyError:
            from ethogram.errors import Damaged

            raise Damaged(
                f"round {number} of {self.rounds.run.name!r} is committed but its outcomes are not all in the ledger; "
                "run: ethogram verify"
            ) from None

    def _ahead(self) -> Tally | None:
        return add_up(self.tally, self.pending.values()) if self.pending else None

    def _take_in(self, part: Iterable[Batch]) -> None:
        part = list(part)
        self.tally = add_up(self.tally, part)
        self.bought += sum(len(b.outcomes) for b in part)
        self.strategy.look(self.tally)
        self.seen.append(progress(self.strategy.posterior(), self.tally, self.options.level))

    def go(self, watch: Watch) -> ExploreResult:
        """Round after round."""
        began = len(self.done)
        last = self.options.until_round
        asked = self.options.rounds
        if asked is None and self.options.max_episodes is None and _stop_rule(self.options) is None:
            asked = USUAL_ROUNDS  # nothing else would ever end it
        if last is None and asked is not None:
            last = began + asked
        while (stopped := self._why_stop(last)) is None:
            number = len(self.done) + 1
            proposal = self._proposal(number)
            identity = round_id(number, self.metadata.run_uuid)
            part = self._buy(number, identity, proposal)
            if part is None:
                stopped = self.buyer.stopped or "killed"
                break
            scored = self.tally.spent
            self._take_in(part)
            metrics = self._metrics(number, identity, part)
            results = results_csv(identity, self.buyer.rows, part)
            self.rounds.commit(metrics, results, self.tally, self.plan.grid.version, self.done)
            self.done.append(metrics)
            self.pending = {}
            watch(metrics)
            if self.tally.spent == scored:
                stopped = "no outcomes"
                break
            if self.buyer.stopped is not None:
                stopped = self.buyer.stopped
                break
        return self._result(stopped, len(self.done) - began)

    def _why_stop(self, last: int | None) -> str | None:
        if self.options.max_episodes is not None and self.bought >= self.options.max_episodes:
            return "budget"
        if last is not None and len(self.done) >= last:
            return "rounds"
        if pulled(self.rounds.run.files, self.rounds.run.path) is not None:
            return "killed"
        rule = _stop_rule(self.options)
        if rule is not None and is_enough(rule, self.seen, self.problem.points):
            return "enough"
        return None

    def _proposal(self, number: int) -> Proposal:
        """What was begun is finished as it was planned; else what the strategy proposes, within the budget."""
        if self.pending:
            return self.rounds.plan(number, self.metadata.run_uuid)
        proposal = self.strategy.propose(round_rng(self.metadata.run_uuid, number))
        most = self.options.max_episodes
        if most is not None and proposal.budget > most - self.bought:
            before = np.cumsum(proposal.episodes) - proposal.episodes
            episodes = np.clip(most - self.bought - before, 0, proposal.episodes)
            proposal = Proposal(proposal.points[episodes > 0], episodes[episodes > 0])
        return proposal

    def _buy(self, number: int, identity: str, proposal: Proposal) -> list[Batch] | None:
        """The batches of a round in the order of its plan; None if the kill switch was pulled in between."""
        seed = self.metadata.base_seed + (number - 1 if self.metadata.seed_mode == "increment" else 0)
        pre = {"round_id": identity, "round_num": number, "run_uuid": self.metadata.run_uuid, "seed": seed}
        more = {"mode": self.metadata.mode, "use_synthetic": self.metadata.synthetic}
        facts = {"strategy": self.options.strategy, "tau": self.problem.tau, "seed": seed}
        self.rounds.start({**pre, **more}, plan_record(identity, proposal, facts))
        wanted = [
            (int(point), int(count))
            for point, count in zip(proposal.points, proposal.episodes, strict=True)
            if int(point) not in self.pending
        ]
        for group in self.buyer.buy(number, wanted):
            self.writer.note(BATCHES, [msgspec.json.encode(batch) for batch in group])
            self.writer.commit()
            self.pending.update((batch.point, batch) for batch in group)
            if pulled(self.rounds.run.files, self.rounds.run.path) is not None:
                break
        if any(int(point) not in self.pending for point in proposal.points):
            return None
        return [self.pending[int(point)] for point in proposal.points]

    def _metrics(self, number: int, identity: str, part: list[Batch]) -> RoundMetrics:
        before = self.done[-1].tube.tube_var_sum if self.done else None
        baseline = self.done[0].tube.tube_var_sum if self.done else None
        tube = tube_metrics(self.tally, self.problem.tau, before, baseline)
        posterior = self.strategy.posterior()
        level, truth = self.options.level, self.plan.truth
        bought = sum(len(b.outcomes) for b in part)
        missing: dict[str, int] = dict(self.done[-1].counts.missing) if self.done else {}
        for batch in part:
            for reason, count in batch.missing.items():
                missing[reason] = missing.get(reason, 0) + count
        return RoundMetrics(
            round_id=identity,
            round_num=number,
            run_uuid=self.metadata.run_uuid,
            seed=self.metadata.base_seed + (number - 1 if self.metadata.seed_mode == "increment" else 0),
            status=tube_status(tube),
            tube=tube,
            counts=Counts(
                sampled_points_new=len(part),
                sampled_points_total=int((self.tally.n > 0).sum()),
                trajectories_new=bought,
                trajectories_total=self.tally.spent,
                missing=missing,
            ),
            plan=PlanSize(targets_selected=len(part), total_budget=bought),
            certainty=certainty(posterior, self.tally, self.problem, level),
            truth=None if truth is None else against_truth(posterior, truth, self.problem, level),
        )

    def _result(self, stopped: str, new: int) -> ExploreResult:
        if not self.done:
            raise BadUsage("no round was run; ask for at least one with --rounds or --until-round")
        last, run = self.done[-1], self.rounds.run
        rule = _stop_rule(self.options) or StopRule(level=self.options.level)
        return ExploreResult(
            run=run.name,
            run_dir=f"{run.files.address.rstrip('/')}/{run.path}",
            run_uuid=self.metadata.run_uuid,
            world=self.metadata.world,
            strategy=self.metadata.strategy,
            points=self.problem.points,
            rounds=len(self.done),
            new_rounds=new,
            episodes=last.counts.trajectories_total,
            stopped=stopped,
            enough=is_enough(rule, self.seen, self.problem.points),
            established=established(last.certainty, self.problem.points, self.problem.tau),
            metrics=last,
            summary=self.rounds.summary(self.done),
        )


def _check(options: ExploreOptions) -> None:
    if options.seed_mode not in SEED_MODES:
        raise NotFound.named("seed mode", options.seed_mode, list(SEED_MODES))
    for name in ("targets_per_round", "episodes_per_budget_unit", "workers"):
        if getattr(options, name) < 1:
            raise BadUsage(f"--{name.replace('_', '-')} must be at least 1, not {getattr(options, name)}")
    for name in ("rounds", "until_round", "max_episodes"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise BadUsage(f"--{name.replace('_', '-')} must be at least 1, not {value}")
    if not 0 < options.tau < 1 or not 0 <= options.zone < min(options.tau, 1 - options.tau):
        raise BadUsage(f"tau must lie between 0 and 1 and the zone within it, not {options.tau} ± {options.zone}")
    if not 0.5 < options.level < 1:
        raise BadUsage(f"the level must lie between 0.5 and 1, not {options.level}")


def _sizes(options: ExploreOptions) -> Sizes:
    """Rounds of the first version are fixed; others grow with what was spent."""
    unit = EPISODES_PER_UNIT * options.episodes_per_budget_unit
    if options.strategy in SEEDS_OWN:
        return Sizes(targets=options.targets_per_round, episodes=unit)
    return Sizes(targets=options.targets_per_round)


def _stop_rule(options: ExploreOptions) -> StopRule | None:
    if options.stop is not None or options.strategy in SEEDS_OWN:
        return options.stop
    return StopRule(level=options.level)


def _metadata(plan: Plan, options: ExploreOptions) -> Metadata:
    import time

    return Metadata(
        run_uuid=options.run_uuid or derived_uuid(options.seed),
        base_seed=options.seed,
        seed_mode=options.seed_mode,
        world=plan.world,
        synthetic=plan.synthetic,
        strategy=options.strategy,
        grid=plan.grid,
        grid_digest=plan.grid.digest,
        tau=options.tau,
        zone=options.zone,
        level=options.level,
        targets_per_round=options.targets_per_round,
        episodes_per_budget_unit=options.episodes_per_budget_unit,
        settings=plan.settings,
        created_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )


def _open_run(lake: Home, options: ExploreOptions, metadata: Metadata, record: dict[str, Any]) -> Run:
    """The run's directory: a place of the user's choice, or a name in the home."""
    about = {"world": metadata.world, "strategy": metadata.strategy, "run_uuid": metadata.run_uuid}
    facts = {**record, "explore": about}
    if options.run_dir is None:
        name = options.name or f"explore-{metadata.world}-{metadata.strategy}-{metadata.run_uuid[:8]}"
        name = "".join(c if c.isalnum() or c in "._-" else "-" for c in name)[:100]
        if name in lake.names() and lake.files.exists(f"runs/{name}/run.json"):
            found = lake.run(name)
            if found.info.kind != "explore":
                raise BadUsage(f"a run named {name!r} exists already and is no exploration; choose another name")
            return found
        return lake.create(name, "explore", plan=facts)
    place = Path(options.run_dir).absolute()
    files = LocalFiles(place.parent)
    if not files.exists(f"{place.name}/run.json"):
        from ethogram import __version__

        info = RunInfo(
            schema_version=SCHEMA_VERSION,
            name=place.name,
            kind="explore",
            created_ns=_now_ns(),
            version=__version__,
            plan=facts,
        )
        info = msgspec.structs.replace(info, digest=info_digest(msgspec.json.encode(info)))
        files.create(f"{place.name}/run.json", msgspec.json.format(msgspec.json.encode(info)))
    return Run(files, place.name, lake.keys)


def _begin(rounds: RoundsWriter, plan: Plan, asked: Metadata, options: ExploreOptions) -> Metadata:
    """Begin, or make sure that what was begun here is the same exploration."""
    stored_grid = rounds.grid_file()
    if stored_grid is not None and not same_grid(stored_grid, plan.grid):
        raise BadInput(
            f"grid.npz of {rounds.run.name!r} is not the grid of this exploration; restore it, or choose another "
            "directory"
        )
    old = rounds.metadata()
    if old is None:
        if rounds.run.files.names(f"{rounds.run.path}/rounds"):
            raise BadInput(
                f"{rounds.run.name!r} has rounds but no run_metadata.json; restore it, or choose another directory"
            )
        rounds.begin(asked, plan.grid)
        return asked
    check_same(old, asked, rounds.run.name, options.run_uuid is not None)
    if old.run_uuid != asked.run_uuid and options.run_uuid is None and options.seed != old.base_seed:
        raise BadUsage(
            f"{rounds.run.name!r} was begun with --seed {old.base_seed}, not {options.seed}; go on as it was, or "
            "choose another directory"
        )
    return old


def _now_ns() -> int:
    import time

    return time.time_ns()
