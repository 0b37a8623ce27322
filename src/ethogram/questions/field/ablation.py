"""Ablation: effects of settings of the environment on behaviour, alone and together.

Runs come in conditions, each a set {factor: level}. A main effect is one level against the reference, averaged over the
settings of the other factors; an interaction is how much one effect differs by the level of another factor. Tasks that
every condition has are used, and task by task differences cancel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from ethogram.errors import BadInput, BadUsage
from ethogram.estimate import Estimate
from ethogram.measures.columns import Floats
from ethogram.statistics import interval, multiplicity, spread

from . import features, standardised
from .field import Field
from .rate_contrasts import convergence_contrast, pass_rate_contrast

FactorSettings = Mapping[str, object]
METRICS = ("width", "convergence", "pass_rate", "centre")


class AblationEffect(msgspec.Struct, frozen=True, kw_only=True):
    """One effect on width (a ratio), on convergence (a ratio) and the pass rate that it follows, and on the centre.

    `p` is per metric, `adjusted` the same with Holm over all effects; `centre` is a distance in widths, `dimensions`
    its components in standard deviations.
    """

    name: str
    kind: Literal["main", "interaction"]
    levels: dict[str, str]
    width: Estimate
    convergence: Estimate
    pass_rate: Estimate
    centre: Estimate
    dimensions: dict[str, Estimate]
    p: dict[str, float]
    adjusted: dict[str, float] = {}


class AblationCell(msgspec.Struct, frozen=True, kw_only=True):
    """One condition as it is: its settings, the essay's width, and width, pass rate and convergence by default."""

    settings: dict[str, str]
    K: int
    seed_width: float
    width: Estimate
    pass_rate: Estimate
    convergence: Estimate


class Ablation(msgspec.Struct, frozen=True, kw_only=True):
    """Every condition and every effect that the design can estimate; `notes` name those that it cannot."""

    factors: dict[str, list[str]]
    reference: dict[str, str]
    tasks: int
    cells: tuple[AblationCell, ...]
    effects: tuple[AblationEffect, ...]
    notes: tuple[str, ...] = ()


class _Cell(NamedTuple):
    """What contrasts need of a condition, on the common scale."""

    part: Field
    width: spread.Width
    mean: Floats
    reach: float


class _Contrast(NamedTuple):
    name: str
    kind: Literal["main", "interaction"]
    levels: dict[str, str]
    weights: Floats


def conditions_of(field: Field, settings: Sequence[FactorSettings]) -> list[tuple[dict[str, str], Field]]:
    """A field split by the settings of each of its trajectories."""
    if len(settings) != field.K:
        raise BadInput(f"there are {field.K} trajectories but {len(settings)} settings; give one for each")
    keys = [tuple(sorted((str(k), str(v)) for k, v in s.items())) for s in settings]
    return [
        (dict(key), field.subset(np.array([k == key for k in keys]), f"condition {_named(dict(key))}"))
        for key in dict.fromkeys(keys)
    ]


def ablate(
    conditions: Sequence[tuple[FactorSettings, Field]], *, reference: FactorSettings | None = None, level: float = 0.95
) -> Ablation:
    """Main effects and two-way interactions on width, convergence, pass rate and centre, each with an interval.

    The reference level of a factor is the first that is seen, unless `reference` names it.
    """
    settings = [{str(k): str(v) for k, v in s.items()} for s, _ in conditions]
    factors, base = _factors(settings, reference)
    shared = _shared_tasks([f for _, f in conditions])
    parts, sd, alive = _on_one_scale([f for _, f in conditions], shared)
    covariance, df = _within(parts, sd, alive, shared)
    contrasts, notes = _contrasts(settings, factors, base)
    effects = [_effect(c, parts, covariance, df, alive, level) for c in contrasts]
    return Ablation(
        factors=factors,
        reference=base,
        tasks=len(shared),
        cells=tuple(_cell(s, p, level) for s, p in zip(settings, parts, strict=True)),
        effects=tuple(_adjusted(effects)),
        notes=tuple(notes),
    )


