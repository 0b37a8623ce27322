"""One function per question about stored runs: load, measure, decide, return a typed result."""

from .exports import ExportResult, export_run
from .imports import ImportOptions, ImportResult, import_logs, watch_logs
from .queries import Answer, arrow, sql
from .result import Result
from .runs import RunList, RunSummary, TraceTree, list_runs, load, remove_run, show_run, show_trace
from .upkeep import check_health, retain_runs, verify_runs

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
