"""Pairs of traces of the same tasks from two runs, compared by a judge in both orders."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ethogram.capture.intake import Skipped
from ethogram.errors import BadUsage, EthogramError
from ethogram.prices.budget import CapReached
from ethogram.questions.judging.bias import Pairwise, order_bias
from ethogram.questions.judging.judges import Judge
from ethogram.questions.judging.question import share_over_runs
from ethogram.questions.judging.results import PairwiseResult
from ethogram.reading.samples import sampled_run
from ethogram.reading.suite_versions import comparable_tasks
from ethogram.reading.task_names import task_name
from ethogram.store import Entry, Home, Run

from .runs import cap_words
from .session import JudgeOptions, JudgeSession, Tell


class _Pair(NamedTuple):
    task: str
    ours: Entry
    theirs: Entry


def judge_pairs(
    run: str | Run,
    against: str | Run,
    options: JudgeOptions | None = None,
    *,
    common_tasks: bool = False,
    home: Home | str | None = None,
    judge: Judge | None = None,
    progress: Tell | None = None,
) -> PairwiseResult:
    """Which of two runs a judge prefers on the same tasks, each pair shown in both orders.

    Attempts of a task are paired in their order. Arguments are those of `judge` without `environment`, the second
    run, and `common_tasks`, which takes the tasks that are the same in two versions of a suite. Raises `BadUsage` where
    the runs share no task, or ran different versions.

    Example: `judge_pairs("new", "old", JudgeOptions(judge="rule")).preferred`
    """
    options = options or JudgeOptions()
    with JudgeSession(run, options, home=home, judge=judge) as session:
        other = sampled_run(against, session.home)
        same = comparable_tasks(other, session.run, common_tasks=common_tasks)
        pairs = [pair for pair in _paired(session, other) if same is None or pair.task in same]
        if not pairs:
            raise BadUsage(f"runs {session.run.name!r} and {other.name!r} share no task, so no traces can be compared")
        work = _Comparing(session, other)
        work.go(pairs, progress or (lambda _: None))
        return work.result()


def _paired(session: JudgeSession, other: Run) -> list[_Pair]:
    theirs: dict[str, list[Entry]] = {}
    for entry in sorted(other.entries, key=lambda e: e.head.attempt):
        if not entry.forgotten:
            theirs.setdefault(task_name(entry.head), []).append(entry)
    pairs = []
    for entry in session.entries():
        task = task_name(entry.head)
        if theirs.get(task):
            pairs.append(_Pair(task, entry, theirs[task].pop(0)))
    return pairs


class _Comparing:
    def __init__(self, session: JudgeSession, other: Run) -> None:
        self.session, self.other = session, other
        self.found: list[Pairwise] = []
        self.skipped: list[Skipped] = []
        self.stopped: str | None = None

    def go(self, pairs: list[_Pair], tell: Tell) -> None:
        workers = max(1, self.session.options.workers) if self.session.buys else 1
        with ThreadPoolExecutor(workers, thread_name_prefix="judge") as pool:
            for number, made in enumerate(pool.map(self._one, pairs), 1):
                if made is not None:
                    self.found.append(made)
                if number % 50 == 0:
                    tell(f"{number} of {len(pairs)} pairs, {self.session.budget.use().calls} calls")

    def _one(self, pair: _Pair) -> Pairwise | None:
        session = self.session
        if self.stopped is not None:
            return None
        try:
            cases = []
            for entry, run in ((pair.ours, session.run), (pair.theirs, self.other)):
                trace = session.trace(entry, run)
                session.check_family(trace)
                cases.append(session.case(trace, session.guarded(trace).trace))
            forward = session.judge.prefer(cases[0], cases[1], session.rubric)
            return Pairwise(pair.task, forward, session.judge.prefer(cases[1], cases[0], session.rubric))
        except BadUsage:
            raise
        except CapReached as reached:
            self.stopped = cap_words(reached)
        except (EthogramError, KeyError) as error:
            self.skipped.append(
                Skipped(pair.ours.head.trace_id, error.cli_message if isinstance(error, EthogramError) else str(error))
            )
        return None

    def result(self) -> PairwiseResult:
        wins = losses = ties = turned = unknown = 0
        values: list[tuple[str, float]] = []
        for pair in self.found:
            one, two = pair.forward.choice, pair.backward.choice
            if one is None or two is None:
                unknown += 1
                continue
            better = {("first", "second"): 1.0, ("second", "first"): 0.0}.get((one, two), 0.5)
            wins, losses = wins + (better == 1.0), losses + (better == 0.0)
            ties += one == two == "tie"
            turned += better == 0.5 and not one == two == "tie"
            values.append((pair.task, better))
        session = self.session
        return PairwiseResult(
            run=session.run.name,
            against=self.other.name,
            judge=session.version.by,
            version=session.version.version,
            rubric=session.rubric.name,
            rubric_digest=session.rubric.digest,
            guards=list(session.guards),
            pairs=len(self.found),
            wins=wins,
            losses=losses,
            ties=ties,
            order_dependent=turned,
            unknown=unknown,
            preferred=share_over_runs(values, {"unknown": unknown} if unknown else {}),
            order=order_bias(self.found),
            use=session.budget.use(),
            stopped=self.stopped,
            skipped=self.skipped,
            notes=session.notes,
        )
