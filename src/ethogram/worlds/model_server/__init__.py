"""A model behind the APIs of OpenAI and Anthropic, on this machine: scripted by a function, or the real local model.

Clients of both packages, and everything built on them, run against it without a key:

    python -m ethogram.worlds.model_server -- ethogram run suite --agent my_agent.py:solve -k 5

starts it on a free port of 127.0.0.1, runs the command with `OPENAI_BASE_URL` and `ANTHROPIC_BASE_URL` set, and ends
with it. Without a command it serves until it is stopped. In a program or a test, `serve_model` does the same.
"""

from .scripted import ReplyError, ReplyFunction, in_turn, text_reply, tool_reply
from .server import ModelServer, ServedCall, ServerOptions, serve_model

__all__ = [
    "ModelServer",
    "ReplyError",
    "ReplyFunction",
    "ServedCall",
    "ServerOptions",
    "in_turn",
    "serve_model",
    "text_reply",
    "tool_reply",
]
