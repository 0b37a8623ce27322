"""The desk: customers want refunds, and a scripted model whose success depends on one choice.

The model may look the order up first, or not: this choice causes successes and failures. It also takes
notes, mostly of angry customers, whose refunds fail more often anyway: notes stand in failed runs and do nothing. Both
look alike in a log; an experiment tells them apart.

It is a suite and an agent: `ethogram run ethogram.worlds.desk --agent ethogram.worlds.desk:clerk`, under
`python -m ethogram.worlds.model_server --scripted ethogram.worlds.desk:model --`.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from ethogram.plans import Check, Suite, Task
from ethogram.traces import ToolResult
from ethogram.wire.gateway.call import ModelReply, ModelRequest

from .model_server import text_reply, tool_reply

MODEL = "clerk-1"
MAX_TURNS = 8
AMOUNTS = {"ada": 30, "ben": 12, "cleo": 75, "dan": 41}
LOOKS_UP = 0.5
"""How often the model begins by looking the order up."""
ANGRY = 0.6
"""How many tickets are angry."""
NOTES = {"angry": 0.9, "calm": 0.05}
CHANCES = {(True, "calm"): 0.95, (True, "angry"): 0.5, (False, "calm"): 0.5, (False, "angry"): 0.05}
"""Success by whether the order was looked up and the tone of the ticket: looking up is worth .45 in both."""

SUITE = Suite(
    name="desk",
    tasks=tuple(
        Task(
            id=f"refund-{name}",
            prompt=f"Refund the order of {name}. Answer with the amount.",
            tools=("read_ticket", "note", "look_up", "refund"),
            expected=amount,
            checks=(Check(kind="numeric"),),
        )
        for name, amount in AMOUNTS.items()
    ),
)


def tools(task: Task, episode: Any) -> dict[str, Callable[..., str]]:
    """Tools of one episode: the tone of its ticket is drawn with its seed."""
    tone = "angry" if episode.random("tone").random() < ANGRY else "calm"

    def read_ticket(name: str) -> str:
        """what a customer wrote"""
        return f"{name} wants the money back, in a tone that is {tone}"

    def note(text: str) -> str:
        """keep a note"""
        return "noted"

    def look_up(name: str) -> str:
        """the order of a customer"""
        return f"order of {name}: open"

    def refund(name: str) -> str:
        """refund the order of a customer"""
        return f"refunded {name}"

    return {f.__name__: f for f in (read_ticket, note, look_up, refund)}


def clerk(task: Task, episode: Any) -> str | None:
    """Work on a task: ask the model, call the tools that it asks for, until it answers."""
    talk: list[dict[str, Any]] = [{"role": "user", "content": task.prompt}]
    place = urlsplit(os.environ["OPENAI_BASE_URL"])
    with closing(HTTPConnection(place.netloc, timeout=60)) as connection:
        for _ in range(MAX_TURNS):
            asked = json.dumps({"model": MODEL, "messages": talk, "seed": episode.seed % 2**31})
            connection.request("POST", f"{place.path}/chat/completions", asked, {"content-type": "application/json"})
            answer = json.loads(connection.getresponse().read())
            reply = answer["choices"][0]["message"]
            talk.append(reply)
            if not reply.get("tool_calls"):
                return str(reply["content"])
            for call in reply["tool_calls"]:
                result = episode.tools[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
                talk.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return None


def model(request: ModelRequest) -> ModelReply:
    """The next reply of the model: every draw depends on the seed of the request and on what is decided alone."""
    name = request.messages[0].text.split()[4].strip(".")
    said = [call.name for m in request.messages for call in m.tool_calls]
    results = [p.content for m in request.messages for p in m.parts if isinstance(p, ToolResult)]
    seed = request.params.get("seed")

    def happens(what: str, chance: float) -> bool:
        return random.Random(f"{seed}:{what}").random() < chance

    if not said and happens("look up", LOOKS_UP):
        return tool_reply(("look_up", {"name": name}))
    if "read_ticket" not in said:
        return tool_reply(("read_ticket", {"name": name}))
    tone = "angry" if any(r.endswith("angry") for r in results) else "calm"
    if said[-1] == "read_ticket" and happens("note", NOTES[tone]):
        return tool_reply(("note", {"text": f"{name} waits"}))
    if said[-1] != "refund":
        return tool_reply(("refund", {"name": name}))
    right = happens("right", CHANCES["look_up" in said, tone])
    return text_reply(str(AMOUNTS[name] if right else AMOUNTS[name] // 2))
