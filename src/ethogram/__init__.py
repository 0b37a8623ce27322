"""Ethogram: a laboratory for agents. The front door is light: every name is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import names_in

__version__ = "0.1.0"

_NAMES = {
    "Dimension": "measure.field",
    "Estimate": "estimate",
    "EthogramError": "errors",
    "Experiment": "study.experiment",
    "Field": "measure.field",
    "Suite": "plan",
    "Task": "plan",
    "Trace": "trace",
    "compare": "lab.gate.comparison",
    "diff": "lab.divergence.diffs",
    "divergence": "lab.divergence.divergence",
    "explore": "study.explore_world",
    "export_run": "lab",
    "gate": "lab.gate.gating",
    "import_logs": "lab",
    "list_runs": "lab",
    "load": "lab",
    "open_home": "store",
    "plan_runs": "lab.gate.planning",
    "reliability": "lab.outcomes.reliability",
    "report": "show.report",
    "rescore": "lab.outcomes.scoring",
    "run_suite": "run.suites",
    "sql": "lab",
}
__getattr__ = names_in(__name__, _NAMES)

__all__ = [
    "Dimension",
    "Estimate",
    "EthogramError",
    "Experiment",
    "Field",
    "Suite",
    "Task",
    "Trace",
    "__version__",
    "compare",
    "diff",
    "divergence",
    "explore",
    "export_run",
    "gate",
    "import_logs",
    "list_runs",
    "load",
    "open_home",
    "plan_runs",
    "reliability",
    "report",
    "rescore",
    "run_suite",
    "sql",
]

if TYPE_CHECKING:
    from .errors import EthogramError
    from .estimate import Estimate
    from .lab import export_run, import_logs, list_runs, load, sql
    from .lab.divergence.diffs import diff
    from .lab.divergence.divergence import divergence
    from .lab.gate.comparison import compare
    from .lab.gate.gating import gate
    from .lab.gate.planning import plan_runs
    from .lab.outcomes.reliability import reliability
    from .lab.outcomes.scoring import rescore
    from .measure.field import Dimension, Field
    from .plan import Suite, Task
    from .run.suites import run_suite
    from .show.report import report
    from .store import open_home
    from .study.experiment import Experiment
    from .study.explore_world import explore
    from .trace import Trace


def __dir__() -> list[str]:
    return sorted(__all__)
