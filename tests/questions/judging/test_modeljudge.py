"""The model judge: what it asks, what answers count, what is asked again; windows; what guards hide from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.checks.structured import object_in
from ethogram.errors import BadUsage
from ethogram.findings.rubric import Rubric, RubricItem
from ethogram.questions.judging.guards import GUARDS, family_of, guarded, guards_named, shared_families
from ethogram.questions.judging.judges import Case
from ethogram.questions.judging.modeljudge import JudgeReply, JudgeRequest, ModelJudge, ModelSettings, NoReply
from ethogram.questions.judging.stripping import CLAIM_GONE, OUTCOME_GONE, without_narration, without_outcome
from ethogram.questions.judging.windows import windows_over
from ethogram.traces import SUCCESS_AT, Label, Missing, Scored, Trace

RUBRIC = Rubric(name="one", items=(RubricItem(name="sound", question="Is it sound?", applies_to="calls"),))


def answer(*verdicts: dict[str, Any]) -> str:
    return json.dumps({"verdicts": [{"item": "sound", "why": "", "quote": "", "answer": "yes", **v} for v in verdicts]})


class Model:
    """Gives replies in turn, and keeps the requests."""

    def __init__(self, *replies: str | Callable[[JudgeRequest], str]) -> None:
        self.replies, self.requests = list(replies), list[JudgeRequest]()

    def __call__(self, request: JudgeRequest) -> JudgeReply:
        self.requests.append(request)
        reply = self.replies[min(len(self.requests), len(self.replies)) - 1]
        return JudgeReply(text=reply if isinstance(reply, str) else reply(request))


def judge(model: Any, **settings: Any) -> ModelJudge:
    return ModelJudge(ModelSettings(model="m", **settings), model)


@pytest.fixture
def trace(scene: Any) -> Trace:
    done: Trace = (
        scene("Find it.").calls("look", {"at": "a"}, "red door").calls("look", {"at": "b"}, "blue door").done()
    )
    return done


def test_a_verdict_for_every_step_that_is_asked_about(trace: Trace) -> None:
    model = Model(answer({"step": 2}, {"step": 4, "answer": "no", "quote": "Blue  door!", "why": "wrong"}))
    found = judge(model).judge(Case(trace, SUCCESS_AT), RUBRIC)
    assert [(v.step, v.value, v.why) for v in found.verdicts] == [(2, True, ""), (4, False, "wrong «Blue  door!»")]
    assert (found.coverage.steps, found.coverage.seen, found.coverage.windows) == (5, 5, 1)  # type: ignore[union-attr]
    (request,) = model.requests
    text = request.messages[1].text
    assert "[step 2] call look (ok)" in text
    assert "asked about step 2, 4" in text
    assert request.schema["properties"]["verdicts"]["items"]["properties"]["item"]["enum"] == ["sound"]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"step": 99, "answer": "no"}, "cites step 99, which was not asked about"),
        ({"step": None, "answer": "no"}, "cites no step"),
        ({"step": 4, "answer": "no", "quote": "green door"}, "is not in step 4"),
        ({"step": 4, "answer": "maybe"}, "another form"),
    ],
)
def test_a_no_that_cites_nothing_or_wrongly_is_asked_again(trace: Trace, bad: dict[str, Any], words: str) -> None:
    model = Model(answer({"step": 2}, bad), answer({"step": 4, "answer": "no", "quote": "blue door"}))
    found = judge(model).judge(Case(trace, SUCCESS_AT), RUBRIC)
    assert [v.value for v in found.verdicts] == [True, False]
    again = model.requests[1].messages[-1].text
    assert words in again
    assert "sound at step 4" in again
    stubborn = Model(answer({"step": 2}, bad))
    found = judge(stubborn).judge(Case(trace, SUCCESS_AT), RUBRIC)
    assert found.verdicts[1].value is None
    assert found.verdicts[1].why.startswith("missing: ")
    assert words in found.verdicts[1].why
    assert len(stubborn.requests) == 3


@pytest.mark.parametrize("reply", ["", "I think it is fine.", "[1, 2]", '{"verdicts": 3}', '{"verdicts": [4]}'])
def test_what_is_no_answer_leaves_verdicts_missing_with_a_reason(trace: Trace, reply: str) -> None:
    found = judge(Model(reply), retries=0).judge(Case(trace, SUCCESS_AT), RUBRIC)
    assert [v.value for v in found.verdicts] == [None, None]
    assert all(v.why.startswith("missing: ") for v in found.verdicts)


def test_an_answer_between_fences_and_not_applicable_are_understood(trace: Trace) -> None:
    model = Model(f"```json\n{answer({'step': 2, 'answer': 'not_applicable'}, {'step': 4})}\n```")
    found = judge(model).judge(Case(trace, SUCCESS_AT), RUBRIC).verdicts
    assert [(v.value, v.applies) for v in found] == [(None, False), (True, True)]


@pytest.mark.parametrize(
    "reply",
    [
        "Of step {3} I am sure. ```json%s```",
        "First {a draft}, then: %s",
        "```json\n%s\n```\nin the form of\n```json\n{}\n```",
        '%s That is {"all": true}.',
    ],
)
def test_an_answer_among_words_is_found_and_not_asked_for_again(trace: Trace, reply: str) -> None:
    model = Model(reply % answer({"step": 2}, {"step": 4}))
    found = judge(model).judge(Case(trace, SUCCESS_AT), RUBRIC).verdicts
    assert [v.value for v in found] == [True, True]
    assert len(model.requests) == 1


@pytest.mark.parametrize("reply", ["{" * 100_000, '{"verdicts":' * 20_000, '{"other": {}}'])
def test_a_reply_without_the_answer_is_read_in_short_time(reply: str) -> None:
    assert object_in(reply, "verdicts") == {}


def test_no_reply_at_all_is_no_verdict(trace: Trace) -> None:
    with pytest.raises(NoReply, match="the model did not answer: HTTP 500"):
        judge(lambda request: JudgeReply(error="HTTP 500")).judge(Case(trace, SUCCESS_AT), RUBRIC)


def test_readings_differ_in_seed_and_address_and_nothing_else_does(trace: Trace) -> None:
    model = Model(answer({"step": 2}, {"step": 4}))
    for reading in (0, 0, 1):
        judge(model, seed=7).judge(Case(trace, SUCCESS_AT, None, reading), RUBRIC)
    one, same, other = model.requests
    assert (one.seed, other.seed) == (7, 8)
    assert one.digest == same.digest != other.digest


@given(st.lists(st.integers(1, 400), max_size=60), st.integers(50, 600), st.floats(0.05, 0.4))
def test_windows_show_every_step_and_ask_about_each_once(sizes: list[int], most: int, overlap: float) -> None:
    windows = windows_over(sizes, most, overlap)
    asked = [at for w in windows for at in range(w.core_start, w.core_end)]
    assert asked == list(range(len(sizes)))
    assert all(0 <= w.start <= w.core_start < w.core_end <= w.end <= len(sizes) for w in windows)
    for before, after in pairwise(windows):  # the next window begins inside this one
        assert after.start < before.end


def test_a_long_trace_is_read_in_windows_with_an_outline_of_the_rest(scene: Any) -> None:
    building = scene("Find it.")
    for i in range(30):
        building.calls("look", {"at": i}, f"door {i} " + "x" * 300)

    def all_yes(request: JudgeRequest) -> str:
        line = request.messages[1].text.rpartition("asked about step ")[2]
        return answer(*({"step": int(s)} for s in line.split(",")))

    model = Model(all_yes)
    found = judge(model, window=3000).judge(Case(building.done(), SUCCESS_AT), RUBRIC)
    assert len(model.requests) > 3
    assert found.coverage is not None
    assert found.coverage.seen == found.coverage.steps == 61
    assert [v.value for v in found.verdicts] == [True] * 30
    assert all("OUTLINE" in r.messages[1].text for r in model.requests)


def test_two_traces_are_compared_in_the_order_given(trace: Trace, scene: Any) -> None:
    other = scene("Find it.").calls("look", {"at": "z"}, "green door").done()
    model = Model('{"why": "shorter", "better": "second"}', '{"better": "neither"}')
    one = judge(model).prefer(Case(trace, SUCCESS_AT), Case(other, SUCCESS_AT), RUBRIC)
    assert one == ("second", "shorter")
    text = model.requests[0].messages[0].text
    assert text.index("red door") < text.index("SECOND RUN") < text.index("green door")
    assert judge(model).prefer(Case(trace, SUCCESS_AT), Case(other, SUCCESS_AT), RUBRIC).choice is None


@pytest.mark.parametrize(("success_at", "ended"), [(0.5, "success"), (0.8, "failure")])
def test_the_outcome_is_told_as_the_run_counts(scene: Any, success_at: float, ended: str) -> None:
    model = Model(answer({"step": 1}))
    judge(model).judge(Case(scene().calls("look", {}, "door").done(Scored(0.6, "t")), success_at), RUBRIC)
    assert f"OUTCOME of the whole run, by its verifier: {ended}" in model.requests[0].messages[1].text


def test_the_outcome_is_shown_unless_the_guard_hides_it(scene: Any) -> None:
    trace = (
        scene(reward_info='{"reward": 1.0}')
        .calls("look", {}, "door")
        .user("Reward: 1.0\nThanks")
        .done(Scored(1.0, "t"))
    )
    label = Label(trace_id=trace.head.trace_id, name="check", value=1.0, by="equals@1", source="verifier")
    whole = Trace(trace.head, trace.spans, trace.texts, (label,))
    model = Model(answer({"step": 2}))
    judge(model).judge(Case(whole, SUCCESS_AT), RUBRIC)
    stripped = without_outcome(whole)
    judge(model).judge(Case(stripped.trace, SUCCESS_AT), RUBRIC)
    shown, hidden = (r.messages[1].text for r in model.requests)
    assert "OUTCOME of the whole run, by its verifier: success" in shown
    assert "Reward: 1.0" in shown
    assert "OUTCOME" not in hidden
    assert "Reward" not in hidden
    assert OUTCOME_GONE in hidden
    assert "Thanks" in hidden
    assert (stripped.trace.labels, stripped.trace.head.meta) == ((), {})
    assert isinstance(stripped.trace.outcome, Missing)
    assert [s.span_id for s in stripped.trace.steps] == [s.span_id for s in whole.steps]


def test_tests_that_passed_while_the_agent_worked_stay_its_evidence(scene: Any) -> None:
    trace = scene().calls("run_tests", {}, "score: 1.0\npassed").says("Good.").done(Scored(1.0, "t"))
    assert trace.text(without_outcome(trace).trace.steps[2].result) == "score: 1.0\npassed"  # type: ignore[arg-type]


def test_claims_of_success_become_one_neutral_sentence(scene: Any) -> None:
    trace = (
        scene()
        .calls("look", {"a": 1}, "it has been fixed")
        .says("I have verified the fix. The door is red. Everything works, and the work is done!")
    )
    found = without_narration(trace.done())
    last = found.trace.message(found.trace.steps[-1].output[0]).text
    assert last == f"{CLAIM_GONE} The door is red."
    assert found.removed == 2
    result = found.trace.steps[2].result
    assert result is not None
    assert found.trace.text(result) == "it has been fixed"  # what a tool says is evidence


def test_guards_are_applied_together_and_counted(scene: Any) -> None:
    trace = scene(score="1").says("I have fixed it.").done(Scored(1.0, "t"))
    assert guarded(trace, GUARDS).removed == {"outcome": 2, "narration": 1}
    assert guarded(trace, ()).trace is trace
    assert guards_named("windows,outcome") == ("outcome", "windows")
    with pytest.raises(BadUsage, match="there is no guard 'magic'"):
        guards_named("magic")


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("gpt-4.1-mini", "openai"),
        ("o3", "openai"),
        ("openai/chatgpt-4o", "openai"),
        ("claude-sonnet-4", "anthropic"),
        ("anthropic/claude-3", "anthropic"),
        ("gemma-3-27b", "google"),
        ("meta-llama/Llama-3.3-70B", "meta"),
        ("Qwen/QwQ-32B", "alibaba"),
        ("smollm2-135m", "huggingface"),
        ("turbo3", None),
    ],
)
def test_families_are_told_by_names(model: str, family: str | None) -> None:
    assert family_of(model) == family


def test_a_judge_of_the_same_family_or_name_is_found() -> None:
    assert shared_families(["gpt-4.1"], ["claude-3", "o3-mini"]) == [("gpt-4.1", "o3-mini")]
    assert shared_families(["own"], ["own"]) == [("own", "own")]
    assert shared_families(["own"], ["other"]) == []
