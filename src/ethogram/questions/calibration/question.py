"""Judge against people on a stored run: per item agreement, whether it may be automated, and the corrected rate."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np

from ethogram.arguments import between, check_level
from ethogram.display import Drawing, Presentation
from ethogram.estimate import Estimate
from ethogram.reading.task_names import natural, task_name
from ethogram.result import Result
from ethogram.store import Entry, Home, Run, home_of, run_of
from ethogram.traces import TraceId

from . import draws
from .judge_accuracy import (
    MIN_LABELS,
    Calibration,
    Graded,
    LabelsForWidth,
    Paired,
    calibration_of,
    corrected_rate,
    labels_for_width,
    raw_rate,
)
from .samples import PILOT, answers_of, drawn_for, outcome_word, read_samples, strata_of
from .verdicts import RUBRIC, Item, Unit, Wanted, people_say, read_items

MORE = 50
"""How many labels are proposed at once; as many again are due whenever a judge or its model changes."""


class SliceRate(msgspec.Struct, frozen=True, kw_only=True):
    """The raw and the corrected rate of a part of the runs."""

    by: str
    value: str
    judged: int
    labels: int
    raw: Estimate
    corrected: Estimate


class NextLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Which labels to give next: a number per stratum, and the command that draws them."""

    labels: int
    rule: str
    strata: dict[str, int]
    command: str


class ItemCalibration(Calibration, frozen=True, kw_only=True):
    """One judge on one item of a run.

    `drawn` units were drawn by a sample, and `unlabelled` of them have no label yet. `outside` labels were drawn by
    none and do not enter; `outside_traces` names the first of them. `unjudged` units got no verdict, `earlier` counts
    verdicts of other versions of the judge.
    """

    item: str
    judge: str
    version: str
    drawn: int
    unlabelled: int
    outside: int
    outside_traces: list[str]
    unjudged: int
    earlier: int
    slices: list[SliceRate]
    next: NextLabels | None
    for_width: LabelsForWidth | None = None


class CalibrationResult(Result, kw_only=True):
    """How far the judges of a run can be trusted; `decided` says whether every item is settled."""

    presentation: ClassVar[Presentation] = Presentation(
        columns=("item", "judge", "labels", "agreement", "kappa", "raw", "corrected", "automate", "why"),
        drawing=Drawing("item", "kappa", "agreement beyond chance (kappa)"),
    )

    run: str
    level: float
    unit: str
    items: list[ItemCalibration]
    decided: bool
    notes: list[str] = []

    def rows(self) -> list[dict[str, Any]]:
        """One row per item."""
        return [msgspec.to_builtins(i) for i in self.items]


def calibrate(
    run: str | Run = "latest",
    *,
    labels: str | Path | None = None,
    items: Sequence[str] = (),
    judge: str | None = None,
    score: str | None = None,
    by: Sequence[str] = (),
    steps: bool = False,
    width: float | None = None,
    level: float = 0.95,
    home: Home | str | None = None,
) -> CalibrationResult:
    """Compare verdicts of judges with labels of people on the same traces, and correct the judges' rates.

    `items` of the rubric, all by default, or an ordinary `score` (a label, or the scorer of the outcomes); `judge`
    picks one of several. `labels` adds labels as `label --from` does. `by` names what to slice by: task, condition,
    agent, outcome, or a key of the traces' meta values. `steps` compares verdicts on single steps. `width` asks
    how many labels give an interval that narrow. Labels that no sample drew are counted and do not enter. Raises
    `NotFound` where no judge has said anything.

    Example: `calibrate("night", score="model_graded_qa").items[0].corrected`
    """
    check_level(level)
    if width is not None:
        between("width", width, 0.0, 0.5)
    lake = home_of(home)
    found = run_of(run, lake)
    wanted = Wanted(items=tuple(items), judge=judge, score=score, steps=steps)
    notes = []
    if labels is not None:
        from .labels import label

        only = sorted(wanted.names())
        added = label(found.name, name=only[0] if len(only) == 1 else "outcome", csv_file=labels, home=lake)
        notes.append(f"{added.labelled} labels added from {Path(labels).name}")
        notes += [f"skipped {s.where}: {s.why}" for s in added.skipped[:5]]
        found = lake.resolve(found.name)
    reading = JudgeReading(found)
    made = [reading.calibrated(item, by, level, width) for item in read_items(found, wanted)]
    if any(i.outside for i in made):
        notes.append("labels that no sample drew are about traces that somebody chose: they do not enter any figure")
    return CalibrationResult(
        run=found.name,
        level=level,
        unit="steps" if steps else "traces",
        items=made,
        decided=all(i.decided for i in made),
        notes=notes,
    )


