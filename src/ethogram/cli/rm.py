"""`ethogram rm`."""

from __future__ import annotations

from typing import Annotated

import typer

from ethogram.questions.home.runs import rm
from ethogram.store import run_of

from .printing import HomeOption, JsonOption, YesOption, asked_first, print_json, size, stdout


def command(
    run: Annotated[str, typer.Argument(help="A run directory, a run's name, or latest.")],
    yes: YesOption = False,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Remove a run with everything in it. Asks first.

    Example: `ethogram rm night --yes`
    """
    found = run_of(run, home)
    asked_first(f"Remove run {found.name!r} with all its traces?", yes)
    result = rm(run, home=home)
    if json:
        print_json(result)
    else:
        stdout().print(f"removed {result.run}: {result.episodes} episodes, {size(result.bytes)}", markup=False)
    return 0
