"""Which conversation a request goes on with, where nothing names it."""

from __future__ import annotations

from ethogram.traces import Message, Text
from ethogram.wire.conversations import Conversations
from ethogram.wire.gateway.call import ModelReply, ModelRequest


class Talk:
    """A conversation; equal to no other."""

    stopped = False


def talks() -> Conversations[Talk]:
    return Conversations(lambda talk: talk.stopped)


def asked(*words: str, system: str = "", **more: str) -> ModelRequest:
    roles = ("user", "assistant")
    messages = [Message(roles[n % 2], (Text(w),)) for n, w in enumerate(words)]
    first = [Message("system", (Text(system),))] if system else []
    return ModelRequest(protocol="openai-chat", messages=(*first, *messages), **more)


def said(words: str, **more: str | bool) -> ModelReply:
    return ModelReply(message=Message("assistant", (Text(words),)), **more)  # type: ignore[arg-type]


def begin(known: Conversations[Talk], request: ModelRequest, reply: ModelReply | None) -> Talk:
    talk = Talk()
    assert known.find(request) is None
    known.asked(request, talk)
    known.answered(request, reply, talk)
    return talk


def test_a_longer_request_goes_on_with_the_one_that_it_begins_with() -> None:
    known = talks()
    first = begin(known, asked("a"), said("b"))
    assert known.find(asked("a", "b", "c")) is first
    assert known.find(asked("a", "b", "c", "d", "e")) is first, "turns in between may have gone elsewhere"
    assert known.find(asked("a", "what the agent made of it", "c")) is first
    assert known.find(asked("x", "b", "c")) is None
    assert known.find(asked("a")) is None, "the same question again is another conversation"


def test_the_system_prompt_may_change_from_call_to_call() -> None:
    known = talks()
    first = begin(known, asked("a", system="it is 12:00"), said("b"))
    assert known.find(asked("a", "b", "c", system="it is 12:01")) is first


def test_conversations_that_began_alike_are_told_apart_by_what_was_answered() -> None:
    known = talks()
    one, two = begin(known, asked("a"), said("b")), begin(known, asked("a"), said("B"))
    assert known.find(asked("a", "b", "c")) is one
    assert known.find(asked("a", "B", "c")) is two
    known.forget(two)
    assert known.find(asked("a", "B", "c")) is one, "nothing else is left that it could go on with"
    known.forget(one)
    assert known.find(asked("a", "b", "c")) is None


def test_what_failed_or_was_refused_and_is_tried_again_is_the_same() -> None:
    known = talks()
    for reply in (None, said("", complete=False), said("", error="overloaded")):
        first = begin(known, asked("a"), reply)
        assert known.find(asked("a")) is first
        known.asked(asked("a"), first)
        known.answered(asked("a"), said("b"), first)
        assert known.find(asked("a")) is None, "the second try was answered"
        known.forget(first)
    first = begin(known, asked("a"), said("b"))
    first.stopped = True
    assert known.find(asked("a")) is first


def test_while_a_question_is_under_way_the_same_one_is_another_conversation() -> None:
    known = talks()
    known.asked(asked("a"), Talk())
    assert known.find(asked("a")) is None


def test_a_response_that_the_provider_keeps_is_gone_on_with_by_its_id() -> None:
    known = talks()
    first = begin(known, asked("a"), said("b", response_id="resp_1"))
    assert known.find(asked("c", continues="resp_1")) is first
    assert known.find(asked("c", continues="resp_2")) is None
