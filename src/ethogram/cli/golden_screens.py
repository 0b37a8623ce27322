"""What `ethogram golden check` prints."""

from __future__ import annotations

from ethogram.display.money import dollars
from ethogram.estimate import Estimate
from ethogram.questions.golden.question import GoldenCheck
from ethogram.questions.golden.task_health import TaskHealth

from .printing import first, known, plural, print_rest, size, stdout, table

STYLES = {"alarm": "bold orange1", "no alarm": "bold bright_blue"}


def print_check(found: GoldenCheck, limit: int) -> None:
    """The verdict, what was looked through, what was found, and the tasks."""
    out = stdout()
    style = STYLES.get(found.verdict, "bold")
    out.print(f"[{style}]{found.verdict.upper()}[/{style}]  {found.suite} {found.version}")
    out.print(found.why, markup=False)
    looked = found.contamination.looked
    out.print(
        f"searched {plural(looked.files, 'file')} ({size(looked.bytes)}) and {plural(looked.traces, 'trace')} of "
        f"{plural(looked.runs, 'run')}",
        style="dim",
    )
    for skipped in looked.skipped:
        out.print(f"not searched: {skipped}", style="dim", markup=False)
    for canary in found.contamination.canaries:
        out.print(f"canary in the {canary.kind} {canary.where}", style="orange1", markup=False)
    _print_overlaps(found)
    _print_probe(found)
    _print_health(found, limit)


def _print_overlaps(found: GoldenCheck) -> None:
    overlaps = found.contamination.overlaps
    rows = [
        [o.task, o.part, o.verdict, f"{o.found} of {o.of} sequences of {o.n} words", o.where]
        for o in overlaps
        if o.verdict in ("contaminated", "suspect")
    ]
    out = stdout()
    if rows:
        out.print(table(["task", "text", "verdict", "found", "first in"], rows))
    unknown = [o for o in overlaps if o.verdict == "not measured"]
    if unknown and found.contamination.measured:
        out.print(f"{plural(len(unknown), 'text')} too short to look for: {unknown[0].why}", style="dim", markup=False)


def _print_probe(found: GoldenCheck) -> None:
    probe = found.probe
    if probe is None:
        return
    out = stdout()
    out.print(f"memory of {probe.agent}: {probe.share} remembered, run {probe.run}", markup=False)
    canary = {True: "completed: it has seen the set", False: "not known", None: "no reply came"}[probe.canary]
    out.print(f"canary: {canary}; {known(probe.cost_usd, probe.at_least_usd, dollars, 'cost')}", markup=False)
    rows = [[r.task, f"{r.reproduced} of {r.own}", r.reply] for r in probe.rows if r.remembered]
    if rows:
        out.print(table(["remembered", "sequences of 5 words", "reply"], rows))
    if probe.too_short:
        out.print(f"too short to be probed: {', '.join(probe.too_short)}", style="dim", markup=False)
    if probe.stopped:
        out.print(f"the probe was stopped: {probe.stopped}", style="yellow", markup=False)


def _print_health(found: GoldenCheck, limit: int) -> None:
    out = stdout()
    if not found.runs:
        out.print("health: no stored run ran these tasks as they are now", style="dim")
        return
    ranked = sorted(found.health, key=lambda h: (h.advice == "keep", not h.findings))
    rows = [
        [h.task, h.attempts, _rate(h.success), ", ".join(h.findings).replace("_", " "), h.advice, _note(h)]
        for h in first(ranked, limit)
    ]
    out.print(f"health over {plural(len(found.runs), 'run')}:")
    out.print(table(["task", "attempts", "passes", "found", "advice", "why, or what is needed"], rows))
    print_rest(out, ranked, limit, "task")


def _rate(estimate: Estimate) -> str:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "unknown"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _note(task: TaskHealth) -> str:
    return task.why if task.findings or not task.needs else "; ".join(task.needs)
