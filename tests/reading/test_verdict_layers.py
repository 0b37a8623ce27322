"""Every verdict has a layer: checks by their kind, foreign scores by what their harness verifies."""

from __future__ import annotations

from typing import Any

import pytest

from ethogram.checks.settings import KINDS
from ethogram.reading.layers import layer_of_label, layer_of_score
from ethogram.traces import Label, SpanId, TraceId

LAYERS = {
    "L0": {"contains", "regex", "equals", "one_of", "numeric", "json", "json_schema", "classifies", "custom"},
    "L1": {"tool_calls"},
    "L3": {"files", "sql_row", "http_state", "command", "tests"},
}


def label(by: str, **more: Any) -> Label:
    told: dict[str, Any] = {"trace_id": TraceId("t"), "name": "x", "value": 1.0, "by": by, "source": "verifier"}
    return Label(**(told | more))


def test_every_kind_of_check_has_its_layer() -> None:
    by_layer: dict[str, set[str]] = {}
    for kind in KINDS.own:
        by_layer.setdefault(str(layer_of_label(label(f"{kind}@0123abcd"))), set()).add(kind)
    assert by_layer == LAYERS


@pytest.mark.parametrize(
    "other",
    [
        label("equals"),
        label("no_such_kind@0123abcd"),
        label("equals@0123abcd", source="judge"),
        label("equals@0123abcd", source="import"),
        label("equals@0123abcd", span_id=SpanId("s")),
    ],
)
def test_what_no_check_said_has_no_layer(other: Label) -> None:
    assert layer_of_label(other) is None


@pytest.mark.parametrize(
    ("format", "by", "layer"),
    [
        ("tau-bench", "reward", "L3"),
        ("tau2", "reward", "L3"),
        ("agentdojo", "utility", "L3"),
        ("openhands", "test_result.report.resolved", "L3"),
        ("who-and-when", "is_correct", "L0"),
        ("inspect", "includes", "L0"),
        ("inspect", "swe_bench_scorer", "L3"),
        ("inspect", "my_scorer", None),
        ("tau-bench", "csv:verdicts.csv", None),
        ("openai-chat", "score", None),
        ("", "equals", None),
    ],
)
def test_scores_of_foreign_logs(format: str, by: str, layer: str | None) -> None:
    assert layer_of_score(format, by) == layer
