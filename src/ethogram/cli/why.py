"""`ethogram why`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from ethogram.display.cells import signed_estimate
from ethogram.display.money import dollars
from ethogram.display.shorten import shortened, shortened_list
from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.harness.environment import parse_environment
from ethogram.harness.run_result import RunInterrupted
from ethogram.questions.compare.layer_words import rate_words
from ethogram.questions.why.buying import SettleOptions, settle_causes
from ethogram.questions.why.question import short_place, why
from ethogram.questions.why.results import Cause, DecisionPoint, SettledCause, WhyResult

from .layers import print_layers
from .printing import (
    AgainstOption,
    CommonTasksOption,
    HomeOption,
    JsonOption,
    LimitOption,
    at_home,
    cell,
    first,
    plural,
    print_json,
    print_rest,
    printable,
    stderr,
    stdout,
    table,
)
from .running import (
    AllowUnmeteredOption,
    CaptureOption,
    CleanEnvOption,
    EnvOption,
    LiveToolsOption,
    PriceOption,
    PricesOption,
    WorkersOption,
    metering,
)

STATUS = {"confirmed": "confirmed", "struck_out": "rejected", "not_settled": "not settled"}
REFERENCE: dict[str, str] = {
    "same_calls": "the same calls",
    "wrong_arguments": "a call with wrong arguments",
    "other_call": "another call",
    "missing_call": "a missing call",
    "extra_call": "an extra call",
}


def command(
    run: Annotated[str, typer.Argument(help="A run directory, a run's name, or latest.")] = "latest",
    task: Annotated[str | None, typer.Option(help="Only attempts at this task.")] = None,
    against: AgainstOption = None,
    common_tasks: CommonTasksOption = False,
    limit: LimitOption = 5,
    settle: Annotated[
        bool,
        typer.Option(
            "--settle", help="Test the first causes by experiment: buy attempts that continue from the step of each."
        ),
    ] = False,
    max_usd: Annotated[float | None, typer.Option(help="With --settle: spend at most this many dollars.")] = None,
    smallest: Annotated[
        float, typer.Option(min=0, max=1, help="With --settle: the smallest effect on success that matters.")
    ] = 0.10,
    causes: Annotated[int, typer.Option(min=1, help="With --settle: how many causes are tested.")] = 3,
    k: Annotated[
        int | None,
        typer.Option(
            "-k", min=1, help="With --settle: how often each attempt is continued, with and without the change."
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="With --settle: the agent, if it is not the one of the run.")
    ] = None,
    suite: Annotated[
        str | None, typer.Option(help="With --settle: the suite, if it is not the one of the run.")
    ] = None,
    price: PriceOption = None,
    prices: PricesOption = None,
    allow_unmetered: AllowUnmeteredOption = False,
    workers: WorkersOption = 8,
    env: EnvOption = None,
    clean_env: CleanEnvOption = False,
    capture: CaptureOption = "gateway",
    live_tools: LiveToolsOption = False,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Show why attempts fail: causes with their evidence, leads, and what stays unexplained.

    With --settle the first causes are tested: attempts that show one continue from its step, half of them with what
    successful attempts chose there and half unchanged, until the effect is known well enough or the money is spent.

    Example: `ethogram why latest --settle --max-usd 2`
    """
    if not settle:
        if max_usd is not None or agent is not None or suite is not None:
            raise BadUsage("--max-usd, --agent and --suite are for buying attempts; give them with --settle")
        result = why(run, task=task, against=against, common_tasks=common_tasks, home=home)
        print_json(result) if json else _print(result, limit, home)
        return 0
    if max_usd is None:
        raise BadUsage("--settle buys attempts; set a limit for their cost, such as --max-usd 2")
    if against is not None:
        raise BadUsage("--against compares stored runs and buys none; leave out --settle")
    options = SettleOptions(
        max_usd=max_usd,
        smallest=smallest,
        causes=causes,
        k=k,
        workers=workers,
        metering=metering(price, prices, allow_unmetered),
        environment=parse_environment(tuple(env or ()), clean_env),
        capture=capture,
        live_tools=live_tools,
    )
    tell = None if json else lambda text: stderr().print(text, style="dim", markup=False)
    try:
        result = settle_causes(run, options, task=task, agent=agent, suite=suite, home=home, progress=tell)
    except RunInterrupted:
        stderr().print("interrupted; repeat the command to continue", style="yellow")
        return 130
    print_json(result) if json else _print(result, limit, home)
    tried = [c.settled for c in result.causes if c.settled is not None]
    return 0 if tried and all(t.status != "not_settled" for t in tried) else 2


