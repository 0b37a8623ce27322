"""One pass over the traces of a run: findings of rules in each, kept as row numbers and a few examples.

A trace is opened, read and let go, so memory grows with the number of findings, not with the size of the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

import msgspec

from ethogram.display.shorten import shortened
from ethogram.errors import EthogramError, Sealed
from ethogram.findings.classes_by_hand import Override, class_override
from ethogram.findings.findings import (
    Blamed,
    Category,
    Facts,
    FailureClass,
    Finding,
    blamed_step,
    category_of,
    findings,
    known_facts,
)
from ethogram.findings.step_words import TraceWords
from ethogram.reading.task_names import task_name
from ethogram.store import Entry, Run
from ethogram.traces import Missing, Scored, Span, Trace, signature

from .decisions import step_words
from .results import Example

SHOWN = 3
"""How many examples stand beside a cause."""
VERIFIER = "verifier"
CALLED = "called:"
NEVER = "never_called:"


class EventRow(NamedTuple):
    """One run: which trace, which attempts are alike, and how it ended; None where nobody scored it."""

    entry: Entry
    task: str
    group: tuple[str, str, str]
    failed: bool | None
    classes: tuple[FailureClass, ...]
    category: Category | None
    step: int | None
    by_hand: Override | None = None


class Seen:
    """One kind of finding over all runs: who shows it, at which step first, and examples in words."""

    def __init__(self, finding: Finding) -> None:
        """Nothing is counted yet."""
        self.name = finding.name
        self.source: str = finding.source
        self.cls = finding.cls
        self.detail = finding.detail
        self.rows: list[int] = []
        self.steps: list[int | None] = []
        self.examples: list[tuple[int, Example]] = []
        self.times = 0
        self.of: Counter[str] = Counter()
        self.first_ns: int | None = None
        self.last_ns: int | None = None

    def add(self, row: int, finding: Finding, trace: Trace, useful: bool) -> None:
        """Count a finding of a run; several of the same kind in one run are one row."""
        self.times += int(finding.detail.get("count", 1))
        if "of" in finding.detail:
            self.of[str(finding.detail["of"])] += 1
        self._seen_at(_time(trace, finding.step))
        if self.rows and self.rows[-1] == row:
            return
        self.rows.append(row)
        self.steps.append(finding.step)
        if useful or len(self.examples) < SHOWN:
            self._keep(row, Example(trace=trace.head.trace_id, step=finding.step, text=finding.text), useful)

    def _keep(self, row: int, example: Example, useful: bool) -> None:
        """Failed runs before others, and a few more than are shown, so that they can be of different tasks."""
        if (useful and len(self.examples) < 4 * SHOWN) or len(self.examples) < SHOWN:
            self.examples.append((row, example))

    def _seen_at(self, at: int | None) -> None:
        if at is not None:
            self.first_ns = at if self.first_ns is None else min(self.first_ns, at)
            self.last_ns = at if self.last_ns is None else max(self.last_ns, at)


class AllFindings(NamedTuple):
    """All runs of a question and what they show; `paths` are the signatures of their steps, `words` say what each
    signature is."""

    rows: list[EventRow]
    seen: dict[str, Seen]
    paths: list[tuple[str, ...]]
    words: dict[str, str]
    missing: dict[str, int]
    unread: int


def gather_findings(run: Run, entries: Iterable[Entry], facts: Callable[[Trace], Facts] = known_facts) -> AllFindings:
    """What rules find in these runs; those whose traces are gone, or that infrastructure ended, are counted apart."""
    threshold = run.success_at
    found = AllFindings([], {}, [], {}, {}, 0)
    unread, missing = 0, Counter[str]()
    for entry in entries:
        outcome = entry.head.outcome
        if entry.forgotten:
            missing["forgotten"] += 1
            continue
        if isinstance(outcome, Missing) and outcome.reason != "unscored":
            missing[outcome.reason] += 1
            continue
        failed = not outcome.success(threshold) if isinstance(outcome, Scored) else None
        trace = run.trace(entry)
        try:
            words = TraceWords(trace)
            own = findings(words, threshold, facts(trace))
            blamed = blamed_step(words, own)
        except Sealed:
            own, blamed, unread = [], None, unread + 1
        _note(found, entry, trace, (own, blamed), failed)
    return found._replace(missing=dict(sorted(missing.items())), unread=unread)


def _note(
    found: AllFindings, entry: Entry, trace: Trace, read: tuple[list[Finding], Blamed | None], failed: bool | None
) -> None:
    row = len(found.rows)
    head = entry.head
    own, blamed = read
    said = _said_by_hand(trace)
    step = blamed.step if blamed is not None else None
    found.rows.append(
        EventRow(
            entry=entry,
            task=task_name(head),
            group=(task_name(head), head.condition, head.agent),
            failed=failed,
            classes=tuple(dict.fromkeys(f.cls for f in own if f.cls is not None)) if said is None else said.classes,
            category=category_of(own),
            step=step if said is None or said.step is None else said.step,
            by_hand=said,
        )
    )
    for finding in sorted(own, key=lambda f: (f.name, f.step is None, f.step or 0)):
        if finding.name not in found.seen:
            found.seen[finding.name] = Seen(finding)
        found.seen[finding.name].add(row, finding, trace, failed is not False)
    signs = []
    for span in trace.steps:
        sign = signature(span)
        signs.append(sign)
        if sign not in found.words:
            found.words[sign] = step_words(span)
    found.paths.append(tuple(signs))


def _said_by_hand(trace: Trace) -> Override | None:
    """The class that a person set. It is no event of the contrast: people look at failures, so what they say is found
    in failures only."""
    with suppress(EthogramError, KeyError):
        return class_override(trace)
    return None


def never_called(found: AllFindings) -> list[Seen]:
    """For every tool that some attempts call and some do not: the attempts that never call it."""
    everyone = set(range(len(found.rows)))
    out = []
    for name, seen in found.seen.items():
        tool = name.removeprefix(CALLED)
        rows = sorted(everyone - set(seen.rows))
        if name.startswith(CALLED) and rows:
            absent = Seen(Finding(name=NEVER + tool, source="event"))
            absent.rows = rows
            absent.steps = [None] * len(rows)
            out.append(absent)
    return out


def step_text(trace: Trace, step: int | None) -> str:
    """The words of a step, or of the last thing that the agent said; nothing where they are sealed or gone."""
    steps = trace.steps
    if not steps:
        return ""
    span = steps[step] if step is not None and step < len(steps) else steps[-1]
    with suppress(EthogramError, KeyError):
        return _words(trace, span)
    return ""


def _words(trace: Trace, span: Span, width: int = 240) -> str:
    said = []
    if span.kind == "tool":
        said.append(f"{span.tool or span.name}({trace.text(span.arguments) if span.arguments else ''})")
        ref = span.error or span.result
        said.append(f" → {trace.text(ref)[: 4 * width]}" if ref is not None else "")
    else:
        for message in map(trace.message, span.output):
            said.append(message.text[: 4 * width])
            said += [f"{c.name}({c.arguments[:width]})" for c in message.tool_calls]
    line = " ".join(" ".join(said).split())
    return shortened(line, width)


def _time(trace: Trace, step: int | None) -> int | None:
    if step is not None and step < len(trace.steps) and trace.steps[step].start_ns is not None:
        return trace.steps[step].start_ns
    return trace.head.start_ns


def chosen_examples(seen: Seen, rows: list[EventRow], failed_only: bool) -> list[Example]:
    """Up to three, of different tasks where there are enough."""
    kept = [(row, e) for row, e in seen.examples if not failed_only or rows[row].failed]
    tasks: set[str] = set()
    first: list[Example] = []
    rest: list[Example] = []
    for row, example in kept:
        (rest if rows[row].task in tasks else first).append(example)
        tasks.add(rows[row].task)
    return [*first, *rest][:SHOWN]


def with_text(example: Example, trace: Trace) -> Example:
    """The example with the words of its step, where the finding brought none."""
    if example.text:
        return example
    return msgspec.structs.replace(example, text=step_text(trace, example.step))
