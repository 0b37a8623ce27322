"""tau-bench results: one JSON array of `{task_id, trial, reward, info, traj}`.

The log has no times, tokens or agent cost; `info.user_cost` is the simulator's bill and stays a meta value.
Call ids repeat, even inside one run, so calls and results are paired by position and id together.
"""

from __future__ import annotations

from typing import Any

from ethogram.capture.chat import ChatBuilder
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_float, as_int, as_name, as_text, to_json
from ethogram.capture.peek import Peek
from ethogram.capture.records import records
from ethogram.capture.source import Source

from ._shared import add_crash, as_listing, as_object, feed, infrastructure, verdict

FORMAT = "tau-bench"
_KNOWN = {"task_id", "trial", "reward", "info", "traj"}
_KNOWN_INFO = {"source", "user_cost", "user_model", "reward_info", "task", "error", "traceback"}
MARKS = frozenset(["traj"])


def sniff(peek: Peek) -> int:
    """Results carry a trajectory under `traj` and a task's id."""
    return 95 if {"task_id", "traj"} <= peek.first.keys() else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per element."""
    for position, (where, item) in enumerate(records(source, intake)):
        with intake.record(where):
            _read_one(as_object(item, "the result"), where, position, intake)


def _read_one(item: dict[str, Any], where: str, position: int, intake: Intake) -> None:
    messages = as_listing(item.get("traj"), "traj")
    info = as_dict(item.get("info"))
    error = as_text(info.get("traceback") or info.get("error"))
    with intake.trace(f"{as_name(item.get('task_id'))}/{as_name(item.get('trial', position))}") as trace:
        trace.task = as_name(item.get("task_id"))
        trace.attempt = as_int(item.get("trial"))
        trace.outcome = infrastructure(error) or verdict(item.get("reward"), "reward")
        trace.meta = {
            **{k: v for k, v in item.items() if k not in _KNOWN},
            **{f"info.{k}": v for k, v in info.items() if k not in _KNOWN_INFO},
            "ended_by": info.get("source"),
            "user_cost_usd": as_float(info.get("user_cost")),
            "user_model": info.get("user_model"),
            "reward_info": None if info.get("reward_info") is None else to_json(info["reward_info"]),
            "task": to_json(info["task"]) if info.get("task") else None,
            "error": info.get("error"),
        }
        chat = ChatBuilder(trace)
        feed(chat, messages, intake, where)
        chat.close()
        if error:
            add_crash(trace, error)
            trace.label("reward", as_float(item.get("reward")), by=FORMAT)
