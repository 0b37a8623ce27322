"""What the gateway adds to a call, beside a bare pass-through on the same server library.

    python bench/gateway.py [--quick]

Upstream, bare proxies, gateway and clients are processes of their own on this machine. The upstream takes a tenth of a
second for a reply, as the fastest models do. All sides get the same calls, 8 at once, in turns of a few each, so that
other load of the machine meets them alike; which side begins changes from turn to turn. The gateway records everything
it sees into a run. Beside the added latency stand CPU seconds per call, which a busy machine changes less.

A 99th percentile is made of the few slowest calls, and where all these processes share two cores those are the ones
that the machine let wait. So the same bare proxy runs twice: the row `floor` is what the second one "adds" to the
first, in the same turns. What is smaller than its spread cannot be measured here.

The bare proxy reads nothing and calls the upstream with `httpx`, as most proxies in Python do; the gateway has a client
of its own, so that it may take less than nothing.
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
from typing import NamedTuple

import numpy as np
from _common import QUICK, table, verdict

WORDS = 40
AT_ONCE = 8
STREAMS = 500
REPEATS, ROUNDS, PER_ROUND = (3, 3, 80) if QUICK else (7, 9, 80)
"""Each repetition gives a 99th percentile of at least 240 calls a side; the median of them is reported. Rounds are a
multiple of the three sides, so that each of them begins equally often."""
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
BARE = (
    SERVER
    + """
import httpx
TARGET = sys.argv[1]
DROPPED = (b"host", b"connection", b"transfer-encoding")
limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
transport = httpx.AsyncHTTPTransport(limits=limits)

async def app(scope, receive, send):
    body = await body_of(receive)
    headers = [(n, v) for n, v in scope["headers"] if n not in DROPPED]
    headers.append((b"host", TARGET.partition("//")[2].encode()))
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


async def batch(
    client: object, url: str, calls: int, at_once: int, stream: bool, first: int
) -> tuple[list[float], int]:
    """Seconds of each call, and how many failed."""
    waiting = asyncio.Semaphore(at_once)
    seconds: list[float] = []
    failed = 0

    async def one(number: int) -> None:
        nonlocal failed
        async with waiting:
            began = time.perf_counter()
            try:
                async with client.stream(  # type: ignore[attr-defined]
                    "POST", url, content=asked(number, stream), headers={"content-type": "application/json"}
                ) as reply:
                    body = b"".join([chunk async for chunk in reply.aiter_raw()])
                if reply.status_code != 200 or (stream and not body.endswith(b"[DONE]\n\n")):
                    failed += 1
            except Exception:
                failed += 1
            seconds.append(time.perf_counter() - began)

    await asyncio.gather(*(one(first + n) for n in range(calls)))
    return seconds, failed


async def compare(urls: dict[str, str], stream: bool) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Latencies by side; turns of all are interleaved, and the side that begins changes."""
    import httpx

    found: dict[str, list[float]] = {name: [] for name in urls}
    failures = dict.fromkeys(urls, 0)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=60, trust_env=False, limits=limits) as client:
        for number in range(-1, ROUNDS):
            names = list(urls)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                took, failed = await batch(client, urls[name], PER_ROUND, AT_ONCE, stream, number * PER_ROUND)
                failures[name] += failed
                if number >= 0:  # the first turn opens connections and imports
                    found[name] += took
    return found, failures


def gateway_words(upstream: str, home: str) -> list[str]:
    """The command of a gateway that records into a run."""
    command = str(Path(sys.executable).with_name("ethogram"))
    return [command, "gateway", "--json", "--home", home, "--run", "bench", "--upstream", f"openai={upstream}/v1"]


ROWS = ("bare", "bare again", "gateway", "floor", "added")


class Repeat(NamedTuple):
    """One repetition: p50, p99 and CPU by row of `ROWS`; failed calls."""

    figures: np.ndarray
    failures: dict[str, int]


def _repeat(urls: dict[str, str], processes: dict[str, subprocess.Popen[str]], stream: bool) -> Repeat:
    before = {name: cpu_of(one) for name, one in processes.items()}
    found, failures = asyncio.run(compare(urls, stream))
    calls = (ROUNDS + 1) * PER_ROUND
    sides = [
        [*np.percentile(np.array(found[name]) * 1000, (50, 99)), 1000 * (cpu_of(one) - before[name]) / calls]
        for name, one in processes.items()
    ]
    bare, again, ours = sides
    return Repeat(np.array([bare, again, ours, np.subtract(again, bare), np.subtract(ours, bare)]), failures)


def latency() -> list[bool]:
    """Added latency of calls, whole and streamed."""
    held = []
    with (
        tempfile.TemporaryDirectory() as home,
        program(sys.executable, "-c", UPSTREAM, str(WORDS), str(REPLY_SECONDS / WORDS)) as (_, port),
        program(sys.executable, "-c", BARE, f"http://127.0.0.1:{port}") as (bare, bare_port),
        program(sys.executable, "-c", BARE, f"http://127.0.0.1:{port}") as (again, again_port),
        program(*gateway_words(f"http://127.0.0.1:{port}", home)) as (ours, told),
    ):
        urls = {
            "bare": f"http://127.0.0.1:{bare_port}/v1/chat/completions",
            "bare again": f"http://127.0.0.1:{again_port}/v1/chat/completions",
            "gateway": f"{json.loads(told)['address']}/openai/v1/chat/completions",
        }
        processes = {"bare": bare, "bare again": again, "gateway": ours}
        rows = []
        for stream in (False, True):
            kind = "streamed" if stream else "whole"
            repeats = [_repeat(urls, processes, stream) for _ in range(REPEATS)]
            figures = np.array([one.figures for one in repeats])
            rows += [[kind, row, *np.median(figures[:, which], axis=0)] for which, row in enumerate(ROWS)]
            floor, added = (sorted(figures[:, ROWS.index(row), 1]) for row in ("floor", "added"))
            failures = {name: sum(one.failures[name] for one in repeats) for name in urls}
            middle, cpu = float(np.median(added)), float(np.median(figures[:, ROWS.index("added"), 2]))
            print(f"  {kind}: a second bare proxy is later by {_signed(floor)} ms at the 99th percentile")
            held += [
                verdict(f"{kind}: the 99th percentile is at most {MOST_ADDED_MS:g} ms later ({middle:+.2f} ms; "
                        f"{_signed(added)})", middle <= MOST_ADDED_MS),
                verdict(f"{kind}: it takes no more CPU per call than the bare proxy ({cpu:+.2f} ms)", cpu <= 0),
                verdict(f"{kind}: no call failed ({failures})", not any(failures.values())),
            ]  # fmt: skip
        table(
            f"{AT_ONCE} calls at once, {ROUNDS * PER_ROUND} of each side in turns of {PER_ROUND}; medians of {REPEATS}",
            ["reply", "side", "p50 ms", "p99 ms", "CPU ms per call"],
            rows,
        )
    return held


def _signed(values: list[float]) -> str:
    return ", ".join(f"{one:+.1f}" for one in values)


def streams() -> list[bool]:
    """Many streams at once, each of them open for some seconds."""
    import httpx

    async def go(url: str) -> tuple[list[float], int]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=300, trust_env=False, limits=limits) as client:
            return await batch(client, url, STREAMS, STREAMS, True, 0)

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
