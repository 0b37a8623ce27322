"""Exports of LangSmith: results of an experiment as a table, and runs as JSON.

A table is what `ExperimentResults.to_pandas()` gives, as CSV, JSON lines or Parquet: `inputs.*`, `outputs.*`,
`reference.*`, `feedback.*`, `example_id`. One row is one trace: input, output, time; the example is the task. Runs are
what `Client.list_runs` gives as JSON lines or an array (`run_type`, `dotted_order`, `trace_id`): one trace per root,
its runs as spans. The outcome is the only feedback; with several choose one with `--outcome-from label:NAME`.
The table was written from the langsmith package, the fields of runs from its schema and documentation.
"""

from __future__ import annotations

from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_float, as_int, as_list, as_name, as_text, iso_ns, to_json
from ethogram.capture.peek import Peek, peek_at
from ethogram.capture.records import objects, records
from ethogram.capture.rows import TableRow, rows_of, sample_of
from ethogram.capture.source import Source
from ethogram.capture.verdicts import outcome_of
from ethogram.errors import Unreadable
from ethogram.traces import Kind, Message, Missing, Outcome, Text, cut_whole

from ._graded import add_exchange, add_grades, prompt_messages
from ._shared import infrastructure

FORMAT = "langsmith"
_KINDS: dict[str, Kind] = {"llm": "model", "tool": "tool", "retriever": "retrieval", "chain": "agent"}
_RUN = {"run_type", "inputs", "trace_id", "dotted_order"}
MARKS = frozenset(["dotted_order"])


