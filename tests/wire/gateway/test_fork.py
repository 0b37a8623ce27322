"""A fork as a policy: what is served before the step, what one change does at it, and what it leaves alone after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.errors import BadUsage
from ethogram.store import open_home
from ethogram.store.redact import Redactor, policy_from
from ethogram.traces import Message, Origin, Text, ToolCall, ToolResult, Trace
from ethogram.wire.gateway.call import Forward, ModelRequest, Refuse, RequestEdits, Serve
from ethogram.wire.gateway.fork import ForkChange, ForkPolicy, fork_step, parse_change
from ethogram.wire.gateway.protocols import PROTOCOLS

SYSTEM = Message("system", (Text("Answer with a number."),))
ASKED = (SYSTEM, Message("user", (Text("What do tea and coffee cost?"),)))
CALLS = Message("assistant", (ToolCall("price", '{"item":"tea"}', "a"), ToolCall("price", '{"item":"coffee"}', "b")))
RESULTS = (Message("tool", (ToolResult("3", "price", "a"),)), Message("tool", (ToolResult("4", "price", "b"),)))
SECOND = (*ASKED, CALLS, *RESULTS)
ANSWER = Message("assistant", (Text("7"),))
THIRD = (*SECOND, ANSWER, Message("user", (Text("Sure?"),)))


def asked(messages: Sequence[Message], **changes: Any) -> ModelRequest:
    fields: dict[str, Any] = {"protocol": "openai-chat", "model": "m-1", "messages": tuple(messages)}
    return ModelRequest(**(fields | changes))


def spoke(messages: Sequence[Message], answer: Message) -> Draft:
    attributes = {"wire": "openai-chat"}
    return Draft(
        kind="model", name="chat", input=messages, output=(answer,), model="m-1", attributes=attributes, status="ok"
    )


def used(item: str, result: str) -> Draft:
    return Draft(kind="tool", name="price", tool="price", arguments=f'{{"item": "{item}"}}', result=result, status="ok")


class Stored:
    """A trace of five steps: model, two tools, model, model."""

    def __init__(self, folder: Path, calls: Message = CALLS, results: Sequence[Message] = RESULTS) -> None:
        home = open_home(str(folder))
        self.redactor: Redactor = home.redactor(policy_from("default"))
        run = home.create("recorded", "run")
        with run.writer(self.redactor) as writer:
            intake = Intake(lambda t: writer.trace(t, None), Origin("run"), SourceReport(source="live"))
            with intake.trace("one") as builder:
                builder.task = "prices"
                for draft in (
                    spoke(ASKED, calls),
                    used("tea", "3"),
                    used("coffee", "4"),
                    spoke((*ASKED, calls, *results), ANSWER),
                    spoke((*ASKED, calls, *results, *THIRD[len(SECOND) :]), Message("assistant", (Text("Yes."),))),
                ):
                    builder.add(draft)
        self.trace: Trace = next(iter(run.traces()))

    def fork(self, at: int, change: ForkChange | None = None, **how: Any) -> ForkPolicy:
        return ForkPolicy(self.trace, self.redactor, at, change, **how)


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path / "home")


def edits_of(decision: object) -> RequestEdits | None:
    assert isinstance(decision, Forward), decision
    return decision.edits


def test_recorded_before_the_step_and_live_from_it_on(stored: Stored) -> None:
    went: list[str] = []
    policy = stored.fork(3, on_live=lambda: went.append("live"))
    first = policy.decide(asked(ASKED))
    assert isinstance(first, Serve)
    assert first.reply.message == CALLS
    assert (policy.live, went) == (False, [])
    assert edits_of(policy.decide(asked(SECOND))) is None
    assert (policy.live, went) == (True, ["live"])
    assert edits_of(policy.decide(asked(THIRD))) is None, "what is asked later need not be what was recorded"
    assert edits_of(policy.decide(asked(ASKED[1:]))) is None


def test_the_request_of_the_step_must_be_the_recorded_one(stored: Stored) -> None:
    policy = stored.fork(3)
    policy.decide(asked(ASKED))
    other = (*ASKED, CALLS, RESULTS[0], Message("tool", (ToolResult("5", "price", "b"),)))
    refused = policy.decide(asked(other))
    assert isinstance(refused, Refuse)
    assert refused.kind == "ethogram_deviation"
    assert "-result: 4\n+result: 5" in refused.message
    assert not policy.live


def test_a_prompt_is_changed_for_the_calls_that_had_it(stored: Stored) -> None:
    policy = stored.fork(3, parse_change("prompt", "Be brief."))
    assert isinstance(policy.decide(asked(ASKED)), Serve)
    assert edits_of(policy.decide(asked(SECOND))) == RequestEdits(system="Be brief.")
    assert edits_of(policy.decide(asked(THIRD))) == RequestEdits(system="Be brief.")
    helper = (Message("system", (Text("You are a helper."),)), ASKED[1])
    assert edits_of(policy.decide(asked(helper))) is None, "another agent's prompt is left alone"


def test_a_model_is_changed_for_the_calls_that_had_it(stored: Stored) -> None:
    policy = stored.fork(3, parse_change("model", "m-2"))
    policy.decide(asked(ASKED))
    assert edits_of(policy.decide(asked(SECOND))) == RequestEdits(model="m-2")
    assert edits_of(policy.decide(asked(THIRD, model="small"))) is None


@pytest.mark.parametrize(("at", "place"), [(1, (3, 0)), (2, (4, 0))])
def test_one_result_is_changed_wherever_the_model_reads_it(stored: Stored, at: int, place: tuple[int, int]) -> None:
    policy = stored.fork(at, parse_change("result", "99"))
    policy.decide(asked(ASKED))
    assert edits_of(policy.decide(asked(SECOND))) == RequestEdits(texts={place: "99"})
    assert edits_of(policy.decide(asked(THIRD))) == RequestEdits(texts={place: "99"})
    assert edits_of(policy.decide(asked(ASKED))) is None, "a conversation without the result is left alone"


@pytest.mark.parametrize("call_id", [None, "same"])
@pytest.mark.parametrize(("at", "place"), [(1, (3, 0)), (2, (4, 0))])
def test_one_result_is_changed_among_calls_of_one_id(
    tmp_path: Path, call_id: str | None, at: int, place: tuple[int, int]
) -> None:
    items = ("tea", "coffee")
    calls = Message("assistant", tuple(ToolCall("price", f'{{"item": "{item}"}}', call_id) for item in items))
    results = [Message("tool", (ToolResult(words, "price", call_id),)) for words in ("3", "4")]
    policy = Stored(tmp_path / "home", calls, results).fork(at, parse_change("result", "99"))
    policy.decide(asked(ASKED))
    assert edits_of(policy.decide(asked((*ASKED, calls, *results)))) == RequestEdits(texts={place: "99"})


def test_an_answer_is_given_in_place_of_the_models_own(stored: Stored) -> None:
    policy = stored.fork(3, parse_change("answer", "8"))
    policy.decide(asked(ASKED))
    given = policy.decide(asked(SECOND))
    assert isinstance(given, Serve)
    assert given.reply.message == Message("assistant", (Text("8"),))
    assert edits_of(policy.decide(asked((*SECOND, given.reply.message)))) is None
    unchanged = stored.fork(3, keep_answer=True)
    unchanged.decide(asked(ASKED))
    kept = unchanged.decide(asked(SECOND))
    assert isinstance(kept, Serve)
    assert kept.reply.message == ANSWER


def test_seeds_are_replaced_where_there_are_any(stored: Stored) -> None:
    policy = stored.fork(0, seed=17)
    assert edits_of(policy.decide(asked(ASKED))) is None
    seeded = policy.decide(asked(ASKED, params={"seed": 3}))
    assert edits_of(seeded) == RequestEdits(seed=17)
    chat = PROTOCOLS["openai-chat"]
    changed = chat.edited(b'{"model": "m-1", "seed": 3, "messages": []}', RequestEdits(seed=17))
    assert msgspec.json.decode(changed) == {"model": "m-1", "seed": 17, "messages": []}
    assert chat.edited(b'{"messages": []}', RequestEdits(seed=17)) == b'{"messages": []}'


def test_steps_that_cannot_be_forked_are_refused(stored: Stored) -> None:
    trace = stored.trace
    assert [fork_step(trace, at, None) for at in range(5)] == [0, 3, 3, 3, 4]
    with pytest.raises(BadUsage, match="no step 5; its steps are 0 to 4"):
        fork_step(trace, 5, None)
    with pytest.raises(BadUsage, match="no step -1"):
        fork_step(trace, -1, None)
    with pytest.raises(BadUsage, match="step 1 is a tool step, so there is no answer"):
        fork_step(trace, 1, parse_change("answer", "x"))
    with pytest.raises(BadUsage, match="step 0 is a model step, so there is no tool result"):
        fork_step(trace, 0, parse_change("result", "x"))


@pytest.mark.parametrize(
    "words",
    [
        '{"content": "Let me see.", "tool_calls": [{"name": "price", "arguments": {"item": "tea"}}]}',
        '{"role": "assistant", "content": "Let me see.", "tool_calls": [{"id": null, "type": "function", "function": '
        '{"name": "price", "arguments": "{\\"item\\":\\"tea\\"}"}}]}',
        '{"content": [{"type": "text", "text": "Let me see."}, {"type": "tool_use", "name": "price", "input": '
        '{"item": "tea"}}]}',
        '{"parts": [{"type": "text", "text": "Let me see."}, {"type": "tool_call", "name": "price", "arguments": '
        '"{\\"item\\":\\"tea\\"}"}]}',
    ],
)
def test_answers_may_be_messages_as_apis_write_them(words: str) -> None:
    answer = parse_change("answer", words).answer
    assert answer is not None
    (call,) = answer.tool_calls
    assert (answer.text, call.name, msgspec.json.decode(call.arguments)) == ("Let me see.", "price", {"item": "tea"})
    assert call.call_id is not None
    assert call.call_id.startswith("call_")


@pytest.mark.parametrize(
    ("what", "words", "said"),
    [
        ("answer", '{"content": [{"type": "image"}]}', "JSON but no message"),
        ("answer", '{"tool_calls": [{"arguments": {}}]}', "JSON but no message"),
        ("answer", "{}", "without words"),
        ("model", " ", "needs the name of a model"),
        ("temperature", "1", "cannot be changed; give set with one of prompt=…, model=…, result=…, answer=…"),
    ],
)
def test_changes_that_are_none_are_refused(what: str, words: str, said: str) -> None:
    with pytest.raises(BadUsage, match=said):
        parse_change(what, words)
