"""`ethogram judge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ethogram.display.money import dollars
from ethogram.errors import BadUsage
from ethogram.prices.call_use import CallUse
from ethogram.questions.judging.buying.pairs import judge_pairs
from ethogram.questions.judging.buying.runs import judge_run
from ethogram.questions.judging.buying.session import JudgeOptions
from ethogram.questions.judging.results import JudgeResult, PairwiseResult

from .printing import (
    AgainstOption,
    CommonTasksOption,
    HomeOption,
    JsonOption,
    at_home,
    band,
    known,
    p_value,
    plural,
    print_json,
    printable,
    signed,
    stderr,
    stdout,
    table,
)
from .running import PriceOption, PricesOption, metering


def command(
    run: Annotated[str, typer.Argument(help="A run directory, a run's name, or latest.")] = "latest",
    judge: Annotated[
        str,
        typer.Option(help="rule, model:NAME@URL, panel:JUDGE,JUDGE,…, fixed:yes, fixed:no or fixed:FILE.csv."),
    ] = "rule",
    rubric: Annotated[str, typer.Option(help="The rubric: standard, or a YAML file of your own.")] = "standard",
    guards: Annotated[
        str, typer.Option(help="What protects the judge: outcome, narration, family, windows; all or none.")
    ] = "all",
    against: AgainstOption = None,
    common_tasks: CommonTasksOption = False,
    task: Annotated[str | None, typer.Option(help="Only attempts at this task.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Judge this number of traces; 0 judges all.")] = 0,
    measure: Annotated[
        int, typer.Option(min=0, help="Measure biases of the judge on this number of traces, by judging them again.")
    ] = 0,
    repeat: Annotated[
        int,
        typer.Option(min=1, help="How often each trace is judged, to measure how far the judge agrees with itself."),
    ] = 1,
    max_usd: Annotated[float | None, typer.Option(help="Spend at most this many dollars.")] = None,
    max_calls: Annotated[int | None, typer.Option(help="Make at most this many model calls.")] = None,
    temperature: Annotated[float, typer.Option(help="The temperature of a model judge.")] = 0.0,
    seed: Annotated[int, typer.Option(help="The seed of a model judge.")] = 0,
    window: Annotated[int, typer.Option(min=500, help="Characters of a trace that are shown at once.")] = 24_000,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Maximum concurrent judgements.")] = 8,
    again: Annotated[
        bool, typer.Option("--again", help="Also judge traces that this version has already judged.")
    ] = False,
    price: PriceOption = None,
    prices: PricesOption = None,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Judge the steps of traces against a rubric: yes or no on each item, for every step that it asks about.

    Verdicts are stored with the run; verdicts of the same judge version are kept. Keys come from the environment:
    OPENAI_API_KEY, ANTHROPIC_API_KEY, or ETHOGRAM_JUDGE_API_KEY for any other address. With --against, traces of equal
    tasks are compared in both orders.

    Example: `ethogram judge night --judge model:gpt-4.1 --max-usd 2 --measure 50`
    """
    options = JudgeOptions(
        judge=judge,
        rubric=rubric if rubric == "standard" else Path(rubric),
        guards=guards,
        task=task,
        limit=limit or None,
        repeat=repeat,
        measure=measure,
        max_usd=max_usd,
        max_calls=max_calls,
        temperature=temperature,
        seed=seed,
        window=window,
        workers=workers,
        again=again,
        metering=metering(price, prices, False),
    )
    tell = None if json else lambda text: stderr().print(text, style="dim", markup=False)
    if against is not None:
        if measure or repeat > 1:
            raise BadUsage("--against compares pairs in both orders; --measure and --repeat are for single traces")
        pairs = judge_pairs(run, against, options, common_tasks=common_tasks, home=home, progress=tell)
        print_json(pairs) if json else _print_pairs(pairs)
        return _exit_code(pairs.order.found == "bias", pairs.stopped, pairs.preferred.value)
    result = judge_run(run, options, home=home, progress=tell)
    print_json(result) if json else _print(result, home)
    return _exit_code(any(b.found in ("bias", "unstable") for b in result.biases), result.stopped, result.score.value)


def _exit_code(biased: bool, stopped: str | None, value: float | None) -> int:
    """1 where the judge is biased, 2 where it did not come to an end or nothing could be judged."""
    return 1 if biased else 2 if stopped is not None or value is None else 0


