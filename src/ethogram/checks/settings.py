"""The settings of every kind of check, typed: a misspelt one is refused when a suite is loaded, not when it is scored.

A class stands for a kind. `main` is the setting that the short form `kind: value` fills. Layers: L0 looks at the
answer, L1 at the tool calls, L2 at the way taken, L3 at what the agent left behind (their settings are in `endstate`,
they run in `run`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec

from ethogram.errors import BadInput
from ethogram.plugins import Known, Plugged, plugged
from ethogram.traces import Layer, digest

from .checks import CheckFunction

GROUP = "ethogram.checks"

Which = Literal["first", "last", "only", "any"]
TextRule = str | dict[str, Any]
"""Demands on a text: the text itself, or checks of layer L0 by kind."""


class CheckSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Settings of every kind: `sources` pins the files of the suite that the check uses to their hashes."""

    layer: ClassVar[Layer] = "L0"
    main: ClassVar[str] = "expected"
    main_is_mapping: ClassVar[bool] = False
    """Whether the value of `main` may be a mapping; otherwise a mapping in a suite holds settings by name."""

    sources: dict[str, str] = {}

    def problem(self, expected: Any) -> str | None:
        """What makes the settings useless, given what the task expects."""
        return None

    def files(self) -> list[str]:
        """Files of the suite that the check uses."""
        return []


def _nothing(given: Any, expected: Any) -> str | None:
    value = expected if given is msgspec.UNSET else given
    empty = value is None or value == "" or value == []
    return "has nothing to compare with: set 'expected' in the check or in the task" if empty else None


class Contains(CheckSettings):
    """`contains: Paris`, or `{any: […], none: […]}`; a list must be there as a whole."""

    expected: Any = msgspec.UNSET
    all: list[Any] = []
    any: list[Any] = []
    none: list[Any] = []
    ignore_case: bool = True
    words: bool = False

    def problem(self, expected: Any) -> str | None:
        """Something must be looked for."""
        if self.expected is msgspec.UNSET and (self.all or self.any or self.none):
            return None
        return _nothing(self.expected, expected)


class Regex(CheckSettings):
    """`regex: '^[A-Z]'`; `absent` turns it round."""

    main: ClassVar[str] = "pattern"

    pattern: str
    ignore_case: bool = False
    multiline: bool = False
    dotall: bool = False
    full: bool = False
    absent: bool = False

    def problem(self, expected: Any) -> str | None:
        """It must compile."""
        return bad_pattern(self.pattern)


class Equals(CheckSettings):
    """`equals: Paris`: the whole answer, case, spaces and (when asked) punctuation aside."""

    main_is_mapping: ClassVar[bool] = True
    expected: Any = msgspec.UNSET
    ignore_case: bool = True
    ignore_space: bool = True
    ignore_punctuation: bool = False

    def problem(self, expected: Any) -> str | None:
        """Something must be expected."""
        return _nothing(self.expected, expected)


class OneOf(Equals):
    """`one_of: [Paris, paree]`: the whole answer is one of them."""

    main_is_mapping: ClassVar[bool] = False

    def problem(self, expected: Any) -> str | None:
        """A list is needed."""
        value = expected if self.expected is msgspec.UNSET else self.expected
        return None if isinstance(value, list) and value else "needs a list of answers that are right"


class Numeric(CheckSettings):
    """`numeric: 42`: a number in the answer, the last one unless `which` says otherwise."""

    expected: Any = msgspec.UNSET
    tolerance: float = 0.0
    relative: float = 0.0
    which: Which = "last"
    percent: Literal["either", "fraction", "number"] = "either"
    decimal: Literal[".", ","] = "."

    def problem(self, expected: Any) -> str | None:
        """A number is needed."""
        value = expected if self.expected is msgspec.UNSET else self.expected
        if isinstance(value, bool) or not isinstance(value, int | float | str) or not re.search(r"\d", str(value)):
            return "needs a number to compare with: set 'expected' in the check or in the task"
        return "a tolerance cannot be negative" if min(self.tolerance, self.relative) < 0 else None


class JsonCheck(CheckSettings):
    """`json`: the answer parses and means what is expected here or in the task; with `has` it says so at some paths.

    Where nothing is expected, it has to parse, no more; `json_schema: true` demands only that, whatever is expected.
    """

    main_is_mapping: ClassVar[bool] = True
    expected: Any = msgspec.UNSET
    has: dict[str, Any] = {}
    fenced: bool = True
    unordered: bool = False
    extra: bool = False


