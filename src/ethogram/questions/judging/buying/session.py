"""One session of judging: a run, its traces as a judge may see them, the judge, and its limits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from ethogram.arguments import at_least
from ethogram.errors import BadUsage, NotFound
from ethogram.findings.finding import Facts
from ethogram.findings.rubric import Rubric
from ethogram.harness.call_budget import CallBudget, CallLimits
from ethogram.harness.reply_cache import ReplyCache
from ethogram.prices import Metering
from ethogram.questions.judging.calls import CALLS, JudgeCallRow
from ethogram.questions.judging.guards import GUARDS, Guarded, JudgeGuard, guarded, guards_named, shared_families
from ethogram.questions.judging.judges import Case, Judge
from ethogram.questions.judging.modeljudge import RETRIES, AskModel, ModelSettings
from ethogram.questions.judging.question import JudgeVersion
from ethogram.questions.judging.rubric_files import read_rubric
from ethogram.questions.judging.windows import WINDOW_CHARACTERS
from ethogram.reading.expected_calls import facts_for
from ethogram.reading.samples import sampled_run
from ethogram.reading.task_names import natural, task_name
from ethogram.store import Entry, Home, Run, home_of
from ethogram.store.batch import traceless
from ethogram.store.lake import redactor_of
from ethogram.traces import Ref, Trace, digest

from .calls import (
    Endpoint,
    HttpTransport,
    JudgeCall,
    JudgeCalls,
    environment_for,
)
from .specs import judge_named

Tell = Callable[[str], None]


class JudgeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is judged.

    `guards` is a list such as `outcome,windows`, or all, or none.
    `repeat` readings of each trace tell how far the judge agrees with itself; the first one is stored. `measure` is the
    number of traces on which biases are measured, with further readings. `again` judges traces anew that were judged
    with the same version. `retries` is how often an invalid answer of a model is asked again.
    """

    judge: str = "rule"
    rubric: str | Path | Rubric = "standard"
    guards: str = "all"
    task: str | None = None
    limit: int | None = None
    repeat: int = 1
    measure: int = 0
    max_usd: float | None = None
    max_calls: int | None = None
    temperature: float = 0.0
    seed: int = 0
    window: int = WINDOW_CHARACTERS
    workers: int = 8
    retries: int = RETRIES
    again: bool = False
    metering: Metering = Metering()


_LEAST = {"repeat": 1, "measure": 0, "window": 500, "workers": 1, "retries": 0, "seed": 0, "temperature": 0}


