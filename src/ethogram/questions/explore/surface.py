"""A rate over a grid of settings, with strength shared between neighbours: logistic models under Gaussian priors.

Both models are logit p = Z w + u: features Z with a prior on their weights, and an effect u of each point's own, so
that a point's own data can always overrule its neighbours. They differ only in their features: a Gaussian process
whose kernel is a product over the axes (Saatçi 2011), cut to its leading features, or main effects and two-way
interactions with one variance per effect (MacKay 1992). Fits are Laplace's (Breslow & Clayton 1993), on one thread: a
BLAS that wakes every core for small matrices spends its time waiting. Only OpenBLAS, which the wheels of numpy and
scipy carry, needs to be told.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np

from ethogram.statistics._numeric import Floats, Ints, floats

SETTLED = 0.003
"""Newton's steps end when no logit moves by more; the next one would move by about the square of it."""
BLOCK = 32
ROWS = 4096
REACH = 12.0
"""Logits beyond this are certainty; nothing is lost by stopping there."""


class Axis(NamedTuple):
    """One parameter of a grid: how many values, and whether their order means anything."""

    size: int
    ordered: bool


class Features(NamedTuple):
    """Features of points (n × r), the prior variance of their weights, and what variance the features leave out."""

    z: Floats
    prior: Floats
    left: Floats


class Fit(NamedTuple):
    """Laplace's posterior: weights, the factor of their precision, logits of the sampled points, log evidence."""

    weights: Floats
    factor: Floats
    logit: Floats
    pull: Floats
    evidence: float


class Belief(NamedTuple):
    """Mean and variance of the logit at every point."""

    mean: Floats
    variance: Floats


def kernel_axes(axes: Sequence[Axis], rho: Sequence[float]) -> list[tuple[Floats, Floats]]:
    """Eigenvalues and vectors of each axis: correlation rho^(distance²) along an order, rho between categories.

    Distances are in steps of a four-level axis, so that finer axes do not look rougher.
    """
    found = []
    for axis, r in zip(axes, rho, strict=True):
        at = np.arange(axis.size)
        gap = np.abs(at[:, None] - at).astype(float)
        corr = r ** ((gap * 3 / max(axis.size - 1, 1)) ** 2) if axis.ordered else np.where(gap > 0, r, 1.0)
        values, vectors = np.linalg.eigh(corr)
        found.append((np.maximum(values[::-1], 0.0), np.ascontiguousarray(vectors[:, ::-1])))
    return found


def kernel_features(
    levels: Ints, axes: Sequence[Axis], rho: Sequence[float], rank: int, dtype: Any = float
) -> Features:
    """The leading features of a product kernel of unit variance, with what they leave out at each point."""
    parts = kernel_axes(axes, rho)
    spectrum = np.ones(1)
    for values, _ in parts:
        spectrum = np.multiply.outer(spectrum, values).ravel()
    keep = min(rank, spectrum.size)
    # a stable order: equal eigenvalues by their place, so that every machine keeps the same ones
    top = np.argsort(-np.round(spectrum, 12), kind="stable")[:keep]
    places = np.unravel_index(top, [a.size for a in axes])
    z = np.ones((len(levels), keep), dtype=dtype)
    for d, (_, vectors) in enumerate(parts):
        z *= vectors[:, places[d]].astype(dtype)[levels[:, d]]
    prior = np.maximum(spectrum[top], 1e-10)
    left = np.maximum(1.0 - np.einsum("ij,ij,j->i", z, z, prior.astype(dtype)), 0.0)
    return Features(z, prior, floats(left))


def contrasts(axis: Axis, most: int = 3) -> Floats:
    """Orthogonal contrasts of an axis, each of unit variance: polynomials along an order, else differences."""
    if axis.size < 2:
        return np.zeros((axis.size, 0))
    if axis.ordered:
        x = np.linspace(-1, 1, axis.size)
        basis = np.vander(x, min(most, axis.size - 1) + 1, increasing=True)
    else:
        basis = np.hstack([np.ones((axis.size, 1)), np.eye(axis.size)[:, 1:]])
    q, r = np.linalg.qr(basis)
    return floats((q * np.sign(np.diag(r)))[:, 1:] * np.sqrt(axis.size))


