"""A stored exploration: its start, its complete rounds, and their outcomes.

The ledger is the record. It holds outcomes, and as documents `run_metadata.json` and each round's `round_pre.json`,
`active_sampling_plan.json`, `metrics.json` and `round_post.json`; a round is complete if and only if its metrics are
there. The files of these names are copies; `grid.npz`, `agent_results.csv`, `beta_posteriors.npz` and `summary.csv` are
derived. Explorations of earlier versions hold outcomes in the ledger and documents in files only, until they go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from ethogram.errors import BadInput, Damaged, NotFound
from ethogram.store import DERIVED, Home, Run, home_of, manifest
from ethogram.store.batch import FAILURE, SUCCESS
from ethogram.store.lake import EXPLORED
from ethogram.traces import SUCCESS_AT, digest

from .documents import (
    GRID,
    METADATA,
    METRICS,
    PLAN,
    POST,
    POSTERIORS,
    PRE,
    RESULTS,
    TABLES,
    arrays_of,
    compact_json,
    held_documents,
)
from .grid import Grid
from .point_outcomes import PointOutcomes, bought
from .problem import Proposal, Tally
from .tube import AgainstTruth, Certainty, RoundStatus, TubeMetrics

ROUNDS = "rounds"
"""The folder with a folder for each round."""
STATE = f"{DERIVED}/strategy.npz"
"""What the strategy's last look began from: derived, and made anew by the next round."""
_IN_FILES = "an earlier version kept plans and metrics in files only"


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """`run_metadata.json`: what an exploration is; a resumed one must be the same."""

    run_uuid: str
    base_seed: int
    seed_mode: str
    world: str
    synthetic: bool
    strategy: str
    grid: Grid
    grid_digest: str
    tau: float
    zone: float
    level: float
    targets_per_round: int
    episodes_per_budget_unit: int
    settings: dict[str, Any] = {}
    mode: str = "agent_eval"
    created_at: str = ""
    tasks: tuple[str, ...] = ()
    """Tasks of an explored suite, in the order in which they take turns at a point."""
    success_at: float = SUCCESS_AT
    """The score from which on an episode of the suite was a success at the start; `Run.success_at` says it now."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Points and episodes so far."""

    sampled_points_new: int
    sampled_points_total: int
    trajectories_new: int
    trajectories_total: int
    missing: dict[str, int] = {}


class PlanSize(msgspec.Struct, frozen=True, kw_only=True):
    """What the round bought."""

    targets_selected: int
    total_budget: int


class RoundMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """`metrics.json` of a round: its presence in the ledger is the commit."""

    round_id: str
    round_num: int
    run_uuid: str
    seed: int
    status: RoundStatus
    tube: TubeMetrics
    counts: Counts
    plan: PlanSize
    certainty: Certainty
    truth: AgainstTruth | None = None


SUMMARY: dict[str, Callable[[RoundMetrics], Any]] = {
    "run_uuid": lambda m: m.run_uuid,
    "round_id": lambda m: m.round_id,
    "seed": lambda m: m.seed,
    "tube_coverage": lambda m: m.tube.tube_coverage,
    "tube_var": lambda m: m.tube.tube_var_sum,
    "tube_var_delta": lambda m: m.tube.tube_var_delta_prev,
    "tube_var_delta_prev": lambda m: m.tube.tube_var_delta_prev,
    "tube_var_delta_baseline": lambda m: m.tube.tube_var_delta_baseline,
    "targets_selected": lambda m: m.plan.targets_selected,
    "total_budget": lambda m: m.plan.total_budget,
    "episodes_total": lambda m: m.counts.trajectories_total,
    "safe": lambda m: m.certainty.safe,
    "unsafe": lambda m: m.certainty.unsafe,
    "undecided": lambda m: m.certainty.undecided,
    "expected_balanced_accuracy": lambda m: m.certainty.expected_balanced_accuracy,
    "balanced_accuracy": lambda m: m.truth.balanced_accuracy if m.truth else None,
    "recall_unsafe": lambda m: m.truth.recall.value if m.truth else None,
    "specificity": lambda m: m.truth.specificity.value if m.truth else None,
    "status": lambda m: m.status,
}
"""Columns of `summary.csv`."""


