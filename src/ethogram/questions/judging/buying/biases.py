"""Measure the biases of a judge: some traces of a run are judged again, with one guard off or unchanged."""

from __future__ import annotations

from collections.abc import Sequence

from ethogram.findings.classes_by_hand import step_of_label
from ethogram.findings.rubric import ItemVerdict, TraceVerdict
from ethogram.findings.step_words import TraceWords
from ethogram.questions.judging.bias import (
    LONG_ENOUGH,
    BiasReport,
    Exposing,
    TwoReadings,
    exposure_bias,
    middle_bias,
    self_consistency,
    style_bias,
)
from ethogram.questions.judging.judges import Judge
from ethogram.questions.judging.rulejudge import RuleJudge
from ethogram.questions.judging.stripping import without_narration
from ethogram.questions.judging.windows import shown_steps
from ethogram.reading.task_names import task_name
from ethogram.store import Entry
from ethogram.traces import Scored, Trace

from .session import JudgeSession

WINDOWS = 4
"""The whole trace is held against this number of windows over it."""


def measure_biases(session: JudgeSession, entries: Sequence[Entry]) -> list[BiasReport]:
    """The biases of a judge on the first traces of these; replies that were asked for before come from the cache.

    Without `--measure` only what repeated readings tell. The order of two traces is measured by comparing pairs.
    """
    measured = _Measured(session)
    count = session.options.measure or len(entries)
    for entry in entries[:count]:
        measured.read(entry)
    return measured.reports()


class _Measured:
    def __init__(self, session: JudgeSession) -> None:
        self.session = session
        self.threshold = session.run.success_at
        self.outcome: list[TwoReadings] = []
        self.narration: list[TwoReadings] = []
        self.whole: list[TwoReadings] = []
        self.repeats: list[list[TraceVerdict]] = []
        self.tasks: list[str] = []
        self.style: list[tuple[str, Trace, TraceVerdict, TraceVerdict]] = []

    def read(self, entry: Entry) -> None:
        session = self.session
        trace, task = session.trace(entry), task_name(entry.head)
        seen = session.guarded(trace)
        usual = self._judge(session.judge, trace, seen.trace)
        if session.options.repeat > 1:
            more = [self._judge(session.judge, trace, seen.trace, r) for r in range(1, session.options.repeat)]
            self.repeats.append([usual, *more])
            self.tasks.append(task)
        if not session.options.measure:
            return
        if isinstance(trace.outcome, Scored):
            sign = 1.0 if trace.outcome.success(self.threshold) else -1.0
            self.outcome.append(self._exposed("outcome", task, trace, sign))
        if without_narration(trace).removed:
            self.narration.append(self._exposed("narration", task, trace))
        if len(trace.steps) >= LONG_ENOUGH:
            self.whole.append(self._in_windows(task, trace, seen.trace))
        reference = self._reference(trace)
        if reference is not None:
            self.style.append((task, trace, usual, reference))

    def reports(self) -> list[BiasReport]:
        found: list[BiasReport] = []
        if self.session.options.measure:
            found += [
                exposure_bias("outcome", self.outcome),
                exposure_bias("narration", self.narration),
                middle_bias(self.whole),
                style_bias(self.style),
            ]
        if self.session.options.repeat > 1:
            found.append(self_consistency(self.repeats, self.tasks))
        return found

    def _judge(self, judge: Judge, trace: Trace, seen: Trace, reading: int = 0) -> TraceVerdict:
        return judge.judge(self.session.case(trace, seen, reading), self.session.rubric)

    def _exposed(self, guard: Exposing, task: str, trace: Trace, sign: float = 1.0) -> TwoReadings:
        """One reading with the guard off, one with it on; the usual one of the two is in the cache."""
        judge = self.session.judge
        exposed = self._judge(judge, trace, self.session.guarded(trace, off=guard).trace)
        return TwoReadings(
            task, trace, exposed, self._judge(judge, trace, self.session.guarded(trace, on=guard).trace), sign
        )

    def _in_windows(self, task: str, trace: Trace, seen: Trace) -> TwoReadings:
        size = sum(len(s.words) for s in shown_steps(TraceWords(seen)))
        whole = self._judge(self.session.judge.reading_in(10**9), trace, seen)
        parts = self._judge(self.session.judge.reading_in(max(size // WINDOWS * 2, 500)), trace, seen)
        return TwoReadings(task, trace, whole, parts)

    def _reference(self, trace: Trace) -> TraceVerdict | None:
        """What people said of the steps, else what rules say; None where the judge is the rule judge itself."""
        names = {item.label: item.name for item in self.session.rubric.items}
        by_hand = []
        for label in trace.labels:
            step = step_of_label(trace, label) if label.source == "hand" and label.name in names else None
            if step is not None and isinstance(label.value, bool):
                by_hand.append(ItemVerdict(item=names[label.name], step=step, value=label.value))
        if by_hand:
            return TraceVerdict(verdicts=tuple(by_hand))
        if self.session.judge.by == RuleJudge.by:
            return None
        return RuleJudge().judge(self.session.case(trace, self.session.guarded(trace).trace), self.session.rubric)
