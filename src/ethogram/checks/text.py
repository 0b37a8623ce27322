"""Layer L0: what the answer says."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from ethogram.traces import REDACTION_MARK

from .checks import CHECKS, CheckScore, Evidence, answered, is_veiled, register, short, spellings, wanted
from .patterns import find
from .settings import Classifies, Contains, Equals, Numeric, OneOf, Regex, TextRule, Which, long_form
from .values import close, decimal, same

_VEILED = "redaction took something out of the answer, so this cannot be decided"
_SPACES = "\u00a0\u202f\u2009_'\u2019"
"""What may stand between thousands besides the comma; a plain space separates two numbers."""


def _number_pattern(point: str, comma: str) -> re.Pattern[str]:
    """Numbers in running text: not parts of words, versions or addresses; a hyphen between digits is no sign."""
    split = "[" + re.escape(comma) + _SPACES + "]"
    return re.compile(
        rf"(?P<sign>(?<![\w\])%])[-+\u2212])?[$€£¥]?(?<![\w.])"
        rf"(?P<digits>\d{{1,3}}(?:{split}\d{{3}})+(?!\d)(?:{re.escape(point)}\d+)?"
        rf"|\d+(?:{re.escape(point)}\d+)?|{re.escape(point)}\d+)"
        rf"(?P<exponent>[eE][-+]?\d{{1,4}}(?!\d))?(?!\d)(?!\.\d)(?P<percent>\s?(?:%|per\s?cent\b))?"
    )


_NUMBERS = {".": _number_pattern(".", ","), ",": _number_pattern(",", ".")}


class Number(NamedTuple):
    """A number in a text, its position, and whether it is a percentage."""

    value: Decimal
    percent: bool
    start: int
    end: int


def numbers(text: str, point: str = ".") -> Iterator[Number]:
    """Numbers of a text in order: signs, thousands, decimals, exponents and percentages."""
    for match in _NUMBERS[point].finditer(text):
        digits = match["digits"]
        for split in ("," if point == "." else ".", *_SPACES):
            digits = digits.replace(split, "")
        sign = "-" if match["sign"] in ("-", "\u2212") else ""
        value = decimal(sign + digits.replace(point, ".") + (match["exponent"] or ""))
        yield Number(value, match["percent"] is not None, match.start(), match.end())


@register("contains")
def contains(evidence: Evidence, settings: dict[str, Any]) -> CheckScore:
    """Whether the answer contains texts: all of some, any of some, none of some."""
    rule = msgspec.convert(settings, Contains)
    answer = answered(evidence)
    if isinstance(answer, CheckScore):
        return answer
    # a check that says what it wants itself does not want the task's expectation as well
    own = rule.expected is msgspec.UNSET and (rule.all or rule.any or rule.none)
    given = None if own else wanted(rule.expected, evidence)
    needed = [*rule.all, *(given if isinstance(given, list | tuple) else [] if given is None else [given])]
    if not (needed or rule.any or rule.none):
        return CheckScore(None, "there is nothing to look for")

    def there(item: Any) -> bool:
        return any(_stands(s, answer, rule) for s in spellings(plain(item), evidence))

    lost = next((x for x in needed if not there(x)), None)
    if lost is not None:
        return CheckScore(0.0, f"{short(plain(lost))} is not in the answer")
    if rule.any and not any(there(x) for x in rule.any):
        return CheckScore(0.0, f"none of {short(rule.any)} is in the answer")
    bad = next((x for x in rule.none if there(x)), None)
    if bad is not None:
        return CheckScore(0.0, f"{short(plain(bad))} is in the answer")
    return CheckScore(1.0, "the answer says what it should")


def _stands(text: str, answer: str, rule: Contains) -> bool:
    flags = re.IGNORECASE if rule.ignore_case else re.NOFLAG
    one, other = (unicodedata.normalize("NFC", t) for t in (text, answer))
    if rule.words:
        return re.search(rf"(?<!\w){re.escape(one)}(?!\w)", other, flags) is not None
    return one.casefold() in other.casefold() if rule.ignore_case else one in other


def plain(value: Any) -> str:
    """A value as an agent would write it in a sentence."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return msgspec.json.encode(value, enc_hook=str).decode()


