"""`ethogram perturb`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ethogram.display.money import dollars
from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.harness.environment import parse_environment
from ethogram.harness.options import RunOptions, parse_caps
from ethogram.harness.run_result import RunInterrupted
from ethogram.questions.experiment.buying.experiment import Experiment, ExperimentPlan
from ethogram.questions.experiment.question import experiment_results
from ethogram.questions.experiment.records import Aggregate, Dose, ExperimentPair, ExperimentResults, NotApplied
from ethogram.store import short_id

from .live import watcher
from .printing import HomeOption, JsonOption, LimitOption, first, plural, print_json, print_rest, stderr, stdout, table
from .running import (
    AllowUnmeteredOption,
    CaptureOption,
    CleanEnvOption,
    EngineOption,
    EnvOption,
    PriceOption,
    PricesOption,
    ToolOption,
    WorkersOption,
    metering,
)

NOT_DELIVERED = "(not delivered)"
MOST = 24
"""How many pairs are printed one by one, unless --limit says otherwise."""


def command(
    agent: Annotated[
        str | None, typer.Option(help="pkg.mod:name, file.py:name, 'cmd: …' or http://…", show_default=False)
    ] = None,
    file: Annotated[list[Path] | None, typer.Option(help="A file the question is about; may be repeated.")] = None,
    question: Annotated[str, typer.Option(help="What is asked about the files.", show_default=False)] = "",
    expected: Annotated[
        str | None, typer.Option(help="The right answer, if there is one; several are separated by commas.")
    ] = None,
    suite: Annotated[str | None, typer.Option(help="A whole suite instead of files and a question.")] = None,
    operators: Annotated[
        str, typer.Option(help="Operators, separated by commas; by default all that fit the files.")
    ] = "",
    tool: ToolOption = None,
    k: Annotated[int, typer.Option("-k", help="Pairs per change and task.")] = 1,
    noise_floor: Annotated[
        int | None, typer.Option(help="Re-runs of the clean task; by default 5, and 0 for a scripted agent.")
    ] = None,
    intensities: Annotated[str, typer.Option(help="Above 0 and up to 1, such as 0.2,0.5,1: a dose-response.")] = "1",
    score: Annotated[
        str, typer.Option(help="equality, numeric, contains, one-of, set, or file.py:function.")
    ] = "equality",
    seed: Annotated[int, typer.Option(help="Seed of attempts and changes.")] = 0,
    name: Annotated[
        str | None, typer.Option("--run", help="Name of the run; one that was stopped is continued.")
    ] = None,
    results: Annotated[str | None, typer.Option(help="Show the results of a stored experiment; run nothing.")] = None,
    max_usd: Annotated[float | None, typer.Option(help="Maximum dollars of the whole experiment: a hard stop.")] = None,
    price: PriceOption = None,
    prices: PricesOption = None,
    allow_unmetered: AllowUnmeteredOption = False,
    max_steps: Annotated[int | None, typer.Option(help="Maximum steps of one episode.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Maximum wall-clock seconds of one episode.")] = None,
    workers: WorkersOption = 8,
    engine: EngineOption = "local",
    env: EnvOption = None,
    clean_env: CleanEnvOption = False,
    capture: CaptureOption = "auto",
    limit: LimitOption = MOST,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write one row per pair to this CSV file.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its price; call nothing.")] = False,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Damage what an agent reads, one change at a time, and see whether its behaviour changes.

    Clean and disturbed attempts share their seeds; each pair is compared with the agent's run-to-run variation.

    Example: `ethogram perturb --agent a.py:solve --file sales.csv --question "What is the total?" --expected 42`
    """
    if results is not None:
        return _show(experiment_results(results, home=home), out, json, limit)
    if agent is None:
        raise BadUsage("an experiment needs an agent: give --agent, or --results RUN to look at a stored one")
    caps = {"experiment.usd": max_usd, "episode.steps": max_steps, "episode.seconds": max_seconds}
    made = Experiment(
        agent=agent,
        files=file or (),
        question=question,
        expected=expected,
        suite=suite,
        operators=_words(operators),
        tools=tool or (),
        k=k,
        noise_floor=noise_floor,
        intensities=_numbers(intensities),
        score=score,
        seed=seed,
        run=name,
        options=RunOptions(
            workers=workers,
            engine=engine,
            caps=parse_caps(caps, ()),
            environment=parse_environment(tuple(env or ()), clean_env),
            capture=capture,
            metering=metering(price, prices, allow_unmetered),
        ),
        home=home,
    )
    if dry_run:
        planned = made.plan()
        made.discard()
        print_json(planned) if json else _plan(planned, limit)
        return 0
    try:
        with watcher(quiet=json) as watching:
            found = made.run(progress=watching)
    except RunInterrupted:
        stderr().print(f"interrupted; resume with: ethogram run --resume {made.name}", style="yellow")
        return 130
    code = _show(found, out, json, limit)
    return 130 if made.session is not None and made.session.stopped == "killed" else code


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str) -> list[float]:
    found = []
    for word in _words(text):
        try:
            found.append(float(word))
        except ValueError:
            raise BadUsage(f"{word!r} is not an intensity; give numbers such as --intensities 0.2,0.5,1") from None
    return found


