"""Labels by hand on a trace or a step, with author and reason. Added, never edited; the newest counts."""

from __future__ import annotations

import csv
import getpass
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ethogram.capture.intake import Skipped
from ethogram.errors import BadUsage
from ethogram.findings.classes_by_hand import CLASS_LABEL, NO_CLASS, named_classes, step_of_label
from ethogram.findings.findings import FAILURE_CLASSES
from ethogram.reading.label_rows import OUTCOME, csv_rows, trace_finder
from ethogram.reading.task_names import task_name
from ethogram.reading.traces import split_place
from ethogram.result import Result
from ethogram.store import Entry, Home, Run, home_of, run_of
from ethogram.store.lake import redactor_of
from ethogram.store.rescore import append_outcomes
from ethogram.traces import Label, Param, Ref, Scored, SpanId, short_id

from .samples import Sample, draw_audit, draw_sample, sampled_items
from .verdicts import RUBRIC

__all__ = ["CLASS_LABEL", "HandLabel", "LabelResult", "label", "label_trace", "labeller"]

SHEET = ("trace", "task", "attempt", "source", "name", "value", "by", "why")
"""The columns of a sheet to fill in; `value` is empty."""


_Asked = tuple[Entry, str]
"""A trace, and the name of a label that it should get."""


class HandLabel(msgspec.Struct, frozen=True, kw_only=True):
    """One statement by hand; `step` is None where it is about the whole trace."""

    trace: str
    task: str
    attempt: int
    step: int | None
    name: str
    value: float | bool | str | None
    by: str
    why: str | None


