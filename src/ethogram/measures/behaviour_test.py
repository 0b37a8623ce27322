"""Tests whether the behaviour of two versions differs: K attempts against K attempts at the same tasks.

Log counts of signatures and log length show most changes, so they are tested, and distances too. Three questions share
the level by Holm: do counts move the same way in all tasks, do they move in each task its own way, are attempts of the
two sides further apart than attempts of one side. The answer is `different` or `undecided`: a test that finds no
difference does not show that two agents are the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ethogram.estimate import Estimate
from ethogram.statistics import interval, multiplicity, passk
from ethogram.statistics.distance import Alphabet, edited
from ethogram.statistics.twosample import TaskSample, TwoSample, compare_samples

from .divergence import Floats, repeat_distances, upper
from .sequence import Reading

DifferenceVerdict = Literal["different", "undecided"]
LENGTH, OTHER = "(length)", "(other steps)"
QUESTIONS = {
    "same_way": "step counts shift in the same direction in all tasks",
    "own_way": "step counts shift, differently per task",
    "distance": "distance between runs exceeds distance within runs",
}
"""What each p-value of `Tests` is about, in words."""
MOST_FEATURES = 50
MOST_PAIRS = 4000
DRAWS = 9999
LEVEL, ALPHA, SHARE = 0.95, 0.05, 0.10
"""The level of intervals, of the verdict, and the share of false finds among the tasks that are named."""
FEW_TASKS = 3


class StepDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One signature: mean count per run on each side, the shift of its log count in sd, its p-value adjusted for all
    signatures, and how often per run an alignment edits it, between the sides and within them."""

    signature: str
    base: float
    candidate: float
    z: float
    p_value: float
    edited_between: float | None = None
    edited_within: float | None = None


class TaskDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One task: distances between and within the sides, p-values by counts and by distance, and q over tasks."""

    base_runs: int
    candidate_runs: int
    between: float
    within_base: float | None
    within_candidate: float | None
    p_value: float
    q_value: float
    distance_p_value: float
    different: bool


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution of t*/T over pairs; `never` pairs do not differ anywhere and are not in the quantiles."""

    pairs: int
    never: int
    q10: float | None = None
    median: float | None = None
    q90: float | None = None


class Tests(msgspec.Struct, frozen=True, kw_only=True):
    """P-values of the three questions, and the least of them after Holm."""

    same_way: float
    own_way: float
    distance: float
    adjusted: float

    def rows(self) -> list[tuple[str, float]]:
        """Each question in words, with its p-value."""
        return [(words, getattr(self, name)) for name, words in QUESTIONS.items()]


class KbyK(msgspec.Struct, frozen=True, kw_only=True):
    """Two samples of attempts at the same tasks, compared."""

    verdict: DifferenceVerdict
    p_value: float
    evidence: str
    tests: Tests
    between: Estimate
    within_base: Estimate
    within_candidate: Estimate
    effect: Estimate
    length_ratio: Estimate
    t_star_between: Spread
    t_star_within: Spread
    steps: list[StepDifference]
    tasks: dict[str, TaskDifference]
    draws: int
    seed: int

    @property
    def mostly(self) -> str | None:
        """The step that carries most of the difference: the steps are ordered by it."""
        return next((s.signature for s in self.steps if s.signature not in (LENGTH, OTHER)), None)


class _Task(NamedTuple):
    name: str
    runs: list[Reading]
    second: npt.NDArray[np.bool_]
    d: Floats
    t_star: Floats


def k_by_k(
    base: Mapping[str, Sequence[Reading]],
    candidate: Mapping[str, Sequence[Reading]],
    *,
    seed: int = 0,
    draws: int = DRAWS,
    by_lane: bool = True,
) -> KbyK | None:
    """Compare two sides task by task; None where no task has runs with recorded steps on both."""
    names = [
        name
        for name in base
        if base[name] and candidate.get(name) and any(len(r) for r in (*base[name], *candidate[name]))
    ]
    if not names:
        return None
    letters = Alphabet()
    tasks = [_task(name, base[name], candidate[name], letters, by_lane) for name in names]
    columns = _columns(tasks)
    rng = np.random.default_rng(seed)
    samples = [TaskSample(t.d, _features(t.runs, columns), t.second) for t in tasks]
    found = compare_samples(samples, draws, rng)
    holm = multiplicity.holm([found.same_way_p, found.own_way_p, found.energy_p])
    p = float(holm.min())
    q = multiplicity.benjamini_hochberg(found.task_features_p)
    rows = {t.name: _task_row(t, found, q, i) for i, t in enumerate(tasks)}
    return KbyK(
        verdict="different" if p <= ALPHA else "undecided",
        p_value=p,
        evidence=_evidence(tasks, found, p, columns),
        tests=Tests(same_way=found.same_way_p, own_way=found.own_way_p, distance=found.energy_p, adjusted=p),
        between=_distance(rows, "between"),
        within_base=_distance(rows, "within_base"),
        within_candidate=_distance(rows, "within_candidate"),
        effect=_mean([_excess(r) for r in rows.values()]),
        length_ratio=_length_ratio(tasks),
        t_star_between=spread_of([t.t_star[~t.second][:, t.second].ravel() for t in tasks]),
        t_star_within=spread_of([_inside(t.t_star, side) for t in tasks for side in (~t.second, t.second)]),
        steps=_steps(tasks, columns, found, rng),
        tasks=rows,
        draws=draws,
        seed=seed,
    )


