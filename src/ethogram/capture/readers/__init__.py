"""One small file per foreign format. Each has `FORMAT`, `sniff(peek) -> int` (0–100) and `read(source, intake)`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from ethogram.capture.intake import RECORD_ERRORS, Intake
from ethogram.capture.peek import Peek, peek_at
from ethogram.capture.source import Source
from ethogram.errors import NotFound

MODULES = {
    "jsonl": "jsonl",
    "inspect": "inspect",
    "otlp": "otlp",
    "openinference": "openinference",
    "langfuse": "langfuse",
    "trail": "trail",
    "atif": "atif",
    "claude-code": "claude_code",
    "openclaw": "openclaw",
    "tau-bench": "tau_bench",
    "tau2": "tau2",
    "swe-agent": "swe_agent",
    "mini-swe-agent": "mini_swe_agent",
    "openhands": "openhands",
    "agentdojo": "agentdojo",
    "mast": "mast",
    "who-and-when": "who_and_when",
    "traxr": "traxr",
    "openai-chat": "openai_chat",
}


class Reader(NamedTuple):
    """A format that can be read."""

    format: str
    sniff: Callable[[Peek], int]
    read: Callable[[Source, Intake], None]


def reader(name: str) -> Reader:
    """The reader of a format by its name."""
    if name not in MODULES:
        raise NotFound.named("format", name, list(MODULES))
    module = import_module(f"{__name__}.{MODULES[name]}")
    return Reader(name, module.sniff, module.read)


def recognise(source: Source) -> Reader | None:
    """The reader that is surest that the bytes are its own; the name of the file plays no part."""
    peek = peek_at(source)
    best, best_score = None, 0
    for name in MODULES:
        candidate = reader(name)
        try:
            score = candidate.sniff(peek)
        except RECORD_ERRORS:  # a first look at damage may stumble; whoever does so does not know these bytes
            continue
        if score > best_score:
            best, best_score = candidate, score
    return best