def _print(result: WhyResult, limit: int, home: str | None = None) -> None:
    out = stdout()
    out.print(Text(printable(result.headline), style="bold"))
    for number, cause in enumerate(first(result.causes, limit), 1):
        _print_cause(cause, number, result)
    print_rest(out, result.causes, limit, "cause")
    if result.decision_points and result.causes:
        _print_point(result.decision_points[0])
    if result.leads:
        _print_leads(result, 3 if limit > 3 and result.causes else limit)
    if result.against is not None:
        _print_against(result, limit)
    if result.unexplained:
        left = [t for t in result.traces if t.failed and not t.explained]
        shown = ", ".join(f"{short_place(t)} (task {shortened(t.task, 24)})" for t in left[:3])
        out.print(Text(printable(f"\nunexplained: {plural(result.unexplained, 'failed attempt')}, e.g. {shown}")))
    if result.reference:
        noun = "failed attempt" if result.scored else "attempt"
        counted = list(result.reference.items())
        told = [
            f"{REFERENCE[name]} in {plural(count, noun) if not i else count}" for i, (name, count) in enumerate(counted)
        ]
        out.print(f"compared with the reference calls: {', '.join(told)}")
    if sum(rate.value is not None for rate in result.layers.values()) > 1:
        out.print(Text(printable(f"layers: {rate_words(result.layers)}")))
        if result.look:
            out.print(Text(printable(f"  {result.look}"), style="dim"))
    for said in result.said[:2]:
        example = f" ({short_place(said.examples[0])}: {said.examples[0].text})" if said.examples else ""
        noun = "failed attempt" if result.scored else "attempt"
        words = printable(f"message of the verifier in {plural(said.failed_with, noun)}: {said.said}{example}")
        out.print(Text(words, style="dim"), no_wrap=True, overflow="ellipsis")
    out.print(Text(printable(f"note: {result.contrast}"), style="dim"))
    for note in result.notes:
        out.print(Text(printable(f"note: {note}"), style="dim"))
    if result.missing:
        gone = ", ".join(f"{reason} {count}" for reason, count in result.missing.items())
        out.print(Text(f"note: not counted as failed: {gone}", style="dim"))
    for way in result.score_with:
        out.print(Text(f"score it with: {printable(way)}"))
    read = [short_place(e) for c in (*result.causes, *result.leads) for e in c.examples]
    read += map(short_place, result.traces)
    if read:
        out.print(Text(f"next: ethogram trace {read[0]} --run {result.run}{at_home(home)}", style="dim"))


def _print_cause(cause: Cause, number: int, result: WhyResult) -> None:
    out = stdout()
    kind = f"  [{cause.class_}]" if cause.class_ else ""
    out.print(Text(f"\n{number}. {printable(cause.what)}{kind}", style="bold"))
    succeeded = result.scored - (result.failed or 0)
    lift = "" if cause.lift is None else f"; {cause.lift:.3g} times as often"
    lift = "; in no success of the same tasks" if cause.lift == float("inf") else lift
    out.print(
        f"   failed {cause.failed_with} of {result.failed}, succeeded {cause.succeeded_with} of {succeeded}; "
        f"share {_share(cause.share)}{lift}"
    )
    _print_examples(cause, len(cause.examples))
    out.print(Text(f"   owner: {printable(cell(cause.owner))}; try first: {printable(cause.try_)}"))
    if cause.also:
        also = Text(f"   also seen in the same attempts: {printable(shortened_list(cause.also, 3))}", style="dim")
        out.print(also, no_wrap=True, overflow="ellipsis")
    if cause.settled is not None:
        _print_settled(cause.settled)
    elif cause.experiment is not None and cause.experiment.command is not None:
        usd = f", about {dollars(cause.experiment.usd)}" if cause.experiment.usd is not None else ""
        when = " (after changing the agent)" if cause.experiment.kind == "gate" else ""
        most = plural(cause.experiment.runs or 0, "attempt")
        line = f"   test it by an experiment{when}: {cause.experiment.command}  (at most {most}{usd})"
        out.print(Text(printable(line)), soft_wrap=True)


