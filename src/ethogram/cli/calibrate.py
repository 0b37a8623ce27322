"""`ethogram calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.questions.calibration.audit import ALARM_LEVEL, AUDIT_SHARE, AuditResult, ItemAudit, audit_run
from ethogram.questions.calibration.corrected_comparison import CorrectedComparison, compare_corrected
from ethogram.questions.calibration.question import CalibrationResult, ItemCalibration, calibrate

from .printing import (
    AgainstOption,
    CommonTasksOption,
    HomeOption,
    JsonOption,
    LimitOption,
    at_home,
    first,
    plural,
    print_json,
    print_rest,
    printable,
    stdout,
    table,
    when,
)


def command(
    run: Annotated[str, typer.Argument(help="A run directory, a run's name, or latest.")] = "latest",
    labels: Annotated[
        Path | None,
        typer.Option("--labels", help="First add the labels of this CSV, as `label --from` does.", show_default=False),
    ] = None,
    item: Annotated[
        list[str] | None, typer.Option("--item", help="An item of the rubric; by default all.", show_default=False)
    ] = None,
    judge: Annotated[str | None, typer.Option(help="One judge, where there are several.", show_default=False)] = None,
    score: Annotated[
        str | None,
        typer.Option("--score", help="An ordinary score in place of the rubric: a label or scorer, or outcome."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by", help="Also per slice: task, condition, agent, outcome, or a meta key.", show_default=False
        ),
    ] = None,
    steps: Annotated[bool, typer.Option("--steps", help="Compare verdicts on single steps, not whole traces.")] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="The standing audit: test whether the judge has drifted.")
    ] = False,
    against: AgainstOption = None,
    common_tasks: CommonTasksOption = False,
    width: Annotated[
        float | None,
        typer.Option(help="Labels needed for a corrected rate within ± this much.", show_default=False),
    ] = None,
    share: Annotated[
        float, typer.Option(min=0, max=1, help="With --audit: the share of attempts that it holds.")
    ] = AUDIT_SHARE,
    alpha: Annotated[
        float, typer.Option(min=0, max=1, help="With --audit: the overall false-alarm rate of an unchanged judge.")
    ] = ALARM_LEVEL,
    level: Annotated[float, typer.Option(help="The confidence level of the intervals.", min=0.5, max=0.999)] = 0.95,
    limit: LimitOption = 30,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Show whether a judge can be trusted: its verdicts against labels by hand, and the corrected rate.

    Labels must be drawn with `ethogram label RUN --sample N`. Exit codes: 0 every item is settled, 2 there are
    too few labels; with --audit 1 is an alarm, and --against names the run that was calibrated. Without --audit,
    --against compares the corrected rates of two runs, each with labels of its own.

    Example: `ethogram calibrate night --score model_graded_qa --by condition`
    """
    if audit:
        if by or steps or labels is not None:
            raise BadUsage("--audit watches whole traces over time; leave out --by, --steps and --labels")
        watched = audit_run(
            run,
            against=against,
            items=tuple(item or ()),
            judge=judge,
            score=score,
            share=share,
            alpha=alpha,
            home=home,
        )
        if json:
            print_json(watched)
        else:
            _print_audit(watched, limit)
        return 1 if watched.alarm else 0 if watched.decided else 2
    if against is not None:
        if by or steps or labels is not None or width is not None:
            raise BadUsage("--against compares whole runs; leave out --by, --steps, --labels and --width")
        versus = compare_corrected(
            run,
            against,
            items=tuple(item or ()),
            judge=judge,
            score=score,
            common_tasks=common_tasks,
            level=level,
            home=home,
        )
        if json:
            print_json(versus)
        else:
            _print_versus(versus)
        return 0 if versus.decided else 2
    result = calibrate(
        run,
        labels=labels,
        items=tuple(item or ()),
        judge=judge,
        score=score,
        by=tuple(by or ()),
        steps=steps,
        width=width,
        level=level,
        home=home,
    )
    if json:
        print_json(result)
    else:
        _print(result, limit, home)
    return 0 if result.decided else 2


def _print(result: CalibrationResult, limit: int, home: str | None) -> None:
    out = stdout()
    ready = [i for i in result.items if i.automate]
    told = f"{len(ready)} of {plural(len(result.items), 'item')} may be automated"
    out.print(f"{result.run}  {told}", style="bold", markup=False)
    cells = [
        [i.item, _answer(i), i.labels, *(_cell(e) for e in (i.j, i.kappa, i.raw, i.corrected))] for i in result.items
    ]
    out.print(table(["item", "automate", "labels", "J", "kappa", "raw rate", "corrected rate"], cells))
    for item in result.items:
        _print_item(out, item, limit)
    for note in result.notes:
        out.print(f"note: {printable(note)}", style="dim", markup=False)
    asked = next((i.next for i in result.items if i.next is not None and i.next.labels), None)
    if asked is not None:
        out.print(f"next: {printable(asked.command)}{at_home(home)}", style="dim", markup=False)


