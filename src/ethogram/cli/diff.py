"""`ethogram diff`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ethogram.display.shorten import shortened
from ethogram.questions.divergence.diff import DiffResult, Side, StepRow, diff
from ethogram.store import short_id

from .printing import HomeOption, JsonOption, paged, plural, print_json, printable, stderr
from .step_words import print_part

_STYLE = {"=": "dim", "~": "yellow", "-": "red", "+": "green"}
CONTEXT = 2
"""Equal steps shown on either side of a difference; longer stretches are folded."""

ReadingOption = Annotated[str, typer.Option(help="What is aligned: steps, or the messages of a chat log.")]
SignatureOption = Annotated[
    str | None,
    typer.Option(
        help="structural, name, kind, traxr, or a function of your own: module:name or file.py:name; by default "
        "traxr for its own logs, else structural.",
        show_default=False,
    ),
]
LanesOption = Annotated[
    bool,
    typer.Option(
        "--lanes/--no-lanes", help="Align concurrent agents lane by lane, so that timing does not count as a change."
    ),
]


def command(
    first: Annotated[str, typer.Argument(metavar="TRACE_A", help="The baseline trace's id, or its start.")],
    second: Annotated[str, typer.Argument(metavar="TRACE_B", help="The other trace's id, or its start.")],
    run: Annotated[str | None, typer.Option(help="Look in this run only.")] = None,
    against: Annotated[str | None, typer.Option(help="Look for the second trace in this run.")] = None,
    reading: ReadingOption = "steps",
    signature: SignatureOption = None,
    lanes: LanesOption = True,
    whole: Annotated[bool, typer.Option("--all", help="Show equal stretches too.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Show the texts at the first step that differs.")] = False,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Compare two traces step by step: their distance, the first step that differs, and what kind of change it is.

    Signs say what happened: `=` the same step, `~` another step, `-` only in the first, `+` only in the second.

    Example: `ethogram diff 4f1c22 9ab01d --run latest`
    """
    result = diff(
        first,
        second,
        run=run,
        against=against,
        reading=reading,
        signature=signature,
        lanes=lanes,
        full=full,
        home=home,
    )
    if json:
        print_json(result)
    else:
        with paged() as out:
            _print(out, result, whole)
            if full:
                _print_words(out, result)
        for told in result.warnings:
            stderr().print(f"warning: {printable(told)}", style="yellow", markup=False)
    return 0


def _print_words(out: Console, result: DiffResult) -> None:
    """Both sides at the first step that differs, one below the other."""
    if result.words is None:
        out.print("\nno words differ: both say the same at every step")
        return
    unit = result.reading.removesuffix("s")
    if result.words_differ:
        out.print(f"\nthe {result.reading} are alike; the first whose words differ:", style="bold")
    for sign, name, words in zip("-+", ("first", "second"), result.words, strict=True):
        if words is None:
            out.print(f"\n{sign} the {name} trace has ended here", style=_STYLE[sign])
            continue
        how = f"goes on with {unit}" if words.goes_on else unit
        told = f"\n{sign} the {name} trace, {how} {words.at}: {printable(words.signature)}"
        out.print(told, style=f"bold {_STYLE[sign]}", markup=False)
        for part in words.parts:
            print_part(out, part, full=True)


def _print(out: Console, result: DiffResult, whole: bool) -> None:
    out.print(_title("-", result.first, result.reading), style="bold", markup=False)
    out.print(_title("+", result.second, result.reading), style="bold", markup=False)
    out.print()
    out.print(f"{result.manifestation} ({result.group}): {result.rule}", style="bold", markup=False)
    _print_distance(out, result)
    out.print()
    _print_steps(out, result, whole)
    out.print()
    answer = {None: "unknown", True: "changed", False: "the same"}[result.answer_changed]
    tokens = result.token_overhead if isinstance(result.token_overhead, str) else f"{result.token_overhead:.2f}×"
    flow = "unavailable" if result.control_flow_changes is None else result.control_flow_changes
    out.print(f"answer {answer}; control-flow changes: {flow}; tokens {tokens}")


def _print_distance(out: Console, result: DiffResult) -> None:
    """The distance, the first step that differs, and what repeats of an unchanged agent differ by."""
    edits = result.edits
    if result.d_norm is None or edits is None:
        out.print(f"d_norm unavailable: {result.unavailable}; t* unavailable")
    else:
        out.print(
            f"d_norm {result.d_norm:.3f}: {edits.substitutions} substituted, {edits.insertions} inserted, "
            f"{edits.deletions} deleted ({result.reading}, {result.signature}"
            + (f", {result.lanes} lanes)" if result.lanes > 1 else ")")
        )
        if result.t_star is None:
            out.print("t* none: the steps are the same")
        else:
            out.print(f"t* {result.t_star} (t*/T {result.t_star_norm:.3f}): the first step that differs")
    floor = result.noise_floor
    if result.within_noise_floor is not None and floor.max is not None:
        where = "within" if result.within_noise_floor else "above"
        out.print(
            f"{where} the noise floor of {plural(floor.reruns, 're-run')} "
            f"(mean {floor.mean:.3f}, largest {floor.max:.3f}); tail probability {result.tail_probability:.2f}"
        )


def _title(sign: str, side: Side, unit: str) -> str:
    verdict = f"missing ({side.missing})" if side.missing else f"score {side.score:g}"
    verdict += ", crashed" if side.crashed else ""
    short = short_id(side.trace_id)
    version = " ".join(printable(x) for x in (side.agent, side.condition) if x)
    task = printable(side.task) or "unknown"
    length = plural(side.steps, unit.removesuffix("s"))
    return f"{sign} {short}  task {task}  attempt {side.attempt}  {verdict}  {length}  {version}".rstrip()


def _print_steps(out: Console, result: DiffResult, whole: bool) -> None:
    half = max(16, (out.width - (14 if result.lanes <= 1 else 34)) // 2)
    for item in folded(result.steps, 0 if whole else CONTEXT):
        if isinstance(item, int):
            out.print(f"  … {item:,} equal {result.reading}", style="dim")
            continue
        line = Text()
        line.append(f"{item.sign} ", style=f"bold {_STYLE[item.sign]}")
        for place, words in ((item.first, item.first_signature), (item.second, item.second_signature)):
            number = "" if place is None else str(place)
            shown = printable(words or "").replace("\n", " ")
            shown = shortened(shown, half)
            line.append(f"{number:>4} ", style="dim")
            line.append(f"{shown:<{half}}", style=_STYLE[item.sign])
        if result.lanes > 1:
            line.append(f" [{printable(item.lane) or 'main'}]", style="dim")
        line.rstrip()
        out.print(line, no_wrap=True, crop=True)


def folded(steps: list[StepRow], context: int) -> list[StepRow | int]:
    """Steps with long equal stretches as a number; a context of 0 folds nothing."""
    if context <= 0:
        return list(steps)
    near: set[int] = set()
    for i, step in enumerate(steps):
        if step.sign != "=":
            near.update(range(i - context, i + context + 1))
    shown: list[StepRow | int] = []
    for i, step in enumerate(steps):
        if i in near:
            shown.append(step)
        elif shown and isinstance(shown[-1], int):
            shown[-1] += 1
        else:
            shown.append(1)
    return shown