class JudgeSession:
    """Use `with`: connections are closed at the end."""

    def __init__(
        self,
        run: str | Run,
        options: JudgeOptions,
        *,
        home: Home | str | None = None,
        judge: Judge | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`judge` takes the place of the one that the options name.

        Raises `BadUsage` for options that make no sense, and where a cap cannot be kept.
        """
        for name, least in _LEAST.items():
            at_least(name, getattr(options, name), least)
        self.home = home_of(home)
        self.run = sampled_run(run, self.home)
        self.options = options
        self.guards = guards_named(options.guards)
        self.rubric = read_rubric(options.rubric)
        limits = CallLimits(max_usd=options.max_usd, max_calls=options.max_calls, metering=options.metering)
        self.budget = CallBudget("judge", limits, "cap the number of calls with --max-calls")
        self.redactor = redactor_of(self.run, self.home)
        self.calls: list[JudgeCalls] = []
        self._recorded: list[bytes] = []
        self._recording = threading.Lock()
        self._environment = environment
        settings = ModelSettings(
            model="",
            temperature=options.temperature,
            seed=options.seed,
            retries=options.retries,
            window=options.window if "windows" in self.guards else 10**9,
        )
        self.judge = judge or judge_named(options.judge, settings, self.rubric, self._connect)
        self.version = JudgeVersion(self.judge.by, judge_version(self.judge, self.rubric, self.guards))
        self.notes: list[str] = []
        self._facts = facts_for(self.run, self.home)

    def __enter__(self) -> JudgeSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for calls in self.calls:
            calls.close()
        self.keep_calls()

    def keep_calls(self) -> None:
        """Store the calls that were made since the last time."""
        with self._recording:
            lines, self._recorded = self._recorded, []
        if lines:
            with self.run.writer(self.redactor) as writer:
                writer.note(CALLS, lines)
            self.run.forget_cache()

    def _record(self, call: JudgeCall) -> None:
        usage = call.reply.usage if call.reply is not None else None
        row = JudgeCallRow(
            about=call.request.about,
            by=self.judge.by,
            model=call.request.model,
            request=call.request.digest,
            temperature=call.request.temperature,
            seed=call.request.seed,
            reading=call.request.reading,
            start_ns=call.start_ns,
            seconds=(call.end_ns - call.start_ns) / 1e9,
            input_tokens=usage.input_tokens if usage is not None else None,
            output_tokens=usage.output_tokens if usage is not None else None,
            cost_usd=call.cost_usd,
            error=None if call.error is None else self.redactor.redact(call.error, "error").text,
        )
        with self._recording:
            self._recorded.append(msgspec.json.encode(row))

    @property
    def buys(self) -> bool:
        """Whether the judge asks a model."""
        return bool(self.judge.models)

    def entries(self) -> list[Entry]:
        """The traces that are meant, tasks taking turns, so that a limit or a cap leaves a spread of them."""
        found = self.run
        chosen = [e for e in found.entries if not e.forgotten]
        if not chosen:
            batched = traceless(found.batches)
            why = "; run or import something first"
            if batched:
                why = f": {batched}; see what is in it with: ethogram show {found.name}"
            raise NotFound(f"run {found.name!r} has no traces to judge{why}", where=f"run {found.name!r}", what="trace")
        if self.options.task is not None:
            known = sorted({task_name(e.head) for e in chosen}, key=natural)
            chosen = [e for e in chosen if task_name(e.head) == self.options.task]
            if not chosen:
                raise NotFound.named("task", self.options.task, known, where=f"run {found.name!r}")
        return _in_turns(chosen)[: self.options.limit or None]

    def trace(self, entry: Entry, run: Run | None = None) -> Trace:
        """A trace that several threads may read."""
        trace = (run or self.run).trace(entry)
        return Trace(trace.head, trace.spans, _SharedTexts(trace.texts), trace.labels)

    def guarded(self, trace: Trace, *, on: JudgeGuard | None = None, off: JudgeGuard | None = None) -> Guarded:
        """The trace as the judge may see it, with one guard turned on or off."""
        chosen = {*self.guards, *(() if on is None else (on,))} - {off}
        return guarded(trace, [g for g in GUARDS if g in chosen])

    def case(self, trace: Trace, seen: Trace, reading: int = 0) -> Case:
        """What the judge gets: expected calls are no part of it."""
        facts = self._facts(trace)
        return Case(seen, self.run.success_at, Facts(changing=facts.changing, offered=facts.offered), reading)

    def check_family(self, trace: Trace) -> None:
        """Refuse a judge of the agent's own family, or warn where that guard is off; raises `BadUsage`."""
        agents = sorted({span.model for span in trace.spans if span.model})
        shared = shared_families(self.judge.models, agents)
        if self.judge.models and not agents:
            self._note("some traces do not name the agent's model, so it is unknown whether the judge is of its family")
        if not shared:
            return
        judge, agent = shared[0]
        told = f"the judge {judge!r} and the agent's model {agent!r} are of one family, which judges prefer"
        if "family" in self.guards:
            rest = ",".join(g for g in self.guards if g != "family") or "none"
            raise BadUsage(f"{told}; choose another judge, or accept it with --guards {rest}")
        self._note(told)

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _connect(self, model: str, endpoint: Endpoint) -> AskModel:
        self.budget.check(model, endpoint.provider)
        transport = HttpTransport(environment_for(endpoint, self._environment))
        calls = JudgeCalls(
            endpoint, transport, self.budget, ReplyCache.of(self.run, self.redactor, "judge"), self._record
        )
        self.calls.append(calls)
        return calls


def judge_version(judge: Judge, rubric: Rubric, guards: Sequence[JudgeGuard]) -> str:
    """The digest of all that decides a verdict: rubric, judge, settings and guards."""
    settings = msgspec.json.encode(dict(judge.settings), order="deterministic")
    return digest("judge version", rubric.digest, settings, ",".join(guards))


def _in_turns(entries: Sequence[Entry]) -> list[Entry]:
    tasks: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda e: (natural(task_name(e.head)), e.head.attempt)):
        tasks.setdefault(task_name(entry.head), []).append(entry)
    most = max(map(len, tasks.values()), default=0)
    return [own[turn] for turn in range(most) for own in tasks.values() if turn < len(own)]


class _SharedTexts(Mapping[Ref, str]):
    """Texts of a store, read by one thread at a time."""

    def __init__(self, texts: Mapping[Ref, str]) -> None:
        self._texts = texts
        self._lock = _READING

    def __getitem__(self, ref: Ref) -> str:
        with self._lock:
            return self._texts[ref]

    def __iter__(self) -> Iterator[Ref]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


_READING = threading.RLock()
