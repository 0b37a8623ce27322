"""Test runs of DeepEval: the JSON that `deepeval test run` and `evaluate` leave, with `testCases`.

One trace per test case: the input, the tools that were called, the output, cost and time. The outcome is the test
case's own `success`; where the metrics that failed ended in an error, nothing judged it and it has no outcome. Every
metric is a label with its score and reason. Written from files of DeepEval itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.chat import ChatBuilder
from ethogram.capture.draft import Draft, PayloadWords
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_float, as_list, as_name, as_text, chat_message, to_json
from ethogram.capture.peek import Peek
from ethogram.capture.records import objects, records
from ethogram.capture.source import Source
from ethogram.traces import Missing, Outcome, Scored, cut_whole

from ._graded import add_exchange, add_grades, texts_of
from ._shared import as_object

FORMAT = "deepeval"
MARKS = frozenset(["testRunData", "testCases", "conversationalTestCases"])


def sniff(peek: Peek) -> int:
    """A list of test cases with data of metrics."""
    run = _test_run(peek.first)
    cases = [*as_list(run.get("testCases")), *as_list(run.get("conversationalTestCases"))]
    return 95 if cases and "metricsData" in as_dict(cases[0]) else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per test case."""
    for _, document in objects(records(source, intake), intake):
        run = _test_run(document)
        settings = as_dict(run.get("hyperparameters"))
        for where, case in _cases(run):
            with intake.record(where):
                _read_case(as_object(case, "the test case"), where, settings, intake)


def _test_run(document: dict[str, Any]) -> dict[str, Any]:
    """The test run itself; `.deepeval/.latest_test_run.json` has it one level down."""
    return as_dict(document.get("testRunData")) or document


def _cases(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for number, case in enumerate(as_list(document.get("testCases"))):
        yield f"test case {number}", case
    for number, case in enumerate(as_list(document.get("conversationalTestCases"))):
        yield f"conversation {number}", case


def _read_case(case: dict[str, Any], where: str, settings: dict[str, Any], intake: Intake) -> None:
    with intake.trace(where) as trace:
        trace.task = _task(case)
        model = as_name(settings.get("model")) or None
        trace.agent = model or ""
        trace.outcome = _outcome(case)
        trace.meta = {
            **as_dict(case.get("metadata") or case.get("additionalMetadata")),
            "model": model,
            "tags": ", ".join(texts_of(case.get("tags"))) or None,
            "expected": as_text(case["expectedOutput"]) if case.get("expectedOutput") is not None else None,
            "seconds": as_float(case.get("completionTime")),
        }
        _add_body(trace, case, model, intake, where)
        if case.get("trace"):
            intake.lose("trace (spans of DeepEval's own tracing)")
        add_grades(trace, map(_grade, map(as_dict, as_list(case.get("metricsData")))), FORMAT)


def _outcome(case: dict[str, Any]) -> Outcome:
    """What the case says of itself; a metric that failed itself says nothing of the agent."""
    success = case.get("success")
    if not isinstance(success, bool):
        return Missing("unscored")
    failed = [m for m in map(as_dict, as_list(case.get("metricsData"))) if m.get("success") is not True]
    if not success and failed and all(m.get("error") for m in failed):
        told = f"{as_text(failed[0].get('name'))}: {as_text(failed[0]['error'])}"
        return Missing("infrastructure.verifier", cut_whole(told, 500))
    return Scored(float(success), FORMAT)


def _task(case: dict[str, Any]) -> str:
    """The name of a case; `test_case_3` is its place in the file, so then the input."""
    name = as_name(case.get("name"))
    asked = PayloadWords(as_text(case.get("input") or case.get("scenario")).strip())
    return asked if asked and (not name or name.startswith(("test_case_", "conversational_test_case_"))) else name


def _add_body(trace: TraceBuilder, case: dict[str, Any], model: str | None, intake: Intake, where: str) -> None:
    cost = as_float(case.get("tokenCost"))
    turns = as_list(case.get("turns"))
    if not turns:
        tools = map(_tool, map(as_dict, as_list(case.get("toolsCalled"))))
        add_exchange(trace, case.get("input"), case.get("actualOutput"), tools=tools, model=model, cost_usd=cost)
        return
    chat = ChatBuilder(trace, agent=trace.agent)
    for number, turn in enumerate(turns):
        with intake.record(f"{where}, turn {number}"):
            turn = as_object(turn, "the turn")
            for call in as_list(turn.get("toolsCalled")):
                trace.add(_tool(as_dict(call)))
            chat.add(chat_message(turn), model=model if turn.get("role") == "assistant" else None)
            trace.answer = as_text(turn.get("content")) if turn.get("role") == "assistant" else trace.answer
    chat.close()


def _tool(call: dict[str, Any]) -> Draft:
    name, arguments, result = as_name(call.get("name")) or "unknown", call.get("inputParameters"), call.get("output")
    return Draft(
        kind="tool",
        name=name,
        tool=name,
        arguments=None if arguments is None else to_json(arguments),
        result=None if result is None else as_text(result),
    )


def _grade(metric: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": metric.get("name"),
        "value": None if metric.get("error") else as_float(metric.get("score")),
        "why": metric.get("error") or metric.get("reason"),
    }
