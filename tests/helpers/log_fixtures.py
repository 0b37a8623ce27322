"""Small logs that anybody can write, and a lake with a run in it."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.questions.logs.imports import import_logs
from ethogram.store import Home


def turns(task: Any, trial: int, reward: float | None = 1.0, words: str = "Ring the bell.") -> dict[str, Any]:
    """One run of a small agent, as tau-bench writes it."""
    call = {"id": "c1", "type": "function", "function": {"name": "ring", "arguments": '{"times": 1}'}}
    talk = [
        {"role": "user", "content": words},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "ring", "content": "ding" if reward else "Error: no bell"},
        {"role": "assistant", "content": f"Rung, {trial}."},
    ]
    return {"task_id": task, "trial": trial, "reward": reward, "info": {"source": "user"}, "traj": talk}


def chat(*words: str) -> bytes:
    """One conversation as a line of JSON."""
    talk = [{"role": ("user", "assistant")[i % 2], "content": w} for i, w in enumerate(words)]
    return json.dumps({"messages": talk}).encode() + b"\n"


def session(length: int, name: str = "33333333-3333-4333-8333-333333333333") -> bytes:
    """A session of Claude Code with `count` messages."""
    lines = []
    for i in range(length):
        speaker = ("user", "assistant")[i % 2]
        message: dict[str, Any] = {"role": speaker, "content": f"word {i}"}
        if speaker == "assistant":
            message |= {
                "id": f"msg_{i}",
                "model": "m",
                "content": [{"type": "text", "text": f"word {i}"}],
                "usage": {"input_tokens": 3, "output_tokens": 1},
            }
        line = {"type": speaker, "uuid": f"{i:08d}-0000-4000-8000-000000000000", "sessionId": name, "cwd": "tower"}
        line |= {"parentUuid": f"{i - 1:08d}-0000-4000-8000-000000000000" if i else None, "isSidechain": False}
        line |= {"version": "1.0.0", "timestamp": f"2026-01-02T03:04:{i % 60:02d}.000Z", "message": message}
        lines.append(json.dumps(line).encode() + b"\n")
    return b"".join(lines)


class Logs:
    """A folder to write logs into."""

    turns = staticmethod(turns)
    chat = staticmethod(chat)
    session = staticmethod(session)

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, name: str, data: bytes | list[Any] | dict[str, Any]) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
        return path


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    (tmp_path / "logs").mkdir()
    return Logs(tmp_path / "logs")


@pytest.fixture
def bells(logs: Logs, home: Home) -> str:
    """A run of two tasks with two attempts each; one of the four failed."""
    four = [turns(t, k, float((t, k) != (1, 1))) for k in (0, 1) for t in (0, 1)]
    import_logs(logs.put("bells.json", four), home=home, run="bells", redact="none", tags=("small",))
    return "bells"


@pytest.fixture(scope="session")
def samples() -> dict[str, bytes]:
    """One tiny document per format."""
    place = Path(__file__).parents[1] / "capture" / "readers" / "samples.py"
    spec = importlib.util.spec_from_file_location("lab_samples", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, bytes] = module.SAMPLES
    return found


@pytest.fixture
def segments() -> Callable[[Home, str], int]:
    """How many files a run has in all."""

    def count(home: Home, run: str) -> int:
        return len(home.resolve(run).standing.files) + len(home.resolve(run).segments())

    return count