@register("regex")
def regex(evidence: Evidence, settings: dict[str, Any]) -> CheckScore:
    """Whether a pattern fits somewhere in the answer (`full`: all of it; `absent`: nowhere)."""
    rule = msgspec.convert(settings, Regex)
    answer = answered(evidence)
    if isinstance(answer, CheckScore):
        return answer
    flags = re.NOFLAG
    for wish, flag in ((rule.ignore_case, re.I), (rule.multiline, re.M), (rule.dotall, re.S)):
        flags |= flag if wish else re.NOFLAG
    found = find(rule.pattern, answer.strip() if rule.full else answer, flags=flags, whole=rule.full)
    if is_veiled(evidence) and (found is None or rule.absent):
        return CheckScore(None, _VEILED)
    if found is None:
        return CheckScore(float(rule.absent), f"nothing matches {rule.pattern!r}")
    return CheckScore(float(not rule.absent), f"{short(found)} matches {rule.pattern!r}")


def normal(text: str, rule: Equals) -> str:
    """A text without what does not matter."""
    text = unicodedata.normalize("NFKC", text)
    if rule.ignore_case:
        text = text.casefold()
    if rule.ignore_punctuation:
        text = "".join(" " if unicodedata.category(c)[0] == "P" else c for c in text)
    return " ".join(text.split()) if rule.ignore_space else text


def _equal(answer: str, value: Any, rule: Equals, evidence: Evidence) -> bool:
    if any(normal(answer, rule) == normal(s, rule) for s in spellings(plain(value), evidence)):
        return True
    if isinstance(value, str):
        return False
    try:
        return same(value, msgspec.json.decode(answer))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


@register("equals")
def equals(evidence: Evidence, settings: dict[str, Any]) -> CheckScore:
    """Whether the whole answer is what was expected, case, spaces and (when asked) punctuation aside."""
    rule = msgspec.convert(settings, Equals)
    answer = answered(evidence)
    if isinstance(answer, CheckScore):
        return answer
    value = wanted(rule.expected, evidence)
    if value is None:
        return CheckScore(None, "there is nothing to compare with")
    if _equal(answer, value, rule, evidence):
        return CheckScore(1.0, "the answer is the expected one")
    return CheckScore(0.0, f"{short(answer)} is not {short(value)}")


@register("one_of")
def one_of(evidence: Evidence, settings: dict[str, Any]) -> CheckScore:
    """Whether the whole answer is one of several."""
    rule = msgspec.convert(settings, OneOf)
    answer = answered(evidence)
    if isinstance(answer, CheckScore):
        return answer
    values = wanted(rule.expected, evidence)
    if not isinstance(values, list | tuple) or not values:
        return CheckScore(None, "there is nothing to compare with")
    found = next((v for v in values if _equal(answer, v, rule, evidence)), None)
    if found is None:
        return CheckScore(0.0, f"{short(answer)} is none of {short(list(values))}")
    return CheckScore(1.0, f"the answer is {short(found)}")


