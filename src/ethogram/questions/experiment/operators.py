"""The list of operators: built in, from installed packages, or from the user's own file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.loading import named_object
from ethogram.perturbations.catalogue import ALL, AnyOperator, described
from ethogram.perturbations.model import ModelOperator
from ethogram.perturbations.operator import FORMATS, KINDS, Operator, format_of, is_operator
from ethogram.perturbations.prompt import PromptOperator
from ethogram.perturbations.tools import ToolOperator
from ethogram.plugins import Plugged, plugged
from ethogram.result import Result

GROUP = "ethogram.operators"
BUILT_IN = "ethogram"


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
            raise NotFound(f"no file at {str(path)!r}", where=str(path))
        content = path.read_bytes()
    added = plugged_operators()
    found: list[tuple[AnyOperator, str]] = [(operator, BUILT_IN) for operator in ALL]
    found += [(plugin.value, plugin.package) for plugin in added.working]
    found += [(load_operator(spec), spec) for spec in load]
    known = {*FORMATS, *(f for operator, _ in found for f in operator.formats)}
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
    return OperatorList(
        operators=rows,
        file=None if file is None else str(file),
        format=format,
        problems=[sentence for _, sentence in added.broken],
    )


def load_operator(spec: str, format: str | None = None) -> AnyOperator:
    """An operator by name, or by where its code is: `file.py:NAME` or `pkg.mod:NAME`."""
    if ":" in spec:
        return _checked(named_object(spec), repr(spec))
    added = plugged_operators()
    known = [*ALL, *(plugin.value for plugin in added.working)]
    fitting = [o for o in known if o.name == spec and (format is None or format in o.formats)]
    if not fitting:
        elsewhere = sorted({f for o in known if o.name == spec for f in o.formats})
        if elsewhere:
            raise BadInput(
                f"{spec} does not work on {format} files, but on {', '.join(elsewhere)}", where=f"the operator {spec!r}"
            )
        raise added.missing(spec, sorted({o.name for o in known}))
    if len(fitting) > 1:
        formats = ", ".join(sorted({f for o in fitting for f in o.formats}))
        raise BadUsage(f"there are {len(fitting)} operators named {spec!r}; say for which format ({formats})")
    return fitting[0]


def plugged_operators() -> Plugged[AnyOperator]:
    """The operators that installed packages add."""
    return plugged(GROUP, _plugged, taken={o.name for o in ALL})


def _plugged(loaded: Any, name: str) -> AnyOperator:
    operator = _checked(loaded, "it")
    if operator.name != name:
        raise BadInput(
            f"its entry point is named {name!r} and the operator {operator.name!r}; give both one name",
            where=f"the entry point {name!r}",
        )
    return operator


def _checked(found: Any, subject: str) -> AnyOperator:
    """An operator that has all that an operator needs; raises `BadInput` about `subject` if it does not."""
    made = found() if isinstance(found, type) else found
    if isinstance(made, ToolOperator | PromptOperator | ModelOperator):
        return made
    missing = [n for n in ("name", "kind", "formats", "does", "applicable", "apply") if not hasattr(made, n)]
    if missing or not is_operator(made):
        raise BadInput(f"{subject} is not an operator: it has no {', '.join(missing) or 'method apply'}", where=subject)
    if made.kind not in KINDS or isinstance(made.formats, str) or not made.formats:
        raise BadInput(
            f"{subject} is not an operator: kind must be one of {', '.join(KINDS)}, formats a list of names",
            where=subject,
        )
    return cast(Operator, made)
