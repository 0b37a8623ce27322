"""The model behind the default strategy: a Gaussian process, a logistic model of effects and boxes, averaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .partitions import MOST_CUTS, Partitions, cuts_in_all
from .problem import Floats, Ints, Problem, Tally
from .surface import (
    Belief,
    Features,
    Fit,
    average,
    believe,
    drawn_weights,
    effect_features,
    fit,
    kernel_features,
    one_thread,
    renewed_variances,
)

RANK, LARGE_RANK = 160, 112
LARGE = 20_000
"""Points from which on single precision and fewer features are used."""
SEARCHED = 4096
"""Sampled points that the search of the kernel looks at, at most."""
GROWTH = 1.7
"""The kernel is looked at again when the data has grown by this factor."""
SETTLED = 0.03
"""Steps of a fit end when no logit moves by more: the next one moves it by a thousandth, far less than is known."""
RHOS = (0.05, 0.15, 0.3, 0.5, 0.65, 0.78, 0.87, 0.93, 0.965, 0.983, 0.992, 0.998, 0.9999)
SCALES = (0.3, 0.6, 1.2, 2.4, 4.8, 9.6, 19.2)
OWNS = (0.02, 0.06, 0.2, 0.6, 1.8, 5.0)
NOT_RULED_OUT = 2.0
"""A setting of the kernel whose log evidence is less than this below the best one's is not ruled out (95 %)."""
BASE_VARIANCE = 4.0
EFFECT_BOUNDS = (1e-4, 25.0)
NEGLIGIBLE = 0.001
"""A model of boxes that weighs less is left out."""
BOXES_BEFORE = 0.05
"""The share of the model of boxes before any data: sharp edges all along an axis are the exception."""


class Kernel(NamedTuple):
    """Places in the lists above: a correlation per axis, the variance of the surface, that of points' own effects."""

    rho: tuple[int, ...]
    scale: int
    own: int


class Fitted(NamedTuple):
    """The process or the logistic model, fitted: its features, the variances of points' own effects, where data are."""

    found: Fit
    z: Floats
    own: Floats
    sampled: Ints


