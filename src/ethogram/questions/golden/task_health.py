"""Health of the tasks of a golden set, from stored attempts, and what to do about each.

A task that always passes or never does tells versions apart no longer; one whose verdict changes while the end state
does not has a broken check; one that fails when the rest passes measures something else; one that costs more than it
tells makes every gate costly. What cannot be said yet says how many attempts or runs it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from ethogram.estimate import Estimate
from ethogram.statistics import interval
from ethogram.statistics._numeric import Numbers, floats, normal_quantile
from ethogram.statistics.interval import Interval

Floats = np.ndarray[Any, np.dtype[np.float64]]
HealthFinding = Literal["saturated", "dead", "flaky", "at_odds", "slow", "costly"]
TaskAdvice = Literal["retire", "split", "fix the check", "read the task", "keep"]

SURE = 0.9
"""A task whose pass rate surely lies above this is saturated; one surely below 1 minus this is dead."""
LEAST_RUNS = 8
"""Below this number of runs a correlation over runs says nothing."""
LEAST_OTHERS = 3
"""The fewest other tasks that make a rest to compare with."""
TOO_DEAR = 3.0
"""A task is costly (or slow) if its share of the cost is surely this multiple of its share of what the suite tells."""
DRAWS = 9_999


class TaskRuns(NamedTuple):
    """One task over the stored runs: passes and attempts in each run, what attempts used, and ends that were alike.

    `alike` counts attempts that ended as another one did, `contradicted` those of them whose verdict is another one's
    opposite. Amounts are NaN where a log does not tell.
    """

    task: str
    passed: Floats
    attempts: Floats
    usd: Floats
    seconds: Floats
    alike: int = 0
    contradicted: int = 0


class TaskHealth(msgspec.Struct, frozen=True, kw_only=True):
    """What stored runs say of one task, what was found, and what to do; `needs` says what more it takes to know.

    `success` is the pass rate over all attempts; `item_rest` the correlation over runs of this task with the others,
    whose interval holds for all tasks at once; `same_end_other_verdict` the share of attempts that ended alike and were
    judged differently; `usd_for_its_worth` and `seconds_for_its_worth` are the task's share of the cost over its share
    of what the suite tells, 1 where it is worth its price.
    """

    task: str
    runs: int
    attempts: int
    success: Estimate
    item_rest: Estimate
    same_end_other_verdict: Estimate
    usd: Estimate
    seconds: Estimate
    usd_for_its_worth: Estimate
    seconds_for_its_worth: Estimate
    findings: list[HealthFinding]
    advice: TaskAdvice
    why: str
    needs: list[str]
    guards: list[str] = []


def task_health(tasks: Sequence[TaskRuns], guards: dict[str, list[str]], level: float = 0.95) -> list[TaskHealth]:
    """The health of each task; `tasks` have one place per run each, in the same order of runs.

    `guards` are incidents that a task guards: such a task is never to be retired.
    """
    success = [_success(t, level) for t in tasks]
    rest = _item_rest(tasks, level)
    usd = _amounts(tasks, "usd", success, level)
    seconds = _amounts(tasks, "seconds", success, level)
    return [
        _health(task, success[i], rest[i], usd[i], seconds[i], guards.get(task.task, []))
        for i, task in enumerate(tasks)
    ]


def needed_to_be_sure(level: float = 0.95) -> int:
    """How many attempts without a failure put the lower end of the pass rate at `SURE`."""
    n = 1
    while float(interval.wilson(n, n, level).low) < SURE:
        n += 1
    return n


def _success(task: TaskRuns, level: float) -> Estimate:
    n, passed = int(task.attempts.sum()), float(task.passed.sum())
    if not n:
        return Estimate(
            value=None, level=level, method="wilson", of="attempts", why="no stored run has a scored attempt"
        )
    low, high = interval.wilson(passed, n, level)
    return Estimate(
        value=passed / n, low=float(low), high=float(high), level=level, method="wilson", n=n, of="attempts"
    )


def _item_rest(tasks: Sequence[TaskRuns], level: float) -> list[Estimate]:
    """Each task against the others over runs; rates are taken from their mean over runs, so that a run that attempted
    only easy tasks is no better run."""
    if not tasks:
        return []
    attempts = np.array([t.attempts for t in tasks])
    passed = np.array([t.passed for t in tasks])
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = np.where(attempts > 0, passed / attempts, np.nan)
    seen = ~np.isnan(rate)
    mean = np.array([row[own].mean() if own.any() else 0.0 for row, own in zip(rate, seen, strict=True)])
    centred = np.where(seen, rate - mean[:, None], 0.0)
    out = []
    each = 1 - (1 - level) / len(tasks)
    for i, task in enumerate(tasks):
        others = seen.sum(axis=0) - seen[i]
        own = seen[i] & (others >= LEAST_OTHERS)
        n = int(own.sum())
        about: dict[str, Any] = {"level": level, "method": "pearson, fisher z, all tasks at once", "n": n, "of": "runs"}
        if n < LEAST_RUNS:
            why = f"{n} runs attempt it and {LEAST_OTHERS} or more other tasks; {LEAST_RUNS} are needed"
            if len(tasks) <= LEAST_OTHERS:
                have = "1 task" if len(tasks) == 1 else f"{len(tasks)} tasks"
                why = f"the suite has {have}, and a comparison needs {LEAST_OTHERS + 1}"
            out.append(Estimate(value=None, why=why, **about))
            continue
        remainder = (centred.sum(axis=0) - centred[i])[own] / others[own]
        found = negative(centred[i][own], remainder, DRAWS, _generator(task.task))
        if np.isnan(found.r):
            out.append(
                Estimate(value=None, why="its pass rate, or that of the other tasks, is the same in every run", **about)
            )
            continue
        low, high = fisher(found.r, n, each)
        # Fisher's interval leans on normal rates; the permutation test does not, so both must agree
        top = float(high) if found.p <= 1 - each else max(float(high), 0.0)
        out.append(Estimate(value=found.r, low=float(low), high=max(top, found.r), **about))
    return out


def _generator(name: str) -> np.random.Generator:
    """Seeded by the name of a task, so that order and number of tasks change nothing."""
    return np.random.default_rng(int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little"))


class _Amount(NamedTuple):
    """What an attempt uses of something, and that share over the share of what it tells."""

    mean: Estimate
    worth: Estimate


def _amounts(tasks: Sequence[TaskRuns], name: str, success: Sequence[Estimate], level: float) -> list[_Amount]:
    """Mean use per attempt of each task, and its price for what it tells.

    What an attempt tells of a version is the variance of its outcome, p(1 - p): nothing where it always passes.
    """
    means = [_mean(getattr(t, name), name, level) for t in tasks]
    told = [_outcome_variance(s) for s in success]
    usable = [m.value is not None and t is not None for m, t in zip(means, told, strict=True)]
    spent = sum(m.value or 0.0 for m, u in zip(means, usable, strict=True) if u)
    worth = sum(t[1] for t, u in zip(told, usable, strict=True) if u and t is not None)
    out = []
    for mean, tells, known in zip(means, told, usable, strict=True):
        about: dict[str, Any] = {
            "level": level,
            "method": "from the ends of both intervals",
            "n": mean.n,
            "of": "attempts",
        }
        if not known or tells is None or mean.value is None or not spent or not worth or sum(usable) < 2:
            why = mean.why or f"fewer than two tasks have known {name}, or no task is informative"
            out.append(_Amount(mean, Estimate(value=None, why=why, **about)))
            continue
        ends = [_ratio(cost, tell, mean.value, tells[1], spent, worth) for cost, tell in _ends(mean, tells)]
        out.append(_Amount(mean, Estimate(value=ends[1], low=ends[0], high=ends[2], **about)))
    return out


def _ends(mean: Estimate, tells: tuple[float, float, float]) -> list[tuple[float, float]]:
    """The kindest reading, the middle one and the harshest."""
    low = mean.low if mean.low is not None else mean.value
    high = mean.high if mean.high is not None else mean.value
    return [(max(low or 0.0, 0.0), tells[2]), (mean.value or 0.0, tells[1]), (high or 0.0, tells[0])]


def _ratio(cost: float, tell: float, mean: float, middle: float, spent: float, worth: float) -> float:
    share_of_cost = cost / (spent - mean + cost) if spent - mean + cost > 0 else 0.0
    share_of_worth = tell / (worth - middle + tell) if worth - middle + tell > 0 else 0.0
    if share_of_worth <= 0:
        return float("inf") if share_of_cost > 0 else 0.0
    return share_of_cost / share_of_worth


def _mean(values: Floats, name: str, level: float) -> Estimate:
    known = values[~np.isnan(values)]
    missing = {"not_recorded": int(values.size - known.size)} if values.size > known.size else {}
    about: dict[str, Any] = {
        "level": level,
        "method": "hall",
        "n": int(known.size),
        "of": "attempts",
        "missing": missing,
    }
    if not known.size:
        return Estimate(value=None, why=f"no attempt tells its {name}", **about)
    if known.size < 2:
        return Estimate(value=float(known[0]), why="one attempt has no spread", **about)
    low, high = interval.skewed_mean(known, level)
    mean = float(known.mean())
    return Estimate(value=mean, low=min(max(float(low), 0.0), mean), high=max(float(high), mean), **about)


def _outcome_variance(success: Estimate) -> tuple[float, float, float] | None:
    """The variance of an outcome: least, as it is, most, over the interval of the pass rate."""
    if success.value is None or success.low is None or success.high is None:
        return None
    ends = [p * (1 - p) for p in (success.low, success.high)]
    most = 0.25 if success.low <= 0.5 <= success.high else max(ends)
    return min(ends), success.value * (1 - success.value), most


def _flaky(task: TaskRuns) -> Estimate:
    about: dict[str, Any] = {"method": "count", "n": task.alike, "of": "attempts that ended alike"}
    if not task.alike:
        return Estimate(value=None, why="no two attempts ended in the same way; run more attempts (-k)", **about)
    share = task.contradicted / task.alike
    return Estimate(value=share, why="counted, not sampled: one contradiction is proof", **about)


def _health(
    task: TaskRuns, success: Estimate, rest: Estimate, usd: _Amount, seconds: _Amount, guards: list[str]
) -> TaskHealth:
    flaky = _flaky(task)
    found: list[HealthFinding] = []
    if success.low is not None and success.low >= SURE:
        found.append("saturated")
    if success.high is not None and success.high <= 1 - SURE:
        found.append("dead")
    if task.contradicted:
        found.append("flaky")
    if rest.high is not None and rest.high < 0:
        found.append("at_odds")
    if seconds.worth.low is not None and seconds.worth.low > TOO_DEAR:
        found.append("slow")
    if usd.worth.low is not None and usd.worth.low > TOO_DEAR:
        found.append("costly")
    advice, why = _advice(found, guards)
    return TaskHealth(
        task=task.task,
        runs=int((task.attempts > 0).sum()),
        attempts=int(task.attempts.sum()),
        success=success,
        item_rest=rest,
        same_end_other_verdict=flaky,
        usd=usd.mean,
        seconds=seconds.mean,
        usd_for_its_worth=usd.worth,
        seconds_for_its_worth=seconds.worth,
        findings=found,
        advice=advice,
        why=why,
        needs=_needs(success, rest, found),
        guards=guards,
    )


def _advice(found: Sequence[HealthFinding], guards: list[str]) -> tuple[TaskAdvice, str]:
    """What to do, the most urgent first: a broken check spoils all other figures of a task."""
    if "flaky" in found:
        return "fix the check", "the same end state got both verdicts, so its check depends on something else"
    if "at_odds" in found:
        return "read the task", "it passes where the rest of the suite fails: read its prompt and its check"
    if "dead" in found:
        return "split", "it never passes: see whether its check can be met, or split it into steps that can"
    if "saturated" in found and guards:
        return "keep", f"it always passes, as it should: it guards {', '.join(guards)}"
    if "saturated" in found:
        return "retire", "it always passes, so it tells versions apart no longer; keep it only as a guard"
    if "slow" in found or "costly" in found:
        return "split", "it costs far more than it tells: split it, or make it shorter"
    return "keep", "no problem found"


def _needs(success: Estimate, rest: Estimate, found: Sequence[HealthFinding]) -> list[str]:
    """What it takes to say what cannot be said yet."""
    needs = []
    if success.value in (0.0, 1.0) and not {"saturated", "dead"} & set(found):
        word = "saturated" if success.value == 1.0 else "dead"
        more = needed_to_be_sure(level=success.level) - success.n
        needs.append(f"{more} more attempts like these to call it {word}")
    if success.value is None:
        needs.append("a scored attempt")
    if rest.value is None and rest.n < LEAST_RUNS:
        needs.append(f"to compare this task with the others: {rest.why}")
    return needs


class Negative(NamedTuple):
    """Pearson's correlation (NaN where a column does not vary) and the share of permutations that are as low."""

    r: float
    p: float


def fisher(r: float, n: int, level: float) -> Interval:
    """Fisher's z interval of a correlation over n pairs; [-1, 1] below four pairs."""
    if n < 4:
        return Interval(floats(-1.0), floats(1.0))
    z = np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12))
    half = float(normal_quantile(0.5 + level / 2)) / np.sqrt(n - 3)
    return Interval(floats(np.tanh(z - half)), floats(np.tanh(z + half)))


def negative(x: Numbers, y: Numbers, draws: int, rng: np.random.Generator) -> Negative:
    """Test for a negative correlation: x is permuted `draws` times (Phipson and Smyth 2010)."""
    a, b = floats(x) - np.mean(floats(x)), floats(y) - np.mean(floats(y))
    scale = np.sqrt(np.sum(a * a) * np.sum(b * b))
    if not scale > 1e-12:
        return Negative(float("nan"), 1.0)
    r = float(np.sum(a * b) / scale)
    dealt = rng.permuted(np.tile(a, (draws, 1)), axis=1) @ b / scale
    return Negative(r, float((1 + np.sum(dealt <= r + 1e-12)) / (draws + 1)))
