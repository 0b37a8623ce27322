"""A batch: many episodes of one task as one entry of the ledger, their outcomes packed, a letter each.

Episodes of a world that is played thousands of times per second leave no trace worth keeping; an entry each would take
more room and time than playing them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from ethogram.plans import hashed_seeds
from ethogram.traces import EpisodeId, Param, Reason

SUCCESS, FAILURE, MISSING = "1", "0", "-"
SCORED = "scored"


class Batch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="batch", gc=False):
    """Episodes of one task under one condition; `outcomes` has a letter for each.

    The letters are `1` for success, `0` for failure and `-` for a missing outcome. The `id` names what was asked; of
    two batches with one id the first counts. Attempts are numbered from `first`; `by` names who scored them,
    `missing` says why the missing ones are. With `seeds`, the seed of the i-th episode is the BLAKE2b of
    `{seeds}:{i}` with 8 bytes, little-endian. The commit fills in `at_ns`.
    """

    id: EpisodeId
    task: str
    outcomes: str
    first: int = 0
    condition: str = ""
    agent: str = ""
    by: str = ""
    seeds: str | None = None
    missing: Reason | None = None
    meta: dict[str, Param] = {}
    at_ns: int = 0

    def __post_init__(self) -> None:
        """Refuse letters that mean nothing, and missing outcomes without a reason."""
        if self.outcomes.strip("10-"):
            raise ValueError(f"outcomes of a batch are 1, 0 or -, not {self.outcomes.strip('10-')[:1]!r}")
        if self.missing is None and MISSING in self.outcomes:
            raise ValueError("a batch with missing outcomes says why they are missing")

    def __len__(self) -> int:
        return len(self.outcomes)

    def episode(self, i: int) -> EpisodeId:
        """The id of its i-th episode."""
        return EpisodeId(f"{self.id}:{i}")

    def seed_list(self) -> list[int | None]:
        """The seeds of all its episodes; None where it has no recipe."""
        if self.seeds is None:
            return [None] * len(self)
        return [*hashed_seeds(self.seeds, len(self))]


def distinct(batches: Iterable[Batch]) -> tuple[Batch, ...]:
    """Batches that count, of all in order of commit: the first with each id."""
    found: dict[str, Batch] = {}
    for batch in batches:
        found.setdefault(batch.id, batch)
    return tuple(found.values())


def tally(batches: Iterable[Batch]) -> Counter[str]:
    """How many episodes are scored, and how many are missing for each reason."""
    found: Counter[str] = Counter()
    for batch in batches:
        missing = batch.outcomes.count(MISSING)
        found[SCORED] += len(batch) - missing
        if missing and batch.missing is not None:
            found[batch.missing] += missing
    return found


def traceless(batches: Iterable[Batch]) -> str:
    """Words about episodes that are recorded in batches, for those who look for traces; empty where there are none."""
    count = sum(map(len, batches))
    return f"{count:,} episodes are recorded in batches, without traces" if count else ""
