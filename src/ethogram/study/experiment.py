"""Paired experiments: clean and disturbed runs with the same seeds, on copies, one change at a time."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ethogram.errors import BadUsage, NotFound
from ethogram.lab.experiments import ExperimentResults, Refused, Treatment, experiment_results
from ethogram.lab.operators import AnyOperator, load_operator
from ethogram.lab.result import Result
from ethogram.lab.suites import LoadedSuite
from ethogram.measure.floor import USUAL_RERUNS
from ethogram.perturb import FILES, NotApplicable, Operator, PromptOperator, ToolOperator, format_of
from ethogram.plan import Condition, Task, derived_seed
from ethogram.run.agents import Agent, ScriptedAgent, load_agent
from ethogram.run.disturb import Disturbance
from ethogram.store import Home, open_home
from ethogram.store.files import LocalFiles

from .options import RunOptions
from .planning import RunPlan, fresh_name, load
from .suites import Watcher, plan_run, resume_run, run_suite

SCORERS = {"equality": "equals", "numeric": "numeric", "contains": "contains", "one-of": "one_of"}


class PlannedChange(msgspec.Struct, frozen=True, kw_only=True):
    """What one condition would change, and where."""

    condition: str
    operator: str
    intensity: float
    task: str
    file: str | None
    summary: str
    where: list[str]


class ExperimentPlan(Result, kw_only=True):
    """What would be run: nothing was called."""

    suite: str
    agent: str
    k: int
    reruns: int
    conditions: list[str]
    changes: list[PlannedChange]
    not_applicable: list[Refused]
    episodes: int
    cost_usd_at_most: float | None
    why: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One row per change."""
        return [msgspec.to_builtins(c) for c in self.changes]


