"""A gate that buys its own attempts: stage by stage, no more than the verdict needs, resumable at any time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from ethogram.errors import BadUsage
from ethogram.harness.environment import Environment
from ethogram.harness.options import AllCaps, RunOptions
from ethogram.harness.planning import planned_attempts, suite_of
from ethogram.harness.suites import resume_run, start_run
from ethogram.measures.outcomes import Ints, Outcomes, turned
from ethogram.prices import Caps, Metering
from ethogram.questions.compare.moved_tasks import Arm, with_traces
from ethogram.questions.compare.question import layers_between
from ethogram.reading.outcomes import load_outcomes
from ethogram.reading.suite_versions import suite_versions
from ethogram.store import Home, Run, home_of
from ethogram.store.lake import CONFIRMATIONS
from ethogram.store.redact import policy_from
from ethogram.suites.golden import golden_mark

from . import allocation
from . import verdict as decided
from .buying_terms import META, Promise
from .confirmation import Again, asked_again, check_allowed, confirm_moved, without_fresh
from .plan import GateSettings
from .quarantine import Quarantined, read_quarantine
from .question import block, gate_result, hold_back, needed_metrics, planning_outcomes
from .refusals import if_not_turned, name_refusals
from .results import GateResult
from .verdict import Judgement


class StageOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the runs are bought; without `base_agent` the baseline is the stored one.

    `allow_tasks` names tasks that may be confirmed to have broken without blocking.
    """

    suite: str | None = None
    agent: str | None = None
    base_agent: str | None = None
    max_runs: int | None = None
    max_usd: float | None = None
    workers: int = 8
    engine: str = "local"
    environment: Environment = Environment()
    capture: str = "auto"
    metering: Metering = Metering()
    allow_tasks: tuple[str, ...] = ()
    trust_judge: bool = False
    seed: int = 0
    redact: str = "default"


def run_gate(
    base: str,
    candidate: str,
    settings: GateSettings,
    stages: StageOptions,
    *,
    home: Home | str | None = None,
    condition: str | None = None,
    quarantine: str | Path | Sequence[Quarantined] = (),
    progress: Callable[[str], None] | None = None,
) -> GateResult:
    """Run the candidate (and with `base_agent` the baseline too) look by look until there is a verdict.

    `condition` says which one of a stored baseline is meant, where it has several.
    """
    lake = home_of(home)
    settings = msgspec.structs.replace(settings, fresh=stages.base_agent is not None).checked()
    resting = read_quarantine(quarantine) if isinstance(quarantine, str | Path) else list(quarantine)
    stored = None
    if not settings.fresh:
        # once: `latest` means another run as soon as the candidate exists
        found = lake.resolve(base)
        before = load_outcomes(found, condition=condition, metrics=needed_metrics(settings))
        base, stored = found.name, Stored(found, before, condition)
    return _Staged(lake, (base, candidate), stored, settings, stages, resting, progress or (lambda _: None)).go()


class Stored(NamedTuple):
    """A baseline that is there already, read once; `condition` says which of its episodes count."""

    run: Run
    outcomes: Outcomes
    condition: str | None