class LabelResult(Result, kw_only=True):
    """The labels that were added, and all labels of the run.

    `labelled` labels were added. `left` traces have no label of the name by hand; of failure classes only traces that
    did not succeed count, and with a `sample` those that it drew. `labels` are the newest per trace and step. `sheet`
    is the file to fill in, if one was written, and `next` the command that takes it.
    """

    run: str
    name: str
    labelled: int
    left: int
    labels: list[HandLabel]
    skipped: list[Skipped] = []
    sheet: str | None = None
    next: str | None = None
    sample: Sample | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One row per label."""
        return [msgspec.to_builtins(x) for x in self.labels]


class _Said(msgspec.Struct, frozen=True):
    """One statement before it is checked."""

    entry: Entry
    name: str
    value: str
    by: str
    why: str
    step: int | None


def label(
    run: str | Run = "latest",
    trace: str | None = None,
    value: str | None = None,
    *,
    name: str = CLASS_LABEL,
    step: int | None = None,
    why: str | None = None,
    by: str | None = None,
    csv_file: str | Path | None = None,
    out: str | Path | None = None,
    sample: int | None = None,
    audit_share: float | None = None,
    strata: Sequence[str] = ("verdict",),
    home: Home | str | None = None,
) -> LabelResult:
    """Add labels by hand, one (`trace`, `value`) or those of a CSV, or write `out`, the sheet of what is left to label.

    The label `failure_class` overrides the classes that rules found in `why`; its value is one class, several with
    commas between them, or `none`, and it needs a `why`. `trace` is the start of an id, TASK/ATTEMPT, or ID:STEP. The
    CSV has the columns trace (or task and attempt) and value, and may have step, name, by and why; rows without a value
    are passed over. `sample` draws that many traces in all for labels that calibrate a judge, divided by `strata`;
    `audit_share` draws the standing audit, a share of all judged traces. Raises `BadUsage` for a value that cannot be,
    `NotFound` for a run or a trace that does not exist.

    Example: `label("night", "4f1c22:10", "loop", why="the same search three times")`
    """
    lake = home_of(home)
    found = run_of(run, lake)
    if trace is not None and value is None:
        raise BadUsage(f"trace {trace!r} needs a value, e.g.: ethogram label {found.name} {trace} loop --why '…'")
    said: list[_Said] = []
    skipped: list[Skipped] = []
    if trace is not None and value is not None:
        said.append(_said(found, trace, value, name, step, why, by))
    if csv_file is not None:
        said.extend(_from_csv(found, Path(csv_file), name, by, skipped))
        if not said and not skipped:
            raise BadUsage(f"no row of {csv_file} has a value yet; fill in its column value")
    labels = [label for one in said if (label := _label(found, one, skipped, strict=csv_file is None)) is not None]
    if csv_file is not None and len(named := {x.name for x in labels}) == 1:
        (name,) = named
    labels = labels if csv_file is None else _unknown(found, labels)
    redactor = redactor_of(found, lake)
    append_outcomes(found, {}, labels, redactor)
    drawn = None
    if sample is not None or audit_share is not None:
        name = _sampled_name(found, name)
        if sample is not None:
            drawn = draw_sample(found, name, sample, strata, redactor)
        if audit_share is not None:
            drawn = draw_audit(found, name, audit_share, redactor)
    left = _left(found, name) if drawn is None else _left_of(found, drawn, by)
    if out is not None:
        _write_sheet(Path(out), left)
    return LabelResult(
        run=found.name,
        name=name,
        labelled=len(labels),
        left=len({row[0].head.trace_id for row in left}),
        labels=list(_standing(found, name)),
        skipped=skipped,
        sheet=None if out is None else str(out),
        next=None if out is None else _next(found, str(out), name, drawn is not None),
        sample=drawn,
    )


def label_trace(
    run: str | Run,
    trace: str,
    value: str,
    *,
    name: str,
    step: int | None = None,
    why: str | None = None,
    by: str | None = None,
    home: Home | str | None = None,
) -> Label:
    """Add one label by hand, as `label` does, without reading what stands in the run; gives the label.

    Raises `BadUsage` for a value that cannot be, `NotFound` for a run or a trace that does not exist.

    Example: `label_trace("night", "4f1c22", "true", name="rubric/termination", by="ada")`
    """
    lake = home_of(home)
    found = run_of(run, lake)
    label = _label(found, _said(found, trace, value, name, step, why, by), [], strict=True)
    assert label is not None
    append_outcomes(found, {}, [label], redactor_of(found, lake))
    return label


def labeller(by: str | None) -> str:
    """Who labels: the name that is given, else the login; raises `BadUsage` where there is neither."""
    if by:
        return by
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise BadUsage("say who labels, with --by NAME") from None


def _said(run: Run, trace: str, value: str, name: str, step: int | None, why: str | None, by: str | None) -> _Said:
    place, at = split_place(trace)
    return _Said(run.find(place), name, value, labeller(by), why or "", at if step is None else step)


def _next(run: Run, sheet: str, name: str, sampled: bool) -> str:
    """What to do with a sheet that is filled in: outcomes score the run, everything else is a label only."""
    verb, option = ("score", "--labels") if name == OUTCOME and not sampled else ("label", "--from")
    return f"ethogram {verb} {shlex.quote(run.name)} {option} {shlex.quote(sheet)}"


def _from_csv(run: Run, path: Path, name: str, by: str | None, skipped: list[Skipped]) -> Iterator[_Said]:
    find = trace_finder(run.entries)
    for where, row in csv_rows(path):
        if not row["value"]:
            continue
        place, at = split_place(row.get("trace", ""))
        entry, why = find({**row, "trace": place})
        number = row.get("step", "")
        if entry is None:
            skipped.append(Skipped(where, why or "no trace of the run fits"))
        elif number and not number.isdecimal():
            skipped.append(Skipped(where, f"{number!r} is not a step; steps are numbers from 0"))
        else:
            step = int(number) if number else at
            said = row.get("why", "")
            yield _Said(entry, row.get("name") or name, row["value"], row.get("by") or labeller(by), said, step)


def _label(run: Run, said: _Said, skipped: list[Skipped], *, strict: bool) -> Label | None:
    """A statement as a label; one that cannot be is refused, or skipped where there are many."""
    try:
        span = _span(run, said.entry, said.step)
        value = _value(said)
    except BadUsage as error:
        if strict:
            raise
        skipped.append(Skipped(said.entry.head.trace_id, error.cli_message))
        return None
    return Label(
        trace_id=said.entry.head.trace_id,
        span_id=span,
        name=said.name,
        value=value,
        by=said.by,
        source="hand",
        why=Ref(said.why) if said.why else None,
    )


def _span(run: Run, entry: Entry, step: int | None) -> SpanId | None:
    if step is None:
        return None
    steps = run.trace(entry).steps
    if not 0 <= step < len(steps):
        raise BadUsage(f"trace {entry.head.trace_id} has no step {step}; it has steps 0 to {len(steps) - 1}")
    return steps[step].span_id


def _value(said: _Said) -> Param:
    """The value: a class that is known, else a number, true or false, else words."""
    if said.name == CLASS_LABEL:
        classes = named_classes(said.value)
        if classes is None:
            known = ", ".join((*FAILURE_CLASSES, NO_CLASS))
            raise BadUsage(
                f"{said.value!r} is not a failure class; classes are: {known}; name another label with --label"
            )
        if not said.why:
            raise BadUsage("a failure class by hand overrides what rules found: say why with --why")
        return ",".join(classes) or NO_CLASS
    if said.value.lower() in ("true", "false"):
        return said.value.lower() == "true"
    try:
        number = float(said.value)
    except ValueError:
        return said.value
    return number if abs(number) < float("inf") else said.value


def _unknown(run: Run, labels: list[Label]) -> list[Label]:
    """Labels that the run does not have yet: a sheet may be read again whenever it has grown."""
    newest = {(x.trace_id, x.span_id, x.name, x.by): x.value for x in run.labels() if x.source == "hand"}
    return [x for x in labels if newest.get((x.trace_id, x.span_id, x.name, x.by), newest) != x.value]


def _sampled_name(run: Run, name: str) -> str:
    """The label that a sample is for: the one that is named, else what judges said of the run."""
    if name != CLASS_LABEL:
        return name
    judged = sorted({x.name for x in run.labels() if x.source == "judge"})
    if any(x.startswith(RUBRIC + "/") for x in judged):
        return RUBRIC
    if len(judged) != 1:
        known = f"; judges gave: {', '.join(judged[:6])}" if judged else ""
        raise BadUsage(f"say which score to sample for with --label NAME{known}")
    return judged[0]


def _left_of(run: Run, sample: Sample, by: str | None) -> list[_Asked]:
    """What a sample drew and nobody labelled yet, or this person did not; of a rubric every item that was judged."""
    names = [i.name for i in sampled_items(run, sample.name)] if sample.name == RUBRIC else [sample.name]
    done = {(x.trace_id, x.name) for x in run.labels() if x.source == "hand" and by in (None, x.by)}
    entries = {e.head.trace_id: e for e in run.entries if not e.forgotten}
    traces = [d.trace for d in sample.drawn if d.trace in entries]
    return [(entries[t], name) for t in traces for name in dict.fromkeys(names) if (t, name) not in done]


def _left(run: Run, name: str) -> list[_Asked]:
    """Traces without a label of this name by hand."""
    done = {x.trace_id for x in run.labels() if x.name == name and x.source == "hand"}
    threshold = run.success_at
    left = []
    for entry in run.entries:
        outcome = entry.head.outcome
        succeeded = isinstance(outcome, Scored) and outcome.success(threshold)
        if entry.head.trace_id not in done and not entry.forgotten and not (succeeded and name == CLASS_LABEL):
            left.append((entry, name))
    return left


def _standing(run: Run, name: str) -> Iterator[HandLabel]:
    """The newest label by hand of each trace and step, in the order of the run."""
    newest: dict[str, dict[SpanId | None, Label]] = {}
    for label in run.labels():
        if label.name == name and label.source == "hand":
            newest.setdefault(label.trace_id, {})[label.span_id] = label
    for entry in run.entries:
        head = entry.head
        if head.trace_id not in newest or entry.forgotten:
            continue
        trace = run.trace(entry)
        for label in newest[head.trace_id].values():
            yield HandLabel(
                trace=head.trace_id,
                task=task_name(head),
                attempt=head.attempt,
                step=step_of_label(trace, label),
                name=label.name,
                value=label.value,
                by=label.by,
                why=trace.text(label.why) if label.why is not None else None,
            )


def _write_sheet(path: Path, left: list[_Asked]) -> None:
    if path.exists():
        raise BadUsage(f"{str(path)!r} exists, and may hold labels: choose another name", where=str(path))
    try:
        with path.open("x", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(SHEET)
            for entry, name in left:
                head = entry.head
                source = head.origin.name if head.origin else ""
                short = short_id(head.trace_id)
                writer.writerow((short, task_name(head), head.attempt, source, name, "", "", ""))
    except OSError as error:
        raise BadUsage(f"cannot write {str(path)!r}: {error.strerror}", where=str(path)) from None