def _factors(
    settings: Sequence[dict[str, str]], reference: FactorSettings | None
) -> tuple[dict[str, list[str]], dict[str, str]]:
    if len(settings) < 2:
        raise BadUsage("an ablation needs two conditions at least")
    names = list(settings[0])
    for s in settings:
        if sorted(s) != sorted(names):
            raise BadInput(
                f"the condition {_named(s)} does not set the same factors as {_named(settings[0])}; set all",
                where=f"the condition {_named(s)}",
            )
    if len({tuple(sorted(s.items())) for s in settings}) != len(settings):
        raise BadInput("two conditions have the same settings; join their attempts first")
    factors = {n: list(dict.fromkeys(s[n] for s in settings)) for n in names}
    factors = {n: levels for n, levels in factors.items() if len(levels) > 1}
    if not factors:
        raise BadInput("no factor has two levels, so there is nothing to compare")
    base = {n: str((reference or {}).get(n, levels[0])) for n, levels in factors.items()}
    for name, levels in factors.items():
        if base[name] not in levels:
            raise BadInput(
                f"the reference {name}={base[name]} is not among the conditions; they have {', '.join(levels)}",
                where=f"the reference {name}",
            )
        factors[name] = [base[name], *(v for v in levels if v != base[name])]
    return factors, base


def _shared_tasks(fields: Sequence[Field]) -> list[str]:
    first = fields[0]
    if any(f.names != first.names for f in fields):
        raise BadUsage("conditions can be compared only with the same dimensions in the same order; measure all alike")
    known = set.intersection(*(set(f.tasks) for f in fields))
    shared = [t for t in first.tasks if t in known]
    if not shared:
        raise BadUsage("no task was run under every condition; run the same tasks under all")
    return shared


def _on_one_scale(fields: Sequence[Field], shared: list[str]) -> tuple[list[_Cell], Floats, Any]:
    """Every condition on the tasks that all have, standardised by the spread within task and condition."""
    place = {t: i for i, t in enumerate(shared)}
    parts, indices, moments = [], [], []
    for field in fields:
        mask = np.array([t in place for t in field.tasks], dtype=bool)[field.task_index]
        part = field if mask.all() else field.subset(mask, "tasks in common")
        index = np.array([place[t] for t in part.tasks], dtype=np.int64)[part.task_index]
        parts.append(part)
        indices.append(index)
        moments.append(spread.cells(part.points, index, len(shared), spread.log_features))
    scale = standardised.scale_from(*moments)
    if not scale.alive.any():
        raise BadInput("no dimension varies within a task and condition; measure something that does, or run more")
    sd, alive = scale.sd, scale.alive
    out = []
    for part, index, found in zip(parts, indices, moments, strict=True):
        squared = spread.squared_distances(part.points, index, found.mean, sd, spread.log_features)
        mean = found.mean[:, alive].mean(axis=0) / sd[alive]
        reach = float(np.sum(1 / found.n)) / len(shared) ** 2
        out.append(_Cell(part, spread.width(squared, index, len(shared)), mean, reach))
    return out, sd, alive


def _within(parts: Sequence[_Cell], sd: Floats, alive: Any, shared: list[str]) -> tuple[Floats, float]:
    """The covariance of standardised features within task and condition, pooled over conditions."""
    total, df = np.zeros((int(alive.sum()),) * 2), 0.0
    for cell in parts:
        x = spread.log_features(cell.part.points[:, alive]) / sd[alive]
        own = float(np.sum(np.maximum(np.bincount(cell.part.task_index) - 1, 0)))
        if own > 0:
            total += spread.pooled_covariance(x, cell.part.task_index, len(cell.part.tasks)) * own
        df += own
    return total / max(df, 1.0), df


