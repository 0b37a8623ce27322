"""The built-in operators, by name and format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ethogram.errors import BadInput, NotFound

from . import data, model, pdf, prompt, table, text, tools
from .model import ModelOperator
from .operator import Operator
from .prompt import PromptOperator
from .tools import ToolOperator

FILES: tuple[Operator, ...] = (*table.OPERATORS, *text.OPERATORS, *pdf.OPERATORS, *data.OPERATORS)
AnyOperator = Operator | ToolOperator | PromptOperator | ModelOperator
ALL: tuple[AnyOperator, ...] = (*FILES, *tools.OPERATORS, *prompt.OPERATORS, *model.OPERATORS)


def operators_for(format: str, more: Iterable[Operator] = ()) -> list[Operator]:
    """The operators on files of a format."""
    return [operator for operator in (*FILES, *more) if format in operator.formats]


def file_operator(name: str, format: str, more: Iterable[Operator] = ()) -> Operator:
    """The operator of this name for files of a format."""
    known = {operator.name: operator for operator in operators_for(format, more)}
    if name in known:
        return known[name]
    if any(operator.name == name for operator in (*FILES, *more)):
        raise BadInput(
            f"{name} does not work on {format} files; those that do: {', '.join(sorted(known)) or 'none'}",
            where=f"the operator {name!r}",
        )
    raise NotFound.named("operator", name, sorted({operator.name for operator in (*FILES, *more)}))


def described(operator: Any) -> dict[str, Any]:
    """What is said about an operator."""
    return {
        "name": operator.name,
        "kind": operator.kind,
        "formats": list(operator.formats),
        "does": operator.does,
        "dose": getattr(operator, "dose", ""),
    }
