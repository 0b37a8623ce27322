"""`ethogram field`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from rich.console import Console

from ethogram.estimate import Estimate
from ethogram.questions.field.question import field as field_of
from ethogram.questions.field.results import CorridorCheck, FieldResult, StandardTable, standard_table

from .printing import AgainstOption, HomeOption, JsonOption, print_json, printable, stderr, stdout, table

BAD, NOT_DECIDED = 1, 2
MOST_DIMENSIONS = 12
"""Rows of a comparison; the others are named below it."""


def command(
    run: Annotated[str, typer.Argument(help="A run directory, a run's name, or latest.")] = "latest",
    field: Annotated[str | None, typer.Option(help="A field of your own: path.py:Class or pkg.mod:Class.")] = None,
    preset: Annotated[
        str | None, typer.Option(help="Standard dimensions for an agent that codes, serves or browses: --list.")
    ] = None,
    dimensions: Annotated[
        str | None, typer.Option(help="Only these standard dimensions: steps,errors,seconds.", show_default=False)
    ] = None,
    states: Annotated[str | None, typer.Option(help="Milestones in YAML that name the stages of the task.")] = None,
    rule: Annotated[
        Literal["visited", "reached"],
        typer.Option(help="Which attempts count at a state: those in it, or also those beyond it."),
    ] = "visited",
    reading: Annotated[
        Literal["steps", "messages"],
        typer.Option(help="What your own field gets as input: the trace, or its messages."),
    ] = "steps",
    against: AgainstOption = None,
    corridor: Annotated[
        str | None, typer.Option(help="A saved corridor to compare this run with; exit 1 if it left the corridor.")
    ] = None,
    save_corridor: Annotated[
        str | None, typer.Option(help="Save the successes of this run as a corridor file.")
    ] = None,
    ablate: Annotated[bool, typer.Option("--ablate", help="Effects of the factors that conditions set.")] = False,
    condition: Annotated[str | None, typer.Option(help="Which condition, where a run has several.")] = None,
    agent: Annotated[str | None, typer.Option(help="Which agent, where a run has several.")] = None,
    trace: Annotated[
        list[str] | None, typer.Option(help="Only traces whose id begins with this; may be repeated.")
    ] = None,
    join: Annotated[list[str] | None, typer.Option(help="A further run to include; may be repeated.")] = None,
    level: Annotated[float, typer.Option(help="The confidence level of intervals.", min=0.5, max=0.999)] = 0.95,
    draws: Annotated[int, typer.Option(help="Random permutations of each test.")] = 999,
    seed: Annotated[int, typer.Option(help="The seed of the permutations.")] = 0,
    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="Read the lake here, or file by file on a Ray cluster.")
    ] = "local",
    listed: Annotated[bool, typer.Option("--list", help="List the standard dimensions and exit.")] = False,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Show whether behaviour varies, on which dimensions successes and failures differ, and what to change.

    Example: `ethogram field latest --preset service --states milestones.yaml`
    """
    if listed:
        _answer_list(standard_table(preset), json)
        return 0
    result = field_of(
        run,
        home=home,
        field=field,
        preset=preset,
        dimensions=[d.strip() for d in dimensions.split(",")] if dimensions is not None else (),
        states=states,
        rule=rule,
        reading=reading,
        against=against,
        corridor=corridor,
        save_corridor=save_corridor,
        ablate=ablate,
        condition=condition,
        agent=agent,
        traces=trace or (),
        join=join or (),
        level=level,
        draws=draws,
        seed=seed,
        engine=engine,
    )
    if json:
        print_json(result)
    else:
        _print(result)
    return _code(result)


def _code(result: FieldResult) -> int:
    """1 outside the corridor; 2 where the question asked cannot be decided."""
    if result.corridor is not None:
        raised = result.corridor.alarm.raised
        return BAD if raised else NOT_DECIDED if raised is None else 0
    if result.one_class and result.comparison is None and result.ablation is None and result.saved_corridor is None:
        ended = "succeeded" if result.successes else "failed"
        stderr().print(
            f"ethogram field: every scored trace {ended}, so successes and failures cannot be compared",
            markup=False,
            soft_wrap=True,
        )
        return NOT_DECIDED
    return 0


def _print(result: FieldResult) -> None:
    out = stdout()
    runs = " + ".join([result.run, *result.joined])
    tasks = _count(result.tasks, "task")
    if result.ablation is not None:
        tasks = f"{_count(result.ablation.tasks, 'task')} under {len(result.ablation.cells)} conditions"
    out.print(
        f"{printable(runs)}: {result.K} traces of {tasks}, {result.successes} succeeded, "
        f"{result.failures} failed; {_count(result.d, 'dimension')} ({printable(result.field)}, by {result.reading})",
        style="bold",
        markup=False,
    )
    if result.comparison is not None:
        _print_comparison(out, result)
    if result.corridor is not None:
        _print_corridor(out, result.corridor)
    if result.ablation is not None:
        _print_ablation(out, result)
    alone = result.comparison is None and result.corridor is None and result.ablation is None
    if alone:
        _print_chain(out, result)
    _print_notes(out, result)
    if alone:
        out.print(f"next: ethogram field OTHER --against {result.run}", style="dim", markup=False)