def effect_features(
    levels: Ints, axes: Sequence[Axis], dtype: Any = float
) -> tuple[Floats, list[tuple[int, ...]], Ints]:
    """Main effects and two-way interactions: columns, the axes of each effect, and the effect of each column."""
    mains = [contrasts(axis).astype(dtype)[levels[:, d]] for d, axis in enumerate(axes)]
    columns: list[Floats] = []
    effects: list[tuple[int, ...]] = []
    group: list[int] = []
    for effect in (*((d,) for d in range(len(axes))), *combinations(range(len(axes)), 2)):
        if len(effect) == 1:
            block = mains[effect[0]]
        else:
            first, second = (mains[d] for d in effect)
            block = (first[:, :, None] * second[:, None, :]).reshape(len(levels), -1)
        if block.shape[1]:
            group += [len(effects)] * block.shape[1]
            effects.append(effect)
            columns.append(block)
    whole = np.hstack(columns) if columns else np.zeros((len(levels), 0), dtype=dtype)
    return whole, effects, np.asarray(group, dtype=np.int64)


def fit(
    z: Floats,
    prior: Floats,
    own: Floats,
    n: Floats,
    fails: Floats,
    start: Floats,
    offset: float,
    steps: int,
    settled: float = SETTLED,
) -> Fit:
    """Laplace's posterior of logit p = offset + Z w + u from `fails` of `n` at sampled points (rows of `z`).

    `own` is the variance of each point's own effect u; `start` the logits to begin from.
    """
    logit = start
    scaled = np.empty_like(z)  # one for all steps: fresh memory costs more than the product that fills it
    for step in range(steps):
        p = 1 / (1 + np.exp(-logit))
        pull = np.maximum(n * p * (1 - p), 1e-9)
        working = logit - offset + (fails - n * p) / pull
        omega = 1 / (1 / pull + own)
        np.multiply(z, np.sqrt(omega).astype(z.dtype)[:, None], out=scaled)
        precision = (scaled.T @ scaled).astype(float)
        np.einsum("ii->i", precision)[:] += 1 / prior  # the diagonal, as a view
        weights = np.linalg.solve(precision, floats(z.T @ (omega * working).astype(z.dtype)))
        common = floats(z @ weights.astype(z.dtype))
        new = offset + common + own * omega * (working - common)
        new = np.clip(new, logit - 3.0, logit + 3.0) if step < steps - 1 else new
        moved, logit = float(np.max(np.abs(new - logit), initial=0.0)), np.clip(new, -REACH, REACH)
        if moved < settled:
            break
    factor = np.linalg.cholesky(precision)
    effect = logit - offset - common
    evidence = float(
        np.sum(fails * logit - n * np.logaddexp(0, logit))
        - 0.5 * np.sum(weights**2 / prior)
        - 0.5 * np.sum(effect**2 / own)
        - np.sum(np.log(np.diag(factor)))
        - 0.5 * np.sum(np.log(prior))
        - 0.5 * np.sum(np.log1p(pull * own))
    )
    return Fit(weights, factor, logit, pull, evidence)


def spread(z: Floats, factor: Floats) -> Floats:
    """z' A^-1 z for every row of z, where A = L L' and L is `factor`: the variance that uncertain weights leave.

    Rows are solved against the triangle a block of columns and a few thousand rows at a time, so that nearly all of
    the work is in products of matrices that stay in the cache.
    """
    factor = factor.astype(z.dtype)
    edges = [*range(0, len(factor), BLOCK), len(factor)]
    blocks = [(i, j, np.linalg.inv(factor[i:j, i:j]).T) for i, j in pairwise(edges)]
    found = np.empty(len(z))
    for row in range(0, len(z), ROWS):
        x = z[row : row + ROWS].copy()
        for i, j, inverse in blocks:
            x[:, i:j] = (x[:, i:j] - x[:, :i] @ factor[i:j, :i].T) @ inverse
        found[row : row + ROWS] = np.einsum("ij,ij->i", x, x)
    return found


def believe(z: Floats, found: Fit, own: Floats, sampled: Ints, offset: float) -> Belief:
    """Mean and variance of the logit at every point (rows of `z`), sampled or not."""
    mean = offset + floats(z @ found.weights.astype(z.dtype))
    shared = spread(z, found.factor)
    variance = shared + own
    kappa = own[sampled] / (1 / found.pull + own[sampled])
    mean[sampled] = found.logit
    variance[sampled] = (1 - kappa) ** 2 * shared[sampled] + own[sampled] * (1 - kappa)
    return Belief(mean, np.maximum(variance, 1e-8))


def drawn_weights(found: Fit, rng: np.random.Generator, count: int) -> Floats:
    """Draws (count × r) of the weights."""
    noise = rng.standard_normal((len(found.weights), count))
    return floats(found.weights + np.linalg.solve(found.factor.T, noise).T)


def renewed_variances(found: Fit, prior: Floats, group: Ints, least: float, most: float) -> Floats:
    """One step of MacKay's update: the variance of each effect from how far the data moved its weights."""
    kept = spread(np.eye(len(prior)), found.factor)
    squares = np.bincount(group, found.weights**2 + kept)
    return floats(np.clip((squares / np.bincount(group))[group], least, most))


def average(beliefs: Sequence[Belief], shares: Sequence[float]) -> Belief:
    """Opinions as one: their mean, and a variance that grows with their disagreement. Shares sum to one."""
    mean = floats(sum(share * b.mean for share, b in zip(shares, beliefs, strict=True)))
    spread = (share * (b.variance + (b.mean - mean) ** 2) for share, b in zip(shares, beliefs, strict=True))
    return Belief(mean, floats(sum(spread)))


PREFIXES = ("scipy_openblas", "openblas")


SUFFIXES = ("64_", "")


Control = tuple[Callable[[], int], Callable[[int], None]]


@cache
def _controls() -> tuple[Control, ...]:
    """How to read and set the number of threads of each BLAS that is loaded; none if there is no OpenBLAS."""
    found = []
    for name in ("numpy.linalg._umath_linalg", "scipy.linalg._fblas"):
        with suppress(ImportError, OSError, TypeError):
            library = ctypes.CDLL(import_module(name).__file__ or "")
            for prefix, suffix in ((p, s) for p in PREFIXES for s in SUFFIXES):
                with suppress(AttributeError):
                    found.append(
                        (
                            getattr(library, f"{prefix}_get_num_threads{suffix}"),
                            getattr(library, f"{prefix}_set_num_threads{suffix}"),
                        )
                    )
    return tuple(found)


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra on one thread within this block."""
    before = [read() for read, _ in _controls()]
    for _, write in _controls():
        write(1)
    try:
        yield
    finally:
        for (_, write), count in zip(_controls(), before, strict=True):
            write(count)


def level_means(rates: Floats, cells: Ints, count: int) -> Floats:
    """Mean rate of each cell, per draw: `rates` (draws × points), `cells` says in which cell a point lies.

    An empty cell has the mean of all points: it says nothing.
    """
    sizes = np.bincount(cells, minlength=count)
    order = np.argsort(cells, kind="stable")
    edges = np.concatenate([[0], np.cumsum(sizes)])
    sums = np.add.reduceat(np.hstack([rates[:, order], np.zeros((len(rates), 1))]), edges[:-1], axis=1)
    means = np.where(sizes > 0, sums / np.maximum(sizes, 1), rates.mean(axis=1, keepdims=True))
    return floats(means)


def shares(rates: Floats, levels: Ints, sizes: Sequence[int], effect: Sequence[int]) -> Floats:
    """The share of the variance over the grid that an effect alone explains, per draw (Sobol 1993).

    One axis: the variance of its level means. Two axes: that of their cell means, less what each explains alone.
    """
    total = np.maximum(rates.var(axis=1), 1e-12)
    if len(effect) == 1:
        return floats(_between(rates, levels[:, effect[0]], sizes[effect[0]]) / total)
    first, second = effect
    cells = levels[:, first] * sizes[second] + levels[:, second]
    both = _between(rates, cells, sizes[first] * sizes[second])
    alone = sum(_between(rates, levels[:, d], sizes[d]) for d in (first, second))
    return floats(np.maximum(both - alone, 0.0) / total)


def _between(rates: Floats, cells: Ints, count: int) -> Floats:
    weights = np.bincount(cells, minlength=count) / len(cells)
    means = level_means(rates, cells, count)
    return floats((means**2 @ weights) - (means @ weights) ** 2)
