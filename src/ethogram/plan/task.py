"""Tasks and suites: what is asked, and how the answer will be verified. Inert."""

from __future__ import annotations

from typing import Any

import msgspec

from ethogram.trace import digest


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One verifier of a task by name, with its settings; `required` ones decide the outcome together."""

    kind: str
    name: str = ""
    required: bool = True
    settings: dict[str, Any] = {}


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked of an agent."""

    id: str
    prompt: str = ""
    inputs: dict[str, Any] = {}
    files: dict[str, str] = {}
    tools: tuple[str, ...] = ()
    expected: Any = None
    checks: tuple[Check, ...] = ()
    meta: dict[str, Any] = {}


class Suite(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A frozen, versioned set of tasks (the golden set)."""

    name: str
    tasks: tuple[Task, ...]
    version: str = "1"
    success_at: float = 0.5

    @property
    def digest(self) -> str:
        """The hash of everything that is asked: scores of different digests are never mixed."""
        return digest("suite", msgspec.json.encode(self, order="deterministic"))
