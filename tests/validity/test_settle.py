"""`ethogram why --settle` on worlds whose causes are known: real clients, a real server, tools that run again.

A flaw befalls some attempts and costs them a known part of their successes. `why` must find it and rank it first, and
forks with what successful attempts chose there must confirm it, with an interval that covers what was planted. Where
nothing was planted nothing is bought; a correlate is never confirmed more often than stated. Wrong methods fail: causes
without their share of the error, and continuations of one attempt taken for independent.
Set ETHOGRAM_LONG=1 for the long form; run with -s to read the figures.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ethogram.harness.options import RunOptions
from ethogram.harness.suites import start_run
from ethogram.questions.fork.effect import PooledPlan, find_pooled_effect
from ethogram.questions.why.buying import SettleOptions, settle_causes
from ethogram.questions.why.results import Cause, WhyResult
from ethogram.store import Home
from ethogram.traces import ToolResult
from ethogram.wire.gateway.call import ModelReply, ModelRequest
from ethogram.worlds.desk import CHANCES
from ethogram.worlds.desk import model as desk
from ethogram.worlds.model_server import serve_model, text_reply, tool_reply

LONG = os.environ.get("ETHOGRAM_LONG") == "1"
WORLDS = 20 if LONG else 1
RIGHT, WRONG = 0.9, 0.2
"""Success of attempts without the flaw and with it: the planted effect is .7."""
FLAWED = 0.5

TASK = """
- id: refund-{order}
  prompt: Refund order {order}.
  tools: [find, stock, ask, refund]
  expected: 30
  checks:
    - {{kind: numeric}}
"""
REFERENCE = """
    - kind: tool_calls
      required: false
      settings: {{mode: superset, calls: [{{name: refund, arguments: {{order: "{order}", amount: 30}}}}]}}
"""
TOOLS = """
def tools(task, episode):
    luck = episode.random("till")

    def find(order: str) -> str:
        return f"order {order}: 30, paid by card, 12 weeks ago"

    def stock(item: str) -> str:
        return "unknown item"

    def ask(question: str) -> str:
        return "yes"

    def refund(order: str, amount: int) -> str:
        if FAILS and luck.random() < 0.5:
            raise RuntimeError("the till answered 503")
        return "refunded"

    return {"find": find, "stock": stock, "ask": ask, "refund": refund}
"""
AGENT = """
import json, os
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

