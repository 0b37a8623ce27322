"""Claims: the viewer sends less than 300 kB before the first meaningful paint, for a run of 1,000 episodes and for a trace of
300,000 spans, and paints sooner than `inspect view` and Phoenix do for equal logs; the page of that trace has fewer than
1,500 nodes and scrolls with 50 frames a second; the API answers 32 readers while an import runs.

    python bench/viewer.py [--quick]

All viewers run as processes of their own and are opened by the same browser. Our run is exported as an Inspect log and as
OTLP, so all show the same episodes; of a trace Inspect gets 30,000 spans (of 300,000 its log alone is hundreds of megabytes)
and Phoenix 2,000 (its page took 20 seconds for 500 of them), each beside ours of the same length, and ours is opened once
more with all. Meaningful is: for a run, its list of attempts, samples or traces; for a trace, its first step, event or span.
Phoenix is left out, with a sentence, where it is not installed (bench/_phoenix.py says how to name it).
Times are wall times, the best of three by turns: only their ratio says something.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, new_home, plain_writer, synthetic_head, synthetic_spans, table, verdict
from _phoenix import LEFT_OUT, PHOENIX, phoenix_command, project, send, wait_for_spans
from growth import words

from ethogram.questions.home.exports import export
from ethogram.questions.logs.imports import import_logs

EPISODES = 200 if QUICK else 1_000
SPANS = 30_000 if QUICK else 300_000
THEIR_SPANS = 5_000 if QUICK else 30_000
PHOENIX_SPANS = 500 if QUICK else 2_000
"""What the other viewers get."""
READERS, SECONDS = 32, 6.0
ROUNDS = 3
MOST_BYTES, MOST_NODES, LEAST_FRAMES = 300_000, 1_500, 50
PATIENCE_MS = 180_000
IMPORTING = """
import sys
from ethogram.questions.logs.imports import import_logs
for number in range(99):
    import_logs(sys.argv[1], run=f"more{number}", home=sys.argv[2])
"""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def tau_log(path: Path, episodes: int) -> None:
    rng = random.Random(3)
    rows = []
    for number in range(episodes):
        good = rng.random() < 0.6
        talk: list[dict[str, Any]] = [
            {"role": "system", "content": words(rng) * 5},
            {"role": "user", "content": words(rng)},
        ]
        for i in range(6):
            call = {"id": f"c{i}", "type": "function", "function": {"name": "look_up", "arguments": '{"key": "a"}'}}
            talk.append({"role": "assistant", "content": None, "tool_calls": [call]})
            said = words(rng) if good or i < 5 else "Error: no such key"
            talk.append({"role": "tool", "tool_call_id": f"c{i}", "name": "look_up", "content": said})
        talk.append({"role": "assistant", "content": words(rng)})
        rows.append({"task_id": number // 4, "trial": number % 4, "reward": float(good), "info": {}, "traj": talk})
    path.write_text(json.dumps(rows))


def large_trace(folder: Path, spans: int) -> str:
    head = synthetic_head(1)
    with plain_writer(new_home(folder), "large") as writer:
        sink = writer.trace(head.trace_id)
        for span in synthetic_spans(1, spans):
            sink.span(span)
        sink.finish(head, ())
    return str(head.trace_id)


@contextlib.contextmanager
def serving(command: list[str], port: int, settings: dict[str, str] | None = None) -> Iterator[str]:
    """A server as a process of its own, once it answers."""
    # programs are compiled once, as they are where people use them
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | (settings or {})
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}/", timeout=2).read()
                break
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(20)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ours(home: Path) -> tuple[list[str], int]:
    port = free_port()
    code = "from ethogram.cli.main import main; main()"
    return [sys.executable, "-c", code, "view", "--no-open", "--port", str(port), "--home", str(home)], port


def theirs(folder: Path) -> tuple[list[str], int]:
    port = free_port()
    inspect = str(Path(sys.executable).parent / "inspect")
    return [inspect, "view", "start", "--log-dir", str(folder), "--port", str(port)], port


class Painted(NamedTuple):
    """Seconds and bytes until something can be seen, infinite where it never was; the elements of the page then."""

    seconds: float
    sent: int
    nodes: int


def paint(browser: Any, address: str, seen: str) -> tuple[Painted, Any]:
    """What it takes until something can be seen, and the page."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    sent = [0]
    tools = page.context.new_cdp_session(page)
    tools.send("Network.enable")
    tools.on("Network.dataReceived", lambda event: sent.__setitem__(0, sent[0] + int(event["dataLength"])))
    started = time.perf_counter()
    try:
        page.goto(address, wait_until="commit", timeout=PATIENCE_MS)
        page.wait_for_selector(seen, timeout=PATIENCE_MS)
    except Exception as error:
        print(f"  {address}: {str(error).splitlines()[0]}")
        return Painted(float("inf"), sent[0], 0), page
    took = time.perf_counter() - started
    return Painted(took, sent[0], int(page.evaluate("document.querySelectorAll('*').length"))), page


