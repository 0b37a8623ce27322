"""`ethogram explore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ethogram.lab.explore.effects import (
    Effects,
    Neighbours,
    Slice,
    explain_exploration,
    near_setting,
    slice_exploration,
)
from ethogram.lab.explore.exploration import RoundMetrics
from ethogram.lab.explore.maps import ExplorationMap, export_exploration, map_exploration
from ethogram.run.options import RunOptions, parse_caps, parse_environment
from ethogram.show.race_charts import DRAWN, race_picture
from ethogram.study.explore import ExploreOptions, ExploreResult
from ethogram.study.explore import StopRule as StopRule
from ethogram.study.explore_suite import explore_suite, load_grid
from ethogram.study.explore_world import explore
from ethogram.study.race import USUAL, RaceResult, race
from ethogram.worlds.toy_v1 import known_world

from .out import HomeOption, JsonOption, print_json, stderr, stdout, table
from .running import AllowUnmeteredOption, CleanEnvOption, EnvOption, PriceOption, PricesOption, metering

ACTIONS = ("race", "map", "effects", "near", "slice", "export")
SHOWN = 20
ENOUGH, NOT_ENOUGH = 0, 2


def command(
    what: Annotated[
        str | None,
        typer.Argument(help="A suite to explore; or race, map, effects, near, slice, export.", show_default=False),
    ] = None,
    run: Annotated[
        str, typer.Argument(help="For map, effects, near, slice and export: the exploration.", show_default=False)
    ] = "latest",
    world: Annotated[str, typer.Option(help="A world that can be set to any point: toy_v1.")] = "toy_v1",
    synthetic: Annotated[bool, typer.Option("--synthetic", help="Its closed form instead of the simulation.")] = False,
    agent: Annotated[str | None, typer.Option(help="With a suite: the agent.", show_default=False)] = None,
    grid: Annotated[
        str | None, typer.Option(help="A grid: YAML, JSON, .npz, or module:name.", show_default=False)
    ] = None,
    strategy: Annotated[
        str, typer.Option(help="default, v1, uniform, random, variance, boundary, apt, lsa, …")
    ] = "default",
    rounds: Annotated[int | None, typer.Option(help="Additional rounds; 5 for the strategies of v1.")] = None,
    until_round: Annotated[int | None, typer.Option(help="End after this round, whatever was done before.")] = None,
    max_episodes: Annotated[int | None, typer.Option(help="Episodes in all: a hard stop.")] = None,
    max_usd: Annotated[float | None, typer.Option(help="With a suite: dollars in all.")] = None,
    price: PriceOption = None,
    prices: PricesOption = None,
    allow_unmetered: AllowUnmeteredOption = False,
    seed: Annotated[int, typer.Option(help="Base seed; names the run's uuid if none is given.")] = 12345,
    seed_mode: Annotated[
        str, typer.Option(help="increment or fixed: the seed that is recorded per round.")
    ] = "increment",
    run_uuid: Annotated[str | None, typer.Option(help="Repeat a run to the last digit.", show_default=False)] = None,
    targets_per_round: Annotated[int, typer.Option(help="Points per round.")] = 64,
    episodes_per_budget_unit: Annotated[int, typer.Option(help="Times 256 episodes per target in v1.")] = 1,
    tau: Annotated[float, typer.Option(help="Failure rates above this are unsafe.")] = 0.2,
    zone: Annotated[float, typer.Option(help="Nearer to tau than this, either answer will do.")] = 0.02,
    level: Annotated[float, typer.Option(help="Certainty of the conservative tube.")] = 0.95,
    pocket_rate: Annotated[
        float, typer.Option(help="Enough: no point that fails at least so often is called safe, even a lone one.")
    ] = 0.5,
    stop_balanced: Annotated[
        float | None,
        typer.Option(help="Enough: expected balanced accuracy; 0.985 for the default.", show_default=False),
    ] = None,
    stop_undecided: Annotated[
        float | None, typer.Option(help="Enough: share of undecided points.", show_default=False)
    ] = None,
    stop_misclassified: Annotated[
        float | None, typer.Option(help="Enough: expected share of wrong calls.", show_default=False)
    ] = None,
    run_dir: Annotated[str | None, typer.Option(help="Store here instead of in the home.", show_default=False)] = None,
    name: Annotated[str | None, typer.Option("--run", help="Name of the run in the home.", show_default=False)] = None,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    workers: Annotated[int, typer.Option(help="Processes; with a suite, episodes at once.")] = 1,
    env: EnvOption = None,
    clean_env: CleanEnvOption = False,
    trace: Annotated[bool, typer.Option("--trace", help="Store span traces of a world's episodes too.")] = False,
    seeds: Annotated[int, typer.Option(help="race: how many seeds.")] = 20,
    setting: Annotated[
        list[str] | None, typer.Option(help="near, slice: name=value; may be repeated.", show_default=False)
    ] = None,
    x: Annotated[str | None, typer.Option(help="slice: the first parameter.", show_default=False)] = None,
    y: Annotated[str | None, typer.Option(help="slice: the second parameter.", show_default=False)] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="export: a .csv or .parquet file; race: a picture, .svg or .png.")
    ] = None,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Find the settings of a world in which an agent fails too often, with as few episodes as possible.

    Goes on where an exploration at the same place stood. Ends with 0 if enough is known or nothing was to be decided,
    with 2 if the default strategy ran out of budget first.

    Example: `ethogram explore --world toy_v1 --synthetic --max-episodes 4000`
    """
    if what in ACTIONS:
        result = _look(what, run, setting, x, y, out, home) if what != "race" else None
        if result is None:
            result = _race(world, synthetic, strategy, grid, seeds, max_episodes, tau, zone)
            if out is not None:
                race_picture({metric: result.banded(metric) for metric in DRAWN}).save(out)
        print_json(result) if json else _print(result)
        return 0
    options = ExploreOptions(
        strategy=strategy,
        rounds=rounds,
        until_round=until_round,
        max_episodes=max_episodes,
        seed=seed,
        seed_mode=seed_mode,
        run_uuid=run_uuid,
        targets_per_round=targets_per_round,
        episodes_per_budget_unit=episodes_per_budget_unit,
        tau=tau,
        zone=zone,
        level=level,
        pocket_rate=pocket_rate,
        stop=_rule(stop_balanced, stop_undecided, stop_misclassified, level),
        engine=engine,
        workers=workers,
        trace=trace,
        name=name,
        run_dir=run_dir,
    )
    watch = (lambda metrics: None) if json else _watch
    if what is not None:
        running = RunOptions(
            caps=parse_caps({"experiment.usd": max_usd}, ()),
            environment=parse_environment(tuple(env or ()), clean_env),
            metering=metering(price, prices, allow_unmetered),
        )
        found = explore_suite(what, agent, grid, options, running=running, home=home, watch=watch)
    else:
        chosen = load_grid(grid) if grid else None
        found = explore(known_world(world, synthetic=synthetic), options, grid=chosen, home=home, watch=watch)
    print_json(found) if json else _print(found)
    return NOT_ENOUGH if found.stopped in ("budget", "no outcomes") and not found.enough else ENOUGH


