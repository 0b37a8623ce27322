"""A small working suite and agent to begin with."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from ethogram.errors import BadUsage
from ethogram.result import Result


class Started(Result, kw_only=True):
    """What was written, and what to type next."""

    files: list[str]
    next: str


def write_starter(folder: str | Path = ".") -> Started:
    """Write `suite/` and `agent.py`; nothing that exists is overwritten."""
    target = Path(folder)
    found = list(_walk(resources.files("ethogram.questions.home") / "starter_files", ""))
    for name, _ in found:
        if (target / name).exists():
            raise BadUsage(f"{target / name} exists already; begin in an empty folder")
    for name, source in found:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(source.read_bytes())
    return Started(files=[n for n, _ in found], next="ethogram run suite --agent agent.py:solve -k 5")


def _walk(place: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for child in sorted(place.iterdir(), key=lambda c: c.name):
        if child.name == "__pycache__":
            continue
        name = f"{prefix}{child.name}"
        found.extend(_walk(child, f"{name}/") if child.is_dir() else [(name, child)])
    return found
