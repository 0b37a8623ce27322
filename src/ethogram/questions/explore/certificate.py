"""What a map rules out by each point's own episodes, what it could still hide, and the price of a stricter bound."""

from __future__ import annotations

import msgspec

from .levels import chance_to_miss, looks_needed, looks_to_come
from .problem import KEPT, Posterior, Problem, Tally, may_hide, unproven

LOWER = 0.6
"""The lower rate of which the cost is told, as a part of the one that was asked for."""


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """No point that fails `pocket_rate` of the time or more is called safe, even if it fails alone.

    True for all of up to `may_hide` such points in `kept` of all explorations, if no point is `unproven`.
    """

    pocket_rate: float
    kept: float
    may_hide: int
    looks: int
    """Episodes without a failure that a point called safe needs; more if some of them failed."""
    unproven: int
    """Points that the model would call safe and that lack episodes of their own: they stay undecided."""
    episodes: int
    """About how many more episodes would prove them."""
    lower_rate: float | None
    lower_episodes: int | None
    """What is left to buy for a lower rate, about; None if there is no lower one beyond the zone."""

    @property
    def holds(self) -> bool:
        """Whether every point that the model would call safe is proven."""
        return self.unproven == 0

    def said(self) -> tuple[str, ...]:
        """One or two sentences."""
        if not self.holds:
            one = self.unproven == 1
            undecided = "1 point is undecided: its" if one else f"{self.unproven:,} points are undecided: their"
            few = f"{'it has' if one else 'they have'} too few episodes of {'its' if one else 'their'} own"
            return (
                f"{undecided} neighbours look safe, but {few} to exclude a failure rate of {self.pocket_rate:g} "
                "or more.",
                f"About {self.episodes:,} more episodes are needed.",
            )
        rate = _often(self.pocket_rate)
        claim = (
            f"No point that fails at least {rate} of the time is called safe: with {self.looks} or more episodes at "
            f"each of them, {self.kept:.0%} of explorations notice all of up to {self.may_hide} that fail alone."
        )
        hidden = f"What could still hide is a lone point that fails less than {rate} of the time"
        if self.lower_rate is None:
            return claim, f"{hidden}."
        lower = f"{self.lower_rate:g}"
        return claim, (
            f"{hidden}; ruling out one that fails {lower} of the time takes about {self.lower_episodes:,} more "
            f"episodes (--pocket-rate {lower})."
        )


def certificate(posterior: Posterior, tally: Tally, problem: Problem, level: float) -> Certificate:
    """What the episodes of each point rule out by themselves."""
    hidden = may_hide(posterior)
    miss = chance_to_miss(KEPT, hidden)
    lacking = unproven(posterior, tally, problem, level)
    safe = (posterior.unsafe < 1 - level) | lacking
    n, fails, mean = tally.n[safe], tally.fails[safe], posterior.mean[safe]
    rate, least = problem.pocket_rate, problem.tau + problem.zone
    lower = round(max(LOWER * rate, least), 3) if rate > least else None
    return Certificate(
        pocket_rate=rate,
        kept=KEPT,
        may_hide=hidden,
        looks=int(looks_needed(rate, miss)[0]),
        unproven=int(lacking.sum()),
        episodes=int(looks_to_come(n, fails, mean, rate, miss).sum()),
        lower_rate=lower,
        lower_episodes=None if lower is None else int(looks_to_come(n, fails, mean, lower, miss).sum()),
    )


def _often(rate: float) -> str:
    return "half" if rate == 0.5 else f"{rate:g}"
