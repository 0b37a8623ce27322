"""Logs that Inspect itself wrote: runs of its mock model, made here, and the public samples beside the repository."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.memory import read_traces
from ethogram.capture.source import bytes_source, file_source
from ethogram.traces import Missing, Scored, Trace

pytestmark = pytest.mark.xdist_group("inspect")  # `made` is made once
DATA = Path(__file__).parents[4] / "shared" / "data"
FILES = ("log_formats.json", "log_formats.eval", "log_streaming.eval", "2025-05-12T20-28-13-04-00_popularity.json")

needs_inspect = pytest.mark.skipif(
    importlib.util.find_spec("inspect_ai") is None, reason="inspect_ai is not installed: its own logs cannot be made"
)

RUN = '''
import json, os, sys, types
os.environ.update(INSPECT_DISPLAY="none", NO_COLOR="1", INSPECT_LOG_LEVEL="error")
import tiktoken  # its tables would be fetched from the network
tiktoken.get_encoding = lambda name: types.SimpleNamespace(encode=lambda text, **_: text.split())
from inspect_ai import Task, eval
from inspect_ai.agent import AgentState, agent, as_tool, handoff, react
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log, transcript, write_eval_log
from inspect_ai.log._recorders.chunked import convert_eval_logs_to_chunked
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, includes, mean, scorer
from inspect_ai.tool import ToolError, tool
from inspect_ai.util import store

folder = sys.argv[1]

@tool
def add():
    async def execute(x: int, y: int):
        """Add two numbers.

        Args:
          x: one
          y: another
        """
        store().set("last", x)
        transcript().info({"adding": x})
        if x == 14:
            raise ToolError("no such number")
        if x == 13:
            raise RuntimeError("the sandbox is gone")
        return x + y
    return execute

@agent
def helper():
    async def execute(state: AgentState) -> AgentState:
        """Helps."""
        state.output = await get_model().generate(state.messages)
        state.messages.append(state.output.message)
        return state
    return execute

def say(text):
    return ModelOutput.from_content("mockllm/model", text)

def ask(name, arguments, call_id):
    output = ModelOutput.for_tool_call("mockllm/model", name, arguments, tool_call_id=call_id)
    counts = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 22, "input_tokens_cache_read": 7}
    output.usage = ModelUsage(**counts, reasoning_tokens=2)
    return output

def words(message):  # of a failed tool the model reads the error
    return message.text or (message.error.message if getattr(message, "error", None) else "")

def outputs(kind):
    if kind == "breaks":
        return [ask("add", {"x": 13, "y": 1}, "c1")]
    if kind == "loops":
        return [ask("add", {"x": n, "y": n}, "c1") for n in range(20)]
    return [
        ask("add", {"x": 1, "y": 2}, "c1"), ask("add", {"x": 14, "y": 2}, "c1"), ask("helper", {"input": "how?"}, "c2"),
        say("helped " + "x" * 200), ask("transfer_to_helper", {}, "c3"), say("over to you"),
        ask("submit", {"answer": "3"}, "c4"), say("GRADE: C"),
    ]

@scorer(metrics=[mean()])
def graded():
    async def score(state, target):
        answer = await get_model().generate("grade this")
        return Score(value=1.0, explanation=answer.completion)
    return score

@scorer(metrics=[mean()])
def parts():
    async def score(state, target):
        return Score(value={"a": 1, "b": 0.5})
    return score

@scorer(metrics=[mean()])
def absent():
    async def score(state, target):
        return Score.unscored(reason="not applicable")
    return score

picture = "data:image/png;base64," + "iVBORw0KGgo" * 60
asked = [ChatMessageUser(content=[ContentText(text="one and two? " + "very long " * 30), ContentImage(image=picture)])]
samples = {
    "works": Sample(id="a/b", input=asked, target="3", metadata={"level": 2}),
    "breaks": Sample(id=2, input="thirteen?", target="x"),
    "loops": Sample(id="loop", input="for ever", target="x"),
}
for kind, sample in samples.items():
    task = Task(
        dataset=[sample], solver=react(tools=[add(), as_tool(helper()), handoff(helper())]), name=kind,
        scorer=[includes(), graded(), parts(), absent()] if kind == "works" else [includes()],
        epochs=1 if kind != "works" else 2, message_limit=12 if kind == "loops" else None,
    )
    epochs = 2 if kind == "works" else 1
    model = get_model("mockllm/model", custom_outputs=outputs(kind) * epochs, memoize=False)
    log = eval(task, model=model, log_dir=folder, max_samples=1, fail_on_error=False, log_format="eval")[0]
    os.rename(log.location.removeprefix("file://"), f"{folder}/{kind}.eval")
    convert_eval_logs_to_chunked(f"{folder}/{kind}.eval", f"{folder}/chunked", overwrite=True, chunk_size=7)
    whole = read_eval_log(f"{folder}/{kind}.eval")
    write_eval_log(whole, f"{folder}/{kind}.json", "json")
    known = []
    for s in read_eval_log(f"{folder}/{kind}.eval", resolve_attachments="full").samples:
        calls = [e for e in s.events if e.event == "model"]
        known.append({
            "id": str(s.id), "epoch": s.epoch, "uuid": s.uuid, "events": [e.event for e in s.events],
            "inputs": [[words(m) for m in e.input] for e in calls], "outputs": [e.output.completion for e in calls],
            "tools": [[e.function, e.arguments, e.error and e.error.message] for e in s.events if e.event == "tool"],
            "usage": {m: u.model_dump() for m, u in s.model_usage.items()}, "messages": len(s.messages),
        })
    with open(f"{folder}/{kind}.known", "w") as file:
        json.dump(known, file)
'''


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of logs from runs of the mock model."""
    folder = tmp_path_factory.mktemp("inspect")
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(folder)], capture_output=True, text=True, cwd=folder, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def read(path: Path) -> list[Trace]:
    traces, report = read_traces(file_source(path, path.name), "inspect")
    assert report.skipped == []
    return sorted(traces, key=lambda t: (t.head.attempt, t.head.task))