def _print_item(out: Console, item: ItemCalibration, limit: int) -> None:
    out.print()
    out.print(f"{item.item} by {item.judge or 'the log'}: {item.why}", markup=False)
    facts = [f"{item.judged:,} judged in {plural(item.tasks, 'task')}", f"{item.drawn} drawn for labels"]
    counts = {"not labelled yet": item.unlabelled, "could not be judged": item.unjudged}
    counts["verdicts of earlier versions left out"] = item.earlier
    facts += [f"{n:,} {word}" for word, n in counts.items() if n]
    out.print("  " + ", ".join(facts), markup=False, style="dim")
    if item.labels:
        c = item.confusion
        columns = ["", "people: yes", "people: no"]
        cells = [["judge: yes", c.both_yes, c.judge_yes_people_no], ["judge: no", c.judge_no_people_yes, c.both_no]]
        out.print(table(columns, cells))
        figures = {name: getattr(item, name) for name in ("agreement", "precision", "sensitivity", "specificity")}
        out.print("  " + "; ".join(f"{name} {_cell(e)}" for name, e in figures.items()), markup=False)
        beyond = f"  beyond chance: kappa {_cell(item.kappa)}, AC1 {_cell(item.ac1)}"
        grades = "" if item.weighted_kappa is None else f", of grades: weighted kappa {_cell(item.weighted_kappa)}"
        out.print(beyond + grades, markup=False)
        out.print(f"  {_worth(item)}", markup=False)
    if item.people is not None:
        p = item.people
        out.print(
            f"  people among themselves: {p.twice} labelled twice or more, agreement {_cell(p.agreement)}, "
            f"alpha {_cell(p.alpha)}",
            markup=False,
        )
    if item.slices:
        cells = [
            [f"{s.by} {s.value}", s.judged, s.labels, _cell(s.raw), _cell(s.corrected)]
            for s in first(item.slices, limit)
        ]
        out.print(table(["slice", "judged", "labels", "raw rate", "corrected rate"], cells))
        print_rest(out, item.slices, limit, "slice")
    for warning in item.warnings:
        out.print(f"  warning: {warning}", markup=False)
    if item.outside:
        named = ", ".join(item.outside_traces)
        out.print(f"  {plural(item.outside, 'label')} that no sample drew not used: {named}, …", markup=False)
    if item.for_width is not None:
        asked = f"  ± {item.for_width.half_width:g}: "
        told = "no number of labels" if item.for_width.labels is None else f"about {item.for_width.labels:,} labels"
        out.print(f"{asked}{told} in all ({item.for_width.why})", markup=False)
    if item.next is not None and item.next.labels:
        each = ", ".join(f"{n} of {stratum}" for stratum, n in item.next.strata.items())
        out.print(f"  label next: {each} ({item.next.rule})", markup=False)


def _print_versus(result: CorrectedComparison) -> None:
    out = stdout()
    moved = [i for i in result.items if i.verdict != "undecided"]
    told = f"{len(moved)} of {plural(len(result.items), 'item')} moved" if result.decided else "labels are missing"
    out.print(f"{result.against} → {result.run}  {told}", style="bold", markup=False)
    cells = [
        [i.item, i.verdict, _cell(i.base), _cell(i.candidate), i.raw, _cell(i.difference), i.tasks]
        for i in result.items
    ]
    out.print(table(["item", "corrected", result.against, result.run, "raw difference", "difference", "tasks"], cells))
    for item in result.items:
        if item.difference.why:
            out.print(f"{item.item}: {printable(item.difference.why)}", markup=False)


def _worth(item: ItemCalibration) -> str:
    """What the judge is worth beside labels, and what its raw verdicts would cost."""
    told = []
    if item.bias is not None:
        told.append(f"the raw rate is off by {item.bias:+.3f}")
    if item.label_worth is not None:
        told.append(
            f"with the judge's verdicts, 1 label gives as much information as {item.label_worth:.2f} labels alone"
        )
    if item.gate_multiplier is not None:
        told.append(f"comparing raw verdicts needs {item.gate_multiplier:.1f} times as many attempts")
    else:
        told.append("no number of attempts makes a comparison of raw verdicts valid")
    return "; ".join(told)


def _answer(item: ItemCalibration) -> str:
    return "yes" if item.automate else "no" if item.decided else "not settled"


def _cell(estimate: Estimate) -> str:
    if estimate.value is None:
        return "–"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _print_audit(result: AuditResult, limit: int) -> None:
    out = stdout()
    word = "ALARM" if result.alarm else "no alarm" if result.decided else "no result yet"
    out.print(f"{result.run}  {word}", style="bold", markup=False)
    for item in result.items:
        _print_watched(out, item, limit)
    out.print(
        f"the audit holds {result.share:.0%} of all judged attempts; an unchanged judge raises an alarm with "
        f"probability at most {result.level:g}, at any number of looks",
        style="dim",
        markup=False,
    )


def _print_watched(out: Console, item: ItemAudit, limit: int) -> None:
    out.print(f"{item.item} by {item.judge or 'the log'}: {item.why}", markup=False)
    out.print(f"  calibrated agreement {_cell(item.baseline)}, audited since {_cell(item.now)}", markup=False)
    if item.periods:
        rows = [
            [f"{when(p.from_ns)} – {when(p.to_ns)}", p.version, p.labels, _cell(p.agreement), _cell(p.j)]
            for p in first(item.periods, limit)
        ]
        out.print(table(["from – to", "version", "labels", "agreement", "J"], rows))
    if item.due:
        out.print(f"  to label: {plural(len(item.due), 'trace')}, e.g. {', '.join(item.due[:5])}", markup=False)