def sniff(peek: Peek) -> int:
    """A table with examples and feedback, or records of runs."""
    if peek.first.keys() >= _RUN:
        return 93
    sample = sample_of(peek)
    names = set(sample.names) if sample is not None else set()
    told = {name.partition(".")[0] for name in names if "." in name}
    return 93 if "example_id" in names and {"inputs", "feedback"} <= told else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per row of a table, or per root of runs."""
    peek = peek_at(source)
    if peek.first.keys() >= _RUN:
        _read_runs(source, intake)
        return
    for where, row in rows_of(source, peek, intake):
        intake.expect(row)
        with intake.record(where):
            _read_row(row, where, intake)


def _below(row: TableRow, prefix: str) -> dict[str, Any]:
    """The columns under a prefix that have a value, without it."""
    start = f"{prefix}."
    return {k.removeprefix(start): v for k, v in row.items() if k.startswith(start) and v is not None}


def _read_row(row: TableRow, where: str, intake: Intake) -> None:
    example = as_name(row.get("example_id"))
    if not example:
        raise Unreadable("the row has no example_id")
    with intake.trace(as_name(row.get("id")) or where) as trace:
        trace.task = example
        feedback, error = _below(row, "feedback"), as_text(row.get("error"))
        trace.outcome = _outcome(feedback, error)
        trace.meta = {"seconds": as_float(row.get("execution_time"))} | {
            f"reference.{k}": v for k, v in _below(row, "reference").items()
        }
        add_exchange(trace, _alone(_below(row, "inputs")), _alone(_below(row, "outputs")))
        if error:
            trace.label("error", True, by=FORMAT, why=error)
        add_grades(trace, ({"name": name, "value": value} for name, value in feedback.items()), FORMAT)


def _alone(values: dict[str, Any]) -> Any:
    """The only value of an object, else the object; None if it is empty."""
    return next(iter(values.values())) if len(values) == 1 else values or None


def _outcome(feedback: dict[str, Any], error: str) -> Outcome:
    """The only feedback; where there is none, why not."""
    verdicts = [v for v in (outcome_of(str(value), name) for name, value in feedback.items()) if v is not None]
    if len(verdicts) == 1:
        return verdicts[0]
    fault = infrastructure(error)
    return fault or Missing("unscored", f"{len(verdicts)} feedbacks" if verdicts else cut_whole(error, 300))


def _read_runs(source: Source, intake: Intake) -> None:
    """Runs by trace. Exports give them in any order, so they wait until all are read."""
    traces: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for where, run in objects(records(source, intake), intake):
        with intake.record(where):
            traces.setdefault(as_name(run.get("trace_id")) or as_name(run["id"]), []).append((where, run))
    for name, runs in traces.items():
        runs.sort(key=lambda entry: order if isinstance(order := entry[1].get("dotted_order"), str) else "")
        with intake.record(runs[0][0]):
            root = next((run for _, run in runs if run.get("parent_run_id") is None), runs[0][1])
            with intake.trace(name, worldwide=True) as trace:
                _read_root(trace, root)
                for where, run in runs:
                    with intake.record(where):
                        _add_run(trace, run)


def _read_root(trace: TraceBuilder, root: dict[str, Any]) -> None:
    trace.task = as_name(root.get("reference_example_id")) or as_name(root.get("name"))
    trace.agent = as_name(root.get("session_name") or root.get("name"))
    outputs = as_dict(root.get("outputs"))
    trace.answer = as_text(_alone(outputs)) if outputs else None
    stats = {name: as_dict(s).get("avg") for name, s in as_dict(root.get("feedback_stats")).items()}
    trace.outcome = _outcome({k: v for k, v in stats.items() if v is not None}, as_text(root.get("error")))
    trace.meta = {
        **{k: v for k, v in as_dict(as_dict(root.get("extra")).get("metadata")).items() if v is not None},
        "tags": ", ".join(map(as_text, as_list(root.get("tags")))) or None,
    }
    add_grades(trace, ({"name": name, "value": value} for name, value in stats.items()), FORMAT)


def _add_run(trace: TraceBuilder, run: dict[str, Any]) -> None:
    kind = _KINDS.get(as_name(run.get("run_type")), "other")
    name = as_name(run.get("name")) or kind
    error = run.get("error")
    draft = Draft(
        kind=kind,
        name=name,
        span_id=as_name(run.get("id")) or None,
        parent_id=as_name(run.get("parent_run_id")) or None,
        start_ns=iso_ns(run.get("start_time")),
        end_ns=iso_ns(run.get("end_time")),
        error=None if error is None else as_text(error),
        status="ok" if error is None and run.get("end_time") else "unset",
    )
    inputs, outputs = run.get("inputs"), run.get("outputs")
    if kind == "model":
        extra = as_dict(run.get("extra"))
        facts, settings = as_dict(extra.get("metadata")), as_dict(extra.get("invocation_params"))
        draft.attributes = {name: settings[name] for name in ("tools", "functions") if settings.get(name)}
        draft.model = as_name(facts.get("ls_model_name")) or None
        draft.provider = as_name(facts.get("ls_provider")) or None
        draft.input = prompt_messages(_chat_of(inputs))
        draft.output = [Message("assistant", (Text(as_text(_alone(as_dict(outputs)))),))] if outputs else []
        draft.input_tokens, draft.output_tokens = as_int(run.get("prompt_tokens")), as_int(run.get("completion_tokens"))
        draft.cost_usd = as_float(run.get("total_cost"))
    elif kind in ("tool", "retrieval"):
        draft.tool = name if kind == "tool" else None
        draft.arguments = None if inputs is None else to_json(inputs)
        draft.result = None if outputs is None else to_json(outputs)
    elif inputs or outputs:
        draft.attributes = {k: v for k, v in (("inputs", inputs), ("outputs", outputs)) if v is not None}
    trace.add(draft)


def _chat_of(inputs: Any) -> Any:
    """The messages of a model call; LangChain wraps them in one list more."""
    found = as_dict(inputs)
    messages = found.get("messages")
    if isinstance(messages, list) and len(messages) == 1 and isinstance(messages[0], list):
        messages = messages[0]
    return messages if messages is not None else _alone(found) if found else inputs
