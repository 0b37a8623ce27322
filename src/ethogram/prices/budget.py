"""Nested budgets: an amount is reserved before a call, and the error names the limit that was reached.

A call reserves the most that it may use, at every level from the experiment down to the episode, and settles what
it really used. So a cap is never passed by calls whose worst case is known, by others at most by one call of each
caller, and the error names the level that was reached. All levels share one lock: reservations of concurrent calls
cannot slip past each other.
"""

from __future__ import annotations

import threading
from typing import Literal, NamedTuple, Protocol, get_args

import msgspec

from ethogram.errors import BadUsage, EthogramError

Resource = Literal["steps", "tokens", "usd", "seconds"]
RESOURCES: tuple[Resource, ...] = get_args(Resource)
ROUNDING = 1e-9


class Amounts(msgspec.Struct, kw_only=True):
    """How much of each resource."""

    steps: float = 0
    tokens: float = 0
    usd: float = 0.0
    seconds: float = 0.0

    def add(self, other: Amounts, times: int = 1) -> None:
        """Add in place, several times or, with -1, take away."""
        # each by its name: this runs some twenty times in every episode
        self.steps += times * other.steps
        self.tokens += times * other.tokens
        self.usd += times * other.usd
        self.seconds += times * other.seconds


NOTHING = Amounts()
"""No amount of anything; never changed. Budgets know it, so an episode that reserves nothing costs no additions."""


