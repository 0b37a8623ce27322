"""Claim: recording a call of a Python agent (a tool by `eth.tool`, a model call by the recorder, a span of an instrumentor)
takes less than 1 ms of CPU, stored, redacted and joined included; beside the bare call, in the same process."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import openai
from _common import QUICK, cpu, table, verdict
from opentelemetry.sdk.trace import TracerProvider

import ethogram as eth
from ethogram.harness.suites import run
from ethogram.plans import Suite, Task
from ethogram.store import open_home
from ethogram.traces import Message, Text
from ethogram.worlds.model_server import serve_model, text_reply

CALLS = 300 if QUICK else 1500
ROUNDS = 2 if QUICK else 4
WORDS = "a sentence of some length about the price of tea, milk and lamps in a shop. " * 4
TRACER = TracerProvider().get_tracer("bench")
SAID = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": WORDS}]}])
SPAN = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-4o-mini",
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 10,
    "gen_ai.output.messages": SAID,
}


def price(item: str) -> dict[str, Any]:
    return {"item": item, "price": 6, "about": WORDS}


recorded_price = eth.tool(price)


def bare_tools(task: Task, episode: Any) -> None:
    for i in range(CALLS):
        price(f"item {i}")


def tools(task: Task, episode: Any) -> None:
    for i in range(CALLS):
        recorded_price(f"item {i}")


def bare_models(task: Task, episode: Any) -> None:
    talk = []
    for i in range(CALLS):
        talk.append(Message("user", (Text(f"{i} {WORDS}"),)))


def models(task: Task, episode: Any) -> None:
    for i in range(CALLS):
        asked = (Message("user", (Text(f"{i} {WORDS}"),)),)
        with episode.record.model(input=asked, growing=True, model="gpt-4o-mini") as call:
            call.done(f"{i} {WORDS}", input_tokens=100, output_tokens=10)


def spans(task: Task, episode: Any) -> None:
    for i in range(CALLS):
        with TRACER.start_as_current_span("node"), TRACER.start_as_current_span("chat", attributes=SPAN) as span:
            span.set_attribute("number", i)


def nothing(task: Task, episode: Any) -> None:
    pass


def run_cpu(agent: Callable[..., Any], capture: str = "auto") -> float:
    """CPU seconds of this process for a run of one episode, the least of a few."""
    best = float("inf")
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            suite = Suite(name="bench", tasks=(Task(id="t", prompt="q"),))
            before = time.process_time()
            run(suite, agent, home=open_home(folder), run="a", capture=capture)
            best = min(best, time.process_time() - before)
    return best


def clients(calls: int) -> Callable[..., Any]:
    def agent(task: Task, episode: Any) -> None:
        with openai.OpenAI(max_retries=0) as client:
            for i in range(calls):
                messages: Any = [{"role": "user", "content": f"{i} {WORDS}"}]
                client.chat.completions.create(model="gpt-4o-mini", messages=messages)

    return agent


def bare_cpu(work: Callable[..., Any]) -> float:
    """CPU seconds of the same work with nobody who records."""
    return cpu(lambda: work(None, None), ROUNDS)[0]


def main() -> int:
    run_cpu(models)  # imports
    idle = run_cpu(nothing)
    rows, worst = [], 0.0
    for name, plain, kept in (
        ("a tool (eth.tool)", bare_tools, tools),
        ("a model call (episode.record.model)", bare_models, models),
        ("two spans of OpenTelemetry, one a model call", spans, spans),
    ):
        bare, full = bare_cpu(plain) / CALLS, (run_cpu(kept) - idle) / CALLS
        worst = max(worst, full - bare)
        rows.append([name, 1e6 * bare, 1e6 * full, 1e3 * (full - bare), f"{full / bare:,.1f}×"])
    few = 60 if QUICK else 100
    with serve_model(lambda request: text_reply(WORDS)) as server:
        os.environ.update(server.variables())
        run_cpu(clients(few))
        bare, full = run_cpu(clients(few), "off") / few, run_cpu(clients(few)) / few
    name = "openai through the gateway, client and server in this process too; no part of the claim"
    rows.append([name, 1e6 * bare, 1e6 * full, 1e3 * (full - bare), f"{full / bare:,.1f}×"])
    table(
        f"CPU of a call, {CALLS:,} calls in one episode, redacted and stored",
        ["call", "bare, µs", "recorded, µs", "overhead, ms", "ratio"],
        rows,
    )
    held = verdict(f"recording takes less than 1 ms of CPU a call (at most {1e3 * worst:.2f} ms here)", worst < 1e-3)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
