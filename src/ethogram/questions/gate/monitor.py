"""Monitoring without a planned end: an e-process that may be evaluated any number of times."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np

from ethogram.estimate import Estimate
from ethogram.measures.metrics import metric
from ethogram.measures.outcomes import Floats, Outcomes
from ethogram.statistics import anytime

from .plan import GateSettings
from .verdict import Verdict

_ALARM = anytime.uniform_bets(0.05, 0.9, 24)
_RANGE = anytime.geometric_bets(0.005, 0.95, 24)


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence after each whole pass: pairs for the worse and for the better, and the e-value."""

    passes: int
    worse: int
    better: int
    same: int
    e: float
    bound: float


class Monitoring(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict so far; an alarm is final once raised."""

    verdict: Verdict
    why: str
    difference: Estimate
    history: list[Watch]
    alarm_at: int | None
    anytime_p: float


def watch(base: Outcomes, candidate: Outcomes, settings: GateSettings, tasks: tuple[str, ...]) -> Monitoring:
    """Bet on the candidate being worse, one pair of attempts after the other, each used once.

    A pass counts when every task has its attempt on both sides, scored or missing; a missing one makes no pair, but a
    verdict of pass must survive the candidate's missing ones beyond the baseline's rate.
    """
    kind = metric(settings.metric)
    rows = min(_whole_passes(o.only(tasks)) for o in (base, candidate))
    grids = [o.only(tasks).grid(kind.name)[:rows] for o in (base, candidate)]
    if settings.missing == "failure" and kind.unit == "rate":
        grids = [np.where(np.isnan(g), 0.0, g) for g in grids]
    apart = kind.worse_sign * (grids[1] - grids[0])
    with np.errstate(invalid="ignore"):
        worse, better, same = (np.cumsum(np.sum(c, axis=1)) for c in (apart > 0, apart < 0, apart == 0))
    log_e = anytime.log_e(anytime.pair_capital(worse, better, _ALARM), _ALARM)
    limit = math.log(1 / settings.alpha)
    history = [
        Watch(
            passes=i + 1,
            worse=int(worse[i]),
            better=int(better[i]),
            same=int(same[i]),
            e=float(np.exp(min(float(log_e[i]), 700.0))),
            bound=1 / settings.alpha,
        )
        for i in range(rows)
    ]
    alarm = int(np.argmax(log_e >= limit)) + 1 if rows and np.any(log_e >= limit) else None
    p = float(anytime.anytime_p(log_e)[-1]) if rows else 1.0
    difference = _difference(worse, better, same, kind.name, settings, kind.worse_sign)
    verdict, why = _verdict(rows, alarm, difference, settings, kind.worse_sign)
    if verdict == "pass" and settings.missing == "bounds":
        lost, kept = _charged(*grids)
        charged = _difference(worse + lost, better, same + kept, kind.name, settings, kind.worse_sign)
        if lost and _verdict(rows, alarm, charged, settings, kind.worse_sign)[0] != "pass":
            verdict, why = "undecided", f"{why}; but not with the {lost} missing attempts of the candidate as failures"
    return Monitoring(verdict=verdict, why=why, difference=difference, history=history, alarm_at=alarm, anytime_p=p)


def _charged(base: Floats, candidate: Floats) -> tuple[int, int]:
    """Pairs that are missing beyond the baseline's rate, taken as failures: for the worse, and without a change."""
    gone = [np.isnan(g) for g in (base, candidate)]
    total = int(gone[1].sum())
    beyond = max(total - int(gone[0].sum()), 0)
    passed = int(np.sum(gone[1] & (base > 0)))
    lost = math.ceil(passed * beyond / total) if total else 0
    return lost, beyond - min(lost, beyond)


def _verdict(
    rows: int, alarm: int | None, difference: Estimate, settings: GateSettings, sign: float
) -> tuple[Verdict, str]:
    if rows == 0:
        return "undecided", "no whole pass over the tasks is there on both sides yet"
    if alarm is not None:
        return "regression", f"the e-value reached {1 / settings.alpha:g} after pass {alarm}"
    if difference.low is not None and difference.high is not None:
        worst = max(sign * difference.low, sign * difference.high)
        if worst < settings.margin:
            return (
                "pass",
                f"a change for the worse of {settings.margin:g} is ruled out at any time: at most {worst:.3g}",
            )
    return "undecided", f"{rows} passes have neither raised the alarm nor ruled the margin out; watch on"


def _difference(worse: Any, better: Any, same: Any, name: str, settings: GateSettings, sign: float) -> Estimate:
    """Candidate minus base in success, valid whenever one stops; other metrics only say which way pairs went."""
    level = 1 - settings.alpha
    if worse.size == 0:
        return Estimate(value=None, level=level, why="no whole pass yet")
    counts = [float(c[-1]) for c in (worse, same, better)]
    pairs = int(sum(counts))
    made = Estimate(value=None, level=level, method="betting confidence sequence", n=pairs, of="pairs")
    if pairs == 0:
        return msgspec.structs.replace(made, why="no pair of attempts has a score on both sides")
    share = (counts[0] - counts[2]) / pairs
    if name != "success":
        why = f"the share of pairs for the worse less those for the better is {share:.3g}; its size is not watched"
        return msgspec.structs.replace(made, why=why)
    low, high = (float(x) for x in anytime.pair_interval(counts[0], counts[1], counts[2], level, _RANGE))
    ends = sorted((sign * low, sign * high))
    return msgspec.structs.replace(
        made, value=sign * share + 0.0, low=min(ends[0], sign * share), high=max(ends[1], sign * share)
    )


def _whole_passes(outcomes: Outcomes) -> int:
    """Attempts 0, 1, … that every task has, scored or not."""
    there = np.zeros((int(outcomes.attempt.max(initial=-1)) + 1, len(outcomes.tasks)), dtype=bool)
    there[outcomes.attempt, outcomes.task] = True
    whole = np.all(there, axis=1)
    return int(np.argmin(whole)) if not np.all(whole) else int(whole.size)
