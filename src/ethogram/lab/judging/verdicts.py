"""Stored verdicts: what a judge said of each trace, and what that makes of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from ethogram.errors import EthogramError, NotFound
from ethogram.estimate import Estimate
from ethogram.judge.rubric import RUBRIC_LABEL, Rubric, RubricItem, is_rubric_label
from ethogram.lab.outcomes.names import task_name
from ethogram.stats import shares
from ethogram.store import Entry, Home, Run, run_of
from ethogram.trace import Label, SpanId, TraceId

from .results import CitedNo, JudgedItem, JudgeResult, ScoreCount
from .rubrics import read_rubric

MOST_EXAMPLES = 5


class JudgeVersion(NamedTuple):
    """Who judged, and the digest of rubric and settings."""

    by: str
    version: str


Verdicts = dict[TraceId, dict[tuple[str, SpanId | None], Label]]
"""The newest label of each name and span, by trace."""


def judge_versions(run: Run) -> dict[JudgeVersion, int]:
    """The judges of a run and how many traces each judged; the newest last."""
    counts: dict[JudgeVersion, set[TraceId]] = {}
    for label in run.labels():
        if label.name == RUBRIC_LABEL and label.source == "judge":
            key = JudgeVersion(label.by, label.version)
            counts[key] = counts.pop(key, set()) | {label.trace_id}
    return {key: len(traces) for key, traces in counts.items()}


def verdicts_by(run: Run, judge: JudgeVersion) -> Verdicts:
    """All labels of one judge in one version."""
    found: Verdicts = {}
    for label in run.labels():
        if label.source == "judge" and (label.by, label.version) == judge and is_rubric_label(label.name):
            found.setdefault(label.trace_id, {})[label.name, label.span_id] = label
    return found


def judged_run(
    run: str | Run = "latest",
    *,
    rubric: str | Rubric = "standard",
    judge: str | None = None,
    home: Home | str | None = None,
) -> JudgeResult:
    """What a judge has said of a stored run; nothing is judged anew.

    `judge` chooses by name (`rule`, `model:NAME`); by default the one that judged last. Raises `NotFound` where nobody
    judged the run.

    Example: `judged_run("night").items[0].yes`
    """
    found = run_of(run, home)
    known = judge_versions(found)
    fitting = [key for key in known if judge is None or key.by == judge]
    if not fitting:
        who = f" by {judge!r}" if judge else ""
        raise NotFound(f"run {found.name!r} was not judged{who}; judge it with: ethogram judge {found.name}")
    return judge_result(found, read_rubric(rubric), fitting[-1], found.entries)


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
    total = sum(of)
    if not total:
        why = "no run has a verdict"
        return Estimate(value=None, level=level, n=0, of="runs", missing=dict(missing), why=why)
    ends = shares.clustered_share(hits, of, level)
    value = sum(hits) / total
    return Estimate(
        value=value,
        low=min(float(ends.low), value),
        high=max(float(ends.high), value),
        level=level,
        method="wilson-neff",
        n=total,
        of="runs",
        missing=dict(missing),
    )


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
