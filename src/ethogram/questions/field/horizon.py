"""States along a task: their order, which attempts count at each under either rule, and which went backwards.

`visited`: the label occurs in the trajectory (the essay's rule). `reached`: that state or a later one occurs, so that
a run which jumps over a state has reached it. A terminal label, which every trajectory gets at its last step and only
there, tells nothing of progress and has no rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from ethogram.errors import BadUsage, NotFound
from ethogram.measures.columns import LabelPath

MembershipRule = Literal["visited", "reached"]
RULES: tuple[str, ...] = ("visited", "reached")


class NotMonotone(UserWarning):
    """A state function went backwards, so the rule `reached` no longer means "at least this state"."""


class Backwards(NamedTuple):
    """The first step back of a trajectory: which one, from which state to which earlier one."""

    trajectory: int
    left: str
    entered: str


def order_of(paths: Sequence[LabelPath], declared: Sequence[str]) -> list[str]:
    """Labels in the declared order; others by first appearance, within trajectories before across them.

    A trajectory that jumps over a state and comes first would otherwise put that state last.
    """
    seen: dict[str, int] = {}
    distinct = dict.fromkeys(tuple(dict.fromkeys(label for label, _ in path)) for path in paths)
    for labels in distinct:
        for label in labels:
            seen.setdefault(label, len(seen))
    named = set(declared)
    rest = [s for s in seen if s not in named]
    return [*declared, *_sorted_by_precedence(rest, list(distinct), seen)]


def terminal_of(paths: Sequence[LabelPath]) -> str | None:
    """The label that every trajectory gets at its last step and only there; None if there is none such."""
    if len(paths) < 2 or any(not path for path in paths):
        return None
    last = paths[0][-1][0]
    for path in paths:
        if path[-1] != (last, 1) or len(path) < 2 or any(label == last for label, _ in path[:-1]):
            return None
    return last


def members(paths: Sequence[LabelPath], wanted: Sequence[str], rule: str, rank: Mapping[str, int]) -> list[bool]:
    """Which trajectories belong to the horizon of any of these states; `rank` lacks the terminal label."""
    if rule not in RULES:
        raise BadUsage(f"there is no membership rule {rule!r}; use 'visited' or 'reached'")
    names = set(wanted)
    if rule == "visited":
        return [any(label in names for label, _ in path) for path in paths]
    least = [rank[s] for s in wanted if s in rank]
    unranked = names - rank.keys()
    return [
        (bool(least) and max((rank[s] for s, _ in path if s in rank), default=-1) >= min(least))
        or any(label in unranked for label, _ in path)
        for path in paths
    ]


def known_or_refuse(wanted: Sequence[str], known: Sequence[str]) -> None:
    """A misspelt state is an error, not an empty horizon."""
    for state in wanted:
        if state not in known:
            raise NotFound.named("state", state, list(known))


def steps_back(paths: Sequence[LabelPath], rank: Mapping[str, int]) -> list[Backwards]:
    """The first step back of every trajectory that takes one."""
    found = []
    for number, path in enumerate(paths):
        ranked = [label for label, _ in path if label in rank]
        for before, after in pairwise(ranked):
            if rank[after] < rank[before]:
                found.append(Backwards(number, before, after))
                break
    return found


def _sorted_by_precedence(labels: list[str], runs: list[tuple[str, ...]], seen: Mapping[str, int]) -> list[str]:
    """A stable topological order: a before b if some trajectory meets a first and none meets b first."""
    wanted = set(labels)
    before: dict[str, set[str]] = {s: set() for s in labels}
    for run in runs:
        inside = [s for s in run if s in wanted]
        for i, label in enumerate(inside):
            before[label].update(inside[:i])
    firm = {s: {p for p in earlier if s not in before[p]} for s, earlier in before.items()}
    out: list[str] = []
    waiting = sorted(labels, key=seen.__getitem__)
    while waiting:
        free = next((s for s in waiting if not firm[s] - set(out)), waiting[0])
        out.append(free)
        waiting.remove(free)
    return out


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
