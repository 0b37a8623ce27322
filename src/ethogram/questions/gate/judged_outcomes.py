"""Whether a verdict of the gate relies on a judge that was not calibrated.

Scores that a judge gave are not what people would say. A gate on the verdicts of a judge with a small J sees J times
the true drop, so an unnoticed regression passes. Such a verdict becomes `undecided`, unless --trust-judge is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ethogram.estimate import Estimate
from ethogram.questions.calibration.judge_accuracy import MIN_J, MIN_LABELS, Calibration, calibration_of
from ethogram.questions.calibration.question import JudgeReading
from ethogram.questions.calibration.verdicts import RUBRIC, Wanted, read_items
from ethogram.store import Run
from ethogram.traces import Scored

MODEL_GRADED = ("model_graded", "model:", "panel:")
"""How the names of scores begin that a model gave, where a log does not say so otherwise."""

JudgeStanding = Literal["trusted", "few_labels", "uncalibrated", "refused"]


class OutcomeJudge(msgspec.Struct, frozen=True, kw_only=True):
    """The judge whose scores a gate compares: `standing` says whether that can be a verdict.

    `multiplier` is how many times the runs a gate on raw verdicts needs; `calibrated_on` the run with the labels.
    """

    score: str
    judge: str
    standing: JudgeStanding
    why: str
    labels: int
    j: Estimate | None
    multiplier: float | None
    calibrated_on: str | None
    trusted_by_user: bool = False


def outcome_judge(runs: Sequence[Run], metric: str) -> OutcomeJudge | None:
    """The judge behind the outcomes of these runs, if the metric is about outcomes and a judge gave them."""
    if metric not in ("success", "score"):
        return None
    score = next((s for run in runs if (s := _judged_score(run)) is not None), None)
    if score is None:
        return None
    best: tuple[str, str, Calibration] | None = None
    for run in runs:
        for item in read_items(run, _wanted(score)) if _judged_score(run) == score else ():
            made = calibration_of(JudgeReading(run).paired(item)[1])
            if best is None or made.labels > best[2].labels:
                best = run.name, item.judge, made
    assert best is not None
    name, judge, made = best
    standing, why = _standing(score, made)
    return OutcomeJudge(
        score=score,
        judge=judge,
        standing=standing,
        why=why,
        labels=made.labels,
        j=made.j if made.labels else None,
        multiplier=made.gate_multiplier,
        calibrated_on=name if made.labels else None,
    )


def _standing(score: str, made: Calibration) -> tuple[JudgeStanding, str]:
    says = f"the outcomes are the verdicts of a judge ({score})"
    cost = (
        ""
        if made.gate_multiplier is None
        else f"; raw verdicts would need {made.gate_multiplier:.1f} times the attempts"
    )
    if not made.labels or made.j.value is None:
        return "uncalibrated", f"{says} that no labels by hand were compared with; see ethogram calibrate"
    seen = f"{says} with J = {made.j} "
    if made.j.value < MIN_J:
        return "refused", f"{seen}below {MIN_J:g}{cost or '; no number of attempts makes up for it'}"
    if made.labels < MIN_LABELS or not made.automate:
        return "few_labels", f"{seen}which is not settled yet{cost}; {made.why}"
    return "trusted", f"{seen}{cost.lstrip('; ')}"


def _judged_score(run: Run) -> str | None:
    """The name of the score that outcomes come from, where a judge gave it."""
    scorers = {e.head.outcome.by for e in run.entries if isinstance(e.head.outcome, Scored)}
    for by in sorted(scorers):
        if by.startswith(MODEL_GRADED) or by == RUBRIC or by.startswith(RUBRIC + "/"):
            return by
    scorers.discard("")
    if not scorers:
        return None
    judged = {x.name for x in run.labels() if x.source == "judge"}
    return next((by for by in sorted(scorers) if by in judged), None)


def _wanted(score: str) -> Wanted:
    return Wanted(items=(score,)) if score.startswith(RUBRIC) else Wanted(score=score)