def _print(result: JudgeResult, home: str | None) -> None:
    out = stdout()
    total = result.judged + result.kept
    score = result.score
    told = f"{plural(total, 'attempt')} judged by {printable(result.judge)}"
    if score.value is not None and score.low is not None and score.high is not None:
        told += f"; share of yes: {score.value:.2f} [{score.low:.2f}, {score.high:.2f}]"
    out.print(f"{result.run}  {told}", style="bold", markup=False)
    worst = max(result.items, key=lambda i: i.runs_no, default=None)
    if worst is not None and worst.examples:
        first = worst.examples[0]
        times = f"in {worst.runs_no} of {plural(worst.yes.n, 'attempt')}"
        out.print(f"most frequent no: {worst.item}, {times}, e.g. {first.place}  {printable(first.why)}", markup=False)
    rows = []
    for item in result.items:
        yes = item.yes
        between = "" if yes.low is None or yes.high is None else f"[{yes.low:.2f}, {yes.high:.2f}]"
        example = item.examples[0].place if item.examples else ""
        missing = sum(yes.missing.values())
        rows.append(
            [item.item, yes.value, between, band(yes), yes.n, missing, f"{item.steps_no:,} of {item.steps:,}", example]
        )
    out.print(table(["item", "yes", "95 %", "0 to 1", "attempts", "missing", "steps answered no", "e.g."], rows))
    if result.disagreement is not None:
        out.print(f"the panel disagrees on {result.disagreement} of verdicts", markup=False)
    if result.coverage is not None:
        seen = result.coverage
        share = f"{seen.seen:,} of {seen.steps:,} steps seen, in {plural(seen.windows, 'window')}"
        cut = f", {seen.cut_characters:,} characters of long texts left out" if seen.cut_characters else ""
        out.print(f"coverage: {share}{cut}", markup=False)
    _print_biases(out, result)
    _print_use(out, result.use, result.stopped, result.notes, [f"{s.where}: {s.why}" for s in result.skipped])
    if result.left:
        out.print(f"{plural(result.left, 'trace')} of those chosen not judged", markup=False)
    if worst is not None and worst.examples:
        place = worst.examples[0].place
        out.print(f"next: ethogram trace {place} --run {result.run}{at_home(home)}", style="dim", markup=False)


def _print_biases(out: Console, result: JudgeResult) -> None:
    for bias in result.biases:
        words = bias.effect.why if bias.effect.value is None else signed(bias.effect)
        p = "" if bias.p is None else f", p = {p_value(bias.p)}"
        changed = f"; {bias.changed} of {bias.of} verdicts changed" if bias.of and bias.bias != "length" else ""
        line = f"{bias.bias}: {bias.found}; {bias.what}: {words}{p}{changed}"
        out.print(printable(line), style="bold orange1" if bias.found in ("bias", "unstable") else "", markup=False)


def _print_pairs(result: PairwiseResult) -> None:
    out = stdout()
    told = f"{printable(result.judge)} prefers {result.run} to {result.against} in {result.preferred} of pairs"
    out.print(told, style="bold", markup=False)
    counts = f"{result.wins} better, {result.losses} worse, {plural(result.ties, 'tie')}"
    out.print(f"{counts}, {result.order_dependent} that changed with the order", markup=False)
    order = result.order
    words = order.effect.why if order.effect.value is None else signed(order.effect)
    p = "" if order.p is None else f", p = {p_value(order.p)}"
    line = f"order: {order.found}; {order.what}: {words}{p}"
    out.print(line, style="bold orange1" if order.found == "bias" else "", markup=False)
    _print_use(out, result.use, result.stopped, result.notes, [f"{s.where}: {s.why}" for s in result.skipped])


def _print_use(out: Console, use: CallUse, stopped: str | None, notes: list[str], skipped: list[str]) -> None:
    if use.calls or use.cached:
        cost = known(use.cost_usd, use.at_least_usd, dollars, "cost")
        out.print(f"{plural(use.calls, 'call')}, {use.cached:,} from the cache, {cost}", markup=False)
    if stopped is not None:
        out.print(f"stopped: {printable(stopped)}", style="bold", markup=False)
    for note in notes:
        out.print(f"note: {printable(note)}", style="dim", markup=False)
    for line in skipped[:10]:
        stderr().print(f"skipped {printable(line)}", markup=False)
