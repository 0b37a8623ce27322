"""How verbs print: tables on stdout, notes and progress on stderr, or one JSON document and nothing else."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from ethogram.display.money import dollars
from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.result import Result
from ethogram.store.shown_texts import shown, shown_json

from .tables import FittingTable, TableColumn
from .waiting import end_sign

PIPE_WIDTH = 160
SHORT = 24
"""Cells up to this width are never broken over two lines."""

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")]
HomeOption = Annotated[
    str | None, typer.Option("--home", help="The home; by default ETHOGRAM_HOME, else ./.ethogram.", show_default=False)
]
AgainstOption = Annotated[str | None, typer.Option("--against", help="Compare with this run, task by task.")]
CommonTasksOption = Annotated[
    bool,
    typer.Option(
        "--common-tasks", help="Of different versions of a suite, compare the tasks that are the same in both."
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
LimitOption = Annotated[int, typer.Option("--limit", min=0, help="How many rows of a table to show; 0 shows all.")]

T = TypeVar("T")


def asked_first(question: str, yes: bool) -> None:
    """Ask before something is lost; raises `typer.Abort` for a no, and `BadUsage` where nobody can answer."""
    if yes:
        return
    try:
        end_sign()
        print(f"{question} [y/N]: ", end="", file=sys.stderr, flush=True)
        answer = input()
    except EOFError:
        print(file=sys.stderr)
        raise BadUsage(f"{question} There is no terminal to ask on; confirm with --yes") from None
    if answer.strip().lower() not in ("y", "yes"):
        raise typer.Abort


class _Console(Console):
    """A console that hides secrets."""

    def print(self, *objects: Any, **how: Any) -> None:
        """Print words without the secrets in them; cells of tables were seen to by `cell`."""
        super().print(*(_hidden(thing) for thing in objects), **how)


def stdout() -> Console:
    """Where answers go."""
    end_sign()
    return _Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


@contextmanager
def paged() -> Iterator[Console]:
    """Where long answers go: to a person at a terminal through a pager where they are longer than the screen.

    `PAGER` names the pager (`cat`, or nothing, turns it off); by default it is `less`. A pipe gets no pager.
    """
    out = stdout()
    command = _pager()
    if command is None:
        yield out
        return
    with out.capture() as captured:
        yield out
    text = captured.get()
    if text.count("\n") < out.height or not _through(command, text):
        sys.stdout.write(text)
        sys.stdout.flush()


def _pager() -> list[str] | None:
    if not (sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty()) or os.environ.get("TERM") == "dumb":
        return None
    named = shlex.split(os.environ.get("PAGER", "less"))
    return named if named and named != ["cat"] and shutil.which(named[0]) else None


def _through(command: list[str], text: str) -> bool:
    """Whether a pager showed the text; R lets colours through, F and X leave short texts on the screen."""
    sys.stdout.flush()
    environment = {"LESS": "FRX", **os.environ}
    try:
        # what a reader who quits early has not seen is no failure
        subprocess.run(command, input=text.encode(errors="replace"), env=environment, check=False)  # noqa: S603 - no shell
    except OSError:
        return False
    return True


def stderr() -> Console:
    """Where notes and progress go."""
    end_sign()
    return _Console(stderr=True, highlight=False, emoji=False)


def print_json(result: Result) -> None:
    """The result as one JSON document, without the secrets that foreign words may hold."""
    end_sign()
    sys.stdout.write(shown_json(result.to_json()) + "\n")
    sys.stdout.flush()


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str | None = None) -> FittingTable:
    """A plain table: numbers to the right, absent values as a dash; words are never read as markup."""
    built = []
    for i, name in enumerate(columns):
        values = [row[i] for row in rows]
        number = all(isinstance(v, int | float | Decimal | None) for v in values)
        short = number or all(len(str(v)) <= SHORT for v in values)
        built.append(TableColumn(name, [cell(v) for v in values], right=number, whole=short))
    return FittingTable(built, len(rows), title)


def cell(value: Any) -> str:
    """A value as a person reads it."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float | Decimal):
        return f"{value:.4g}" if value % 1 else f"{value:,.0f}"
    if isinstance(value, list | tuple):
        return escape(printable(", ".join(map(str, value))))
    return escape(printable(str(value)))


