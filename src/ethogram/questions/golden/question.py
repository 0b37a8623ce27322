"""The check of a golden set: unrecorded changes, contamination, and the health of every task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from ethogram.display import Drawing, Presentation
from ethogram.plans.golden import changes_since
from ethogram.result import Result
from ethogram.store import Home, home_of
from ethogram.suites.frozen import known_golden

from .contamination import Contamination, ContaminationSearch
from .guards import guards_of
from .health import runs_with, task_runs
from .memorised import MemoryProbe
from .task_health import TaskHealth, task_health

CheckVerdict = Literal["alarm", "no alarm", "not measured"]


class GoldenCheck(Result, kw_only=True):
    """A golden set looked at; `verdict` is `alarm` if it changed without a new version or is contaminated.

    `health` has one row per task, over `runs` stored runs that ran it as it is now.
    """

    presentation: ClassVar[Presentation] = Presentation(
        headline="{verdict}: {why}",
        columns=("task", "runs", "attempts", "success", "item_rest", "findings", "advice", "why"),
        drawing=Drawing("task", "success", "pass rate"),
    )

    suite: str
    version: str
    verdict: CheckVerdict
    why: str
    unrecorded: str | None
    contamination: Contamination
    health: list[TaskHealth]
    runs: list[str]
    retire: list[str]
    split: list[str]
    fix: list[str]
    probe: MemoryProbe | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One row per task."""
        return [msgspec.to_builtins(task) for task in self.health]


def golden(
    suite: str,
    *,
    corpus: Sequence[str | Path] = (),
    traces: Sequence[str] = (),
    runs: Sequence[str] = (),
    level: float = 0.95,
    progress: Callable[[str], None] | None = None,
    home: Home | str | None = None,
) -> GoldenCheck:
    """Check a golden set: unrecorded changes, contamination, and the health of its tasks.

    `corpus` are files and folders that a model may have been trained or prompted with, `traces` runs of something else,
    whose messages count as such texts too. `runs` are the runs that health is read from, by default all of the home
    that ran a task as it is now. Gives an answer for every task, or what it takes to have one. Raises `BadUsage` for a
    suite that is not frozen, `NotFound` for a file or a run that does not exist.

    Example: `golden("suite", corpus=["prompts/"]).verdict`
    """
    lake, say = home_of(home), progress or (lambda _: None)
    loaded = known_golden(suite)
    golden = loaded.golden
    assert golden is not None
    changes = changes_since(golden, loaded.suite)
    ran = runs_with(loaded.suite, lake, runs)
    root = loaded.root if loaded.is_folder else Path(loaded.spec)
    search = ContaminationSearch(loaded.suite, golden.canary, root)
    for path in corpus:
        say(f"looking through {path}")
        search.corpus([Path(path)])
    for one in ran:
        say(f"looking through run {one.run.name}")
        search.own_run(one)
    own = {one.run.name for one in ran}
    for name in traces:
        found = lake.resolve(name)
        if found.name not in own:
            say(f"looking through run {found.name}")
            search.other_run(found)
    health = task_health(task_runs(loaded.suite, ran), guards_of(golden.suite, lake), level)
    result = GoldenCheck(
        suite=golden.suite,
        version=golden.version,
        verdict="not measured",
        why="",
        unrecorded=changes.words() if changes else None,
        contamination=search.result(),
        health=health,
        runs=[one.run.name for one in ran],
        retire=[h.task for h in health if h.advice == "retire"],
        split=[h.task for h in health if h.advice == "split"],
        fix=[h.task for h in health if h.advice in ("fix the check", "read the task")],
    )
    return decided(result)


def decided(result: GoldenCheck) -> GoldenCheck:
    """The result with its verdict, from all that was looked at."""
    alarms = []
    if result.unrecorded:
        alarms.append(f"the suite changed without a new version: {result.unrecorded}")
    places = [c.where for c in result.contamination.canaries]
    if places:
        alarms.append(f"the canary was found in {places[0]}" + (f" and {len(places) - 1} more" if places[1:] else ""))
    overlaps = [o for o in result.contamination.overlaps if o.verdict == "contaminated"]
    if overlaps:
        first = overlaps[0]
        more = f" and {len(overlaps) - 1} more" if overlaps[1:] else ""
        alarms.append(f"the {first.part} of {first.task} was found in {first.where}{more}")
    if result.probe is not None and result.probe.remembers:
        known = [row.task for row in result.probe.rows if row.remembered]
        what = f"{len(known)} of {len(result.probe.rows)} tasks" if known else "the canary"
        alarms.append(f"{result.probe.agent} continues {what} from memory")
    probed = result.probe is not None and result.probe.share.value is not None
    if alarms:
        result.verdict, result.why = "alarm", "; ".join(alarms)
    elif result.contamination.measured or probed:
        result.verdict, result.why = "no alarm", "no text of the set was found in the searched files and traces"
    else:
        result.verdict = "not measured"
        result.why = "nothing was searched: give --corpus, --traces or --probe, or run the suite"
    return result