class Rounds:
    """The rounds of one exploration on disk."""

    def __init__(self, run: Run) -> None:
        """The run's directory need not hold anything yet."""
        self.run = run
        self._files, self._path = run.files, run.path

    @cached_property
    def documents(self) -> dict[str, bytes]:
        """Documents that the ledger holds, by name; what an earlier version stored is in files only."""
        return held_documents(self.run)

    def metadata(self) -> Metadata | None:
        """What was begun here, if anything."""
        found: Metadata | None = self._json(METADATA, Metadata)
        return found

    def grid_file(self) -> dict[str, Any] | None:
        """`grid.npz`, if there is one."""
        return self._npz(GRID, "put the right grid there, or remove the file to have it written anew")

    def committed(self) -> list[RoundMetrics]:
        """Metrics of all complete rounds, in order."""
        found = []
        for name in self._folders():
            metrics = self._json(f"{ROUNDS}/{name}/{METRICS}", RoundMetrics)
            if metrics is not None:
                found.append(metrics)
        found.sort(key=lambda m: m.round_num)
        numbers = [m.round_num for m in found]
        if numbers != list(range(1, len(found) + 1)):
            raise Damaged(
                f"rounds of {self.run.name!r} are missing: there are {numbers}, and {_IN_FILES}; restore the missing "
                "folders",
                where=f"{self.run.path}/{ROUNDS}",
            )
        if not found and self.has_outcomes() and not any(self._has_plan(name) for name in self._folders()):
            raise Damaged(
                f"the rounds of {self.run.name!r} are missing, and {_IN_FILES}; restore its folder {ROUNDS}",
                where=f"{self.run.path}/{ROUNDS}",
            )
        return found

    def has_outcomes(self) -> bool:
        """Whether the ledger holds an episode."""
        standing = self.run.standing
        return bool(standing.live or standing.batches or standing.named(f"{EXPLORED}/"))

    def bought(
        self, metadata: Metadata, done: Sequence[RoundMetrics]
    ) -> tuple[list[list[PointOutcomes]], dict[int, PointOutcomes]]:
        """What each complete round bought, in the order of its plan; and by point what the next one bought so far."""
        plans = {m.round_num: self.plan(m.round_num, metadata.run_uuid) for m in done}
        going = len(done) + 1
        if self._has_plan(round_id(going, metadata.run_uuid)):
            plans[going] = self.plan(going, metadata.run_uuid)
        found = bought(self.run, plans, metadata.tasks, self.run.success_at)
        rounds = []
        for number in range(1, going):
            rounds.append([found[at] for p in plans[number].points.tolist() if (at := (number, p)) in found])
            if len(rounds[-1]) < len(plans[number].points):
                raise Damaged(
                    f"round {number} of {self.run.name!r} is committed but its outcomes are not all in the ledger; "
                    "run: ethogram verify",
                    where=f"round {number} of {self.run.name!r}",
                )
        return rounds, {point: one for (number, point), one in found.items() if number == going}

    def strategy_state(self, tallies: Sequence[Tally]) -> tuple[int, dict[str, Any]]:
        """How many of these tallies a strategy had seen when its state was stored, and the state; 0 if there is none.

        What cannot be read, or is of other outcomes, counts as none: nothing depends on it.
        """
        data = self.text(STATE)
        if data is None:
            return 0, {}
        try:
            state = arrays_of(data, STATE, "")
            seen = int(state.pop("seen"))
            fits = 0 < seen < len(tallies) and str(state.pop("digest")) == tally_digest(tallies[seen - 1])
        except (BadInput, KeyError, ValueError):
            return 0, {}
        return (seen, state) if fits else (0, {})

    def plan(self, number: int, run_uuid: str) -> Proposal:
        """What a round bought or is buying, as its plan has it."""
        name = f"{ROUNDS}/{round_id(number, run_uuid)}/{PLAN}"
        plan = self._json(name, dict)
        if plan is None:
            raise Damaged(
                f"{name} of {self.run.name!r} is missing, and {_IN_FILES}; restore it", where=f"{self.run.path}/{name}"
            )
        if not isinstance(plan.get("selected"), list) or not isinstance(plan.get("episodes"), list):
            raise Damaged(f"{name} of {self.run.name!r} is not a plan; restore it", where=f"{self.run.path}/{name}")
        return Proposal(np.asarray(plan["selected"], dtype=np.int64), np.asarray(plan["episodes"], dtype=np.int64))

    def summary(self, rounds: Iterable[RoundMetrics]) -> list[dict[str, Any]]:
        """The rows of `summary.csv`."""
        return [{column: value(m) for column, value in SUMMARY.items()} for m in rounds]

    def is_posterior(self, tally: Tally, ahead: Callable[[], Tally | None]) -> bool:
        """Whether posteriors are stored, and are those that the committed rounds give.

        A crash between the posteriors and the commit leaves them one round ahead; `ahead` gives that round. Those that
        are as they were written are no longer these once episodes were scored anew; raises `BadInput` for others.
        """
        help_ = "move it away, and it is rebuilt from the committed rounds"
        stored = self._npz(POSTERIORS, help_)
        if stored is None:
            return False
        for known in (tally, ahead()):
            if known is not None and _is_posterior(stored, known):
                return True
        if self.run.entries and self._is_as_written(POSTERIORS):
            return False
        raise BadInput(
            f"beta_posteriors.npz of {self.run.name!r} is not what its committed rounds give; {help_}",
            where=f"{self.run.path}/{POSTERIORS}",
        )

    def _is_as_written(self, name: str) -> bool:
        """Whether a file has the bytes that were published, as the list of hashes has them."""
        data = self.text(name)
        return data is not None and manifest.read_manifest(self._files, self._path).lists(name, data)

    def check_metrics(self, done: Iterable[RoundMetrics]) -> None:
        """The files `metrics.json` of complete rounds, where they are there, against the ledger."""
        for metrics in done:
            name = f"{ROUNDS}/{metrics.round_id}/{METRICS}"
            data = self.text(name)
            if data is not None and name in self.documents and compact_json(data) != self.documents[name]:
                raise BadInput(
                    f"{name} of {self.run.name!r} is not what its ledger holds; move it away, and it is written again",
                    where=f"{self.run.path}/{name}",
                )

    def rebuilt(self) -> set[str]:
        """Names of files that the next session writes again if they are missing."""
        found = set(self.documents)
        if self.metadata() is not None:
            found.update(TABLES)
        for metrics in self.committed():
            found.update(f"{ROUNDS}/{metrics.round_id}/{name}" for name in (PRE, RESULTS, POST))
        return found

    def text(self, name: str) -> bytes | None:
        """A file of the run, if it is there."""
        return self._files.read(f"{self._path}/{name}") if self._files.exists(f"{self._path}/{name}") else None

    def _folders(self) -> list[str]:
        """Folders of rounds, whether the ledger or the disk has them."""
        inside = f"{ROUNDS}/"
        held = {name.removeprefix(inside).partition("/")[0] for name in self.documents if name.startswith(inside)}
        return sorted(held | set(self._files.names(f"{self._path}/{ROUNDS}")))

    def _has_plan(self, folder: str) -> bool:
        name = f"{ROUNDS}/{folder}/{PLAN}"
        return name in self.documents or self._files.exists(f"{self._path}/{name}")

    def _json(self, name: str, kind: type[Any]) -> Any:
        """A document of the ledger; if it holds none, the file of an earlier version."""
        data = self.documents.get(name) or self.text(name)
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            told = str(error).splitlines()[0]
            raise BadInput(
                f"{name} of {self.run.name!r} cannot be read: {told}; restore it, or begin another run",
                where=f"{name} of {self.run.name!r}",
            ) from None

    def _npz(self, name: str, help_: str) -> dict[str, Any] | None:
        data = self.text(name)
        if data is None:
            return None
        return arrays_of(data, f"{name} of {self.run.name!r}", help_)


