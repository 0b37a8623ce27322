"""Judge a stored run: every trace once, in parallel where a model is asked, stored in groups, resumable."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

import msgspec

from ethogram.capture.intake import Skipped
from ethogram.display.money import dollars
from ethogram.errors import BadUsage, EthogramError
from ethogram.estimate import Estimate
from ethogram.findings.rubric import Coverage, Rubric, TraceVerdict, verdict_labels
from ethogram.prices import Metering
from ethogram.prices.budget import CapReached
from ethogram.questions.judging.guards import JudgeGuard
from ethogram.questions.judging.judges import FixedJudge, Judge
from ethogram.questions.judging.modeljudge import NoReply
from ethogram.questions.judging.question import judge_result, share_over_runs, verdicts_by
from ethogram.questions.judging.results import JudgeResult
from ethogram.reading.samples import need_traces
from ethogram.reading.task_names import task_name
from ethogram.store import Entry, Home, Run
from ethogram.store.rescore import append_outcomes
from ethogram.store.stop import pulled
from ethogram.traces import Label, Trace

from .biases import measure_biases
from .session import JudgeOptions, JudgeSession, Tell

GROUP = 50
GROUP_SECONDS = 5.0
GIVE_UP = 8
"""Where none of this many traces could be judged, the others are not tried."""


class _Judged(NamedTuple):
    """One trace after the judge was asked; `problem` says why there is no verdict."""

    entry: Entry
    trace: Trace
    verdict: TraceVerdict | None
    removed: Mapping[JudgeGuard, int]
    problem: str = ""


_DEFAULTS = JudgeOptions()


def judge(
    run: str | Run = "latest",
    *,
    judge: str = _DEFAULTS.judge,
    rubric: str | Path | Rubric = _DEFAULTS.rubric,
    guards: str = _DEFAULTS.guards,
    task: str | None = _DEFAULTS.task,
    limit: int | None = _DEFAULTS.limit,
    repeat: int = _DEFAULTS.repeat,
    measure: int = _DEFAULTS.measure,
    max_usd: float | None = _DEFAULTS.max_usd,
    max_calls: int | None = _DEFAULTS.max_calls,
    temperature: float = _DEFAULTS.temperature,
    seed: int = _DEFAULTS.seed,
    window: int = _DEFAULTS.window,
    workers: int = _DEFAULTS.workers,
    retries: int = _DEFAULTS.retries,
    again: bool = _DEFAULTS.again,
    metering: Metering = _DEFAULTS.metering,
    home: Home | str | None = None,
    progress: Tell | None = None,
) -> JudgeResult:
    """Judge the traces of a run by a rubric, and say what share of attempts is yes on each item.

    `judge` is `rule`, a model with its provider, or a panel. Keywords are those of `JudgeOptions`, `progress` is called
    with one sentence now and then. Raises `BadUsage` for a judge that makes no sense or is of the agent's family, and
    for a cap that cannot be kept, `NotFound` for a run or a task that is not there, `Refused` for outcomes without
    traces.

    Example: `judge("night", judge="rule").items[0].yes`
    """
    options = JudgeOptions(
        judge=judge,
        rubric=rubric,
        guards=guards,
        task=task,
        limit=limit,
        repeat=repeat,
        measure=measure,
        max_usd=max_usd,
        max_calls=max_calls,
        temperature=temperature,
        seed=seed,
        window=window,
        workers=workers,
        retries=retries,
        again=again,
        metering=metering,
    )
    return judge_run(run, options, home=home, progress=progress)


def judge_run(
    run: str | Run = "latest",
    options: JudgeOptions | None = None,
    *,
    home: Home | str | None = None,
    judge: Judge | None = None,
    environment: Mapping[str, str] | None = None,
    progress: Tell | None = None,
) -> JudgeResult:
    """Judge the traces of a run by a rubric, and say what share of runs is yes on each item.

    Args:
        run: a run directory, a run's name, or latest.
        options: judge, rubric, guards, caps.
        home: the home.
        judge: a judge of your own, in the place of the one that the options name.
        environment: where addresses and keys of providers are found; by default ours.
        progress: called with one sentence now and then.

    Raises:
        BadUsage: the judge makes no sense, a cap cannot be kept, or judge and agent are of one family.
        NotFound: there is no such run or task.
        Refused: the run holds outcomes without traces.

    Traces that were judged with the same version are kept; labels are added, never edited. Where a cap is reached,
    what was judged is stored and `stopped` says so: the same command goes on.

    Example: `judge_run("night", JudgeOptions(judge="rule")).items[0].yes`
    """
    options = options or JudgeOptions()
    with JudgeSession(run, options, home=home, judge=judge, environment=environment) as session:
        need_traces(session.run, "judge")
        work = _Judging(session, progress or (lambda _: None))
        work.go()
        return work.result()


class _Judging:
    def __init__(self, session: JudgeSession, tell: Tell) -> None:
        self.session, self.tell = session, tell
        self.entries = session.entries()
        self.skipped: list[Skipped] = []
        self.stopped: str | None = None
        self.removed: Counter[str] = Counter()
        self.coverage: list[Coverage] = []
        self.split: list[tuple[str, int, int]] = []
        self.asked: dict[str, set[tuple[str, int]]] = {}
        self.judged = 0
        self._waiting: list[Label] = []
        self._stored_at = time.monotonic()

    def go(self) -> None:
        """Judge what is left, and store it."""
        session = self.session
        done = {} if session.options.again else verdicts_by(session.run, session.version)
        left = [e for e in self.entries if e.head.trace_id not in done]
        try:
            for made in self._verdicts(left):
                self._take(made, len(left))
                if not self.judged and len(self.skipped) >= GIVE_UP:
                    self.stopped = f"none of the first {len(self.skipped)} traces could be judged: {made.problem}"
                    break
        except CapReached as reached:
            self.stopped = cap_words(reached)
        finally:
            self._store()

    def result(self) -> JudgeResult:
        """The answer over all that is stored, with what this session adds."""
        session, options = self.session, self.session.options
        biases = []
        if (options.measure or options.repeat > 1) and self.stopped is None:
            try:
                biases = measure_biases(session, self.entries)
            except CapReached as reached:
                self.stopped = cap_words(reached)
        chosen = {e.head.trace_id for e in self.entries}
        stored = [e for e in session.run.entries if e.head.trace_id in chosen]  # with the words of the new labels
        found = judge_result(session.run, session.rubric, session.version, stored)
        found.guards = list(session.guards)
        found.kept, found.judged = found.kept - self.judged, self.judged
        found.use = session.budget.use()
        found.removed = dict(self.removed)
        found.coverage = _summed(self.coverage)
        found.disagreement = self._disagreement()
        found.biases = biases
        found.stopped, found.skipped = self.stopped, self.skipped
        found.notes = [*session.notes, *_notes(found), *self._unused()]
        return found

    def _verdicts(self, left: Sequence[Entry]) -> Iterator[_Judged]:
        """Verdicts as they come; of models several at once."""
        if not self.session.buys:
            for entry in left:
                made = self._opened(entry)
                if made is not None:
                    yield made()
            return
        workers = max(1, self.session.options.workers)
        running: set[Future[_Judged]] = set()
        failure: EthogramError | None = None
        todo = iter(left)
        with ThreadPoolExecutor(workers, thread_name_prefix="judge") as pool:
            try:
                while True:
                    while failure is None and len(running) < workers and (coming := next(todo, None)) is not None:
                        work = self._opened(coming)
                        if work is not None:
                            running.add(pool.submit(work))
                    if not running:
                        break
                    ready, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in ready:
                        error = future.exception()
                        if isinstance(error, EthogramError):  # a cap: what is in flight may still end
                            failure = error
                        else:
                            yield future.result()
            finally:
                for future in running:
                    future.cancel()
        if failure is not None:
            raise failure

    def _opened(self, entry: Entry) -> Callable[[], _Judged] | None:
        """The work on one trace; None where it cannot be read, or a person pulled the switch."""
        session = self.session
        if (flag := pulled(session.run.files, session.run.path)) is not None:
            self.stopped = f"the kill switch was pulled{f': {flag.why}' if flag.why else ''}"
            return None
        try:
            trace = session.trace(entry)
            session.check_family(trace)
            seen = session.guarded(trace)
        except BadUsage:
            raise
        except (EthogramError, KeyError) as error:
            self.skipped.append(Skipped(entry.head.trace_id, _why(error)))
            return None

        def work() -> _Judged:
            case = session.case(trace, seen.trace)
            try:
                return _Judged(entry, trace, session.judge.judge(case, session.rubric), seen.removed)
            except (NoReply, KeyError) as error:
                return _Judged(entry, trace, None, {}, _why(error))

        return work

    def _take(self, made: _Judged, total: int) -> None:
        if made.verdict is None:
            self.skipped.append(Skipped(made.entry.head.trace_id, made.problem))
            return
        version = self.session.version
        self._waiting += verdict_labels(made.trace, self.session.rubric, made.verdict, version.by, version.version)
        self.judged += 1
        self.removed.update(Counter({str(guard): count for guard, count in made.removed.items()}))
        if isinstance(self.session.judge, FixedJudge):
            self.asked[made.entry.head.trace_id] = {(v.item, v.step) for v in made.verdict.verdicts}
        if made.verdict.coverage is not None:
            self.coverage.append(made.verdict.coverage)
        self.split.append((task_name(made.entry.head), len(made.verdict.split), len(made.verdict.verdicts)))
        if self.judged % GROUP == 0 or time.monotonic() - self._stored_at > GROUP_SECONDS:
            self._store()
            use = self.session.budget.use()
            self.tell(f"{self.judged} of {total} traces, {use.calls} calls, {dollars(use.at_least_usd)}")

    def _store(self) -> None:
        append_outcomes(self.session.run, {}, self._waiting, self.session.redactor)
        self.session.keep_calls()
        self._waiting = []
        self._stored_at = time.monotonic()

    def _unused(self) -> list[str]:
        """Verdicts of a CSV that decided nothing: a wrong id or step must not pass in silence."""
        judge = self.session.judge
        if not isinstance(judge, FixedJudge):
            return []
        unused = judge.unused([e.head.trace_id for e in self.session.run.entries], self.asked)
        return [f"verdicts that fit nothing: {len(unused)} of {len(judge.known)}, e.g. {unused[0]}"] if unused else []

    def _disagreement(self) -> Estimate | None:
        if not self.session.judge.by.startswith("panel:") or not any(n for _, _, n in self.split):
            return None
        return share_over_runs([(task, count / n) for task, count, n in self.split if n], {})


def _summed(parts: Sequence[Coverage]) -> Coverage | None:
    if not parts:
        return None
    sums = {name: sum(getattr(p, name) for p in parts) for name in Coverage.__struct_fields__}
    return msgspec.convert(sums, Coverage)


def cap_words(reached: CapReached) -> str:
    """A cap that was reached, in the words of the command line."""
    what = {"usd": "--max-usd", "steps": "--max-calls"}.get(reached.resource, reached.resource)
    return f"{what} {reached.cap:g} is reached; repeat the command with a higher cap to continue"


def _notes(found: JudgeResult) -> list[str]:
    notes = []
    if found.coverage is not None and found.coverage.seen < found.coverage.steps:
        notes.append(f"{found.coverage.steps - found.coverage.seen} steps were never shown to the judge")
    unknown = sum(item.steps_unknown for item in found.items)
    if unknown:
        one = "1 verdict on a step is unknown, and so is the verdict on its attempt"
        several = f"{unknown} verdicts on steps are unknown, and so are the verdicts on their attempts"
        notes.append(one if unknown == 1 else several)
    return notes


def _why(error: EthogramError | KeyError) -> str:
    return f"some of its words are gone ({error})" if isinstance(error, KeyError) else error.cli_message