class _Staged:
    """One gate at work: which runs there are, which look is next."""

    def __init__(
        self,
        home: Home,
        names: tuple[str, str],
        stored: Stored | None,
        settings: GateSettings,
        stages: StageOptions,
        resting: list[Quarantined],
        tell: Callable[[str], None],
    ) -> None:
        self.home, self.stored = home, stored
        self.base, self.candidate = names
        self.settings, self.stages, self.resting, self.tell = settings, stages, resting, tell
        self.suite = self._suite()
        self.loaded = suite_of(self.suite)
        self._check_suite()
        away = {q.task for q in resting if not q.expired}
        known = {t.id for t in self.loaded.suite.tasks}
        before = stored.outcomes if stored else None
        tasks = [t for t in (before.tasks if before else sorted(known)) if t in known and t not in away]
        if not tasks:
            raise BadUsage(
                f"suite {self.suite!r} and run {self.base!r} have no task in common that is not in quarantine"
            )
        check_allowed(stages.allow_tasks, tasks)
        if before is not None:
            self.settings = settings = self._informative_settings(before, tuple(tasks))
        self.plan = allocation.plan_gate(planning_outcomes(settings, before, home), settings, tuple(tasks))

    def _informative_settings(self, before: Outcomes, tasks: tuple[str, ...]) -> GateSettings:
        """The settings with the order in which runs are bought: that of the run, if it was begun already."""
        begun = None
        if self.candidate in self.home.names():
            begun = self.home.resolve(self.candidate).info.meta.get(META)
        if begun is None:
            return allocation.informative_settings(before, self.settings, tasks)
        ahead = msgspec.json.decode(str(begun), type=Promise).settings.ahead
        return msgspec.structs.replace(self.settings, ahead=ahead)

    def go(self) -> GateResult:
        """Look after look."""
        self._check_settings()
        due = self.plan.attempts()
        found, stopped = None, False
        for k, wanted in enumerate(due):
            if self._too_many(wanted):
                self.tell(
                    f"look {k + 1} would need {self._runs(wanted)} attempts, more than --max-runs; stopped before it"
                )
                break
            stopped = any(self._ensure(name, wanted) for name in self._arms())
            found = self._judge()
            self.tell(f"look {k + 1} of {len(due)}: {found.verdict}, {found.why}")
            if stopped or found.verdict != "undecided":
                break
        found = found or self._judge()
        result = gate_result(
            self.base,
            self.candidate,
            self._looked(),
            self.settings,
            self.plan,
            found,
            self.resting,
        )
        base = Arm(self.home.resolve(self.base), self.stored.condition if self.stored else None)
        candidate = Arm(self.home.resolve(self.candidate))
        result.tasks = with_traces(result.tasks, base, candidate, self.settings.metric)
        if self.settings.confirm and found.looks and not stopped:
            self._try_again(result, found)
        one, two = self._outcomes()
        if self.settings.metric == "success":
            arms = Arm(self.home.resolve(self.base), base.condition), Arm(self.home.resolve(self.candidate))
            result.layers = layers_between(arms, (one, two), tasks=self.plan.tasks, level=1 - self.settings.alpha)
        asked = asked_again(self.home.resolve(self.candidate))
        lenient = turned(one, two, "regression", self.settings.metric) or (one, two)
        block(result, confirm_moved(*lenient, asked, self.settings.confirm_alpha, self.stages.allow_tasks))
        runs = self.home.resolve(self.candidate), self.home.resolve(self.base)
        name_refusals(result, one.only(self.plan.tasks), two.only(self.plan.tasks))
        hold_back(result, runs, trust_judge=self.stages.trust_judge)
        result.suite = suite_versions(runs[1], runs[0])
        return result

    def _suite(self) -> str:
        if self.stages.agent is None and self.candidate not in self.home.names():
            raise BadUsage("--buy needs the candidate agent: give --agent")
        if self.stages.suite is not None:
            return self.stages.suite
        named = None
        if self.stored is not None:
            named = self.stored.run.info.plan.get("suite")
        elif self.base in self.home.names():
            named = self.home.resolve(self.base).info.plan.get("suite")
        if not named:
            raise BadUsage(f"run {self.base!r} does not say which suite it ran; give --suite")
        return str(named)

    def _check_suite(self) -> None:
        """Before anything is bought: scores of different versions of a suite mean different things."""
        mark = golden_mark(self.loaded.golden, self.loaded.suite)
        if mark is not None and mark.unrecorded:
            raise BadUsage(
                f"the suite {self.suite!r} has changes that version {mark.version} does not have "
                f"({mark.unrecorded.words()}); record them with: ethogram golden freeze {self.suite} --why REASON"
            )
        if self.stored is None:
            return
        digest = self.stored.run.info.plan.get("suite_digest")
        if digest and digest != self.loaded.suite.digest:
            raise BadUsage(
                f"{self.base!r} ran the suite at {str(digest)[:15]} and {self.suite!r} is at "
                f"{self.loaded.suite.digest[:15]} now: restore it, or run the baseline again"
            )

    def _arms(self) -> list[str]:
        """Runs that are bought, the baseline first: both see the same hour."""
        return [self.base, self.candidate] if self.settings.fresh else [self.candidate]

    def _check_settings(self) -> None:
        """A run that was begun with other settings is not continued: that would be choosing after looking."""
        for name in self._arms():
            if name not in self.home.names():
                continue
            run = self.home.resolve(name)
            begun = run.info.meta.get(META)
            if begun is None:
                raise BadUsage(
                    f"run {name!r} exists and was not made by a gate; judge it without --buy, or choose a name"
                )
            broken = msgspec.json.decode(str(begun), type=Promise).broken(self._promise())
            if broken is not None:
                raise BadUsage(f"run {name!r} was begun with other settings: {broken}; use those, or another name")

    def _promise(self) -> Promise:
        away = sorted({q.task for q in self.resting if not q.expired})
        before = None if self.stored is None else int(self.stored.outcomes.only(self.plan.tasks).attempts.sum())
        return Promise(
            base=self.base, settings=self.settings, quarantined=away, baseline=before, tasks=list(self.plan.tasks)
        )

    def _runs(self, due: Ints) -> int:
        return int(due.sum()) * len(self._arms())

    def _too_many(self, due: Ints) -> bool:
        return self.stages.max_runs is not None and self._runs(due) > self.stages.max_runs

    def _ensure(self, name: str, due: Ints) -> bool:
        """Run what this look needs of one arm; True if something stopped it."""
        stopped = False
        for count in sorted({int(n) for n in due if n > 0}):
            tasks = tuple(t for t, n in zip(self.plan.tasks, due, strict=True) if n == count)
            stopped = stopped or self._buy(name, count, tasks)
        return stopped

    def _buy(self, name: str, count: int, tasks: tuple[str, ...]) -> bool:
        agent = self.stages.base_agent if name == self.base else self.stages.agent
        # the dollars are for all arms together
        money = self.stages.max_usd
        caps = AllCaps(experiment=Caps(usd=None if money is None else money / len(self._arms())))
        if name not in self.home.names():
            assert agent is not None
            options = RunOptions(
                name=name,
                k=count,
                tasks=tasks,
                seed=self.stages.seed,
                engine=self.stages.engine,
                workers=self.stages.workers,
                redact=self.stages.redact,
                environment=self.stages.environment,
                capture=self.stages.capture,
                metering=self.stages.metering,
                caps=caps,
                meta={META: self._promise().text()},
            )
            begun = start_run(self.suite, agent, options, home=self.home)
            begun.check_caps_kept()
            return begun.stopped is not None
        run = self.home.resolve(name)
        have = planned_attempts(run, self.loaded, RunOptions.stored(run.info.plan))
        short = tuple(t for t in tasks if have.get(t, 0) < count)
        result = resume_run(
            name,
            k=count if short else None,
            tasks=short,
            workers=self.stages.workers,
            caps=None if money is None else caps,
            environment=self.stages.environment,
            capture=self.stages.capture,
            metering=self.stages.metering,
            suite=self.suite,
            agent=agent,
            home=self.home,
        )
        result.check_caps_kept()
        return result.stopped is not None

    def _outcomes(self) -> tuple[Outcomes, Outcomes]:
        if self.candidate not in self.home.names():
            raise BadUsage("the first look needs more attempts than --max-runs allows; nothing was run")
        metrics = needed_metrics(self.settings)
        one = self.stored.outcomes if self.stored else load_outcomes(self.home.resolve(self.base), metrics=metrics)
        return one, load_outcomes(self.home.resolve(self.candidate), metrics=metrics)

    def _looked(self) -> tuple[Outcomes, Outcomes]:
        """What looks judge: all but the attempts that were made to confirm."""
        one, two = self._outcomes()
        return one, without_fresh(two, asked_again(self.home.resolve(self.candidate)))

    def _judge(self) -> Judgement:
        judge = partial(decided.judgement, plan=self.plan, settings=self.settings)
        one, two = self._looked()
        return if_not_turned(judge(one, two), one, two, self.settings.metric, judge)

    def _try_again(self, result: GateResult, found: Judgement) -> None:
        """Attempt what moved for the worse again; what is fresh is noted before the first of it runs."""
        run = self.home.resolve(self.candidate)
        at = dict(zip(self.plan.tasks, found.attempts, strict=True))
        asked = asked_again(run)
        worse = [t.task for t in result.evidence.moved if (t.difference or 0.0) < 0]
        tasks = list(asked) or worse
        if not tasks or self.settings.metric != "success":
            return
        more = self.settings.confirm
        if self.stages.max_runs is not None:
            more = min(more, (self.stages.max_runs - self._runs(np.array(found.attempts))) // len(tasks))
        if more < 1:
            self.tell(f"{len(tasks)} tasks moved, but --max-runs leaves no attempts to confirm them")
            return
        if not asked:
            notes = [msgspec.json.encode(Again(task=t, first=at[t])) for t in tasks]
            with run.writer(self.home.redactor(policy_from(self.stages.redact)), seal=False, window=None) as writer:
                writer.note(CONFIRMATIONS, notes)
            run.forget_cache()
        for task in tasks:
            self._buy(self.candidate, asked.get(task, at[task]) + more, (task,))
