"""`ethogram init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ethogram.questions.home.starter import write_starter

from .printing import JsonOption, print_json, stdout


def command(
    folder: Annotated[Path, typer.Argument(help="The folder to write to; by default the current one.")] = Path("."),
    json: JsonOption = False,
) -> int:
    """Write a small working suite and agent into this folder.

    Example: `ethogram init && ethogram run suite --agent agent.py:solve -k 5`
    """
    result = write_starter(folder)
    if json:
        print_json(result)
        return 0
    out = stdout()
    for file in result.files:
        out.print(f"wrote {file}", markup=False)
    out.print(f"next: {result.next}", style="dim", markup=False)
    return 0
