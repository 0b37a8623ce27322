"""What many tests share: a home of one's own, a small trace builder, and an S3 endpoint on this machine."""

from __future__ import annotations

import gc
import importlib.util
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.plugins import new_problems
from ethogram.store import Home, Keyring, Policy, Redactor, RunWriter
from ethogram.store.files import LocalFiles
from ethogram.traces import Message, Origin, Outcome, Scored, Text, ToolCall, ToolResult, TraceId

# hundreds of processes are started here; with compiled modules each of them takes half as long to start
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# every process that imports numpy or scipy would start threads that spin for a tenth of a second on each core
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# the same examples every time, so that a failure is of the change and not of the draw; the long form looks for new ones
# how long an example takes says more of the machine's load than of the test
calm = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# without the phase that explains a failure, which traces every line of what is tested
phases = [phase for phase in Phase if phase is not Phase.explain]
settings.register_profile("repeatable", derandomize=True, max_examples=50, phases=phases, **calm)
settings.register_profile("long", **calm)
settings.load_profile("long" if os.environ.get("ETHOGRAM_LONG") else "repeatable")

FIRST = ("docs", "validity")
"""Folders with the longest tests: begun first, so that no worker is left with one of them while the others wait."""


TESTS = Path(__file__).parent
MEMORY = 8 << 30
"""Bytes that must be free in memory for temporary files to go there."""


def pytest_configure(config: pytest.Config) -> None:
    """Temporary folders of this session in one place; Ctrl-C as on a terminal."""
    # pytest goes on keeping its own beside it, for a look at what failed
    root = os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _temporary_root())
    tempfile.tempdir = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="eth-", dir=root)
    _trust_one_authority(Path(tempfile.tempdir))
    config.add_cleanup(_remove_temporary)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # so it is for a job in the background, and for its children
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _temporary_root() -> str:
    """In memory where there is plenty of it: the store syncs what it publishes, and a disk takes half of the time."""
    memory, facts = Path("/dev/shm"), Path("/proc/meminfo")
    if "TMPDIR" in os.environ or not (os.access(memory, os.W_OK) and facts.is_file()):
        return tempfile.gettempdir()
    available = next(line for line in facts.read_text().splitlines() if line.startswith("MemAvailable:"))
    free = min(1024 * int(available.split()[1]), shutil.disk_usage(memory).free)
    return str(memory) if free > MEMORY else tempfile.gettempdir()


def _trust_one_authority(folder: Path) -> None:
    """A client of openai, httpx or anthropic reads all authorities when it is made, which is 70 ms of CPU for each of
    thousands of clients that speak to this machine without TLS."""
    import certifi

    first, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----")
    authority = folder / "authority.pem"
    authority.write_text(f"{first}{end}\n", encoding="utf-8")
    os.environ["SSL_CERT_FILE"] = str(authority)


def _remove_temporary() -> None:
    """Remove the temporary folders of this session."""
    # multiprocessing removes a folder of its own there when the process ends, and fails aloud if it is gone by then
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None:
        util._run_finalizers()
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest tests first, each for itself; all others file by file, so that what a file shares is made once."""
    items.sort(key=lambda item: item.path.parent.name not in FIRST)
    for item in items if hasattr(config, "workerinput") else ():
        if item.path.parent.name not in FIRST and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path.relative_to(TESTS))))


def pytest_collection_finish() -> None:
    """What the test files imported stays: garbage is looked for among newer objects only, in a tenth of the time.

    And it is looked for seldom: the tests of the architecture hold millions of nodes of syntax trees.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)


_sockets_made = 0


def _count_sockets(event: str, arguments: tuple[Any, ...]) -> None:
    global _sockets_made
    if event == "socket.__new__":
        _sockets_made += 1


sys.addaudithook(_count_sockets)


@pytest.fixture(scope="module", autouse=True)
def sockets_are_closed() -> Iterator[None]:
    """A socket that a module leaves open is found at its end, and not in a test of another one."""
    before = _sockets_made
    yield
    if _sockets_made > before:
        gc.collect()
        gc.freeze()  # what is left is not looked at again


START = 1_750_000_000_000_000_000
SUCCESS = Scored(1.0, "test")


@pytest.fixture
def keys(tmp_path: Path) -> Keyring:
    """A key file of one's own, and an environment without keys."""
    return Keyring(tmp_path / "keys" / "keys.json", {})


@pytest.fixture
def home(tmp_path: Path, keys: Keyring) -> Home:
    """An empty home in a folder."""
    return Home(LocalFiles(tmp_path / "home"), keys)


Reply = Callable[[str, dict[str, Any]], dict[str, Any]]


