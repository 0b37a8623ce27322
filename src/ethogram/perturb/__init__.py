"""One controlled, seeded change to a file, a tool or a prompt: pure, reported, never run here.

Operators on files (`FILES`) take bytes and give bytes; `ToolPerturbation` wraps the tools of an episode;
`PromptOperator`s take a text. The same seed gives the same change, and what cannot be changed says why beforehand.
"""

from .catalogue import ALL, FILES, PerturbedFiles, described, file_operator, operators_for, perturb_files
from .operator import FORMATS, KINDS, Change, Kind, NotApplicable, Operator, format_of, is_operator
from .prompt import PromptChange, PromptOperator, paraphrases, prompt_operator
from .tools import (
    Call,
    ToolChange,
    ToolFailed,
    ToolOperator,
    ToolPerturbation,
    ToolTimedOut,
    perturb_tool,
    tool_operator,
)

__all__ = [
    "ALL",
    "FILES",
    "FORMATS",
    "KINDS",
    "Call",
    "Change",
    "Kind",
    "NotApplicable",
    "Operator",
    "PerturbedFiles",
    "PromptChange",
    "PromptOperator",
    "ToolChange",
    "ToolFailed",
    "ToolOperator",
    "ToolPerturbation",
    "ToolTimedOut",
    "described",
    "file_operator",
    "format_of",
    "is_operator",
    "operators_for",
    "paraphrases",
    "perturb_files",
    "perturb_tool",
    "prompt_operator",
    "tool_operator",
]