def painted(browser: Any, address: str, seen: str) -> Painted:
    """The same; the page is closed."""
    found, page = paint(browser, address, seen)
    page.close()
    return found


def beside_phoenix(browser: Any, folder: Path, home: Path) -> list[tuple[str, int, Painted, Painted]]:
    """Ours and Phoenix on the same run and the same trace: what, how large, ours, theirs. Both servers are warm."""
    trace = large_trace(folder / "short", PHOENIX_SPANS)
    logs = []
    for run, place in (("many", home), ("large", folder / "short")):
        export(run, "otlp", out=folder / f"{run}.otlp.jsonl", home=str(place))
        logs.append(folder / f"{run}.otlp.jsonl")
    port = free_port()
    command, settings = phoenix_command(folder / "phoenix", port, free_port())
    with contextlib.ExitStack() as servers:
        theirs_at = servers.enter_context(serving(command, port, settings))
        runs_at, trace_at = (servers.enter_context(serving(*ours(place))) for place in (home, folder / "short"))
        send(theirs_at, logs[0])
        name = send(theirs_at, logs[1])
        spans = sum(line.count('"spanId"') for log in logs for line in log.read_text().splitlines())
        print(f"Phoenix has {wait_for_spans(theirs_at, spans):,} of {spans:,} spans")
        pages = (
            ("run", EPISODES, f"{runs_at}/#/run?run=many", ".matrix .dots a", "/traces", "tbody tr"),
            (
                "trace",
                PHOENIX_SPANS,
                f"{trace_at}/#/trace?run=large&trace={trace}",
                ".card .step",
                f"/traces/{name}",
                "text=Attributes",
            ),
        )
        found = []
        for what, size, own, seen, path, their_seen in pages:
            pairs = [
                (painted(browser, own, seen), painted(browser, project(theirs_at) + path, their_seen))
                for _ in range(ROUNDS)
            ]
            found.append((what, size, min(mine for mine, _ in pairs), min(other for _, other in pairs)))
    return found


def frames(page: Any) -> tuple[float, float]:
    """Frames a second while a large trace is scrolled for three seconds, and what one costs the page in milliseconds of
    processor time, which a busy machine leaves alone."""
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    used = [_task_seconds(tools)]
    page.locator(".cards").hover()
    counting = """() => new Promise(done => {
        const list = document.querySelector('.cards'); let n = 0; const t = performance.now();
        const next = now => { n += 1; list.scrollTop += 60;
            now - t < 3000 ? requestAnimationFrame(next) : done(1000 * n / (now - t)); };
        requestAnimationFrame(next); })"""
    rate = float(page.evaluate(counting))
    used.append(_task_seconds(tools))
    return rate, 1e3 * (used[1] - used[0]) / (3 * rate)


