"""The tools that a log says the agent had are kept, or counted as lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ethogram.capture.memory import read_traces
from ethogram.capture.source import bytes_source

SCHEMA = {"name": "ring", "description": "rings a large bell", "parameters": {"type": "object", "properties": {}}}
TOOLS = [{"type": "function", "function": SCHEMA}]


def with_tools(format: str, document: Any) -> Any:
    """The document with a list of tools where its format has it."""
    if format == "langsmith":
        for run in document:
            run.setdefault("extra", {})["invocation_params"] = {"tools": TOOLS}
    elif format == "promptfoo":
        document["config"] = {"providers": ["echo", {"id": "p", "config": {"tools": TOOLS}}]}
    elif format == "inspect":
        document["plan"]["steps"] = [{"solver": "use_tools", "params": {"tools": TOOLS}}]
    elif format == "tau2":
        document["info"]["environment_info"]["tool_defs"] = TOOLS
    elif format == "agentdojo":
        document["available_tools"] = TOOLS
    elif format == "atif":
        document["agent"]["tool_definitions"] = TOOLS
    elif format == "langfuse":
        document["observations"][0]["input"] = {"messages": [{"role": "user", "content": "x"}], "tools": TOOLS}
    elif format == "openinference":
        document[0]["attributes"]["llm.tools.0.tool.json_schema"] = json.dumps(TOOLS[0])
    return document


@pytest.mark.parametrize(
    "format", ["langsmith", "promptfoo", "inspect", "tau2", "agentdojo", "atif", "langfuse", "openinference"]
)
def test_lists_of_tools_are_kept_or_counted_as_lost(format: str, samples: dict[str, bytes]) -> None:
    data = samples[format]
    lines = format == "langsmith" and data.lstrip().startswith(b"{")
    document = [json.loads(line) for line in data.splitlines()] if lines else json.loads(data)
    document = with_tools(format, document)
    changed = b"\n".join(json.dumps(d).encode() for d in document) if lines else json.dumps(document).encode()
    traces, report = read_traces(bytes_source("log", changed), format)
    kept = "rings a large bell" in "".join(f"{t.head.meta} {t.texts}" for t in traces)
    assert kept or any("tools" in field for field in report.lost)


def test_calls_with_other_tools_keep_their_own() -> None:
    def call(tools: list[Any]) -> dict[str, Any]:
        request = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": tools}
        answer = {"choices": [{"message": {"role": "assistant", "content": "y"}}]}
        return {"conversation_id": "c", "request": request, "response": answer}

    data = b"".join(json.dumps(call(t)).encode() + b"\n" for t in ([{"name": "first"}], TOOLS))
    (trace,), _ = read_traces(bytes_source("log", data), "openai-chat")
    assert "first" in str(trace.head.meta["tools"])
    words = [trace.text(s.attributes) for s in trace.spans if s.kind == "model" and s.attributes]
    assert ["rings a large bell" in w for w in words] == [False, True]
