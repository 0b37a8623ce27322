"""Scoring what is stored, without running the agent: by a suite's checks or others, labels, a CSV or a meta value.

Labels and outcomes are added, never edited. What the world spoiled stays missing: checks do not score an episode
that a broken network cut off. Checks that need the workspace keep the verdict that they gave when it was there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from ethogram.capture.intake import Skipped
from ethogram.capture.verdicts import outcome_of
from ethogram.checks import combine
from ethogram.display import Drawing, Presentation
from ethogram.errors import BadUsage, EthogramError, NotFound
from ethogram.measures.outcomes import UNJUDGED
from ethogram.plans import Suite, Task
from ethogram.reading.label_rows import OUTCOME, csv_rows, trace_finder
from ethogram.reading.stored_checks import StoredChecks, typed_check
from ethogram.reading.suite_versions import own_suite
from ethogram.reading.task_names import task_name
from ethogram.reading.task_rows import TaskRow, task_rows
from ethogram.reading.value_source import value_source
from ethogram.result import Result
from ethogram.store import Entry, Home, Redactor, Run, home_of, run_of
from ethogram.store.lake import redactor_of
from ethogram.store.rescore import append_outcomes
from ethogram.suites.blame import outcome_after_stop
from ethogram.suites.load import LoadedSuite, load_suite
from ethogram.traces import Label, Missing, Outcome, Ref, Scored, TraceId


class ScoreResult(Result, kw_only=True):
    """What a run looks like after it was scored; `unmatched` are tasks that a suite lacks, or CSV rows of no trace.

    `judged` traces were given an outcome, if only the one that they had. About `crashed` ones a check that decides
    raised an exception, the first of which is `crash`; they keep the outcome that they had.
    """

    presentation: ClassVar[Presentation] = Presentation(drawing=Drawing("task", "mean", "mean score", source="tasks"))

    run: str
    scored: int
    missing: dict[str, int]
    successes: int
    changed: int
    labels: int
    judged: int = 0
    crashed: int = 0
    crash: str | None = None
    suite: str | None = None
    suite_digest: str | None = None
    unmatched: list[str] = []
    skipped: list[Skipped] = []
    tasks: list[TaskRow] = []
    notes: list[str] = []

    def rows(self) -> list[dict[str, Any]]:
        """One row per task."""
        return [msgspec.to_builtins(t) for t in self.tasks]


def score(
    run: str | Run = "latest",
    *,
    suite: str | Path | LoadedSuite | None = None,
    labels: str | Path | None = None,
    score: str | None = None,
    outcome_from: str | None = None,
    checks: Sequence[str] = (),
    home: Home | str | None = None,
) -> ScoreResult:
    """Score a stored or imported run without running the agent; labels and outcomes are added, never edited.

    Score by the checks of a `suite` (by default the run's own), by `labels` with columns trace (or task and
    attempt, or source) and value, or by letting the label named `score` be the outcome. `outcome_from` is written as
    for an import: `csv:FILE` is `labels`, `csv:FILE:COLUMN` the same with another column, `label:NAME` is `score`,
    and `meta:KEY` takes a fact of the trace. `checks` are written `KIND=SETTINGS` and asked
    of every trace, all of which must hold. Gives what was scored, changed and skipped. Raises `BadUsage` where the run
    has no suite and nothing is named, `NotFound` for a label, file or run that does not exist.

    Example: `score("night", suite="suite/").scored`
    """
    lake = home_of(home)
    found = run_of(run, lake)
    column: str | None = None
    form, _, rest = (outcome_from or "").partition(":")
    if form == "csv" and rest:
        if labels is not None:
            raise BadUsage("--labels and --outcome-from csv: say the same; name one of them")
        (labels, _, column), outcome_from = rest.partition(":"), None
    elif form == "label" and rest:
        if score is not None:
            raise BadUsage("--score and --outcome-from label: say the same; name one of them")
        score, outcome_from = rest, None
    if suite is None and labels is None and score is None and outcome_from is None and not checks:
        suite = own_suite(found)
        if suite is None:
            raise BadUsage(
                f"run {found.name!r} has no suite of its own; say how to score it with --suite, --labels, --score, "
                "--outcome-from or --check"
            )
    loaded = suite if isinstance(suite, LoadedSuite) else load_suite(suite) if suite is not None else None
    scoring = _Scoring(found, redactor_of(found, lake))
    if loaded is not None:
        scoring.by_suite(loaded)
    if checks:
        scoring.by_checks(checks)
    if outcome_from is not None:
        scoring.by_supply(outcome_from)
    if labels is not None:
        scoring.by_csv(Path(labels), column, promote=score is None)
    if score is not None:
        scoring.by_label(score)
    return scoring.store(loaded.suite if loaded is not None else None)


def score_trace(task: Task, loaded: LoadedSuite, run: Run, entry: Entry, home: Home) -> tuple[Outcome, str]:
    """What the checks of any task say of a stored trace, and why; nothing is stored.

    Checks that need the workspace count only where they judged this very trace when it was there.
    """
    scoring = _Scoring(run, redactor_of(run, home))
    known = scoring.before.get(entry.head.trace_id, {})
    results, crashed = scoring.checks.results(task, loaded.root, entry, known)
    outcome = _blamed(loaded.suite, entry, known, crashed or combine(results, task.outcome))
    said = "; ".join(f"{r.name}: {r.verdict.why}" for r in results if r.verdict.why)
    return outcome, said


class _Scoring:
    """New labels and outcomes, collected until all are known."""

    def __init__(self, run: Run, redactor: Redactor) -> None:
        self.run = run
        self.redactor = redactor
        self.checks = StoredChecks(run, redactor)
        self.success_at = run.success_at
        self.outcomes: dict[TraceId, Outcome] = {}
        self.labels: list[Label] = []
        self.skipped: list[Skipped] = []
        self.crashes: dict[TraceId, str] = {}
        self.unmatched: Counter[str] = Counter()
        self.before: dict[TraceId, dict[tuple[str, str], Label]] = {}
        self.newest: dict[str, dict[TraceId, Label]] = {}
        for label in run.labels():
            if label.span_id is None:
                self.before.setdefault(label.trace_id, {})[label.name, label.by] = label
                self.newest.setdefault(label.name, {})[label.trace_id] = label

    # ---- by a suite ----

    def by_suite(self, loaded: LoadedSuite) -> None:
        """Ask the checks of layers L0 and L1 again, task by task."""
        tasks = {name: t for t in loaded.suite.tasks for name in (self.checks.stored(t.id, "task"), t.id)}
        for entry in self.run.entries:
            head = entry.head
            task = tasks.get(head.task)
            if task is None:
                self.unmatched[head.task or "unknown"] += 1
                continue
            self.success_at = loaded.suite.success_at
            if entry.forgotten or _is_spoiled(entry):
                continue
            known = self.before.get(head.trace_id, {})
            results, crashed = self.checks.results(task, loaded.root, entry, known)
            if crashed is None:
                verdict = combine(results, task.outcome)
                self.outcomes[head.trace_id] = _blamed(loaded.suite, entry, known, verdict)
            else:
                self.crashes[head.trace_id] = crashed.detail
            self.labels.extend(r.label(head.trace_id) for r in results)

    def by_checks(self, written: Sequence[str]) -> None:
        """Ask checks that need no suite of every trace that was not spoiled."""
        checks = tuple(map(typed_check, written))
        for entry in self.run.entries:
            head = entry.head
            if entry.forgotten or _is_spoiled(entry):
                continue
            task = Task(id=task_name(head), checks=checks)
            results, crashed = self.checks.results(task, Path(), entry, self.before.get(head.trace_id, {}))
            if crashed is None:
                self.outcomes[head.trace_id] = combine(results)
            else:
                self.crashes[head.trace_id] = crashed.detail
            self.labels.extend(r.label(head.trace_id) for r in results)

    # ---- by labels ----

    def by_csv(self, path: Path, column: str | None, *, promote: bool) -> None:
        """Take labels from a CSV; traces that it does not name keep what they have."""
        find = trace_finder(self.run.entries)
        for where, row in csv_rows(path, column):
            if not row["value"]:  # a sheet that is not filled in yet
                continue
            entry, why = find(row)
            if entry is None:
                if why is None:
                    self.unmatched[where] += 1
                else:
                    self.skipped.append(Skipped(where, why))
                continue
            verdict = outcome_of(row.get("value"), path.name)
            if verdict is None:
                self.skipped.append(
                    Skipped(where, f"{row.get('value')!r} is neither a number nor a word like pass or fail")
                )
                continue
            assert isinstance(verdict, Scored)
            self.labels.append(
                Label(
                    trace_id=entry.head.trace_id,
                    name=row.get("name") or OUTCOME,  # unless the CSV has a column `name`
                    value=verdict.value,
                    by=row.get("by") or path.name,
                    source="hand",
                    why=Ref(row["why"]) if row.get("why") else None,
                )
            )
            if promote:
                self.outcomes[entry.head.trace_id] = verdict

    def by_supply(self, spec: str) -> None:
        """Take outcomes from a meta value or a name; traces about which these say nothing keep what they have."""
        find = value_source(spec, "outcome")
        known = len(self.outcomes)
        for entry in self.run.entries:
            value = find(self.run.head(entry), ())
            verdict = outcome_of(value, spec)
            if verdict is not None:
                self.outcomes[entry.head.trace_id] = verdict
            elif value is None:
                self.unmatched[task_name(entry.head)] += 1
            else:
                why = f"{value!r} is neither a number nor a word like pass or fail"
                self.skipped.append(Skipped(entry.head.trace_id, why))
        if len(self.outcomes) == known:
            raise self._nothing_from(spec)

    def _nothing_from(self, spec: str) -> EthogramError:
        """Why a source of outcomes scores no trace at all."""
        form, _, rest = spec.partition(":")
        if self.skipped:
            return BadUsage(f"{spec!r} scores no trace of run {self.run.name!r}: {self.skipped[0].why}")
        if form == "meta":
            keys = sorted({key for entry in self.run.entries for key in entry.head.meta})
            return NotFound.named("meta value", rest, keys, where=f"run {self.run.name!r}")
        return BadUsage(f"{spec!r} scores no trace of run {self.run.name!r}: it fits none of their sources")

    def by_label(self, name: str) -> None:
        """Let the newest label of a name decide; a trace without one is unscored."""
        for label in self.labels:
            self.newest.setdefault(label.name, {})[label.trace_id] = label
        if name not in self.newest:
            raise NotFound.named("label", name, sorted(self.newest), where=f"run {self.run.name!r}")
        for entry in self.run.entries:
            trace = entry.head.trace_id
            found = self.newest[name].get(trace)
            verdict = None if found is None or found.value is None else outcome_of(str(found.value), name)
            if verdict is not None:
                self.outcomes[trace] = verdict
            elif isinstance(self.outcomes.get(trace, entry.head.outcome), Scored):
                self.outcomes[trace] = Missing("unscored", f"the trace has no label {name!r} that is a score")

    # ---- storing ----

    def store(self, suite: Suite | None) -> ScoreResult:
        """Add what is new, and say what the run looks like now."""
        before = {e.head.trace_id: e for e in self.run.entries}
        changed = {trace: new for trace, new in self.outcomes.items() if new != self._outcome(before[trace], new)}
        fresh = [x for x in self.labels if not self._is_known(x)]
        notes, another = self._notes(), self.success_at != self.run.success_at
        append_outcomes(self.run, changed, fresh, self.redactor, success_at=self.success_at if another else None)
        entries = self.run.entries
        missing = Counter(e.head.outcome.reason for e in entries if isinstance(e.head.outcome, Missing))
        tasks = task_rows(entries, (), self.run.success_at)
        return ScoreResult(
            run=self.run.name,
            scored=len(entries) - missing.total(),
            missing=dict(sorted(missing.items())),
            successes=sum(t.successes for t in tasks),
            changed=len(changed),
            labels=len(fresh),
            judged=len(self.outcomes),
            crashed=len(self.crashes),
            crash=next((self.redactor.redact(words, "why").text for words in self.crashes.values()), None),
            suite=suite.name if suite is not None else None,
            suite_digest=suite.digest if suite is not None else None,
            unmatched=sorted(self.unmatched),
            skipped=self.skipped,
            tasks=tasks,
            notes=notes,
        )

    def _notes(self) -> list[str]:
        """What a reader of the new scores might not expect: another threshold, another scale than 0 to 1, and traces
        that got no score."""
        notes = []
        if self.success_at != self.run.success_at:
            notes.append(
                f"the run now counts a score of {self.success_at:g} or more as a success, as the suite says; "
                f"it was {self.run.success_at:g}"
            )
        most = max((o.value for o in self.outcomes.values() if isinstance(o, Scored)), default=0.0)
        if most > 1:
            notes.append(
                f"scores go up to {most:g}, and {self.success_at:g} or more counts as a success; where that is not "
                "meant, score with values from 0 to 1, such as those of a CSV (--labels)"
            )
        bare = [o for o in self.outcomes.values() if isinstance(o, Missing) and o.reason == "unscored"]
        if bare:
            why = Counter(o.detail for o in bare if o.detail).most_common(1)
            notes.append(f"traces that got no score: {len(bare)}" + (f", e.g.: {why[0][0]}" if why else ""))
        return notes

    def _outcome(self, entry: Entry, new: Outcome) -> Outcome:
        """The stored outcome; its words are read only where they decide whether a new one says the same."""
        old = entry.head.outcome
        alike = isinstance(old, Missing) and isinstance(new, Missing) and old.reason == new.reason
        return self.run.head(entry).outcome if alike else old

    def _is_known(self, label: Label) -> bool:
        """Whether the newest label of this name and origin says the same: then there is nothing to add."""
        before = self.before.get(label.trace_id, {}).get((label.name, label.by))
        return before is not None and before.value == label.value


def _blamed(suite: Suite, entry: Entry, known: Mapping[tuple[str, str], Label], verdict: Outcome) -> Outcome:
    """The verdict after the suite's rule for what the agent spoiled itself, as when the episode was run."""
    stopped = known.get(("stopped_by", "harness"))
    if stopped is None or _is_spoiled(entry):  # a cap of the experiment is labelled as one of the episode is
        return verdict
    return outcome_after_stop(suite, str(stopped.value), verdict)


def _is_spoiled(entry: Entry) -> bool:
    """Whether the world, the experiment's cap or the kill switch ended the episode: no check scores it."""
    return isinstance(entry.head.outcome, Missing) and entry.head.outcome.reason not in UNJUDGED
