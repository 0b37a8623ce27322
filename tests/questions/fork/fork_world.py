"""A small world to fork: a shop with an order book in the workspace, and an ordinary agent that works in it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from ethogram.harness.suites import run
from ethogram.store import Home
from ethogram.traces import ToolResult
from ethogram.wire.gateway.call import ModelReply, ModelRequest
from ethogram.worlds.model_server import ModelServer, serve_model, text_reply, tool_reply

TASKS = """
- id: order-tea
  prompt: Order one tea.
  tools: [stock, order, gauge]
  expected: "yes"
  checks: [{kind: equals}]
  meta: {workspace: true}
"""
TOOLS = """
import json, pathlib, time

GAUGE = pathlib.Path(__file__).with_name("gauge.txt")

def tools(task, episode):
    draws = episode.random("shelf")

    def stock(item: str):
        return {"item": item, "shelf": draws.randrange(1000)}

    def order(item: str) -> str:
        book = episode.workspace / "orders.json"
        orders = json.loads(book.read_text()) if book.exists() else []
        if item == "lamp":
            raise LookupError("the shop has no lamp")
        book.write_text(json.dumps([*orders, item]))
        return f"{len(orders) + 1} ordered"

    def gauge() -> str:
        return GAUGE.read_text()

    return {"stock": stock, "order": order, "gauge": gauge}
"""
AGENT = """
import json, sys
import openai

client = openai.OpenAI(api_key="k", max_retries=0)

def solve(task, episode):
    messages = [{"role": "system", "content": "Be quick."}, {"role": "user", "content": task.prompt}]
    for _ in range(8):
        asked = client.chat.completions.create(model="m-1", messages=messages, seed=episode.seed % 1000)
        reply = asked.choices[0].message
        if not reply.tool_calls:
            return reply.content
        messages.append(reply.model_dump(exclude_none=True))
        for call in reply.tool_calls:
            try:
                result = episode.tools[call.function.name](**json.loads(call.function.arguments))
            except LookupError as error:
                result = str(error)
            result = result if isinstance(result, str) else json.dumps(result)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
"""

Model = Callable[[ModelRequest], ModelReply]


class Shopper:
    """Looks at something, orders, and answers: right with a chance that depends on what it ordered and nothing else.

    What it says with a wrong order is a correlate: it stands in the same traces, and does nothing. With `carefully` in
    its prompt, and as model `m-2`, it never orders wrongly; a result `sold out` spoils a right order.
    """

    def __init__(
        self,
        seed: int,
        right: float = 0.9,
        wrong: float = 0.1,
        slips: float = 0.5,
        first: str = "stock",
        last: str = "",
    ) -> None:
        self.right, self.wrong, self.slips = right, wrong, slips
        self.first, self.last = first, last
        self._drawn = random.Random(seed)
        self._lock = threading.Lock()

    def draw(self) -> float:
        with self._lock:
            return self._drawn.random()

    def __call__(self, request: ModelRequest) -> ModelReply:
        said = [m for m in request.messages if m.role == "assistant"]
        if not said:
            return self.look(self.first)
        if len(said) == 1:
            careful = "carefully" in request.messages[0].text or request.model == "m-2"
            slips = not careful and self.draw() < self.slips
            return tool_reply(("order", {"item": "milk" if slips else "tea"}), text="Oh." if slips else "Fine.")
        if len(said) == 2 and self.last:
            return self.look(self.last)
        results = [p.content for m in request.messages for p in m.parts if isinstance(p, ToolResult)]
        ordered = said[1].tool_calls[0].arguments
        chance = self.wrong if "milk" in ordered or "sold out" in results else self.right
        return text_reply("yes" if self.draw() < chance else "no")

    def look(self, tool: str) -> ModelReply:
        return tool_reply((tool, {} if tool == "gauge" else {"item": "tea"}))


class ForkWorld(ExitStack):
    """The suite and the agent in a working folder, and the model that is served to this process now."""

    Shopper = Shopper

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.folder = folder
        self.patch = patch
        self.server: ModelServer | None = None
        (folder / "shop").mkdir(parents=True)
        for name, text in (("tasks.yaml", TASKS), ("tools.py", TOOLS), ("gauge.txt", "20")):
            (folder / "shop" / name).write_text(text)
        (folder / "agent.py").write_text(AGENT)
        patch.chdir(folder)
        patch.setenv("OPENAI_API_KEY", "k")

    def serve(self, model: Model) -> None:
        """Serve a model in place of the one before, at the same address, since clients keep theirs."""
        self.model = model
        if self.server is None:
            self.server = self.enter_context(serve_model(lambda request: self.model(request)))
            self.patch.setenv("OPENAI_BASE_URL", f"{self.server.address}/v1")

    def record(self, home: Home, k: int = 6, name: str = "night") -> None:
        """Attempts at the task, as anybody would run them."""
        run("shop", "agent.py:solve", k=k, run=name, home=home)

    def traces(self, home: Home, said: str, name: str = "night") -> list[str]:
        """The traces in which the model said this with its order."""
        run = home.run(name)
        found = [run.trace(e) for e in run.entries]
        return [t.head.trace_id for t in found if t.message(t.steps[2].output[0]).text == said]
