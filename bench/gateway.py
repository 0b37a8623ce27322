"""What the gateway adds to a call, beside a bare pass-through on the same server library.

    python bench/gateway.py [--quick]

Upstream, bare proxies, gateway and clients are processes of their own on this machine. The upstream takes a tenth of a
second for a reply, as the fastest models do. All sides get the same calls, 8 at once, in turns of a few each, so that
other load of the machine meets them alike; which side begins changes from turn to turn. The gateway records everything
it sees into a run. Beside the added latency stand CPU seconds per call, which a busy machine changes less.

A 99th percentile is made of the few slowest calls, and where all these processes share two cores those are the ones
that the machine let wait. So the calls of all turns are one sample per side, differences have an interval (90 %, turns
drawn again with replacement), and the same bare proxy runs twice: the row `floor` is what the second one "adds" to the
first. What is smaller than its interval cannot be measured here. A turn in which the host took a processor away from
this machine (steal time of /proc/stat) is made again, whichever side it was of; how many were is printed. The calls
are sent by the gateway's own HTTP client, prepared beforehand: a general client takes more of the two cores than the
proxies do, and its waiting would be measured as theirs.

The bare proxy reads nothing and calls the upstream with `httpx`, as most proxies in Python do. The gateway has a client
of its own, which takes less; `lean` is a bare proxy with that client, so that `added to lean` is what reading, recording
and control cost; it is shown and not part of the claim.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from _common import QUICK, table, verdict

from ethogram.wire.gateway.upstream_http import HttpPool, UpstreamFailed, UpstreamRequest

WORDS = 40
AT_ONCE = 8
STREAMS = 500
TURNS, PER_TURN = (60 if QUICK else 240), 16
"""Turns of each side that count, and calls in each."""
MOST_TURNS = 6 * TURNS
"""Turns that are made at most, those that do not count included."""
DRAWS = 1000
COMPARED = (("floor", "bare", "bare again"), ("added", "bare", "gateway"), ("added to lean", "lean", "gateway"))
MOST_ADDED_MS = 2.0
REPLY_SECONDS = 0.1

SERVER = """
import asyncio, json, sys
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

async def serve(app):
    config = Config(app, http="httptools", ws="none", lifespan="off", interface="asgi3", log_config=None,
                    server_header=False, date_header=False, proxy_headers=False, access_log=False,
                    timeout_keep_alive=75)  # as the gateway: clients keep theirs for 5 s, and none is closed under a call
    config.load()
    state, loop = ServerState(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: HttpToolsProtocol(config, state, {}, loop), "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()

async def body_of(receive):
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)
"""
UPSTREAM = (
    SERVER
    + """
WORDS = [f"word{n} " for n in range(int(sys.argv[1]))]
PAUSE = float(sys.argv[2])
USAGE = {"prompt_tokens": 200, "completion_tokens": len(WORDS), "total_tokens": 200 + len(WORDS)}
COMMON = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o-mini"}
EVENTS = [b"data: %s\\n\\n" % json.dumps({**COMMON, "choices": [{"index": 0, "delta": {"content": w}}]}).encode() for w in WORDS]
LAST = {**COMMON, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": USAGE}
EVENTS += [b"data: %s\\n\\n" % json.dumps(LAST).encode(), b"data: [DONE]\\n\\n"]
MESSAGE = {"role": "assistant", "content": "".join(WORDS)}
WHOLE = json.dumps({**COMMON, "object": "chat.completion", "usage": USAGE,
                    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}]}).encode()

async def app(scope, receive, send):
    asked = json.loads(await body_of(receive))
    kind = b"text/event-stream" if asked.get("stream") else b"application/json"
    headers = [(b"content-type", kind)] + ([] if asked.get("stream") else [(b"content-length", b"%d" % len(WHOLE))])
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if asked.get("stream"):
        for event in EVENTS:
            await send({"type": "http.response.body", "body": event, "more_body": True})
            await asyncio.sleep(PAUSE)
        await send({"type": "http.response.body", "body": b""})
    else:
        await asyncio.sleep(PAUSE * len(EVENTS))
        await send({"type": "http.response.body", "body": WHOLE})

asyncio.run(serve(app))
"""
)
PROXY = (
    SERVER
    + """
TARGET = sys.argv[1]
DROPPED = (b"host", b"connection", b"transfer-encoding")

def for_upstream(headers):
    return [*(one for one in headers if one[0] not in DROPPED), (b"host", TARGET.partition("//")[2].encode())]
"""
)
BARE = (
    PROXY
    + """
import httpx
limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
transport = httpx.AsyncHTTPTransport(limits=limits)

