"""Columns of a field, a row per trajectory: point, outcome or why it is missing, task, labels per step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ethogram.errors import BadInput
from ethogram.traces import Missing, Scored

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LabelPath = tuple[tuple[str, int], ...]
"""Labels in order, each with how many steps it lasted."""

NO_LABEL = "_"


def as_floats(values: npt.ArrayLike) -> Floats:
    """An array of doubles."""
    return np.asarray(values, dtype=np.float64)


def collapse(labels: Iterable[str]) -> LabelPath:
    """Run-length encoding."""
    runs: list[tuple[str, int]] = []
    for label in labels:
        if runs and runs[-1][0] == label:
            runs[-1] = (label, runs[-1][1] + 1)
        else:
            runs.append((label, 1))
    return tuple(runs)


def path_length(path: LabelPath) -> int:
    """Steps of a path."""
    return sum(count for _, count in path)


class Columns:
    """Numbers as arrays, labels as lists; grows by rows, gives subsets by index.

    An outcome that is missing is NaN in the array, and `reasons` says why; nothing that leaves the package is NaN.
    """

    def __init__(self, d: int) -> None:
        self.d = d
        self._block: Floats = np.empty((0, d))
        self._scores: Floats = np.empty(0)
        self._index: Ints = np.empty(0, dtype=np.int64)
        self._seen: dict[str, int] = {}
        self._new: list[tuple[Floats, float, int]] = []
        self.task_names: list[str] = []
        self.reasons: dict[int, str] = {}
        self.episodes: list[str] | None = None
        self.states: list[LabelPath] | None = None
        self.intents: list[LabelPath] | None = None

    def __len__(self) -> int:
        return int(self._block.shape[0]) + len(self._new)

    @property
    def points(self) -> Floats:
        """(K, d)."""
        self._settle()
        return self._block

    @property
    def outcomes(self) -> Floats:
        """(K,), NaN where there is none."""
        self._settle()
        return self._scores

    @property
    def tasks(self) -> Ints:
        """(K,), an index into `task_names`."""
        self._settle()
        return self._index

    def append(
        self, point: Floats, outcome: object, task: str, episode: str, states: LabelPath, intents: LabelPath
    ) -> None:
        """One more trajectory."""
        row = len(self)
        score, reason = read_outcome(outcome, row)
        place = self._seen_tasks().setdefault(task, len(self.task_names))
        if place == len(self.task_names):
            self.task_names.append(task)
        self.episodes = [""] * row if self.episodes is None else self.episodes
        self.episodes.append(episode)
        if reason is not None:
            self.reasons[row] = reason
        self.states = self._labels(self.states, row, states)
        self.intents = self._labels(self.intents, row, intents)
        self._new.append((point, score, place))

    def take(self, rows: Ints) -> Columns:
        """These trajectories, in this order."""
        part = Columns(self.d)
        part._block, part._scores = self.points[rows], self.outcomes[rows]
        used, part._index = np.unique(self.tasks[rows], return_inverse=True)
        part.task_names = [self.task_names[i] for i in used]
        if self.reasons:
            part.reasons = {new: self.reasons[int(old)] for new, old in enumerate(rows) if int(old) in self.reasons}
        for name in ("episodes", "states", "intents"):
            column = getattr(self, name)
            setattr(part, name, None if column is None else [column[int(i)] for i in rows])
        return part

    def paths(self, kind: str) -> list[LabelPath]:
        """Labels of every trajectory; a single unnamed step where nobody gave any."""
        found: list[LabelPath] | None = getattr(self, kind)
        return [((NO_LABEL, 1),)] * len(self) if found is None else found

    def missing(self) -> dict[str, int]:
        """Trajectories without an outcome, by reason."""
        counts: dict[str, int] = {}
        for reason in self.reasons.values():
            counts[reason] = counts.get(reason, 0) + 1
        return counts

    def _seen_tasks(self) -> dict[str, int]:
        if len(self._seen) != len(self.task_names):
            self._seen = {name: i for i, name in enumerate(self.task_names)}
        return self._seen

    def _settle(self) -> None:
        if not self._new:
            return
        points, scores, index = zip(*self._new, strict=True)
        self._block = np.concatenate([self._block, np.stack(points)])
        self._scores = np.concatenate([self._scores, np.array(scores, dtype=np.float64)])
        self._index = np.concatenate([self._index, np.array(index, dtype=np.int64)])
        self._new = []

    @staticmethod
    def _labels(column: list[LabelPath] | None, row: int, path: LabelPath) -> list[LabelPath]:
        column = [((NO_LABEL, 1),)] * row if column is None else column
        column.append(path)
        return column

    @classmethod
    def of_arrays(
        cls,
        points: npt.ArrayLike,
        outcomes: Any,
        names: Sequence[str],
        tasks: Sequence[object] | npt.NDArray[Any] | None,
    ) -> Columns:
        """Columns from arrays; points are not copied."""
        block = np.asarray(points, dtype=np.float64)
        if block.ndim != 2 or block.shape[1] != len(names):
            raise BadInput(
                f"points have the shape {block.shape}, but there are {len(names)} dimensions; give (K, {len(names)})"
            )
        part = cls(len(names))
        part._block = block
        refuse_numbers_that_are_none(block, names)
        part._scores = _scores(outcomes, block.shape[0], part.reasons)
        if tasks is None:
            part._index, part.task_names = np.zeros(block.shape[0], dtype=np.int64), [""]
        else:
            if len(tasks) != block.shape[0]:
                raise BadInput(f"there are {block.shape[0]} points but {len(tasks)} tasks; give one task per point")
            part._index, part.task_names = _numbered(np.asarray(tasks))
        return part


def _numbered(tasks: npt.NDArray[Any]) -> tuple[Ints, list[str]]:
    """Tasks as an index and its names; whole numbers without sorting."""
    if tasks.dtype.kind in "iu" and tasks.size and int(tasks.min()) >= 0 and int(tasks.max()) < 4 * tasks.size:
        present = np.flatnonzero(np.bincount(tasks))
        place = np.zeros(int(tasks.max()) + 1, dtype=np.int64)
        place[present] = np.arange(present.size)
        return place[tasks], [str(t) for t in present]
    found, index = np.unique(tasks, return_inverse=True)
    return index.astype(np.int64), [str(t) for t in found]


def read_outcome(outcome: object, row: int) -> tuple[float, str | None]:
    """A score and None, or NaN and the reason why there is none."""
    if isinstance(outcome, Scored):
        return outcome.value, None
    if isinstance(outcome, Missing):
        return np.nan, outcome.reason
    if outcome is None:
        return np.nan, "unscored"
    try:
        value = float(outcome)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise BadInput(
            f"the outcome of trajectory {row} is {outcome!r}; give a number, Scored, Missing, or None for no outcome",
            where=f"trajectory {row}",
        ) from None
    if not np.isfinite(value):
        raise BadInput(
            f"the outcome of trajectory {row} is {value}; give a finite number, or None for no outcome",
            where=f"trajectory {row}",
        )
    return value, None


def refuse_numbers_that_are_none(block: Floats, names: Sequence[str]) -> None:
    """NaN and infinities in points are an error that names the dimension and the first trajectory."""
    # a sum over all is finite only if every number is, barring overflow, and costs no copy
    if np.isfinite(block.sum()):
        return
    bad = ~np.isfinite(block)
    if not bad.any():
        return
    row, column = (int(i) for i in np.argwhere(bad)[0])
    raise BadInput(
        f"dimension {names[column]!r} of trajectory {row} is {block[row, column]} ({int(bad.any(axis=1).sum())} "
        "trajectories have such numbers); give finite numbers, or leave those trajectories or that dimension out",
        where=f"trajectory {row}",
    )


def _scores(outcomes: Any, count: int, reasons: dict[int, str]) -> Floats:
    if outcomes is None:
        reasons.update(dict.fromkeys(range(count), "unscored"))
        return np.full(count, np.nan)
    if len(outcomes) != count:
        raise BadInput(f"there are {count} points but {len(outcomes)} outcomes; give one outcome per point")
    if isinstance(outcomes, np.ndarray) and outcomes.dtype.kind in "fiub":
        scores = outcomes.astype(np.float64)
        absent = np.flatnonzero(~np.isfinite(scores))
        if np.isinf(scores[absent]).any():
            raise BadInput("an outcome is infinite; give finite numbers, or NaN for no outcome")
        reasons.update(dict.fromkeys(absent.tolist(), "unscored"))
        return scores
    scores = np.empty(count)
    for row, outcome in enumerate(outcomes):
        scores[row], reason = read_outcome(outcome, row)
        if reason is not None:
            reasons[row] = reason
    return scores
