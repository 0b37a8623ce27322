"""A share of attempts that come in clusters of unequal size (tasks), such as failed attempts that show an event."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ethogram.estimate import Estimate

from ._numeric import Numbers, floats, normal_quantile, student_quantile
from .clustered import DIFFERING
from .interval import Interval, effective_n, wilson_edge


def clustered_share(hits: Numbers, of: Numbers, level: float) -> Interval:
    """The interval of Σ hits / Σ of over clusters: Wilson with the effective n of a ratio (Cochran 1977, Kish 1965).

    What the share varies by between clusters sets the effective n, with Student's quantile for the few clusters behind
    it. Where few clusters differ from the rest nobody knows how alike attempts of a cluster are: the effective n is
    then capped as in `clustered`, down to the number of clusters. One cluster stands for itself, and its attempts
    count.
    """
    x, n = floats(hits), floats(of)
    x, n = x[n > 0], n[n > 0]
    total, clusters = float(n.sum()), n.size
    if clusters <= 1:
        return wilson_edge(float(x.sum()), total, level)
    share = float(x.sum()) / total
    variance = clusters / (clusters - 1) * float(np.sum((x - share * n) ** 2)) / total**2
    upper = 0.5 + level / 2
    wider = float((student_quantile(upper, clusters - 1) / normal_quantile(upper)) ** 2)
    differing = min(int(np.sum(x > 0)), int(np.sum(x < n)))
    most = clusters * (total / clusters) ** min(max((differing - 1) / (DIFFERING - 1), 0.0), 1.0)
    worth = effective_n(share, variance * wider, 1.0, most, clusters)
    return wilson_edge(share * worth, worth, level)


def share_estimate(
    hits: Numbers, of: Numbers, level: float, what: str, *, missing: Mapping[str, int] | None = None, nothing: str = ""
) -> Estimate:
    """The share Σ hits / Σ of over clusters with its interval; `what` names what is counted.

    `nothing` says why there is no share, where nothing was counted.
    """
    gone = dict(missing or {})
    found, total = sum(floats(hits).tolist()), int(floats(of).sum())
    if not total:
        return Estimate(value=None, level=level, n=0, of=what, missing=gone, why=nothing)
    ends = clustered_share(hits, of, level)
    value = found / total
    low, high = min(float(ends.low), value), max(float(ends.high), value)
    return Estimate(value=value, low=low, high=high, level=level, method="wilson-neff", n=total, of=what, missing=gone)
