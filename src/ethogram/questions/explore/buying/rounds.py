"""Exploration: propose, run, store, decide, again, until enough is known or the budget ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ethogram.display import Presentation
from ethogram.errors import BadUsage, EthogramError, Locked
from ethogram.questions.explore.acquisition import next_round
from ethogram.questions.explore.certificate import Certificate, certificate
from ethogram.questions.explore.exploration import Counts, Metadata, PlanSize, RoundMetrics, add_up, round_id
from ethogram.questions.explore.files_v1 import ResultRows, RoundsWriter, results_csv, round_rng, round_seed
from ethogram.questions.explore.point_outcomes import PointOutcomes
from ethogram.questions.explore.problem import (
    ExploreProgress,
    Problem,
    Proposal,
    StopRule,
    Strategy,
    Tally,
    is_enough,
    problem_of,
    progress,
)
from ethogram.questions.explore.strategies import make_strategy
from ethogram.questions.explore.tube import against_truth, certainty, established, tube_metrics, tube_status
from ethogram.result import Result
from ethogram.store import Home, Run, RunWriter, compact, home_of
from ethogram.store.redact import Policy
from ethogram.store.stop import pulled, release

from .start import (
    ExplorationPlan,
    ExploreOptions,
    begun_as,
    check_options,
    metadata_of,
    open_run,
    round_sizes,
    stop_rule,
)

USUAL_ROUNDS = 5
"""Additional rounds of the first version's strategies when none are named."""


class ExploreResult(Result, kw_only=True):
    """What an exploration found. `metrics` is the last round's `metrics.json`, `summary` the rows of `summary.csv`."""

    presentation: ClassVar[Presentation] = Presentation(
        headline="{run}: {established}",
        facts=("world", "strategy", "points", "rounds", "episodes", "stopped", "enough"),
    )

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
    certificate: Certificate
    established: str
    metrics: RoundMetrics
    summary: list[dict[str, Any]]

    @property
    def claims(self) -> tuple[str, ...]:
        """What is established, one sentence each."""
        return established(self.metrics.certainty, self.certificate, self.points, self.metrics.tube.tau)

    def rows(self) -> list[dict[str, Any]]:
        """One row per round."""
        return self.summary


class GridTarget(NamedTuple):
    """Episodes to buy at a point; `first` were bought there in earlier rounds."""

    point: int
    episodes: int
    first: int


