"""Paired experiments: clean and disturbed runs with the same seeds, on copies, one change at a time."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import msgspec

from ethogram.errors import BadUsage
from ethogram.harness.agents import Agent, ScriptedAgent, load_agent
from ethogram.harness.options import RunOptions
from ethogram.harness.planning import RunPlan, agent_for, chosen_tasks, fresh_name, is_captured, suite_of
from ethogram.harness.run_result import RunResult, Watcher
from ethogram.harness.suites import plan_run, resume_run, start_run
from ethogram.measures.noise_floor import USUAL_RERUNS
from ethogram.plans import Condition
from ethogram.questions.experiment.question import experiment_results
from ethogram.questions.experiment.records import ExperimentResults, NotApplied, Treatment
from ethogram.result import Result
from ethogram.store import Home, Run, home_of, manifest
from ethogram.store.files import LocalFiles

from .experiment_files import Question, suite_of_files
from .treatments import PlannedChange, Wishes, treat


class ExperimentPlan(Result, kw_only=True):
    """What would be run: nothing was called."""

    suite: str
    agent: str
    k: int
    reruns: int
    conditions: list[str]
    changes: list[PlannedChange]
    not_applicable: list[NotApplied]
    episodes: int
    cost_usd_at_most: float | None
    why: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One row per change."""
        return [msgspec.to_builtins(c) for c in self.changes]