def solve(task, episode):
    talk = [{"role": "user", "content": task.prompt}]
    place = urlsplit(os.environ["OPENAI_BASE_URL"])
    with closing(HTTPConnection(place.netloc)) as connection:
        while True:
            asked = json.dumps({"model": "m", "messages": talk, "seed": episode.seed % 2**31})
            connection.request("POST", f"{place.path}/chat/completions", asked)
            reply = json.loads(connection.getresponse().read())["choices"][0]["message"]
            talk.append(reply)
            if not reply.get("tool_calls"):
                return reply["content"]
            for call in reply["tool_calls"]:
                try:
                    result = episode.tools[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
                except RuntimeError as error:
                    result = f"Error: {error}"
                talk.append({"role": "tool", "tool_call_id": call["id"], "content": result})
"""


class Clerk:
    """Finds the order, asks, refunds and answers; a flaw changes one of these and then the chance of success."""

    def __init__(self, flaw: str) -> None:
        self.flaw = flaw

    def __call__(self, request: ModelRequest) -> ModelReply:
        calls = [c for m in request.messages for c in m.tool_calls]
        results = [p.content for m in request.messages for p in m.parts if isinstance(p, ToolResult)]
        names = [c.name for c in calls]
        order = request.messages[0].text.split()[-1].strip(".")
        happens = self.luck(request)
        if not calls:
            return tool_reply(("find", {"order": order}))
        if self.flaw == "a loop" and names == ["find"] and happens("flaw", FLAWED):
            return tool_reply(("stock", {"item": "9"}))
        if names[-1] == "stock" and names.count("stock") < 4 and self.goes_on(happens, names):
            return tool_reply(("stock", {"item": "9"}))
        if self.flaw == "a choice at step 3" and names == ["find"] and happens("flaw", FLAWED):
            return tool_reply(("stock", {"item": "9"}))
        skips = self.flaw == "a missing confirmation" and happens("flaw", FLAWED)
        if "ask" not in names and "refund" not in names and not skips:
            return tool_reply(("ask", {"question": "shall I?"}))
        if "refund" not in names:
            wrong = self.flaw == "a misread field" and happens("flaw", FLAWED)
            return tool_reply(("refund", {"order": order, "amount": 12 if wrong else 30}))
        bad = self.shows(names, [c.arguments for c in calls], results)
        return text_reply("30" if happens("right", WRONG if bad else RIGHT) else "12")

    def goes_on(self, happens: Callable[[str, float], bool], names: list[str]) -> bool:
        """A loop goes on to its end once it is one; a single look at the stock is none."""
        return self.flaw == "a loop"

    def shows(self, names: list[str], arguments: list[str], results: list[str]) -> bool:
        """Whether the conversation shows the flaw, as the model sees it."""
        match self.flaw:
            case "a tool that fails":
                return any(r.startswith("Error") for r in results)
            case "a misread field":
                return any('"amount":12' in a.replace(" ", "") for a in arguments)
            case "a loop":
                return names.count("stock") >= 3
            case "a missing confirmation":
                return "ask" not in names
            case "a choice at step 3":
                return "stock" in names
        return False

    def luck(self, request: ModelRequest) -> Callable[[str, float], bool]:
        seed = request.params.get("seed")
        return lambda what, chance: random.Random(f"{seed}:{what}").random() < chance


@contextmanager
def served(model: Callable[[ModelRequest], ModelReply], patch: pytest.MonkeyPatch) -> Iterator[None]:
    with serve_model(model) as server:
        for name, value in server.variables().items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The model that is served: the last of a list, so that clients may keep their address."""
    models: list[Any] = []
    with served(lambda request: models[-1](request), monkeypatch):
        yield models


def recorded(home: Home, folder: Path, flaw: str, k: int, seed: int) -> str:
    """Attempts in a world with a flaw, as anybody would run them."""
    suite = folder / flaw.replace(" ", "-")
    suite.mkdir(exist_ok=True)
    task = TASK + REFERENCE.lstrip("\n") if flaw == "a misread field" else TASK
    (suite / "tasks.yaml").write_text("".join(task.format(order=order) for order in (7, 8)))
    (suite / "tools.py").write_text(f"FAILS = {flaw == 'a tool that fails'}\n" + TOOLS)
    (folder / "agent.py").write_text(AGENT)
    options = RunOptions(k=k, seed=seed, name=f"{suite.name}-{seed}")
    return start_run(str(suite), f"{folder / 'agent.py'}:solve", options, home=home).run


def covers(cause: Cause, truth: float) -> bool:
    assert cause.settled is not None
    effect = cause.settled.effect
    assert effect.low is not None
    assert effect.high is not None
    return effect.low <= truth <= effect.high


FLAWS = ("a tool that fails", "a choice at step 3", "a misread field", "a loop", "a missing confirmation")
"""The short form takes the first two: a cause that the log names, and one that only the choice shows."""


@pytest.mark.parametrize("flaw", FLAWS if LONG else FLAWS[:2])
def test_a_planted_cause_is_found_first_and_confirmed(flaw: str, home: Home, tmp_path: Path, model: list[Any]) -> None:
    model.append(Clerk(flaw))
    held, confirmed = 0, 0
    for seed in range(WORLDS):
        run = recorded(home, tmp_path, flaw, 24, seed)
        found = settle_causes(run, SettleOptions(causes=1), home=home)
        assert found.causes, f"{flaw} was not found"
        first = found.causes[0]
        assert first.settled is not None
        print(f"\n{flaw}: {first.cause}: {first.settled.status}, {first.settled.what}, {first.settled.effect}")
        held += covers(first, RIGHT - WRONG)
        confirmed += first.settled.status == "confirmed"
        assert first.settled.status != "struck_out"
    assert held >= WORLDS - (2 if LONG else 0)
    assert confirmed >= 0.9 * WORLDS


def test_nothing_is_bought_where_nothing_was_planted(home: Home, tmp_path: Path, model: list[Any]) -> None:
    model.append(Clerk("nothing"))
    named = 0
    for seed in range(WORLDS):
        found = settle_causes(recorded(home, tmp_path, "nothing", 20, seed), home=home)
        named += bool(found.causes)
        assert not any(c.settled is not None and c.settled.status == "confirmed" for c in found.causes)
    assert named <= 0.05 * WORLDS
    assert len(home.names()) == WORLDS + named, "a run was bought for nothing"


def test_a_correlate_is_struck_out_and_the_cause_beside_it_confirmed(home: Home, model: list[Any]) -> None:
    """The desk: notes are more frequent in failures than the planted cause, and do nothing."""
    model.append(desk)
    planted = CHANCES[True, "calm"] - CHANCES[False, "calm"]
    assert planted == pytest.approx(CHANCES[True, "angry"] - CHANCES[False, "angry"])
    held, right = [], []
    for seed in range(WORLDS):
        options = RunOptions(k=40, seed=seed, name=f"desk-{seed}")
        start_run("ethogram.worlds.desk", "ethogram.worlds.desk:clerk", options, home=home)
        found = settle_causes(f"desk-{seed}", home=home)
        cause, note = planted_cause(found, "look_up"), planted_cause(found, "note")
        assert cause.settled is not None
        assert note.settled is not None
        print(f"\nlook up: {cause.settled.status} {cause.settled.effect}; note: {note.settled.status}")
        assert note.settled.status != "confirmed"
        held.append(covers(cause, planted) and covers(note, 0.0))
        right.append((cause.settled.status, note.settled.status) == ("confirmed", "struck_out"))
    assert np.mean(held) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / WORLDS)
    assert np.mean(right) >= 0.8