class Buyer(Protocol):
    """Buys the episodes of a round through an engine, and writes them as lines of a table."""

    @property
    def rows(self) -> ResultRows:
        """Makes lines of `agent_results.csv`."""
        ...

    @property
    def stopped(self) -> str | None:
        """Why nothing more can be bought, if that is so."""
        ...

    def buy(self, number: int, wanted: Sequence[GridTarget]) -> list[PointOutcomes]:
        """Buy targets and commit them to the ledger; fewer if it was told to stop."""
        ...

    def foresee(self, number: int, wanted: Sequence[GridTarget]) -> None:
        """Announce the next round; episodes played ahead count only once they are bought."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


RoundWatcher = Callable[[RoundMetrics], None]


def explore_plan(
    plan: ExplorationPlan,
    options: ExploreOptions,
    make_buyer: Callable[[Run, Metadata, RunWriter], Buyer],
    *,
    home: Home | str | None = None,
    watch: RoundWatcher | None = None,
) -> ExploreResult:
    """Explore, or continue an exploration at the same place."""
    check_options(options)
    lake = home_of(home)
    problem = problem_of(plan.grid, options.tau, options.zone, options.pocket_rate)
    strategy = make_strategy(options.strategy, problem, round_sizes(options))
    asked = metadata_of(plan, options)
    run = open_run(lake, options, asked, plan.record)
    metadata = begun_as(run, plan, asked, options)
    if run.busy():
        raise Locked(f"{run.name!r} is being explored by another process; wait for it, or stop it first")
    release(run.files, run.path)
    with run.writer(lake.redactor(Policy(kinds=())), seal=False, window=None) as writer:
        run.forget_cache()  # nobody else writes from now on
        rounds = RoundsWriter(run, writer)
        rounds.begin(metadata, plan.grid)
        buyer = make_buyer(run, metadata, writer)
        try:
            explorer = _Explorer(rounds, metadata, strategy, problem, plan, buyer, options)
            explorer.catch_up()
            result = explorer.go(watch or (lambda metrics: None))
        finally:
            buyer.close()
        rounds.settle()
    with suppress(EthogramError):  # many small ledger segments are a nuisance, not a failure
        compact(run)
    return result


class _Explorer:
    """One session of an exploration."""

    def __init__(
        self,
        rounds: RoundsWriter,
        metadata: Metadata,
        strategy: Strategy,
        problem: Problem,
        plan: ExplorationPlan,
        buyer: Buyer,
        options: ExploreOptions,
    ) -> None:
        self.rounds, self.metadata, self.strategy, self.problem = rounds, metadata, strategy, problem
        self.plan, self.buyer, self.options = plan, buyer, options
        self.tally = Tally.empty(problem.points)
        self.done: list[RoundMetrics] = []
        self.seen: list[ExploreProgress] = []
        self.pending: dict[int, PointOutcomes] = {}
        self.bought_at: Counter[int] = Counter()

    def catch_up(self) -> None:
        """Posteriors from the committed rounds; the strategy sees every tally that it saw before.

        Files that are missing are written again from the ledger, and those of outcomes that were scored anew.
        """
        self.done = self.rounds.committed()
        parts, self.pending = self.rounds.bought(self.metadata, self.done)
        for part in parts:
            self._take_in(part)
        stands = self.rounds.is_posterior(self.tally, self._ahead)
        self.rounds.check_metrics(self.done)
        if not stands:
            self.rounds.publish_posteriors(self.tally, self.metadata.run_uuid, self.plan.grid.version)
        self.rounds.restore(self.metadata, self.done, parts, self.buyer.rows)

    def _ahead(self) -> Tally | None:
        return add_up(self.tally, self.pending.values()) if self.pending else None

    def _take_in(self, part: Sequence[PointOutcomes]) -> None:
        self.tally = add_up(self.tally, part)
        for one in part:
            self.bought_at[one.point] += len(one.outcomes)
        self.strategy.look(self.tally)
        self.seen.append(progress(self.strategy.posterior(), self.tally, self.problem, self.options.level))

    @property
    def bought(self) -> int:
        """Episodes of all complete rounds, missing outcomes included."""
        return self.bought_at.total()

    def go(self, watch: RoundWatcher) -> ExploreResult:
        """Round after round."""
        began = len(self.done)
        last = self.options.until_round
        asked = self.options.rounds
        if asked is None and self.options.max_episodes is None and stop_rule(self.options) is None:
            asked = USUAL_ROUNDS  # nothing else would ever end it
        if last is None and asked is not None:
            last = began + asked
        proposal: Proposal | None = None
        while (stopped := self._why_stop(len(self.done), last)) is None:
            number = len(self.done) + 1
            proposal = proposal or self._proposal(number)
            identity = round_id(number, self.metadata.run_uuid)
            part = self._buy(number, proposal)
            if part is None:
                stopped = self.buyer.stopped or "killed"
                break
            before = self.tally
            self._take_in(part)
            self.pending = {}
            ended = self.buyer.stopped or ("no outcomes" if self.tally.spent == before.spent else None)
            proposal = None if ended else self._foreseen(number, last)
            metrics = self._metrics(number, identity, part)
            self.done.append(metrics)
            results = results_csv(identity, self.buyer.rows, part)
            self.rounds.commit(metrics, results, self.tally, self.plan.grid.version, self.done)
            self.rounds.keep_state(number - 1, before, self.strategy.state())
            watch(metrics)
            if ended:
                stopped = ended
                break
        return self._result(stopped, len(self.done) - began)

    def _foreseen(self, done: int, last: int | None) -> Proposal | None:
        """What the next round will buy, if there is one: it may be played while this one is being written."""
        if self._why_stop(done, last) is not None:
            return None
        proposal = self._proposal(done + 1)
        self.buyer.foresee(done + 1, self._wanted(proposal))
        return proposal

    def _wanted(self, proposal: Proposal) -> list[GridTarget]:
        """Targets that are not bought yet."""
        targets = zip(proposal.points.tolist(), proposal.episodes.tolist(), strict=True)
        return [GridTarget(p, count, self.bought_at[p]) for p, count in targets if p not in self.pending]

    def _why_stop(self, done: int, last: int | None) -> str | None:
        if self.options.max_episodes is not None and self.bought >= self.options.max_episodes:
            return "budget"
        if last is not None and done >= last:
            return "rounds"
        if pulled(self.rounds.run.files, self.rounds.run.path) is not None:
            return "killed"
        rule = stop_rule(self.options)
        if rule is not None and is_enough(rule, self.seen, self.problem.points):
            return "enough"
        return None

    def _proposal(self, number: int) -> Proposal:
        """What was begun is finished as it was planned; else what the strategy proposes, within the budget."""
        if self.pending:
            return self.rounds.plan(number, self.metadata.run_uuid)
        rng = round_rng(self.metadata.run_uuid, number)
        proposal = next_round(self.strategy, self.problem, stop_rule(self.options), self.seen, rng)
        most = self.options.max_episodes
        if most is not None and proposal.budget > most - self.bought:
            episodes = _within(proposal.episodes, most - self.bought)
            proposal = Proposal(proposal.points[episodes > 0], episodes[episodes > 0])
        return proposal

    def _buy(self, number: int, proposal: Proposal) -> list[PointOutcomes] | None:
        """What a round bought, in the order of its plan; None if it was stopped in between."""
        self.rounds.start(self.metadata, number, proposal)
        self.pending.update((one.point, one) for one in self.buyer.buy(number, self._wanted(proposal)))
        if self._wanted(proposal):
            return None
        return [self.pending[int(point)] for point in proposal.points]

    def _metrics(self, number: int, identity: str, part: Sequence[PointOutcomes]) -> RoundMetrics:
        before = self.done[-1].tube.tube_var_sum if self.done else None
        baseline = self.done[0].tube.tube_var_sum if self.done else None
        tube = tube_metrics(self.tally, self.problem.tau, before, baseline)
        posterior = self.strategy.posterior()
        level, truth = self.options.level, self.plan.truth
        bought = sum(len(one.outcomes) for one in part)
        missing = Counter(self.done[-1].counts.missing if self.done else {})
        for one in part:
            missing.update(one.missing)
        return RoundMetrics(
            round_id=identity,
            round_num=number,
            run_uuid=self.metadata.run_uuid,
            seed=round_seed(self.metadata, number),
            status=tube_status(tube),
            tube=tube,
            counts=Counts(
                sampled_points_new=len(part),
                sampled_points_total=int((self.tally.n > 0).sum()),
                trajectories_new=bought,
                trajectories_total=self.tally.spent,
                missing=dict(missing),
            ),
            plan=PlanSize(targets_selected=len(part), total_budget=bought),
            certainty=certainty(posterior, self.tally, self.problem, level),
            truth=None if truth is None else against_truth(posterior, truth, self.problem, level),
        )

    def _result(self, stopped: str, new: int) -> ExploreResult:
        if not self.done:
            raise BadUsage("no round was run; ask for at least one with --rounds or --until-round")
        last, run = self.done[-1], self.rounds.run
        rule = stop_rule(self.options) or StopRule(level=self.options.level)
        proven = certificate(self.strategy.posterior(), self.tally, self.problem, self.options.level)
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
            certificate=proven,
            established=" ".join(established(last.certainty, proven, self.problem.points, self.problem.tau)),
            metrics=last,
            summary=self.rounds.summary(self.done),
        )


def _within(wanted: Any, left: int) -> Any:
    """What is left of a budget, shared out in proportion: every target gets its part, the first ones what is over."""
    shares = wanted * left // max(int(wanted.sum()), 1)
    room = np.flatnonzero(shares < wanted)[: left - int(shares.sum())]
    shares[room] += 1
    return shares
