"""`ethogram gateway` as people use it: around a command, alone, under runs, with real clients and real signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from ethogram.store import Run, open_home
from ethogram.wire.gateway.call import ModelReply, ModelRequest, Usage
from ethogram.worlds.model_server import ModelServer, serve_model, text_reply

COMMAND = Path(sys.executable).with_name("ethogram")
KEY = "sk-proj-" + "9hTq2LmZ7vXc4RbN1wYk8sDf5gJp3aEu6oKi0tQxWzBnMrVy"
PRICE = (1000 * 0.15 + 100 * 0.6) / 1e6
"""Of one call of gpt-4o-mini as the server counts it."""


def echo(request: ModelRequest) -> ModelReply:
    said = request.messages[-1].text
    return text_reply(f"you said {said}", usage=Usage(input_tokens=1000, output_tokens=100))


@pytest.fixture
def server(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with serve_model(echo) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{running.address}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.address)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield running


class Started:
    """A gateway in a process of its own."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [COMMAND, "gateway", "--run", "svc", "--json", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        assert first, self.process.stderr.read() if self.process.stderr else ""
        self.told = json.loads(first)
        self._clients: list[openai.OpenAI] = []

    @property
    def base_url(self) -> str:
        return str(self.told["variables"]["OPENAI_BASE_URL"])

    def client(self, base_url: str = "", **more: Any) -> openai.OpenAI:
        """A client of this gateway, closed with it."""
        made = openai.OpenAI(base_url=base_url or self.base_url, max_retries=0, **more)
        self._clients.append(made)
        return made

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=30)


def stored() -> Run:
    return open_home(os.environ["ETHOGRAM_HOME"]).run("svc")


def say(client: openai.OpenAI, *words: str, **more: Any) -> str:
    messages = [{"role": ("user", "assistant")[n % 2], "content": w} for n, w in enumerate(words)]
    reply = client.chat.completions.create(model="gpt-4o-mini", messages=messages, **more)  # type: ignore[call-overload]
    return str(reply.choices[0].message.content)


