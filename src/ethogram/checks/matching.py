"""Pairing two lists as well as they can be paired."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


def matching(left: int, right: int, fits: Callable[[int, int], bool]) -> dict[int, int]:
    """A largest set of pairs (i, j) that fit, each i and each j used once (augmenting paths)."""
    near = [[j for j in range(right) if fits(i, j)] for i in range(left)]
    of_left: dict[int, int] = {}
    of_right: dict[int, int] = {}
    for start in range(left):
        came: dict[int, int] = {}
        queue = deque([start])
        end: int | None = None
        while queue and end is None:
            i = queue.popleft()
            for j in near[i]:
                if j in came:
                    continue
                came[j] = i
                if j not in of_right:
                    end = j
                    break
                queue.append(of_right[j])
        while end is not None:
            i = came[end]
            before = of_left.get(i)
            of_left[i], of_right[end] = end, i
            end = before if i != start else None
    return of_left


def in_order(left: int, right: int, fits: Callable[[int, int], bool]) -> dict[int, int]:
    """A largest set of pairs that fit and do not cross (longest common subsequence)."""
    best = [[0] * (right + 1) for _ in range(left + 1)]
    for i in range(left - 1, -1, -1):
        for j in range(right - 1, -1, -1):
            one_less = max(best[i + 1][j], best[i][j + 1])
            best[i][j] = max(one_less, 1 + best[i + 1][j + 1]) if fits(i, j) else one_less
    pairs: dict[int, int] = {}
    i = j = 0
    while i < left and j < right:
        if best[i][j] == 1 + best[i + 1][j + 1] and fits(i, j):
            pairs[i] = j
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs
