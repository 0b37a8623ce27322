"""Calls belong to the episode that makes them, however many run at once; what nobody can attribute is unknown cost."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from ethogram.errors import BadUsage
from ethogram.harness.handle import EpisodeHandle
from ethogram.harness.options import AllCaps
from ethogram.harness.suites import run as run_suite
from ethogram.plans import Check, Suite, Task
from ethogram.prices import Caps
from ethogram.store import Home
from ethogram.traces import Missing
from ethogram.wire.gateway.call import ModelReply, ModelRequest, Usage
from ethogram.wire.gateway.gateway import Gateway
from ethogram.wire.gateway.upstreams import upstreams_of
from ethogram.worlds.model_server import ModelServer, serve_model, text_reply


def echo(request: ModelRequest) -> ModelReply:
    return text_reply(request.messages[-1].parts[0].text, usage=Usage(input_tokens=100, output_tokens=10))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with serve_model(echo) as running:
        for name, value in running.variables().items():
            monkeypatch.setenv(name, value)
        yield running


def suite(tasks: int) -> Suite:
    made = [Task(id=f"t{i}", prompt=f"q{i}", expected=f"q{i}", checks=(Check(kind="equals"),)) for i in range(tasks)]
    return Suite(name="echo", tasks=tuple(made))


def asked(prompt: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": prompt}]}


def test_64_episodes_at_once_have_their_own_calls_only(home: Home, server: ModelServer) -> None:
    # clients that were made before the run, as in a notebook: their base URL is the upstream's own
    chat, claude = openai.OpenAI(max_retries=0), anthropic.Anthropic(max_retries=0)
    pool = ThreadPoolExecutor(8)

    def in_a_thread(prompt: str) -> None:
        thread = threading.Thread(
            target=lambda: claude.messages.create(model="claude-haiku-4-5", max_tokens=9, **asked(prompt))
        )
        thread.start()
        thread.join(60)

    async def solve(task: Task) -> str:
        await asyncio.to_thread(in_a_thread, task.prompt)
        pooled = pool.submit(chat.chat.completions.create, model="gpt-4o-mini", **asked(task.prompt))
        await asyncio.wrap_future(pooled)
        reply = await asyncio.to_thread(chat.responses.create, model="gpt-4o-mini", input=task.prompt)
        return str(reply.output_text)

    result = run_suite(suite(64), solve, home=home, run="a", workers=64)
    pool.shutdown()
    chat.close()
    claude.close()
    assert (result.successes, result.missing, result.crash) == (64, {}, None)
    assert (result.model_calls, len(server.calls)) == (192, 192)
    assert result.cost_usd is not None
    run = home.run("a")
    for entry in run.entries:
        trace = run.trace(entry)
        calls = [s for s in trace.spans if s.kind == "model"]
        assert {m.text for m in trace.messages} == {f"q{entry.head.task[1:]}"}
        assert len(calls) == 3


def test_calls_of_spans_of_the_agent_lie_below_them(home: Home, server: ModelServer) -> None:
    client = openai.OpenAI(max_retries=0)

    def solve(task: Task, episode: EpisodeHandle) -> str:
        with episode.record.span("plan"):
            reply = client.chat.completions.create(model="gpt-4o-mini", **asked(task.prompt))
        return str(reply.choices[0].message.content)

    run_suite(suite(1), solve, home=home, run="a")
    client.close()
    (entry,) = home.run("a").entries
    plan, call = sorted(home.run("a").spans(entry), key=lambda s: s.seq)
    assert (plan.name, call.kind, call.parent_id) == ("plan", "model", plan.span_id)


def test_a_call_that_names_no_episode_belongs_to_the_only_one_or_makes_cost_unknown(
    home: Home, server: ModelServer
) -> None:
    together = threading.Barrier(2, timeout=60)
    addresses: list[str] = []

    def bare(prompt: str) -> None:
        """A client that nothing here knows of: its own socket, no header."""
        import socket
        from urllib.parse import urlsplit

        parts = urlsplit(os.environ["OPENAI_BASE_URL"])
        addresses.append(parts.netloc)
        body = json.dumps({"model": "gpt-4o-mini", **asked(prompt)}).encode()
        with socket.create_connection((parts.hostname, parts.port)) as line:
            line.sendall(
                b"POST %s/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json"
                b"\r\ncontent-length: %d\r\n\r\n%s" % (parts.path.encode(), len(body), body)
            )
            while line.recv(65536):
                pass

    def alone(task: Task) -> str:
        bare(task.prompt)
        return task.prompt

    def in_company(task: Task) -> str:
        together.wait()
        bare(task.prompt)
        together.wait()
        return task.prompt

    one = run_suite(suite(2), alone, home=home, run="one", workers=1)
    assert (one.successes, one.model_calls, one.tokens) == (2, 2, 220)
    two = run_suite(suite(2), in_company, home=home, run="two", workers=2)
    assert (two.successes, two.model_calls, two.tokens, two.cost_usd) == (2, 0, None, None)
    assert server.address.rpartition("/")[2] not in addresses
    assert len(server.calls) == 4, "it was forwarded all the same"


def test_a_call_that_passes_by_the_gateway_makes_cost_unknown(home: Home, server: ModelServer) -> None:
    client = openai.OpenAI(max_retries=0)
    past = f"{server.address}/v1/chat/completions"

    def solve(task: Task) -> str:
        client.chat.completions.create(model="gpt-4o-mini", **asked(task.prompt))
        data = json.dumps({"model": "gpt-4o-mini", **asked(task.prompt)}).encode()
        with urllib.request.urlopen(urllib.request.Request(past, data, {"content-type": "application/json"})) as reply:
            reply.read()
        return task.prompt

    result = run_suite(suite(1), solve, home=home, run="a")
    assert (result.successes, result.model_calls, result.cost_usd, result.tokens) == (1, 1, None, None)
    assert result.at_least_tokens == 110
    capped = run_suite(suite(1), solve, home=home, run="b", caps=AllCaps(experiment=Caps(usd=1)))
    client.close()
    assert capped.stopped == "unmetered"
    assert "a call to 127.0.0.1 did not pass through the gateway" in (capped.why or "")
    for told in (*result.unseen, *capped.unseen):
        assert told.startswith("127.0.0.1 was called outside the gateway in 1 of 1 attempts")
        assert "OPENAI_BASE_URL=https://127.0.0.1/v1" in told
    assert (len(result.unseen), len(capped.unseen)) == (1, 1)


class Service:
    """An agent behind an address, which passes the header of its episode on in its model calls."""

    def __init__(self, base_url: str, passes_on: bool = True) -> None:
        client = openai.OpenAI(base_url=base_url, api_key="k", max_retries=0)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                task = json.loads(self.rfile.read(int(self.headers["content-length"])))
                name = "x-ethogram-episode"
                extra = {name: self.headers[name]} if passes_on and self.headers[name] else {}
                status = 200
                try:
                    for _ in range(2):
                        reply = client.chat.completions.create(
                            model="gpt-4o-mini", extra_headers=extra, **asked(task["prompt"])
                        )
                    said = json.dumps({"answer": reply.choices[0].message.content}).encode()
                except openai.APIStatusError as error:
                    status, said = error.status_code, str(error).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: Any) -> None:
                pass

        self._client = client
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/solve"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._client.close()


def test_a_service_under_the_users_gateway_is_captured_by_its_header(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    users = Gateway(upstreams_of(server.variables()))
    service = Service(f"{users.start()}/openai/v1")
    try:
        capture = {"capture": users.address, "home": home}
        result = run_suite(suite(8), service.address, run="a", caps=AllCaps(experiment=Caps(usd=1)), **capture)
        assert (result.successes, result.model_calls, len(server.calls)) == (8, 16, 16)
        assert result.tokens == 16 * 110
        run = home.run("a")
        for entry in run.entries:
            request, *calls = sorted(run.spans(entry), key=lambda s: s.seq)
            assert (request.kind, {s.parent_id for s in calls}) == ("agent", {request.span_id})
        capped = run_suite(suite(1), service.address, run="b", caps=AllCaps(episode=Caps(steps=1)), **capture)
        assert (capped.model_calls, capped.crashed) == (2, 0)
        assert {x.value for x in home.run("b").labels() if x.name == "stopped_by"} == {"cap.steps"}
        assert users.unattributed == 0
        without = run_suite(suite(1), service.address, run="c", home=home)
        assert (without.successes, without.cost_usd) == (1, None)
    finally:
        service.close()
        users.close()
    with pytest.raises(BadUsage, match="no gateway answers at"):
        run_suite(suite(1), service.address, run="d", **capture)


def test_a_service_that_does_not_pass_the_header_on_costs_an_unknown_amount(home: Home, server: ModelServer) -> None:
    users = Gateway(upstreams_of(server.variables()))
    service = Service(f"{users.start()}/openai/v1", passes_on=False)
    try:
        result = run_suite(suite(2), service.address, run="a", home=home, capture=users.address)
        assert (result.successes, result.cost_usd, result.model_calls) == (2, None, 0)
    finally:
        service.close()
        users.close()


def test_a_judge_that_calls_a_model_is_not_the_agent(home: Home, server: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "suite.py").write_text(
        "import openai\n"
        "from ethogram.plans import Check, Suite, Task\n"
        "client = openai.OpenAI(max_retries=0)\n"
        "def judge(answer, **_):\n"
        "    asked = [{'role': 'user', 'content': 'judge ' + str(answer)}]\n"
        "    reply = client.chat.completions.create(model='gpt-4o-mini', messages=asked)\n"
        "    return reply.choices[0].message.content == 'judge ' + str(answer)\n"
        "SUITE = Suite(name='judged', tasks=tuple(Task(id=f't{i}', prompt=f'q{i}', checks=(Check(kind='custom', "
        "settings={'function': 'suite.py:judge'}),)) for i in range(4)))\n"
    )
    client = openai.OpenAI(max_retries=0)

    def solve(task: Task) -> str:
        return str(client.chat.completions.create(model="gpt-4o-mini", **asked(task.prompt)).choices[0].message.content)

    result = run_suite(str(tmp_path / "suite.py"), solve, home=home, run="a", workers=4)
    client.close()
    assert len(server.calls) == 8
    assert (result.successes, result.model_calls, result.tokens, result.missing) == (4, 4, 440, {})
    assert not [e for e in home.run("a").entries if isinstance(e.head.outcome, Missing)]
