"""The reference in a log: expected calls compared with the calls of a run that change the world.

Reads, hand-overs to people and calls that failed do not count, on either side. A call that fits an expected one by
meaning is paired with it; of the others a call of the same tool is an expected call with other arguments, and the rest
is missing or extra.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ethogram.checks.checks import short
from ethogram.checks.matching import matching
from ethogram.checks.settings import ExpectedCall
from ethogram.checks.toolcalls import ArgumentGap, MadeCall, argument_gaps, call_difference
from ethogram.traces import arguments_value

from .changing_tools import Changing
from .finding import CATEGORIES, Category, Facts, Finding, quoted
from .step_words import StepWords, TraceWords, call_finding

_NOT_EXPECTED, _NOT_GIVEN = "not expected", "not given"
_TELLING = 3
"""A shorter value, such as 1, stands in many places, and the last of them tells nothing."""


def reference_findings(words: TraceWords, facts: Facts) -> list[Finding]:
    """How the calls that change the world differ from the expected ones; nothing where there is no reference."""
    if facts.expected is None:
        return []
    origin = words.trace.head.origin
    counts = Changing(facts, origin.format if origin else "", (c.name for c in facts.expected))
    rule = facts.compare
    expected = [c for c in facts.expected if counts(c.name) and rule.counts(c.name)]
    steps = [s for s in words.calls if counts(s.name) and rule.counts(s.name) and _happened(s, words)]
    made = [MadeCall(s.name, arguments_value(s.arguments)) for s in steps]
    pairs = matching(
        len(expected), len(made), lambda i, j: call_difference(expected[i], made[j], rule, facts.redact) is None
    )
    lost = [i for i in range(len(expected)) if i not in pairs]
    free = sorted(set(range(len(made))) - set(pairs.values()))
    found: list[Finding] = []
    for i in list(lost):
        same = [j for j in free if made[j].name == expected[i].name]
        if not same:
            continue
        j = min(same, key=lambda k: len(argument_gaps(expected[i], made[k], rule, facts.redact)))
        lost.remove(i)
        free.remove(j)
        found.extend(_wrong_arguments(expected[i], made[j], steps[j], words, facts))
    missing = [] if rule.mode == "subset" else [expected[i] for i in lost]
    extra = [] if rule.mode == "superset" else [steps[j] for j in free]
    found.extend(_unpaired(missing, extra))
    if not found:
        found.append(Finding(name="same_calls", source="reference", detail={"calls": len(pairs)}))
    return found


def category_of(found: list[Finding]) -> Category | None:
    """How the calls of a run differ from the reference, given its findings; None where there is no reference."""
    heads = {f.name.partition(":")[0] for f in found if f.source == "reference"}
    return next((c for c in CATEGORIES if c in heads), None)


def _happened(step: StepWords, words: TraceWords) -> bool:
    """Whether a call took effect: it did not fail, and it returned, unless the log keeps no results at all."""
    return not step.failed and (step.returned or not any(c.returned for c in words.calls))


def _wrong_arguments(
    expected: ExpectedCall, made: MadeCall, step: StepWords, words: TraceWords, facts: Facts
) -> Iterator[Finding]:
    gaps = argument_gaps(expected, made, facts.compare, facts.redact)
    for gap in gaps:
        place, who = origin_of(_new_in(gap)[:1], words, step.at if step.decision is None else step.decision)
        detail = {
            "argument": gap.argument,
            "difference": gap.words,
            "expected": _shown(gap.expected, _NOT_EXPECTED),
            "got": _shown(gap.made, _NOT_GIVEN),
            "from": who,
            "from_step": place,
        }
        name = f"wrong_arguments:{made.name}.{gap.argument}".rstrip(".")
        text = quoted(f"{_gap_words(gap, place, who)}; {step.name}({step.arguments})")
        yield msgspec.structs.replace(call_finding(step, name, "reference", "bad_args", **detail), text=text)


def _gap_words(gap: ArgumentGap, place: int | None, who: str) -> str:
    """Which argument has which value, what was expected, and where the value stood before the call."""
    got, expected = _shown(gap.made, _NOT_GIVEN), _shown(gap.expected, _NOT_EXPECTED)
    values = f"{gap.argument or 'the arguments'}: {quoted(str(got), 60)}"
    values += f", {expected}" if expected == _NOT_EXPECTED else f", expected {quoted(str(expected), 60)}"
    new = _new_in(gap)[:1]
    if not new or len(new[0]) < _TELLING:
        return values
    if who == "nowhere":
        return f"{values}; {quoted(new[0], 40)} appears nowhere before"
    at = "" if place is None else f"step {place}, "
    whose = "the agent's own words" if who == "agent" else who
    return f"{values}; {quoted(new[0], 40)} appears in {at}{whose}"


def _unpaired(missing: list[ExpectedCall], extra: list[StepWords]) -> Iterator[Finding]:
    """Calls without a counterpart: where both kinds occur, another call was made than the expected one."""
    both = bool(missing and extra)
    for step in extra:
        name = f"{'other_call' if both else 'extra_call'}:{step.name}"
        detail = {"instead_of": [c.name for c in missing]} if both else {}
        yield call_finding(step, name, "reference", "wrong_tool", **detail)
    for call in missing:
        yield Finding(
            name=f"missing_call:{call.name}",
            source="reference",
            text=quoted(f"expected and never made: {call.name}({_shown(call.arguments, '…')})"),
            detail={"expected": _shown(call.arguments, "any arguments")},
        )


def _shown(value: Any, absent: str) -> Any:
    """A value for the reader of a finding; the word for its absence where there is none."""
    return absent if value is msgspec.UNSET else short(value, 200) if isinstance(value, dict | list) else value


def origin_of(values: list[str], words: TraceWords, upto: int) -> tuple[int | None, str]:
    """Where values of an argument came from: the last step before `upto` whose words hold all, and who wrote them.

    What tools, people and prompts wrote goes before the agent's own words; `nowhere` where nobody wrote them.
    """
    if not values:
        return None, "nowhere"
    wanted = [re.compile(rf"(?<![\w.]){re.escape(v)}(?!\w|\.\d)") for v in values]
    own: tuple[int | None, str] | None = None
    seen: tuple[int | None, str] | None = None
    for at, who, text in words.sources(upto):
        if all(v in text for v in values) and all(w.search(text) for w in wanted):
            if who == "agent":
                own = at, who
            else:
                seen = at, who
    return seen or own or (None, "nowhere")


def _new_in(gap: ArgumentGap) -> list[str]:
    """The values of an argument that are not among the expected ones; all of them where none is new."""
    expected = set(_leaves(gap.expected))
    values = list(dict.fromkeys(_leaves(gap.made)))
    return [v for v in values if v not in expected] or values


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif value is not None and value is not msgspec.UNSET:
        yield value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
