"""One function per question about stored runs: load, measure, decide, return a typed result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ethogram.lazy import names_in

if TYPE_CHECKING:
    from ethogram.lab.home.exports import ExportResult, export_run
    from ethogram.lab.home.maintenance import check_health, retain_runs, verify_runs
    from ethogram.lab.home.queries import QueryResult, arrow, sql
    from ethogram.lab.home.runs import RunList, RunSummary, list_runs, load, remove_run, show_run
    from ethogram.lab.logs.imports import ImportOptions, ImportResult, import_logs
    from ethogram.lab.logs.watching import watch_logs
    from ethogram.lab.trace.traces import TraceTree, show_trace

_NAMES = {
    "QueryResult": "home.queries",
    "ExportResult": "home.exports",
    "ImportOptions": "logs.imports",
    "ImportResult": "logs.imports",
    "RunList": "home.runs",
    "RunSummary": "home.runs",
    "TraceTree": "trace.traces",
    "arrow": "home.queries",
    "check_health": "home.maintenance",
    "export_run": "home.exports",
    "import_logs": "logs.imports",
    "list_runs": "home.runs",
    "load": "home.runs",
    "remove_run": "home.runs",
    "retain_runs": "home.maintenance",
    "show_run": "home.runs",
    "show_trace": "trace.traces",
    "sql": "home.queries",
    "verify_runs": "home.maintenance",
    "watch_logs": "logs.watching",
}
"""Imported on use: who lists runs needs no reader of logs."""
__getattr__ = names_in(__name__, _NAMES)

__all__ = [
    "ExportResult",
    "ImportOptions",
    "ImportResult",
    "QueryResult",
    "RunList",
    "RunSummary",
    "TraceTree",
    "arrow",
    "check_health",
    "export_run",
    "import_logs",
    "list_runs",
    "load",
    "remove_run",
    "retain_runs",
    "show_run",
    "show_trace",
    "sql",
    "verify_runs",
    "watch_logs",
]