class Experiment:
    """`Experiment(files=["sales.csv"], question="…", expected_answer="42", agent="a.py:solve").run()`.

    `files` or a whole `suite`; `operators` by name, by default all that fit; `k` pairs per operator; `noise_floor`
    re-runs of the clean task (5 for outside agents, none for a scripted one); `intensities` make a dose-response.
    """

    def __init__(
        self,
        *,
        agent: str | Agent | Callable[..., Any],
        files: Sequence[str | Path] = (),
        question: str = "",
        expected_answer: Any = None,
        suite: str | Path | None = None,
        operators: Sequence[str] = (),
        k: int = 1,
        noise_floor: int | None = None,
        intensities: Sequence[float] = (1.0,),
        scorer: str = "equality",
        seed: int = 0,
        name: str | None = None,
        options: RunOptions | None = None,
        home: Home | str | None = None,
    ) -> None:
        """Everything is checked here; nothing is run."""
        self.home = home if isinstance(home, Home) else open_home(home)
        self.agent = agent
        acting = load_agent(agent)
        if k < 1:
            raise BadUsage(f"an experiment needs at least one pair per operator, not k={k}")
        self.k = k
        quiet = isinstance(acting, ScriptedAgent)
        self.reruns = (0 if quiet else USUAL_RERUNS) if noise_floor is None else noise_floor
        if self.reruns < 0:
            raise BadUsage(f"a noise floor of {noise_floor} re-runs makes no sense; give 0 or more")
        self.seed = seed
        self.intensities = tuple(intensities)
        if suite is None:
            self.name = name or fresh_name(self.home, f"perturb-{Path(files[0]).stem}" if files else "perturb")
            self.suite = str(_suite_of_files(self.home, self.name, files, question, expected_answer, scorer))
        else:
            if files or question:
                raise BadUsage("give either files with a question, or a suite, not both")
            self.name = name or fresh_name(self.home, f"perturb-{Path(suite).name}")
            self.suite = str(suite)
        self.loaded = load(self.suite)
        self.treatments, self.changes, self.refused, self.conditions = self._treat(operators)
        self.options = msgspec.structs.replace(
            options or RunOptions(),
            k=self.k + self.reruns,
            seed=seed,
            name=self.name,
            conditions=(Condition(), *self.conditions),
        )

    def plan(self) -> ExperimentPlan:
        """The plan with its price; nothing is called."""
        planned: RunPlan = plan_run(self.suite, self.agent, self.options)
        return ExperimentPlan(
            suite=planned.suite,
            agent=planned.agent,
            k=self.k,
            reruns=self.reruns,
            conditions=[c.name for c in self.conditions],
            changes=self.changes,
            not_applicable=self.refused,
            episodes=planned.planned,
            cost_usd_at_most=planned.cost_usd_at_most,
            why=planned.why,
        )

    def run(self, *, dry_run: bool = False, watcher: Watcher | None = None) -> ExperimentPlan | ExperimentResults:
        """Run all pairs and give the results; a run of this name that was stopped goes on where it stood."""
        if dry_run:
            return self.plan()
        if not self.treatments:
            reasons = "; ".join(f"{r.operator}: {r.why}" for r in self.refused[:3])
            raise BadUsage(f"no operator can change anything here ({reasons}); see: ethogram operators")
        if self.name in self.home.names():
            resume_run(self.name, suite=self.suite, agent=self.agent, home=self.home, watcher=watcher)
        else:
            record = {
                "treatments": msgspec.to_builtins(self.treatments),
                "not_applicable": msgspec.to_builtins(self.refused),
            }
            run_suite(
                self.suite, self.agent, self.options, home=self.home, watcher=watcher, more={"experiment": record}
            )
        return self.results()

    def results(self) -> ExperimentResults:
        """The results of what is stored so far."""
        return experiment_results(self.name, home=self.home)

    def _treat(
        self, names: Sequence[str]
    ) -> tuple[list[Treatment], list[PlannedChange], list[Refused], list[Condition]]:
        """Which operator does what to which task, and why some cannot."""
        treatments: list[Treatment] = []
        changes: list[PlannedChange] = []
        refused: list[Refused] = []
        conditions: list[Condition] = []
        for name, file in self._targets(names):
            for intensity in self.intensities:
                label = _label(name, file, intensity, len(self.intensities) > 1)
                wanted = Disturbance(
                    operator=name,
                    seed=derived_seed(self.seed, f"perturb:{name}:{file or ''}"),
                    intensity=intensity,
                    file=file,
                )
                done = [self._try(label, wanted, task, refused) for task in self.loaded.suite.tasks]
                made = [c for c in done if c is not None]
                if not made:
                    continue
                tasks = [c.task for c in made]
                changes += made
                treatments.append(
                    Treatment(
                        condition=label,
                        operator=name,
                        intensity=intensity,
                        file=file,
                        tasks=tasks,
                        summary=made[0].summary,
                    )
                )
                conditions.append(
                    Condition(name=label, settings=wanted.settings(), tasks=tuple(tasks), attempts=self.k)
                )
        return treatments, changes, refused, conditions

    def _targets(self, names: Sequence[str]) -> list[tuple[str, str | None]]:
        """Operators with the file that each is to change; tools and prompts have none."""
        files = sorted({f for t in self.loaded.suite.tasks for f in t.files})
        if not names:
            usual = dict.fromkeys(o.name for o in FILES)
            found = [
                (n, f) for f in files for n in usual if any(o.name == n and format_of(f) in o.formats for o in FILES)
            ]
            if not found:
                raise BadUsage("the tasks have no file that operators can change; name operators on tools or prompts")
            return list(found)
        targets: list[tuple[str, str | None]] = []
        for name in names:
            if isinstance(_any_operator(name), ToolOperator | PromptOperator):
                targets.append((name, None))
                continue
            if not files:
                raise BadUsage(f"{name} changes files, and the tasks have none")
            targets += [(name, f) for f in files]
        return targets

    def _try(self, label: str, wanted: Disturbance, task: Task, refused: list[Refused]) -> PlannedChange | None:
        """The change that would be made to one task, or the reason why it cannot be."""
        try:
            summary, where = _preview(wanted, task, self.loaded)
        except NotApplicable as why:
            refused.append(Refused(operator=wanted.operator, task=task.id, why=str(why)))
            return None
        if summary is None:
            return None
        return PlannedChange(
            condition=label,
            operator=wanted.operator,
            intensity=wanted.intensity,
            task=task.id,
            file=wanted.file,
            summary=summary,
            where=where,
        )