def known(made: Path, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((made / f"{kind}.known").read_text())
    return sorted(found, key=lambda s: (s["epoch"], s["id"]))


@needs_inspect
@pytest.mark.parametrize("kind", ["works", "breaks", "loops"])
@pytest.mark.parametrize("shape", ["{}.eval", "chunked/{}.eval", "{}.json"])
def test_every_shape_says_what_inspect_reads(made: Path, kind: str, shape: str) -> None:
    for trace, theirs in zip(read(made / shape.format(kind)), known(made, kind), strict=True):
        assert (trace.head.task, trace.head.attempt) == (f"{kind}/{theirs['id']}", theirs["epoch"] - 1)
        assert trace.head.meta["uuid"] == theirs["uuid"]
        assert json.loads(str(trace.head.meta["events"])) == Counter(theirs["events"])
        calls = sorted(
            (s for s in trace.spans if s.kind == "model" or (s.kind == "judge" and s.model)), key=lambda s: s.seq
        )
        assert [[m.text for m in trace.conversation(s)] for s in calls] == theirs["inputs"]
        assert [trace.message(s.output[0]).text for s in calls] == theirs["outputs"]
        tools = sorted((s for s in trace.spans if s.kind == "tool"), key=lambda s: s.start_ns or 0)
        assert [
            [
                s.tool,
                json.loads(trace.text(s.arguments)) if s.arguments else None,
                trace.text(s.error) if s.error else None,
            ]
            for s in tools
        ] == theirs["tools"]
        usage = theirs["usage"]["mockllm/model"]
        assert sum(s.input_tokens or 0 for s in calls) == usage["input_tokens"]
        assert sum(s.output_tokens or 0 for s in calls) == usage["output_tokens"]
        assert sum(s.cache_read_tokens or 0 for s in calls) == (usage["input_tokens_cache_read"] or 0)


@needs_inspect
def test_a_run_with_tools_a_sub_agent_and_a_handoff(made: Path) -> None:
    first, second = read(made / "works.eval")
    assert (first.head.attempt, second.head.attempt) == (0, 1)
    assert first.outcome == Scored(1.0, "includes")
    assert first.head.meta["metadata.level"] == 2
    labels = {label.name: label.value for label in first.labels}
    assert labels == {"includes": "C", "graded": 1.0, "parts.a": 1, "parts.b": 0.5, "absent": None}
    assert [s.tool or s.lane for s in first.steps if s.tool or s.lane] == ["add", "add", "helper", "helper#2", "submit"]
    assert [s.status for s in first.steps if s.tool == "add"] == ["ok", "error"]
    graders = [s for s in first.spans if s.kind == "judge" and s.model]
    assert len(graders) == 1
    assert first.totals.model_calls == 7
    ids = {s.span_id: s for s in first.spans}
    helper = next(s for s in first.spans if s.tool == "helper")
    inner = next(s for s in first.steps if s.lane == "helper")
    assert inner.parent_id is not None
    assert ids[inner.parent_id].parent_id == helper.span_id
    assert any(s.kind == "handoff" for s in first.spans)
    assert all("iVBORw0KGgoiVBORw0KGgo" not in body for body in first.texts.values())
    assert {s.name for s in first.spans if s.kind == "other"} >= {"info", "store", "state"}


@needs_inspect
def test_an_error_and_a_limit(made: Path) -> None:
    (broken,) = read(made / "breaks.eval")
    assert isinstance(broken.outcome, Missing)
    assert broken.outcome.reason == "infrastructure.other"
    assert "the sandbox is gone" in broken.outcome.detail
    (loop,) = read(made / "loops.eval")
    assert loop.outcome == Scored(0.0, "includes")
    assert (loop.head.meta["limit"], loop.head.meta["limit_value"]) == ("message", 12.0)


@needs_inspect
def test_a_cut_log_of_inspect_keeps_its_first_sample(made: Path) -> None:
    data = (made / "works.eval").read_bytes()
    at = data.index(b"_epoch_2.json")
    traces, report = read_traces(bytes_source("cut.eval", data[: at + 200]), "inspect")
    assert [(t.head.task, t.head.attempt, t.outcome) for t in traces] == [("works/a/b", 0, Scored(1.0, "includes"))]
    assert len(report.skipped) == 2


pytest_data = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")


@pytest_data
@pytest.mark.parametrize("name", FILES)
def test_public_logs_give_the_expected_figures(name: str) -> None:
    expected = json.loads((DATA / "expected.json").read_text())["inspect"][name]
    traces = read(DATA / "inspect" / name)
    meta = traces[0].head.meta
    assert (meta["task"], meta["model"], meta["status"]) == (expected["task"], expected["model"], expected["status"])
    assert len(traces) == expected["n_samples_in_file"] == expected["header_total_samples"]
    assert len({t.head.attempt for t in traces}) == expected["n_epochs_seen"]
    assert json.loads(str(meta["results"])) == {s["name"]: s["metrics"] for s in expected["header_scores"]}
    (scorer,) = expected["recomputed_scores"]
    scores = expected["recomputed_scores"][scorer]
    outcomes = [t.outcome for t in traces]
    assert all(isinstance(o, Scored) and o.by == scorer for o in outcomes)
    values = [o.value for o in outcomes if isinstance(o, Scored)]
    assert len(values) == scores["n"]
    average = sum(values) / len(values)
    assert average == pytest.approx(scores["mean"], rel=1e-9)
    assert stderr(values) == pytest.approx(scores["stderr_ddof1"], rel=1e-9)
    assert Counter(label.value for t in traces for label in t.labels) == scores["raw_values"]
    # the header's usage is what the model events add up to
    (header_usage,) = expected["header_usage"].values()
    assert sum(t.totals.input_tokens or 0 for t in traces) == header_usage["input_tokens"]
    assert sum(t.totals.output_tokens or 0 for t in traces) == header_usage["output_tokens"]
    assert total(traces, "input_tokens") + total(traces, "output_tokens") == header_usage["total_tokens"]
    summed: Counter[str] = Counter()
    for trace in traces:
        for usage in json.loads(str(trace.head.meta.get("model_usage", "{}"))).values():
            summed.update({k: v for k, v in usage.items() if k in ("input_tokens", "output_tokens", "total_tokens")})
    assert summed == expected["sum_sample_usage"]
    assert sum(len(t.messages) for t in traces) == expected["n_messages"]
    assert sum(t.totals.tool_calls for t in traces) == expected["n_tool_calls"]
    assert sum(t.spans[0].status == "error" for t in traces) == expected["n_sample_errors"]
    events: Counter[str] = Counter()
    for trace in traces:
        events.update(json.loads(str(trace.head.meta["events"])))
    attached = sum(bool(trace.head.meta.get("attachments")) for trace in traces)
    if name == "log_formats.json":
        # The figures count the keys `events` and `attachments`; this log keeps both inside `transcript`, which
        # the reader opens. It is the same run as log_formats.eval, so the figures of that file hold for it.
        raw = json.loads((DATA / "inspect" / name).read_text())["samples"]
        assert Counter(e["event"] for s in raw for e in s.get("events", [])) == expected["n_events"]
        assert sum("attachments" in s for s in raw) == expected["n_samples_with_attachments"]
        expected = json.loads((DATA / "expected.json").read_text())["inspect"]["log_formats.eval"]
    assert events == expected["n_events"]
    assert attached == expected["n_samples_with_attachments"]


def total(traces: list[Trace], field: str) -> int:
    return sum(getattr(t.totals, field) or 0 for t in traces)


def stderr(values: list[float]) -> float:
    """Standard error of the mean; of one value it is zero, as the log says."""
    if len(values) < 2:
        return 0.0
    average = sum(values) / len(values)
    variance = sum((v - average) ** 2 for v in values) / (len(values) - 1)
    return float((variance / len(values)) ** 0.5)


@pytest_data
def test_one_run_in_two_shapes_is_one_episode() -> None:
    (document,), (archive,) = (read(DATA / "inspect" / f"log_formats.{end}") for end in ("json", "eval"))
    assert document.head.episode == archive.head.episode
    assert document.messages == archive.messages
    assert document.signatures() == archive.signatures()