async def app(scope, receive, send):
    body, headers = await body_of(receive), for_upstream(scope["headers"])
    request = httpx.Request(scope["method"], TARGET + scope["path"], headers=headers, stream=httpx.ByteStream(body))
    reply = await transport.handle_async_request(request)
    kept = [(n.lower(), v) for n, v in reply.headers.raw if n.lower() not in DROPPED]
    await send({"type": "http.response.start", "status": reply.status_code, "headers": kept})
    async for chunk in reply.stream:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
    await reply.aclose()

asyncio.run(serve(app))
"""
)
LEAN = (
    PROXY
    + """
from ethogram.wire.gateway.upstream_http import HttpPool, UpstreamRequest

async def app(scope, receive, send):
    body, headers = await body_of(receive), for_upstream(scope["headers"])
    reply = await pool.send(UpstreamRequest(scope["method"], scope["path"].encode(), headers, body))
    kept = [(n, v) for n, v in reply.headers if n not in DROPPED]
    await send({"type": "http.response.start", "status": reply.status, "headers": kept})
    while chunk := await reply.read():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
    await reply.aclose()

pool = HttpPool(TARGET)
asyncio.run(serve(app))
"""
)
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


@contextmanager
def program(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process of ours while the block runs, and the first line that it prints."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as started:
        assert started.stdout is not None
        try:
            yield started, started.stdout.readline().strip()
        finally:
            started.terminate()


def cpu_of(process: subprocess.Popen[str]) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def asked(number: int, stream: bool) -> bytes:
    """A request of an agent in its third turn, with a context of some kilobytes."""
    said = [f"turn {number} {n} " + "lorem ipsum dolor sit amet " * 20 for n in range(5)]
    messages = [{"role": ("user", "assistant")[n % 2], "content": words} for n, words in enumerate(said)]
    return json.dumps(
        {"model": "gpt-4o-mini", "messages": messages, "tools": [TOOL], "stream": stream, "temperature": 0}
    ).encode()


async def batch(pool: HttpPool, path: str, bodies: list[bytes], at_once: int) -> tuple[list[float], int]:
    """Seconds of each call, and how many failed."""
    waiting = asyncio.Semaphore(at_once)
    seconds: list[float] = []
    failed = 0

    async def one(body: bytes) -> None:
        nonlocal failed
        headers = [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
        ]
        async with waiting:
            began = time.perf_counter()
            try:
                reply = await pool.send(UpstreamRequest("POST", path.encode(), headers, body))
                last = b""
                while chunk := await reply.read():
                    last = last[-20:] + chunk
                await reply.aclose()
                if reply.status != 200 or (b"data: " in last and not last.endswith(b"[DONE]\n\n")):
                    failed += 1
            except UpstreamFailed:
                failed += 1
            seconds.append(time.perf_counter() - began)

    await asyncio.gather(*map(one, bodies))
    return seconds, failed


async def compare(urls: dict[str, str], stream: bool) -> tuple[dict[str, np.ndarray], dict[str, int], dict[str, int]]:
    """Milliseconds by side, a row per turn; failed calls; turns that were made again.

    Turns of all sides are interleaved, and the side that begins changes.
    """
    found: dict[str, list[list[float]]] = {name: [] for name in urls}
    failures, made_again = dict.fromkeys(urls, 0), dict.fromkeys(urls, 0)
    names = list(urls)
    parts = {name: urlsplit(url) for name, url in urls.items()}
    pools = {name: HttpPool(f"http://{one.netloc}") for name, one in parts.items()}
    for number in range(-3, MOST_TURNS):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            if len(found[name]) == TURNS:
                continue
            bodies = [asked(number * PER_TURN + n, stream) for n in range(PER_TURN)]
            stolen = steal()
            took, failed = await batch(pools[name], parts[name].path, bodies, AT_ONCE)
            failures[name] += failed
            if steal() != stolen:
                made_again[name] += 1
            elif number >= 0:  # the first turns open connections and import
                found[name].append(took)
    for pool in pools.values():
        await pool.close()
    assert all(found.values()), "the host took processors away in every turn"
    return {name: 1000 * np.array(turns) for name, turns in found.items()}, failures, made_again


def steal() -> int:
    """Ticks that the host took from this machine so far; 0 where it does not say."""
    fields = Path("/proc/stat").read_text().partition("\n")[0].split()
    return int(fields[8]) if len(fields) > 8 else 0


def later_by(first: np.ndarray, second: np.ndarray, percentile: float) -> tuple[float, float, float]:
    """By how much the second side is later at a percentile, and the interval of that."""
    rng = np.random.default_rng(1)

    def drawn(side: np.ndarray) -> np.ndarray:
        turns = rng.integers(len(side), size=(DRAWS, len(side)))
        return np.percentile(side[turns].reshape(DRAWS, -1), percentile, axis=1)

    low, high = np.percentile(drawn(second) - drawn(first), (5, 95))
    return float(np.percentile(second, percentile) - np.percentile(first, percentile)), float(low), float(high)


def gateway_words(upstream: str, home: str) -> list[str]:
    """The command of a gateway that records into a run."""
    command = str(Path(sys.executable).with_name("ethogram"))
    return [command, "gateway", "--json", "--home", home, "--run", "bench", "--upstream", f"openai={upstream}/v1"]


def latency() -> list[bool]:
    """Added latency of calls, whole and streamed."""
    held = []
    with (
        tempfile.TemporaryDirectory() as home,
        program(sys.executable, "-c", UPSTREAM, str(WORDS), str(REPLY_SECONDS / WORDS)) as (_, port),
        program(sys.executable, "-c", BARE, f"http://127.0.0.1:{port}") as (bare, bare_port),
        program(sys.executable, "-c", BARE, f"http://127.0.0.1:{port}") as (again, again_port),
        program(sys.executable, "-c", LEAN, f"http://127.0.0.1:{port}") as (lean, lean_port),
        program(*gateway_words(f"http://127.0.0.1:{port}", home)) as (ours, told),
    ):
        urls = {
            "bare": f"http://127.0.0.1:{bare_port}/v1/chat/completions",
            "bare again": f"http://127.0.0.1:{again_port}/v1/chat/completions",
            "lean": f"http://127.0.0.1:{lean_port}/v1/chat/completions",
            "gateway": f"{json.loads(told)['address']}/openai/v1/chat/completions",
        }
        processes = {"bare": bare, "bare again": again, "lean": lean, "gateway": ours}
        rows, apart = [], []
        for stream in (False, True):
            kind = "streamed" if stream else "whole"
            before = {name: cpu_of(one) for name, one in processes.items()}
            found, failures, again_made = asyncio.run(compare(urls, stream))
            cpu = {
                name: 1000 * (cpu_of(one) - before[name]) / PER_TURN / (3 + len(found[name]) + again_made[name])
                for name, one in processes.items()
            }
            rows += [
                [kind, name, *np.percentile(found[name], (50, 99)), cpu[name], found[name].size, again_made[name]]
                for name in processes
            ]
            for row, first, second in COMPARED:
                by = {at: later_by(found[first], found[second], at) for at in (50, 99)}
                apart += [[kind, row, f"p{at}", *figures] for at, figures in by.items()]
                if row == "added":
                    added, low, high = by[99]
                    claim = f"{kind}: the 99th percentile is at most {MOST_ADDED_MS:g} ms later than {first}"
                    held.append(verdict(f"{claim} ({added:+.2f} ms [{low:+.1f}, {high:+.1f}])", added <= MOST_ADDED_MS))
            more = cpu["gateway"] - cpu["bare"]
            held += [
                verdict(f"{kind}: it takes no more CPU per call than the bare proxy ({more:+.2f} ms)", more <= 0),
                verdict(f"{kind}: no call failed ({failures})", not any(failures.values())),
            ]
        table(
            f"{AT_ONCE} calls at once, in turns of {PER_TURN}",
            ["reply", "side", "p50 ms", "p99 ms", "CPU ms per call", "calls", "turns made again"],
            rows,
        )
        table("later by", ["reply", "row", "at", "ms", "low", "high"], apart)
    return held


def streams() -> list[bool]:
    """Many streams at once, each of them open for some seconds."""

    async def go(url: str) -> tuple[list[float], int]:
        parts = urlsplit(url)
        pool = HttpPool(f"http://{parts.netloc}")
        try:
            return await batch(pool, parts.path, [asked(n, True) for n in range(STREAMS)], STREAMS)
        finally:
            await pool.close()

    with (
        tempfile.TemporaryDirectory() as home,
        program(sys.executable, "-c", UPSTREAM, str(WORDS), "0.1") as (_, port),
        program(*gateway_words(f"http://127.0.0.1:{port}", home)) as (ours, told),
    ):
        began = cpu_of(ours)
        took, failed = asyncio.run(go(f"{json.loads(told)['address']}/openai/v1/chat/completions"))
        cpu = cpu_of(ours) - began
        ours.terminate()
        ours.wait(60)
        calls = _recorded(home)
    table(
        f"{STREAMS} streams at once of {WORDS + 2} events, each open for at least {WORDS * 0.1:g} s",
        ["failed", "longest s", "CPU s of the gateway", "events per CPU s", "recorded calls"],
        [[failed, max(took), cpu, STREAMS * (WORDS + 2) / cpu, calls]],
    )
    return [verdict(f"{STREAMS} streams at once without an error, all recorded", failed == 0 and calls == STREAMS)]


def _recorded(home: str) -> int:
    from ethogram.store import open_home

    return sum(e.totals.model_calls for e in open_home(home).run("bench").entries)


def main() -> int:
    return 0 if all([*latency(), *streams()]) else 1


if __name__ == "__main__":
    sys.exit(main())
