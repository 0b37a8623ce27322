"""Long traces in overlapping windows: every step is shown to a judge at least once, the middle included.

Each window has a core, about whose steps it is asked, and context on either side. Cores lie side by side, so every
step is asked about once, and with the context most steps are seen twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ethogram.findings.step_words import StepWords, TraceWords
from ethogram.traces import Ref

WINDOW_CHARACTERS = 24_000
"""About 6,000 tokens: models skim the middle of much longer prompts."""
OVERLAP = 0.25
"""The share of a window that is context on each side."""
MOST_OF_A_TEXT = 4_000
MOST_OUTLINE = 200


class ShownStep(NamedTuple):
    """A step in the words that a judge is shown, and how many characters of it were left out."""

    at: int
    words: str
    cut: int


class Window(NamedTuple):
    """Steps `start` to `end` are shown, `core_start` to `core_end` are asked about; ends are exclusive."""

    start: int
    core_start: int
    core_end: int
    end: int


def shown_steps(words: TraceWords, most: int = MOST_OF_A_TEXT) -> list[ShownStep]:
    """Every step of a trace in words; long texts are cut in their middle, and say by how much."""
    written = {ref for step in words.steps for ref in step.span.output}
    return [_shown(step, words, written, most) for step in words.steps]


def windows_over(sizes: Sequence[int], most: int = WINDOW_CHARACTERS, overlap: float = OVERLAP) -> list[Window]:
    """Windows over steps of these sizes, none larger than `most` unless a single step is."""
    count = len(sizes)
    if not count:
        return []
    if sum(sizes) <= most:
        return [Window(0, 0, count, count)]
    core_most, context = most * (1 - 2 * overlap), most * overlap
    cores: list[tuple[int, int]] = []
    start = 0
    while start < count:
        end, size = start + 1, sizes[start]
        while end < count and size + sizes[end] <= core_most:
            size += sizes[end]
            end += 1
        cores.append((start, end))
        start = end
    return [Window(_reach(sizes, a, -1, context), a, b, _reach(sizes, b - 1, 1, context) + 1) for a, b in cores]


def _reach(sizes: Sequence[int], at: int, way: int, most: float) -> int:
    """How far context reaches from a step in one direction: at least one step where there is one."""
    used = 0.0
    first = True
    while 0 <= at + way < len(sizes):
        used += sizes[at + way]
        if used > most and not first:
            break
        at += way
        first = False
    return at


def window_outline(words: TraceWords, window: Window) -> str:
    """One line per step outside a window: what was called and whether it failed, so that a judge knows what follows."""
    outside = [s for s in words.steps if not window.start <= s.at < window.end]
    lines = [f"[step {s.at}] {_brief(s)}" for s in outside]
    if len(lines) > MOST_OUTLINE:
        half = MOST_OUTLINE // 2
        lines = [*lines[:half], f"… {len(lines) - MOST_OUTLINE} further steps …", *lines[-half:]]
    return "\n".join(lines)


def _brief(step: StepWords) -> str:
    if step.is_call:
        return f"call {step.name} ({'failed' if step.failed else 'ok' if step.returned else 'no result'})"
    return "agent" if step.span.kind == "model" else step.span.kind


def _shown(step: StepWords, words: TraceWords, written: set[Ref], most: int) -> ShownStep:
    cut = 0
    lines = [f"[step {step.at}] {_brief(step)}"]

    def add(what: str, text: str) -> None:
        nonlocal cut
        if text.strip():
            short, gone = _middle_out(text, most)
            cut += gone
            lines.append(f"{what}: {short}")

    for ref in step.span.input:
        if ref not in written:
            message = words.trace.message(ref)
            add(f"given ({message.role})", message.text)
    if step.is_call:
        add("arguments", step.arguments)
        add("error" if step.failed else "result", step.error if step.failed else step.result)
    else:
        add("thinks", step.thought)
        add("says", step.said or step.answers)
        for ref in step.span.output:
            for call in words.trace.message(ref).tool_calls:
                add("asks for", f"{call.name}({call.arguments})")
        if step.failed:
            add("error", step.error)
    return ShownStep(step.at, "\n".join(lines), cut)


def _middle_out(text: str, most: int) -> tuple[str, int]:
    if len(text) <= most:
        return text, 0
    gone = len(text) - most
    return f"{text[: 2 * most // 3]} … {gone:,} characters left out … {text[-most // 3 :]}", gone
