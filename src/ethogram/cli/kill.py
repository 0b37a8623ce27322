"""`ethogram kill`."""

from __future__ import annotations

from typing import Annotated

import typer

from ethogram.questions.home.kill_switch import kill

from .printing import HomeOption, JsonOption, print_json, stdout


def command(
    run: Annotated[str | None, typer.Argument(help="The run to stop; without it, all runs of the home.")] = None,
    why: Annotated[str, typer.Option(help="The reason; stored with the flag.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Let episodes start again.")] = False,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Halt new episodes everywhere within a second; those in flight may finish.

    Example: `ethogram kill latest --why "the bill looks wrong"`
    """
    result = kill(run, why=why, undo=undo, home=home)
    if json:
        print_json(result)
        return 0
    what = f"run {result.run}" if result.run else "all runs of this home"
    stdout().print(f"{'released' if result.released else 'stopping'} {what}", markup=False)
    return 0
