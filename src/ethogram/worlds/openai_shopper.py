"""An ordinary agent, written with the package of OpenAI: it makes its own client and calls the tools of its task.

It says nothing to Ethogram about its model calls; they are captured where they pass. In a demonstration the local
model answers them.
"""

from __future__ import annotations

import inspect
import json
from functools import cache
from typing import Any

from openai import OpenAI

MODEL = "gpt-4o-mini"
SYSTEM = "You work in a shop. Look things up with your tools, then answer with the number or the word alone."
MAX_TURNS = 6
_KINDS = {"int": "integer", "float": "number"}


@cache
def client() -> OpenAI:
    """The client of this process; it finds its address in the environment."""
    return OpenAI()


def solve(task: Any, episode: Any) -> str | None:
    """Work on a task of the shop."""
    offered = [offered_tool(name, episode.tools.plain(name)) for name in episode.tools]
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.prompt}]
    for _ in range(MAX_TURNS):
        completion = client().chat.completions.create(model=MODEL, messages=messages, tools=offered)
        reply = completion.choices[0].message
        if not reply.tool_calls:
            answer: str | None = reply.content
            return answer
        messages.append(reply)
        messages += [result_of(call, episode.tools) for call in reply.tool_calls]
    return None


def offered_tool(name: str, function: Any) -> Any:
    """A tool as the API takes it."""
    found = inspect.signature(function).parameters.values()
    parameters = {p.name: {"type": _KINDS.get(str(p.annotation), "string")} for p in found}
    schema = {"type": "object", "properties": parameters, "required": list(parameters)}
    words = (inspect.getdoc(function) or "").partition("\n")[0]
    return {"type": "function", "function": {"name": name, "description": words, "parameters": schema}}


def result_of(call: Any, tools: Any) -> dict[str, str]:
    """Call a tool; what went wrong is told to the model."""
    try:
        content = str(tools[call.function.name](**json.loads(call.function.arguments)))
    except (LookupError, ValueError, TypeError, ArithmeticError) as error:
        content = f"Error: {error}"
    return {"role": "tool", "tool_call_id": call.id, "content": content}
