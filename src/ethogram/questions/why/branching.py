"""Attempts at a task as a tree: they share a branch while their steps have the same signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Stem(NamedTuple):
    """Steps that some attempts have in common after a branching; `rows` are those attempts.

    `depth` counts branchings before it, `parent` is its stem (None: none), `at` the position of its first step. `ended`
    are the attempts whose last step is the last of this stem.
    """

    depth: int
    parent: int | None
    at: int
    steps: tuple[str, ...]
    rows: tuple[int, ...]
    ended: tuple[int, ...]


def branching(paths: Sequence[Sequence[str]], most: int = 400) -> tuple[list[Stem], int]:
    """The stems of a tree, each before its branches, the most frequent branch first; and how many were left out.

    `paths` are signatures per attempt. Stems after the first `most` are left out.
    """
    found: list[Stem] = []
    left_out = 0
    waiting: list[tuple[int, int | None, int, tuple[int, ...]]] = []
    if paths:
        waiting.append((0, None, 0, tuple(range(len(paths)))))  # what all begin with, perhaps no step at all
    while waiting:
        depth, parent, at, rows = waiting.pop()
        if len(found) >= most:
            left_out += 1
            continue
        end = _parts_at(paths, rows, at)
        ended = tuple(row for row in rows if len(paths[row]) == end)
        found.append(Stem(depth, parent, at, tuple(paths[rows[0]][at:end]), rows, ended))
        ways: dict[str, list[int]] = {}
        for row in rows:
            if len(paths[row]) > end:
                ways.setdefault(paths[row][end], []).append(row)
        own = len(found) - 1
        ordered = sorted(ways.items(), key=lambda way: (-len(way[1]), way[0]))
        waiting += [(depth + 1, own, end, tuple(way)) for _, way in reversed(ordered)]
    return found, left_out


def _parts_at(paths: Sequence[Sequence[str]], rows: Sequence[int], at: int) -> int:
    """The first position from `at` on where not all of these attempts go on alike."""
    shortest = min(len(paths[row]) for row in rows)
    first = paths[rows[0]]
    while at < shortest and all(paths[row][at] == first[at] for row in rows):
        at += 1
    return at
