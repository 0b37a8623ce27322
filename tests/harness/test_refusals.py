"""What a provider refuses is missing and named; a run that it goes on refusing stops, and a resume makes it again."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ethogram.harness.options import RunOptions
from ethogram.harness.suites import resume_run, run, start_run
from ethogram.plans import Check, Suite, Task
from ethogram.store import Home
from ethogram.traces import REFUSED
from ethogram.wire.gateway import breaker as breakers

Answer = tuple[int, dict[str, Any]]
REFUSED_KEY: dict[str, Answer] = {
    "openai": (401, {"error": {"message": "Incorrect API key provided: sk-x", "code": "invalid_api_key"}}),
    "anthropic": (401, {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}),
    "gemini": (
        400,
        {"error": {"code": 400, "message": "API key not valid. Please pass one.", "status": "INVALID_ARGUMENT"}},
    ),
    "bedrock": (403, {"__type": "UnrecognizedClientException", "message": "The security token … is invalid."}),
    "azure": (401, {"error": {"code": "401", "message": "Access denied due to invalid subscription key or …"}}),
    "compatible": (401, {"error": "Unauthorized"}),
}
PATHS = {
    "openai": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/gemini-2.5-pro:generateContent",
    "bedrock": "/model/anthropic.claude-v2/converse",
    "azure": "/openai/deployments/x/chat/completions?api-version=1",
    "compatible": "/v1/chat/completions",
}
LIMITED = (429, {"error": {"message": "Rate limit reached for m", "type": "tokens", "code": "rate_limit_exceeded"}})
FAILED = (500, {"error": {"message": "The server had an error", "type": "server_error"}})
DONE = (200, {"model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}}]})


class Provider(ThreadingHTTPServer):
    """Answers as `answer` says, by how many calls came before."""

    daemon_threads = True
    request_queue_size = 100

    def __init__(self, answer: Callable[[int], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.calls, self.lock = answer, 0, threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Provider
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"] or 0))
        with self.server.lock:
            before, self.server.calls = self.server.calls, self.server.calls + 1
        status, body = self.server.answer(before)
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def provider(answer: Callable[[int], Answer]) -> Iterator[Provider]:
    server = Provider(answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=30)


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of these tests waits long."""
    monkeypatch.setattr("ethogram.harness.executor.BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(breakers, "FIRST_REST", 0.05)
    monkeypatch.setattr(breakers, "LONGEST_REST", 0.1)


AGENT = """
import json, os, sys, urllib.error, urllib.request

def ask(words="hello"):
    base = os.environ["OPENAI_BASE_URL"].removesuffix("/v1")
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": words}]}).encode()
    request = urllib.request.Request(base + "PATH", data=body, headers={"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)["choices"][0]["message"]["content"]
    except urllib.error.HTTPError as error:
        error.close()
        raise RuntimeError(f"HTTP {error.code}") from None

def swallows(task):
    try:
        return ask()
    except RuntimeError:
        return "I could not find out"

def raises(task):
    return ask()

def careless(task):
    try:
        return ask()
    except RuntimeError as error:
        return {"error": str(error)}["choices"]

def twice(task):
    first = ask("one")
    try:
        return ask("two")
    except RuntimeError:
        return first

if __name__ == "__main__":
    print(swallows(None), end="")
"""


def agent(folder: Path, kind: str, dialect: str = "openai") -> str:
    path = folder / f"agent_{dialect}.py"
    path.write_text(AGENT.replace("PATH", PATHS[dialect]))
    return f"cmd: {sys.executable} {path}" if kind == "command" else f"{path}:{kind}"


def suite(tasks: int = 1) -> Suite:
    check = (Check(kind="equals"),)
    return Suite(
        name="s", tasks=tuple(Task(id=f"t{i}", prompt="q", expected="yes", checks=check) for i in range(tasks))
    )


@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("kind", ["swallows", "raises", "command"])
def test_a_refused_key_is_missing_whatever_the_agent_does(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: str, kind: str
) -> None:
    with provider(lambda before: REFUSED_KEY[dialect]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.address}/v1")
        result = run(suite(2), agent(tmp_path, kind, dialect), home=home, run="r")
    assert (result.scored, result.crashed, result.missing) == (0, 0, {"infrastructure.provider.key": 2})
    assert server.calls == 2, "a key is not tried again"


@pytest.mark.parametrize("kind", ["swallows", "careless"])
def test_what_the_agent_asked_wrongly_is_scored(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    wrong = {"error": {"message": "maximum context length is 9", "code": "context_length_exceeded"}}
    with provider(lambda before: (400, wrong)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.address}/v1")
        result = run(suite(), agent(tmp_path, kind), home=home, run="r")
    assert (result.scored, result.successes) == (1, 0)


def test_nobody_there(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    result = run(suite(), agent(tmp_path, "swallows"), home=home, run="r", retries=1)
    assert result.missing == {"infrastructure.provider.unreached": 1}
    assert "openai at 127.0.0.1:9 did not answer" in result.missing_details["infrastructure.provider.unreached"]


def test_an_attempt_that_was_answered_in_part_keeps_its_score_and_says_so(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(lambda before: REFUSED_KEY["openai"] if before else DONE) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.address}/v1")
        result = run(suite(), agent(tmp_path, "twice"), home=home, run="r")
    (entry,) = home.run("r").entries
    assert (result.scored, result.successes) == (1, 1)
    assert entry.head.meta[REFUSED] == "infrastructure.provider.key"


def test_a_refusal_that_was_made_good_is_no_fact(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "patient.py"
    patient = "def patient(task):\n    answer = swallows(task)\n    return 'yes' if answer == 'yes' else raises(task)\n"
    path.write_text(AGENT.replace("PATH", PATHS["openai"]) + patient)
    with provider(lambda before: DONE if before else LIMITED) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.address}/v1")
        result = run(suite(), f"{path}:patient", home=home, run="r")
    (entry,) = home.run("r").entries
    assert (result.successes, server.calls, REFUSED in entry.head.meta) == (1, 2, False)


@pytest.mark.parametrize("kind", ["swallows", "command"])
def test_a_dozen_refusals_stop_the_run_and_a_resume_makes_them_again(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    refusing = [True]
    secret = {"error": {"message": "Incorrect API key provided: sk-proj-Zq8Rk3Vw7Lx2Tn9Yb4Hc6Jd1Mf5Pg0Sa", "type": "x"}}
    with provider(lambda before: (401, secret) if refusing[0] else DONE) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.address}/v1")
        spec = agent(tmp_path, kind)
        result = run(suite(40), spec, home=home, run="r", workers=4)
        assert (result.stopped, result.scored) == ("provider", 0)
        assert 12 <= server.calls <= 15
        assert result.not_run >= 20
        assert "HTTP 401" in (result.why or "")
        assert "Zq8Rk3" not in (result.why or "") + "".join(result.missing_details.values())
        refusing[0], before = False, server.calls
        more = resume_run("r", home=home, suite=suite(40), agent=spec)
    assert (more.stopped, more.scored, more.successes, more.missing) == (None, 40, 40, {})
    assert server.calls == before + 40


def test_the_breaker_is_a_setting(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with provider(lambda before: REFUSED_KEY["openai"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.address}/v1")
        spec = agent(tmp_path, "swallows")
        off = start_run(suite(20), spec, RunOptions(name="off", breaker=0, workers=2), home=home)
        assert (off.stopped, server.calls) == (None, 20)
        soon = start_run(suite(20), spec, RunOptions(name="soon", breaker=3, workers=1), home=home)
    assert (soon.stopped, server.calls) == ("provider", 23)


def test_one_burst_over_many_workers_ends_nothing(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with provider(lambda before: LIMITED if before < 16 else DONE) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.address}/v1")
        result = run(suite(32), agent(tmp_path, "raises"), home=home, run="r", workers=16, retries=20)
    assert (result.stopped, result.scored) == (None, 32)


@pytest.mark.parametrize("answer", [LIMITED, FAILED], ids=["429", "500"])
def test_an_overload_that_lasts_stops_the_run_once_retries_are_spent(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    monkeypatch.setattr(breakers, "LASTING_SECONDS", 0.3)
    with provider(lambda before: answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.address}/v1")
        result = run(suite(60), agent(tmp_path, "swallows"), home=home, run="r", workers=4)
    assert result.stopped == "provider"
    assert result.scored == 0
    assert result.not_run > 0
    assert server.calls < 36, "while the provider rests, one call at a time tries it"


KEY = "sk-proj-Zq8Vh2LmXw5RtYb7KdNs4PfGc9JaEu3TiOx6WvQr1Zk"


@pytest.mark.parametrize("kind", ["swallows", "raises"])
def test_a_key_in_the_words_of_a_provider_is_redacted_wherever_they_are_cut(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Limits of length are 300 and 500 characters; the key stands across each of them."""
    before = [260, 275, 290, 440, 455, 470, 485]
    bodies = [
        {"error": {"message": f"{'word ' * (n // 5)}{KEY} is not a key", "code": "invalid_api_key"}} for n in before
    ]
    with provider(lambda calls: (401, bodies[calls % len(bodies)])) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.address}/v1")
        result = run(suite(len(before)), agent(tmp_path, kind), home=home, run="r", workers=1)
    stored = home.run("r")
    words = [result.to_json(), *(str(stored.head(entry).outcome) for entry in stored.entries)]
    words += [stored.trace(e).text(s.error) for e in stored.entries for s in stored.trace(e).spans if s.error]
    assert sum("HTTP 401" in said for said in words) >= 2 * len(before)
    parts = [KEY[at : at + 10] for at in range(len(KEY) - 9)]
    assert [said for said in words if any(part in said for part in parts)] == []
