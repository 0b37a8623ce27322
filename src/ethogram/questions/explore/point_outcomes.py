"""Outcomes that an exploration bought at each point in each round, read from the ledger.

The episodes of a world are batches of the ledger, or entries where their traces were kept; those of a suite are entries
whose condition is the point. Explorations of earlier versions kept outcomes in notes beside the ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ethogram.errors import Damaged
from ethogram.store import Batch, Run
from ethogram.store.batch import FAILURE, MISSING, SCORED, SUCCESS
from ethogram.store.lake import EXPLORED
from ethogram.traces import Missing, Outcome

from .grid import ROUND, named_point
from .problem import Proposal


class PointOutcomes(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of the episodes that one round bought at one point, a letter each as in a batch of the ledger.

    `first` episodes were bought at the point in earlier rounds; `missing` counts missing outcomes by reason.
    """

    round: int
    point: int
    outcomes: str
    first: int = 0
    missing: dict[str, int] = {}


Bought = dict[tuple[int, int], PointOutcomes]
"""By round and point."""


def bought(run: Run, plans: Mapping[int, Proposal], tasks: Sequence[str], success_at: float) -> Bought:
    """All that the ledger holds of an exploration, whole targets only.

    `plans` say what each round bought or is buying; `tasks` and `success_at` are those of the explored suite.
    """
    found: Bought = {}
    of_batches = filter(None, map(batch_outcomes, run.batches))
    for one in (*_of_notes(run), *of_batches):
        found.setdefault((one.round, one.point), one)
    played, of_suite = _single(run, tasks)
    for number, point, first, count in _targets(plans):
        known = played.get((number, point)) or of_suite.get(point, {})
        wanted = range(first, first + count)
        if (number, point) not in found and all(i in known for i in wanted):
            found[number, point] = bought_outcomes(number, point, first, [known[i] for i in wanted], success_at)
    return found


def bought_outcomes(
    number: int, point: int, first: int, outcomes: Sequence[Outcome], success_at: float
) -> PointOutcomes:
    """Outcomes of single episodes as those of a point."""
    letters = "".join(
        MISSING if isinstance(o, Missing) else SUCCESS if o.success(success_at) else FAILURE for o in outcomes
    )
    reasons = Counter(o.reason for o in outcomes if isinstance(o, Missing))
    return PointOutcomes(
        round=number, point=point, outcomes=letters, first=first, missing=dict(sorted(reasons.items()))
    )


def batch_outcomes(batch: Batch) -> PointOutcomes | None:
    """Outcomes of a batch of the ledger as those of a point; None if it is of no exploration."""
    number, point = batch.meta.get(ROUND), named_point(batch.task)
    if not isinstance(number, int) or point is None:
        return None
    missing = {str(batch.missing): count} if (count := batch.outcomes.count(MISSING)) else {}
    return PointOutcomes(round=number, point=point, outcomes=batch.outcomes, first=batch.first, missing=missing)


def counted_notes(run: Run) -> Counter[str]:
    """Episodes that an earlier version noted, by outcome: `scored`, or the reason why it is missing."""
    found: Counter[str] = Counter()
    for one in {(o.round, o.point): o for o in _of_notes(run)}.values():
        found.update({SCORED: len(one.outcomes) - sum(one.missing.values()), **one.missing})
    return found


def _single(
    run: Run, tasks: Sequence[str]
) -> tuple[dict[tuple[int, int], dict[int, Outcome]], dict[int, dict[int, Outcome]]]:
    """Outcomes of single entries by the number of the episode at its point.

    Those of a world are given by round and point, those of a suite, whose tasks take turns, by point.
    """
    played: dict[tuple[int, int], dict[int, Outcome]] = {}
    of_suite: dict[int, dict[int, Outcome]] = {}
    order = {task: i for i, task in enumerate(tasks)}
    for head in (e.head for e in run.entries):
        number, own, point = head.meta.get(ROUND), named_point(head.task), named_point(head.condition)
        if point is not None and head.task in order:
            of_suite.setdefault(point, {})[head.attempt * len(order) + order[head.task]] = head.outcome
        elif isinstance(number, int) and own is not None:
            played.setdefault((number, own), {})[head.attempt] = head.outcome
    return played, of_suite


def _of_notes(run: Run) -> Iterator[PointOutcomes]:
    decoder = msgspec.json.Decoder(PointOutcomes)
    for name, line in run.notes(EXPLORED):
        try:
            yield decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise Damaged(
                f"{name} of run {run.name!r} cannot be read; run: ethogram verify", where=f"{run.path}/{name}"
            ) from None


def _targets(plans: Mapping[int, Proposal]) -> Iterator[tuple[int, int, int, int]]:
    """Round, point, episodes before, episodes of every target of all plans."""
    before: Counter[int] = Counter()
    for number in sorted(plans):
        for point, count in zip(plans[number].points.tolist(), plans[number].episodes.tolist(), strict=True):
            yield number, point, before[point], count
            before[point] += count
