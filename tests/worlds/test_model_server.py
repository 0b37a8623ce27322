"""The model server, through the real packages of both providers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import anthropic
import httpx
import openai
import pytest

from ethogram.traces import Message, Text, ToolResult
from ethogram.wire.gateway.call import ModelReply, Usage
from ethogram.worlds.local_model import available
from ethogram.worlds.model_server import ReplyError, ServerOptions, in_turn, serve_model, text_reply, tool_reply

PRICE = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
CHAT_TOOL = {"type": "function", "function": {"name": "price", "description": "a price", "parameters": PRICE}}
ASKED = [{"role": "user", "content": "How much is tea?"}]
SHOP = in_turn(tool_reply(("price", {"item": "tea"})), text_reply("6", usage=Usage(input_tokens=20, output_tokens=3)))


@pytest.fixture
def opened():
    """Clients of both packages, closed at the end."""
    with ExitStack() as stack:
        yield stack


def chat_client(opened, server):
    client = openai.OpenAI(base_url=f"{server.address}/v1", api_key="not-needed", max_retries=0)
    return opened.enter_context(client)


def claude_client(opened, server):
    return opened.enter_context(anthropic.Anthropic(base_url=server.address, api_key="not-needed", max_retries=0))


def test_a_conversation_with_a_tool_on_each_api(opened):
    with serve_model(SHOP) as server:
        client = chat_client(opened, server)
        first = client.chat.completions.create(model="gpt-4o-mini", messages=ASKED, tools=[CHAT_TOOL])
        call = first.choices[0].message.tool_calls[0]
        assert (call.function.name, json.loads(call.function.arguments)) == ("price", {"item": "tea"})
        result = {"role": "tool", "tool_call_id": call.id, "content": "6"}
        last = client.chat.completions.create(model="gpt-4o-mini", messages=[*ASKED, first.choices[0].message, result])
        assert (last.choices[0].message.content, last.choices[0].finish_reason, last.model) == (
            "6",
            "stop",
            "gpt-4o-mini",
        )
        assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (20, 3)

        answer = client.responses.create(model="gpt-4o-mini", input="How much is tea?")
        assert answer.output[0].name == "price"

        message = claude_client(opened, server).messages.create(model="claude", max_tokens=50, messages=ASKED)
        used = message.content[0]
        assert (message.stop_reason, used.name, used.input) == ("tool_use", "price", {"item": "tea"})
        given = {"type": "tool_result", "tool_use_id": used.id, "content": "6"}
        talk = [*ASKED, {"role": "assistant", "content": message.content}, {"role": "user", "content": [given]}]
        assert (
            claude_client(opened, server).messages.create(model="claude", max_tokens=50, messages=talk).content[0].text
            == "6"
        )


def test_streams_tell_usage_only_where_the_client_asks(opened):
    def asked(server, **given):
        return list(
            chat_client(opened, server).chat.completions.create(model="m", messages=ASKED, stream=True, **given)
        )

    with serve_model(lambda request: text_reply("one two three")) as server:
        assert all(chunk.usage is None for chunk in asked(server))
        told = asked(server, stream_options={"include_usage": True})
        assert told[-1].usage.completion_tokens == 3
        assert "".join(c.choices[0].delta.content or "" for c in told if c.choices) == "one two three"
        with claude_client(opened, server).messages.stream(model="claude", max_tokens=9, messages=ASKED) as stream:
            assert stream.get_final_message().usage.output_tokens == 3
    with serve_model(lambda request: text_reply("one"), ServerOptions(stream_usage=False)) as server:
        assert all(chunk.usage is None for chunk in asked(server, stream_options={"include_usage": True}))


def test_streams_are_cut_anywhere_and_take_their_time(opened):
    with serve_model(lambda request: text_reply("é" * 40), ServerOptions(chunk_bytes=7, event_seconds=0.001)) as server:
        body = {"model": "m", "messages": ASKED, "stream": True}
        with httpx.stream("POST", f"{server.address}/v1/chat/completions", json=body) as response:
            pieces = list(response.iter_raw())
        assert len(pieces) > 10
        parts = chat_client(opened, server).chat.completions.create(**body)
        assert "".join(c.choices[0].delta.content or "" for c in parts) == "é" * 40


def test_errors_and_broken_replies(opened):
    def reply(request):
        match request.messages[-1].text:
            case "limit":
                raise ReplyError(429, "too many", kind="rate_limit_error", retry_after=2)
            case "bug":
                raise KeyError("lost")
            case _:
                return ModelReply(message=Message("assistant", (Text("I was going to say"),)), complete=False)

    with serve_model(reply) as server:
        with pytest.raises(openai.RateLimitError) as limited:
            chat_client(opened, server).chat.completions.create(
                model="m", messages=[{"role": "user", "content": "limit"}]
            )
        assert limited.value.response.headers["retry-after"] == "2"
        with pytest.raises(anthropic.InternalServerError, match="raised KeyError: 'lost'"):
            claude_client(opened, server).messages.create(
                model="m", max_tokens=9, messages=[{"role": "user", "content": "bug"}]
            )
        with pytest.raises(openai.APIConnectionError):
            chat_client(opened, server).chat.completions.create(model="m", messages=ASKED)
        body = {"model": "m", "messages": ASKED, "stream": True}
        with (
            httpx.stream("POST", f"{server.address}/v1/chat/completions", json=body) as response,
            pytest.raises(httpx.RemoteProtocolError),
        ):
            response.read()
        assert httpx.post(f"{server.address}/v1/chat/completions", content=b"{").status_code == 400
        assert httpx.post(f"{server.address}/v1/embeddings", json={}).status_code == 404


def test_models_are_listed_for_both_packages_and_calls_are_kept(opened):
    with serve_model(SHOP, ServerOptions(models=("small", "large"))) as server:
        assert [m.id for m in chat_client(opened, server).models.list()] == ["small", "large"]
        assert [m.id for m in claude_client(opened, server).models.list()] == ["small", "large"]
        assert claude_client(opened, server).messages.count_tokens(model="small", messages=ASKED).input_tokens > 5
        assert (server.calls[0].method, server.calls[0].path) == ("GET", "/v1/models")
        assert server.calls[0].headers["authorization"] == "Bearer not-needed"


def test_a_hundred_clients_at_once():
    with serve_model(SHOP, ServerOptions(delay_seconds=0.1)) as server:
        url, body = f"{server.address}/v1/chat/completions", {"model": "m", "messages": ASKED}
        limits = httpx.Limits(max_connections=100)
        with httpx.Client(limits=limits, timeout=30) as client, ThreadPoolExecutor(100) as pool:
            replies = list(pool.map(lambda n: client.post(url, json=body), range(100)))
        assert {r.status_code for r in replies} == {200}
        assert len({r.json()["id"] for r in replies}) == 100


SCRIPT = """
from ethogram.worlds.model_server import text_reply