def _task(name: str, base: Sequence[Reading], candidate: Sequence[Reading], letters: Alphabet, by_lane: bool) -> _Task:
    runs = [*base, *candidate]
    d, t_star = repeat_distances(runs, letters, by_lane=by_lane)
    return _Task(name, runs, np.arange(len(runs)) >= len(base), d, t_star)


def _columns(tasks: Sequence[_Task]) -> list[str]:
    """The signatures that get a column of their own: those that occur most; the rest are counted together."""
    seen: Counter[str] = Counter()
    for task in tasks:
        for run in task.runs:
            seen.update(run.signatures)
    named = [s for s, _ in sorted(seen.items(), key=lambda kv: (-kv[1], kv[0]))]
    if len(named) <= MOST_FEATURES:
        return [LENGTH, *named]
    return [LENGTH, *named[:MOST_FEATURES], OTHER]


def _counts(runs: Sequence[Reading], columns: Sequence[str]) -> Floats:
    place = {name: i for i, name in enumerate(columns)}
    last = place.get(OTHER)
    found = np.zeros((len(runs), len(columns)))
    for row, run in zip(found, runs, strict=True):
        row[0] = len(run)
        for name, n in Counter(run.signatures).items():
            at = place.get(name, last)
            if at is not None:
                row[at] += n
    return found


def _features(runs: Sequence[Reading], columns: Sequence[str]) -> Floats:
    return np.log1p(_counts(runs, columns))


def _inside(matrix: Floats, side: npt.NDArray[np.bool_]) -> Floats:
    return np.array(list(upper(matrix[side][:, side])))


def _task_row(task: _Task, found: TwoSample, q: Floats, i: int) -> TaskDifference:
    one, two = _inside(task.d, ~task.second), _inside(task.d, task.second)
    return TaskDifference(
        base_runs=int(np.sum(~task.second)),
        candidate_runs=int(np.sum(task.second)),
        between=float(task.d[~task.second][:, task.second].mean()),
        within_base=float(one.mean()) if one.size else None,
        within_candidate=float(two.mean()) if two.size else None,
        p_value=float(found.task_features_p[i]),
        q_value=float(q[i]),
        distance_p_value=float(found.task_energy_p[i]),
        different=bool(q[i] <= SHARE),
    )


def _excess(row: TaskDifference) -> float | None:
    """How much further runs of two sides are apart than runs of one; its mean is 0 if the sides are alike."""
    if row.within_base is None or row.within_candidate is None:
        return None
    return row.between - (row.within_base + row.within_candidate) / 2


def _mean(values: Sequence[float | None]) -> Estimate:
    known = np.array([v for v in values if v is not None])
    missing = {"one attempt per side": len(values) - known.size} if known.size < len(values) else {}
    if known.size == 0:
        return Estimate(value=None, of="tasks", missing=missing, why="no task has two attempts on the sides it needs")
    value = float(known.mean())
    if known.size < FEW_TASKS:
        why = f"{known.size} task{'s are' if known.size != 1 else ' is'} too few to say how tasks vary"
        return Estimate(value=value, n=int(known.size), of="tasks", missing=missing, why=why)
    low, high = interval.student(value, known.var(ddof=1) / known.size, known.size - 1, LEVEL)
    return Estimate(
        value=value,
        low=float(low),
        high=float(high),
        level=LEVEL,
        method="student-clustered",
        n=int(known.size),
        of="tasks",
        missing=missing,
    )


def _distance(rows: Mapping[str, TaskDifference], side: str) -> Estimate:
    """A mean distance over tasks; it lies between 0 and 1, and so does its interval."""
    found = _mean([getattr(r, side) for r in rows.values()])
    if found.low is None:
        return found
    known = [(getattr(r, side), min(r.base_runs, r.candidate_runs)) for r in rows.values()]
    values, runs = zip(*[(v, n) for v, n in known if v is not None], strict=True)
    curve = passk.population(np.array(values)[:, None], runs, [1], LEVEL)
    ends = {"low": float(curve.low[0]), "high": float(curve.high[0]), "method": "wilson-neff"}
    return msgspec.structs.replace(found, **ends)


def _length_ratio(tasks: Sequence[_Task]) -> Estimate:
    """Steps of the candidate over steps of the base: the geometric mean over tasks, which is what is tested."""
    logs = []
    for task in tasks:
        lengths = np.log1p([len(r) for r in task.runs])
        logs.append(float(lengths[task.second].mean() - lengths[~task.second].mean()))
    found = _mean(logs)
    if found.value is None:
        return found
    bent = {n: math.exp(v) for n in ("value", "low", "high") if (v := getattr(found, n)) is not None}
    return msgspec.structs.replace(found, **bent)


