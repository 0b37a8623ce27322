"""Reports of pydantic-evals, serialised with `EvaluationReportAdapter.dump_json` (`cases`, `failures`).

One trace per case: inputs, output, duration, and cost and tokens where its metrics have them. The outcome is whether
all assertions hold, else the only score; with several scores choose one with `--outcome-from label:NAME`. A task that
raised is scored 0, unless its error was one of the network or the provider. Written from reports of pydantic-evals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_float, as_int, as_list, as_name, as_text
from ethogram.capture.peek import Peek
from ethogram.capture.records import objects, records
from ethogram.capture.source import Source
from ethogram.traces import Missing, Outcome, Scored

from ._graded import add_exchange, add_grades
from ._shared import add_crash, as_object, infrastructure

FORMAT = "pydantic-evals"
_GRADES = ("assertions", "scores", "labels")
MARKS = frozenset(["cases"])


def sniff(peek: Peek) -> int:
    """Cases with assertions, scores and labels, or failures with an error."""
    first = peek.first
    if not isinstance(first.get("cases"), list) or "failures" not in first:
        return 0
    case = as_dict(next(iter([*as_list(first["cases"]), *as_list(first["failures"])]), None))
    return 95 if {"assertions", "scores", "labels"} <= case.keys() or "error_message" in case else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per case, failed ones included."""
    for place, document in objects(records(source, intake), intake):
        with intake.record(place):
            facts, agent = as_dict(document.get("experiment_metadata")), as_name(document.get("name"))
            for where, case in _cases(document):
                with intake.record(where):
                    _read_case(as_object(case, "the case"), where, agent, facts, intake)


def _cases(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for kind, name in (("cases", "case"), ("failures", "failure")):
        for number, case in enumerate(as_list(document.get(kind))):
            yield f"{name} {number}", case


def _read_case(case: dict[str, Any], where: str, agent: str, facts: dict[str, Any], intake: Intake) -> None:
    with intake.trace(where) as trace:
        trace.task = as_name(case.get("source_case_name") or case.get("name"))
        trace.agent = agent
        trace.outcome = _outcome(case)
        metrics, attributes = as_dict(case.get("metrics")), as_dict(case.get("attributes"))
        expected = case.get("expected_output")
        trace.meta = {
            **facts,
            **attributes,
            **as_dict(case.get("metadata")),
            **metrics,
            "seconds": as_float(case.get("task_duration")),
            "expected": None if expected is None else as_text(expected),
        }
        add_exchange(
            trace,
            case.get("inputs"),
            case.get("output"),
            model=as_name(attributes.get("model")) or None,
            input_tokens=as_int(metrics.get("input_tokens")),
            output_tokens=as_int(metrics.get("output_tokens")),
            cost_usd=as_float(metrics.get("cost")),
        )
        if case.get("error_message") is not None:
            add_crash(trace, as_text(case.get("error_stacktrace") or case["error_message"]))
        for kind in _GRADES:
            found = as_dict(case.get(kind)).values()
            add_grades(trace, ({**g, "why": g.get("reason")} for g in map(as_dict, found)), FORMAT)


def _outcome(case: dict[str, Any]) -> Outcome:
    error = case.get("error_message")
    if error is not None:
        return infrastructure(as_text(error)) or Scored(0.0, "task error")
    asserted = [as_dict(a).get("value") for a in as_dict(case.get("assertions")).values()]
    if asserted and all(isinstance(a, bool) for a in asserted):
        return Scored(float(all(asserted)), "assertions")
    scores = [(name, as_float(as_dict(s).get("value"))) for name, s in as_dict(case.get("scores")).items()]
    if len(scores) == 1 and scores[0][1] is not None:
        return Scored(scores[0][1], scores[0][0])
    return Missing("unscored", f"{len(scores)} scores and no assertion" if scores else "")