def planted_cause(found: WhyResult, tool: str) -> Cause:
    """The cause whose other way, or whose own, is the call of a tool."""
    return next(c for c in found.causes if c.settled is not None and f"asks for {tool}" in c.settled.what)


Arms = list[tuple[list[float | None], list[float | None]]]


def null_traces(rng: np.random.Generator, traces: int, each: int, spread: float) -> Arms:
    """Outcomes of both arms where the change does nothing on average; with a spread it helps half of the traces."""
    made: Arms = []
    for _ in range(traces):
        shift = spread * (1 if rng.random() < 0.5 else -1) / 2
        one, two = (rng.random((2, each)) < np.array([[0.5 - shift], [0.5 + shift]])).astype(float).tolist()
        made.append((one, two))
    return made


def confirms(arms: Arms, level: float, each: int) -> bool:
    plan = PooledPlan(traces=len(arms), each=each, every=10, level=level, smallest=0.1)
    return find_pooled_effect(arms, plan, ended=True).verdict == "raises"


def test_continuations_of_one_attempt_are_one_observation() -> None:
    """A change that helps some attempts and harms as many: pairs taken for independent confirm it far too often."""
    rng = np.random.default_rng(141)
    sims, each = (1000 if LONG else 60), 8
    clustered = independent = 0
    for _ in range(sims):
        arms = null_traces(rng, 24, each, 0.8)
        clustered += confirms(arms, 0.95, each)
        independent += confirms([([a], [b]) for one, two in arms for a, b in zip(one, two, strict=True)], 0.95, 1)
    print(f"\nconfirmed though nothing: by attempt {clustered / sims:.3f}, by pair {independent / sims:.3f}")
    assert clustered / sims <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / sims)
    assert independent / sims > 0.1


def test_causes_that_are_tried_share_the_error() -> None:
    """Many correlates: without a share of the error for each, some are confirmed too often."""
    rng = np.random.default_rng(142)
    sims, tried = (400 if LONG else 10), 20
    shared = alone = 0
    for _ in range(sims):
        causes = [null_traces(rng, 30, 1, 0.0) for _ in range(tried)]
        shared += any(confirms(arms, 1 - 0.05 / tried, 1) for arms in causes)
        alone += any(confirms(arms, 0.95, 1) for arms in causes)
    print(f"\nsome of {tried} confirmed though nothing: shared {shared / sims:.3f}, alone {alone / sims:.3f}")
    assert shared / sims <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / sims)
    assert alone / sims > 0.05
