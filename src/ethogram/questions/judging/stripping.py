"""Removes what a judge may not see: the outcome of an attempt, and the agent's own claims of success.

A judge that knows how a run ended finds every step of a success reasonable, and one that reads "I have verified the
fix" believes it. Both are taken out of a copy of the trace; steps keep their positions and ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from ethogram.findings.phrases import BUDGET, CLAIMS_SUCCESS
from ethogram.traces import Message, Missing, Ref, Scored, Span, Text, ToolResult, Trace, pack_message, text_ref

OUTCOME_GONE = "[outcome removed]"
CLAIM_GONE = "[The agent says that the task is done.]"
"""Stands for any claim of success: that one was made matters to where a run ended, how it was worded does not."""
HIDDEN = "outcome hidden from the judge"
_PROCESS_LABELS = frozenset({"stopped_by"})
"""Labels that say how a run ended and nothing about whether it was right."""
_VERDICT_LINE = re.compile(
    r"""^[\W_]*(?:final\s+|total\s+|overall\s+|task\s+|episode\s+|evaluation\s+)?
        (?:reward|score|outcome|verdict|grade|evaluation|resolved|passed|success|correct)\s*(?:is|was)?\s*[:=]\s*
        (?:[-+]?\d[\d.]*\s*(?:/\s*\d+|%)?|true|false|pass(?:ed)?|fail(?:ed|ure)?|success(?:ful)?|(?:un)?resolved
          |(?:in)?correct|yes|no|right|wrong)\W*$
      | ^[\W_]*(?:expected|ground[\s_]truth|reference|gold)[\s_]+(?:answer|output|result)?\s*(?:is|was)?\s*[:=]""",
    re.IGNORECASE | re.VERBOSE,
)
"""A line in which a harness says how a run was scored, or what the answer should have been."""
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+|\n|$)\s*")


class Stripped(NamedTuple):
    """A trace without something, and how many things were taken out."""

    trace: Trace
    removed: int


def without_outcome(trace: Trace) -> Stripped:
    """The trace without score, verdicts, expected answers and lines of a harness that tell them.

    Why an outcome is missing stays: it tells how a run ended, not whether it was right. Results of tools are the
    agent's evidence and stay, but for lines that tell the score after its last words: only a harness speaks there.
    """
    head = trace.head
    kept = tuple(x for x in trace.labels if x.name in _PROCESS_LABELS)
    meta = {k: v for k, v in head.meta.items() if isinstance(v, str) and len(v) < 400 and BUDGET.search(v)}
    removed = len(trace.labels) - len(kept) + len(head.meta) - len(meta)
    outcome = head.outcome
    if isinstance(outcome, Scored):
        outcome = Missing("unscored", HIDDEN)
        removed += 1
    spans = tuple(s for s in trace.spans if s.kind != "judge")
    removed += len(trace.spans) - len(spans)
    hidden = Trace(msgspec.structs.replace(head, outcome=outcome, meta=meta), spans, trace.texts, kept)
    return _after_the_end(hidden, removed)


def without_narration(trace: Trace) -> Stripped:
    """The trace with one neutral sentence in the place of the agent's claims of success."""
    return _reworded(trace, lambda span: span.kind in ("model", "handoff"), _unclaimed)


def _after_the_end(trace: Trace, removed: int) -> Stripped:
    """Lines that tell the score, in steps after the agent's last words and in messages of the harness there."""
    last = max((i for i, span in enumerate(trace.steps) if span.kind == "model"), default=-1)
    late = {span.span_id for span in trace.steps[last + 1 :]}
    found = _reworded(trace, lambda span: span.span_id in late, _unscored)
    return Stripped(found.trace, removed + found.removed)


def _unscored(words: str) -> tuple[str, int]:
    lines = words.split("\n")
    clean = [OUTCOME_GONE if _VERDICT_LINE.search(line) else line for line in lines]
    return "\n".join(clean), sum(a != b for a, b in zip(lines, clean, strict=True))


def _unclaimed(words: str) -> tuple[str, int]:
    parts: list[str] = []
    claims = 0
    for match in _SENTENCE.finditer(words):
        sentence = match.group()
        if not CLAIMS_SUCCESS.search(sentence):
            parts.append(sentence)
            continue
        claims += 1
        if not any(CLAIM_GONE in part for part in parts):
            parts.append(CLAIM_GONE + ("\n" if sentence.endswith("\n") else " "))
    return ("".join(parts).rstrip(" "), claims) if claims else (words, 0)


def _reworded(trace: Trace, chosen: Callable[[Span], bool], change: Callable[[str], tuple[str, int]]) -> Stripped:
    """The trace with other words in what chosen spans wrote; also where later steps read it again."""
    changed: dict[Ref, str] = {}
    count = 0

    def keep(body: str) -> Ref:
        ref = text_ref(body)
        changed[ref] = body
        return ref

    for span in trace.spans:
        if not chosen(span):
            continue
        if span.result is not None and span.result not in changed:
            words, times = change(trace.text(span.result))
            if times:
                changed[span.result] = words
                count += times
        for ref in span.output:
            if ref in changed:
                continue
            message, times = _message_reworded(trace.message(ref), change)
            if times:
                changed[ref] = pack_message(message, keep)
                count += times
    head = trace.head
    if head.answer is not None:
        words, times = change(trace.text(head.answer))
        if times:
            head = msgspec.structs.replace(head, answer=keep(words))
    if not changed:
        return Stripped(trace, count)
    return Stripped(Trace(head, trace.spans, _Overlaid(changed, trace.texts), trace.labels), count)


def _message_reworded(message: Message, change: Callable[[str], tuple[str, int]]) -> tuple[Message, int]:
    parts = []
    count = 0
    for part in message.parts:
        times = 0
        if isinstance(part, Text):
            words, times = change(part.text)
            part = Text(words)
        elif isinstance(part, ToolResult):
            words, times = change(part.content)
            part = msgspec.structs.replace(part, content=words)
        parts.append(part)
        count += times
    return Message(message.role, tuple(parts), message.name), count


class _Overlaid(Mapping[Ref, str]):
    """Texts of a trace, some of them replaced."""

    def __init__(self, changed: Mapping[Ref, str], texts: Mapping[Ref, str]) -> None:
        self._changed, self._texts = changed, texts

    def __getitem__(self, ref: Ref) -> str:
        return self._changed[ref] if ref in self._changed else self._texts[ref]

    def __iter__(self) -> Iterator[Ref]:
        yield from self._changed
        yield from (ref for ref in self._texts if ref not in self._changed)

    def __len__(self) -> int:
        return sum(1 for _ in self)