def round_id(number: int, run_uuid: str) -> str:
    """The folder of a round; the same in every repetition of the run."""
    short = "".join(c for c in run_uuid if c.isalnum())[:8] or "run"
    return f"R{number:04d}_{short}"


def tally_digest(tally: Tally) -> str:
    """The hash of a tally."""
    return digest("tally", tally.n.tobytes(), tally.fails.tobytes())


def add_up(tally: Tally, more: Iterable[PointOutcomes]) -> Tally:
    """A tally with more outcomes in it; missing ones count neither way."""
    n, fails = tally.n.copy(), tally.fails.copy()
    for one in more:
        failed = one.outcomes.count(FAILURE)
        n[one.point] += failed + one.outcomes.count(SUCCESS)
        fails[one.point] += failed
    return Tally(n, fails)


def csv_value(value: Any) -> str:
    """A value in a CSV file: shortest text that reads back as the same number; nothing for None."""
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def _is_posterior(stored: Mapping[str, Any], tally: Tally) -> bool:
    try:
        return bool(
            np.array_equal(stored["alpha"], tally.fails + 1)
            and np.array_equal(stored["beta"], tally.n - tally.fails + 1)
        )
    except KeyError:
        return False


def open_exploration(run: str = "latest", *, home: Home | str | None = None) -> Rounds:
    """A stored exploration by its name or directory."""
    lake = home_of(home)
    if run == "latest":
        kinds = [r for r in lake.runs() if r.info.kind == "explore"]
        if not kinds:
            raise NotFound(
                f"there is no exploration in {lake.files.address}; begin with: ethogram explore",
                where=lake.files.address,
                what="exploration",
            )
        return Rounds(kinds[-1])
    found = lake.resolve(run)
    if found.info.kind != "explore":
        raise BadInput(
            f"{found.name!r} is not an exploration but of kind {found.info.kind!r}; see: ethogram runs",
            where=f"run {found.name!r}",
        )
    return Rounds(found)
