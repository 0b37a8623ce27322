"""Whether an answer holds: kinds of checks, their settings and verdicts. Never touches the store."""

from . import custom, endstate, structured, text, toolcalls
from .checks import CHECKS, CheckFunction, CheckScore, Evidence
from .settings import KINDS, CheckKind, CheckSettings, definition, settings_of
from .verdicts import CheckResult, combine, label_names

__all__ = [
    "CHECKS",
    "KINDS",
    "CheckFunction",
    "CheckKind",
    "CheckResult",
    "CheckScore",
    "CheckSettings",
    "Evidence",
    "combine",
    "custom",
    "definition",
    "endstate",
    "label_names",
    "settings_of",
    "structured",
    "text",
    "toolcalls",
]
