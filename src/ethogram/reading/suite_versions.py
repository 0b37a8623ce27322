"""Versions of a suite in two runs: scores of different versions are not mixed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ethogram.errors import BadUsage
from ethogram.plans.golden import REVISED, GoldenMark, SuiteChanges, digest_changes
from ethogram.store import Run
from ethogram.store.files import LocalFiles
from ethogram.store.lake import GOLDEN, TASK_DIGESTS


class RanSuite(msgspec.Struct, frozen=True, kw_only=True):
    """The suite of one run; `version` is that of the golden set, None where the suite was not frozen.

    `unrecorded` is what had changed in a frozen suite without a new version, in words.
    """

    run: str
    name: str
    digest: str
    version: str | None = None
    unrecorded: str | None = None

    def __str__(self) -> str:
        """`shop 1.2.0 (b2:0123456789ab)`."""
        version = f" {self.version}" if self.version is not None else ""
        edited = f", edited since ({self.unrecorded})" if self.unrecorded else ""
        return f"{self.name}{version} ({self.digest[:15]}{edited})"


class SuiteVersions(msgspec.Struct, frozen=True, kw_only=True):
    """The suites of two runs; `same` tasks have equal content in both, None where unknown.

    `differ` is what changed from the first to the second, empty where nothing did.
    """

    base: RanSuite
    candidate: RanSuite
    same: int | None
    differ: str = ""


def ran_suite(run: Run) -> RanSuite | None:
    """The suite that a run was made with; None for logs without one."""
    plan = run.info.plan
    known = plan.get("suite_digest")
    if not known:
        return None
    mark = golden_mark_of(plan)
    return RanSuite(
        run=run.name,
        name=str(plan.get("suite_name", "a suite")),
        digest=str(known),
        version=mark.version if mark is not None else None,
        unrecorded=mark.unrecorded.words() if mark is not None and mark.unrecorded else None,
    )


def golden_mark_of(plan: dict[str, Any]) -> GoldenMark | None:
    """What a plan keeps of its golden set; None where the suite was not frozen."""
    given = plan.get(GOLDEN)
    return None if given is None else msgspec.convert(given, GoldenMark)


def suite_versions(one: Run, two: Run) -> SuiteVersions | None:
    """The suite versions of two runs; None where one of them has no suite."""
    base, candidate = ran_suite(one), ran_suite(two)
    if base is None or candidate is None:
        return None
    digests = _digests(one), _digests(two)
    if base.digest == candidate.digest:
        return SuiteVersions(base=base, candidate=candidate, same=len(digests[0]) or None)
    if not all(digests):
        return SuiteVersions(base=base, candidate=candidate, same=None, differ="what differs was not kept")
    changes = digest_changes(*digests)
    same = len(_same(*digests))
    return SuiteVersions(base=base, candidate=candidate, same=same, differ=_words(changes))


def refuse_itself(one: Run, two: Run) -> None:
    """Refuse to compare a run with itself; raises `BadUsage`."""
    if one.path == two.path and one.files.address == two.files.address:
        raise BadUsage(f"run {one.name!r} would be compared with itself; name two runs", value=one.name)


def comparable_tasks(one: Run, two: Run, *, common_tasks: bool) -> frozenset[str] | None:
    """The tasks on which two runs may be compared; None for all of them.

    Raises `BadUsage` for different versions, unless only the tasks in common are asked for.
    """
    versions = suite_versions(one, two)
    if versions is None:
        return None
    if versions.base.digest == versions.candidate.digest:
        return None
    said = f"{one.name!r} ran {versions.base} and {two.name!r} ran {versions.candidate}"
    if not common_tasks:
        helps = "run one of them again"
        if versions.same:
            helps += f", or give --common-tasks to compare the {versions.same} tasks that are the same in both"
        raise BadUsage(f"{said}: {versions.differ}; scores of different versions are not compared; {helps}")
    if versions.same is None:
        old = next(run.name for run in (one, two) if not _digests(run))
        raise BadUsage(f"{said}: run {old!r} does not record the content of its tasks; run it again to compare")
    if not versions.same:
        raise BadUsage(f"{said}: no task is the same in both; {versions.differ}")
    return _same(_digests(one), _digests(two))


def refuse_unrecorded(versions: SuiteVersions) -> None:
    """A verdict must not rest on a frozen suite that somebody edited without a new version."""
    for side in (versions.base, versions.candidate):
        if side.unrecorded:
            raise BadUsage(
                f"{side.run!r} ran {side.name} with changes that version {side.version} does not have "
                f"({side.unrecorded}); record them with: ethogram golden freeze SUITE --why REASON, and run it again"
            )


def _digests(run: Run) -> dict[str, str]:
    found = run.info.plan.get(TASK_DIGESTS)
    return dict(found) if isinstance(found, dict) else {}


def _same(before: dict[str, str], after: dict[str, str]) -> frozenset[str]:
    return frozenset(task for task, known in before.items() if after.get(task) == known)


def _words(changes: SuiteChanges) -> str:
    return changes.words().replace(REVISED, "changed") if changes else "another name, version or order"


def own_suite(run: Run) -> str | None:
    """The suite that a run was made with, as it was typed; from another folder, where it lies beside the home."""
    suite = run.info.plan.get("suite")
    if not isinstance(suite, str):
        return None
    near = [*run.files.root.parents[:2]] if isinstance(run.files, LocalFiles) else []
    return next((str(place) for place in (Path(suite), *(p / suite for p in near)) if place.exists()), suite)
