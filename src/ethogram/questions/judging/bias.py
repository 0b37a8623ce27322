"""Biases of a judge, measured: each bias has its own contrast, whose sign is equally likely both ways without it.

A bias is called one where an exact test at 5 % says so, hence an honest judge is accused in at most one of twenty
measurements, however random its verdicts are. The effect comes with an interval, also where nothing is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ethogram.estimate import Estimate
from ethogram.findings.phrases import CLAIMS_SUCCESS, MOST_READ
from ethogram.findings.rubric import TraceVerdict
from ethogram.findings.step_words import TraceWords
from ethogram.statistics import interval, permutation, shares
from ethogram.statistics._numeric import Numbers, floats
from ethogram.traces import Trace

from .judges import Preference

ALPHA = 0.05
DRAWS = 1999
FEWEST = 6
"""With fewer units no pattern of signs is rare enough to call anything a bias."""
FEWEST_TASKS = 8
"""From this number of tasks on, tasks are the units: what two attempts at one task share counts once."""
STABLE = 0.8
"""A judge that agrees with itself in fewer pairs of readings than this is unstable."""
MIDDLE = (0.25, 0.75)
"""The part of a long prompt that models skim."""
LONG_ENOUGH = 8
"""Steps that a trace needs to have a middle."""
_FORMAT = re.compile(r"^\s*(?:[-*•]\s|\d+[.)]\s|#{1,6}\s|\|)|\*\*|```", re.MULTILINE)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bias = Literal["outcome", "narration", "windows", "order", "length", "repeat"]
Exposing = Literal["outcome", "narration"]
BiasVerdict = Literal["bias", "unstable", "none", "not measured"]


class BiasReport(msgspec.Struct, frozen=True, kw_only=True):
    """One bias: whether it was found, its effect, the p-value of its test, and how many verdicts changed."""

    bias: Bias
    found: BiasVerdict
    what: str
    effect: Estimate
    p: float | None = None
    changed: int = 0
    of: int = 0


class TwoReadings(NamedTuple):
    """One trace read twice: `exposed` without the guard, `guarded` with it; `sign` is what the bias would do."""

    task: str
    trace: Trace
    exposed: TraceVerdict
    guarded: TraceVerdict
    sign: float = 1.0


class Pairwise(NamedTuple):
    """Two traces of one task compared in both orders: the second time the first one comes second."""

    task: str
    forward: Preference
    backward: Preference


def exposure_bias(bias: Exposing, readings: Sequence[TwoReadings]) -> BiasReport:
    """How far verdicts move when the judge sees what the guard hides: with the outcome towards it, with claims of
    success towards yes."""
    units: list[tuple[str, float]] = []
    changed = of = 0
    for reading in readings:
        moves = _moves(reading)
        if moves:
            units.append((reading.task, reading.sign * float(np.mean([m for _, m in moves]))))
            changed += sum(m != 0 for _, m in moves)
            of += len(moves)
    effect = (
        "share of verdicts that move towards the outcome when it is shown"
        if bias == "outcome"
        else "share of verdicts that move to yes when the agent's claims of success are left in"
    )
    return _report(bias, units, effect, changed, of)


def middle_bias(readings: Sequence[TwoReadings]) -> BiasReport:
    """How much more often steps in the middle are called fine when the whole trace is read at once than in windows,
    beyond what happens at both ends."""
    units: list[tuple[str, float]] = []
    changed = of = 0
    for reading in readings:
        count = len(reading.trace.steps)
        if count < LONG_ENOUGH:
            continue
        low, high = (share * count for share in MIDDLE)
        moves = _moves(reading)
        inner = [m for (_, step), m in moves if low <= step < high]
        outer = [m for (_, step), m in moves if not low <= step < high]
        if inner and outer:
            units.append((reading.task, float(np.mean(inner) - np.mean(outer))))
            changed += sum(m != 0 for m in inner)
            of += len(inner)
    return _report("windows", units, "yes in the middle of the whole trace, beyond windows and ends", changed, of)


def order_bias(pairs: Sequence[Pairwise]) -> BiasReport:
    """How much more often the trace that is shown first is preferred, over both orders."""
    units: list[tuple[str, float]] = []
    changed = 0
    for pair in pairs:
        if pair.forward.choice is not None and pair.backward.choice is not None:
            firsts = [_FIRST[p.choice] for p in (pair.forward, pair.backward) if p.choice is not None]
            units.append((pair.task, sum(firsts) / 2))
            changed += sum(firsts) != 0
    return _report("order", units, "preference for the trace shown first, minus one half", changed, len(units))


_FIRST = {"first": 0.5, "tie": 0.0, "second": -0.5}


def style_bias(
    traces: Sequence[tuple[str, Trace, TraceVerdict, TraceVerdict]], *, seed: int = 0, level: float = 0.95
) -> BiasReport:
    """Whether verdicts go with length, formatting or claims of what was written, given what a reference says.

    `traces` are (task, trace, verdict of the judge, verdict of the reference). Verdicts are only compared where the
    reference says the same of the item: among steps of one trace, and in the mean among traces, of one task where tasks
    have several. Each is one test over the three features (Westfall and Young's max-T); the smaller p counts twice.
    """
    rows = _style_rows(traces)
    what = "share of yes per doubling of what the agent wrote at a step, given the reference"
    if rows is None or np.unique(rows.trace).size < FEWEST:
        return _not_measured("length", f"needs {FEWEST} traces with verdicts of the judge and of a reference", what)
    rng = np.random.default_rng(seed)
    tests = [permutation.association(rows.x, rows.y, *_grouped(rows.trace, rows.cell), DRAWS, rng), _between(rows, rng)]
    p, strongest = min((float(t.adjusted.min()), int(np.argmin(t.adjusted))) for t in tests)
    p = min(1.0, len(tests) * p)
    effect = _style_slope(rows, level)
    found: BiasVerdict = "bias" if p <= ALPHA else "none"
    what = f"{what}; strongest: {_FEATURES[strongest]}"
    return BiasReport(bias="length", found=found, what=what, effect=effect, p=p, of=rows.y.size)


def _between(rows: _StyleRows, rng: np.random.Generator) -> permutation.MaxT:
    """Means of traces against each other: attempts at one task where nearly all tasks have several, else all."""
    _, first, owner = np.unique(rows.trace, return_index=True, return_inverse=True)
    count = np.bincount(owner)
    means = np.column_stack([np.bincount(owner, weights=v) / count for v in (rows.y, *rows.x.T)])
    task = rows.task[first]
    sizes = np.bincount(task)
    several = int(sizes[sizes > 1].sum()) >= max(FEWEST, 0.8 * task.size)
    group, groups = _grouped(task) if several else (np.zeros_like(task), 1)
    return permutation.association(means[:, 1:], means[:, 0], group, groups, DRAWS, rng)


def _style_slope(rows: _StyleRows, level: float) -> Estimate:
    slope, variance, clusters = clustered_slope(rows.x[:, 0], rows.y, rows.task)
    n = int(np.unique(rows.trace).size)
    if np.isnan(slope) or not np.any(rows.y):
        why = "all texts are of one length" if np.isnan(slope) else "verdicts do not vary where the reference does not"
        return Estimate(value=None, level=level, why=why, n=n, of="traces")
    ends = interval.student(slope, variance, clusters - 1, level)
    low, high = float(ends.low), float(ends.high)
    method = "least-squares-clustered"
    return Estimate(value=slope, low=low, high=high, level=level, method=method, n=n, of="traces")


def self_consistency(
    readings: Sequence[Sequence[TraceVerdict]], tasks: Sequence[str], level: float = 0.95
) -> BiasReport:
    """The share of verdicts in which two readings of the same trace agree, over all pairs of readings."""
    hits: dict[str, int] = {}
    of: dict[str, int] = {}
    for task, own in zip(tasks, readings, strict=True):
        for i, one in enumerate(own):
            for other in own[i + 1 :]:
                first = {(v.item, v.step): v.value for v in one.verdicts}
                both = [(first.get((v.item, v.step)), v.value) for v in other.verdicts]
                known = [(a, b) for a, b in both if a is not None and b is not None]
                hits[task] = hits.get(task, 0) + sum(a == b for a, b in known)
                of[task] = of.get(task, 0) + len(known)
    total = sum(of.values())
    name = "share of verdicts on which two readings of one trace agree"
    if not total:
        return _not_measured("repeat", "needs two readings of a trace; give --repeat 3", name)
    effect = shares.share_estimate(list(hits.values()), list(of.values()), level, "pairs of verdicts")
    found: BiasVerdict = "unstable" if effect.high is not None and effect.high < STABLE else "none"
    return BiasReport(
        bias="repeat", found=found, what=name, effect=effect, changed=total - sum(hits.values()), of=total
    )


def _moves(reading: TwoReadings) -> list[tuple[tuple[str, int], float]]:
    """By item and step: 1 where the exposed reading says yes and the guarded one no, -1 the other way, 0 else."""
    before = {(v.item, v.step): v.value for v in reading.guarded.verdicts if v.value is not None}
    return [
        ((v.item, v.step), float(v.value) - float(before[v.item, v.step]))
        for v in reading.exposed.verdicts
        if v.value is not None and (v.item, v.step) in before
    ]


def _report(bias: Bias, units: Iterable[tuple[str, float]], what: str, changed: int, of: int) -> BiasReport:
    values = _by_task(units)
    n = len(values)
    if n < FEWEST:
        return _not_measured(bias, f"needs {FEWEST} traces or tasks that can show it, and has {n}", what)
    p = sign_flip(values, DRAWS, np.random.default_rng(n))
    mean = float(np.mean(values))
    variance = float(np.var(values, ddof=1)) / n
    if variance > 0:
        ends = interval.student(mean, variance, n - 1, 0.95)
        low, high, method = float(ends.low), float(ends.high), "student"
    else:  # nothing moved at all, which does not prove that nothing ever does
        reach = float(interval.wilson_edge(0, n, 0.95).high)
        low, high, method = mean - reach, mean + reach, "wilson"
    effect = Estimate(value=mean, low=max(low, -1.0), high=min(high, 1.0), method=method, n=n, of="traces or tasks")
    found: BiasVerdict = "bias" if p <= ALPHA else "none"
    return BiasReport(bias=bias, found=found, what=what, effect=effect, p=p, changed=changed, of=of)


def _by_task(units: Iterable[tuple[str, float]]) -> list[float]:
    tasks: dict[str, list[float]] = {}
    for task, value in units:
        tasks.setdefault(task, []).append(value)
    if len(tasks) >= FEWEST_TASKS:
        return [float(np.mean(own)) for own in tasks.values()]
    return [value for own in tasks.values() for value in own]


def _not_measured(bias: Bias, why: str, what: str) -> BiasReport:
    return BiasReport(
        bias=bias, found="not measured", what=what, effect=Estimate(value=None, why=why, n=0, of="traces")
    )


_FEATURES = ("length", "formatting", "claims of success")


class _StyleRows(NamedTuple):
    """One row per verdict: trace, task and cell (item and reference) by number; verdict and features less their means
    in the cell."""

    trace: Ints
    task: Ints
    cell: Ints
    y: Floats
    x: Floats


def _style_rows(traces: Sequence[tuple[str, Trace, TraceVerdict, TraceVerdict]]) -> _StyleRows | None:
    rows: list[tuple[int, str, str, float, tuple[float, ...]]] = []
    for number, (task, trace, judged, reference) in enumerate(traces):
        truth = {(v.item, v.step): v.value for v in reference.verdicts if v.value is not None}
        features = _features(trace)
        for v in judged.verdicts:
            known = truth.get((v.item, v.step))
            if v.value is not None and known is not None:
                rows.append((number, task, f"{v.item} {known}", float(v.value), features[v.step]))
    if not rows:
        return None
    task_of, cell = (np.unique(np.array([r[i] for r in rows]), return_inverse=True)[1] for i in (1, 2))
    cells = int(cell.max()) + 1
    table = np.column_stack([np.array([r[3] for r in rows]), np.array([r[4] for r in rows])])
    inside = np.column_stack([column - _means(column, cell, cells) for column in table.T])
    return _StyleRows(np.array([r[0] for r in rows]), task_of, cell, inside[:, 0], inside[:, 1:])


def _grouped(*keys: Ints) -> tuple[Ints, int]:
    """Groups of rows that have the same keys, by number, and how many there are."""
    group = np.unique(np.column_stack(keys), axis=0, return_inverse=True)[1].reshape(-1)
    return group, int(group.max()) + 1


def _features(trace: Trace) -> dict[int, tuple[float, ...]]:
    """Per step: log2 of the characters that the agent wrote for it, whether they are formatted, whether they claim."""
    words = TraceWords(trace)
    found: dict[int, tuple[float, ...]] = {}
    for step in words.steps:
        decided = words.steps[step.decision] if step.decision is not None else step
        said = decided.said
        size = len(said) + len(decided.thought) + len(step.arguments if step.is_call else "")
        claims = CLAIMS_SUCCESS.search(said, 0, MOST_READ) is not None
        found[step.at] = (float(np.log2(1 + size)), float(_FORMAT.search(said) is not None), float(claims))
    return found


def _means(values: Floats, group: Ints, groups: int) -> Floats:
    sums = np.bincount(group, weights=values, minlength=groups)
    means = sums / np.maximum(np.bincount(group, minlength=groups), 1)
    return np.asarray(means[group], dtype=np.float64)


EXACT_UP_TO = 14
"""Up to this number of differences that are not zero, every pattern of signs is counted."""


def sign_flip(values: Numbers, draws: int, rng: np.random.Generator) -> float:
    """The two-sided p-value of Σ values if each value were as likely with the other sign (Fisher 1935).

    Zeros stay zeros. With many values `draws` random patterns are taken, and the observed one counts among them, so
    that the level holds.
    """
    v = floats(values)
    v = v[v != 0]
    if not v.size:
        return 1.0
    seen = abs(float(v.sum())) * (1 - 1e-12)
    if v.size <= EXACT_UP_TO:
        signs = np.array(list(product((1.0, -1.0), repeat=v.size)))
        return float(np.mean(np.abs(signs @ v) >= seen))
    drawn = np.abs(rng.choice((-1.0, 1.0), size=(draws, v.size)) @ v)
    return float((1 + np.sum(drawn >= seen)) / (draws + 1))


def clustered_slope(x: Numbers, y: Numbers, cluster: Numbers) -> tuple[float, float, int]:
    """The slope of y on x through the origin, its variance robust to clusters (Liang and Zeger 1986), and clusters.

    Both must have mean zero in whatever groups they are compared. The variance has the factor G / (G - 1).
    """
    xs, ys, at = floats(x), floats(y), np.asarray(cluster, dtype=np.int64)
    size: Floats = np.array(float(xs @ xs))
    clusters = int(np.unique(at).size)
    if size <= 0 or clusters < 2:
        return np.nan, np.nan, clusters
    slope = float(xs @ ys / size)
    scores = np.bincount(at, weights=xs * (ys - slope * xs))
    return slope, float(clusters / (clusters - 1) * np.sum(scores**2) / size**2), clusters
