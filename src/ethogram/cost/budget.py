"""Budgets that nest, reserve first, and speak for themselves.

A call reserves what it may use, at every level from the experiment down to the episode, and settles what
it really used. So a cap is never passed by more than one call's own size, and the error names the level
that was reached. All levels share one lock: reservations of concurrent calls cannot slip past each other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Protocol, get_args

import msgspec

from ethogram.errors import EthogramError

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
    """A budget is used up. `level` says whose: the agent may end in good order at its own episode's cap."""

    exit_code = 2

    def __init__(self, level: str, resource: Resource, cap: float, used: float) -> None:
        """Say which cap, and how far it was used."""
        self.level = level
        self.resource = resource
        self.cap = cap
        self.used = used
        super().__init__(level, resource, cap, used)  # what `pickle` makes it from again

    def __str__(self) -> str:
        return f"the {self.level}'s cap of {self.cap:g} {self.resource} is reached ({self.used:g} used)"


class Unmetered(CapReached):
    """A cap that cannot be kept: something was used, and nothing tells how much of it."""

    def __init__(self, level: str, resource: Resource, why: str) -> None:
        """Say which cap, and why it is blind."""
        super().__init__(level, resource, float("nan"), float("nan"))
        self.why = why
        self.args = (level, resource, why)

    def __str__(self) -> str:
        return f"the {self.level}'s cap on {self.resource} cannot be kept: {self.why}"


class Meter(Protocol):
    """What a recorder needs of a budget; engines on other machines put a remote one behind it."""

    def reserve(self, want: Amounts) -> None:
        """Set aside what a call may use, or raise `CapReached`."""
        ...

    def settle(self, want: Amounts, used: Amounts) -> None:
        """Replace a reservation by what was really used."""
        ...

    def unmetered(self, resource: Resource, why: str) -> None:
        """A call used an unknown amount of a resource; raises `Unmetered` where that is capped."""
        ...


class Budget:
    """One level of a budget: an experiment, a task or an episode."""

    def __init__(self, level: str, caps: Caps, parent: Budget | None = None, spent: Amounts | None = None) -> None:
        """`spent` carries on what an earlier session of the same run used."""
        self.level = level
        self.caps = caps.named()
        self.parent = parent
        self.used = spent or Amounts()
        self.reserved = Amounts()
        # root first: the outermost exhausted budget is the one that speaks; all share the root's lock
        self._levels: tuple[Budget, ...] = (*parent._levels, self) if parent else (self,)
        self._capped = tuple([level for level in self._levels if level.caps])
        self._lock: threading.RLock = parent._lock if parent else threading.RLock()

    def reserve(self, want: Amounts) -> None:
        """Set aside what a call may use, or raise `CapReached`; a call of unknown size is refused at the cap only."""
        with self._lock:
            for level in self._capped:  # all of them first: a call that one level refuses is set aside at none
                level._check(want)
            for level in self._levels:
                level.reserved.add(want)

    def settle(self, want: Amounts, used: Amounts) -> None:
        """Replace a reservation by what was really used."""
        with self._lock:
            for level in self._levels:
                level.reserved.add(want, -1)
                level.used.add(used)

    def unmetered(self, resource: Resource, why: str) -> None:
        """A call used an unknown amount: raises `Unmetered` if any level has a cap on it."""
        for level in self._levels:
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
        self.reserved.add(want, -1)
        self.used.add(used)

    @contextmanager
    def call(self, want: Amounts) -> Iterator[Amounts]:
        """Reserve for the block; the block fills in what it used."""
        self.reserve(want)
        used = Amounts()
        try:
            yield used
        finally:
            self.settle(want, used)

    def remaining(self) -> dict[Resource, float]:
        """What is left of each limited resource, over all levels."""
        with self._lock:
            left: dict[Resource, float] = {}
            for level in self._capped:
                for name, cap in level.caps.items():
                    free = max(0.0, cap - getattr(level.used, name) - getattr(level.reserved, name))
                    left[name] = min(left.get(name, free), free)
            return left

    def exhausted(self) -> CapReached | None:
        """The cap that is used up, if any."""
        if not self._capped:
            return None
        with self._lock:
            try:
                nothing = Amounts()
                for level in self._capped:
                    level._check(nothing)
            except CapReached as reached:
                return reached
        return None

    def _check(self, want: Amounts) -> None:
        for name, cap in self.caps.items():
            committed = getattr(self.used, name) + getattr(self.reserved, name)
            # sums of cents are off in the sixteenth digit, and twenty calls of $0.05 fit into $1
            slack = cap * ROUNDING
            if committed >= cap - slack or committed + getattr(want, name) > cap + slack:
                raise CapReached(self.level, name, cap, committed)