def _preview(wanted: Disturbance, task: Task, loaded: LoadedSuite) -> tuple[str | None, list[str]]:
    """What a disturbance does to a task in words; None where the task does not have the file at all."""
    if wanted.file is not None:
        ref = task.files.get(wanted.file)
        if ref is None:
            return None, []
        if format_of(wanted.file) is None:
            raise NotApplicable(f"{wanted.file} has no suffix that tells its format")
    operator = wanted.find()
    if isinstance(operator, ToolOperator):
        if not task.tools and loaded.module is None:
            raise NotApplicable("the task has no tools")
        return f"{operator.does} ({wanted.intensity:.0%} of calls)", []
    if isinstance(operator, PromptOperator):
        change = operator.apply(task.prompt, wanted.seed, wanted.intensity)
        return change.summary, list(change.where)
    assert wanted.file is not None
    content = (loaded.root / task.files[wanted.file].path).read_bytes()
    done = operator.apply(content, format_of(wanted.file) or "", wanted.seed, wanted.intensity)
    return done.summary, list(done.where)


def _any_operator(name: str) -> AnyOperator | Operator:
    """An operator by name, whichever format it may be for."""
    same: Mapping[str, Operator] = {o.name: o for o in FILES}
    return same[name] if name in same else load_operator(name)


def _label(operator: str, file: str | None, intensity: float, swept: bool) -> str:
    name = operator.rpartition(":")[2]
    words = [name] if file is None else [name, file]
    return " ".join([*words, f"@{intensity:g}"] if swept else words)


def _suite_of_files(
    home: Home, name: str, files: Sequence[str | Path], question: str, expected: Any, scorer: str
) -> Path:
    """A suite of one task that asks a question about files; it lies beside the runs, so that a resume finds it."""
    if not files or not question:
        raise BadUsage("an experiment needs files and a question, or a suite")
    if scorer not in SCORERS and ":" not in scorer:
        raise NotFound.named("scorer", scorer, [*SCORERS, "file.py:function"])
    for file in files:
        if not Path(file).is_file():
            raise NotFound(f"no file at {str(file)!r}")
    base = home.files.root if isinstance(home.files, LocalFiles) else Path.cwd() / ".ethogram"
    folder = base / "suites" / name
    if not folder.exists():
        (folder / "files").mkdir(parents=True)
        for file in files:
            shutil.copyfile(file, folder / "files" / Path(file).name)
        tools = Path(__file__).with_name("experiment_tools.py").read_text(encoding="utf-8")
        (folder / "tools.py").write_text(tools, encoding="utf-8")
    (folder / "suite.yaml").write_text(yaml.safe_dump({"name": name, "tools": "tools.py"}), encoding="utf-8")
    task = _task(files, question, expected, scorer)
    (folder / "tasks.yaml").write_text(yaml.safe_dump([task], allow_unicode=True), encoding="utf-8")
    return folder


def _task(files: Sequence[str | Path], question: str, expected: Any, scorer: str) -> dict[str, Any]:
    names = [Path(f).name for f in files]
    if len(set(names)) < len(names):
        raise BadUsage("two of the files have the same name; an episode's folder holds one of each")
    task: dict[str, Any] = {
        "id": re.sub(r"[^a-z0-9]+", "-", names[0].lower()).strip("-") or "task",
        "prompt": question,
        "files": {n: f"files/{n}" for n in names},
    }
    if expected is not None:
        task["expected"] = expected
        kind = SCORERS.get(scorer)
        check: dict[str, Any] = {"kind": kind} if kind else {"kind": "custom", "settings": {"function": scorer}}
        task["checks"] = [check]
    return task