@register("numeric")
def numeric(evidence: Evidence, settings: dict[str, Any]) -> CheckScore:
    """Whether a number of the answer is the expected one, or near enough."""
    rule = msgspec.convert(settings, Numeric)
    answer = answered(evidence)
    if isinstance(answer, CheckScore):
        return answer
    goal = _goal(wanted(rule.expected, evidence))
    if goal is None:
        return CheckScore(None, "there is no number to compare with")
    marks = [m.span() for m in REDACTION_MARK.finditer(answer)] if is_veiled(evidence) else []
    bare = REDACTION_MARK.sub(lambda m: "\N{REPLACEMENT CHARACTER}" * len(m.group(0)), answer) if marks else answer
    found = list(numbers(bare, rule.decimal))
    if marks and _hidden(rule.which, found, marks):
        return CheckScore(None, _VEILED)
    if not found:
        return CheckScore(None, _VEILED) if marks else CheckScore(0.0, "there is no number in the answer")
    if rule.which == "only" and len({(n.value, n.percent) for n in found}) > 1:
        return CheckScore(0.0, f"{len(found)} numbers in the answer, where only one was asked for")
    chosen = found if rule.which == "any" else [found[0 if rule.which == "first" else -1]]
    hit = next((n for n in chosen if any(_near(n, g, rule) for g in goal)), None)
    if hit is not None:
        return CheckScore(1.0, f"{hit.value}{'%' if hit.percent else ''} is the expected number")
    if marks and rule.which == "any":
        return CheckScore(None, _VEILED)
    seen = chosen[0] if len(chosen) == 1 else None
    said = f"{seen.value}{'%' if seen.percent else ''}" if seen else f"none of {len(chosen)} numbers"
    return CheckScore(0.0, f"{said} is {'' if seen is None else 'not '}{wanted(rule.expected, evidence)}")


def _goal(value: Any) -> list[Decimal] | None:
    """The expected number; a percentage may be meant as a number or as a fraction."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return [decimal(value)]
    found = list(numbers(str(value)))
    if len(found) != 1:
        return None
    return [found[0].value, found[0].value.scaleb(-2)] if found[0].percent else [found[0].value]


def _hidden(which: Which, found: list[Number], marks: list[tuple[int, int]]) -> bool:
    """Whether a mark may hide the very number that was asked for."""
    if which == "only" or not found:
        return True
    if which == "first":
        return marks[0][0] < found[0].start
    return which == "last" and marks[-1][0] > found[-1].start


def _near(number: Number, goal: Decimal, rule: Numeric) -> bool:
    readings = [number.value]
    if number.percent and rule.percent != "number":
        fraction = number.value.scaleb(-2)
        readings = [fraction] if rule.percent == "fraction" else [number.value, fraction]
    return any(close(goal, reading, rule.tolerance, rule.relative) for reading in readings)


@register("classifies")
def classifies(evidence: Evidence, settings: dict[str, Any]) -> CheckScore:
    """Whether the answer names the right one of a set of labels; of labels inside each other the longer is read."""
    rule = msgspec.convert(settings, Classifies)
    answer = answered(evidence)
    if isinstance(answer, CheckScore):
        return answer
    right = str(wanted(rule.expected, evidence)).casefold()
    by_length = sorted(rule.labels, key=len, reverse=True)
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(re.escape(x) for x in by_length)})(?!\w)", re.IGNORECASE)
    named = [m.group(0).casefold() for m in pattern.finditer(answer)]
    if not named:
        return CheckScore(0.0, f"the answer names none of {short(rule.labels)}")
    if rule.which == "only" and len(set(named)) > 1:
        return CheckScore(0.0, f"the answer names {len(set(named))} labels: {short(sorted(set(named)))}")
    chosen = named[-1 if rule.which == "last" else 0]
    return CheckScore(float(chosen == right), f"the answer says {short(chosen)}; {short(right)} is right")


def text_verdict(text: str, rule: TextRule, evidence: Evidence) -> CheckScore:
    """Demands on a text that is not the answer: a file, an output, a page. A bare text means exactly that text."""
    if isinstance(rule, str):
        fits = _lines(text) == _lines(rule)
        return CheckScore(float(fits), "as expected" if fits else f"{short(text)} is not {short(rule)}")
    about = msgspec.structs.replace(evidence, answer=text, expected=None, redact=None)
    for kind, value in rule.items():
        verdict = CHECKS[kind](about, long_form(kind, value))
        if verdict.score is None or verdict.score < 1:
            return verdict
    return CheckScore(1.0, "as expected")


def _lines(text: str) -> str:
    """Line ends are a matter of the machine, and so is the last one."""
    return text.replace("\r\n", "\n").rstrip("\n")
