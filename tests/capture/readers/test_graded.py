"""Results of evaluation tools: what they ask, answer and grade, and how every kind of damage is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.source import bytes_source
from ethogram.traces import Missing, Outcome, Scored, Trace

GRADED = ("promptfoo", "deepeval", "pydantic-evals", "lm-eval", "langsmith", "episodes", "table")


def read(data: bytes, name: str = "log", format: str | None = None) -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source(name, data), format)


def changed(sample: bytes, change: Callable[[Any], None]) -> bytes:
    document = json.loads(sample)
    change(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize("format", GRADED)
def test_rough_handling(format: str, samples: dict[str, bytes], rough: Callable[[str, bytes], None]) -> None:
    rough(format, samples[format])


def test_promptfoo(samples: dict[str, bytes]) -> None:
    (trace,), report = read(samples["promptfoo"])
    head = trace.head
    assert (head.task, head.agent, head.condition) == ("bell", "bellman", "short")
    assert head.outcome == Scored(1.0, "promptfoo")
    assert head.meta["seconds"] == 0.25
    assert head.meta["area"] == "sound"
    assert [s.kind for s in trace.steps] == ["user", "model"]
    assert trace.answer == "ding"
    assert (trace.totals.input_tokens, trace.totals.output_tokens, trace.totals.cost_usd) == (3, 1, 0.01)
    assert {x.name: x.value for x in trace.labels} == {"score": 0.8, "equals": True}
    assert not report.lost


def test_promptfoo_errors_of_the_provider_are_no_failures_of_the_agent(samples: dict[str, bytes]) -> None:
    def fail(error: str) -> bytes:
        def change(document: Any) -> None:
            row = document["results"]["results"][0]
            row |= {"success": False, "failureReason": 2, "error": error, "response": {"error": error}}

        return changed(samples["promptfoo"], change)

    outcomes = [read(fail(e))[0][0].head.outcome for e in ("API error: 429 rate limit", "Error: exploded")]
    assert [o.reason for o in outcomes if isinstance(o, Missing)] == [
        "infrastructure.rate_limit",
        "infrastructure.other",
    ]


def test_promptfoo_lines_and_repeats(samples: dict[str, bytes]) -> None:
    row = json.loads(samples["promptfoo"])["results"]["results"][0]
    del row["id"]
    lines = b"\n".join(json.dumps({**row, "testIdx": i}).encode() for i in range(3))
    traces, report = read(lines)
    assert report.format == "promptfoo"
    assert sorted(t.head.attempt for t in traces) == [0, 1, 2]


def test_promptfoo_names_long_prompts_by_their_words(samples: dict[str, bytes]) -> None:
    def change(document: Any) -> None:
        document["results"]["results"][0]["prompt"]["label"] = "line\n" * 50

    assert read(changed(samples["promptfoo"], change))[0][0].head.condition.startswith("line")


def test_deepeval(samples: dict[str, bytes]) -> None:
    (trace,), _ = read(samples["deepeval"])
    assert (trace.head.task, trace.head.agent, trace.head.outcome) == ("bell", "m", Scored(1.0, "deepeval"))
    assert [s.kind for s in trace.steps] == ["user", "tool", "model"]
    assert trace.steps[1].tool == "ring"
    assert trace.head.meta["seconds"] == 1.5
    assert trace.totals.cost_usd == 0.01
    assert [(x.name, x.value) for x in trace.labels] == [("Loud", 1.0)]


def test_deepeval_metrics_that_failed_themselves_judge_nothing(samples: dict[str, bytes]) -> None:
    broken = {"name": "Kind", "score": 0, "success": False, "error": "RateLimitError: 429"}
    failed = {"name": "Loud", "score": 0.1, "success": False, "reason": "too soft"}

    def outcome(*metrics: dict[str, Any]) -> Outcome:
        def change(document: Any) -> None:
            document["testCases"][0] |= {"success": False, "metricsData": list(metrics)}

        (trace,), _ = read(changed(samples["deepeval"], change))
        assert [x.value for x in trace.labels] == [None if m is broken else m["score"] for m in metrics]
        return trace.head.outcome

    passed = {"name": "Loud", "score": 1.0, "success": True}
    assert outcome(passed, broken) == Missing("infrastructure.verifier", "Kind: RateLimitError: 429")
    assert outcome(failed, broken) == Scored(0.0, "deepeval")
    assert outcome() == Scored(0.0, "deepeval")


def test_deepeval_latest_test_run(samples: dict[str, bytes]) -> None:
    """What `evaluate` leaves in `.deepeval` where no folder of results is set has the test run one level down."""
    (trace,), _ = read(samples["deepeval"])
    (below,), _ = read(b'{"testRunData": ' + samples["deepeval"] + b"}")
    assert (below.head.task, below.head.agent, below.head.outcome) == (
        trace.head.task,
        trace.head.agent,
        trace.head.outcome,
    )


def test_deepeval_conversations_and_names_by_place(samples: dict[str, bytes]) -> None:
    def change(document: Any) -> None:
        case = document["testCases"].pop()
        turns = [{"role": "user", "content": "Ring."}, {"role": "assistant", "content": "ding"}]
        document["conversationalTestCases"] = [{**case, "name": "test_case_0", "turns": turns, "success": None}]

    (trace,), _ = read(changed(samples["deepeval"], change))
    assert trace.head.task == "Ring."
    assert isinstance(trace.head.outcome, Missing)
    assert [m.role for m in trace.messages] == ["user", "assistant"]


def test_pydantic_evals(samples: dict[str, bytes]) -> None:
    (done, crashed), _ = read(samples["pydantic-evals"])
    assert (done.head.task, done.head.agent, done.head.outcome) == ("bell", "ring", Scored(1.0, "assertions"))
    assert (done.totals.cost_usd, done.totals.input_tokens) == (0.01, 7)
    assert done.head.meta["seconds"] == 0.5
    assert crashed.head.outcome == Scored(0.0, "task error")
    assert any(s.error for s in crashed.spans)


def test_pydantic_evals_without_assertions_take_the_only_score(samples: dict[str, bytes]) -> None:
    def with_scores(**scores: float) -> Any:
        def change(document: Any) -> None:
            document["cases"][0] |= {
                "assertions": {},
                "scores": {n: {"name": n, "value": v} for n, v in scores.items()},
            }

        return read(changed(samples["pydantic-evals"], change))[0][0].head.outcome

    assert with_scores(near=0.7) == Scored(0.7, "near")
    assert with_scores(near=0.7, far=0.2) == Missing("unscored", "2 scores and no assertion")


def test_lm_eval(samples: dict[str, bytes]) -> None:
    name = "gpt__x/samples_sums_2026-11-17T20-15-29.046233.jsonl"
    (words, choice), _ = read(samples["lm-eval"], name)
    assert (words.head.task, words.head.agent, words.head.outcome) == ("sums/0", "gpt__x", Scored(1.0, "exact_match"))
    assert words.answer == "4"
    assert choice.head.outcome == Scored(0.0, "acc")
    assert choice.answer == " 3"  # the likeliest of the choices


def test_lm_eval_filters_are_conditions(samples: dict[str, bytes]) -> None:
    sample = json.loads(samples["lm-eval"].splitlines()[0])
    lines = b"\n".join(json.dumps({**sample, "filter": f}).encode() for f in ("strict-match", "flexible-extract"))
    assert [t.head.condition for t in read(lines)[0]] == ["strict-match", "flexible-extract"]


def test_lm_eval_means_are_no_episodes() -> None:
    means = {"results": {"sums": {"acc,none": 1.0}}, "configs": {}, "n-samples": {}}
    traces, report = read(json.dumps(means).encode())
    assert not traces
    assert "--log_samples" in report.skipped[0].why


def test_langsmith_runs(samples: dict[str, bytes]) -> None:
    (trace,), _ = read(samples["langsmith"])
    assert (trace.head.task, trace.head.agent, trace.head.outcome) == ("bell", "bellman", Scored(1.0, "loud"))
    assert [(s.kind, s.parent_id) for s in trace.spans] == [("agent", None), ("model", "r1")]
    assert (trace.totals.model_calls, trace.totals.input_tokens) == (1, 3)
    assert trace.spans[1].model == "m"


TABLE = (
    "inputs.q,outputs.answer,error,reference.a,feedback.correct,execution_time,example_id,id\n"
    "hello,x,,HELLO,False,0.5,e1,r1\n"
    "bye,BYE,,BYE,True,0.25,e2,r2\n"
    "boom,,ReadTimeout: timed out,X,,0.25,e3,r3\n"
    "lost,y,,Y,True,0.25,,r4\n"
)


def test_langsmith_experiments() -> None:
    traces, report = read(TABLE.encode())
    assert report.format == "langsmith"
    assert [t.head.task for t in traces] == ["e1", "e2", "e3"]
    assert traces[0].head.outcome == Scored(0.0, "correct")
    assert traces[1].head.outcome == Scored(1.0, "correct")
    assert isinstance(traces[2].head.outcome, Missing)
    assert traces[2].head.outcome.reason == "infrastructure.timeout"
    assert traces[1].answer == "BYE"
    assert [(s.where, s.why) for s in report.skipped] == [("line 5", "the row has no example_id")]