class Experiment:
    """`Experiment(files=["sales.csv"], question="…", expected="42", agent="a.py:solve").run()`.

    `files` or a whole `suite`; `operators` by name, by default all that fit the files; `k` pairs per operator;
    `noise_floor` re-runs of the clean task (5 for outside agents, none for a scripted one); `intensities` make a
    dose-response; `tools` narrows operators on tools to some of them. `print(experiment.run().summary())` shows the
    result.
    """

    def __init__(
        self,
        *,
        agent: str | Agent | Callable[..., Any],
        files: Sequence[str | Path] | str | Path = (),
        question: str = "",
        expected: Any = None,
        suite: str | Path | None = None,
        operators: Sequence[str] = (),
        k: int = 1,
        noise_floor: int | None = None,
        intensities: Sequence[float] = (1.0,),
        tools: Sequence[str] = (),
        score: str = "equality",
        seed: int = 0,
        run: str | None = None,
        options: RunOptions | None = None,
        home: Home | str | None = None,
    ) -> None:
        """Everything is checked here; nothing is run."""
        self.home = home_of(home)
        self.agent = agent
        self.k = k
        acting = agent_for(agent, options or RunOptions())
        self.deterministic = isinstance(acting, ScriptedAgent)
        self.noise_floor = (0 if self.deterministic else USUAL_RERUNS) if noise_floor is None else noise_floor
        self.session: RunResult | None = None
        _check(k, self.noise_floor, run, options)
        listed = [files] if isinstance(files, str | Path) else list(files)
        base = Path(suite).name if suite is not None else Path(listed[0]).stem if listed else "files"
        self.name = run or fresh_name(self.home, f"perturb-{base}")
        begun = self.home.run(self.name) if self.name in self.home.names() else None
        if suite is None:
            asked = Question(files=tuple(map(Path, listed)), text=question, expected=expected, score=score)
            self.suite = str(suite_of_files(_place(self.home), self.name, asked, begun=begun is not None))
            _local(self.home).adopt(Path(self.suite))
        elif listed or question or expected is not None or score != "equality":
            raise BadUsage("a suite has files, questions, answers and checks of its own; give either it or those")
        else:
            self.suite = str(suite)
        self._copied = None if suite is not None or begun is not None else Path(self.suite)
        try:
            wishes = Wishes(
                operators=tuple(operators),
                intensities=tuple(intensities),
                tools=tuple(tools),
                k=k,
                seed=seed,
                captured=is_captured(acting, options or RunOptions()),
            )
            self._treat(wishes, options)
        except BaseException:
            self.discard()
            raise
        if begun is not None:
            self._check_same(begun)

    def _treat(self, wishes: Wishes, options: RunOptions | None) -> None:
        """Choose the tasks, and try every change on them."""
        self.loaded = suite_of(self.suite)
        settled = msgspec.structs.replace(
            options or RunOptions(), k=self.k + self.noise_floor, seed=wishes.seed, name=self.name
        )
        chosen = chosen_tasks(self.loaded.suite, settled)
        self.treated = treat(self.loaded, [t for t in self.loaded.suite.tasks if t.id in chosen], wishes)
        self.options = msgspec.structs.replace(settled, conditions=(Condition(), *self.treated.conditions))

    def discard(self) -> None:
        """Remove the copies of the files that were made for this experiment, unless a run uses them."""
        if self._copied is not None and self.name not in self.home.names():
            shutil.rmtree(self._copied, ignore_errors=True)

    @property
    def treatments(self) -> list[Treatment]:
        """What is done to which tasks."""
        return self.treated.treatments

    @property
    def not_applicable(self) -> list[NotApplied]:
        """What cannot be done, and why."""
        return self.treated.refused

    def plan(self) -> ExperimentPlan:
        """The plan with its price; nothing is called."""
        planned: RunPlan = plan_run(self.suite, self.agent, self.options)
        return ExperimentPlan(
            suite=planned.suite,
            agent=planned.agent,
            k=self.k,
            reruns=self.noise_floor,
            conditions=[c.name for c in self.treated.conditions],
            changes=self.treated.changes,
            not_applicable=self.treated.refused,
            episodes=planned.planned if self.treatments else 0,
            cost_usd_at_most=planned.cost_usd_at_most,
            why=planned.why,
        )

    @overload
    def run(self, *, dry_run: Literal[True], progress: Watcher | None = None) -> ExperimentPlan: ...

    @overload
    def run(self, *, dry_run: Literal[False] = False, progress: Watcher | None = None) -> ExperimentResults: ...

    def run(self, *, dry_run: bool = False, progress: Watcher | None = None) -> ExperimentPlan | ExperimentResults:
        """Run all pairs and give the results; a run of this name that was stopped is continued."""
        if dry_run:
            return self.plan()
        if not self.treatments:
            self.discard()
            reasons = dict.fromkeys(f"{r.operator}: {r.why}" for r in self.not_applicable)
            raise BadUsage(f"no operator can change anything here ({'; '.join(list(reasons)[:3])}); nothing was run")
        if self.name in self.home.names():
            self.session = resume_run(
                self.name,
                suite=self.suite,
                agent=self.agent,
                engine=self.options.engine,
                workers=self.options.workers,
                caps=self.options.caps if self.options.caps.limited() else None,
                environment=self.options.environment,
                capture=self.options.capture,
                metering=self.options.metering,
                home=self.home,
                progress=progress,
            )
        else:
            self._hash_copies()
            more = {"experiment": self._record()}
            self.session = start_run(self.suite, self.agent, self.options, home=self.home, progress=progress, more=more)
        self.session.check_caps_kept()
        return self.results()

    def _hash_copies(self) -> None:
        """The run uses the copies of its files, so `verify` checks them too."""
        if self._copied is not None:
            above = self._copied.parent
            copies = {str(p.relative_to(above)): p.read_bytes() for p in self._copied.rglob("*") if p.is_file()}
            kept = {name: data for name, data in copies.items() if "__pycache__" not in name}
            manifest.record(_local(self.home), above.name, kept)

    def results(self) -> ExperimentResults:
        """The results of what is stored so far."""
        return experiment_results(self.name, home=self.home)

    def _record(self) -> dict[str, Any]:
        """What `run.json` keeps of the experiment."""
        return {
            "k": self.k,
            "reruns": self.noise_floor,
            "deterministic": self.deterministic,
            "treatments": msgspec.to_builtins(self.treatments),
            "not_applicable": msgspec.to_builtins(self.not_applicable),
        }

    def _check_same(self, begun: Run) -> None:
        """A run may go on only as it began: its pairs would not be of one experiment otherwise."""
        plan = begun.info.plan
        if "experiment" not in plan:
            raise BadUsage(f"a run named {self.name!r} exists already and is not an experiment; choose another name")
        before = RunOptions.stored(plan)
        spec = self.agent if isinstance(self.agent, str) else load_agent(self.agent).name
        ours, theirs = self.options, before
        # what is stored of an address has no secret in it
        spec, conditions = (self.home.as_stored(x, before.redact) for x in (spec, ours.conditions))
        differs = {
            "agent": plan["agent"] != spec,
            "suite": plan["suite_digest"] != self.loaded.suite.digest,
            "k": plan["experiment"].get("k") != self.k,
            "noise floor": ours.k != theirs.k,
            "seed": ours.seed != theirs.seed,
            "choice of tasks": (ours.tasks, ours.limit) != (theirs.tasks, theirs.limit),
            "operators, intensities or tools": msgspec.convert(conditions, tuple[Condition, ...]) != theirs.conditions,
        }
        what = next((name for name, other in differs.items() if other), None)
        if what is not None:
            raise BadUsage(
                f"the experiment {self.name!r} was begun with another {what}; repeat it as it was to continue, or "
                "choose another name"
            )


def _check(k: int, reruns: int, name: str | None, options: RunOptions | None) -> None:
    if k < 1:
        raise BadUsage(f"an experiment needs at least one pair per operator, not k={k}")
    if reruns < 0:
        raise BadUsage(f"a noise floor of {reruns} re-runs makes no sense; give 0 or more")
    if name is not None and (not name or Path(name).name != name):
        raise BadUsage(f"{name!r} cannot name a run: use letters, digits, '.', '_' and '-'")
    usual = RunOptions()
    if options is not None and any(getattr(options, n) != getattr(usual, n) for n in ("k", "seed", "name")):
        raise BadUsage("give k, seed and name to the experiment itself, not in its options")
    if options is not None and options.conditions != usual.conditions:
        raise BadUsage("an experiment makes its own conditions; leave them out of its options")


def _place(home: Home) -> Path:
    """Where suites that were made from files lie: beside the runs, so that a resume finds them."""
    return _local(home).folder("suites").resolve()


def _local(home: Home) -> LocalFiles:
    """The home itself, or the default one where the home is an object store."""
    return home.files if isinstance(home.files, LocalFiles) else LocalFiles(Path.cwd() / ".ethogram")