def _rule(
    balanced: float | None, undecided: float | None, misclassified: float | None, level: float
) -> StopRule | None:
    """The user's own stop rule, if one was named."""
    if balanced is undecided is misclassified is None:
        return None
    return StopRule(balanced=balanced, undecided=undecided, misclassified=misclassified, level=level)


def _race(
    world: str, synthetic: bool, strategy: str, grid: str | None, seeds: int, most: int | None, tau: float, zone: float
) -> RaceResult:
    strategies = USUAL if strategy == "default" else tuple(s.strip() for s in strategy.split(","))
    chosen = load_grid(grid) if grid else None
    place = known_world(world, synthetic=synthetic)
    return race(place, strategies, grid=chosen, seeds=seeds, max_episodes=most or 16384, tau=tau, zone=zone)


def _look(
    what: str, run: str, setting: list[str] | None, x: str | None, y: str | None, out: str | None, home: str | None
) -> Any:
    from ethogram.errors import BadUsage

    if what == "map":
        return map_exploration(run, home=home)
    if what == "effects":
        return explain_exploration(run, home=home)
    if what == "near":
        if not setting:
            raise BadUsage("say where you stand: --setting name=value for every parameter of the grid")
        return near_setting(_settings(setting), run, home=home)
    if what == "slice":
        if x is None:
            raise BadUsage("name a parameter with --x, and a second one with --y")
        return slice_exploration(x, y, _settings(setting or []), run, home=home)
    if out is None:
        raise BadUsage("name a file with --out: map.csv or map.parquet")
    return export_exploration(Path(out), run, home=home)


