"""How the words of a step are printed: one block per part, long ones folded, arguments as lines a person can read."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ethogram.display.money import dollars
from ethogram.reading.trace_words import WordsPart
from ethogram.reading.traces import SpanRow, StepText
from ethogram.wire.recorder import SYSTEM

from .printing import printable

KIND_STYLE = {
    "model": "cyan",
    "tool": "green",
    "user": "magenta",
    "agent": "bold",
    "handoff": "yellow",
    "retrieval": "blue",
    "memory": "blue",
    "judge": "yellow",
}
FOLD = {"input": 4, "reasoning": 8}
"""Lines that are shown of parts that are seldom what one looks for; of all others `LINES`."""
LINES = 24
LONGEST = 100
"""Characters of a line that counts as one; a longer one counts as several."""
INDENT = "    "


def span_line(row: SpanRow, start: str = "") -> Text:
    """Kind, name, status, tokens, time and cost of a span on one line."""
    line = Text(start)
    line.append(f"{row.kind} ", style=KIND_STYLE.get(row.kind, "dim"))
    line.append(printable(row.name), style="bold" if row.kind == "tool" else "")
    if row.status == "error":
        line.append("  ✗ error", style="bold red")
    return line


def span_facts(row: SpanRow) -> str:
    """Prompt, tokens, time and cost, as far as they are known."""
    facts = []
    if row.prompt_version is not None and not row.prompt_version.startswith(SYSTEM):
        facts.append(f"prompt {printable(row.prompt_version)}")
    inputs = [t for t in (row.input_tokens, row.cache_read_tokens, row.cache_write_tokens) if t is not None]
    if inputs or row.output_tokens is not None:
        facts.append(f"{sum(inputs):,}→{row.output_tokens or 0:,} tok")
    if row.seconds is not None:
        facts.append(f"{row.seconds:.2f} s")
    if row.cost_usd is not None:
        facts.append(dollars(row.cost_usd))
    return ", ".join(facts)


def print_step(out: Console, step: StepText, last: int, *, full: bool, find: str | None = None) -> None:
    """One step: its position, its kind, then its parts."""
    line = span_line(step.span, f"step {step.step} of 0–{last}  ")
    facts = [x for x in (step.span.agent, step.span.model, span_facts(step.span)) if x]
    if step.span.stop_reason:
        facts.append(f"ended by {step.span.stop_reason}")
    if facts:
        line.append("  " + printable(", ".join(facts)), style="dim")
    out.print(line, style="bold")
    for part in step.parts:
        print_part(out, part, full=full, find=find)
    if not step.parts:
        out.print(f"{INDENT}(no words)", style="dim")


def print_part(out: Console, part: WordsPart, *, full: bool, find: str | None = None) -> None:
    """One part: its kind and name, then its text, folded unless all of it is asked for."""
    if part.kind == "read":
        out.print(f"  reads the {part.name} message of step {part.step}", style="dim", markup=False)
        return
    head = Text(f"  {part.kind}", style="bold red" if part.kind == "error" else "bold")
    head.append(f" {printable(part.name)}" if part.name else "", style="default")
    out.print(head)
    text = readable(part.text) if part.kind in ("arguments", "call") else part.text
    lines, left = (text.splitlines(), 0) if full else _folded(text, FOLD.get(part.kind, LINES), find)
    for line in lines or [""]:
        shown = Text(printable(line.expandtabs(4)), style="red" if part.kind == "error" else "")
        if find:
            shown.highlight_words([find], style="reverse", case_sensitive=False)
        if out.is_terminal:
            out.print(Padding(shown, (0, 0, 0, len(INDENT))))
        else:
            out.print(Text.assemble(INDENT, shown), soft_wrap=True)
    if left:
        out.print(f"{INDENT}… {left:,} more characters; --full shows them", style="dim")


def _folded(text: str, most: int, find: str | None) -> tuple[list[str], int]:
    """The first lines, and how many characters are left; where a text is looked for, the lines around it."""
    start = text.casefold().find(find.casefold()) if find else -1
    cut = 0
    if start > most * LONGEST // 2 or text.count("\n", 0, max(start, 0)) >= most:
        cut = max(text.rfind("\n", 0, start) + 1, start - 2 * LONGEST)
    lines: list[str] = ["…"] if cut else []
    room, used = most, cut
    for line in text[cut:].splitlines(keepends=True):
        if room <= 0:
            break
        kept = line[: room * LONGEST]
        lines.append(kept.rstrip("\r\n"))
        used += len(kept)
        room -= 1 + len(kept) // LONGEST
    return lines, cut + len(text) - used


def readable(arguments: str) -> str:
    """The JSON of a call as `name: value` lines, so that line breaks inside a value are line breaks; else as it is."""
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return arguments
    if not isinstance(value, dict) or not value:
        return arguments
    return "\n".join(f"{name}:{_value(said)}" for name, said in value.items())


def _value(value: Any) -> str:
    if isinstance(value, str):
        return "".join(f"\n  {line}" for line in value.splitlines()) if "\n" in value else f" {value}"
    return f" {msgspec.json.encode(value).decode()}"
