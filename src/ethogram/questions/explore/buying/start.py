"""The start of an exploration: its options, its place, and the check that a stored one is the same."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from ethogram.arguments import at_least, between
from ethogram.cluster import check_engine
from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.questions.explore.acquisition import EPISODES_PER_UNIT
from ethogram.questions.explore.documents import METADATA, same_grid
from ethogram.questions.explore.exploration import ROUNDS, Metadata, Rounds
from ethogram.questions.explore.files_v1 import check_same, derived_uuid
from ethogram.questions.explore.grid import Grid
from ethogram.questions.explore.problem import POCKET, StopRule
from ethogram.questions.explore.strategies import SEEDS_OWN, RoundSizes
from ethogram.store import Home, Run
from ethogram.store.files import LocalFiles
from ethogram.traces import SUCCESS_AT

SEED_MODES = ("increment", "fixed")


class ExploreOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to explore. `rounds` are additional ones; `until_round` is the last round, counted from the first."""

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
    pocket_rate: float = POCKET
    stop: StopRule | None = None
    engine: str = "local"
    workers: int = 1
    store_traces: bool = False
    name: str | None = None
    run_dir: str | None = None


class ExplorationPlan(msgspec.Struct, frozen=True, kw_only=True):
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
    tasks: tuple[str, ...] = ()
    """Tasks of an explored suite, in order."""
    success_at: float = SUCCESS_AT


def check_options(options: ExploreOptions) -> None:
    """Refuse options that make no sense, before anything is written."""
    check_engine(options.engine)
    if options.seed_mode not in SEED_MODES:
        raise NotFound.named("seed mode", options.seed_mode, list(SEED_MODES))
    at_least("seed", options.seed)
    for name in ("targets_per_round", "episodes_per_budget_unit", "workers"):
        at_least(name, getattr(options, name), 1)
    for name in ("rounds", "until_round", "max_episodes"):
        value = getattr(options, name)
        if value is not None:
            at_least(name, value, 1)
    check_tau(options.tau, options.zone)
    between("pocket_rate", options.pocket_rate, 0.0, 1.0)
    rule = options.stop
    for name in ("balanced", "undecided", "misclassified"):
        bound = getattr(rule, name) if rule is not None else None
        if bound is not None and not 0 <= bound <= 1:
            raise BadUsage.about(f"stop_{name}", f"must lie between 0 and 1, not {bound}", bound)
    between("level", options.level, 0.5, 1.0)


def check_tau(tau: float, zone: float) -> None:
    """Refuse a bound of failure rates, or a zone around it, that is none."""
    if not 0 < tau < 1 or not 0 <= zone < min(tau, 1 - tau):
        raise BadUsage.about("tau", f"must lie between 0 and 1 and the zone within it, not {tau} ± {zone}", tau)


def round_sizes(options: ExploreOptions) -> RoundSizes:
    """Rounds of the first version are fixed; others grow with what was spent."""
    unit = EPISODES_PER_UNIT * options.episodes_per_budget_unit
    if options.strategy in SEEDS_OWN:
        return RoundSizes(targets=options.targets_per_round, episodes=unit)
    return RoundSizes(targets=options.targets_per_round)


def stop_rule(options: ExploreOptions) -> StopRule | None:
    """The rule that was asked for; the default strategy has one of its own, those of the first version have none."""
    if options.stop is not None or options.strategy in SEEDS_OWN:
        return options.stop
    return StopRule(level=options.level)


def metadata_of(plan: ExplorationPlan, options: ExploreOptions) -> Metadata:
    """What an exploration is."""
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
        tasks=plan.tasks,
        success_at=plan.success_at,
        created_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )


def open_run(lake: Home, options: ExploreOptions, metadata: Metadata, record: dict[str, Any]) -> Run:
    """The run's directory: a place of the user's choice, or a name in the home."""
    about = {"world": metadata.world, "strategy": metadata.strategy, "run_uuid": metadata.run_uuid}
    facts = {**record, "explore": about}
    if options.run_dir is None:
        name = options.name or f"explore-{metadata.world}-{metadata.strategy}-{metadata.run_uuid[:8]}"
        name = "".join(c if c.isalnum() or c in "._-" else "-" for c in name)[:100]
        if name in lake.names() and lake.files.exists(f"runs/{name}/run.json"):
            found = lake.run(name)
            if found.info.kind != "explore":
                raise BadUsage(f"a run named {name!r} exists already and is not an exploration; choose another name")
            return found
        return lake.create(name, "explore", plan=facts)
    place = Path(options.run_dir).absolute()
    files = LocalFiles(place.parent)
    if not files.exists(f"{place.name}/run.json"):
        files.create(f"{place.name}/run.json", lake.describe(place.name, "explore", plan=facts))
    return Run(files, place.name, lake.keys)


def begun_as(run: Run, plan: ExplorationPlan, asked: Metadata, options: ExploreOptions) -> Metadata:
    """What is to be explored here: what was begun before, if that is the same exploration, else what is asked."""
    rounds = Rounds(run)
    old = rounds.metadata()
    if old is not None:
        check_same(old, asked, run.name, options.run_uuid is not None)
    stored_grid = rounds.grid_file()
    if stored_grid is not None and not same_grid(stored_grid, plan.grid):
        raise BadInput(
            f"grid.npz of {run.name!r} is not the grid of this exploration; restore it, or choose another directory",
            where=f"{run.path}/grid.npz",
        )
    if old is None:
        if run.files.names(f"{run.path}/{ROUNDS}") or rounds.has_outcomes():
            raise BadInput(
                f"{run.name!r} has rounds but no {METADATA}; restore it, or choose another directory",
                where=f"run {run.name!r}",
            )
        return asked
    if old.run_uuid != asked.run_uuid and options.run_uuid is None and options.seed != old.base_seed:
        raise BadUsage(
            f"{run.name!r} was begun with --seed {old.base_seed}, not {options.seed}; continue as it was, or "
            "choose another directory"
        )
    # a version that did not keep tasks may have begun it
    return msgspec.structs.replace(old, tasks=plan.tasks, success_at=plan.success_at)