def _settings(words: list[str]) -> dict[str, Any]:
    """Settings from name=value words; numbers where they can be read as such."""
    from ethogram.errors import BadUsage

    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise BadUsage(f"{word!r} is not a setting; write for example --setting tool_noise=1")
        found[name] = _value(text)
    return found


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def _watch(metrics: RoundMetrics) -> None:
    known = metrics.certainty
    expected = known.expected_balanced_accuracy
    stderr().print(
        f"round {metrics.round_num}: {metrics.counts.trajectories_total:,} episodes, {known.safe} safe, "
        f"{known.unsafe} unsafe, {known.undecided} undecided, expected balanced accuracy "
        f"{'–' if expected is None else f'{expected:.3f}'}, {metrics.status}",
        markup=False,
        soft_wrap=True,
    )


def _print(result: Any) -> None:
    out = stdout()
    if isinstance(result, ExploreResult):
        _print_found(result)
    elif isinstance(result, RaceResult):
        columns = ["strategy", "to 95 %", "to 99 %", "balanced", "recall", "specificity", "tube_var_sum", "visited"]
        fields = (
            "strategy",
            "n95",
            "n99",
            "balanced_accuracy",
            "recall_unsafe",
            "specificity",
            "tube_var_sum",
            "visited",
        )
        out.print(
            f"{result.world}: {result.unsafe} of {result.points} points unsafe; {result.seeds} seeds, "
            f"{result.max_episodes:,} episodes, zone ± {result.zone:g}"
        )
        rows = [[*(getattr(s, f) for f in fields), s.certified] for s in result.standings]
        out.print(table([*columns, "certified at"], rows))
        out.print(result.misleads, style="dim", markup=False)
    elif isinstance(result, ExplorationMap):
        out.print(f"{result.run}: {result.established}", markup=False)
        worst = sorted(result.points, key=lambda p: -(p.rate.value or 0))[:SHOWN]
        rows = [
            [p.point, *p.settings.values(), p.episodes, p.rate.value, p.rate.low, p.rate.high, p.verdict] for p in worst
        ]
        out.print(table(["point", *result.parameters, "episodes", "rate", "low", "high", "verdict"], rows))
        out.print(
            f"the {len(worst)} most dangerous of {len(result.points)} points; all of them: --json, or explore export"
        )
    elif isinstance(result, Effects):
        rows = [[r["effect"], r["share"], r["low"], r["high"]] for r in result.rows()]
        out.print(table(["effect", "share of variation", "low", "high"], rows))
        levels = [[v.parameter, str(v.value), v.rate.value, v.rate.low, v.rate.high] for v in result.levels]
        out.print(table(["parameter", "value", "mean failure rate", "low", "high"], levels))
    elif isinstance(result, Neighbours):
        out.print(f"here: failure rate {result.here.rate} ({result.here.verdict})", markup=False)
        rows = [
            [", ".join(f"{k} → {v}" for k, v in n.change.items()), n.rate.value, str(n.difference), n.verdict]
            for n in result.neighbours
        ]
        out.print(table(["change", "rate", "difference", "verdict"], rows))
    elif isinstance(result, Slice):
        names = [n for n in (result.x, result.y) if n is not None]
        rows = [
            [*map(str, (c.x, c.y)[: len(names)]), c.rate.value, c.rate.low, c.rate.high, c.episodes]
            for c in result.cells
        ]
        out.print(table([*names, "rate", "low", "high", "episodes"], rows))
    else:
        out.print(f"wrote {result.points} points to {result.file}", markup=False)


def _print_found(result: ExploreResult) -> None:
    out = stdout()
    tube, truth = result.metrics.tube, result.metrics.truth
    out.print(
        f"run [bold]{result.run}[/bold]: round {result.rounds} ({result.new_rounds} new), {result.episodes:,} episodes "
        f"on {result.points} points, strategy {result.strategy}, stopped: {result.stopped}"
    )
    out.print(result.established, markup=False)
    if truth is not None and truth.recall.value is not None and truth.specificity.value is not None:
        out.print(
            f"against the known truth, beyond ± {truth.zone:g}: balanced accuracy {truth.balanced_accuracy:.3f}, "
            f"recall of unsafe {truth.recall.value:.3f}, specificity {truth.specificity.value:.3f}",
            markup=False,
        )
    out.print(
        f"mean tube: tube_var_sum {tube.tube_var_sum:.6f}, tube_coverage {tube.tube_coverage:.3f}, "
        f"{result.metrics.status}"
    )
    out.print(tube.misleads, style="dim", markup=False)
    out.print(f"next: ethogram explore map {result.run}", style="dim", markup=False)