@pytest.fixture
def http_agent() -> Iterator[Callable[[Reply], str]]:
    """Agents behind an address of this machine: `http_agent(lambda path, task: {"answer": "42"})` gives the address."""
    servers: list[tuple[ThreadingHTTPServer, threading.Thread]] = []

    def serve(reply: Reply) -> str:
        class Endpoint(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # connections are kept alive

            def do_POST(self) -> None:
                task = json.loads(self.rfile.read(int(self.headers["content-length"])))
                body = json.dumps(reply(self.path, task)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}"

    yield serve
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join(timeout=30)


def write_package(site: Path, name: str, code: str, entry_points: str) -> None:
    """A distribution as `pip install` leaves it: a module, and the entry points that it declares."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (site / f"{name}.py").write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str, str], None]]:
    """Install a package for one test, here and in every process that it starts: name, code, entry points."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    before = set(sys.modules)
    new_problems()
    yield lambda name, code, entry_points: write_package(site, name, code, entry_points)
    new_problems()
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(site)):
            del sys.modules[name]


@pytest.fixture
def fork_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A suite, an agent and models of `questions/fork/fork_world.py`, whose chance of success is known."""
    spec = importlib.util.spec_from_file_location(
        "fork_world", Path(__file__).parent / "questions" / "fork" / "fork_world.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.ForkWorld(tmp_path / "work", monkeypatch) as world:
        yield world


@pytest.fixture
def plain() -> Redactor:
    """A redactor that takes nothing out."""
    return Redactor(b"a key for tests", Policy(kinds=()))


def build_trace(
    writer: RunWriter,
    key: str,
    *,
    version: str = "1",
    steps: int = 3,
    task: str = "task",
    attempt: int | None = None,
    words: str | None = None,
    outcome: Outcome = SUCCESS,
    supersedes: TraceId | None = None,
    label: str | None = None,
    meta: dict[str, Any] | None = None,
    lane: str = "",
    timed: bool = True,
    before_close: Callable[[], None] | None = None,
) -> TraceId:
    """A small chat with tools, the way a reader writes it; `version` is another trace of the same episode.

    `words` go into every payload; the system prompt is the same in all traces.
    """
    said = words or f"words of {key}"
    intake = Intake(lambda t: writer.trace(t, supersedes), Origin("test", key, version), SourceReport(source=key))
    with intake.trace(key) as trace:
        trace.task, trace.attempt, trace.outcome, trace.agent = task, attempt, outcome, "agent"
        trace.answer = f"the answer of {said}"
        trace.meta = meta or {}
        talk = [Message("system", (Text("You are an agent, the same in every trace of this suite of tests."),))]
        talk.append(Message("user", (Text(f"please do it, {said}"),)))
        root = trace.add(Draft(kind="agent", name="run"))
        for step in range(steps):
            start = START + step * 1000
            times: dict[str, Any] = {"start_ns": start, "end_ns": start + 500} if timed else {}
            arguments = f'{{"step": {step}, "why": "{said}, and so that this is longer than what stays inline"}}'
            result = f"result {step}: {said} " + "and a tail that makes the result long enough to stand apart " * 2
            call = ToolCall("search", arguments, f"call-{step}")
            reply = Message("assistant", (Text(f"step {step} of {said}"), call))
            trace.add(
                Draft(
                    kind="model",
                    name="chat",
                    parent_id=root,
                    lane=lane,
                    model="model-a",
                    params={"temperature": 0.5},
                    input=talk,
                    output=(reply,),
                    input_tokens=10 + step,
                    output_tokens=5,
                    cost_usd=0.001 * (step + 1),
                    stop_reason="tool_calls",
                    attributes={"step": step, "note": said},
                    **times,
                )
            )
            back = Message("tool", (ToolResult(result, "search", f"call-{step}"),))
            trace.add(
                Draft(
                    kind="tool",
                    name="search",
                    tool="search",
                    parent_id=root,
                    call_id=f"call-{step}",
                    arguments=arguments,
                    result=result,
                    output=(back,),
                    error=f"it failed: {said}" if step % 3 == 2 else None,
                    **{k: v + 600 for k, v in times.items()},
                )
            )
            talk = [*talk, reply, back]
        if label is not None:
            trace.label("quality", 0.5, by="a judge", why=label)
        if before_close is not None:
            before_close()
    return trace.trace_id


@pytest.fixture
def write_trace() -> Callable[..., TraceId]:
    """`write_trace(writer, key, steps=3, words=…, outcome=…)`: see `build_trace`."""
    return build_trace


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[int]:
    """The port of a real S3 server on this machine."""
    server = pytest.importorskip("moto.server", reason="moto[server,s3] is not installed, so there is no S3 to talk to")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    _, port = running.get_host_and_port()
    urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/lake", method="PUT"), timeout=30).close()
    yield port
    running.stop()


@pytest.fixture
def s3_address(s3_endpoint: int, request: pytest.FixtureRequest) -> str:
    """An address in the S3 server that no other test uses."""
    prefix = f"{request.function.__name__}-{time.time_ns()}"
    options = f"endpoint_override=127.0.0.1%3A{s3_endpoint}&scheme=http&region=us-east-1"
    return f"s3://KEY-OF-TEST:SECRET-OF-TEST@lake/{prefix}?{options}"


@pytest.fixture(scope="session")
def judged_run() -> Any:
    """The class `JudgedRun`: stored runs with a judge of known sensitivity and specificity."""
    spec = importlib.util.spec_from_file_location("judged", Path(__file__).with_name("judged.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.JudgedRun