class JudgeReading:
    """A run as calibration needs it: its traces by id, and what samples drew."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.entries = {e.head.trace_id: e for e in run.entries}
        self.samples = read_samples(run)
        self.threshold = run.success_at

    def calibrated(self, item: Item, by: Sequence[str], level: float, width: float | None = None) -> ItemCalibration:
        """One judge on one item."""
        units, paired, outside = self.paired(item)
        drawn = self.drawn(item)
        waiting = [u for u in units if u[0] in drawn and not item.people.get(u)]
        made = calibration_of(paired, level)
        if not drawn and not paired.truth.size:
            made = msgspec.structs.replace(made, why="no sample was drawn")
        return ItemCalibration(
            **{name: getattr(made, name) for name in Calibration.__struct_fields__},
            item=item.name,
            judge=item.judge,
            version=item.version,
            drawn=sum(u[0] in drawn for u in units),
            unlabelled=len(waiting),
            outside=len(outside),
            outside_traces=sorted({t.removeprefix("b2:")[:12] for t, _ in outside})[:5],
            unjudged=sum(v is None for v in item.verdicts.values()),
            earlier=item.earlier,
            slices=[s for word in by for s in self._slices(units, paired, word, level)],
            next=self._next(item, made, waiting),
            for_width=None if width is None else labels_for_width(paired, width, level),
        )

    def drawn(self, item: Item) -> dict[TraceId, float]:
        """How likely each trace was to be drawn for an item; where everything is labelled, nothing had to be."""
        found = drawn_for(self.samples, item.name)
        judged = [u for u, v in item.verdicts.items() if v is not None]
        if not found and judged and all(people_say(item, u) is not None for u in judged):
            return {trace: 1.0 for trace, _ in judged}
        return found

    def paired(self, item: Item, drawn: Mapping[TraceId, float] | None = None) -> tuple[list[Unit], Paired, list[Unit]]:
        """Units with a verdict, verdicts beside labels, and labelled units that no sample drew."""
        units = [u for u, v in item.verdicts.items() if v is not None and u[0] in self.entries]
        verdict = np.array([item.verdicts[u] for u in units], dtype=np.float64)
        names = [task_name(self.entries[t].head) for t, _ in units]
        task = np.unique(np.array(names, dtype=object), return_inverse=True)[1] if units else np.zeros(0)
        drawn = self.drawn(item) if drawn is None else drawn
        truth = {u: y for u in units if (y := people_say(item, u)) is not None}
        place = np.array([i for i, u in enumerate(units) if u in truth and u[0] in drawn], dtype=np.int64)
        likely = np.array([drawn[units[i][0]] for i in place.tolist()], dtype=np.float64)
        chosen = [units[i] for i in place.tolist()]
        answered = _answered(
            [(drawn[u[0]], item.verdicts[u]) for u in units if u[0] in drawn],
            [(drawn[u[0]], item.verdicts[u]) for u in chosen],
        )
        paired = Paired(
            verdict=verdict,
            task=task.astype(np.int64),
            place=place,
            truth=np.array([truth[u] for u in chosen], dtype=np.float64),
            probability=likely * answered,
            ratings=_ratings(item, chosen),
            graded=_graded(item, chosen, 1 / (likely * answered), task.astype(np.int64)[place]),
        )
        return units, paired, [u for u in truth if u[0] not in drawn]

    def _slices(self, units: Sequence[Unit], paired: Paired, by: str, level: float) -> list[SliceRate]:
        values = [self._value(self.entries[t], by) for t, _ in units]
        made = []
        for value in sorted(set(values), key=natural):
            part = paired.only(np.array([v == value for v in values], dtype=bool))
            made.append(
                SliceRate(
                    by=by,
                    value=value,
                    judged=int(part.verdict.size),
                    labels=int(part.truth.size),
                    raw=raw_rate(part, level),
                    corrected=corrected_rate(part, level)[0],
                )
            )
        return made

    def _value(self, entry: Entry, by: str) -> str:
        head = entry.head
        if by == "task":
            return task_name(head)
        if by == "outcome":
            return outcome_word(entry, self.threshold)
        if by in ("condition", "agent"):
            return str(getattr(head, by)) or "–"
        return str(head.meta.get(by, "unknown"))

    def _next(self, item: Item, made: Calibration, waiting: Sequence[Unit]) -> NextLabels | None:
        """What to label next, where that can still change something: what is drawn already, else more."""
        if made.decided and made.labels >= MIN_LABELS:
            return None
        strata = strata_of(self.run, [item], ("verdict",))
        traces = {trace for trace, _ in waiting}
        if traces:
            told = Counter(strata[t] for t in traces)
            command = self._command(item, made.labels + len(traces))
            return NextLabels(
                labels=len(traces), rule="drawn, and not labelled yet", strata=dict(told), command=command
            )
        goal = PILOT if made.labels < PILOT else max(2 * PILOT, made.labels + MORE)
        sizes = Counter(strata.values())
        answers: dict[str, list[float]] = {s: [] for s in sizes}
        for trace, stratum in strata.items():
            answers[stratum] += answers_of([item], trace)
        names = sorted(sizes)
        neyman = made.labels >= 0.8 * PILOT
        spreads = draws.pilot_spread([sum(answers[s]) for s in names], [len(answers[s]) for s in names])
        each = [sizes[s] for s in names]
        have = [len(answers[s]) for s in names]
        totals = draws.neyman(each, spreads, goal, have) if neyman else draws.proportional(each, goal, have)
        more = {s: int(t) - h for s, t, h in zip(names, totals, have, strict=True) if int(t) > h}
        rule = "Neyman: more where people's answers vary" if neyman else "first sample, proportional"
        return NextLabels(labels=sum(more.values()), rule=rule, strata=more, command=self._command(item, goal))

    def _command(self, item: Item, n: int) -> str:
        # one sheet for all items of the rubric: a trace that somebody reads is read for all of them
        name = RUBRIC if item.name.startswith(RUBRIC) and item.name not in self.samples else item.name
        return f"ethogram label {shlex.quote(self.run.name)} --label {shlex.quote(name)} --sample {n} -o sheet.csv"


def _answered(drawn: Sequence[tuple[float, Any]], labelled: Sequence[tuple[float, Any]]) -> Any:
    """Per labelled unit: the share of those drawn like it that have a label by now."""
    asked, told = Counter(drawn), Counter(labelled)
    return np.array([told[key] / asked[key] for key in labelled], dtype=np.float64)


def _graded(item: Item, units: Sequence[Unit], weight: Any, task: Any) -> Graded | None:
    """What judge and people gave labelled units in numbers; None where these are no more than two grades."""
    rows = []
    for i, unit in enumerate(units):
        people = item.people_grades.get(unit, {})
        if unit in item.grades:
            rows += [(item.grades[unit], grade, weight[i] / len(people), task[i]) for grade in people.values()]
    if len({grade for row in rows for grade in row[:2]}) <= 2:
        return None
    judge, person, weights, tasks = (np.array(column) for column in zip(*rows, strict=True))
    return Graded(judge, person, weights, tasks)


def _ratings(item: Item, units: Sequence[Unit]) -> Any:
    people = sorted({person for u in units for person in item.people[u]})
    place: Mapping[str, int] = {person: i for i, person in enumerate(people)}
    ratings = np.full((len(units), len(people)), np.nan)
    for row, unit in enumerate(units):
        for person, answer in item.people[unit].items():
            if answer is not None:
                ratings[row, place[person]] = answer
    return ratings
