"""One controlled, seeded change to a file, a tool, a prompt or a call of a model: pure, reported, never run here.

Operators on files (`FILES`) take bytes and give bytes; `ToolPerturbation` wraps the tools of an episode;
`PromptOperator`s take a text; `ModelOperator`s say which calls of a model go wrong, and how. The same seed gives the
same change, and what cannot be changed says why beforehand.
"""

from .catalogue import ALL, FILES, AnyOperator, described, file_operator, operators_for
from .model import ModelFault, ModelOperator, model_operator
from .operator import FORMATS, KINDS, Change, NotApplicable, Operator, OperatorKind, format_of, is_operator
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
    "AnyOperator",
    "Call",
    "Change",
    "ModelFault",
    "ModelOperator",
    "NotApplicable",
    "Operator",
    "OperatorKind",
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
    "model_operator",
    "operators_for",
    "paraphrases",
    "perturb_tool",
    "prompt_operator",
    "tool_operator",
]
