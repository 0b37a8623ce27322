"""`ethogram sql`."""

from __future__ import annotations

from typing import Annotated

import typer

from ethogram.questions.home.queries import sql as ask

from .printing import HomeOption, JsonOption, LimitOption, print_json, stdout, table


def command(
    query: Annotated[
        str, typer.Argument(help="One SELECT over runs, episodes, spans, texts, labels, messages, metrics.")
    ],
    run: Annotated[list[str] | None, typer.Option(help="Only these runs; may be repeated.")] = None,
    limit: LimitOption = 200,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Query all runs in SQL (DuckDB), read only.

    Example: `ethogram sql "SELECT tool, count(*) AS n FROM spans WHERE kind = 'tool' GROUP BY tool ORDER BY 2 DESC"`
    """
    result = ask(query, runs=run, home=home, limit=limit or None)
    if json:
        print_json(result)
        return 0
    out = stdout()
    out.print(table(result.columns, [[r[c] for c in result.columns] for r in result.records]))
    if result.more:
        out.print(f"… more rows; --limit 0 prints all ({limit} shown)", style="dim")
    return 0
