"""Ethogram: run, measure and compare AI agents. Every name is imported when it is first used."""

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
    "costs": "lab.cost.costs:cost_of",
    "diff": "lab.divergence.diffs",
    "divergence": "lab.divergence.divergence",
    "explore": "study.explore_world",
    "field": "lab.field.fields:field_of",
    "fork": "study.fork",
    "from_langgraph": "capture.langgraph",
    "gate": "lab.gate.gating",
    "import_logs": "lab",
    "list_runs": "lab",
    "load": "lab",
    "plan_runs": "lab.gate.planning",
    "reliability": "lab.outcomes.reliability",
    "replay": "study.replay:replay_trace",
    "report": "show.report",
    "rescore": "lab.outcomes.scoring",
    "run_suite": "run.suites",
    "span": "capture.in_code",
    "sql": "lab",
    "tool": "capture.in_code",
    "why": "lab.why.why",
}
_ELSEWHERE = {
    # names of earlier versions
    "export_run": "write `from ethogram.lab import export_run`",
    "open_home": "write `from ethogram.store import open_home`; every function also takes `home=` as an address",
    # what people look for because a verb or a package has that name
    "export": "write `from ethogram.lab import export_run`",
    "plan": "write `ethogram.plan_runs`",
    "run": "write `ethogram.run_suite`",
    "runs": "write `ethogram.list_runs`",
    "show": "write `from ethogram.lab import show_run`",
    "stats": "write `ethogram.reliability`",
    "calibrate": "write `from ethogram.lab.calibration.calibrating import calibrate_run`",
    "judge_run": "write `from ethogram.study.judging.runs import judge_run`",
    "replay_trace": "write `ethogram.replay`",
    "variance": "write `from ethogram.lab.calibration.variance import variance_of`",
    # the package agent_fields (aft)
    "FieldMetrics": "write `from ethogram.agent_fields import FieldMetrics`, or ask a field for its `metrics()`",
    "visualisations": "write `from ethogram.agent_fields import visualisations`, or call `.plot()` of a result",
    # the package traxr
    "ExperimentResults": "`ethogram.Experiment(…).run()` gives them; print their `summary()`",
    "builtin_agent": 'give `ethogram.Experiment` your agent, for example `agent="my_agent.py:solve"`',
    "emit": 'write `with ethogram.span("name", attributes={…}):`, which does nothing outside of a run',
    "instrument": "no client is wrapped: model calls of a run are recorded by its gateway; mark tools with "
    "`ethogram.tool`, and take a graph with `ethogram.from_langgraph`",
    "patch_openai": "no client is patched: model calls of a run are recorded by its gateway",
    "register_signature": "give `signature=` to `ethogram.diff` or `ethogram.divergence`",
}
"""Names that are not here, and what to write instead."""
__getattr__ = names_in(__name__, _NAMES, _ELSEWHERE)

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
    "costs",
    "diff",
    "divergence",
    "explore",
    "field",
    "fork",
    "from_langgraph",
    "gate",
    "import_logs",
    "list_runs",
    "load",
    "plan_runs",
    "reliability",
    "replay",
    "report",
    "rescore",
    "run_suite",
    "span",
    "sql",
    "tool",
    "why",
]

if TYPE_CHECKING:
    from .capture.in_code import span, tool
    from .capture.langgraph import from_langgraph
    from .errors import EthogramError
    from .estimate import Estimate
    from .lab import import_logs, list_runs, load, sql
    from .lab.cost.costs import cost_of as costs
    from .lab.divergence.diffs import diff
    from .lab.divergence.divergence import divergence
    from .lab.field.fields import field_of as field
    from .lab.gate.comparison import compare
    from .lab.gate.gating import gate
    from .lab.gate.planning import plan_runs
    from .lab.outcomes.reliability import reliability
    from .lab.outcomes.scoring import rescore
    from .lab.why.why import why
    from .measure.field import Dimension, Field
    from .plan import Suite, Task
    from .run.suites import run_suite
    from .show.report import report
    from .study.experiment import Experiment
    from .study.explore_world import explore
    from .study.fork import fork
    from .study.replay import replay_trace as replay
    from .trace import Trace


def __dir__() -> list[str]:
    return sorted(__all__)