def reply(request):
    return text_reply(f"you said {request.messages[-1].text}")
"""
ASK = """
import openai
with openai.OpenAI() as client:
    made = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
print(made.choices[0].message.content)
"""
COMMAND = [sys.executable, "-W", "error", "-m", "ethogram.worlds.model_server"]


def test_a_command_runs_against_it(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    line = [*COMMAND, "--scripted", "script.py:reply", "--", sys.executable, "-c", f"{ASK}\nraise SystemExit(3)"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (3, "you said x\n", "")


def test_it_serves_until_it_is_stopped(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    line = [*COMMAND, "--scripted", "script.py:reply"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as started:
        exports = dict(started.stdout.readline().removeprefix("export ").strip().split("=", 1) for _ in range(4))
        said = subprocess.run(
            [sys.executable, "-c", ASK], env=os.environ | exports, capture_output=True, text=True, timeout=60
        )
        assert said.stdout == "you said x\n"
        port = exports["ANTHROPIC_BASE_URL"].rpartition(":")[2]
        taken = subprocess.run([*line, "--port", port], capture_output=True, text=True, cwd=tmp_path, timeout=60)
        assert (taken.returncode, taken.stdout) == (64, "")
        assert f"cannot listen on port {port}" in taken.stderr
        started.send_signal(signal.SIGINT)
        assert started.wait(timeout=20) == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [(["--scripted", "none.py:reply"], "none.py"), (["--", "no-such-program"], "no-such-program cannot be started")],
)
def test_bad_input_is_one_sentence(tmp_path, given, words):
    (tmp_path / "script.py").write_text(SCRIPT)
    first = [] if "--scripted" in given else ["--scripted", "script.py:reply"]
    done = subprocess.run([*COMMAND, *first, *given], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 64
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(available() is not None, reason=f"the local model: {available()}")
def test_the_local_model_calls_tools(opened):
    from ethogram.worlds.model_server.local import LocalReply

    required = {**CHAT_TOOL, "function": {**CHAT_TOOL["function"], "description": "The price of one item."}}
    with serve_model(LocalReply(seed=1)) as server:
        client = chat_client(opened, server)
        made = client.chat.completions.create(
            model="gpt-4o-mini", messages=ASKED, tools=[required], tool_choice="required", temperature=0
        )
        call = made.choices[0].message.tool_calls[0]
        assert call.function.name == "price"
        assert isinstance(json.loads(call.function.arguments)["item"], str)
        assert made.usage.prompt_tokens > 50
        again = [
            client.chat.completions.create(model="m", messages=ASKED, max_tokens=5, seed=7).choices[0].message.content
            for _ in range(2)
        ]
        assert again[0] == again[1]
        with pytest.raises(openai.BadRequestError, match="exceeds the available context size"):
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "word " * 9000}])


def test_the_words_that_the_local_model_gets():
    from ethogram.wire.gateway.protocols import PROTOCOLS
    from ethogram.worlds.model_server.local import allowed_tools, call_or_words, call_schema, plain_messages

    body = {"model": "m", "messages": ASKED, "tools": [CHAT_TOOL, {"type": "web_search"}]}
    request = PROTOCOLS["openai-chat"].request(json.dumps(body).encode())
    tools = allowed_tools(request)
    assert [t.name for t in tools] == ["price"]
    schema = call_schema(tools, words=True)
    assert [o["properties"]["tool"]["const"] for o in schema["oneOf"]] == ["price", "answer"]
    talk = (*request.messages, Message("assistant", (call_or_words('{"tool": "price", "item": "tea"}'),)))
    plain = plain_messages((*talk, Message("tool", (ToolResult("6"),))), tools)
    assert [m["role"] for m in plain] == ["system", "user", "assistant", "user"]
    assert [m["content"] for m in plain[2:]] == ['{"tool": "price", "item": "tea"}', "result: 6"]
    assert call_or_words('{"tool": "answer", "text": "6"}') == Text("6")
    assert call_or_words('{"tool": "pri') == Text('{"tool": "pri')
    named = {**body, "tool_choice": {"type": "function", "function": {"name": "price"}}}
    assert len(allowed_tools(PROTOCOLS["openai-chat"].request(json.dumps(named).encode()))) == 1
    none = {**body, "tool_choice": "none"}
    assert allowed_tools(PROTOCOLS["openai-chat"].request(json.dumps(none).encode())) == []