def _print_chain(out: Console, result: FieldResult) -> None:
    """The advice, a sentence per question, then the numbers in tables."""
    out.print()
    out.print(printable(result.advice_text), style="bold", markup=False)
    out.print()
    for step in result.chain.steps:
        out.print(printable(step.text), markup=False)
    out.print()
    _print_whole(out, result)
    out.print()
    _print_dimensions(out, result)
    if result.horizons:
        out.print()
        _print_horizons(out, result)


def _print_whole(out: Console, result: FieldResult) -> None:
    """Width, pass rate and convergence of the whole field."""
    plain = {"spread": result.width, "convergence": result.convergence}
    titles = {"spread": "width, log scale", "pass_rate": "pass rate", "convergence": "convergence"}
    rows = []
    for name, title in titles.items():
        estimate = result.estimates[name]
        value = "inf" if estimate.value == float("inf") else _cells(estimate)[0]
        rows.append([title, value, _cells(estimate)[1], _number(plain.get(name))])
    out.print(table(["field", "value", f"{100 * result.level:g} %", "plain"], rows))
    why = result.estimates["spread"].why
    if why:
        out.print(f"width without an interval: {printable(why)}", style="dim", markup=False)


def _print_dimensions(out: Console, result: FieldResult) -> None:
    """The largest separation first; the default metrics, then the plain ones."""
    percent = f"{100 * result.level:g} %"
    rows = []
    ordered = sorted(result.dimensions.items(), key=lambda kv: -abs(kv[1].estimates["separation"].value or 0.0))
    for name, row in ordered:
        apart = row.estimates["separation"]
        skew = row.estimates["skew"].value
        numbers = (row.adjusted, skew, row.mean, row.separation, row.skew)
        rows.append([name, *_cells(apart), *map(_number, numbers)])
    plain = ["plain mean", "plain separation", "plain skew"]
    out.print(table(["dimension", "separation sd", percent, "adjusted p", "skew", *plain], rows))
    out.print(
        "largest separation first\n"
        "separation: successes minus failures within tasks, log features in standard deviations\n"
        "skew: correlation of success and log feature within tasks\n"
        "plain: over all attempts, tasks pooled, in the dimension's own unit",
        style="dim",
    )
    if result.test_method:
        out.print(f"adjusted p: {result.test_method}", style="dim", markup=False)


def _print_horizons(out: Console, result: FieldResult) -> None:
    rows = []
    for h in result.horizons:
        drift = h.estimates.get("drift")
        rows.append([h.state, h.K, h.successes, *map(_number, (h.width, h.convergence, h.drift)), *_cells(drift)])
    columns = [result.rule, "K", "successes", "plain width", "convergence", "plain drift", "drift"]
    out.print(table([*columns, f"{100 * result.level:g} %"], rows))
    for h in result.horizons:
        why = h.estimates["drift"].why if "drift" in h.estimates else None
        if why:
            out.print(f"drift at {printable(h.state)}: {printable(why)}", style="dim", markup=False)


def _print_comparison(out: Console, result: FieldResult) -> None:
    found = result.comparison
    assert found is not None
    out.print()
    out.print(f"{result.run} against {result.against}, on {_count(found.tasks, 'task')}", style="bold", markup=False)
    p = {t.of: t.p for t in found.tests}
    percent = f"{100 * result.level:g} %"
    steady = [_number(e.value) if e.value is None or e.value < float("inf") else "inf" for e in found.convergences]
    rows = [
        ["width ratio", *_cells(found.width_ratio), _number(p.get("width"))],
        ["centre shift (widths)", *_cells(found.centre_shift), _number(p.get("centre"))],
        ["centre shift, each task its own", None, None, _number(p.get("centre per task"))],
        ["pass rate", *_cells(found.pass_rate_difference), _number(p.get("convergence"))],
        ["convergence", " → ".join(s or "unknown" for s in steady), None, _number(p.get("convergence"))],
    ]
    out.print(table([f"{result.run} minus {result.against}", "value", percent, "p"], [r for r in rows if any(r[1:])]))
    varying = [d for d in found.dimensions if d.shift.value is not None]
    shown = sorted(varying, key=lambda d: -abs(d.shift.value or 0.0))[:MOST_DIMENSIONS]
    each = [
        [d.name, *_cells(d.shift), _number(d.adjusted), *_cells(d.separation), _number(d.separation_p)] for d in shown
    ]
    out.print()
    out.print(table(["dimension", "shift sd", percent, "p", "change of separation sd", percent, "p"], each))
    out.print("p of dimensions: adjusted over all of them (max-T for shifts, Holm for separation)", style="dim")
    for why, unseen in _not_shown(result, [d.name for d in shown]).items():
        out.print(f"not in the table: {printable(', '.join(unseen))} ({why})", style="dim", markup=False)
    for side, names in ((result.against, found.only_in_first), (result.run, found.only_in_second)):
        if names:
            out.print(f"only in {side}: {printable(', '.join(names[:8]))}", style="dim", markup=False)