def _contrasts(
    settings: Sequence[dict[str, str]], factors: dict[str, list[str]], base: dict[str, str]
) -> tuple[list[_Contrast], list[str]]:
    """Weights of the conditions for every effect, from least squares on sum-coded factors."""
    codes = {n: _sum_codes(levels) for n, levels in factors.items()}
    pairs = list(combinations(factors, 2))

    def row(s: Mapping[str, str], crossed: bool) -> Floats:
        own = [codes[n][s[n]] for n in factors]
        products = [np.outer(codes[a][s[a]], codes[b][s[b]]).ravel() for a, b in pairs] if crossed else []
        return np.concatenate([[1.0], *own, *products])

    notes: list[str] = []
    crossed = bool(pairs)
    matrix = np.stack([row(s, crossed) for s in settings])
    if crossed and np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        notes.append("not every combination of settings was run, so interactions are unknown; main effects assume none")
        crossed, matrix = False, np.stack([row(s, False) for s in settings])
    inverse = np.linalg.pinv(matrix)
    out = []
    for kind, name, levels, target in _targets(factors, base, codes, pairs if crossed else [], matrix.shape[1]):
        weights = target @ inverse
        if not np.allclose(weights @ matrix, target, atol=1e-9):
            notes.append(f"{name} cannot be separated from other settings in these conditions")
            continue
        out.append(_Contrast(name, kind, levels, weights))
    return out, notes


def _targets(
    factors: dict[str, list[str]], base: dict[str, str], codes: dict[str, dict[str, Floats]],
    pairs: list[tuple[str, str]], size: int,
) -> list[tuple[Literal["main", "interaction"], str, dict[str, str], Floats]]:  # fmt: skip
    """What each effect is in terms of the coefficients."""
    places, at = {}, 1
    for name, levels in factors.items():
        places[name] = at
        at += len(levels) - 1
    out: list[tuple[Literal["main", "interaction"], str, dict[str, str], Floats]] = []
    steps = {n: {v: codes[n][v] - codes[n][base[n]] for v in levels[1:]} for n, levels in factors.items()}
    for name in factors:
        for value, step in steps[name].items():
            target = np.zeros(size)
            target[places[name] : places[name] + step.size] = step
            out.append(("main", f"{name}={value}", {name: value}, target))
    for a, b in pairs:
        width = (len(factors[a]) - 1) * (len(factors[b]) - 1)
        for first, one in steps[a].items():
            for second, two in steps[b].items():
                target = np.zeros(size)
                target[at : at + width] = np.outer(one, two).ravel()
                out.append(("interaction", f"{a}={first} × {b}={second}", {a: first, b: second}, target))
        at += width
    return out


def _sum_codes(levels: Sequence[str]) -> dict[str, Floats]:
    """Sum coding: the last level is minus all others, so that a coefficient is a deviation from the mean."""
    size = len(levels) - 1
    rows = [*np.eye(size), -np.ones(size)]
    return dict(zip(levels, rows, strict=True))


def _effect(
    wanted: _Contrast, parts: Sequence[_Cell], covariance: Floats, df: float, alive: Any, level: float
) -> AblationEffect:
    used = [(w, p) for w, p in zip(wanted.weights, parts, strict=True) if abs(w) > 1e-12]
    count = sum(p.part.K for _, p in used)
    p: dict[str, float] = {}
    width, p_width = _width_effect(used, level, count)
    fields = [(w, p.part) for w, p in used]
    passes, p_pass = pass_rate_contrast(fields, level, count)
    converged, p_converged = convergence_contrast(fields, level, count)
    centre, dimensions, p_centre = _centre_effect(used, covariance, df, alive, level, count)
    for metric, value in zip(METRICS, (p_width, p_converged, p_pass, p_centre), strict=True):
        if value is not None:
            p[metric] = value
    return AblationEffect(
        name=wanted.name, kind=wanted.kind, levels=wanted.levels, width=width, convergence=converged,
        pass_rate=passes, centre=centre, dimensions=dimensions, p=p,
    )  # fmt: skip


