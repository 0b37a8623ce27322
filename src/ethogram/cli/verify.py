"""`ethogram verify`."""

from __future__ import annotations

from typing import Annotated

import typer

from ethogram.questions.home.maintenance import verify

from .printing import HomeOption, JsonOption, plural, print_json, stdout, table


def command(
    runs: Annotated[list[str] | None, typer.Argument(help="Runs to check; by default all.")] = None,
    sweep: Annotated[bool, typer.Option("--sweep", help="Also remove what crashed writers left over.")] = False,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Re-derive every hash and follow every reference; exit 1 if anything is damaged.

    Example: `ethogram verify latest --sweep`
    """
    result = verify(runs or (), home=home, sweep=sweep)
    if json:
        print_json(result)
        return 0 if result.ok else 1
    out = stdout()
    damaged = sum(len(run.damaged) for run in result.runs) + len(result.home)
    if result.ok:
        out.print(f"[bold green]NO DAMAGE[/bold green]  {plural(len(result.runs), 'run')}\n")
    else:
        out.print(f"[bold red]DAMAGED[/bold red]  {plural(damaged, 'problem')}\n")
    rows = [[*r.values()] for r in result.rows()]
    out.print(table(["run", "episodes", "spans", "texts", "files", "damaged", "leftovers"], rows))
    for problem in result.home:
        out.print(f"damaged: {problem.where}: {problem.what}", style="red", markup=False)
    for run in result.runs:
        for problem in run.damaged[:50]:
            out.print(f"damaged: {run.run}/{problem.where}: {problem.what}", style="red", markup=False)
        if run.advice:
            out.print(f"{run.run}: {run.advice}", markup=False)
        if run.sealed_away:
            out.print(
                f"{run.run}: {plural(run.sealed_away, 'text segment')} sealed with a key that is not at hand",
                style="yellow",
                markup=False,
            )
    unproven = [*result.unproven, *(f"{run.run}/{file}" for run in result.runs for file in run.unproven)]
    if unproven:
        first = ", ".join(unproven[:3])
        out.print(f"no hash covers {plural(len(unproven), 'file')}: {first}", style="yellow", markup=False)
    if result.swept:
        out.print(f"swept {plural(len(result.swept), 'left-over file')}")
    return 0 if result.ok else 1
