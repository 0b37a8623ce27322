"""Options that every verb shares which runs agents: what they inherit, and how their use becomes dollars."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ethogram.cost import Metering

ENGINE = typer.Option("--engine", help="Run on this machine (local) or on a Ray cluster (ray).")
WORKERS = typer.Option("--workers", help="Episodes at once, at most; fewer while an endpoint answers 429.")
EngineOption = Annotated[str, ENGINE]
WorkersOption = Annotated[int, WORKERS]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", help="Pass this variable, NAME or NAME=VALUE, to a 'cmd:' agent; may be repeated."),
]
CleanEnvOption = Annotated[
    bool, typer.Option("--clean-env", help="A 'cmd:' agent inherits only PATH, HOME and the like, and --env.")
]
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
AllowUnmeteredOption = Annotated[
    bool,
    typer.Option("--allow-unmetered", help="Caps hold for what is recorded, where an agent does not record all."),
]


def metering(price: list[str] | None, prices: Path | None, allow_unmetered: bool) -> Metering:
    """How recorded use becomes dollars, from options; None of prices means those of the settings."""
    from ethogram.cost import Metering
    from ethogram.cost.settings import price_list

    own = price_list(prices, tuple(price or ())).own if price or prices else None
    return Metering(prices=own, allow_unmetered=allow_unmetered)
