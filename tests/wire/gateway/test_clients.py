"""The real openai and anthropic packages read what the protocols write, whole and streamed, sync and async."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anthropic
import openai
import pytest

from ethogram.traces import Message, Reasoning, Text, ToolCall
from ethogram.wire.gateway.call import Alternative, ModelReply, ModelRequest, Usage
from ethogram.wire.gateway.protocols import PROTOCOLS, protocol_for

USAGE = Usage(input_tokens=11, cache_read_tokens=5, cache_write_tokens=2, output_tokens=9, reasoning_tokens=4)
CALLING = ModelReply(
    message=Message(
        "assistant",
        (
            Reasoning("Two files."),
            Text("I read both, né."),
            ToolCall("read", '{"path":"a.txt"}', "call_1"),
            ToolCall("read", '{"path":"b.txt"}', "call_2"),
        ),
    ),
    model="model-1",
    response_id="id_1",
    stop_reason="tool_calls",
    usage=USAGE,
)
REFUSING = ModelReply(message=Message("assistant", (Text("I cannot."),)), model="m", stop_reason="refusal", usage=USAGE)


class Endpoint:
    """A server on loopback that answers every call with one reply, streamed where the client asks for it."""

    def __init__(self, reply: ModelReply, status: int = 200) -> None:
        self.reply = reply
        self.status = status
        self.requests: list[ModelRequest] = []
        self.address = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["content-length"]))
        protocol = protocol_for("POST", handler.path)
        assert protocol is not None
        request = protocol.request(body)
        self.requests.append(request)
        handler.send_response(self.status)
        streamed = request.stream and self.status == 200
        handler.send_header("content-type", "text/event-stream" if streamed else "application/json")
        chunks = list(protocol.events_of(self.reply)) if streamed else [protocol.body_of(self.reply)]
        handler.send_header("content-length", str(sum(map(len, chunks))))
        handler.end_headers()
        for chunk in chunks:
            handler.wfile.write(chunk)


@contextmanager
def serving(reply: ModelReply, status: int = 200) -> Iterator[Endpoint]:
    endpoint = Endpoint(reply, status)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            endpoint.answer(self)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    endpoint.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def openai_client(endpoint: Endpoint) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{endpoint.address}/v1", api_key="k", max_retries=0)


def anthropic_client(endpoint: Endpoint) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=endpoint.address, api_key="k", max_retries=0)


MESSAGES: Any = [{"role": "user", "content": "Read them."}]


def test_chat_completion_whole_and_streamed() -> None:
    with serving(CALLING) as endpoint, openai_client(endpoint) as client:
        whole = client.chat.completions.create(model="model-1", messages=MESSAGES, max_tokens=50)
        with client.chat.completions.stream(model="model-1", messages=MESSAGES) as stream:
            events = list(stream)
            streamed = stream.get_final_completion()
    for completion in (whole, streamed):
        message = completion.choices[0].message
        assert message.content == "I read both, né."
        assert [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls] == [
            ("call_1", "read", '{"path":"a.txt"}'),
            ("call_2", "read", '{"path":"b.txt"}'),
        ]
        assert message.reasoning_content == "Two files."
        assert completion.choices[0].finish_reason == "tool_calls"
        assert completion.usage.prompt_tokens == 18
        assert completion.usage.prompt_tokens_details.cached_tokens == 5
        assert completion.usage.completion_tokens_details.reasoning_tokens == 4
        assert completion.id == "id_1"
        assert completion.model == "model-1"
    assert events
    assert [r.stream for r in endpoint.requests] == [False, True]
    assert endpoint.requests[0].at_most_tokens == 50
    assert endpoint.requests[0].messages == (Message("user", (Text("Read them."),)),)


def test_several_answers_and_a_refusal_of_chat() -> None:
    several = ModelReply(
        message=Message("assistant", (Text("one"),)),
        stop_reason="stop",
        alternatives=(Alternative(Message("assistant", (Text("two"),)), "length"),),
    )
    with serving(several) as endpoint, openai_client(endpoint) as client:
        whole = client.chat.completions.create(model="m", messages=MESSAGES, n=2)
        chunks = list(client.chat.completions.create(model="m", messages=MESSAGES, n=2, stream=True))
    assert [(c.message.content, c.finish_reason) for c in whole.choices] == [("one", "stop"), ("two", "length")]
    deltas = [(c.index, c.delta.content) for chunk in chunks for c in chunk.choices if c.delta.content]
    assert deltas == [(0, "one"), (1, "two")]
    with serving(REFUSING) as endpoint, openai_client(endpoint) as client:
        message = client.chat.completions.create(model="m", messages=MESSAGES).choices[0].message
    assert (message.content, message.refusal) == (None, "I cannot.")


def test_responses_whole_and_streamed() -> None:
    with serving(CALLING) as endpoint, openai_client(endpoint) as client:
        whole = client.responses.create(model="model-1", input="Read them.", previous_response_id="resp_0")
        with client.responses.stream(model="model-1", input="Read them.") as stream:
            kinds = [event.type for event in stream]
            streamed = stream.get_final_response()
    for response in (whole, streamed):
        assert response.output_text == "I read both, né."
        assert [item.type for item in response.output] == ["reasoning", "message", "function_call", "function_call"]
        assert response.output[0].summary[0].text == "Two files."
        assert [(c.call_id, c.arguments) for c in response.output[2:]] == [
            ("call_1", '{"path":"a.txt"}'),
            ("call_2", '{"path":"b.txt"}'),
        ]
        assert response.usage.input_tokens == 18
        assert response.usage.input_tokens_details.cached_tokens == 5
        assert response.status == "completed"
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert endpoint.requests[0].continues == "resp_0"
    with serving(REFUSING) as endpoint, openai_client(endpoint) as client:
        for stream in (False, True):
            if stream:
                with client.responses.stream(model="m", input="x") as events:
                    response = events.get_final_response()
            else:
                response = client.responses.create(model="m", input="x")
            assert response.output[0].content[0].refusal == "I cannot."


def test_messages_whole_and_streamed() -> None:
    with serving(CALLING) as endpoint, anthropic_client(endpoint) as client:
        whole = client.messages.create(model="model-1", max_tokens=64, messages=MESSAGES, system="Be brief.")
        with client.messages.stream(model="model-1", max_tokens=64, messages=MESSAGES) as stream:
            words = "".join(stream.text_stream)
            streamed = stream.get_final_message()
    for message in (whole, streamed):
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
        assert message.content[0].thinking == "Two files."
        assert message.content[1].text == "I read both, né."
        assert [(b.id, b.name, b.input) for b in message.content[2:]] == [
            ("call_1", "read", {"path": "a.txt"}),
            ("call_2", "read", {"path": "b.txt"}),
        ]
        assert message.stop_reason == "tool_use"
        assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (11, 5)
        assert (message.usage.cache_creation_input_tokens, message.usage.output_tokens) == (2, 9)
    assert words == "I read both, né."
    assert [m.role for m in endpoint.requests[0].messages] == ["system", "user"]


def test_async_clients_stream_the_same() -> None:
    async def ask(endpoint: Endpoint) -> tuple[str, str, str]:
        async with openai.AsyncOpenAI(base_url=f"{endpoint.address}/v1", api_key="k") as client:
            chunks = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
            chat = "".join([c.choices[0].delta.content or "" async for c in chunks if c.choices])
            async with client.responses.stream(model="m", input="x") as events:
                response = (await events.get_final_response()).output_text
        async with (
            anthropic.AsyncAnthropic(base_url=endpoint.address, api_key="k") as client,
            client.messages.stream(model="m", max_tokens=9, messages=MESSAGES) as stream,
        ):
            message = await stream.get_final_text()
        return chat, response, message

    with serving(CALLING) as endpoint:
        assert asyncio.run(ask(endpoint)) == ("I read both, né.",) * 3


@pytest.mark.parametrize("status", [403, 429, 500])
def test_errors_arrive_as_errors_of_the_client(status: int) -> None:
    with serving(ModelReply(error="ethogram_cap_reached: no money left"), status) as endpoint:
        with openai_client(endpoint) as client:
            for call in (
                lambda: client.chat.completions.create(model="m", messages=MESSAGES),
                lambda: client.responses.create(model="m", input="x"),
            ):
                with pytest.raises(openai.APIStatusError, match="no money left") as caught:
                    call()
                assert caught.value.type == "ethogram_cap_reached"
                assert caught.value.status_code == status
        with anthropic_client(endpoint) as other, pytest.raises(anthropic.APIStatusError, match="no money") as refused:
            other.messages.create(model="m", max_tokens=9, messages=MESSAGES)
        assert refused.value.body["error"]["type"] == "ethogram_cap_reached"


def test_an_error_inside_a_stream_is_raised_by_the_clients() -> None:
    broken = ModelReply(message=Message("assistant", (Text("So"),)), error="overloaded_error: later", complete=False)
    with serving(broken) as endpoint:
        with openai_client(endpoint) as client:
            with pytest.raises(openai.APIError, match="later"):
                list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True))
            events = list(client.responses.create(model="m", input="x", stream=True))
            assert events[-1].type == "response.failed"
            assert events[-1].response.error.message == "later"
        with anthropic_client(endpoint) as other, pytest.raises(anthropic.APIStatusError, match="later"):
            list(other.messages.create(model="m", max_tokens=9, messages=MESSAGES, stream=True))


def test_what_clients_send_back_equals_what_was_answered() -> None:
    """An answer that is sent again with the next request is the same message, reasoning of chat apart."""
    with serving(CALLING) as endpoint:
        with openai_client(endpoint) as client:
            message = client.chat.completions.create(model="m", messages=MESSAGES).choices[0].message
            client.chat.completions.create(model="m", messages=[*MESSAGES, message])
            response = client.responses.create(model="m", input="x")
            client.responses.create(model="m", input=[{"role": "user", "content": "x"}, *response.output])
        with anthropic_client(endpoint) as other:
            answer = other.messages.create(model="m", max_tokens=9, messages=MESSAGES)
            again = [*MESSAGES, {"role": "assistant", "content": answer.content}]
            other.messages.create(model="m", max_tokens=9, messages=again)
    sent = [r.messages[-1] for r in endpoint.requests[1::2]]
    assert [m for m in sent if m != CALLING.message] == []


def test_every_body_is_json_with_the_members_of_its_api() -> None:
    kinds = {name: json.loads(protocol.body_of(CALLING)) for name, protocol in PROTOCOLS.items()}
    assert kinds["openai-chat"]["object"] == "chat.completion"
    assert kinds["openai-responses"]["object"] == "response"
    assert kinds["anthropic-messages"]["type"] == "message"