def spread_of(parts: Sequence[Floats]) -> Spread:
    """The distribution of t*/T over pairs; NaN stands for a pair that never differs."""
    values = np.concatenate([np.ravel(p) for p in parts]) if parts else np.zeros(0)
    known = values[~np.isnan(values)]
    if known.size == 0:
        return Spread(pairs=int(values.size), never=int(values.size))
    q10, median, q90 = (float(x) for x in np.quantile(known, [0.1, 0.5, 0.9]))
    return Spread(pairs=int(values.size), never=int(values.size - known.size), q10=q10, median=median, q90=q90)


def _steps(
    tasks: Sequence[_Task], columns: Sequence[str], found: TwoSample, rng: np.random.Generator
) -> list[StepDifference]:
    """Which steps carry the difference, the strongest first."""
    runs = [r for t in tasks for r in t.runs]
    second = np.concatenate([t.second for t in tasks])
    counts = _counts(runs, columns)
    across, inside = _edited(tasks, rng)
    rows = []
    for i, name in enumerate(columns):
        rows.append(
            StepDifference(
                signature=name,
                base=float(counts[~second, i].mean()),
                candidate=float(counts[second, i].mean()),
                z=float(found.same_way[i]),
                p_value=float(found.feature_p[i]),
                edited_between=None if across is None or name in (LENGTH, OTHER) else across.get(name, 0.0),
                edited_within=None if inside is None or name in (LENGTH, OTHER) else inside.get(name, 0.0),
            )
        )
    return sorted(rows, key=lambda r: (-abs(r.z), r.signature))


Pairs = list[tuple[int, int, int]]


def _edited(tasks: Sequence[_Task], rng: np.random.Generator) -> tuple[dict[str, float] | None, ...]:
    """How often per pair each signature is edited, between the sides and within one."""
    letters = Alphabet()
    words = [[letters.word(_lane_after_lane(r)) for r in t.runs] for t in tasks]
    across: Pairs = []
    inside: Pairs = []
    for t, task in enumerate(tasks):
        for i in range(len(task.runs)):
            for j in range(i + 1, len(task.runs)):
                (across if task.second[i] != task.second[j] else inside).append((t, i, j))
    names = {letter: str(item) for letter, item in letters.items_by_letter().items()}
    return tuple(_rates(_some(pairs, rng), words, names) for pairs in (across, inside))


def _lane_after_lane(run: Reading) -> Sequence[str]:
    """Signatures lane by lane, so that the scheduler's order makes no edits."""
    if len(run.lane_names) <= 1:
        return run.signatures
    return [run.signatures[i] for _, places in sorted(run.places_by_lane.items()) for i in places]


def _some(pairs: Pairs, rng: np.random.Generator) -> Pairs:
    """All pairs, or a sample of very many: rates per pair need no more."""
    if len(pairs) <= MOST_PAIRS:
        return pairs
    return [pairs[k] for k in np.sort(rng.choice(len(pairs), MOST_PAIRS, replace=False))]


def _rates(pairs: Pairs, words: Sequence[Sequence[str]], names: Mapping[str, str]) -> dict[str, float] | None:
    touched: Counter[str] = Counter()
    for t, i, j in pairs:
        touched.update(edited(words[t][i], words[t][j]))
    return {names[letter]: n / len(pairs) for letter, n in touched.items()} if pairs else None


def least_p(sizes: Sequence[tuple[int, int]]) -> float:
    """The smallest p-value that dealing can give: one over the number of ways, two where the sides can be swapped."""
    ways = sum(math.log(math.comb(a + b, a)) for a, b in sizes)
    swapped = math.log(2) if all(a == b for a, b in sizes) else 0.0
    return math.exp(min(0.0, swapped - ways))


def _evidence(tasks: Sequence[_Task], found: TwoSample, p: float, columns: Sequence[str]) -> str:
    sizes = [(int(np.sum(~t.second)), int(np.sum(t.second))) for t in tasks]
    least = 3 * least_p(sizes)
    said = {
        QUESTIONS["same_way"]: found.same_way_p,
        QUESTIONS["own_way"]: found.own_way_p,
        QUESTIONS["distance"]: found.energy_p,
    }
    if p <= ALPHA:
        shown = [f"{what} (p = {v:.2g})" for what, v in said.items() if v <= ALPHA]
        named = [i for i, name in enumerate(columns) if name not in (LENGTH, OTHER)]
        strongest = max(named, key=lambda i: abs(found.same_way[i]), default=0)
        return f"mostly in {columns[strongest]}; {'; '.join(shown)}"
    if least > ALPHA:
        return f"too few attempts: the smallest p-value that they can give is {min(least, 1.0):.2g}"
    return (
        f"no difference was found at the {ALPHA:g} level (adjusted p = {p:.2g}); "
        "this does not show that the runs are the same"
    )
