"""Tools over MCP of agents that are Python functions: many attempts at once in one process, each with its own proxy."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from ethogram.harness.options import AllCaps
from ethogram.harness.suites import run
from ethogram.plans import Check, Suite, Task
from ethogram.prices import Caps
from ethogram.store import Home

EPISODE_VARIABLE = "ETHOGRAM_EPISODE"
SERVER = Path(__file__).parents[1] / "wire" / "mcp" / "shop_server.py"
PROXY = ["-m", "ethogram.cli.main", "mcp", "--", sys.executable, str(SERVER)]
ATTEMPTS = 3
SUITE = Suite(
    name="shop", tasks=(Task(id="t", prompt="add", checks=(Check(kind="regex", settings={"pattern": "^1"}),)),)
)


def agent_with(env: dict[str, str] | None, together: threading.Barrier) -> Any:
    """An agent that knows nothing of us, but that it starts its server behind the proxy; `env` is what it hands on."""

    async def solve(task: Any, episode: Any) -> str:
        import anyio

        given = None if env is None else {name: os.environ[name] for name in env}  # as the guide has it
        server = StdioServerParameters(command=sys.executable, args=PROXY, env=given)
        async with Client(stdio_client(server), mode="legacy") as client:
            await anyio.to_thread.run_sync(together.wait)
            result = await client.call_tool("add", {"a": 10, "b": episode.attempt})
        return str(result.content[0].text)  # type: ignore[union-attr]

    return solve


@pytest.mark.parametrize("env", [None, {EPISODE_VARIABLE: ""}], ids=["nothing handed on", "as the guide has it"])
def test_every_attempt_has_the_calls_of_its_own_proxy(home: Home, env: dict[str, str] | None) -> None:
    before = os.environ.get(EPISODE_VARIABLE)
    agent = agent_with(env, threading.Barrier(ATTEMPTS, timeout=60))
    result = run(SUITE, agent, k=ATTEMPTS, workers=ATTEMPTS, home=home)
    assert (result.successes, result.crash) == (ATTEMPTS, None)
    made = {t.head.attempt: [s for s in t.steps if s.kind == "tool"] for t in home.run(result.run).traces()}
    traces = {t.head.attempt: t for t in home.run(result.run).traces()}
    told = {n: [(s.tool, traces[n].text(s.arguments)) for s in steps if s.arguments] for n, steps in made.items()}
    assert told == {n: [("add", f'{{"a":10,"b":{n}}}')] for n in range(ATTEMPTS)}
    assert os.environ.get(EPISODE_VARIABLE) == before


def test_its_calls_count_against_the_caps_of_the_attempt(home: Home) -> None:
    agent = agent_with(None, threading.Barrier(1))
    result = run(SUITE, agent, home=home, caps=AllCaps(episode=Caps(steps=0.5)))
    (trace,) = home.run(result.run).traces()
    assert {x.name: x.value for x in trace.labels}["stopped_by"] == "cap.steps"