def _show(found: ExperimentResults, csv: Path | None, json: bool, limit: int) -> int:
    if csv is not None:
        try:
            csv.write_text(found.to_csv(), encoding="utf-8")
        except OSError as error:
            raise BadUsage(f"cannot write {str(csv)!r}: {error.strerror}") from None
    print_json(found) if json else _print(found, limit)
    return 0 if found.pairs else 2


def _plan(planned: ExperimentPlan, limit: int) -> None:
    out = stdout()
    out.print(
        f"{planned.suite} with {planned.agent}: {plural(planned.k, 'pair')} per change and task, "
        f"{plural(planned.reruns, 're-run')} for the noise floor",
        markup=False,
    )
    rows = [[c.operator, c.task, c.file or "", f"{c.intensity:g}", c.summary] for c in first(planned.changes, limit)]
    if rows:
        out.print(table(["operator", "task", "file", "intensity", "what it does"], rows))
    print_rest(out, planned.changes, limit, "change")
    _refused(planned.not_applicable)
    if not planned.changes:
        out.print("no operator can change anything here; nothing would be run, and nothing was called")
        return
    price = f"at most {dollars(planned.cost_usd_at_most)}" if planned.cost_usd_at_most is not None else planned.why
    out.print(f"{planned.episodes} episodes; {price}; nothing was called", markup=False)


def _print(found: ExperimentResults, limit: int) -> None:
    out = stdout()
    out.print(
        f"[bold]{escape(found.run)}[/bold]  {len(found.pairs)} of {plural(found.planned_pairs, 'pair')}, "
        + (f"{found.delivered_pairs} delivered, " if found.undelivered else "")
        + f"agent {escape(found.agent)}"
    )
    _print_floor(found)
    for warning in found.warnings:
        out.print(f"WARNING: {warning}", style="bold", markup=False)
    if not found.pairs:
        return
    out.print()
    columns = ["change", "task", "attempt", "d_norm", "t*", "manifestation", "floor", "score"]
    out.print(table(columns, [_pair(p) for p in first(found.pairs, limit)]))
    print_rest(out, found.pairs, limit, "pair")
    out.print()
    columns = ["operator", "pairs", "mean d", "max d", "above floor", "recovered", "tokens ×", "accuracy lost"]
    out.print(table(columns, [_aggregate(a) for a in found.aggregates]))
    if found.undelivered:
        lost = _lost(found.overall.accuracy_lost_delivered) or "unknown"
        out.print(f"accuracy lost is over all planned attempts; over the delivered ones only: {lost}")
    out.print()
    delivered = "delivered pairs" if found.undelivered else "pairs"
    columns = ["manifestation", "pairs", f"share of {delivered}", "within the floor"]
    out.print(table(columns, _shown(found.overall)))
    if found.dose_response:
        out.print()
        columns = ["operator", "intensity", "pairs", "mean d", "accuracy", "accuracy lost"]
        out.print(table(columns, [_dose(d) for d in found.dose_response]))
    _refused(found.not_applicable)
    if found.missing:
        reasons = ", ".join(f"{reason} {n}" for reason, n in found.missing.items())
        out.print(f"episodes without a score: {reasons}", style="dim", markup=False)
    known = [(p.pair.d_norm, p.pair) for p in found.pairs if p.pair.d_norm is not None]
    told = ""
    if known:
        far = max(known, key=lambda k: k[0])[1]
        one, two = (short_id(t) for t in (far.baseline_trace, far.trace))
        told = f"ethogram diff {one} {two}  (the pair furthest apart); "
    out.print(f"next: {told}ethogram report {found.run} -o {found.run}.html", style="dim", markup=False)


