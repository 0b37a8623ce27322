"""TRAIL: nested spans with durations, and the annotations of other files."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture import records as json_records
from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.peek import NO_DOCUMENT, peek_at
from ethogram.capture.readers import trail
from ethogram.capture.source import bytes_source, file_source
from ethogram.questions.logs.imports import ImportResult, import_logs
from ethogram.store import open_home
from ethogram.traces import Message, Ref, Scored, Text, Trace

DATA = Path(__file__).parents[4] / "shared" / "data"
TRACE = "c" * 32


def span(number: int, attributes: dict[str, Any] | None = None, *children: Any, **more: Any) -> dict[str, Any]:
    return {
        "timestamp": f"2026-01-02T03:04:{number:02d}.000001Z",
        "trace_id": TRACE,
        "span_id": f"{number:016x}",
        "parent_span_id": None,
        "trace_state": "",
        "span_name": f"span {number}",
        "span_kind": "Internal",
        "service_name": "svc",
        "resource_attributes": {"service.name": "svc"},
        "scope_name": "lib",
        "scope_version": "1",
        "span_attributes": attributes or {},
        "duration": "PT1.5S",
        "status_code": "Unset",
        "status_message": "",
        "events": [],
        "links": [],
        "logs": [],
        "child_spans": [{**c, "parent_span_id": f"{number:016x}"} if isinstance(c, dict) else c for c in children],
        **more,
    }


def document(*spans: Any) -> dict[str, Any]:
    return {"trace_id": TRACE, "spans": list(spans)}


AGENT = {"openinference.span.kind": "AGENT", "output.value": "7", "llm.token_count.prompt": "10"}
LLM = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "m",
    "llm.token_count.prompt": "10",
    "llm.token_count.completion": "2",
    "llm.token_count.total": "12",
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "hi",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "7",
    "input.value": json.dumps({"messages": [{"role": "user", "content": "hi"}], "stop": ["x"]}),
}
TOOL = {"openinference.span.kind": "TOOL", "tool.name": "final_answer", "input.value": '{"args": [7]}'}
LOG = {
    "timestamp": "2026-01-02T03:04:09.000001",
    "span_id": "x",
    "body": {"function.arguments": {"a": 1}, "function.name": "main", "function.output": "<null>"},
    "resource_attributes": {"service.name": "svc"},
    "severity_text": "INFO",
}
ERROR = {
    "Timestamp": "2026-01-02T03:04:05.5",
    "Name": "exception",
    "Attributes": {"exception.type": "E", "exception.message": "bad"},
}
WHOLE = document(
    span(1, {}, span(2, AGENT, span(3, LLM), span(4, TOOL, span_name="FinalAnswerTool")), logs=[LOG]),
)
NOTES: dict[str, Any] = {
    "trace_id": TRACE,
    "errors": [
        {
            "category": "Formatting Errors ",
            "location": f"{3:016x}",
            "evidence": "e",
            "description": "d",
            "impact": "LOW",
        },
        {"category": "Resource Abuse", "location": f"{9:016x}", "evidence": "e", "description": "d", "impact": "HIGH"},
        {" Category:": "Goal Deviation", "impact": "MEDIUM", "note": 5},
        {"catgory": "?", "location": f"{3:016x}"},
        "odd",
    ],
    "scores": [{"reliability_score": 4, "reliability_reasoning": "why", "overall": "3.5", "comment": "words"}, 5],
}


def read(value: Any) -> tuple[list[Trace], SourceReport]:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return read_traces(bytes_source("t", data), "trail")


def attributes(trace: Trace, number: int) -> dict[str, Any]:
    ref = trace.spans[number].attributes
    found: dict[str, Any] = {} if ref is None else json.loads(trace.text(ref))
    return found


def annotated(folder: Path, **options: Any) -> tuple[Trace, ImportResult]:
    """The one trace of a folder, through a real home: an annotation belongs to a trace of another file."""
    home = open_home(str(folder.parent / "home"))
    result = import_logs(folder, home=home, run="r", redact="none", **options)
    (trace,) = home.resolve("r").traces()
    return trace, result


def put(folder: Path, name: str, data: bytes) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def test_a_trace() -> None:
    traces, report = read(WHOLE)
    assert (len(traces), report.skipped, report.lost) == (1, [], {})
    trace = traces[0]
    assert [(s.kind, s.name) for s in trace.spans] == [
        ("other", "span 1"),
        ("agent", "span 2"),
        ("model", "span 3"),
        ("tool", "final_answer"),
    ]
    assert [s.parent_id for s in trace.spans] == [None, f"{1:016x}", f"{2:016x}", f"{2:016x}"]
    assert {s.seconds for s in trace.spans} == {1.5}
    assert (trace.spans[1].input_tokens, trace.totals.input_tokens, trace.totals.output_tokens) == (10, 10, 2)
    assert trace.messages == (Message("user", (Text("hi"),)), Message("assistant", (Text("7"),)))
    assert trace.answer == "7"
    assert trace.head.meta == {"service.name": "svc"}
    assert trace.text(trace.spans[0].arguments or "") == '{"a":1}'  # type: ignore[arg-type]
    assert trace.spans[0].result is None
    assert attributes(trace, 0)["otel.events"][0]["attributes"] == {
        "body": {"function.name": "main"},
        "severity_text": "INFO",
    }
    assert attributes(trace, 2)["input.value"] == {"stop": ["x"]}
    assert attributes(trace, 3)["otel.name"] == "FinalAnswerTool"
    assert trace.labels == ()


def test_status_events_and_links() -> None:
    broken = span(
        1, {}, status_code="Error", events=[ERROR, 3], links=[{"a": 1}], trace_state="x=1", span_kind="Client"
    )
    traces, _ = read(document(broken, span(2, {}, status_code="Ok", duration="soon", timestamp="then")))
    failed = traces[0].by_id[f"{1:016x}"]  # type: ignore[index]
    assert (failed.status, traces[0].text(failed.error or "")) == ("error", "E: bad")  # type: ignore[arg-type]
    fine = traces[0].by_id[f"{2:016x}"]  # type: ignore[index]
    assert (fine.status, fine.start_ns, fine.end_ns) == ("ok", None, None)
    left = attributes(traces[0], failed.seq)
    assert (left["otel.links"], left["otel.trace_state"], left["otel.kind"]) == ([{"a": 1}], "x=1", "client")
    assert left["otel.events"][0]["name"] == "exception"


def test_logs_of_several_kinds() -> None:
    words = {"body": "words", "resource_attributes": {"service.name": "else"}}
    logs = [words, {**LOG, "body": {"function.arguments": 1, "function.output": [2]}}, 7]
    traces, report = read(document(span(1, {"output.value": "kept"}, logs=logs)))
    assert not report.skipped
    found = traces[0].spans[0]
    assert traces[0].text(found.arguments or "") == "1"  # type: ignore[arg-type]
    assert traces[0].text(found.result or "") == "kept"  # type: ignore[arg-type]
    assert attributes(traces[0], 0)["otel.events"][0]["attributes"] == {
        "body": "words",
        "resource_attributes": {"service.name": "else"},
    }


def test_repeated_ids_and_missing_parents_are_kept() -> None:
    twin = span(2, LLM)
    traces, report = read(document(span(1, {}, twin, twin), span(3, {}, parent_span_id="e" * 16)))
    assert [s.span_id for s in traces[0].spans] == [f"{1:016x}", f"{2:016x}", f"{2:016x}#2", f"{3:016x}"]
    assert report.lost == {"span_id (repeated)": 1}
    assert traces[0].spans[3].parent_id == "e" * 16
    assert len(traces[0].children()[None]) == 2
    bare = span(1, {}, span(2))
    bare["child_spans"][0]["parent_span_id"] = None
    traces, _ = read(document(bare))
    assert traces[0].spans[1].parent_id == f"{1:016x}"  # where nothing is said, the nesting counts


@pytest.mark.parametrize(
    ("name", "other", "named"),
    [
        ("x.json", "x.annotation.json", True),
        (f"split__{TRACE}.json.gz", f"split__{TRACE}.annotation.json", False),
        ("x.json.gz", "x.annotation.json.gz", True),
        (f"data/GAIA/{TRACE}.json", f"annotations/{TRACE}.json", False),
        (f"traces/{TRACE}.json", f"zz/deep/{TRACE}.json", False),
    ],
)
def test_annotations_reach_their_trace_wherever_they_lie(tmp_path: Path, name: str, other: str, named: bool) -> None:
    folder = tmp_path / "logs"
    put(folder, name, json.dumps(WHOLE).encode())
    notes = NOTES if named else {k: v for k, v in NOTES.items() if k != "trace_id"}
    put(folder, other, json.dumps(notes).encode())
    trace, result = annotated(folder)
    labels = [(n.name, n.value, n.span_id) for n in trace.labels]
    assert labels == [
        ("error", "Formatting Errors", f"{3:016x}"),
        ("error.impact", "LOW", f"{3:016x}"),
        ("error", "Resource Abuse", None),
        ("error.impact", "HIGH", None),
        ("error", "Goal Deviation", None),
        ("error.impact", "MEDIUM", None),
        ("error", None, f"{3:016x}"),
        ("reliability_score", 4.0, None),
        ("overall", 3.5, None),
        ("comment", "words", None),
    ]
    words = [None if n.why is None else trace.text(n.why) for n in trace.labels]
    assert words[0] == "d\n\nEvidence: e"
    assert words[2] == f"d\n\nEvidence: e\n\nLocation: {9:016x}"
    assert words[4] == '{"note":5}'
    assert words[6] == '{"catgory":"?"}'
    assert words[7] == "why"
    assert {n.source for n in trace.labels} == {"hand"}
    assert (result.traces, result.labels) == (1, 10)
    assert result.lost == {"annotation location (no such span)": 2, "annotation without a category": 1}
    assert [s.where.rpartition(": ")[2] for s in result.skipped] == ["annotation error 4", "annotation score 1"]
    again = import_logs(folder, home=open_home(str(tmp_path / "home")), run="r", redact="none")
    assert (again.traces, again.labels, len(annotated(folder)[0].labels)) == (0, 0, 10)


def test_annotations_in_an_archive_and_after_the_trace(tmp_path: Path) -> None:
    folder, home = tmp_path / "logs", open_home(str(tmp_path / "home"))
    put(folder, "early.json", json.dumps(NOTES).encode())
    before = import_logs(folder, home=home, run="r")
    assert (before.labels, home.names()) == (0, [])
    assert "a trace that is not in this run" in before.skipped[-1].why
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a/notes.json", json.dumps({"trace_id": TRACE, **NOTES}))
        archive.writestr("b/x.json", json.dumps(WHOLE))
    put(folder, "box.zip", out.getvalue())
    (folder / "early.json").unlink()
    trace, result = annotated(folder, outcome_from="label:overall")
    assert (len(trace.labels), result.labels) == (10, 10)
    assert trace.outcome == Scored(3.5, "label")


def test_a_trailing_comma_is_mended_with_care(tmp_path: Path) -> None:
    text = json.dumps({**NOTES, "errors": NOTES["errors"][:1]}, indent=1)
    text = text.replace('"impact": "LOW"', '"impact": "LOW", "x": ", ]"').replace("}\n ],", "},\n ],", 1)
    put(tmp_path / "logs", "x.json", json.dumps(WHOLE).encode())
    put(tmp_path / "logs", "y.json", text.encode())
    assert trail.sniff(peek_at(bytes_source("y.json", text.encode()))) == 90
    trace, result = annotated(tmp_path / "logs")
    assert result.lost == {"trailing comma (mended)": 1}
    first = trace.labels[0]
    assert first.value == "Formatting Errors"
    assert '", ]"' in trace.text(first.why or "")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        (b"\xff\x00", "no reader recognises"),
        (json.dumps({**NOTES, "trace_id": "other"}).encode(), "a trace that is not in this run"),
        (b'{"errors": [{"category": "A", "location": "x"}], "scores": [{"overall": 1', "damaged or cut off"),
    ],
)
def test_bad_annotations_do_not_spoil_the_trace(tmp_path: Path, annotation: bytes, why: str) -> None:
    put(tmp_path / "logs", "x.json", json.dumps(WHOLE).encode())
    put(tmp_path / "logs", "y.json", annotation)
    trace, result = annotated(tmp_path / "logs")
    assert (len(trace.spans), trace.labels) == (4, ())
    assert any(why in s.why for s in result.skipped), result.skipped


def test_documents_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_records, "take_document", lambda source: NO_DOCUMENT)
    monkeypatch.setattr(json_records, "MAX_DOCUMENT", 10)
    traces, report = read(WHOLE)
    assert not traces
    assert "more than 0 MiB" in report.skipped[0].why


def test_a_cut_document_keeps_the_spans_before_the_cut() -> None:
    data = json.dumps(WHOLE, indent=1).encode()
    counts = set()
    for cut in range(1, len(data) - 2, 53):
        traces, report = read(data[:cut])
        assert report.skipped
        counts.add(sum(len(t.spans) for t in traces))
    assert counts == {0, 1, 2, 3, 4}


def test_bad_spans_are_reported() -> None:
    traces, report = read(document(span(1, {}, 5, span(2)), None))
    assert [s.name for s in traces[0].spans] == ["span 1", "span 2"]
    assert [s.where for s in report.skipped] == ["span 1", "span 3"]
    some: list[Any] = [{"spans": [span(1)]}, {"trace_id": 5, "spans": [span(1)]}]
    for value in some:
        traces, report = read(value)
        assert len(traces[0].spans) == 1
    none: list[Any] = [{"spans": []}, {"trace_id": "x"}, {"trace_id": "x", "spans": {}}, [5]]
    for value in none:
        traces, report = read(value)
        assert not traces
        assert report.skipped


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"spans": []},
        {"spans": [{"name": "x"}]},
        {"errors": [], "scores": []},
        {"errors": ["x"], "scores": [1]},
        {"errors": [{"message": "m"}]},
        {"trace": {"id": "x"}, "observations": []},
    ],
)
def test_other_content_is_not_claimed(value: Any) -> None:
    assert trail.sniff(peek_at(bytes_source("t", json.dumps(value).encode()))) == 0


def test_rough_handling(rough: Callable[[str, bytes], None]) -> None:
    rough("trail", json.dumps(document(span(1, {}, span(2, LLM), logs=[LOG], events=[ERROR]))).encode())


EXPECTED: dict[str, Any] = json.loads((DATA / "expected.json").read_text())["trail"] if DATA.exists() else {}
REAL = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")


def real(key: str) -> Path:
    prefix = {"GAIA": "gaia", "SWE Bench": "swe_bench"}[EXPECTED[key]["split"]]
    return DATA / "trail" / f"{prefix}__{key}.json.gz"


@REAL
@pytest.mark.parametrize("key", sorted(EXPECTED))
def test_real_traces(key: str) -> None:
    expected = EXPECTED[key]
    path = real(key)
    source = file_source(path, path.name)
    assert trail.sniff(peek_at(source)) == 95
    traces, report = read_traces(source, "trail")
    assert (len(traces), report.skipped, report.lost) == (1, [], {})
    trace = traces[0]
    left = {s.span_id: attributes(trace, s.seq) for s in trace.spans}
    names = {"agent": "AGENT", "model": "LLM", "tool": "TOOL"}
    kinds = Counter(
        names.get(s.kind) or ("CHAIN" if left[s.span_id].get("openinference.span.kind") == "CHAIN" else "NONE")
        for s in trace.spans
    )
    events = [e for a in left.values() for e in a.get("otel.events", [])]
    models = [s for s in trace.spans if s.kind == "model"]
    counted = [(s.input_tokens or 0) + (s.output_tokens or 0) for s in trace.spans]
    found = {
        "n_spans": len(trace.spans),
        "n_distinct_span_ids": len({s.span_id.partition("#")[0] for s in trace.spans}),
        "n_roots": sum(s.parent_id is None for s in trace.spans),
        "n_orphan_spans": sum(s.parent_id is not None and s.parent_id not in trace.by_id for s in trace.spans),
        "max_depth": max(depth for depth, _ in trace.walk()),
        "span_kinds": dict(kinds),
        "status": dict(Counter(s.status.capitalize() for s in trace.spans)),
        "n_exception_events": sum(e["name"] == "exception" for e in events),
        "llm_prompt_tokens": trace.totals.input_tokens,
        "llm_completion_tokens": trace.totals.output_tokens,
        "llm_total_tokens": (trace.totals.input_tokens or 0) + (trace.totals.output_tokens or 0),
        "all_span_total_tokens_double_counted": sum(counted),
        "models": sorted({s.model for s in models if s.model}),
        "tools": dict(Counter(s.tool for s in trace.spans if s.kind == "tool")),
    }
    assert found == {name: expected[name] for name in found}
    assert sum(s.status == "error" for s in trace.spans) == expected["status"].get("Error", 0)
    assert [s.seq for s in trace.spans] == sorted(range(len(trace.spans)), key=lambda i: trace.spans[i].start_ns or 0)
    # what is said of the bytes themselves is read off the bytes
    assert len(gzip.decompress(path.read_bytes())) == expected["bytes"]
    assert expected["trace_available"] is True


@REAL
def test_real_annotations(tmp_path: Path) -> None:
    home = open_home(str(tmp_path / "home"))
    result = import_logs(DATA / "trail", home=home, run="r", redact="none")
    assert result.labels > 0
    traces = {str(t.spans[0].trace_id): t for t in home.resolve("r").traces()}
    named = {e.head.origin.name: traces[e.head.trace_id] for e in home.resolve("r").entries if e.head.origin}
    for key, expected in EXPECTED.items():
        path = real(key)
        trace = named[path.name]
        errors = [n for n in trace.labels if n.name == "error"]
        found = {
            "n_errors": len(errors),
            "categories": dict(Counter(n.value for n in errors)),
            "impacts": dict(Counter(n.value for n in trace.labels if n.name == "error.impact")),
            "overall": next(n.value for n in trace.labels if n.name == "overall"),
            "n_error_locations_found": sum(n.span_id in trace.by_id for n in errors),
        }
        assert found == {name: expected[name] for name in found}
        annotation = path.with_name(path.name.replace(".json.gz", ".annotation.json"))
        assert isinstance(_json_or_none(annotation), dict) is expected["annotation_valid_json"]
        assert trail.sniff(peek_at(file_source(annotation, annotation.name))) == 90


def _json_or_none(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError:
        return None


@pytest.mark.parametrize(("words", "status"), [("ToolError: no bell", "unset"), ("RateLimitError: too fast", "error")])
def test_an_error_of_a_tool_inside_a_model_call_is_the_tool_s(words: str, status: str) -> None:
    """The exception travels up through the model span that is open around the tool; its own errors stay its own."""
    tool = span(4, TOOL, status_code="Error", status_message="no bell")
    call = span(3, LLM, tool, status_code="Error", status_message=words)
    (trace,), _ = read(document(span(1, {}, span(2, AGENT, call))))
    by_kind = {s.kind: s for s in trace.spans}
    assert by_kind["tool"].status == "error"
    assert trace.text(by_kind["tool"].error or Ref("")) == "no bell"
    assert by_kind["model"].status == status
    assert words in trace.text(by_kind["model"].error or by_kind["model"].attributes or Ref(""))