def _not_shown(result: FieldResult, shown: list[str]) -> dict[str, list[str]]:
    """Dimensions of a comparison that its table does not show, by reason."""
    reasons: dict[str, list[str]] = {}
    for d in result.comparison.dimensions if result.comparison is not None else ():
        if d.name not in shown:
            moved = d.shift.value is not None
            why = (
                f"the table shows the {MOST_DIMENSIONS} that moved most; --json has all" if moved else d.shift.why or ""
            )
            reasons.setdefault(why, []).append(d.name)
    return reasons


def _print_corridor(out: Console, found: CorridorCheck) -> None:
    out.print()
    out.print(
        f"against the corridor {printable(found.name)} ({_count(found.K, 'attempt')})", style="bold", markup=False
    )
    rows = [
        [g.state, g.K, _number(g.width_gap), *_cells(g.width_ratio), *_cells(g.distance), _number(g.p)]
        for g in found.gaps
    ]
    out.print(table([found.rule, "K", "width gap", "width ratio", "", "centre distance", "", "p"], rows))
    out.print(f"an attempt counts at every state that it {found.rule}; p: of a centre distance of 0", style="dim")
    outside = [a for a in found.adherence if a.inside is False]
    unknown = sum(a.inside is None for a in found.adherence)
    told = f"{len(outside)} of {len(found.adherence)} traces outside"
    out.print(f"{told}{f', {unknown} unknown' if unknown else ''}")
    for a in sorted(outside, key=lambda a: a.p)[:8]:
        out.print(f"  {a.episode}  task {printable(a.task)}  p {a.p:.2g}", markup=False)
    alarm = found.alarm
    if alarm.raised is None:
        out.print(f"no verdict: {printable(alarm.why or '')}", style="bold yellow", markup=False)
    else:
        word = "left the corridor" if alarm.raised else "within the corridor"
        out.print(f"{word} (p = {_number(alarm.p)})", style="bold orange1" if alarm.raised else "bold bright_blue")
    for name, why in found.not_compared.items():
        out.print(f"not compared: {name}: {printable(why)}", style="dim", markup=False)


def _print_ablation(out: Console, result: FieldResult) -> None:
    found = result.ablation
    assert found is not None
    base = ", ".join(f"{k}={v}" for k, v in found.reference.items())
    out.print()
    out.print(f"effects against {printable(base)}, on {_count(found.tasks, 'task')}", style="bold", markup=False)
    rows = []
    for effect in found.effects:
        metrics = (
            ("width, ratio", "width", effect.width),
            ("convergence, ratio", "convergence", effect.convergence),
            ("centre, in widths", "centre", effect.centre),
            ("pass rate, difference", "pass_rate", effect.pass_rate),
        )
        for title, metric, estimate in metrics:
            rows.append([effect.name, title, *_cells(estimate), _number(effect.adjusted.get(metric))])
    out.print(table(["effect", "on", "", f"{100 * result.level:g} %", "p, adjusted"], rows))
    for note in found.notes:
        out.print(printable(note), style="dim", markup=False)


def _print_notes(out: Console, result: FieldResult) -> None:
    gone = ", ".join(f"{reason} {n}" for reason, n in result.missing.items())
    if gone:
        out.print(f"left out: {gone}", style="dim", markup=False)
    reasons: dict[str, list[str]] = {}
    for name, why in result.left_out.items():
        reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        out.print(f"not measured: {', '.join(names)} ({printable(why)})", style="dim", markup=False)
    for note in result.notes:
        stderr().print(f"note: {printable(note)}", style="yellow", markup=False, soft_wrap=True)
    if result.saved_corridor is not None:
        out.print(f"corridor saved: {printable(result.saved_corridor)}", markup=False)


def _answer_list(result: StandardTable, json: bool) -> None:
    if json:
        print_json(result)
        return
    rows = [[d.name, d.unit, d.formula, ", ".join(d.presets)] for d in result.dimensions]
    stdout().print(table(["dimension", "unit", "formula", "presets"], rows))


def _number(value: float | str | None) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return f"{value:.3g}"


def _cells(estimate: Estimate | None) -> list[str | None]:
    """The value and its interval."""
    if estimate is None:
        return [None, None]
    known = estimate.low is not None and estimate.high is not None
    return [_number(estimate.value), f"{estimate.low:.3g} to {estimate.high:.3g}" if known else None]


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
