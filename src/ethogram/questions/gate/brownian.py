"""The law of a statistic looked at several times: a Brownian motion between bounds, by numerical integration.

Jennison and Turnbull (2000), chapter 19: Simpson's rule on a grid that is dense where the mass is, look by look.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ethogram.statistics._numeric import Floats, floats, normal_cdf, normal_quantile, root, root_near

FAR = 12.0
"""A z that is never crossed: its tail is below 1e-32."""
_REACH = 8.5
"""Further from the centre than this there is less than 1e-16 of the mass, and nothing to integrate."""
_WIDEST = 3.0
"""The widest gap between nodes, in steps of the motion: above √(9π/2) = 3.76 a node feeds itself look after look."""


class Walk:
    """What is left of the motion after each look: a density over z between the bounds."""

    def __init__(self, effect: float, information: Floats) -> None:
        if np.any(np.diff(information) <= 0) or information[0] <= 0:
            raise ValueError("the information of successive looks must be positive and grow")
        self.effect = effect
        steps = np.diff(information) / information[1:]
        # the grid must resolve the smallest step between two looks, of those so far and the next: what a look gives
        # must not depend, not even in its last digit, on the looks that come after it
        self.steps = np.sqrt(np.minimum.accumulate(np.append(np.minimum(steps, 1.0), 1.0)))
        self.taken = 0
        self.information = 0.0
        self.z: Floats = floats([0.0])
        self.mass: Floats = floats([1.0])

    def above(self, information: float, bound: float) -> float:
        """The probability of being still there at the next look, and above a bound."""
        return float(self.mass @ normal_cdf(-self._standard(information, bound)))

    def below(self, information: float, bound: float) -> float:
        """The probability of being still there at the next look, and below a bound."""
        return float(self.mass @ normal_cdf(self._standard(information, bound)))

    def upper_for(self, information: float, spend: float) -> float:
        """The bound that is crossed upwards at the next look with this probability."""
        left = float(self.mass.sum())
        if spend <= 1e-14:
            return FAR
        if spend >= 0.5 * left:
            return root(lambda b: spend - self.above(information, b), -FAR, FAR)

        # the logarithm of a tail is nearly straight: a few steps do
        def spare(bound: float) -> float:
            return float(np.log(spend / max(self.above(information, bound), 1e-300)))

        def slope(bound: float) -> float:
            x = self._standard(information, bound)
            density = float(self.mass @ np.exp(-0.5 * x * x)) / np.sqrt(
                2 * np.pi * (1 - self.information / information)
            )
            return float(density / max(self.above(information, bound), 1e-300))

        start = float(self.effect * np.sqrt(information) - normal_quantile(spend / left))
        return root_near(spare, slope, start, -FAR, FAR)

    def step(self, information: float, upper: float, lower: float) -> tuple[float, float]:
        """Take the next look; gives the probabilities of leaving upwards and downwards at it."""
        out = self.above(information, upper), self.below(information, lower)
        centre = self.effect * np.sqrt(information)
        low, high = max(lower, -FAR, centre - _REACH), min(upper, FAR, centre + _REACH)
        least = float(self.steps[min(self.taken, self.steps.size - 1)])
        self.taken += 1
        z, weights = _grid(centre, low, high, min(max(int(1.1 / least), 12), 128), _WIDEST * least)
        grown = information - self.information
        # in units of √2 standard deviations of the step, so that the density is exp(-x²)
        x = np.subtract.outer(z * np.sqrt(0.5 * information / grown), self._drifted(grown) / np.sqrt(2 * grown))
        np.multiply(x, x, out=x)
        np.negative(x, out=x)
        density = np.exp(x, out=x) @ self.mass * np.sqrt(information / grown / (2 * np.pi))
        self.z, self.mass, self.information = z, weights * density, information
        return out

    def _drifted(self, grown: float) -> Floats:
        return floats(np.sqrt(self.information) * self.z + self.effect * grown)

    def _standard(self, information: float, bound: float) -> Floats:
        grown = information - self.information
        return floats((bound * np.sqrt(information) - self._drifted(grown)) / np.sqrt(grown))


@lru_cache(maxsize=512)
def _spacing(r: int, widest: float) -> Floats:
    """Nodes around 0: even within three standard deviations, further apart outside, but no gap above `widest`."""
    tail = 3 + 4 * np.log(r / np.arange(1, r))
    nodes = np.concatenate([-tail, np.linspace(-3, 3, 4 * r + 1), tail[::-1]])
    ends = FAR + _REACH  # beyond every bound, so that what is left at an end is one of these gaps, cut short
    nodes = np.concatenate([[-ends], nodes, [ends]])
    gaps = np.diff(nodes)
    parts = np.ceil(gaps / widest).astype(np.int64)
    within = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    nodes = floats(np.append(np.repeat(nodes[:-1], parts) + within * np.repeat(gaps / parts, parts), ends))
    nodes.flags.writeable = False
    return nodes


def _grid(centre: float, low: float, high: float, r: int, widest: float) -> tuple[Floats, Floats]:
    """Nodes and Simpson weights between two bounds, spaced for a normal density around a centre, no gap too wide."""
    if low >= high:
        return floats([high]), floats([0.0])
    spacing = _spacing(r, widest)
    first, last = np.searchsorted(spacing, low - centre, "right"), np.searchsorted(spacing, high - centre)
    z = np.empty(2 * (last - first) + 3)
    z[0], z[-1] = low, high
    z[2:-2:2] = centre + spacing[first:last]
    gaps = z[2::2] - z[:-1:2]
    z[1::2] = z[:-1:2] + gaps / 2
    weights = np.zeros(z.size)
    weights[:-1:2] = gaps / 6
    weights[2::2] += gaps / 6
    weights[1::2] = 4 * gaps / 6
    return z, weights
