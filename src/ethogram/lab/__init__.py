"""One function per question about stored runs: load, measure, decide, return a typed result."""

from ethogram.lab.home.exports import ExportResult, export_run
from ethogram.lab.home.queries import Answer, arrow, sql
from ethogram.lab.home.runs import RunList, RunSummary, TraceTree, list_runs, load, remove_run, show_run, show_trace
from ethogram.lab.home.upkeep import check_health, retain_runs, verify_runs
from ethogram.lab.logs.imports import ImportOptions, ImportResult, import_logs, watch_logs
from ethogram.result import Result

__all__ = [
    "Answer",
    "ExportResult",
    "ImportOptions",
    "ImportResult",
    "Result",
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
