"""Stored verdicts of a judge on each trace, and their summary over a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from ethogram.errors import EthogramError
from ethogram.estimate import Estimate
from ethogram.findings.rubric import RUBRIC_LABEL, Rubric, RubricItem, is_rubric_label
from ethogram.reading.task_names import task_name
from ethogram.statistics import shares
from ethogram.store import Entry, Run
from ethogram.traces import Label, SpanId, TraceId

from .results import CitedNo, JudgedItem, JudgeResult, ScoreCount

MOST_EXAMPLES = 5


class JudgeVersion(NamedTuple):
    """Who judged, and the digest of rubric and settings."""

    by: str
    version: str


Verdicts = dict[TraceId, dict[tuple[str, SpanId | None], Label]]
"""The newest label of each name and span, by trace."""


def verdicts_by(run: Run, judge: JudgeVersion) -> Verdicts:
    """All labels of one judge in one version."""
    found: Verdicts = {}
    for label in run.labels():
        if label.source == "judge" and (label.by, label.version) == judge and is_rubric_label(label.name):
            found.setdefault(label.trace_id, {})[label.name, label.span_id] = label
    return found


def judge_result(run: Run, rubric: Rubric, judge: JudgeVersion, entries: Sequence[Entry]) -> JudgeResult:
    """The answer from stored labels, over these entries of a run."""
    verdicts = verdicts_by(run, judge)
    chosen = [e for e in entries if not e.forgotten]
    judged = [e for e in chosen if (RUBRIC_LABEL, None) in verdicts.get(e.head.trace_id, {})]
    scores = [(task_name(e.head), _score(verdicts[e.head.trace_id])) for e in judged]
    counts = Counter(round(s, 6) for _, s in scores if s is not None)
    unknown = sum(s is None for _, s in scores)
    missing = {"no item could be judged": unknown} if unknown else {}
    return JudgeResult(
        run=run.name,
        judge=judge.by,
        version=judge.version,
        rubric=rubric.name,
        rubric_digest=rubric.digest,
        guards=[],
        judged=0,
        kept=len(judged),
        left=len(chosen) - len(judged),
        items=[_item(run, item, judged, verdicts) for item in rubric.items],
        score=share_over_runs([(t, s) for t, s in scores if s is not None], missing),
        scores=[ScoreCount(score=score, runs=n) for score, n in sorted(counts.items())],
    )


def share_over_runs(values: Iterable[tuple[str, float]], missing: Mapping[str, int], level: float = 0.95) -> Estimate:
    """The mean over runs of numbers from 0 to 1, clustered by task: `values` are (task, number)."""
    tasks: dict[str, list[float]] = {}
    for task, value in values:
        tasks.setdefault(task, []).append(value)
    hits, of = [sum(own) for own in tasks.values()], [len(own) for own in tasks.values()]
    return shares.share_estimate(hits, of, level, "runs", missing=missing, nothing="no attempt has a verdict")


def _score(labels: Mapping[tuple[str, SpanId | None], Label]) -> float | None:
    value = labels[RUBRIC_LABEL, None].value
    return float(value) if isinstance(value, int | float) else None


def _item(run: Run, item: RubricItem, judged: Sequence[Entry], verdicts: Verdicts) -> JudgedItem:
    whole: list[tuple[str, float]] = []
    missing: Counter[str] = Counter()
    steps = steps_no = steps_unknown = 0
    failing: list[Entry] = []
    for entry in judged:
        own = verdicts[entry.head.trace_id]
        values = [label.value for (name, span), label in own.items() if name == item.label and span is not None]
        steps += len(values)
        steps_no += sum(v is False for v in values)
        steps_unknown += sum(v is None for v in values)
        label = own.get((item.label, None))
        if label is None or not isinstance(label.value, bool):
            missing["not judged" if any(v is None for v in values) else "does not apply"] += 1
            continue
        whole.append((task_name(entry.head), float(label.value)))
        if not label.value:
            failing.append(entry)
    return JudgedItem(
        item=item.name,
        question=item.question,
        yes=share_over_runs(whole, missing),
        runs_no=len(failing),
        steps=steps,
        steps_no=steps_no,
        steps_unknown=steps_unknown,
        examples=[no for e in failing[:MOST_EXAMPLES] if (no := _example(run, e, item, verdicts)) is not None],
    )


def _example(run: Run, entry: Entry, item: RubricItem, verdicts: Verdicts) -> CitedNo | None:
    """The first step of a trace that is no."""
    spans = {
        span: label
        for (name, span), label in verdicts[entry.head.trace_id].items()
        if name == item.label and span is not None and label.value is False
    }
    with suppress(EthogramError, KeyError):
        trace = run.trace(entry)
        for step, span in enumerate(trace.steps):
            label = spans.get(span.span_id)
            if label is not None:
                short = entry.head.trace_id.removeprefix("b2:")[:10]
                why = trace.text(label.why) if label.why is not None else ""
                return CitedNo(
                    trace=entry.head.trace_id, task=task_name(entry.head), step=step, place=f"{short}:{step}", why=why
                )
    return None
