"""One verdict for a whole suite, and one for each task: for tests, which people follow by name."""

from __future__ import annotations

import math

import msgspec

from ethogram.display.shorten import shortened_list
from ethogram.measures.outcomes import turned
from ethogram.questions.compare.question import load_pair
from ethogram.store import Home, Run
from ethogram.store.lake import TASK_DIGESTS

from .confirmation import Confirmation, confirm_moved
from .plan import GateSettings
from .question import call_regression, gate_runs, needed_metrics
from .results import GateResult, Needed
from .verdict import not_attempted

SHOWN = 5
"""How many tasks a sentence names."""


class EachTask(msgspec.Struct, frozen=True, kw_only=True):
    """The gate's verdict, and the exact test of every task that both runs have in the same version.

    `changed` tasks are another version of themselves, `gone` ones were not attempted, `new` ones have no baseline. With
    the attempts that there are, a task can fail by itself only from `least` attempts on each side.
    """

    gate: GateResult
    tasks: list[Confirmation]
    changed: list[str]
    gone: list[str]
    new: list[str]
    least: int

    @property
    def broken(self) -> list[Confirmation]:
        """The tasks that fail by themselves."""
        return [t for t in self.tasks if t.confirmed]


def gate_each_task(
    base: str | Run, candidate: str | Run, settings: GateSettings, *, home: Home | str | None = None
) -> EachTask:
    """The gate on two stored runs, and beside it every task by its exact test, Holm over all of them.

    The two share alpha as the gate and its confirmations do: of .05 the verdict spends .045, single tasks .005. The
    tasks are all judged by all of their attempts, so none is chosen for its outcome. A pass needs every task of the
    baseline in the same version. Raises what `gate` raises.

    Example: `gate_each_task("main", "new-prompt", GateSettings(margin=0.1)).gate.verdict`
    """
    settings = msgspec.structs.replace(settings, confirm=max(settings.confirm, 1))
    metrics = needed_metrics(settings)
    one, two, (before, after) = load_pair(base, candidate, home=home, metrics=metrics, common_tasks=True)
    result = gate_runs(one, two, settings, home=home, common_tasks=True)
    shared = [t for t in before.tasks if t in set(after.tasks)]
    lenient = turned(before, after, "regression", settings.metric) or (before, after)
    tested = confirm_moved(*lenient, dict.fromkeys(shared, 0), settings.confirm_alpha)
    if broken := [t for t in tested if t.confirmed]:
        call_regression(result, _broken_words(broken))
    then, now = (dict(run.info.plan.get(TASK_DIGESTS) or {}) for run in (one, two))
    changed = [t for t in then if now.get(t, then[t]) != then[t]]
    gone = [t for t in then if t not in after.tasks and t not in changed]
    if result.verdict == "pass" and (left := [*gone, *changed]):
        why = f"{result.evidence.why}; but {not_attempted(left)}"
        result.evidence = msgspec.structs.replace(result.evidence, why=why)
        result.verdict = "undecided"
        result.needed = Needed(runs=None, next_look_runs=None, cost_usd=None, why="run every task, or a new baseline")
    new = [t for t in now if t not in then]
    result.warnings += [
        f"{words}: {', '.join(names[:SHOWN])}{', …' if len(names) > SHOWN else ''}"
        for names, words in ((changed, "changed, so not compared"), (gone, "not run"), (new, "not in the baseline"))
        if names
    ]
    return EachTask(
        gate=result,
        tasks=tested,
        changed=changed,
        gone=gone,
        new=new,
        least=_least_attempts(settings.confirm_alpha / max(len(shared), 1)),
    )


def _broken_words(broken: list[Confirmation]) -> str:
    named = [f"{t.task} ({t.base:.2g} → {t.again:.2g} in {t.attempts} attempts)" for t in broken]
    who = "a task got worse by itself" if len(broken) == 1 else f"{len(broken)} tasks got worse by themselves"
    return f"{who}: {shortened_list(named, SHOWN)}"


def _least_attempts(alpha: float) -> int:
    """How many attempts of each version let a task that always passed and now never does fail by itself.

    Its exact p is then one in the number of ways to choose which half failed.
    """
    return next(k for k in range(1, 10_000) if 1 / math.comb(2 * k, k) <= alpha)
