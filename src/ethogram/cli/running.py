"""Options shared by verbs that run agents: environment, disturbances, limits in dollars."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ethogram.prices import Metering

ENGINE = typer.Option("--engine", help="Run on this machine (local) or on a Ray cluster (ray).")
WORKERS = typer.Option("--workers", min=1, help="Maximum concurrent episodes; fewer while an endpoint answers 429.")
EngineOption = Annotated[str, ENGINE]
WorkersOption = Annotated[int, WORKERS]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", help="Pass this variable, NAME or NAME=VALUE, to a 'cmd:' agent; may be repeated."),
]
CleanEnvOption = Annotated[
    bool, typer.Option("--clean-env", help="A 'cmd:' agent inherits only PATH, HOME and the like, and --env.")
]
CAPTURE = typer.Option(
    "--capture",
    help="Model calls of the agent: auto (captured unless it records them all), gateway, off, or a gateway's address",
)
CaptureOption = Annotated[str, CAPTURE]
PriceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--price",
        help="A model's price, NAME=FRESH/OUTPUT[/CACHED[/CACHE_WRITE]], $ per million tokens; '*' is any; repeatable.",
    ),
]
PricesOption = Annotated[
    Path | None,
    typer.Option(
        "--prices", help="Your prices: TOML, YAML or JSON; else ETHOGRAM_PRICES, else [prices] of ethogram.toml."
    ),
]
ToolOption = Annotated[
    list[str] | None,
    typer.Option("--tool", help="Disturb this tool only; may be repeated. By default all."),
]
IntensityOption = Annotated[float, typer.Option("--intensity", help="The share of calls that are disturbed, up to 1.")]
DisturbSeedOption = Annotated[int, typer.Option("--seed", help="Seed of what is disturbed.")]
AllowUnmeteredOption = Annotated[
    bool,
    typer.Option(
        "--allow-unmetered",
        help="Accept caps that cover only what is recorded, where an agent does not record everything.",
    ),
]


def metering(price: list[str] | None, prices: Path | None, allow_unmetered: bool) -> Metering:
    """How recorded use becomes dollars, from options; None of prices means those of the settings."""
    from ethogram.prices import Metering
    from ethogram.prices.settings import price_list

    own = price_list(prices, tuple(price or ())).own if price or prices else None
    return Metering(prices=own, allow_unmetered=allow_unmetered)


LiveToolsOption = Annotated[
    bool,
    typer.Option("--live-tools", help="Allow tools that are not declared read_only, simulated or recorded."),
]
