"""`ethogram runs`."""

from __future__ import annotations

from typing import Annotated

import typer

from ethogram.questions.home.runs import runs

from .printing import HomeOption, JsonOption, print_json, stdout, table, when


def command(
    tag: Annotated[str | None, typer.Option(help="Only runs with this tag.")] = None,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """List runs, newest last.

    Example: `ethogram runs --tag nightly`
    """
    result = runs(home=home, tag=tag)
    if json:
        print_json(result)
        return 0
    out = stdout()
    if not result.runs:
        out.print(f"no runs in {result.home}; begin with: ethogram import PATH", markup=False)
        return 0
    rows = [
        [r.run, r.kind, when(r.created_ns), r.episodes, r.scored, r.missing, " ".join(r.tags), r.problem or ""]
        for r in result.runs
    ]
    columns = ["run", "kind", "created (UTC)", "episodes", "scored", "missing", "tags", "problem"]
    empty = [i for i in (7, 6) if not any(row[i] for row in rows)]
    for i in empty:
        columns.pop(i)
        rows = [row[:i] + row[i + 1 :] for row in rows]
    out.print(table(columns, rows))
    return 0