def eventually(holds: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never held"
        time.sleep(0.05)


PROGRAM = """
import sys, openai, anthropic
print("hello from", sys.argv[1])
messages = [{"role": "user", "content": "one"}]
for _ in range(2):
    reply = openai.OpenAI().chat.completions.create(model="gpt-4o-mini", messages=messages).choices[0].message
    messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": "two"}]
claude = anthropic.Anthropic(api_key="k")
claude.messages.create(model="claude-haiku-4-5", max_tokens=9, messages=[{"role": "user", "content": "three"}])
sys.exit(7)
"""


def test_around_a_command_its_calls_are_recorded_and_its_exit_code_is_kept(server: ModelServer) -> None:
    Path("my_service.py").write_text(PROGRAM)
    words = [COMMAND, "gateway", "--run", "svc", "--json", "--", sys.executable, "my_service.py", "me"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (7, "hello from me\n")
    told = json.loads(done.stderr[done.stderr.index("{") :])
    assert (told["calls"], told["traces"], told["unread"], told["exit_code"]) == (3, 2, 0, 7)
    assert told["cost_usd"] > 2 * PRICE
    assert len(server.calls) == 3
    tasks = {e.head.task: (e.totals.model_calls, stored().trace(e).answer) for e in stored().entries}
    assert tasks == {"one": (2, "you said two"), "three": (1, "you said three")}
    found = [p for p in Path(os.environ["ETHOGRAM_HOME"]).rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
    assert found == []


def test_conversations_and_names_are_told_apart_and_seen_while_it_runs(
    server: ModelServer, document: Any, call: Any
) -> None:
    with Started() as gateway:
        client = gateway.client()
        for _ in range(2):  # two users who begin alike
            say(client, "hi")
        say(client, "hi", "you said hi", "and on")
        with pytest.raises(openai.APIStatusError):
            client.with_options(base_url=f"{gateway.told['address']}/nowhere/v1").models.list()
        say(client, "by header", extra_headers={"x-ethogram-episode": "case-1"})
        by_path = gateway.client(f"{gateway.told['address']}/case-1/openai/v1")
        say(by_path, "by path")
        eventually(lambda: sum(e.totals.model_calls for e in stored().entries) == 5)
        seen = sorted((e.head.task, e.totals.model_calls) for e in stored().entries)
        assert seen == [("case-1", 2), ("hi", 1), ("hi", 2)], "while it runs"
        assert document("cost", "svc")["cost_usd"] == pytest.approx(5 * PRICE)
        code, _ = gateway.end()
    assert code == 0
    assert call("verify").code == 0


def test_nothing_is_lost_by_signals_and_next_to_nothing_by_kill(server: ModelServer) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        with Started("--per", "process") as gateway:
            say(gateway.client(), "at the last moment")
            assert gateway.end(number)[0] == 0
    assert sum(e.totals.model_calls for e in stored().entries) == 2
    with Started("--per", "process") as gateway:
        client = gateway.client()
        for turn in range(5):
            say(client, f"turn {turn}")
        time.sleep(3.5)  # more than the window, on a busy machine too
        gateway.process.kill()
    assert sum(e.totals.model_calls for e in stored().entries) == 7, "all that is older than the window"
    with Started("--per", "process") as gateway:  # the run goes on
        say(gateway.client(), "again")
        gateway.end()
    assert sum(e.totals.model_calls for e in stored().entries) == 8


def test_the_cap_holds_under_100_agents_at_once_and_over_a_restart(server: ModelServer) -> None:
    async def agent(client: openai.AsyncOpenAI, number: int) -> int:
        made = 0
        for turn in range(10):
            asked: Any = [{"role": "user", "content": f"agent {number} turn {turn}"}]
            try:
                await client.chat.completions.create(model="gpt-4o-mini", messages=asked)
            except openai.PermissionDeniedError as error:
                kinds.add(error.type)
                break
            made += 1
        return made

    async def all_agents(base_url: str) -> int:
        async with openai.AsyncOpenAI(base_url=base_url, max_retries=0) as client:
            return sum(await asyncio.gather(*(agent(client, n) for n in range(100))))

    cap, kinds = 150 * PRICE, set[str | None]()
    most = (1000 * 0.15 + 16_384 * 0.6) / 1e6
    with Started("--max-usd", str(cap)) as gateway:
        made = asyncio.run(all_agents(gateway.base_url))
        gateway.end()
    spent = sum(e.totals.cost_usd or 0 for e in stored().entries)
    assert made == len(server.calls)
    assert kinds == {"ethogram_cap_reached"}
    assert spent == pytest.approx(made * PRICE)
    assert cap - most <= spent <= cap + 1e-9
    with Started("--max-usd", str(cap)) as gateway:
        with pytest.raises(openai.PermissionDeniedError, match="the experiment's cap"):
            say(gateway.client(), "more?")
        gateway.end()
    assert len(server.calls) == made


def test_two_gateways_on_one_run_share_its_cap(server: ModelServer) -> None:
    most = (1200 * 0.15 + 100 * 0.6) / 1e6

    def spend(client: openai.OpenAI) -> int:
        for made in range(30):
            try:
                say(client, f"call {made} " + "x" * 1000, max_tokens=100)
            except openai.PermissionDeniedError:
                return made
        return 30

    with Started("--max-usd", str(10 * most)) as one, Started("--max-usd", str(10 * most)) as other:
        with ThreadPoolExecutor() as pool:
            made = sum(pool.map(spend, [one.client(), other.client()]))
        one.end()
        other.end()
    assert made == len(server.calls)
    assert 9 <= made <= 10 * most / PRICE, f"{made} calls"


def test_the_kill_switch_and_the_caps_of_a_trace_refuse_calls(server: ModelServer, call: Any) -> None:
    with Started("--max-tokens", "17400") as gateway:
        client = gateway.client()
        say(client, "a")
        for words in (("a", "you said a", "b"), ("a", "you said a", "b")):  # also when it is tried again
            with pytest.raises(openai.PermissionDeniedError, match="the episode's cap of 17400 tokens"):
                say(client, *words)
        say(client, "another conversation")
        assert call("kill", "svc").code == 0

        def refused() -> bool:
            try:
                say(client, "c")
            except openai.PermissionDeniedError as error:
                return error.type == "ethogram_killed"
            return False

        eventually(refused, 5)
        _, err = gateway.end()
    assert "Traceback" not in err
    metas = [e.head.meta.get("refused") for e in stored().entries]
    assert "ethogram_cap_reached" in metas


def test_other_wire_formats_are_forwarded_and_counted_and_leave_cost_unknown(
    server: ModelServer, http_agent: Any, document: Any
) -> None:
    other = str(http_agent(lambda path, asked: {"path": path}))
    with Started("--upstream", f"gemini={other}", "--upstream", f"bedrock={other}/eu") as gateway:
        address = gateway.told["address"]
        assert gateway.told["variables"]["GOOGLE_GEMINI_BASE_URL"] == f"{address}/gemini"
        say(gateway.client(), "priced")
        azure = openai.AzureOpenAI(
            base_url=f"{address}/openai/openai/deployments/d", api_version="1", api_key="k", max_retries=0
        )
        say(azure, "the spelling of Azure is read")
        azure.close()
        assert post(f"{address}/gemini/v1beta/models/g:countTokens", {}) == (
            200,
            {"path": "/v1beta/models/g:countTokens"},
        )
        eventually(lambda: len(list(stored().entries)) == 2)
        assert document("cost", "svc")["cost_usd"] == pytest.approx(2 * PRICE), "counting tokens costs nothing"
        status, told = post(f"{address}/gemini/v1beta/models/g:generateContent?key={KEY}", {"contents": []})
        assert (status, told["path"]) == (200, f"/v1beta/models/g:generateContent?key={KEY}"), "the query is kept"
        assert post(f"{address}/case-7/bedrock/eu/model/m/invoke", {})[1] == {"path": "/eu/model/m/invoke"}
        eventually(lambda: len(list(stored().entries)) == 4)
        code, _ = gateway.end()
    assert code == 0
    unread = [e for e in stored().entries if "unseen" in str(e.head.meta.get("unmetered"))]
    assert sorted(e.head.task for e in unread) == ["calls that are not read", "case-7"]
    names = [s.name for e in unread for s in stored().spans(e)]
    assert sorted(names) == ["POST /eu/model/m/invoke", "POST /v1beta/models/g:generateContent"]


def test_a_cap_on_dollars_ends_calls_that_cannot_be_read(server: ModelServer, http_agent: Any, call: Any) -> None:
    other = str(http_agent(lambda path, asked: {"path": path}))
    with Started("--upstream", f"gemini={other}", "--max-usd", "9") as gateway:
        address = gateway.told["address"]
        assert post(f"{address}/gemini/models/g:generateContent", {})[0] == 200
        status, told = post(f"{address}/gemini/models/g:generateContent", {})
        assert (status, told["error"]["type"]) == (403, "ethogram_cap_reached")
        assert "in a form that is not read here" in told["error"]["message"]
        gateway.end()
    # what the run has spent is not known, so a further cap could not be kept
    said = call("gateway", "--run", "svc", "--max-usd", "9", "--", "true")
    assert (said.code, "is not known" in said.err) == (64, True)
    assert call("gateway", "--run", "svc", "--max-usd", "9", "--allow-unmetered", "--", "true").code == 0


SERVICE = """
import json, openai, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

client = openai.OpenAI(max_retries=0)

class Agent(BaseHTTPRequestHandler):
    def do_POST(self):
        task = json.loads(self.rfile.read(int(self.headers["content-length"])))
        name = "x-ethogram-episode"
        kept = {name: self.headers[name]} if self.headers[name] else {}
        asked = [{"role": "user", "content": task["prompt"]}]
        reply = client.chat.completions.create(model="gpt-4o-mini", messages=asked, extra_headers=kept)
        body = json.dumps({"answer": reply.choices[0].message.content}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Agent)
print(server.server_port, flush=True)
server.serve_forever()
"""


def test_a_service_under_it_is_joined_to_runs_by_a_header(server: ModelServer, document: Any) -> None:
    Path("service.py").write_text(SERVICE)
    Path("tasks.yaml").write_text(
        "".join(f"- {{id: t{n}, prompt: q{n}, checks: [{{equals: you said q{n}}}]}}\n" for n in range(3))
    )
    with Started() as gateway:
        env = {**os.environ, **gateway.told["variables"]}
        with subprocess.Popen([sys.executable, "service.py"], env=env, stdout=subprocess.PIPE, text=True) as service:
            assert service.stdout is not None
            url = f"http://127.0.0.1:{int(service.stdout.readline())}/"
            told = document(
                "run", "tasks.yaml", "--agent", url, "-k", "2", "--run", "a", "--max-usd", "1",
                "--capture", gateway.told["address"],
            )  # fmt: skip
            assert post(url, {"prompt": "from a user, no run"})[0] == 200
            service.kill()
        gateway.end()
    assert (told["successes"], told["model_calls"]) == (6, 6)
    assert told["cost_usd"] == pytest.approx(6 * PRICE)
    assert [(e.head.task, e.totals.model_calls) for e in stored().entries] == [("from a user, no run", 1)]


def test_calls_are_disturbed_by_seed(server: ModelServer) -> None:
    def failed(seed: int) -> list[bool]:
        found = []
        with Started(
            "--operator", "model_error", "--intensity", "0.5", "--seed", str(seed), "--per", "process"
        ) as gateway:
            client = gateway.client()
            for turn in range(12):
                try:
                    say(client, f"turn {turn}", extra_headers={"x-ethogram-episode": f"seed {seed}"})
                except openai.InternalServerError:
                    found.append(True)
                else:
                    found.append(False)
            gateway.end()
        return found

    one = failed(1)
    assert 0 < sum(one) < 12
    assert failed(2) != one


def post(address: str, document: Any) -> tuple[int, Any]:
    data = json.dumps(document).encode()
    request = urllib.request.Request(address, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--upstream", "nonsense"), "is not an address"),
        (("--upstream", "http://a/v1", "--upstream", "http://b/v1"), "two upstreams are given for 'openai'"),
        (("--per", "day"), "choose conversation or process"),
        (("--cap", "task.usd=1"), "belong to no task"),
        (("--operator", "null_content"), "changes files, which do not pass a gateway"),
        (("--operator", "no_such"), "no operator named 'no_such'"),
        (("--operator", "model_error", "--intensity", "3"), "makes no sense"),
        (("--port", "99999"), "99999 is not in the range 0<=x<=65535"),
        (("--", "no-such-program-here"), "there is no command 'no-such-program-here'"),
    ],
)
def test_bad_input_is_one_sentence(call: Any, env: dict[str, str], options: tuple[str, ...], told: str) -> None:
    said = call("gateway", *options, *(() if "--" in options else ("--", "true")))
    assert said.code == 64
    assert told in said.err
    assert "Traceback" not in said.err
    assert open_home(os.environ["ETHOGRAM_HOME"]).names() == []


def test_another_kind_of_run_is_refused(call: Any, env: dict[str, str]) -> None:
    open_home(os.environ["ETHOGRAM_HOME"]).create("svc", "import")
    said = call("gateway", "--run", "svc", "--", "true")
    assert (said.code, "is a import run" in said.err) == (64, True)
