"""`ethogram explore` and its sub-commands."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ethogram.errors import BadUsage
from ethogram.harness.environment import parse_environment
from ethogram.harness.options import RunOptions, parse_caps
from ethogram.questions.explore.buying.race import race
from ethogram.questions.explore.buying.start import ExploreOptions
from ethogram.questions.explore.buying.suite import explore_suite, load_grid
from ethogram.questions.explore.buying.world import begin_exploration
from ethogram.questions.explore.charts import DRAWN, race_picture
from ethogram.questions.explore.effects import explain_exploration, near_setting, slice_exploration
from ethogram.questions.explore.maps import export_exploration, map_exploration
from ethogram.questions.explore.problem import StopRule
from ethogram.questions.explore.race import USUAL
from ethogram.worlds.named import known_world

from .explore_screens import (
    print_effects,
    print_exploration,
    print_map,
    print_neighbours,
    print_race,
    print_round,
    print_slice,
)
from .printing import HomeOption, JsonOption, print_json, stdout
from .running import (
    AllowUnmeteredOption,
    CaptureOption,
    CleanEnvOption,
    EngineOption,
    EnvOption,
    PriceOption,
    PricesOption,
    WorkersOption,
    metering,
)

ENOUGH, NOT_ENOUGH = 0, 2
USUAL_RACE_EPISODES = 16384

RunArgument = Annotated[str, typer.Argument(help="An exploration: a run directory, a run's name, or latest.")]
WorldOption = Annotated[
    str, typer.Option("--world", help="A world that can be set to any point: toy_v1, or your own, file.py:World.")
]
SyntheticOption = Annotated[bool, typer.Option("--synthetic", help="The world's formula instead of its simulation.")]
GridOption = Annotated[
    str | None, typer.Option("--grid", help="A grid: YAML, JSON, .npz, or module:name.", show_default=False)
]
MaxEpisodesOption = Annotated[int | None, typer.Option("--max-episodes", help="Episodes in all: a hard stop.")]
TauOption = Annotated[float, typer.Option("--tau", help="Failure rates above this are unsafe.")]
ZoneOption = Annotated[
    float, typer.Option("--zone", help="Points within this distance of tau may be classified either way.")
]
SettingOption = Annotated[
    list[str] | None, typer.Option("--setting", help="A parameter's value, name=value; may be repeated.")
]


class _RunByDefault(TyperGroup):
    """Sub-commands, of which `run` may be left out: `explore SUITE …` is short for `explore run SUITE …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `run` in front of words that name no sub-command."""
        if args[:1] != ["--help"] and (not args or args[0] not in self.commands):
            near = (
                get_close_matches(args[0], self.commands, n=1)
                if args and not args[0].startswith("-") and "--help" not in args and not Path(args[0]).exists()
                else []
            )
            if near:
                raise BadUsage(f"there is no sub-command {args[0]!r}, and no suite; did you mean {near[0]!r}?")
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_RunByDefault,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="""Find the settings in which an agent fails too often, with as few episodes as possible.

    `ethogram explore …` is short for `ethogram explore run …`; `ethogram explore run --help` shows its options.

    Example: `ethogram explore --world toy_v1 --synthetic --max-episodes 4000`
    """,
)


@app.command("run")
def run_command(
    suite: Annotated[
        str | None, typer.Argument(help="A suite to explore with --agent and --grid; without one, a world.")
    ] = None,
    world: WorldOption = "toy_v1",
    synthetic: SyntheticOption = False,
    agent: Annotated[str | None, typer.Option(help="With a suite: the agent.", show_default=False)] = None,
    grid: GridOption = None,
    strategy: Annotated[
        str, typer.Option(help="default, v1, uniform, random, variance, boundary, apt, lsa, …")
    ] = "default",
    rounds: Annotated[int | None, typer.Option(help="Additional rounds; 5 for the strategies of v1.")] = None,
    until_round: Annotated[int | None, typer.Option(help="End after this round, counted from the first.")] = None,
    max_episodes: MaxEpisodesOption = None,
    max_usd: Annotated[float | None, typer.Option(help="With a suite: a limit in dollars.")] = None,
    price: PriceOption = None,
    prices: PricesOption = None,
    allow_unmetered: AllowUnmeteredOption = False,
    seed: Annotated[int, typer.Option(help="Base seed; also determines the run's uuid if none is given.")] = 12345,
    seed_mode: Annotated[
        str, typer.Option(help="increment or fixed: the seed that is recorded per round.")
    ] = "increment",
    run_uuid: Annotated[
        str | None, typer.Option(help="The uuid of a run to reproduce exactly.", show_default=False)
    ] = None,
    targets_per_round: Annotated[int, typer.Option(help="Points per round.")] = 64,
    episodes_per_budget_unit: Annotated[int, typer.Option(help="Episodes per target in v1, in units of 256.")] = 1,
    tau: TauOption = 0.2,
    zone: ZoneOption = 0.02,
    level: Annotated[float, typer.Option(help="Confidence level of the conservative tube.")] = 0.95,
    pocket_rate: Annotated[
        float, typer.Option(help="Stop only when every point called safe is known to fail less often than this.")
    ] = 0.5,
    stop_balanced: Annotated[
        float | None,
        typer.Option(
            help="Stop at this expected balanced accuracy; 0.985 for the default strategy.", show_default=False
        ),
    ] = None,
    stop_undecided: Annotated[
        float | None, typer.Option(help="Stop at this share of undecided points.", show_default=False)
    ] = None,
    stop_misclassified: Annotated[
        float | None, typer.Option(help="Stop at this expected share of wrongly classified points.", show_default=False)
    ] = None,
    run_dir: Annotated[str | None, typer.Option(help="Store here instead of in the home.", show_default=False)] = None,
    name: Annotated[str | None, typer.Option("--run", help="Name of the run in the home.", show_default=False)] = None,
    engine: EngineOption = "local",
    workers: WorkersOption = 1,
    env: EnvOption = None,
    clean_env: CleanEnvOption = False,
    capture: CaptureOption = "auto",
    store_traces: Annotated[
        bool, typer.Option("--store-traces", help="Store a trace of each episode of a world.")
    ] = False,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Buy episodes where they are most informative, until enough is known about every point of the grid.

    Continues an exploration of the same name or directory. Exit codes: 0 enough is known, or the strategy does not
    decide; 2 the budget was used up first.

    Example: `ethogram explore run suite/ --agent agent.py:solve --grid grid.yaml --max-episodes 2000`
    """
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
        store_traces=store_traces,
        name=name,
        run_dir=run_dir,
    )
    watch = (lambda metrics: None) if json else print_round
    if suite is not None:
        running = RunOptions(
            caps=parse_caps({"experiment.usd": max_usd}, ()),
            environment=parse_environment(tuple(env or ()), clean_env),
            capture=capture,
            metering=metering(price, prices, allow_unmetered),
        )
        found = explore_suite(suite, agent, grid, options, running=running, home=home, progress=watch)
    elif max_usd is not None:
        raise BadUsage("episodes of a world cost nothing; leave out --max-usd, or name a suite")
    else:
        chosen = load_grid(grid) if grid else None
        found = begin_exploration(
            known_world(world, synthetic=synthetic), options, grid=chosen, home=home, progress=watch
        )
    print_json(found) if json else print_exploration(found)
    return NOT_ENOUGH if found.stopped in ("budget", "no outcomes") and not found.enough else ENOUGH


@app.command("map")
def map_command(run: RunArgument = "latest", json: JsonOption = False, home: HomeOption = None) -> int:
    """Show every point of the grid: its failure rate, the interval, and the verdict.

    Example: `ethogram explore map latest`
    """
    found = map_exploration(run, home=home)
    print_json(found) if json else print_map(found)
    return 0


@app.command("effects")
def effects_command(run: RunArgument = "latest", json: JsonOption = False, home: HomeOption = None) -> int:
    """Show which parameters make the failure rate vary, alone and in pairs.

    Example: `ethogram explore effects latest`
    """
    found = explain_exploration(run, home=home)
    print_json(found) if json else print_effects(found)
    return 0


@app.command("near")
def near_command(
    run: RunArgument = "latest", setting: SettingOption = None, json: JsonOption = False, home: HomeOption = None
) -> int:
    """Show what changes when one parameter of a setting changes by one step.

    Example: `ethogram explore near latest --setting tool_noise=1 --setting hint_ambiguity=0`
    """
    if not setting:
        raise BadUsage("name the setting: --setting name=value for every parameter of the grid")
    found = near_setting(_settings(setting), run, home=home)
    print_json(found) if json else print_neighbours(found)
    return 0


@app.command("slice")
def slice_command(
    run: RunArgument = "latest",
    x: Annotated[str | None, typer.Option("--x", help="The parameter to vary.", show_default=False)] = None,
    y: Annotated[str | None, typer.Option("--y", help="A second parameter to vary.", show_default=False)] = None,
    setting: SettingOption = None,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Show failure rates along one parameter or two; the others are held where --setting says, else averaged.

    Example: `ethogram explore slice latest --x tool_noise --setting hint_ambiguity=0`
    """
    if x is None:
        raise BadUsage("name a parameter with --x, and a second one with --y")
    found = slice_exploration(x, y, _settings(setting or []), run, home=home)
    print_json(found) if json else print_slice(found)
    return 0


@app.command("export")
def export_command(
    run: RunArgument = "latest",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A .csv or .parquet file to write.", show_default=False)
    ] = None,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Write the map as a table with one row per point.

    Example: `ethogram explore export latest -o map.csv`
    """
    if out is None:
        raise BadUsage("name a file with --out: map.csv or map.parquet")
    found = export_exploration(out, run, home=home)
    print_json(found) if json else stdout().print(f"wrote {found.points} points to {found.file}", markup=False)
    return 0


@app.command("race")
def race_command(
    world: WorldOption = "toy_v1",
    synthetic: SyntheticOption = False,
    strategy: Annotated[
        str, typer.Option("--strategy", help="Strategies to compare, separated by commas; default: the usual ones.")
    ] = "default",
    grid: GridOption = None,
    seeds: Annotated[int, typer.Option("--seeds", help="Seeds per strategy.")] = 20,
    max_episodes: MaxEpisodesOption = USUAL_RACE_EPISODES,
    tau: TauOption = 0.2,
    zone: ZoneOption = 0.02,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Draw the curves: a .svg or .png file.", show_default=False)
    ] = None,
    json: JsonOption = False,
) -> int:
    """Compare strategies on a world whose truth is known: how many episodes each needs. Stores nothing.

    Example: `ethogram explore race --synthetic --strategy default,uniform --seeds 5`
    """
    found = race(
        known_world(world, synthetic=synthetic),
        USUAL if strategy == "default" else tuple(s.strip() for s in strategy.split(",")),
        grid=load_grid(grid) if grid else None,
        seeds=seeds,
        max_episodes=USUAL_RACE_EPISODES if max_episodes is None else max_episodes,
        tau=tau,
        zone=zone,
    )
    if out is not None:
        race_picture({metric: found.banded(metric) for metric in DRAWN}).save(out)
    print_json(found) if json else print_race(found)
    return 0


def _rule(
    balanced: float | None, undecided: float | None, misclassified: float | None, level: float
) -> StopRule | None:
    """The user's own stop rule, if one was named."""
    if balanced is undecided is misclassified is None:
        return None
    return StopRule(balanced=balanced, undecided=undecided, misclassified=misclassified, level=level)


def _settings(words: list[str]) -> dict[str, Any]:
    """Settings from name=value words; numbers where they can be read as such."""
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
