"""The linear reading of a trace, defined once: signatures, states, judges and the viewer use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from .span import STEP_KINDS


class Placed(Protocol):
    """What the reading needs to know of a span; lets the store number steps without building spans."""

    @property
    def span_id(self) -> str:
        """The id."""
        ...

    @property
    def parent_id(self) -> str | None:
        """The id above, if any."""
        ...

    @property
    def kind(self) -> str:
        """The kind."""
        ...

    @property
    def seq(self) -> int:
        """The position in the log."""
        ...

    @property
    def start_ns(self) -> int | None:
        """The start, if known."""
        ...


S = TypeVar("S", bound=Placed)


def parents(spans: Iterable[Placed]) -> dict[str, str | None]:
    """The span above each span; None at the top, where it is unknown, and where parents go in a circle: that is
    cut at its first span."""
    above: dict[str, str | None] = {s.span_id: s.parent_id for s in spans}
    walked: dict[str, str] = {}
    order: dict[str, int] = {}
    for start in above:
        at: str | None = start
        while at is not None and at not in walked:
            walked[at] = start
            up = above[at]
            if up is not None and up not in above:
                above[at] = up = None
            at = up
        if at is not None and walked[at] == start:
            order = order or {span_id: i for i, span_id in enumerate(above)}
            above[min(_circle(at, above), key=order.__getitem__)] = None
    return above


def _circle(member: str, above: dict[str, str | None]) -> Iterator[str]:
    yield member
    at = above[member]
    while at is not None and at != member:
        yield at
        at = above[at]


def inner_ids(spans: Iterable[Placed], kinds: frozenset[str] = STEP_KINDS) -> set[str]:
    """Ids of spans that have a descendant of one of these kinds."""
    spans = tuple(spans)
    inner: set[str] = set()
    if not any(s.parent_id for s in spans):
        return inner
    above = parents(spans)
    for span in spans:
        up = above[span.span_id] if span.kind in kinds else None
        while up is not None and up not in inner:
            inner.add(up)
            up = above[up]
    return inner


def step_order(spans: Sequence[S]) -> list[S]:
    """The steps: spans of a step kind with no step below them, by (start, seq).

    A tool that runs a sub-agent is not a step, its inner steps are. Where any step has no start
    time, all are ordered by `seq` alone: half-timed logs cannot be sorted by time.
    """
    inner = inner_ids(spans)
    steps = [s for s in spans if s.kind in STEP_KINDS and s.span_id not in inner]
    if all(s.start_ns is not None for s in steps):
        return sorted(steps, key=lambda s: (s.start_ns, s.seq))
    return sorted(steps, key=lambda s: s.seq)
