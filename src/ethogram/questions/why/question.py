"""Causes of failure with evidence from any stored run, scored or not, and what stays unexplained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
import numpy as np

from ethogram.arguments import check_level
from ethogram.display.shorten import shortened
from ethogram.errors import BadUsage, NotFound
from ethogram.findings.finding import quoted
from ethogram.findings.findings import Category
from ethogram.measures.contrasts import share_of
from ethogram.measures.layer_changes import compare_layers
from ethogram.measures.layers import LayerScores
from ethogram.measures.outcomes import outcomes_of
from ethogram.reading.expected_calls import facts_for
from ethogram.reading.layers import layers_result, place_scores
from ethogram.reading.samples import traced_run
from ethogram.reading.suite_versions import comparable_tasks, refuse_itself
from ethogram.reading.task_names import natural, task_name, without_task
from ethogram.store import Entry, Home, Run, home_of
from ethogram.store.batch import traceless
from ethogram.traces import Scored, short_id

from .cause_words import owner_of, what_it_is
from .causes import CauseGroup, Causes, Tested, find_causes, grouped_leads
from .decisions import Choice, step_of
from .experiments import experiment_for
from .owners import Owner, owners_of
from .results import Cause, ClassRow, Example, Said, TemplateRow, WhyResult, WhyTrace
from .run_findings import SHOWN, VERIFIER, AllFindings, Seen, chosen_examples, gather_findings, with_text
from .scoring_ways import way_by_hand, ways_to_score
from .trend import compare_causes

MOST_LEADS = 20
MOST_NAMED = 100
"""Failed runs that a cause names."""
MOST_TASKS_NAMED = 3
"""Up to this number of tasks the headline names them."""


class WhyReading(NamedTuple):
    """An answer with what it rests on: the run, what was found in it, what the test and each layer said."""

    run: Run
    found: AllFindings
    tested: Causes
    layers: LayerScores
    result: WhyResult


def why(
    run: str | Run = "latest",
    *,
    task: str | None = None,
    against: str | Run | None = None,
    common_tasks: bool = False,
    level: float = 0.95,
    home: Home | str | None = None,
) -> WhyResult:
    """Why a run fails: causes, leads, what the verifier said, error templates and decision points, with examples.

    `task` looks at the attempts of one task only. `against` is another run of the same tasks: the answer then also
    says what became more frequent since; of different versions of a suite only with `common_tasks`. In a run with
    scores, a cause is more frequent in failures than in successes of the same tasks by one test over all that was
    looked at, and everything else is a lead. A run without scores has leads only, and `score_with` says how to score
    it. Raises `NotFound` for a run or a task that does not exist, `BadUsage` for runs without a common task.

    Example: `[cause.what for cause in why("night").causes]`
    """
    check_level(level)
    lake = home_of(home)
    found, gathered, tested, placed, result = read_why(run, task=task, level=level, home=lake)
    if against is not None:
        base = traced_run(against, lake, "why")
        refuse_itself(base, found)
        same = comparable_tasks(base, found, common_tasks=common_tasks)
        earlier = [e for e in _entries(base, task) if same is None or task_name(e.head) in same]
        if not {task_name(e.head) for e in earlier} & {task_name(e.head) for e in _entries(found, task)}:
            raise BadUsage(f"{base.name!r} and {found.name!r} have no task in common; compare runs of the same suite")
        before = gather_findings(base, earlier, facts_for(base, lake))
        against_it = compare_causes(gathered, before, base.name, tested, level)
        moved = compare_layers(_layers(base, earlier, before), placed, level=level)
        result.against = msgspec.structs.replace(against_it, layers=moved)
    if result.failed is None:
        result.score_with = ways_to_score(found, lake)
        result.notes.append(f"to score it by hand, fill in a sheet: {way_by_hand(found, lake)}")
        result.notes.append("the pattern below (regex=…) is an example: write what only the answer of a success says")
    return result


def read_why(run: str | Run, *, task: str | None, level: float, home: Home) -> WhyReading:
    """The answer for one run, and what it rests on."""
    found = traced_run(run, home, "why")
    entries = _entries(found, task)
    gathered = gather_findings(found, entries, facts_for(found, home))
    tested = find_causes(gathered, level)
    told = _Answer(found, gathered, tested, owners_of(found), level)
    result = told.result(task)
    for number, group in enumerate(tested.causes):
        experiment = experiment_for(found, gathered, group, home)
        result.causes[number] = msgspec.structs.replace(result.causes[number], experiment=experiment)
    placed = _layers(found, entries, gathered)
    by_layer = layers_result(found, placed, level)
    result.layers, result.look = by_layer.layers, by_layer.look
    result.notes += by_layer.notes
    return WhyReading(found, gathered, tested, placed, result)


def _layers(run: Run, entries: Sequence[Entry], found: AllFindings) -> LayerScores:
    """What each layer says of these entries; how their calls differ from the reference was found already."""
    rows = []
    for number, entry in enumerate(entries):
        outcome = entry.head.outcome
        known = (outcome.value, None) if isinstance(outcome, Scored) else (None, outcome.reason)
        rows.append((task_name(entry.head), number, *known))
    category = {row.entry.head.trace_id: row.category for row in found.rows}
    outcomes = outcomes_of(rows, success_at=run.success_at)
    return place_scores(run, entries, outcomes, lambda entry: category.get(entry.head.trace_id))


def _entries(run: Run, task: str | None) -> Sequence[Entry]:
    if not run.entries and (batched := traceless(run.batches)):
        raise NotFound(
            f"run {run.name!r} has no traces to read: {batched}; see what is in it with: ethogram show {run.name}",
            where=f"run {run.name!r}",
            what="trace",
        )
    if task is None:
        if not run.entries:
            raise NotFound(
                f"run {run.name!r} has no traces to read; run or import something first",
                where=f"run {run.name!r}",
                what="trace",
            )
        return run.entries
    chosen = [e for e in run.entries if task_name(e.head) == task]
    if not chosen:
        known = sorted({task_name(e.head) for e in run.entries}, key=natural)
        raise NotFound.named("task", task, known, where=f"run {run.name!r}")
    return chosen


class _Answer:
    """The parts of the answer, from what was gathered and tested."""

    def __init__(self, run: Run, found: AllFindings, tested: Causes, owners: dict[str, Owner], level: float) -> None:
        self.run, self.found, self.tested, self.owners, self.level = run, found, tested, owners, level
        self.failed = [i for i, row in enumerate(found.rows) if row.failed]
        self.scored = sum(row.failed is not None for row in found.rows)
        self.open: set[int] = set()

    def result(self, task: str | None) -> WhyResult:
        """The whole answer."""
        groups = self.tested.causes
        causes = [self._cause(g) for g in groups]
        shown = self.tested.leads if self.scored else self._unscored_leads()
        leads = [self._cause(g) for g in shown[:MOST_LEADS]]
        explained = {r for g in groups for t in (g.head, *g.also) for r in t.rows if self.found.rows[r].failed}
        failed = len(self.failed) if self.scored else None
        return WhyResult(
            run=self.run.name,
            task=task,
            headline=self._headline(causes, leads),
            runs=len(self.found.rows),
            scored=self.scored,
            failed=failed,
            explained=len(explained) if failed is not None else None,
            unexplained=failed - len(explained) if failed is not None else None,
            causes=causes,
            leads=leads,
            said=self._said(),
            classes=self._classes(),
            reference=self._reference(),
            traces=self._traces(explained),
            templates=self._templates(),
            decision_points=self.tested.points,
            contrast=self._contrast(),
            tested=self.tested.family.tested,
            mixed_tasks=self.tested.mixed,
            missing=self.found.missing,
            notes=self._notes(),
        )

    def _cause(self, group: CauseGroup) -> Cause:
        tested = group.head
        seen, contrast = tested.seen, tested.contrast
        rests_on: list[str] = [
            row.entry.head.trace_id for i, row in enumerate(self.found.rows) if i in tested.rows and row.failed
        ]
        owner, first = owner_of(tested, self.owners, self.found)
        return Cause(
            cause=contrast.name,
            what=what_it_is(seen, self.found),
            class_=seen.cls if isinstance(seen, Seen) else None,
            source=tested.source,
            failed_with=contrast.failed_with,
            succeeded_with=contrast.succeeded_with,
            share=contrast.share,
            lift=contrast.lift,
            examples=self._examples(tested),
            owner=owner,
            try_=first,
            runs_with=len(tested.shown_in),
            excess=contrast.excess,
            p=contrast.p,
            adjusted=contrast.adjusted,
            step=tested.step,
            also=[t.contrast.name for t in group.also],
            rests_on=rests_on[:MOST_NAMED],
            tasks=self._tasks(tested),
        )

    def _tasks(self, tested: Tested) -> dict[str, int]:
        rows = [self.found.rows[r] for r in (tested.rows if self.scored else tested.shown_in)]
        return dict(Counter(r.task for r in rows if r.failed or not self.scored).most_common())

    def _examples(self, tested: Tested) -> list[Example]:
        seen = tested.seen
        if isinstance(seen, Seen) and seen.examples:
            chosen = chosen_examples(seen, self.found.rows, failed_only=bool(self.scored))
        else:
            rows = sorted(tested.rows, key=lambda r: (not self.found.rows[r].failed, r))
            rows = [r for r in rows if self.found.rows[r].failed is not False]
            chosen = [self._place(seen, r) for r in _of_different_tasks(rows, self.found)]
        return [e if e.text else with_text(e, self.run.trace(e.trace)) for e in chosen]

    def _place(self, seen: Seen | Choice, row: int) -> Example:
        path = self.found.paths[row]
        step = step_of(seen, path) if isinstance(seen, Choice) else len(path) - 1
        step = min(step, len(path) - 1)
        return Example(trace=self.found.rows[row].entry.head.trace_id, step=step if step >= 0 else None, text="")

    def _unscored_leads(self) -> list[CauseGroup]:
        """Without scores all that tells of trouble by itself, by the number of runs that show it."""
        chosen = [t for t in self.tested.tested if t.is_failure_sign]
        return grouped_leads(sorted(chosen, key=lambda t: (-len(t.shown_in), t.strength, t.contrast.name)))

    def _said(self) -> list[Said]:
        told = []
        for seen in self.found.seen.values():
            rows = [r for r in seen.rows if self.found.rows[r].failed is not False]
            if seen.source == VERIFIER and rows:
                examples = chosen_examples(seen, self.found.rows, failed_only=False)
                told.append(Said(said=what_it_is(seen, self.found), failed_with=len(rows), examples=examples))
        return sorted(told, key=lambda s: (-s.failed_with, s.said))[:MOST_LEADS]

    def _classes(self) -> list[ClassRow]:
        """Classes by the failed runs that show them, with the share that they and those above them cover."""
        rows = self.found.rows
        among = self.failed if self.scored else range(len(rows))
        count = Counter(c for i in among for c in rows[i].classes)
        tasks = {t: n for n, t in enumerate(dict.fromkeys(rows[i].task for i in among))}
        of = np.bincount([tasks[rows[i].task] for i in among], minlength=len(tasks)).astype(np.int64)
        covered: set[int] = set()
        out = []
        for name, number in sorted(count.items(), key=lambda c: (-c[1], c[0])):
            own = [i for i in among if name in rows[i].classes]
            covered.update(own)
            hits = np.bincount([tasks[rows[i].task] for i in own], minlength=len(tasks)).astype(np.int64)
            share = share_of(hits, of, self.level)
            out.append(
                ClassRow(
                    class_=name,
                    failed_with=number if self.scored else 0,
                    succeeded_with=sum(name in r.classes for r in rows if r.failed is False),
                    share=share if self.scored else msgspec.structs.replace(share, of="runs"),
                    covered=len(covered) / max(len(among), 1),
                    owner=self.owners[name].owner,
                    try_=self.owners[name].try_,
                )
            )
        return out

    def _reference(self) -> dict[Category, int]:
        """How the calls of failed runs differ from the reference; of all runs where nobody scored them."""
        among = self.failed if self.scored else range(len(self.found.rows))
        return dict(Counter(c for i in among if (c := self.found.rows[i].category) is not None).most_common())

    def _traces(self, explained: set[int]) -> list[WhyTrace]:
        told = []
        for i, row in enumerate(self.found.rows):
            if row.failed or (row.failed is None and not self.scored and (row.classes or row.step is not None)):
                head = row.entry.head
                told.append(
                    WhyTrace(
                        trace=head.trace_id,
                        task=row.task,
                        attempt=head.attempt,
                        classes=list(row.classes),
                        category=row.category,
                        step=row.step,
                        failed=row.failed,
                        explained=i in explained,
                        by_hand=row.by_hand,
                    )
                )
        return sorted(told, key=lambda t: (natural(t.task), t.attempt, t.trace))

    def _templates(self) -> list[TemplateRow]:
        rows = self.found.rows
        told = []
        for seen in self.found.seen.values():
            if seen.source != "template":
                continue
            known = [rows[r].failed for r in seen.rows]
            told.append(
                TemplateRow(
                    template=seen.name.partition(":")[2],
                    words=str(seen.detail.get("words", "")),
                    episodes=len(seen.rows),
                    failed_with=sum(f is True for f in known) if self.scored else None,
                    succeeded_with=sum(f is False for f in known) if self.scored else None,
                    times=seen.times,
                    of=[name for name, _ in seen.of.most_common(5)],
                    first_seen=_iso(seen.first_ns),
                    last_seen=_iso(seen.last_ns),
                    examples=[e for _, e in seen.examples[:SHOWN]],
                )
            )
        return sorted(told, key=lambda t: (-t.episodes, t.template))

    def _contrast(self) -> str:
        """On what the causes rest, in one sentence."""
        if not self.scored:
            return "no attempt has a score, so nothing can be compared with success: everything found is a lead"
        if not self.failed:
            return "no attempt failed, so there is nothing to compare"
        if not self.tested.mixed:
            return (
                "no task has both failed and successful attempts: differences between tasks are no causes, so "
                "everything found is a lead; run more attempts per task (-k)"
            )
        tests = self.tested.family.tested
        if not tests:
            return "every rule finds the same in all attempts at a task: nothing could be compared"
        return (
            f"causes are more frequent in failures than in successes of the same task, by one exact test over {tests} "
            f"events and choices (adjusted p ≤ .025); tasks with both outcomes: {self.tested.mixed}"
        )

    def _headline(self, causes: list[Cause], leads: list[Cause]) -> str:
        if not self.scored:
            most = f"; most often: {_brief(leads[0].what)} (in {leads[0].runs_with})" if leads else ""
            runs = len(self.found.rows)
            none = "The only attempt has no score" if runs == 1 else f"None of {runs} attempts has a score"
            return f"{none}{most or '; no rule found a sign of failure'}."
        failed = len(self.failed)
        if not failed:
            return (
                "The only scored attempt succeeded."
                if self.scored == 1
                else f"None of {self.scored} scored attempts failed."
            )
        start = f"{failed} of {self.scored} attempts failed"
        top = next(iter((*causes, *leads)), None)
        if top is None:
            if failed == self.scored:
                return f"{start}; no rule explains it, and there is no successful attempt to compare with."
            return f"{start}; no rule finds a difference from the successful ones."
        what = _brief(top.what)
        where = _of_tasks(top) + (f", e.g. {short_place(top.examples[0])}" if top.examples else "")
        if causes:
            good = f"{top.succeeded_with} of {self.scored - failed} successful attempts"
            return f"{start}. Main cause: {what} (in {top.failed_with} of {failed} failed and {good}{where})."
        seen = f"in {top.failed_with} of {failed} failed attempts{where}"
        return f"{start}. No cause is established. Strongest sign: {what} ({seen})."

    def _notes(self) -> list[str]:
        notes = []
        if self.found.unread:
            notes.append(f"{self.found.unread} traces are sealed and were read without their words; give their key")
        if said := [(r.entry.head.trace_id, r.by_hand) for r in self.found.rows if r.by_hand is not None]:
            trace, one = said[0]
            told = f"{trace.removeprefix('b2:')[:10]} {', '.join(one.classes) or 'no class'} by {one.by}: {one.why}"
            notes.append(f"classes set by hand (in no test): {len(said)}, e.g. {quoted(told, 200)}")
        unscored = len(self.found.rows) - self.scored
        if self.scored and unscored:
            notes.append(f"attempts without a score, not compared: {unscored}")
        if nameless := without_task(dict.fromkeys(r.task for r in self.found.rows)):
            notes.append(nameless)
        if self.run.batches:
            notes.append("episodes that were recorded in batches have no traces, and are left out")
        return notes


def short_place(at: Example | WhyTrace) -> str:
    """A place that can be pasted: the start of the trace's id, and the step."""
    name = short_id(at.trace, 10)
    return name if at.step is None else f"{name}:{at.step}"


def _brief(text: str, width: int = 100) -> str:
    return shortened(text, width)


def _of_tasks(cause: Cause) -> str:
    """Where it happens, in a few words."""
    if len(cause.tasks) > MOST_TASKS_NAMED:
        return f", {len(cause.tasks)} tasks"
    names = ", ".join(_brief(task, 24) for task in cause.tasks)
    return f", {'task' if len(cause.tasks) == 1 else 'tasks'} {names}" if names else ""


def _of_different_tasks(rows: list[int], found: AllFindings) -> list[int]:
    first: dict[str, int] = {}
    for row in rows:
        first.setdefault(found.rows[row].task, row)
    chosen = list(first.values())[:SHOWN]
    return [*chosen, *(r for r in rows if r not in chosen)][:SHOWN]


def _iso(ns: int | None) -> str | None:
    return None if ns is None else datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="seconds")