class JsonSchema(CheckSettings):
    """`json_schema: schema.json`, or the schema itself."""

    main: ClassVar[str] = "schema"
    main_is_mapping: ClassVar[bool] = True

    schema: dict[str, Any] | bool | str
    fenced: bool = True

    def files(self) -> list[str]:
        """The schema, where it is a file."""
        return [self.schema] if isinstance(self.schema, str) else []


class Classifies(CheckSettings):
    """`classifies: {labels: [a, b], expected: a}`: which of the labels the answer names."""

    main: ClassVar[str] = "labels"

    labels: list[str]
    expected: Any = msgspec.UNSET
    which: Literal["first", "last", "only"] = "only"

    def problem(self, expected: Any) -> str | None:
        """The right label is one of the labels."""
        value = expected if self.expected is msgspec.UNSET else self.expected
        known = [x.casefold() for x in self.labels]
        if len(set(known)) < 2 or len(set(known)) < len(known):
            return "needs at least two different labels"
        return None if str(value).casefold() in known else f"expects {value!r}, which is not one of its labels"


class Custom(CheckSettings):
    """`custom: checks.py:grade`: a function of the evidence, or of the answer and what is expected."""

    main: ClassVar[str] = "function"

    function: str

    def problem(self, expected: Any) -> str | None:
        """It must name a function."""
        place, colon, name = self.function.rpartition(":")
        return None if colon and place and name else f"names {self.function!r}; write pkg.mod:name or file.py:name"

    def files(self) -> list[str]:
        """The file with the function, where it is one of the suite."""
        place = self.function.rpartition(":")[0]
        return [place] if place.endswith(".py") else []


class ExpectedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that is expected; without `arguments` any will do."""

    name: str
    arguments: Any = msgspec.UNSET


class ToolCallsCheck(CheckSettings):
    """`tool_calls: [{name: add, arguments: {a: 1, b: 2}}]`.

    strict: these calls in this order. unordered: these in any order. superset: at least these. subset: none but
    these. `ordered` keeps the order in the last two. `extra` allows further arguments. `ignore` names tools whose
    calls do not matter, `only` those whose calls alone matter, such as the ones that change something;
    `unordered_lists`, `sets` and `ignore_case` are true, or the names of arguments.
    """

    layer: ClassVar[Layer] = "L1"
    main: ClassVar[str] = "calls"
    main_is_mapping: ClassVar[bool] = True

    calls: Any = msgspec.UNSET
    mode: Literal["strict", "unordered", "subset", "superset"] = "strict"
    ordered: bool = False
    extra: bool = False
    graded: bool = False
    ignore: list[str] = []
    only: list[str] = []
    ignore_case: bool | list[str] = False
    unordered_lists: bool | list[str] = False
    sets: bool | list[str] = False
    tolerance: float = 0.0
    relative: float = 0.0

    def problem(self, expected: Any) -> str | None:
        """Expected calls must be readable, and must not be among those that do not matter."""
        try:
            calls = expected_calls(expected if self.calls is msgspec.UNSET else self.calls)
        except ValueError as error:
            return str(error)
        left_out = next((c.name for c in calls if not self.counts(c.name)), None)
        return None if left_out is None else f"expects a call of {left_out!r}, which 'only' or 'ignore' leaves out"

    def counts(self, tool: str) -> bool:
        """Whether calls of a tool matter."""
        return tool not in self.ignore and (not self.only or tool in self.only)


def expected_calls(value: Any) -> list[ExpectedCall]:
    """Expected calls as a suite writes them: a name alone, or a name with arguments."""
    if not isinstance(value, list | tuple):
        raise ValueError("needs a list of expected calls: set 'calls' in the check, or 'expected' in the task")
    found = []
    for item in value:
        try:
            found.append(ExpectedCall(item) if isinstance(item, str) else msgspec.convert(item, ExpectedCall))
        except msgspec.ValidationError as error:
            raise ValueError(f"cannot read the expected call {item!r}: {error}") from None
    return found


class CheckKind(NamedTuple):
    """A kind of check as an installed package adds it: the shape of its settings, and its function."""

    settings: type[CheckSettings]
    check: CheckFunction


def plugged_checks() -> Plugged[CheckKind]:
    """The kinds of check that installed packages add."""
    return plugged(GROUP, _checked, taken=KINDS.own)


def _checked(loaded: Any, name: str) -> CheckKind:
    if not isinstance(loaded, CheckKind) or not callable(loaded.check):
        raise BadInput("it is not an ethogram.extend.CheckKind with the settings and the function of a check")
    if not isinstance(loaded.settings, type) or not issubclass(loaded.settings, CheckSettings):
        raise BadInput("its settings are not a subclass of ethogram.extend.CheckSettings")
    if loaded.settings.layer == "L3":
        raise BadInput("its layer is L3, and only Ethogram runs checks in a workspace; look at evidence.workspace")
    return loaded


def _plugged() -> dict[str, type[CheckSettings]]:
    return {name: added.settings for name, added in plugged_checks().values().items()}


OWN_KINDS: dict[str, type[CheckSettings]] = {
    "contains": Contains,
    "regex": Regex,
    "equals": Equals,
    "one_of": OneOf,
    "numeric": Numeric,
    "json": JsonCheck,
    "json_schema": JsonSchema,
    "classifies": Classifies,
    "custom": Custom,
    "tool_calls": ToolCallsCheck,
}
KINDS: Known[type[CheckSettings]] = Known(OWN_KINDS, _plugged)
"""The settings of every kind of check."""


def settings_of(kind: str, settings: Mapping[str, Any]) -> CheckSettings:
    """The settings of a check, typed; refuses unknown kinds and settings with the nearest that exists."""
    shape = KINDS.get(kind)
    if shape is None:
        raise plugged_checks().missing(kind, KINDS)
    unknown = next((name for name in settings if name not in shape.__struct_fields__), None)
    if unknown is not None:
        known = [f for f in shape.__struct_fields__ if f != "sources"]
        raise BadInput(
            f"the check {kind!r} has no setting {unknown!r}; {nearest(unknown, known)}", where=f"the check {kind!r}"
        )
    try:
        return msgspec.convert(settings, shape)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"the settings of the check {kind!r} cannot be used: {error}", where=f"the check {kind!r}"
        ) from None


def nearest(name: str, known: Sequence[str]) -> str:
    """A hint: the nearest known name, else all of them."""
    near = get_close_matches(str(name), known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(known)}"


def definition(kind: str, settings: Mapping[str, Any], expected: Any) -> str:
    """A short hash of what a check demands: labels of different demands are never taken for each other."""
    own = {"contains": ("expected", "all", "any", "none"), "tool_calls": ("calls",)}.get(kind, ("expected",))
    comparing = ("contains", "equals", "one_of", "numeric", "classifies", "tool_calls")
    # what a function of others looks at is not known: it may be all
    unknown = kind == "custom" or kind not in OWN_KINDS
    leans = unknown or (kind in comparing and not any(name in settings for name in own))
    parts = [kind, settings, expected if leans else None]
    return digest("check", msgspec.json.encode(parts, order="deterministic", enc_hook=str)).partition(":")[2][:8]


def bad_pattern(pattern: str) -> str | None:
    """Why a text is not a regular expression; None if it is one."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"has {pattern!r}, which is not a regular expression: {error}"
    return None


