"""Layer L1: the tools that were called, with which arguments, compared by meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec

from ethogram.traces import arguments_value, is_marked

from .checks import CheckScore, Evidence, register, short, wanted
from .matching import in_order, matching
from .settings import ExpectedCall, ToolCallsCheck, expected_calls
from .values import ABSENT, Loose, difference


class MadeCall(msgspec.Struct, frozen=True):
    """A call that was made; `arguments` are decoded, or the text itself where it is not JSON."""

    name: str
    arguments: Any


@register("tool_calls")
def tool_calls(evidence: Evidence, settings: dict[str, Any]) -> CheckScore:
    """Whether the right tools were called with the right arguments; `graded` gives the share of calls that fit."""
    rule = msgspec.convert(settings, ToolCallsCheck)
    given = wanted(rule.calls, evidence)
    if not isinstance(given, list | tuple):
        return CheckScore(None, "no expected calls are given")
    expected = expected_calls(given)
    made = [MadeCall(c.name, arguments_value(c.arguments)) for c in evidence.calls if rule.counts(c.name)]

    @cache
    def gap(i: int, j: int) -> str | None:
        return call_difference(expected[i], made[j], rule, evidence.redact)

    def fits(i: int, j: int) -> bool:
        return gap(i, j) is None

    ordered = rule.mode == "strict" or (rule.ordered and rule.mode in ("subset", "superset"))
    pairs = (in_order if ordered else matching)(len(expected), len(made), fits)
    right = {
        "strict": len(pairs) == len(expected) == len(made),
        "unordered": len(pairs) == len(expected) == len(made),
        "superset": len(pairs) == len(expected),
        "subset": len(pairs) == len(made),
    }[rule.mode]
    counted = f"{len(pairs)} of {len(expected)} expected calls were made, {len(made)} calls in all"
    if right:
        return CheckScore(1.0, counted)
    if evidence.redact is not None and _may_hide(given, evidence):
        return CheckScore(None, "redaction took something out of the arguments, so this cannot be decided")
    first = _first_mismatch(expected, made, pairs, gap, rule)
    return CheckScore(_share(rule, len(pairs), len(expected), len(made)) if rule.graded else 0.0, f"{counted}; {first}")


def _share(rule: ToolCallsCheck, fitting: int, expected: int, made: int) -> float:
    """Per-call accuracy: of the calls that count in this mode, the share that fits."""
    of = {"superset": expected, "subset": made}.get(rule.mode, max(expected, made))
    return fitting / of if of else 1.0


def call_difference(
    expected: ExpectedCall, made: MadeCall, rule: ToolCallsCheck, redact: Callable[[str], str] | None = None
) -> str | None:
    """Why a call is not the expected one; None if it is."""
    if expected.name != made.name:
        return f"{made.name} was called instead of {expected.name}"
    if expected.arguments is msgspec.UNSET:
        return None
    found = _arguments(expected.arguments, made.arguments, rule, redact)
    if found is None or redact is None:
        return found
    # a detector may have needed the name beside a value, so the expected arguments are redacted as a whole too
    try:
        stored = msgspec.json.decode(redact(msgspec.json.encode(expected.arguments, enc_hook=str).decode()))
    except (msgspec.DecodeError, UnicodeError):
        return found
    return None if _arguments(stored, made.arguments, rule, redact) is None else found


def _arguments(expected: Any, made: Any, rule: ToolCallsCheck, redact: Callable[[str], str] | None) -> str | None:
    gap = next(_gaps(expected, made, rule, redact), None)
    return None if gap is None else gap.words


class ArgumentGap(NamedTuple):
    """One argument that is not as expected (its name is empty where the arguments are no object), with both values and
    the difference in words; UNSET stands for a value that was not expected or not given."""

    argument: str
    expected: Any
    made: Any
    words: str


def argument_gaps(
    expected: ExpectedCall, made: MadeCall, rule: ToolCallsCheck, redact: Callable[[str], str] | None = None
) -> list[ArgumentGap]:
    """Every argument in which a call differs from the expected call of the same tool."""
    if expected.arguments is msgspec.UNSET:
        return []
    return list(_gaps(expected.arguments, made.arguments, rule, redact))


def _gaps(expected: Any, made: Any, rule: ToolCallsCheck, redact: Callable[[str], str] | None) -> Iterator[ArgumentGap]:
    if not isinstance(expected, dict) or not isinstance(made, dict):
        found = difference(expected, made, _loose(rule, None, redact))
        if found is not None:
            yield ArgumentGap("", expected, made, found)
        return
    for name, value in expected.items():
        given = made.get(name, ABSENT)
        found = difference(value, given, _loose(rule, name, redact), name)
        if found is not None:
            yield ArgumentGap(name, value, msgspec.UNSET if given is ABSENT else given, f"argument {found}")
    if rule.extra:
        return
    for name, value in made.items():
        if name not in expected and value is not None:
            yield ArgumentGap(name, msgspec.UNSET, value, f"argument {name} was not expected")


def _loose(rule: ToolCallsCheck, name: str | None, redact: Callable[[str], str] | None) -> Loose:
    """What does not matter in one argument."""

    def asked(setting: bool | list[str]) -> bool:
        return setting if isinstance(setting, bool) else name in setting

    return Loose(
        ignore_case=asked(rule.ignore_case),
        unordered=asked(rule.unordered_lists),
        sets=asked(rule.sets),
        tolerance=rule.tolerance,
        relative=rule.relative,
        redact=redact,
    )


def _first_mismatch(
    expected: list[ExpectedCall],
    made: list[MadeCall],
    pairs: dict[int, int],
    gap: Callable[[int, int], str | None],
    rule: ToolCallsCheck,
) -> str:
    """The first thing that is wrong, in words."""
    used = set(pairs.values())
    free = [j for j in range(len(made)) if j not in used]
    lost = next((i for i in range(len(expected)) if i not in pairs), None) if rule.mode != "subset" else None
    if lost is None:
        if not free:
            return "the calls were made in another order"
        return f"call {free[0] + 1}, {_shown(made[free[0]])}, was not expected"
    near = next((j for j in free if made[j].name == expected[lost].name), None)
    if near is None:
        return f"expected call {lost + 1}, {_wanted(expected[lost])}, was not made"
    why = gap(lost, near) or "it was made out of order"
    return f"expected call {lost + 1}, {_wanted(expected[lost])}, was not made; call {near + 1} differs: {why}"


def _wanted(call: ExpectedCall) -> str:
    return f"{call.name}({'…' if call.arguments is msgspec.UNSET else short(call.arguments)})"


def _shown(call: MadeCall) -> str:
    return f"{call.name}({short(call.arguments)})"


def _may_hide(expected: Any, evidence: Evidence) -> bool:
    """Whether the calls hold marks where only a pattern or a tolerance is expected, which marks cannot fulfil."""
    if not any(is_marked(c.arguments) for c in evidence.calls):
        return False
    text = msgspec.json.encode(expected, enc_hook=str).decode()
    return '"$regex"' in text or '"$number"' in text
