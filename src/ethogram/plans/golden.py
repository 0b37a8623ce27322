"""Golden sets: a suite frozen at a version, what changed since, and the version that the change asks for. Inert.

A removed task or a changed demand makes scores mean something else: a new major version. An added task is a minor one,
and words alone (a prompt, notes in `meta`) are a patch. Scores of different versions are not compared at all; the
number only tells readers how much changed.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from ethogram.display.shorten import shortened_list
from ethogram.errors import BadInput
from ethogram.traces import digest

from .task import Suite, Task

Bump = Literal["major", "minor", "patch"]
CODE_DIGESTS = ("tools_digest", "simulator_digest")
"""Entries of a task's `meta` that stand for code, not for words."""
FIRST_VERSION = "1.0.0"
REVISED = "changed checks, files, tools or rules of"
"""How a sentence begins about tasks whose scores mean something else now."""
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")


class FrozenTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task as it was frozen: the hash of all of it, and of all but its words."""

    digest: str
    demands: str


class SuiteChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two states of a suite, as task ids; `renamed`: only its name, its own version or its order
    differs."""

    added: list[str] = []
    removed: list[str] = []
    changed: list[str] = []
    reworded: list[str] = []
    renamed: bool = False

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.reworded or self.renamed)

    @property
    def bump(self) -> Bump | None:
        """The part of the version that grows; None where nothing changed."""
        if self.removed or self.changed:
            return "major"
        if self.added:
            return "minor"
        return "patch" if self else None

    def words(self, most: int = 5) -> str:
        """For a sentence: `added milk; changed wording of tea`."""
        told = [
            f"{what} {shortened_list(tasks, most)}"
            for what, tasks in (
                ("added", self.added),
                ("removed", self.removed),
                (REVISED, self.changed),
                ("changed wording of", self.reworded),
            )
            if tasks
        ]
        return "; ".join(told) or ("another name or order" if self.renamed else "nothing")


class GoldenChange(msgspec.Struct, frozen=True, kw_only=True):
    """One version: when it was made, by whom, why, and what changed since the one before."""

    version: str
    at: str
    by: str
    why: str
    digest: str
    changes: SuiteChanges


class GoldenSet(msgspec.Struct, frozen=True, kw_only=True):
    """A suite frozen at a version, and the history of all versions, the oldest first.

    `canary` is a text that stands nowhere else: a model that knows it has seen the set.
    """

    schema_version: int = 1
    suite: str
    version: str
    digest: str
    canary: str
    tasks: dict[str, FrozenTask]
    history: list[GoldenChange]


class GoldenMark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run keeps of the golden set that it ran: the version, and what had changed without a new one."""

    version: str
    unrecorded: SuiteChanges | None = None


def frozen_tasks(suite: Suite) -> dict[str, FrozenTask]:
    """The hashes of every task of a suite."""
    return {t.id: FrozenTask(digest=suite.task_digest(t), demands=_demands(suite, t)) for t in suite.tasks}


def _demands(suite: Suite, task: Task) -> str:
    code = {name: task.meta[name] for name in CODE_DIGESTS if name in task.meta}
    return suite.task_digest(msgspec.structs.replace(task, prompt="", meta=code))


def changes_since(golden: GoldenSet, suite: Suite) -> SuiteChanges:
    """What a suite is now, against what was frozen."""
    if suite.digest == golden.digest:
        return SuiteChanges()
    before, now = golden.tasks, frozen_tasks(suite)
    both = [task for task in now if task in before]
    found = SuiteChanges(
        added=[task for task in now if task not in before],
        removed=[task for task in before if task not in now],
        changed=[task for task in both if now[task].demands != before[task].demands],
        reworded=[
            task
            for task in both
            if now[task].digest != before[task].digest and now[task].demands == before[task].demands
        ],
    )
    return found if found else SuiteChanges(renamed=True)


def digest_changes(before: dict[str, str], after: dict[str, str]) -> SuiteChanges:
    """What differs between two lists of task digests, which do not tell words from demands."""
    return SuiteChanges(
        added=[task for task in after if task not in before],
        removed=[task for task in before if task not in after],
        changed=[task for task in after if task in before and after[task] != before[task]],
    )


def next_version(version: str, bump: Bump) -> str:
    """The version after this one; raises `BadInput` for one that is not `MAJOR.MINOR.PATCH`."""
    major, minor, patch = parsed_version(version)
    if bump == "major":
        return f"{major + 1}.0.0"
    return f"{major}.{minor + 1}.0" if bump == "minor" else f"{major}.{minor}.{patch + 1}"


def parsed_version(version: str) -> tuple[int, int, int]:
    """The three numbers of a semantic version; raises `BadInput` for anything else."""
    found = _VERSION.fullmatch(version)
    if found is None:
        raise BadInput(
            f"{version!r} is not a version of a golden set; versions are MAJOR.MINOR.PATCH, such as 1.0.0",
            where=version,
        )
    return int(found[1]), int(found[2]), int(found[3])


def first_frozen(suite: Suite, version: str, change: dict[str, Any], canary: str) -> GoldenSet:
    """A suite frozen for the first time; `change` tells `at`, `by` and `why`."""
    parsed_version(version)
    tasks = frozen_tasks(suite)
    first = GoldenChange(version=version, digest=suite.digest, changes=SuiteChanges(added=list(tasks)), **change)
    return GoldenSet(
        suite=suite.name, version=version, digest=suite.digest, canary=canary, tasks=tasks, history=[first]
    )


def frozen_again(golden: GoldenSet, suite: Suite, change: dict[str, Any]) -> GoldenSet:
    """The next version of a golden set; `change` tells `at`, `by` and `why`. Raises `BadInput` if nothing changed."""
    changes = changes_since(golden, suite)
    if changes.bump is None:
        raise BadInput(
            f"nothing changed since version {golden.version} of {golden.suite!r}",
            where=f"the golden set {golden.suite!r}",
        )
    version = next_version(golden.version, changes.bump)
    latest = GoldenChange(version=version, digest=suite.digest, changes=changes, **change)
    return msgspec.structs.replace(
        golden,
        suite=suite.name,
        version=version,
        digest=suite.digest,
        tasks=frozen_tasks(suite),
        history=[*golden.history, latest],
    )


def history_problem(golden: GoldenSet) -> str | None:
    """Why a history cannot be what was written; None where it fits to the set."""
    if not golden.history:
        return "it has no history"
    last = golden.history[-1]
    if (last.version, last.digest) != (golden.version, golden.digest):
        return f"its history ends with {last.version} at {last.digest[:15]}, not with {golden.version}"
    known: set[str] = set()
    version: tuple[int, int, int] | None = None
    for entry in golden.history:
        number = parsed_version(entry.version)
        if version is not None and number <= version:
            return f"version {entry.version} does not follow its predecessor"
        if not entry.why.strip():
            return f"version {entry.version} has no reason"
        version = number
        known = (known | set(entry.changes.added)) - set(entry.changes.removed)
    if known != set(golden.tasks):
        odd = sorted(known ^ set(golden.tasks))[0]
        return f"its history and its tasks disagree about {odd!r}"
    return None


def new_canary(name: str, random: str) -> str:
    """The canary of a set: words that people find too, and what no one else wrote."""
    return f"ethogram-golden-canary {digest('canary', name, random).removeprefix('b2:')[:32]}"
