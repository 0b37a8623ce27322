"""The meter of one episode."""

from __future__ import annotations

from ethogram.prices import Amounts, Budget, CapReached, Unmetered
from ethogram.prices.budget import Resource


class EpisodeMeter:
    """The meter of one episode: remembers whether the experiment's cap was reached, and closes with the episode.

    An agent in a thread cannot be ended; once closed, its next call raises, and nothing it does counts any more.
    """

    def __init__(self, budget: Budget, allow_unmetered: bool) -> None:
        """Nothing is counted yet."""
        self._budget = budget
        self._allow_unmetered = allow_unmetered
        self._closed = False
        self.experiment: CapReached | None = None
        self.unknown: set[str] = set()

    def reserve(self, want: Amounts) -> None:
        """Set aside what a call may use, or raise `CapReached`."""
        if self._closed:
            raise CapReached("episode", "seconds", 0, 0)
        if isinstance(self.experiment, Unmetered):
            raise self.experiment
        try:
            self._budget.reserve(want)
        except CapReached as reached:
            if not reached.may_pass:
                self.refused(reached)
            raise

    def refused(self, reached: CapReached) -> None:
        """A call is not made; at the experiment's cap that ends the episode."""
        if reached.level == "experiment":
            self.experiment = reached

    def settle(self, want: Amounts, used: Amounts) -> None:
        """Replace a reservation by what was really used."""
        self._budget.settle(want, used)

    def unmetered(self, resource: Resource, why: str) -> None:
        """An unknown amount was used; raises `Unmetered` where that is capped, unless it is allowed."""
        self.unknown.add(resource)
        try:
            self._budget.unmetered(resource, why)
        except Unmetered as blind:
            if not self._allow_unmetered:
                self.experiment = blind  # at whatever level: more episodes would spend as blindly
                raise

    def close(self) -> None:
        """The episode is over."""
        self._closed = True
