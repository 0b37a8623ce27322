"""One small file per foreign format. Each has `sniff(peek) -> int` (0–100) and `read(source, intake)`.

`MARKS` are keys of which every document of the format has at least one: a reader is not asked about a document that
has none of them, so that a folder of small files is recognised fast.

An installed package adds a reader of its own with an entry point in the group `ethogram.readers`: its name is that of
the format, and it names a module with `sniff` and `read`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from ethogram.capture.intake import RECORD_ERRORS, Intake
from ethogram.capture.peek import Peek, peek_at
from ethogram.capture.source import UNKNOWN, Source
from ethogram.errors import BadInput
from ethogram.plugins import Plugged, plugged

GROUP = "ethogram.readers"
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
    "promptfoo": "promptfoo",
    "deepeval": "deepeval",
    "pydantic-evals": "pydantic_evals",
    "lm-eval": "lm_eval",
    "langsmith": "langsmith",
    "episodes": "episodes",
    "table": "table",
}


class Reader(NamedTuple):
    """A format that can be read."""

    format: str
    sniff: Callable[[Peek], int]
    read: Callable[[Source, Intake], None]
    marks: frozenset[str] | None = None
    """Of a source that is one JSON document: it is of this format only if it has one of these keys. None: ask."""


def formats() -> list[str]:
    """The names of all formats that can be read: our own, then those that installed packages add."""
    return [*MODULES, *plugged_readers().values()]


def reader(name: str) -> Reader:
    """The reader of a format by its name; raises `NotFound` or, for a plug-in that does not work, `BadInput`."""
    if name in MODULES:
        return _own_reader(name)
    added = plugged_readers()
    found = added.values().get(name)
    if found is None:
        raise added.missing(name, formats())
    return found


def plugged_readers() -> Plugged[Reader]:
    """The readers that installed packages add."""
    return _plugged_readers(tuple(sys.path))


def recognise(source: Source) -> Reader | None:
    """The reader that is surest that the bytes are its own; the name of the file plays no part."""
    if source.recognised is UNKNOWN:
        source.recognised = _surest(peek_at(source))
    found: Reader | None = source.recognised
    return found


def _surest(peek: Peek) -> Reader | None:
    best, best_score = None, 0
    whole = peek.shape == "object"
    for candidate in _candidates(tuple(sys.path)):
        if whole and candidate.marks is not None and candidate.marks.isdisjoint(peek.first):
            continue
        try:
            score = candidate.sniff(peek)
        except RECORD_ERRORS:  # a reader that fails on damaged bytes does not recognise them
            continue
        if score > best_score:
            best, best_score = candidate, score
    return best


@cache
def _own_reader(name: str) -> Reader:
    module = import_module(f"{__name__}.{MODULES[name]}")
    return Reader(name, module.sniff, module.read, module.MARKS)


@lru_cache(maxsize=4)
def _candidates(path: tuple[str, ...]) -> tuple[Reader, ...]:
    return (*map(_own_reader, MODULES), *_plugged_readers(path).values().values())


@lru_cache(maxsize=4)
def _plugged_readers(path: tuple[str, ...]) -> Plugged[Reader]:
    """Asked again when the path for imports has changed; every file asks."""
    return plugged(GROUP, _checked, taken=MODULES)


def _checked(loaded: Any, name: str) -> Reader:
    missing = [part for part in ("sniff", "read") if not callable(getattr(loaded, part, None))]
    if missing:
        raise BadInput(f"it is not a reader: it has no function {' and no function '.join(missing)}")
    return Reader(name, loaded.sniff, loaded.read)
