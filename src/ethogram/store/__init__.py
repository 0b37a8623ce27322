"""Keep traces, find them by query, prove that nothing changed. Local folders and object stores alike."""

from ethogram.traces import short_id

from . import manifest
from .batch import Batch
from .compact import Compaction, compact
from .entry import Entry
from .lake import DERIVED, Home, home_of, open_home, run_of
from .query import VIEWS, Lake
from .redact import Policy, Redactor
from .retain import Retention, RetentionRule, age_seconds, retain_run, rewrite
from .seal import Keyring
from .sink import Limits, TraceWriter
from .stored_run import Run, RunInfo
from .tables import episode_table
from .verify import IntegrityProblem, Verification, sweep, verify_home, verify_run
from .writer import COMMIT_WINDOW, RunWriter

__all__ = [
    "COMMIT_WINDOW",
    "DERIVED",
    "VIEWS",
    "Batch",
    "Compaction",
    "Entry",
    "Home",
    "IntegrityProblem",
    "Keyring",
    "Lake",
    "Limits",
    "Policy",
    "Redactor",
    "Retention",
    "RetentionRule",
    "Run",
    "RunInfo",
    "RunWriter",
    "TraceWriter",
    "Verification",
    "age_seconds",
    "compact",
    "episode_table",
    "home_of",
    "manifest",
    "open_home",
    "retain_run",
    "rewrite",
    "run_of",
    "short_id",
    "sweep",
    "verify_home",
    "verify_run",
]
