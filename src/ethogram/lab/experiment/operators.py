"""Which operators there are: those of the house, those of installed packages, those in a file of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

import msgspec

from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.loading import named_object
from ethogram.perturb import (
    ALL,
    FORMATS,
    KINDS,
    Operator,
    PromptOperator,
    ToolOperator,
    described,
    format_of,
    is_operator,
)
from ethogram.result import Result

GROUP = "ethogram.operators"
BUILT_IN = "ethogram"

AnyOperator = Operator | ToolOperator | PromptOperator


class OperatorRow(msgspec.Struct, kw_only=True):
    """An operator; `dose` says what an intensity of 1 changes, `why_not` why it cannot change the file in question."""

    name: str
    kind: str
    formats: list[str]
    does: str
    dose: str
    source: str
    applicable: bool | None = None
    why_not: str | None = None


class OperatorList(Result, kw_only=True):
    """The live catalogue; `problems` are the plug-ins that could not be loaded."""

    operators: list[OperatorRow]
    file: str | None = None
    format: str | None = None
    problems: list[str] = []

    def rows(self) -> list[dict[str, Any]]:
        """One row per operator."""
        return [msgspec.to_builtins(row) for row in self.operators]


def list_operators(
    *,
    format: str | None = None,
    kind: str | None = None,
    file: str | Path | None = None,
    load: Sequence[str] = (),
) -> OperatorList:
    """The operators, of one kind or for one format; with a file, also whether each can change it, and why not."""
    if kind is not None and kind not in KINDS:
        raise NotFound.named("kind of operator", kind, list(KINDS))
    content: bytes | None = None
    if file is not None:
        path = Path(file)
        format = format or format_of(path.name)
        if format is None:
            raise BadUsage(f"{path.name!r} has no suffix that tells its format; name one with --format")
        if not path.is_file():
            raise NotFound(f"no file at {str(path)!r}")
        content = path.read_bytes()
    problems: list[str] = []
    found = [*((o, BUILT_IN) for o in ALL), *_plugged(problems), *((load_operator(spec), spec) for spec in load)]
    known = {*FORMATS, "tool", "prompt", *(f for operator, _ in found for f in operator.formats)}
    if format is not None and format not in known:
        raise NotFound.named("format", format, sorted(known))
    rows = []
    for operator, source in found:
        if (format is None or format in operator.formats) and (kind is None or operator.kind == kind):
            row = OperatorRow(**described(operator), source=source)
            if content is not None and format is not None:
                row.why_not = cast(Operator, operator).applicable(content, format)
                row.applicable = row.why_not is None
            rows.append(row)
    return OperatorList(operators=rows, file=None if file is None else str(file), format=format, problems=problems)


def load_operator(spec: str, format: str | None = None) -> AnyOperator:
    """An operator by name, or by where its code is: `file.py:NAME` or `pkg.mod:NAME`."""
    if ":" in spec:
        return _checked(named_object(spec), spec)
    known = [*ALL, *(operator for operator, _ in _plugged([]))]
    fitting = [o for o in known if o.name == spec and (format is None or format in o.formats)]
    if not fitting:
        elsewhere = sorted({f for o in known if o.name == spec for f in o.formats})
        if elsewhere:
            raise BadInput(f"{spec} does not work on {format} files, but on {', '.join(elsewhere)}")
        raise NotFound.named("operator", spec, sorted({o.name for o in known}))
    if len(fitting) > 1:
        formats = ", ".join(sorted({f for o in fitting for f in o.formats}))
        raise BadUsage(f"there are {len(fitting)} operators named {spec!r}; say for which format ({formats})")
    return fitting[0]


def plugged_operators() -> list[Operator]:
    """The operators on files that installed packages add."""
    return [cast(Operator, operator) for operator, _ in _plugged([]) if is_operator(operator)]


def _plugged(problems: list[str]) -> Iterator[tuple[AnyOperator, str]]:
    """Operators of installed packages; one that is broken is reported and does not take the others with it."""
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        source = point.dist.name if point.dist is not None else point.value
        try:
            yield _checked(point.load(), point.value), source
        except Exception as error:
            problems.append(f"the operator {point.name!r} of {source} cannot be loaded: {error}")


def _checked(found: Any, spec: str) -> AnyOperator:
    """An operator that has all that an operator needs."""
    made = found() if isinstance(found, type) else found
    if isinstance(made, ToolOperator | PromptOperator):
        return made
    missing = [n for n in ("name", "kind", "formats", "does", "applicable", "apply") if not hasattr(made, n)]
    if missing or not is_operator(made):
        raise BadInput(f"{spec!r} is not an operator: it has no {', '.join(missing) or 'method apply'}")
    if made.kind not in KINDS or isinstance(made.formats, str) or not made.formats:
        raise BadInput(f"{spec!r} is not an operator: kind must be one of {', '.join(KINDS)}, formats a list of names")
    return cast(Operator, made)
