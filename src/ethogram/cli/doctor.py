"""`ethogram doctor`."""

from __future__ import annotations

from ethogram.questions.home.maintenance import check_health

from .printing import HomeOption, JsonOption, cell, plural, print_json, stdout


def command(json: JsonOption = False, home: HomeOption = None) -> int:
    """Check versions, extras, plug-ins, disk, home and keys; exit 1 if something is wrong.

    Example: `ethogram doctor`
    """
    result = check_health(home=home)
    if json:
        print_json(result)
        return 0 if result.ok else 1
    out = stdout()
    failed = sum(check.ok is False for check in result.checks)
    if result.ok:
        out.print(f"[bold green]OK[/bold green]  {plural(len(result.checks), 'check')}\n")
    else:
        out.print(f"[bold red]{failed} of {plural(len(result.checks), 'check')} failed[/bold red]\n")
    width = max(len(c.name) for c in result.checks)
    for check in result.checks:
        mark, style = ("✓", "green") if check.ok else ("✗", "bold red") if check.ok is False else ("·", "dim")
        out.print(f"[{style}]{mark}[/{style}] {check.name:<{width}}  {cell(check.found)}")
        if check.ok is False and check.advice:
            out.print(f"  {'':<{width}}  → {cell(check.advice)}", style="yellow")
    return 0 if result.ok else 1
