"""`eth.span`, `eth.tool` and stated versions of prompts: what an agent marks is in its trace."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

import ethogram as eth
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.memory import MemorySink
from ethogram.harness.disturbance import Disturbance
from ethogram.harness.options import AllCaps
from ethogram.harness.planning import suite_of
from ethogram.harness.suites import run as run_suite
from ethogram.perturbations.tools import ToolFailed
from ethogram.plans import Check, Condition, Suite, Task
from ethogram.prices import Caps
from ethogram.questions.home.exports import export
from ethogram.questions.logs.imports import import_logs
from ethogram.questions.scoring.question import score
from ethogram.store import Home
from ethogram.store.redact import policy_from
from ethogram.traces import Message, Origin, Scored, Text, Trace
from ethogram.wire.context import recording
from ethogram.wire.gateway.episode_replay import EpisodeReplay
from ethogram.wire.recorder import Recorder, prompt_hash
from ethogram.worlds.model_server import ModelServer, serve_model, text_reply


@eth.tool
def price(item: str, /, currency: str = "EUR", *rest: int, **more: Any) -> dict[str, Any]:
    """The price of an item."""
    if item == "lamp":
        raise KeyError(item)
    return {"item": item, "price": 6, "currency": currency}


@eth.tool(name="stock")
async def how_many(item: str) -> int:
    await asyncio.sleep(0)
    return 3


class Shop:
    @eth.tool
    def open(self, day: str) -> str:
        return f"open on {day}"


def recorded(home: Home, agent: Any, tasks: int = 1, **options: Any) -> list[Trace]:
    suite = Suite(name="s", tasks=tuple(Task(id=f"t{i}", prompt=f"q{i}") for i in range(tasks)))
    run_suite(suite, agent, home=home, run="a", **options)
    run = home.run("a")
    return [run.trace(entry) for entry in run.entries]


def tree(trace: Trace) -> list[tuple[int, str, str]]:
    return [(depth, span.kind, span.name) for depth, span in trace.walk()]


def test_outside_of_an_episode_nothing_is_in_the_way() -> None:
    with eth.span("plan", prompt_version="v1") as plan:
        plan.result = "x"
        assert price("tea") == {"item": "tea", "price": 6, "currency": "EUR"}
    assert asyncio.run(how_many("tea")) == 3
    assert Shop().open("Monday") == "open on Monday"
    assert price.__name__ == "price"
    assert price.__doc__ == "The price of an item."
    assert list(inspect.signature(price).parameters) == ["item", "currency", "rest", "more"]
    assert inspect.iscoroutinefunction(how_many)
    with pytest.raises(TypeError, match="missing"):
        price()


def test_phases_agents_and_tools_are_a_tree(home: Home) -> None:
    def solve(task: Task) -> str:
        with eth.span("plan", attributes={"budget": 3}) as plan:
            plan.result = "look it up"
        with eth.span("clerk", kind="agent"), eth.span("look up", kind="retrieval"):
            return str(price("tea", currency="USD", note="now")["price"])

    (trace,) = recorded(home, solve)
    assert tree(trace) == [
        (0, "other", "plan"),
        (0, "agent", "clerk"),
        (1, "retrieval", "look up"),
        (2, "tool", "price"),
    ]
    spans = {span.name: span for span in trace.spans}
    assert (spans["price"].agent, spans["look up"].agent, spans["plan"].agent) == ("clerk", "clerk", "")
    assert json.loads(trace.text(spans["price"].arguments)) == {"item": "tea", "currency": "USD", "note": "now"}
    assert json.loads(trace.text(spans["plan"].attributes)) == {"budget": 3}
    assert trace.text(spans["plan"].result) == "look it up"
    assert trace.answer == "6"


@eth.tool
def search(words: str) -> list[str]:
    if words == "nothing":
        raise LookupError(words)
    return [words]


@eth.tool
def research(question: str) -> list[str]:
    """A tool that calls another one."""
    return search(question)


@eth.tool
async def ponder(question: str) -> int:
    return await how_many(question)


def test_what_a_tool_calls_is_below_it_and_counted_as_in_a_log(home: Home, tmp_path: Path) -> None:
    """A tool around others is no step, live as in the same trace read from a file, and its checks still see it."""

    async def solve(task: Task) -> str:
        found = await ponder("milk")
        try:
            research(task.prompt)
        except LookupError:
            return "nothing"
        return str(found)

    called = {"calls": [{"name": name} for name in ("ponder", "stock", "research", "search")], "extra": True}
    check = Check(kind="tool_calls", settings=called)
    suite = Suite(name="s", tasks=tuple(Task(id=w, prompt=w, checks=(check,)) for w in ("nothing", "tea")))
    run_suite(suite, solve, home=home, run="live")
    run = home.run("live")
    assert tree(run.trace(run.entries[0])) == [
        (0, "tool", "ponder"),
        (1, "tool", "stock"),
        (0, "tool", "research"),
        (1, "tool", "search"),
    ]
    export("live", "otlp", out=tmp_path / "live.otlp.jsonl", home=home)
    import_logs(tmp_path / "live.otlp.jsonl", home=home, run="read")
    for name in ("live", "read"):
        counted = {e.head.task: (e.totals.steps, e.totals.tool_calls, e.totals.errors) for e in home.run(name).entries}
        assert counted == {"nothing": (2, 2, 1), "tea": (2, 2, 0)}
    assert [e.head.outcome for e in run.entries] == [Scored(1.0, "tool_calls")] * 2
    assert score("live", suite=suite_of(suite), home=home).changed == 0


def test_an_async_agent_its_methods_and_its_errors(home: Home) -> None:
    async def solve(task: Task) -> str:
        with eth.span("both"):
            counts = await asyncio.gather(how_many("tea"), how_many("milk"))
        with pytest.raises(KeyError):
            price("lamp")
        return f"{sum(counts)} {Shop().open('Monday')}"

    (trace,) = recorded(home, solve)
    assert trace.answer == "6 open on Monday"
    assert sorted(tree(trace)) == sorted(
        [(0, "other", "both"), (1, "tool", "stock"), (1, "tool", "stock"), (0, "tool", "price"), (0, "tool", "open")]
    )
    failed = next(span for span in trace.spans if span.name == "price")
    assert (failed.status, trace.text(failed.error)) == ("error", "KeyError: 'lamp'")
    assert json.loads(trace.text(next(s for s in trace.spans if s.name == "open").arguments)) == {"day": "Monday"}


def test_a_span_that_fails_says_so_and_raises(home: Home) -> None:
    def solve(task: Task) -> str:
        with eth.span("plan"):
            raise ValueError("no plan")

    (trace,) = recorded(home, solve)
    assert (trace.spans[0].status, trace.text(trace.spans[0].error)) == ("error", "ValueError: no plan")
    assert trace.head.meta["crash"] == "ValueError: no plan"


def test_episodes_side_by_side_and_threads_stay_apart(home: Home) -> None:
    gate = threading.Barrier(8)

    def solve(task: Task) -> str:
        gate.wait(30)
        with eth.span(task.id), ThreadPoolExecutor(2) as pool:
            return ",".join(str(found["item"]) for found in pool.map(price, [task.id] * 4))

    traces = recorded(home, solve, tasks=8, workers=8)
    for trace in traces:
        assert tree(trace) == [(0, "other", trace.head.task), *[(1, "tool", "price")] * 4]
        assert trace.answer == ",".join([trace.head.task] * 4)


def test_tools_count_against_the_cap_and_checks_see_them(home: Home) -> None:
    def solve(task: Task) -> str:
        while True:
            price("tea")

    (trace,) = recorded(home, solve, caps=AllCaps(episode=Caps(steps=3)))
    assert len(trace.spans) == 3
    (label,) = [x for x in trace.labels if x.name == "stopped_by"]
    assert label.value == "cap.steps"


def test_a_condition_disturbs_them_and_says_so(home: Home) -> None:
    async def solve(task: Task) -> str:
        with pytest.raises(ToolFailed):
            price("tea")
        return str(await how_many("tea"))

    broken = Disturbance(operator="tool_error", seed=1, only=("price",))
    (trace,) = recorded(home, solve, conditions=(Condition(name="broken", settings=broken.settings()),))
    assert (trace.answer, trace.head.meta["perturbed_calls"]) == ("3", 1)
    assert [(span.name, span.status) for span in trace.steps] == [("price", "error"), ("stock", "ok")]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with serve_model(lambda request: text_reply("6")) as running:
        for name, value in running.variables().items():
            monkeypatch.setenv(name, value)
        yield running


def ask(system: str | None = "You sell tea.") -> str:
    first = [] if system is None else [{"role": "system", "content": system}]
    with openai.OpenAI(max_retries=0) as client:
        messages: Any = [*first, {"role": "user", "content": "how much?"}]
        return client.chat.completions.create(model="m", messages=messages).choices[0].message.content or ""


def versions(trace: Trace) -> list[str | None]:
    return [span.prompt_version for span in trace.steps if span.kind == "model"]


def test_in_a_replay_they_are_answered_from_the_trace(home: Home, server: ModelServer) -> None:
    calls: list[str] = []

    @eth.tool
    def send(to: str) -> str:
        calls.append(to)
        return f"sent to {to}"

    def solve(task: Task) -> str:
        ask()
        return send("ann")

    (trace,) = recorded(home, solve)
    replay = EpisodeReplay(trace, home.redactor(policy_from("none")))
    report = SourceReport(source="replay")
    done: list[Trace] = []
    with Intake(lambda t: MemorySink(done), Origin("run"), report).trace("again") as builder:
        record = Recorder(builder)
        record.stand_in = replay.stand_in
        with recording(record):
            assert send("ann") == "sent to ann"
    assert (calls, replay.tools_served) == (["ann"], 1)


def test_model_calls_have_the_version_of_their_prompt(home: Home, server: ModelServer) -> None:
    def solve(task: Task) -> str:
        ask()
        ask("You sell milk.")
        ask(None)
        with eth.span("ask", prompt_version="v3 – ü"):
            ask()
            with ThreadPoolExecutor(1) as pool:
                pool.submit(ask).result()
        return ask()

    (trace,) = recorded(home, solve)
    tea, milk = prompt_hash("You sell tea."), prompt_hash("You sell milk.")
    assert tea != milk
    assert versions(trace) == [tea, milk, None, "v3 – ü", "v3 – ü", tea]


def test_an_agent_a_run_or_a_header_states_the_version(home: Home, server: ModelServer, tmp_path: Path) -> None:
    def solve(task: Task) -> str:
        ask()
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
        header = {"x-ethogram-prompt-version": "from the header"}
        httpx.post(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json=body, headers=header)
        return "6"

    solve.prompt_version = "v2"  # type: ignore[attr-defined]
    (trace,) = recorded(home, solve)
    assert versions(trace) == ["v2", "from the header"]
    rows = eth.sql("SELECT prompt_version, count(*) AS n FROM spans GROUP BY 1 ORDER BY 1", home=home).rows()
    assert [(row["prompt_version"], row["n"]) for row in rows] == [("from the header", 1), ("v2", 1)]
    assert "prompt_version" not in str(server.calls), "what is ours is not sent on"

    def plain(task: Task) -> str:
        return ask()

    suite = Suite(name="s", tasks=(Task(id="t", prompt="q"),))
    run_suite(suite, plain, home=home, run="b", meta={"prompt_version": "v7"})
    run = home.run("b")
    assert versions(run.trace(run.entries[0])) == ["v7"]


def test_an_agent_that_records_its_own_calls_has_versions_too(home: Home) -> None:
    def solve(task: Task, episode: Any) -> str:
        with episode.record.model(input=[Message("system", (Text("You sell tea."),))], growing=True) as call:
            call.done("a", input_tokens=1, output_tokens=1, cost_usd=0.0)
        with episode.record.model(input=[Message("user", (Text("more"),))], growing=True) as call:
            call.done("b", input_tokens=1, output_tokens=1, cost_usd=0.0)
        return "b"

    (trace,) = recorded(home, solve)
    assert versions(trace) == [prompt_hash("You sell tea.")] * 2
