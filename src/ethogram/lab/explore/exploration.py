"""A stored exploration: what was begun, which rounds are complete, which outcomes were recorded.

A round is complete if and only if its `metrics.json` exists. Outcomes lie in the run's ledger; posteriors, metrics and
summary can be derived from them at any time.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from ethogram.decide.explore import Proposal, Tally
from ethogram.decide.tube import AgainstTruth, Certainty, Status, TubeMetrics
from ethogram.errors import BadInput, Damaged, NotFound
from ethogram.plan.grid import Grid, grid_from_columns
from ethogram.store import DERIVED, Home, Run, home_of
from ethogram.store.batch import FAILURE, SUCCESS
from ethogram.trace import SUCCESS_AT, digest

from .bought import PointOutcomes, bought

ROUNDS = "rounds"
"""The folder with a folder for each round."""
STATE = f"{DERIVED}/strategy.npz"
"""What the strategy's last look began from: derived, and made anew by the next round."""
GRID_JSON = "grid_json"
"""The entry of `grid.npz` that holds the grid with its constraints; files of other programs have none."""
ABOUT_GRID = ("grid_version", "n_points", "grid_digest", GRID_JSON)
"""Entries of `grid.npz` that are no parameters."""


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
    """The score from which on an episode of the suite is a success."""


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
    """`metrics.json` of a round: its presence is the commit."""

    round_id: str
    round_num: int
    run_uuid: str
    seed: int
    status: Status
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

    def metadata(self) -> Metadata | None:
        """What was begun here, if anything."""
        found: Metadata | None = self._json("run_metadata.json", Metadata)
        return found

    def grid_file(self) -> dict[str, Any] | None:
        """`grid.npz`, if there is one."""
        return self._npz("grid.npz", "put the right grid there, or remove the file to have it written anew")

    def committed(self) -> list[RoundMetrics]:
        """Metrics of all complete rounds, in order."""
        found = []
        for name in self._files.names(f"{self._path}/{ROUNDS}"):
            metrics = self._json(f"{ROUNDS}/{name}/metrics.json", RoundMetrics)
            if metrics is not None:
                found.append(metrics)
        found.sort(key=lambda m: m.round_num)
        numbers = [m.round_num for m in found]
        if numbers != list(range(1, len(found) + 1)):
            raise Damaged(f"rounds of {self.run.name!r} are missing: there are {numbers}; restore the missing folders")
        return found

    def bought(
        self, metadata: Metadata, done: Sequence[RoundMetrics]
    ) -> tuple[list[list[PointOutcomes]], dict[int, PointOutcomes]]:
        """What each complete round bought, in the order of its plan; and by point what the next one bought so far."""
        plans = {m.round_num: self.plan(m.round_num, metadata.run_uuid) for m in done}
        going = len(done) + 1
        if self._files.exists(f"{self._path}/{_plan_file(going, metadata.run_uuid)}"):
            plans[going] = self.plan(going, metadata.run_uuid)
        found = bought(self.run, plans, metadata.tasks, metadata.success_at)
        rounds = []
        for number in range(1, going):
            rounds.append([found[at] for p in plans[number].points.tolist() if (at := (number, p)) in found])
            if len(rounds[-1]) < len(plans[number].points):
                raise Damaged(
                    f"round {number} of {self.run.name!r} is committed but its outcomes are not all in the ledger; "
                    "run: ethogram verify"
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
            state = _arrays(data, STATE, "")
            seen = int(state.pop("seen"))
            fits = 0 < seen < len(tallies) and str(state.pop("digest")) == tally_digest(tallies[seen - 1])
        except (BadInput, KeyError, ValueError):
            return 0, {}
        return (seen, state) if fits else (0, {})

    def plan(self, number: int, run_uuid: str) -> Proposal:
        """What a round bought or is buying, as its plan has it."""
        name = _plan_file(number, run_uuid)
        plan = self._json(name, dict)
        if plan is None or not isinstance(plan.get("selected"), list) or not isinstance(plan.get("episodes"), list):
            raise Damaged(f"{name} of run {self.run.name!r} is missing or is no plan; restore it")
        return Proposal(np.asarray(plan["selected"], dtype=np.int64), np.asarray(plan["episodes"], dtype=np.int64))

    def summary(self, rounds: Iterable[RoundMetrics]) -> list[dict[str, Any]]:
        """The rows of `summary.csv`."""
        return [{column: value(m) for column, value in SUMMARY.items()} for m in rounds]

    def check_posteriors(self, tally: Tally, ahead: Callable[[], Tally | None]) -> None:
        """The stored posteriors against those that the committed rounds give.

        A crash between the posteriors and the commit leaves them one round ahead; `ahead` gives that round.
        """
        help_ = "move it away, and it is rebuilt from the committed rounds"
        stored = self._npz("beta_posteriors.npz", help_)
        if stored is None:
            return
        for known in (tally, ahead()):
            if known is not None and _is_posterior(stored, known):
                return
        raise BadInput(f"beta_posteriors.npz of {self.run.name!r} is not what its committed rounds give; {help_}")

    def consistent(self) -> list[str]:
        """Where `summary.csv` and the rounds' `metrics.json` disagree; nothing if all is well."""
        import csv

        there = list(csv.DictReader(io.StringIO((self.text("summary.csv") or b"").decode())))
        rounds = self.committed()
        problems = [] if len(there) == len(rounds) else [f"summary.csv has {len(there)} rows for {len(rounds)} rounds"]
        for row, metrics in zip(there, rounds, strict=False):
            for column, value in SUMMARY.items():
                said, meant = row.get(column), csv_value(value(metrics))
                if said != meant:
                    problems.append(
                        f"{metrics.round_id}: {column} is {said!r} in summary.csv, {meant!r} in metrics.json"
                    )
        return problems

    def text(self, name: str) -> bytes | None:
        """A file of the run, if it is there."""
        return self._files.read(f"{self._path}/{name}") if self._files.exists(f"{self._path}/{name}") else None

    def _json(self, name: str, kind: type[Any]) -> Any:
        data = self.text(name)
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            told = str(error).splitlines()[0]
            raise BadInput(
                f"{name} of {self.run.name!r} cannot be read: {told}; restore it, or begin another run"
            ) from None

    def _npz(self, name: str, help_: str) -> dict[str, Any] | None:
        data = self.text(name)
        if data is None:
            return None
        return _arrays(data, f"{name} of {self.run.name!r}", help_)


def round_id(number: int, run_uuid: str) -> str:
    """The folder of a round; the same for everybody who repeats the run."""
    short = "".join(c for c in run_uuid if c.isalnum())[:8] or "run"
    return f"R{number:04d}_{short}"


def _plan_file(number: int, run_uuid: str) -> str:
    return f"{ROUNDS}/{round_id(number, run_uuid)}/active_sampling_plan.json"


def grid_of_file(data: bytes, where: str) -> Grid:
    """The grid of a `grid.npz`: of an exploration of ours, of the first version, or of a user's own."""
    help_ = "write one array per parameter with numpy.savez, an entry per point"
    stored = _arrays(data, where, help_)
    values = {name: array.tolist() for name, array in stored.items() if name not in ABOUT_GRID}
    if not values or any(stored[name].ndim != 1 or stored[name].dtype.kind not in "bifU" for name in values):
        raise BadInput(f"{where} is not a grid; {help_}")
    if GRID_JSON not in stored:
        return grid_from_columns(values, where)
    try:
        found = msgspec.json.decode(str(stored[GRID_JSON]), type=Grid)
    except msgspec.MsgspecError as error:
        raise BadInput(
            f"{GRID_JSON} of {where} cannot be read: {error}; remove the entry, or restore the file"
        ) from None
    if not same_grid(stored, found):
        raise BadInput(f"the arrays of {where} are not the grid that its {GRID_JSON} describes; restore the file")
    return found


def same_grid(stored: Mapping[str, Any], grid: Grid) -> bool:
    """Whether a `grid.npz` holds this grid; one without a digest of ours is compared value by value."""
    levels = grid.levels()
    if any(p.name not in stored for p in grid.parameters):
        return False
    for d, p in enumerate(grid.parameters):
        mine, theirs = np.asarray(p.values)[levels[:, d]], np.asarray(stored[p.name])
        if mine.shape != theirs.shape:
            return False
        if mine.dtype.kind in "if" and theirs.dtype.kind in "if":
            if not np.allclose(mine, theirs, rtol=1e-6, atol=0):
                return False
        elif not np.array_equal(mine, theirs):
            return False
    return True


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


def _arrays(data: bytes, where: str, help_: str) -> dict[str, Any]:
    """The arrays of a file of numpy's."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            return {key: found[key] for key in found.files}
    except Exception as error:  # zip and numpy raise many kinds
        told = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"{where} cannot be read ({told}); {help_}") from None


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
            raise NotFound(f"there is no exploration in {lake.files.address}; begin with: ethogram explore")
        return Rounds(kinds[-1])
    found = lake.resolve(run)
    if found.info.kind != "explore":
        raise BadInput(f"{found.name!r} is not an exploration but of kind {found.info.kind!r}; see: ethogram runs")
    return Rounds(found)
