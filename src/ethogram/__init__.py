"""Ethogram: a laboratory for agents. The front door is light: every name is imported when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_NAMES = {
    "EthogramError": "errors",
    "Estimate": "estimate",
    "Message": "trace",
    "Missing": "trace",
    "Scored": "trace",
    "Span": "trace",
    "Suite": "plan",
    "Task": "plan",
    "Trace": "trace",
    "export_run": "lab",
    "import_logs": "lab",
    "list_runs": "lab",
    "load": "lab",
    "open_home": "store",
    "rescore": "lab.scoring",
    "run_suite": "study.suites",
    "sql": "lab",
}

__all__ = [
    "Estimate",
    "EthogramError",
    "Message",
    "Missing",
    "Scored",
    "Span",
    "Suite",
    "Task",
    "Trace",
    "__version__",
    "export_run",
    "import_logs",
    "list_runs",
    "load",
    "open_home",
    "rescore",
    "run_suite",
    "sql",
]

if TYPE_CHECKING:
    from .errors import EthogramError
    from .estimate import Estimate
    from .lab import export_run, import_logs, list_runs, load, sql
    from .lab.scoring import rescore
    from .plan import Suite, Task
    from .store import open_home
    from .study.suites import run_suite
    from .trace import Message, Missing, Scored, Span, Trace


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'ethogram' has no attribute {name!r}")
    return getattr(import_module(f".{_NAMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
