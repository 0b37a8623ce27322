"""Ethogram: run, measure and compare AI agents. Every name is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import names_in

__version__ = "0.1.0"

_NAMES = {
    "Dimension": "questions.field.field",
    "Estimate": "estimate",
    "EthogramError": "errors",
    "Experiment": "questions.experiment.buying.experiment",
    "Field": "questions.field.field",
    "Suite": "plans",
    "Task": "plans",
    "Trace": "traces",
    "compare": "questions.compare.question",
    "costs": "questions.cost.question:cost_of",
    "diff": "questions.divergence.diff",
    "divergence": "questions.divergence.question",
    "explore": "questions.explore.buying.world",
    "field": "questions.field.question:field_of",
    "fork": "questions.fork.buying.fork",
    "from_langgraph": "wire.langgraph",
    "gate": "questions.gate.question",
    "import_logs": "questions.logs.imports",
    "list_runs": "questions.home.runs",
    "load": "questions.home.runs",
    "plan_runs": "questions.gate.planning",
    "reliability": "questions.reliability.question",
    "replay": "questions.replay.buying.replay:replay_trace",
    "report": "viewer.report.report",
    "rescore": "reading.scoring",
    "run_suite": "harness.suites",
    "span": "wire.in_code",
    "sql": "questions.home.queries",
    "tool": "wire.in_code",
    "why": "questions.why.question",
}
_ELSEWHERE = {
    # names of earlier versions
    "export_run": "write `from ethogram.questions.home.exports import export_run`",
    "open_home": "write `from ethogram.store import open_home`; every function also takes `home=` as an address",
    # what people look for because a verb or a package has that name
    "export": "write `from ethogram.questions.home.exports import export_run`",
    "plan": "write `ethogram.plan_runs`",
    "run": "write `ethogram.run_suite`",
    "runs": "write `ethogram.list_runs`",
    "show": "write `from ethogram.questions.home.runs import show_run`",
    "stats": "write `ethogram.reliability`",
    "calibrate": "write `from ethogram.questions.calibration.question import calibrate_run`",
    "judge_run": "write `from ethogram.questions.judging.buying.runs import judge_run`",
    "replay_trace": "write `ethogram.replay`",
    "variance": "write `from ethogram.questions.calibration.variance import variance_of`",
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
    from ethogram.measures.dimension import Dimension

    from .errors import EthogramError
    from .estimate import Estimate
    from .harness.suites import run_suite
    from .plans import Suite, Task
    from .questions.compare.question import compare
    from .questions.cost.question import cost_of as costs
    from .questions.divergence.diff import diff
    from .questions.divergence.question import divergence
    from .questions.experiment.buying.experiment import Experiment
    from .questions.explore.buying.world import explore
    from .questions.field.field import Field
    from .questions.field.question import field_of as field
    from .questions.fork.buying.fork import fork
    from .questions.gate.planning import plan_runs
    from .questions.gate.question import gate
    from .questions.home.queries import sql
    from .questions.home.runs import list_runs, load
    from .questions.logs.imports import import_logs
    from .questions.reliability.question import reliability
    from .questions.replay.buying.replay import replay_trace as replay
    from .questions.why.question import why
    from .reading.scoring import rescore
    from .traces import Trace
    from .viewer.report.report import report
    from .wire.in_code import span, tool
    from .wire.langgraph import from_langgraph


def __dir__() -> list[str]:
    return sorted(__all__)
