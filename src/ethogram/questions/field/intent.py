"""Programs: the sequence of intents of a trajectory, with consecutive equal intents counted once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ethogram.measures.columns import LabelPath

Program = tuple[str, ...]


class Split(NamedTuple):
    """Width as the sum of what lies within families and between their centres (ddof 0, so the sum is exact)."""

    width: float
    within: float
    between: float
    families: dict[Program, int]

    @property
    def share(self) -> float | None:
        """What part of the width lies between families; None if there is no width."""
        return self.between / self.width if self.width > 0 else None


def program(path: LabelPath) -> Program:
    """The intents in order."""
    return tuple(label for label, _ in path)


def has_motif(whole: Program, motif: Program) -> bool:
    """Whether the motif occurs as a contiguous piece; the empty one always does."""
    size = len(motif)
    return any(whole[i : i + size] == motif for i in range(len(whole) - size + 1))


def families(programs: Sequence[Program], depth: int | None) -> list[Program]:
    """The family of each program: its first `depth` intents, or all of them."""
    return [p if depth is None else p[:depth] for p in programs]


def first_seen(values: Sequence[Program]) -> list[Program]:
    """Distinct values in the order of their first appearance."""
    return list(dict.fromkeys(values))