def printable(text: str) -> str:
    """Foreign text without secrets, and without control characters that move the cursor or ring the bell."""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in shown(text))


def at_home(home: str | None) -> str:
    """The option that finds a home again, for commands that can be pasted."""
    return f" --home {shlex.quote(home)}" if home else ""


def say(text: str) -> None:
    """One line on stderr, without the secrets that foreign words in it may hold."""
    end_sign()
    print(shown(text), file=sys.stderr, flush=True)


def _hidden(thing: Any) -> Any:
    if isinstance(thing, str):
        return shown(thing)
    if isinstance(thing, Text) and (told := shown(thing.plain)) != thing.plain:
        return Text(told, style=thing.style, no_wrap=thing.no_wrap, overflow=thing.overflow)
    return thing


def plural(count: int | None, noun: str) -> str:
    """A count with its noun; a dash if it is unknown."""
    return f"{cell(count)} {noun}{'' if count == 1 else 's'}"


def spent(usd: float | None, at_least_usd: float, tokens: int | None, at_least_tokens: int) -> str:
    """Dollars and tokens in words: what was not metered is unknown, never 0."""
    cost = known(usd, at_least_usd, dollars, "cost")
    return f"{cost}, {known(tokens, at_least_tokens, '{:,} tokens'.format, 'tokens')}"


def known(value: float | None, at_least: float, form: Callable[[float], str], what: str = "") -> str:
    """An amount in words: as it is, the part of it that is known, or unknown."""
    if value is not None:
        return form(value)
    return f"at least {form(at_least)}" if at_least else f"{what} unknown".strip()


def first(rows: Sequence[T], limit: int) -> Sequence[T]:
    """The first `limit` rows, or all where the limit is 0."""
    return rows[:limit] if limit else rows


def print_rest(out: Console, rows: Sequence[Any], limit: int, noun: str) -> None:
    """How many `first` left out, if any."""
    left = len(rows) - len(first(rows, limit))
    if left:
        out.print(f"… and {left:,} more {noun if left == 1 else f'{noun}s'}; --limit 0 shows all", style="dim")


def band(estimate: Estimate, width: int = 20) -> str:
    """An interval between 0 and 1 as a line with its value marked: `···━━●━━━···`; readable without colour."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return ""
    low, at, high = (min(int(x * width), width - 1) for x in (estimate.low, estimate.value, estimate.high))
    return "".join("●" if i == at else "━" if low <= i <= high else "·" for i in range(width))


def signed(estimate: Estimate) -> str:
    """A difference with its sign and what it rests on."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return str(estimate)
    gone = sum(estimate.missing.values())
    return (
        f"{estimate.value:+.3g} [{estimate.low:+.3g}, {estimate.high:+.3g}] ({100 * estimate.level:g} %, "
        f"{estimate.method}, n = {estimate.n} {estimate.of}{f'; missing {gone}' if gone else ''})"
    )


def p_value(p: float) -> str:
    """A p-value is never 0: below the least number there is it says so."""
    return f"{p:.3g}" if p > 0 else "< 1e-300"


def verdict_style(verdict: str) -> str:
    """How a verdict is set: the word says it, the colour only helps (blue and orange, for all eyes)."""
    return {"pass": "bold bright_blue", "improvement": "bold bright_blue", "regression": "bold orange1"}.get(
        verdict, "bold"
    )


def size(count: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return ""


def when(ns: int) -> str:
    """A time for people, in UTC."""
    return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")


@contextmanager
def bytes_progress(label: str, *, quiet: bool) -> Iterator[Any]:
    """A progress bar in bytes on stderr; gives a function of (name, bytes, size). Silent when nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=stderr(), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def tell(name: str, count: int, total: int) -> None:
            if name not in tasks:
                for old in tasks.values():
                    bar.update(old, visible=False)
                tasks[name] = bar.add_task(f"{label} {escape(name[-50:])}", total=total)
            bar.advance(tasks[name], count)

        yield tell