def _width_effect(used: Sequence[tuple[float, _Cell]], level: float, count: int) -> tuple[Estimate, float | None]:
    common: dict[str, Any] = {
        "level": level, "n": count, "of": "trajectories",
        "method": "ratio of widths within tasks on a common scale; jackknife-t of its logarithm",
    }  # fmt: skip
    widths = [p.width for _, p in used]
    if any(not w.value > 0 for w in widths):
        return Estimate(value=None, why="some condition has no spread within tasks to compare", **common), None
    value = float(np.exp(sum(w * np.log(p.width.value) for w, p in used)))
    if any(not np.isfinite(w.log_variance) for w in widths):
        why = "some condition has too few attempts per task; it needs 3 of every task, or 2 of each of 5 tasks"
        return Estimate(value=value, why=why, **common), None
    if any(w.log_variance > standardised.MOST_LOG_VARIANCE for w in widths):
        return Estimate(value=value, why=f"in some condition {standardised.ONE_RUN}", **common), None
    variances = [w * w * p.width.log_variance for w, p in used]
    df = spread.welch_df(variances, [p.width.df for _, p in used])
    low, high = spread.log_interval(value, sum(variances), df, level)
    return Estimate(value=value, low=float(low), high=float(high), **common), spread.log_test(value, sum(variances), df)


def _centre_effect(
    used: Sequence[tuple[float, _Cell]], covariance: Floats, df: float, alive: Any, level: float, count: int
) -> tuple[Estimate, dict[str, Estimate], float | None]:
    names = used[0][1].part.names
    vector = np.sum([w * p.mean for w, p in used], axis=0)
    reach = sum(w * w * p.reach for w, p in used)
    common: dict[str, Any] = {"level": level, "n": count, "of": "trajectories"}
    distance = "distance of centres averaged over tasks, unbiased square, in widths; noncentral F"
    each = "log feature over its sd within tasks; t, sd pooled within task and condition"
    unit = float(alive.sum())
    square = float(vector @ vector - np.trace(covariance) * reach)
    value = float(np.sqrt(max(square, 0.0) / unit))
    if df <= 0:
        why = "with one attempt per task and condition the spread is unknown; run each at least twice"
        plain = {n: Estimate(value=None, why=why, method=each, **common) for n in names}
        return Estimate(value=None, why=why, method=distance, **common), plain, None
    found = spread.Shift(vector, covariance * reach, df, square, 0)
    ends = [float(np.sqrt(max(float(e), 0.0) / unit)) for e in spread.norm_interval(found, level)]
    each_one = features.Contrast(vector, np.diag(covariance) * reach, np.full(vector.size, df), 0)
    low, high = interval.student(each_one.value, each_one.variance, each_one.df, level)
    p = float(multiplicity.holm(features.contrast_test(each_one)).min())
    place = np.cumsum(alive) - 1
    dimensions = {
        name: Estimate(
            value=float(vector[place[j]]), low=float(low[place[j]]), high=float(high[place[j]]), method=each, **common
        )
        if alive[j]
        else Estimate(value=None, why="this dimension never varies within a task", method=each, **common)
        for j, name in enumerate(names)
    }
    value = min(max(value, ends[0]), ends[1])
    return Estimate(value=value, low=ends[0], high=ends[1], method=distance, **common), dimensions, p


def _cell(settings: dict[str, str], cell: _Cell, level: float) -> AblationCell:
    kind = "log features over their sd within task and condition, n - 1, mean over tasks"
    return AblationCell(
        settings=settings,
        K=cell.part.K,
        seed_width=cell.part.metrics().width(),
        width=standardised.width_as_estimate(cell.width, level, kind),
        pass_rate=standardised.pass_rate(cell.part, level),
        convergence=standardised.convergence(cell.part, level),
    )


def _adjusted(effects: Sequence[AblationEffect]) -> list[AblationEffect]:
    """Holm over all effects, metric by metric."""
    found: list[dict[str, float]] = [{} for _ in effects]
    for metric in METRICS:
        known = [i for i, e in enumerate(effects) if metric in e.p]
        if known:
            for i, value in zip(known, multiplicity.holm([effects[i].p[metric] for i in known]), strict=True):
                found[i][metric] = float(value)
    return [msgspec.structs.replace(e, adjusted=a) for e, a in zip(effects, found, strict=True)]


def _named(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{k}={v}" for k, v in settings.items()) or "without settings"
