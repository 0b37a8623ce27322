"""What authors of plug-ins import: the types of each kind of plug-in and their helpers, and nothing from elsewhere.

AGENTS.md has a complete module for each kind: reader, writer, metric, dimension, check, operator and report part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import names_in

_NAMES = {
    # readers and writers
    "ChatBuilder": "capture.chat",
    "Draft": "capture.draft",
    "File": "traces",
    "Intake": "capture.intake",
    "Message": "traces",
    "Missing": "traces",
    "Peek": "capture.peek",
    "Reasoning": "traces",
    "Scored": "traces",
    "Source": "capture.source",
    "Span": "traces",
    "Text": "traces",
    "ToolCall": "traces",
    "ToolResult": "traces",
    "Trace": "traces",
    # metrics and dimensions
    "Metric": "measures.metrics",
    "StepDimension": "measures.standard",
    "StepArrays": "measures.standard_columns",
    # checks
    "CheckKind": "checks",
    "CheckScore": "checks",
    "CheckSettings": "checks",
    "Evidence": "checks",
    # operators
    "Change": "perturbations.operator",
    "NotApplicable": "perturbations.operator",
    "Operator": "perturbations.operator",
    # parts of the report
    "Card": "viewer.report.views",
    "ReportPart": "viewer.report.parts",
    "Run": "store",
    "Section": "viewer.report.views",
    # what any of them raises
    "BadInput": "errors",
    "BadUsage": "errors",
}
__getattr__ = names_in(__name__, _NAMES)
__all__ = [*_NAMES]  # noqa: PLE0604

if TYPE_CHECKING:  # what editors and type checkers read; a test holds it equal to the table
    # isort: off
    from .capture.chat import ChatBuilder as ChatBuilder
    from .capture.draft import Draft as Draft
    from .capture.intake import Intake as Intake
    from .capture.peek import Peek as Peek
    from .capture.source import Source as Source
    from .checks import CheckKind as CheckKind, CheckScore as CheckScore
    from .checks import CheckSettings as CheckSettings, Evidence as Evidence
    from .errors import BadInput as BadInput, BadUsage as BadUsage
    from .measures.metrics import Metric as Metric
    from .measures.standard import StepDimension as StepDimension
    from .measures.standard_columns import StepArrays as StepArrays
    from .perturbations.operator import Change as Change, NotApplicable as NotApplicable, Operator as Operator
    from .store import Run as Run
    from .traces import File as File, Message as Message, Missing as Missing, Reasoning as Reasoning, Scored as Scored
    from .traces import Span as Span, Text as Text, ToolCall as ToolCall, ToolResult as ToolResult, Trace as Trace
    from .viewer.report.parts import ReportPart as ReportPart
    from .viewer.report.views import Card as Card, Section as Section


def __dir__() -> list[str]:
    return sorted(__all__)