def bad_name(name: str) -> bool:
    """Whether a name does not lie inside the workspace."""
    return not name or name.startswith(("/", "~")) or ".." in name.split("/") or "\\" in name or "\0" in name


def bad_rule(rule: TextRule | None) -> str | None:
    """Why demands on a text cannot be used; None if they can."""
    if not isinstance(rule, dict):
        return None
    for kind, value in rule.items():
        shape = KINDS.get(kind)
        if shape is None or shape.layer != "L0":
            known = [k for k, s in KINDS.items() if s.layer == "L0"]
            return f"demands {kind!r} of a text; {nearest(kind, known)}"
        try:
            found = settings_of(kind, long_form(kind, value)).problem(None)
        except BadInput as error:
            found = str(error)
        if found is not None:
            return f"demands {kind!r} of a text, which {found}"
    return None


def long_form(kind: str, value: Any) -> dict[str, Any]:
    """The settings behind the short form `kind: value`."""
    shape = KINDS[kind]
    if value is None or (value is True and kind == "json"):
        return {}
    if isinstance(value, dict) and _names_settings(shape, value):
        return value
    return {shape.main: value}


def _names_settings(shape: type[CheckSettings], value: dict[str, Any]) -> bool:
    """Whether a mapping holds settings by name, also misspelt ones, and is not the value of the main setting itself."""
    return not value or not shape.main_is_mapping or any(name in shape.__struct_fields__ for name in value)


def suite_files(words: str | list[str]) -> list[str]:
    """Files that a command takes from the suite: whatever follows `{suite}/`."""
    text = words if isinstance(words, str) else "\n".join(words)
    return re.findall(r"\{suite\}/([^\s\"']+)", text)
