"""The linear reading of a trace, defined once: signatures, states, judges and the viewer use it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def inner_ids(spans: Iterable[Placed], kinds: frozenset[str] = STEP_KINDS) -> set[str]:
    """Ids of spans that have a descendant of one of these kinds (cycles of parents end the walk)."""
    parent: dict[str, str | None] = {}
    found: list[str] = []
    for span in spans:
        parent[span.span_id] = span.parent_id
        if span.kind in kinds:
            found.append(span.span_id)
    inner: set[str] = set()
    for span_id in found:
        above = parent.get(span_id)
        while above is not None and above not in inner and above != span_id:
            inner.add(above)
            above = parent.get(above)
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
