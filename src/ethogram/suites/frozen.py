"""Suites that were frozen as golden sets: read with their set, or refused."""

from __future__ import annotations

from ethogram.errors import BadUsage
from ethogram.plans.golden import GoldenSet, changes_since

from .load import LoadedSuite, load_suite


def known_golden(suite: str) -> LoadedSuite:
    """A suite that was frozen; raises `BadUsage` for one that was not."""
    loaded = load_suite(suite)
    if loaded.golden is None:
        raise BadUsage(f"the suite {suite!r} is not frozen; begin with: ethogram golden freeze {suite}")
    return loaded


def unchanged_golden(suite: str) -> tuple[LoadedSuite, GoldenSet]:
    """A frozen suite without unrecorded changes; raises `BadUsage` for any other."""
    loaded = known_golden(suite)
    assert loaded.golden is not None
    changes = changes_since(loaded.golden, loaded.suite)
    if changes:
        raise BadUsage(
            f"the suite {suite!r} has changes that version {loaded.golden.version} does not have ({changes.words()}); "
            f"record them first with: ethogram golden freeze {suite} --why REASON"
        )
    return loaded, loaded.golden
