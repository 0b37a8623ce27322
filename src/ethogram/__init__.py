"""Ethogram: run, measure and compare AI agents.

`ethogram.VERB(…)` answers what the command `ethogram VERB` answers. Every name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import names_in

__version__ = "0.1.0"

_NAMES = {
    "Dimension": "measures.dimension",
    "Estimate": "estimate",
    "EthogramError": "errors",
    "Experiment": "questions.experiment.buying.experiment",
    "Field": "questions.field.field",
    "Suite": "plans",
    "Task": "plans",
    "Trace": "traces",
    "calibrate": "questions.calibration.question",
    "compare": "questions.compare.question",
    "cost": "questions.cost.question",
    "diff": "questions.divergence.diff",
    "divergence": "questions.divergence.question",
    "explore": "questions.explore.buying.world",
    "export": "questions.home.exports",
    "field": "questions.field.question",
    "fork": "questions.fork.buying.fork",
    "from_langgraph": "wire.langgraph",
    "gate": "questions.gate.question",
    "golden": "questions.golden.question",
    "import_logs": "questions.logs.imports",
    "incident": "questions.incident.closing",
    "judge": "questions.judging.buying.runs",
    "label": "questions.calibration.labels",
    "load": "questions.home.runs",
    "plan": "questions.gate.planning",
    "replay": "questions.replay.buying.replay",
    "report": "viewer.report.report",
    "retain": "questions.home.maintenance",
    "rm": "questions.home.runs",
    "run": "harness.suites",
    "runs": "questions.home.runs",
    "score": "questions.scoring.question",
    "show": "questions.home.runs",
    "span": "wire.in_code",
    "sql": "questions.home.queries",
    "stats": "questions.reliability.question",
    "tool": "wire.in_code",
    "trace": "reading.traces",
    "variance": "questions.calibration.variance",
    "verify": "questions.home.maintenance",
    "why": "questions.why.question",
}
"""The front door: each name, and the module that defines it under this name."""
__getattr__ = names_in(__name__, _NAMES)
__all__ = ["__version__", *_NAMES]  # noqa: PLE0604

if TYPE_CHECKING:  # what editors and type checkers read; a test holds it equal to the table
    # isort: off
    from .errors import EthogramError as EthogramError
    from .estimate import Estimate as Estimate
    from .harness.suites import run as run
    from .measures.dimension import Dimension as Dimension
    from .plans import Suite as Suite, Task as Task
    from .questions.calibration.labels import label as label
    from .questions.calibration.question import calibrate as calibrate
    from .questions.calibration.variance import variance as variance
    from .questions.compare.question import compare as compare
    from .questions.cost.question import cost as cost
    from .questions.divergence.diff import diff as diff
    from .questions.divergence.question import divergence as divergence
    from .questions.experiment.buying.experiment import Experiment as Experiment
    from .questions.explore.buying.world import explore as explore
    from .questions.field.field import Field as Field
    from .questions.field.question import field as field
    from .questions.fork.buying.fork import fork as fork
    from .questions.gate.planning import plan as plan
    from .questions.gate.question import gate as gate
    from .questions.golden.question import golden as golden
    from .questions.home.exports import export as export
    from .questions.home.maintenance import retain as retain, verify as verify
    from .questions.home.queries import sql as sql
    from .questions.home.runs import load as load, rm as rm, runs as runs, show as show
    from .questions.incident.closing import incident as incident
    from .questions.judging.buying.runs import judge as judge
    from .questions.logs.imports import import_logs as import_logs
    from .questions.reliability.question import stats as stats
    from .questions.replay.buying.replay import replay as replay
    from .questions.scoring.question import score as score
    from .questions.why.question import why as why
    from .reading.traces import trace as trace
    from .traces import Trace as Trace
    from .viewer.report.report import report as report
    from .wire.in_code import span as span, tool as tool
    from .wire.langgraph import from_langgraph as from_langgraph


def __dir__() -> list[str]:
    return sorted(__all__)
