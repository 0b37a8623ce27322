"""Recorded answers served again: what matches, what deviates, and what cannot be served."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.errors import BadInput
from ethogram.store import Home, open_home
from ethogram.store.redact import Redactor, policy_from
from ethogram.traces import Message, Missing, Origin, Text, ToolCall, ToolResult, Trace
from ethogram.wire.gateway.call import ModelRequest, Refuse, Serve
from ethogram.wire.gateway.playback import Playback

TOOL = {"type": "function", "function": {"name": "price", "parameters": {"type": "object"}}}
SYSTEM = Message("system", (Text("Answer with a number."),))


def user(words: str) -> Message:
    return Message("user", (Text(words),))


def says(words: str) -> Message:
    return Message("assistant", (Text(words),))


def calls(item: str, call_id: str) -> Message:
    return Message("assistant", (ToolCall("price", f'{{"item": "{item}"}}', call_id),))


def result(words: str, call_id: str) -> Message:
    return Message("tool", (ToolResult(words, "price", call_id),))


def asked(*messages: Message, **changes: Any) -> ModelRequest:
    fields: dict[str, Any] = {
        "protocol": "openai-chat",
        "model": "m-1",
        "messages": messages,
        "tools": (TOOL,),
        "params": {"temperature": 0.0},
    }
    return ModelRequest(**(fields | changes))


class Book:
    """Stores traces in a real home as the gateway does."""

    def __init__(self, folder: Path, redact: str = "default") -> None:
        self.home: Home = open_home(str(folder))
        self.policy = redact
        self.redactor: Redactor = self.home.redactor(policy_from(redact))

    def store(self, exchanges: Sequence[tuple[ModelRequest, Message | Draft]], name: str = "recorded") -> Trace:
        run = self.home.create(name, "run", redaction=self.policy)
        with run.writer(self.redactor) as writer:
            intake = Intake(lambda t: writer.trace(t, None), Origin("run"), SourceReport(source="live"))
            with intake.trace("one") as builder:
                builder.task = "tea"
                for request, answer in exchanges:
                    builder.add(model_span(request, answer) if isinstance(answer, Message) else answer)
        return next(iter(self.home.resolve(name).traces()))


def model_span(request: ModelRequest, answer: Message | None, **changes: Any) -> Draft:
    fields: dict[str, Any] = {
        "kind": "model",
        "name": "chat",
        "input": request.messages,
        "output": () if answer is None else (answer,),
        "model": request.model,
        "params": {**request.params, "response_id": "r-1"},
        "attributes": {"tools": list(request.tools), "wire": request.protocol},
        "status": "ok",
        "stop_reason": "stop",
        "output_tokens": 3,
    }
    return Draft(**(fields | changes))


FIRST = (SYSTEM, user("What is the price of tea?"))
SECOND = (*FIRST, calls("tea", "call_1"), result("3.50", "call_1"))
TWO_STEPS = [(asked(*FIRST), calls("tea", "call_1")), (asked(*SECOND), says("3.50"))]


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path / "home")


def answer_of(decision: object) -> Message:
    assert isinstance(decision, Serve)
    return decision.reply.message


def test_the_same_requests_get_the_recorded_answers(book: Book) -> None:
    playback = Playback(book.store(TWO_STEPS), book.redactor)
    first = playback.decide(asked(*FIRST))
    assert isinstance(first, Serve)
    assert first.reply.message == calls("tea", "call_1")
    assert (first.reply.model, first.reply.response_id, first.reply.stop_reason) == ("m-1", "r-1", "stop")
    assert first.reply.usage is not None
    assert first.reply.usage.output_tokens == 3
    assert answer_of(playback.decide(asked(*SECOND))) == says("3.50")
    assert playback.served == (0, 1)
    assert playback.first_divergence is None


def test_ids_of_calls_spelling_of_arguments_and_delivery_do_not_matter(book: Book) -> None:
    playback = Playback(book.store(TWO_STEPS), book.redactor)
    respelled = Message("assistant", (Text(""), ToolCall("price", '{"item":"tea"}', "fresh-7")))
    live = asked(*FIRST, respelled, result("3.50", "fresh-7"), stream=True, params={"temperature": 0, "user": "u-9"})
    assert answer_of(playback.decide(live)) == says("3.50")


def test_a_result_that_answers_another_call_deviates(book: Book) -> None:
    both = Message("assistant", (ToolCall("price", "{}", "a"), ToolCall("price", "{}", "b")))
    recorded = (user("go"), both, result("1", "a"), result("2", "b"))
    playback = Playback(book.store([(asked(*recorded), says("done"))]), book.redactor)
    refused = playback.decide(asked(user("go"), both, result("1", "b"), result("2", "a")))
    assert isinstance(refused, Refuse)
    assert "answer other calls" in refused.message


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"model": "m-2"}, ["-model m-1", "+model m-2"]),
        ({"params": {"temperature": 0.5}}, ["-temperature = 0", "+temperature = 0.5"]),
        ({"params": {}}, ["-temperature = 0"]),
        ({"tools": ()}, ["-tool definition"]),
        ({"messages": (SYSTEM, user("What is the price of coffee?"))}, ["-What is the price of tea?", "+What"]),
    ],
)
def test_a_changed_request_is_refused_with_a_diff(book: Book, changes: dict[str, Any], shown: list[str]) -> None:
    playback = Playback(book.store(TWO_STEPS), book.redactor)
    refused = playback.decide(asked(**({"messages": FIRST} | changes)))
    assert isinstance(refused, Refuse)
    assert (refused.status, refused.kind, refused.retry) == (403, "ethogram_deviation", False)
    assert playback.deviation is not None
    assert playback.deviation.step == 0
    assert all(line in refused.message for line in shown), refused.message
    assert isinstance(playback.decide(asked(*SECOND)), Refuse), "after a deviation nothing more is served"


def test_the_nearest_request_is_shown_and_its_step_counts_tools_too(book: Book) -> None:
    tool = Draft(kind="tool", name="price", tool="price", arguments='{"item":"tea"}', result="3.50", status="ok")
    trace = book.store([TWO_STEPS[0], (asked(), tool), TWO_STEPS[1]])
    playback = Playback(trace, book.redactor)
    playback.decide(asked(*FIRST))
    playback.decide(asked(*FIRST, calls("tea", "call_1"), result("4.20", "call_1")))
    assert playback.deviation is not None
    assert playback.deviation.step == 2
    assert "-result: 3.50\n+result: 4.20" in playback.deviation.diff
    assert playback.deviation.recorded is not None
    assert "3.50" in playback.deviation.recorded
    assert "4.20" in playback.deviation.live


def test_concurrent_calls_match_in_any_order_and_equal_ones_in_recorded_order(book: Book) -> None:
    one, other = asked(user("one")), asked(user("other"))
    trace = book.store([(one, says("1")), (other, says("2")), (one, says("3"))])
    playback = Playback(trace, book.redactor)
    assert answer_of(playback.decide(other)) == says("2")
    assert answer_of(playback.decide(one)) == says("1")
    assert answer_of(playback.decide(one)) == says("3")


def test_one_call_more_and_one_call_less_are_divergences(book: Book) -> None:
    trace = book.store(TWO_STEPS)
    more = Playback(trace, book.redactor)
    more.decide(asked(*FIRST))
    assert more.first_divergence == 1, "the second call was never made"
    more.decide(asked(*SECOND))
    refused = more.decide(asked(*SECOND))
    assert isinstance(refused, Refuse)
    assert "once more after all 2 recorded calls" in refused.message
    assert more.first_divergence == 2


def test_lenient_goes_live_after_the_first_divergence_and_says_where(book: Book) -> None:
    playback = Playback(book.store(TWO_STEPS), book.redactor, "lenient")
    assert not playback.live
    assert answer_of(playback.decide(asked(*FIRST))) == calls("tea", "call_1")
    assert playback.decide(asked(*SECOND, user("Sure?"))) is None
    assert playback.live
    assert playback.deviation is not None
    assert playback.deviation.step == 1
    assert "+Sure?" in playback.deviation.diff
    assert playback.decide(asked(*SECOND)) is None


def test_until_serves_the_first_steps_and_leaves_the_rest(book: Book) -> None:
    playback = Playback(book.store(TWO_STEPS), book.redactor, until=1)
    assert playback.unserved == (0, 1), "the request of the step itself must be the recorded one"
    assert playback.decide(asked(*SECOND)) is None, "its answer is not served"
    assert answer_of(playback.decide(asked(*FIRST))) == calls("tea", "call_1")
    assert playback.live
    assert playback.decide(asked(user("anything"))) is None
    assert playback.first_divergence is None


def test_the_request_at_until_must_be_the_recorded_one(book: Book) -> None:
    playback = Playback(book.store(TWO_STEPS), book.redactor, until=1)
    playback.decide(asked(*FIRST))
    assert not playback.live
    refused = playback.decide(asked(*FIRST, calls("tea", "call_1"), result("9.90", "call_1")))
    assert isinstance(refused, Refuse)
    assert "-result: 3.50\n+result: 9.90" in refused.message


def test_a_deviation_before_until_is_still_one(book: Book) -> None:
    playback = Playback(book.store(TWO_STEPS), book.redactor, until=2)
    assert isinstance(playback.decide(asked(user("something else"))), Refuse)


def test_secrets_of_the_request_match_and_are_not_shown(book: Book) -> None:
    secret = "mail joe.bloggs@example.org"
    trace = book.store([(asked(user(secret)), says("sent"))])
    assert "joe.bloggs" not in "".join(trace.texts.values())
    assert answer_of(Playback(trace, book.redactor).decide(asked(user(secret)))) == says("sent")
    other = Playback(trace, book.redactor)
    refused = other.decide(asked(user("mail jane@example.org")))
    assert isinstance(refused, Refuse)
    assert "jane@example.org" not in refused.message
    assert "[REDACTED:email:" in refused.message


def test_an_answer_that_redaction_changed_is_refused_before_it_starts(book: Book) -> None:
    trace = book.store([(asked(*FIRST), calls("tea", "c")), (asked(*SECOND), says("write to joe@example.org"))])
    with pytest.raises(BadInput, match=r"step 1: redaction changed its answer.*lenient"):
        Playback(trace, book.redactor)
    assert Playback(trace, book.redactor, until=1).problems == ()
    lenient = Playback(trace, book.redactor, "lenient")
    assert lenient.problems == ((1, "redaction changed its answer"),)
    assert isinstance(lenient.decide(asked(*FIRST)), Serve)
    assert lenient.decide(asked(*SECOND)) is None
    assert lenient.deviation is not None
    assert "cannot be served again" in lenient.deviation.why


def test_a_mark_that_the_model_wrote_itself_is_no_redaction(book: Book) -> None:
    words = "it says [REDACTED:email:1f0c9a3e]"
    trace = book.store([(asked(*FIRST), says(words))])
    assert answer_of(Playback(trace, book.redactor).decide(asked(*FIRST))) == says(words)


def test_a_served_answer_that_comes_back_is_known_whatever_the_policy_of_inputs(tmp_path: Path) -> None:
    book = Book(tmp_path / "home", "default,input=hash")
    trace = book.store(TWO_STEPS)
    playback = Playback(trace, book.redactor)
    playback.decide(asked(*FIRST))
    assert answer_of(playback.decide(asked(*SECOND))) == says("3.50")


def test_answers_that_broke_off_or_are_lost_are_named(book: Book) -> None:
    cut = model_span(asked(*FIRST), says("The price i"), truncated=True)
    lost = model_span(asked(*SECOND), None)
    trace = book.store([(asked(), cut), (asked(), lost)])
    with pytest.raises(BadInput, match=r"step 0: its answer broke off.*step 1: its answer was not recorded"):
        Playback(trace, book.redactor)


def test_a_recorded_failure_fails_again_and_the_retry_succeeds(book: Book) -> None:
    tools = {"tools": [TOOL], "wire": "openai-chat", "status": 429}
    failed = model_span(asked(*FIRST), None, status="error", error="slow down", attributes=tools)
    trace = book.store([(asked(), failed), (asked(*FIRST), says("3.50"))])
    playback = Playback(trace, book.redactor)
    refused = playback.decide(asked(*FIRST))
    assert isinstance(refused, Refuse)
    assert (refused.status, refused.message, refused.retry) == (429, "slow down", True)
    assert answer_of(playback.decide(asked(*FIRST))) == says("3.50")
    assert playback.deviation is None


def test_a_trace_without_model_calls_is_refused(book: Book) -> None:
    trace = book.store([(asked(), Draft(kind="tool", name="price", result="1"))])
    with pytest.raises(BadInput, match=r"has no model calls.*--capture gateway"):
        Playback(trace, book.redactor)


def test_a_record_that_did_not_pass_the_gateway_is_matched_by_its_words(book: Book) -> None:
    foreign = model_span(asked(*FIRST), says("3.50"), attributes={}, params={}, model="m-1-2026-01-01")
    trace = book.store([(asked(), foreign)])
    assert answer_of(Playback(trace, book.redactor).decide(asked(*FIRST))) == says("3.50")
    other = Playback(trace, book.redactor)
    refused = other.decide(asked(*FIRST, model="n-1"))
    assert isinstance(refused, Refuse)
    assert "-model m-1-2026-01-01\n+model n-1" in refused.message
    assert "temperature" not in refused.message, "what the record does not tell is no difference"


def test_a_record_that_was_cut_short_says_so_when_it_ends(book: Book) -> None:
    trace = book.store([(asked(*FIRST), says("3.50"))])
    trace.head = type(trace.head)(
        trace_id=trace.head.trace_id, episode=trace.head.episode, task="tea", outcome=Missing("killed")
    )
    playback = Playback(trace, book.redactor)
    playback.decide(asked(*FIRST))
    refused = playback.decide(asked(*SECOND))
    assert isinstance(refused, Refuse)
    assert "cut short (killed)" in refused.message


def test_a_long_line_shows_where_it_differs(book: Book) -> None:
    long = "x" * 1000
    trace = book.store([(asked(user(f"{long} tea {long}")), says("ok"))])
    refused = Playback(trace, book.redactor).decide(asked(user(f"{long} ale {long}")))
    assert isinstance(refused, Refuse)
    assert " tea " in refused.message
    assert " ale " in refused.message
    assert len(refused.message) < 3000
