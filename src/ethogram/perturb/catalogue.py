"""The built-in operators, by name and format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ethogram.errors import BadInput, NotFound
from ethogram.plan import derived_seed

from . import data, model, pdf, prompt, table, text, tools
from .model import ModelOperator
from .operator import FORMATS, Change, NotApplicable, Operator, format_of
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
        raise BadInput(f"{name} does not work on {format} files; those that do: {', '.join(sorted(known)) or 'none'}")
    raise NotFound.named("operator", name, sorted({operator.name for operator in (*FILES, *more)}))


class PerturbedFiles(msgspec.Struct, frozen=True):
    """The files of a task with one of them changed: under its own name, the others untouched."""

    files: dict[str, bytes]
    name: str
    operator: str
    change: Change


def perturb_files(
    files: Mapping[str, bytes],
    operator: Operator | str,
    seed: int,
    intensity: float = 1.0,
    *,
    file: str | None = None,
    more: Iterable[Operator] = (),
) -> PerturbedFiles:
    """Change one file of several: the one named, or one of those that the operator can change, drawn by the seed."""
    if file is not None and file not in files:
        raise NotFound.named("file", file, list(files))
    usable: dict[str, tuple[Operator, str]] = {}
    reasons: list[str] = []
    for name in sorted(files) if file is None else [file]:
        found = _operator_for(name, operator, tuple(more))
        if isinstance(found, str):
            reasons.append(f"{name}: {found}")
            continue
        why_not = found[0].applicable(files[name], found[1])
        if why_not is not None:
            reasons.append(f"{name}: {why_not}")
        else:
            usable[name] = found
    if not usable:
        called = operator if isinstance(operator, str) else operator.name
        raise NotApplicable(f"{called} can change none of the files ({'; '.join(reasons) or 'there are none'})")
    names = sorted(usable)
    name = names[derived_seed(seed, "perturb:file") % len(names)]
    chosen, format = usable[name]
    change = chosen.apply(files[name], format, seed, intensity)
    return PerturbedFiles({**files, name: change.content}, name, chosen.name, change)


def _operator_for(name: str, operator: Operator | str, more: tuple[Operator, ...]) -> tuple[Operator, str] | str:
    """The operator and the format for a file, or why there is none."""
    format = format_of(name)
    if format is None:
        return f"files of this suffix cannot be changed; those that can: {', '.join(FORMATS)}"
    if not isinstance(operator, str):
        return (operator, format) if format in operator.formats else f"{operator.name} does not work on {format} files"
    try:
        return file_operator(operator, format, more), format
    except NotFound:
        raise
    except BadInput as error:
        return str(error)


def described(operator: Any) -> dict[str, Any]:
    """What is said about an operator."""
    return {
        "name": operator.name,
        "kind": operator.kind,
        "formats": list(operator.formats),
        "does": operator.does,
        "dose": getattr(operator, "dose", ""),
    }