class SharedSurface:
    """What is believed of a rate over a grid when neighbours may inform each other."""

    def __init__(self, problem: Problem) -> None:
        """Nothing is known yet; `look` brings data."""
        self.problem = problem
        self.rank = LARGE_RANK if problem.points > LARGE else RANK
        self.kernel = Kernel((6,) * len(problem.axes), 3, 1)
        self.offset = float(np.log(problem.tau / (1 - problem.tau)))
        self._dtype = np.float32 if problem.points > LARGE else np.float64
        self._features: Features | None = None
        self._effects: tuple[Floats, Ints] | None = None
        self._effect_prior = np.zeros(0)
        self._searched_at = 0
        self._fits: tuple[Fitted, Fitted] | None = None
        self._logits = (np.full(problem.points, self.offset), np.full(problem.points, self.offset))
        nothing = Belief(np.full(problem.points, self.offset), np.full(problem.points, 4.0))
        self._boxes = Partitions(problem.levels, problem.axes) if cuts_in_all(problem.axes) <= MOST_CUTS else None
        self.beliefs: tuple[Belief, ...] = (nothing, nothing)
        """What the process and the logistic model believe, and the model of boxes if it weighs anything."""
        self.shares: tuple[float, ...] = (0.5, 0.5)
        """What each of them weighs."""
        self.belief = nothing
        """All as one."""
        self.state: dict[str, Any] = {}
        """What the last look began from: a surface that is given it and shown the same data believes the same."""
        self._counted = Tally.empty(problem.points)

    def look(self, tally: Tally) -> None:
        """Fit the models to all data."""
        sampled = np.flatnonzero(tally.n)
        if not len(sampled):
            return
        n, fails = tally.n[sampled].astype(float), tally.fails[sampled].astype(float)
        self.state = self._now()
        with one_thread():
            self._fit(tally, sampled, n, fails)

    def _now(self) -> dict[str, Any]:
        return {
            "kernel": np.array([*self.kernel.rho, self.kernel.scale, self.kernel.own]),
            "searched_at": np.array(self._searched_at),
            "logits": np.stack(self._logits),
            "effects": self._effect_prior,
            "shares": np.array(self.shares),
            "counted": np.stack(self._counted),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be as before a look whose state this is; without one nothing happens."""
        if not state:
            return
        *rho, scale, own = (int(i) for i in state["kernel"])
        self.kernel, self._features = Kernel(tuple(rho), scale, own), None
        self._searched_at = int(state["searched_at"])
        self._logits = (state["logits"][0], state["logits"][1])
        self.shares = tuple(float(s) for s in state["shares"])
        if len(state["effects"]):
            self._effect_columns()
            self._effect_prior = state["effects"]
        self._counted = Tally(*state["counted"])
        if self._boxes is not None and self._counted.spent:
            self._boxes.look(*self._counted)

    def _fit(self, tally: Tally, sampled: Ints, n: Floats, fails: Floats) -> None:
        if tally.spent >= GROWTH * self._searched_at:
            self._search(sampled, n, fails)
            self._searched_at = tally.spent
        self._fits = (self._process(sampled, n, fails), self._logistic(sampled, n, fails))
        first, second = (believe(f.z, f.found, f.own, sampled, self.offset) for f in self._fits)
        self._logits = (first.mean, second.mean)
        self.beliefs = (first, second)
        if self._boxes is not None:
            self._boxes.look(tally.n, tally.fails)
            if self._boxes.counted_at == tally.spent:  # evidence is of the same data
                self._counted = tally
                boxes = _share(self._boxes.evidence - max(f.found.evidence for f in self._fits))
                self.shares = (0.5, 0.5) if boxes < NEGLIGIBLE else ((1 - boxes) / 2, (1 - boxes) / 2, boxes)
            if len(self.shares) > len(self.beliefs):
                self.beliefs = (first, second, self._boxes.belief())
        self.belief = average(self.beliefs, self.shares)

    def surroundings(self) -> Floats:
        """The logit that the models would give to each point, were it nothing but a place on their surfaces."""
        if self._fits is None:
            return self.belief.mean
        shared = [self.offset + f.z @ f.found.weights.astype(f.z.dtype) for f in self._fits]
        shared += [b.mean for b in self.beliefs[2:]]  # boxes have nothing of a point's own
        return np.asarray(sum(w * s for w, s in zip(self.shares, shared, strict=True)), dtype=float)

    def cautious(self, tally: Tally) -> Belief:
        """A belief for intervals: points may have as much of their own as the data allow, not as much as is likeliest.

        How alike neighbours are is itself uncertain; while few points have been looked at twice, the likeliest answer
        is often that they are more alike than they are.
        """
        sampled = np.flatnonzero(tally.n)
        if self._fits is None or not len(sampled):
            return self.belief
        n, fails = tally.n[sampled].astype(float), tally.fails[sampled].astype(float)
        kept = self.kernel, self._effect_prior
        with one_thread():
            self.kernel = self.kernel._replace(own=self._most_own(sampled, n, fails))
            fits = self._process(sampled, n, fails), self._logistic(sampled, n, fails)
            first, second = (believe(f.z, f.found, f.own, sampled, self.offset) for f in fits)
        self.kernel, self._effect_prior = kept
        return average((first, second), (0.5, 0.5))

    def _most_own(self, sampled: Ints, n: Floats, fails: Floats) -> int:
        """The largest variance of points' own effects that the evidence does not rule out."""
        part = _part(sampled)
        rows, whole = sampled[part], self._whole()
        features = Features(whole.z[rows], whole.prior, whole.left[rows])
        near = [s for s in (self.kernel.scale - 1, self.kernel.scale, self.kernel.scale + 1) if 0 <= s < len(SCALES)]
        found = []
        for own in range(len(OWNS)):
            kernels = [self.kernel._replace(own=own, scale=scale) for scale in near]
            fits = [self._fit_kernel(features, k, n[part], fails[part], self._logits[0][rows]) for k in kernels]
            found.append(max(f.evidence for f in fits))
        return max(self.kernel.own, *(i for i, e in enumerate(found) if e >= max(found) - NOT_RULED_OUT))

    def draws(self, rng: np.random.Generator, count: int, rows: Ints | None = None) -> Floats:
        """Joint draws (count × points) of the failure rates; `rows` chooses points.

        As many are of each model as it weighs: together they have the mean and the variance of the belief.
        """
        if self._fits is None:
            raise ValueError("there is nothing to draw from before the first look")
        rows = np.arange(self.problem.points) if rows is None else rows
        edges = np.rint(count * np.cumsum((0.0, *self.shares))).astype(int)
        counts = np.diff(edges)
        drawn = [self._drawn(fitted, rng, int(c), rows) for fitted, c in zip(self._fits, counts[:2], strict=True)]
        if self._boxes is not None and len(counts) > 2:
            drawn.append(self._boxes.draws(rng, int(counts[2]), rows))
        return np.asarray(1 / (1 + np.exp(-np.concatenate(drawn))))

    def _drawn(self, fitted: Fitted, rng: np.random.Generator, count: int, rows: Ints) -> Floats:
        """Draws (count × rows) of the logits under one of the models."""
        found, z, own, sampled = fitted
        kappa, working = np.zeros(len(own)), np.zeros(len(own))
        common = z @ found.weights.astype(z.dtype)
        kappa[sampled] = own[sampled] / (1 / found.pull + own[sampled])
        working[sampled] = common[sampled] + (found.logit - self.offset - common[sampled]) / kappa[sampled]
        with one_thread():
            weights = drawn_weights(found, rng, count)
            shared = (weights.astype(z.dtype) @ z[rows].T).astype(float)
        noise = rng.standard_normal(shared.shape) * np.sqrt(own[rows] * (1 - kappa[rows]))
        return np.asarray(self.offset + (1 - kappa[rows]) * shared + kappa[rows] * working[rows] + noise)

    def _process(self, sampled: Ints, n: Floats, fails: Floats) -> Fitted:
        features = self._whole()
        prior = with_base(SCALES[self.kernel.scale] * features.prior)
        own = OWNS[self.kernel.own] + SCALES[self.kernel.scale] * features.left
        z = features.z
        found = fit(z[sampled], prior, own[sampled], n, fails, self._logits[0][sampled], self.offset, 3, SETTLED)
        return Fitted(found, z, own, sampled)

    def _logistic(self, sampled: Ints, n: Floats, fails: Floats) -> Fitted:
        z, group = self._effect_columns()
        own = np.full(self.problem.points, OWNS[self.kernel.own])
        prior = with_base(self._effect_prior)
        found = fit(z[sampled], prior, own[sampled], n, fails, self._logits[1][sampled], self.offset, 3, SETTLED)
        groups = np.append(group, group.max() + 1 if len(group) else 0)
        self._effect_prior = renewed_variances(found, prior, groups, *EFFECT_BOUNDS)[:-1]
        return Fitted(found, z, own, sampled)

    def _effect_columns(self) -> tuple[Floats, Ints]:
        if self._effects is None:
            columns, _, group = effect_features(self.problem.levels, self.problem.axes, self._dtype)
            self._effects = (with_ones(columns), group)
            self._effect_prior = np.full(len(group), 0.3)
        return self._effects

    def _whole(self) -> Features:
        if self._features is None:
            rho = [RHOS[i] for i in self.kernel.rho]
            built = kernel_features(self.problem.levels, self.problem.axes, rho, self.rank, self._dtype)
            self._features = built._replace(z=with_ones(built.z))
        return self._features

    def _search(self, sampled: Ints, n: Floats, fails: Floats) -> None:
        """One step up or down per setting of the kernel, by evidence, on the sampled points only."""
        part = _part(sampled)
        sampled, n, fails = sampled[part], n[part], fails[part]
        levels, start = self.problem.levels[sampled], self._logits[0][sampled]
        known: dict[Kernel, float] = {}
        features: dict[tuple[int, ...], Features] = {}

        def worth(kernel: Kernel) -> float:
            nonlocal start
            if kernel not in known:
                if kernel.rho not in features:
                    rho = [RHOS[i] for i in kernel.rho]
                    built = kernel_features(levels, self.problem.axes, rho, self.rank)
                    features[kernel.rho] = built._replace(z=with_ones(built.z))
                found = self._fit_kernel(features[kernel.rho], kernel, n, fails, start)
                start = found.logit  # the next kernel is a neighbour, and so is its fit
                known[kernel] = found.evidence + log_prior(kernel)
            return known[kernel]

        before = self.kernel.rho
        for _ in range(2):
            began = self.kernel
            for near in _axes_of(self.kernel):
                self.kernel = max((self.kernel, *near(self.kernel)), key=worth)
            if self.kernel == began:
                break
        if self.kernel.rho != before:
            self._features = None

    def _fit_kernel(self, features: Features, kernel: Kernel, n: Floats, fails: Floats, start: Floats) -> Fit:
        prior = with_base(SCALES[kernel.scale] * features.prior)
        own = OWNS[kernel.own] + SCALES[kernel.scale] * features.left
        return fit(features.z, prior, own, n, fails, start, self.offset, 4, SETTLED)


def _part(sampled: Ints) -> Ints:
    """Places of the points from which a kernel is judged: evenly over the grid, for a part of it shows enough."""
    if len(sampled) <= SEARCHED:
        return np.arange(len(sampled))
    return np.linspace(0, len(sampled) - 1, SEARCHED).astype(np.int64)


def _share(gap: float) -> float:
    """The share of the model of boxes, from how much larger its log evidence is than that of the best other model."""
    odds = BOXES_BEFORE / (1 - BOXES_BEFORE) * np.exp(np.clip(gap, -50.0, 50.0))
    return float(odds / (1 + odds))


def with_ones(z: Floats) -> Floats:
    """Features with a column of ones for the overall level."""
    return np.hstack([z, np.ones((len(z), 1), dtype=z.dtype)])


def with_base(prior: Floats) -> Floats:
    """Prior variances with that of the overall level."""
    return np.append(prior, BASE_VARIANCE)


def log_prior(kernel: Kernel) -> float:
    """A weak opinion about kernels: neighbours are alike, and a point is mostly what its surroundings make of it."""
    rho = sum(-0.5 * ((i - 7) / 3.0) ** 2 for i in kernel.rho)
    return rho - 0.5 * ((kernel.scale - 3) / 1.5) ** 2 - 0.5 * (kernel.own / 2.0) ** 2


def _axes_of(kernel: Kernel) -> Sequence[_Near]:
    return [*(_Near("rho", d) for d in range(len(kernel.rho))), _Near("scale", 0), _Near("own", 0)]


class _Near(NamedTuple):
    """The neighbours of a kernel along one of its settings."""

    what: str
    axis: int

    def __call__(self, kernel: Kernel) -> list[Kernel]:
        steps = (-1, 1)
        if self.what == "rho":
            moved = [(*kernel.rho[: self.axis], kernel.rho[self.axis] + s, *kernel.rho[self.axis + 1 :]) for s in steps]
            return [kernel._replace(rho=m) for m in moved if 0 <= m[self.axis] < len(RHOS)]
        known = len(SCALES) if self.what == "scale" else len(OWNS)
        value = getattr(kernel, self.what)
        return [kernel._replace(**{self.what: value + s}) for s in steps if 0 <= value + s < known]