def _print_settled(settled: SettledCause) -> None:
    """What an experiment found: the effect of the other way, its interval, what it took."""
    out = stdout()
    status = STATUS[settled.status]
    effect, before, after = settled.effect, settled.from_.value, settled.to.value
    if effect.value is None or before is None or after is None:
        out.print(Text(f"   {status}: {printable(settled.why)}", style="yellow"))
    else:
        goes = "rises" if after > before else "falls" if after < before else "stays"
        rates = f"at {before:.2f}" if goes == "stays" else f"from {before:.2f} to {after:.2f}"
        took = plural(settled.runs, "attempt") + (f", {dollars(settled.usd)}" if settled.usd is not None else "")
        line = f"   {status}: when {printable(settled.what)}, success {goes} {rates}, {signed_estimate(effect)}; {took}"
        out.print(Text(line, style="bold" if settled.status == "confirmed" else "default"))
    if settled.status == "not_settled" and settled.needed is not None:
        usd = f", about {dollars(settled.needed_usd)} more" if settled.needed_usd is not None else ""
        need = f"   it would take about {plural(settled.needed, 'attempt')} that show it{usd}, if they go as these did"
        out.print(Text(need, style="dim"))


def _print_point(point: DecisionPoint) -> None:
    """The place, and one branch per choice of the attempts."""
    out = stdout()
    before = " > ".join(point.after) or "the beginning"
    where = f"at step {point.step}" if point.step is not None else "first time"
    out.print(Text(f"\ndecision point, {where}: after {printable(before)}, {point.reached} attempts"))
    width = min(max(len(b.choice) for b in point.branches), 26)
    for i, branch in enumerate(point.branches):
        mark = "└─" if i == len(point.branches) - 1 else "├─"
        rate = (branch.runs - branch.failed) / branch.runs
        choice = shortened(printable(branch.choice), width)
        line = f"  {mark} {choice:<{width}}  {branch.runs:>4} attempts, {rate:.2f} succeed"
        if branch.choice == point.choice and point.fall.value is not None:
            line += f"  ▼ {signed_estimate(point.fall)} within tasks"
        out.print(Text(line), no_wrap=True, overflow="ellipsis")


def _print_leads(result: WhyResult, limit: int) -> None:
    out = stdout()
    out.print("\nleads", style="bold")
    for lead in first(result.leads, limit):
        counted = f"failed {lead.failed_with}, succeeded {lead.succeeded_with}"
        counted = counted if result.failed is not None else plural(lead.runs_with, "attempt")
        out.print(Text(f" - {counted}: {printable(lead.what)}"), no_wrap=True, overflow="ellipsis")
        _print_examples(lead, 1)
    print_rest(out, result.leads, limit, "lead")


def _print_examples(cause: Cause, count: int) -> None:
    out = stdout()
    for example in cause.examples[:count]:
        line = Text(f"   {short_place(example):<15}", style="cyan")
        line.append(printable(example.text), style="default")
        out.print(line, no_wrap=True, overflow="ellipsis")


def _print_against(result: WhyResult, limit: int) -> None:
    out, against = stdout(), result.against
    if against is None:
        return
    out.print(
        f"\nagainst {printable(against.run)}: {plural(against.tasks, 'shared task')}, "
        f"{against.runs_now} attempts now and {against.runs_before} before",
        markup=False,
    )
    print_layers(out, against.layers)
    if not against.changes:
        out.print("nothing became more or less frequent by the test over all events")
        return
    rows = [
        [shortened(c.what, 50), c.change, c.with_now, c.with_before, signed_estimate(c.difference), c.is_cause]
        for c in first(against.changes, limit)
    ]
    out.print(table(["what", "change", "now", "before", "difference", "cause"], rows))
    print_rest(out, against.changes, limit, "change")


def _share(share: Estimate) -> str:
    if share.value is None or share.low is None or share.high is None:
        return "unknown"
    return f"{share.value:.2f} [{share.low:.2f}, {share.high:.2f}]"