def _refused(refusals: Sequence[NotApplied]) -> None:
    """Operators that fail for one reason on one task share a line."""
    together: dict[tuple[str, str], list[str]] = {}
    for refused in refusals:
        together.setdefault((refused.task, refused.why), []).append(refused.operator)
    for (task, why), names in together.items():
        stdout().print(f"not applicable to {task}: {', '.join(names)}: {why}", style="dim", markup=False)


def _print_floor(found: ExperimentResults) -> None:
    floor, out = found.noise_floor, stdout()
    if floor.measured:
        out.print(
            f"noise floor: clean attempts are {floor.mean:.3f} apart on average, at most {floor.max:.3f} "
            f"({plural(floor.pairs, 'pair')}, {plural(floor.reruns, 're-run')})"
        )
    elif found.deterministic and found.overall.mean_d_norm is not None:
        out.print("noise floor: none; a scripted agent does the same with the same seed")


def _pair(p: ExperimentPair) -> list[object]:
    return [
        p.condition,
        p.pair.task,
        p.attempt,
        None if p.pair.d_norm is None else f"{p.pair.d_norm:.3f}",
        p.pair.t_star,
        p.pair.manifestation.replace("_", " ") if p.delivered else NOT_DELIVERED,
        {True: "within", False: "above", None: "–"}[p.pair.within_noise_floor],
        " → ".join("–" if s is None else f"{s:g}" for s in (p.score_clean, p.score_perturbed)),
    ]


def _aggregate(a: Aggregate) -> list[object]:
    within = a.within_noise_floor
    return [
        a.name,
        a.pairs if a.pairs == a.delivered else f"{a.delivered} of {a.pairs}",
        a.mean_d_norm,
        a.max_d_norm,
        None if within is None or within.value is None else f"{1 - within.value:.2f}",
        None if a.recovery_rate.value is None else f"{a.recovery_rate.value:.2f}",
        a.token_overhead if isinstance(a.token_overhead, str) else f"{a.token_overhead:.2f}",
        _lost(a.accuracy_lost),
    ]


def _shown(a: Aggregate) -> list[list[object]]:
    inside = a.manifestations_within_floor
    return [
        [name.replace("_", " "), a.counts[name], _share(e), f"{inside[name].value or 0:.2f}" if inside else None]
        for name, e in a.manifestations.items()
        if a.counts.get(name)
    ]


def _dose(d: Dose) -> list[object]:
    return [d.operator, f"{d.intensity:g}", d.pairs, d.mean_d_norm, d.accuracy_perturbed, _lost(d.accuracy_lost)]


def _share(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _lost(lost: Estimate) -> str | None:
    if lost.value is None:
        return None
    return f"{lost.value:+.2f}" + ("" if lost.low is None else f" [{lost.low:+.2f}, {lost.high:+.2f}]")