def _task_seconds(tools: Any) -> float:
    metrics = tools.send("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


def p95(address: str, run: str, traces: list[str], busy: list[str]) -> tuple[int, float, float]:
    """Requests answered, and their median and 95th percentile in seconds, while a process imports."""
    taken: list[float] = []
    stop = time.monotonic() + SECONDS

    def read(seed: int) -> None:
        rng = random.Random(seed)
        while time.monotonic() < stop:
            trace = rng.choice(traces)
            path = rng.choice(
                [
                    "/api/runs",
                    f"/api/run?run={run}",
                    f"/api/run/attempts?run={run}",
                    f"/api/trace?run={run}&trace={trace}",
                    f"/api/trace/outline?run={run}&trace={trace}",
                    f"/api/trace/cards?run={run}&trace={trace}",
                ]
            )
            started = time.perf_counter()
            urllib.request.urlopen(address + path, timeout=60).read()
            taken.append(time.perf_counter() - started)

    process = subprocess.Popen(busy, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    readers = [threading.Thread(target=read, args=(i,)) for i in range(READERS)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    process.terminate()
    process.wait(20)
    taken.sort()
    return len(taken), taken[len(taken) // 2], taken[int(0.95 * len(taken))]


def main() -> bool:
    from playwright.sync_api import sync_playwright

    rows, held = [], []
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder = Path(name)
        (folder / "logs").mkdir()
        (folder / "large").mkdir()
        tau_log(folder / "run.json", EPISODES)
        home = folder / "home"
        import_logs(folder / "run.json", run="many", home=str(home), redact="none")
        export("many", "inspect", out=folder / "logs" / "many.eval", home=str(home))
        trace = large_trace(home, SPANS)
        large_trace(folder / "smaller", THEIR_SPANS)
        export("large", "inspect", out=folder / "large" / "large.eval", home=str(folder / "smaller"))
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        mine: dict[str, list[Painted]] = {"run": [], "trace": []}
        other: dict[str, list[Painted]] = {"run": [], "trace": []}
        for _ in range(ROUNDS):  # by turns, each time a new server: the machine is as busy for one as for the other
            with serving(*ours(home)) as address:
                mine["run"].append(painted(browser, f"{address}/#/run?run=many", ".matrix .dots a"))
            with serving(*theirs(folder / "logs")) as address:
                other["run"].append(painted(browser, f"{address}/#/logs/many.eval", f"text={EPISODES} rows"))
            with serving(*ours(folder / "smaller")) as address:
                place = f"{address}/#/trace?run=large&trace={trace}"
                mine["trace"].append(painted(browser, place, ".card .step"))
            with serving(*theirs(folder / "large")) as address:
                other["trace"].append(painted(browser, f"{address}/#/logs/large.eval", "text=/turn 1\\//"))
        compared = [
            ("inspect view", what, size, min(mine[what]), min(other[what]))
            for what, size in (("run", EPISODES), ("trace", THEIR_SPANS))
        ]
        if PHOENIX is None:
            print(LEFT_OUT)
        else:
            compared += [("Phoenix", *row) for row in beside_phoenix(browser, folder, home)]
        with serving(*ours(home)) as address:
            large, page = paint(browser, f"{address}/#/trace?run=large&trace={trace}", ".card .step")
            rate, spent = frames(page)
            listed = json.loads(
                urllib.request.urlopen(f"{address}/api/run/attempts?run=many&count=50", timeout=60).read()
            )
            traces = [cell["trace"] for row in listed["rows"] for cell in row["cells"]]
            busy = [sys.executable, "-c", IMPORTING, str(folder / "run.json"), str(home)]
            answered, median, slow = p95(address, "many", traces, busy)
        browser.close()
    for viewer, what, size, own, their in compared:
        figures = [own.seconds, own.sent / 1e3, own.nodes, their.seconds, their.sent / 1e3, their.nodes]
        rows.append([viewer, what, size, *figures])
        held.append((f"{what}: {own.sent / 1e3:.0f} kB before the first paint", own.sent < MOST_BYTES))
        said = f"{what}: painted after {own.seconds:.2f} s, {viewer} {their.seconds:.2f} s"
        held.append((said, own.seconds < their.seconds))
    rows.append(["", "large trace", SPANS, large.seconds, large.sent / 1e3, large.nodes, None, None, None])
    held.append(
        (f"a trace of {SPANS:,} spans: {large.sent / 1e3:.0f} kB before the first paint", large.sent < MOST_BYTES)
    )
    names = ["beside", "what", "episodes or spans", "s", "kB", "nodes", "their s", "their kB", "their nodes"]
    table("viewer", names, rows)
    print(
        f"{answered:,} requests of {READERS} readers during an import: median {1e3 * median:.0f} ms, p95 {1e3 * slow:.0f} ms"
    )
    held.append((f"a trace of {SPANS:,} spans: {large.nodes:,} nodes", large.nodes < MOST_NODES))
    held.append((f"scrolling it: {rate:.0f} frames a second", rate >= LEAST_FRAMES))
    held.append((f"a frame takes {spent:.1f} ms of the page's thread", spent < 1e3 / LEAST_FRAMES))
    return all([verdict(claim, ok) for claim, ok in held])


if __name__ == "__main__":
    sys.exit(0 if CHROMIUM is None or main() else 1)