class Caps(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Upper limits; None is no limit."""

    steps: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None

    def named(self) -> dict[Resource, float]:
        """The limits that are set."""
        return {name: value for name in RESOURCES if (value := getattr(self, name)) is not None}


class CapReached(EthogramError):
    """A budget is used up, or what is left is less than a call may use. `level` says whose: the agent may end in good
    order at its own episode's cap."""

    exit_code = 2

    def __init__(
        self, level: str, resource: Resource, cap: float, used: float, open: float = 0.0, want: float = 0.0
    ) -> None:
        """Say which cap, how far it was used, what `open` calls may still use, and the most that this one may."""
        self.level = level
        self.resource = resource
        self.cap = cap
        self.used = used
        self.open = open
        self.want = want
        self.advice = ""
        """What would let the call through, where something would."""
        super().__init__(level, resource, cap, used, open, want)  # what `pickle` makes it from again

    @property
    def left(self) -> float:
        """What is neither used nor reserved."""
        return max(0.0, self.cap - self.used - self.open)

    @property
    def may_pass(self) -> bool:
        """Whether the call may fit once open calls have settled; a step is used by every call, so none comes back."""
        fits = self.used + self.want <= self.cap * (1 + ROUNDING)
        held = self.open > self.cap * ROUNDING  # what is left of sums that were given back is nothing
        return self.resource in ("usd", "tokens") and self.want > 0 and held and fits

    def __str__(self) -> str:
        told = f"the {self.level}'s cap of {self.cap:g} {self.resource} is reached ({self.used:g} used)"
        if not self.want or self.used >= self.cap or self.resource not in ("usd", "tokens"):
            return told
        return f"{told}: {self.left:.6g} is left, and this call may use up to {self.want:.6g}{self.advice}"


class Unmetered(CapReached):
    """A cap that cannot be enforced: something was used, and its amount is unknown."""

    def __init__(self, level: str, resource: Resource, why: str) -> None:
        """Say which cap, and why it is blind."""
        super().__init__(level, resource, float("nan"), float("nan"))
        self.why = why
        self.args = (level, resource, why)

    def __str__(self) -> str:
        return f"the {self.level}'s cap on {self.resource} cannot be enforced: {self.why}"


class Meter(Protocol):
    """What a recorder needs of a budget; engines on other machines put a remote one behind it."""

    def reserve(self, want: Amounts) -> None:
        """Set aside what a call may use, or raise `CapReached`."""
        ...

    def settle(self, want: Amounts, used: Amounts) -> None:
        """Replace a reservation by what was really used."""
        ...

    def refused(self, reached: CapReached) -> None:
        """A call is not made, for what `reserve` raised; who waits and tries again does not say so."""
        ...

    def unmetered(self, resource: Resource, why: str) -> None:
        """A call used an unknown amount of a resource; raises `Unmetered` where that is capped."""
        ...


class _Levels(NamedTuple):
    """Levels of a budget, the root first: those with a cap, and the others."""

    capped: tuple[Budget, ...]
    uncapped: tuple[Budget, ...]


class Budget:
    """One level of a budget: an experiment, a task or an episode."""

    def __init__(self, level: str, caps: Caps, parent: Budget | None = None, spent: Amounts | None = None) -> None:
        """`spent` is what an earlier session of the same run used. Raises `BadUsage` for a cap below 0 or NaN."""
        self.level = level
        self.caps = caps.named()
        for name, cap in self.caps.items():
            if not cap >= 0:  # NaN is neither more nor less than anything, so it would stop nothing
                raise BadUsage(f"the cap {level}.{name} must be a number from 0 on, not {cap}")
        self.parent = parent
        self.used = spent or Amounts()
        self.reserved = Amounts()
        self._lock: threading.RLock = parent._lock if parent else threading.RLock()  # all share the root's
        self._below: _Levels | None = None
        # a budget is not in its own list: that would be a cycle, which only the garbage collector removes
        self._above = parent._levels() if parent else _Levels((), ())

    def reserve(self, want: Amounts) -> None:
        """Set aside what a call may use, or raise `CapReached`; a call of unknown size is refused at the cap only."""
        taken: list[Budget] = []
        above = self._above
        with self._lock:
            try:
                for level in above.capped:  # a level may be kept by another process: only `take` asks it
                    level.take(want)
                    taken.append(level)
                if self.caps:
                    self.take(want)
            except CapReached:
                for level in taken:
                    level.give_back(want)
                raise
            if want is NOTHING:
                return
            for level in above.uncapped:
                level.reserved.add(want)
            if not self.caps:
                self.reserved.add(want)

    def settle(self, want: Amounts, used: Amounts) -> None:
        """Replace a reservation by what was really used."""
        with self._lock:
            for level in self._above.capped:
                level.spend(want, used)
            for level in self._above.uncapped:
                level._count(want, used)
            if self.caps:
                self.spend(want, used)
            else:
                self._count(want, used)

    def refused(self, reached: CapReached) -> None:
        """Nothing to remember."""

    def unmetered(self, resource: Resource, why: str) -> None:
        """A call used an unknown amount: raises `Unmetered` if any level has a cap on it."""
        for level in self._all_capped():
            if resource in level.caps:
                raise Unmetered(level.level, resource, why)

    def take(self, want: Amounts) -> None:
        """Set aside at this level only."""
        self._check(want)
        self.reserved.add(want)

    def give_back(self, want: Amounts) -> None:
        """Undo `take`."""
        self.reserved.add(want, -1)

    def spend(self, want: Amounts, used: Amounts) -> None:
        """Settle at this level only."""
        self._count(want, used)

    def _count(self, want: Amounts, used: Amounts) -> None:
        if want is not NOTHING:
            self.reserved.add(want, -1)
        self.used.add(used)

    def remaining(self) -> dict[Resource, float]:
        """What is left of each limited resource, over all levels."""
        with self._lock:
            left: dict[Resource, float] = {}
            for level in self._all_capped():
                for name, cap in level.caps.items():
                    free = max(0.0, cap - getattr(level.used, name) - getattr(level.reserved, name))
                    left[name] = min(left.get(name, free), free)
            return left

    def exhausted(self) -> CapReached | None:
        """The cap that is used up, if any."""
        capped = self._all_capped()
        if not capped:
            return None
        with self._lock:
            try:
                for level in capped:
                    level._check(NOTHING)
            except CapReached as reached:
                return reached
        return None

    def _all_capped(self) -> tuple[Budget, ...]:
        """Levels with a cap, the root first: the outermost exhausted budget is the one that speaks."""
        return (*self._above.capped, self) if self.caps else self._above.capped

    def _levels(self) -> _Levels:
        """The levels above a budget below this one: this one too. Made once, for many episodes are below a task."""
        if self._below is None:
            above = self._above
            self._below = (
                _Levels((*above.capped, self), above.uncapped)
                if self.caps
                else _Levels(above.capped, (*above.uncapped, self))
            )
        return self._below

    def _check(self, want: Amounts) -> None:
        for name, cap in self.caps.items():
            used, open, wanted = getattr(self.used, name), getattr(self.reserved, name), getattr(want, name)
            # sums of cents are off in the sixteenth digit, and twenty calls of $0.05 fit into $1
            slack = cap * ROUNDING
            # what open calls reserve bars only what may use something itself: most of it is given back
            if used >= cap - slack or (wanted and used + open + wanted > cap + slack):
                raise CapReached(self.level, name, cap, used, open, wanted)
