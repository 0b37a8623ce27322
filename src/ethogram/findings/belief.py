"""Belief against world: the first step that uses a file, an id or a value that no observation returned.

What an agent was told (prompts, its user's turns, results of tools and retrievals) is observed; what the model wrote
itself is not. A step that acts on something unobserved acts on a belief: it may be right, and it is where invented
ids and file names enter. Code that an agent writes between fences acts too, on the files that it names to read. Calls
that search, calculate or create may name new things; what a call created without an error is known afterwards.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from ethogram.traces import Span, Trace, arguments_value

from .changing_tools import words_of
from .step_words import StepWords, TraceWords

BeliefKind = Literal["file", "id", "value"]

_NEW = """add answer append ask browse calculate compute create draft eval exec final find finish glob google grep
insert list make mkdir new note plan python query reply respond save search store submit summarize think touch upload
visit web write"""
MAY_NAME_NEW = frozenset(_NEW.split())
"""Words in the name of a tool whose arguments may hold something new: the call searches, calculates or creates."""

_FILE = re.compile(r"(?:~|\.{1,2})?/?(?:[\w@+.-]+/)+[\w@+-]+(?:\.[\w-]+)*|\b[\w-]+\.[A-Za-z][A-Za-z0-9]{0,4}\b")
_ID = re.compile(r"#?[A-Za-z0-9]+(?:[-_#:][A-Za-z0-9]+)*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_KNOWN_PLACES = ("/bin", "/dev", "/etc", "/lib", "/opt", "/proc", "/root", "/sys", "/tmp", "/usr", "/var", "/home")  # noqa: S108
_CREATES = re.compile(r"(?:>>?|\btouch|\bmkdir(?: -p)?|\btee|\b(?:cp|mv)\s+\S+|\bclone|-o)\s*[\"']?$")
_LITERAL = re.compile(r"""(?P<quote>['"])(?P<text>[^'"\n]{3,200})(?P=quote)""")
_CODE_FILE = re.compile(
    r"[\w.~-]*(?:/[\w.+~-]+)+\.[A-Za-z]\w{0,4}"
    r"|[\w-]+\.(?:csv|json|jsonl|txt|md|pdf|xlsx?|docx?|pptx?|py|png|jpe?g|mp[34]|wav|html?|xml|parquet|db|zip|tsv|ya?ml)"
)
_WRITE_MODE = re.compile(r"""\s*,\s*(?:mode\s*=\s*)?['"][wax]""")
_WRITES_TO = re.compile(r"(?:\bto_\w+\(|\bsave\w*\(|\b(?:output|out|dest|target)\w*\s*=|\bfilename:)\s*[rfb]?$")
FENCED = re.compile(r"```(?:\w+)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
"""Code between fences in what an agent says; agents that act by code have no calls of tools for it."""
_FEWEST_DIGITS = 6
_MOST_NUMBERS = 300


class Unobserved(msgspec.Struct, frozen=True, kw_only=True):
    """A step that acts on something that no observation returned before it; `failed` says what the tool thought."""

    step: int
    span_id: str
    tool: str
    kind: BeliefKind
    value: str
    failed: bool


class BeliefCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What a trace shows of it: the first such step if there is one, of the `checked` steps that named something.

    `why` says why nothing can be known: the trace keeps no observations, or they were cut before the step.
    """

    first: Unobserved | None = None
    checked: int = 0
    why: str | None = None


class StepBelief(msgspec.Struct, frozen=True, kw_only=True):
    """A step that names a file, an id or a value; `why` says why nobody can know whether it was observed."""

    step: int
    unobserved: Unobserved | None = None
    why: str | None = None


def belief_of(trace: Trace | TraceWords) -> BeliefCheck:
    """The first step of a trace that acts on a file, an id or a value that no observation returned.

    Example: `belief_of(trace).first.value` is the invented name.
    """
    checked = 0
    for belief in step_beliefs(trace if isinstance(trace, TraceWords) else TraceWords(trace)):
        checked += 1
        if belief.unobserved is not None or belief.why is not None:
            return BeliefCheck(first=belief.unobserved, why=belief.why, checked=checked)
    return BeliefCheck(checked=checked, why=None if checked else "no step names a file, an id or a value")


def step_beliefs(words: TraceWords) -> Iterator[StepBelief]:
    """Every step that names something, with what no observation before it returned."""
    seen = _Observed()
    failing = {error.step.at for error in words.errors}
    in_group = len({s.span.agent for s in words.steps if s.span.kind == "model"}) > 1
    for step in words.steps:
        span = step.span
        for message in step.inputs():
            if message.role != "assistant":
                seen.add(message.text)
        written = FENCED.findall(step.said) if span.kind == "model" and "```" in step.said else []
        if step.at == 0 and in_group:  # the first message states the task
            seen.add(FENCED.sub("", step.said))
        if written or (span.kind == "tool" and span.arguments is not None):
            named = [h for code in written for h in _in_code(code)] if written else list(_handles(span, step.arguments))
            if named:
                yield _belief(step, named, seen, step.at in failing)
            if step.at not in failing:  # it exists now, if it did not before
                seen.add("\n".join(written) if written else step.arguments)
        if span.kind != "model":
            seen.add(step.said)
            seen.add(step.answers)
        if span.result is not None:
            seen.add(step.result)
        seen.cut = seen.cut or (span.truncated and span.kind != "model")


def _belief(step: StepWords, named: list[tuple[BeliefKind, str]], seen: _Observed, failed: bool) -> StepBelief:
    if seen.empty:
        return StepBelief(step=step.at, why="the trace keeps no observation before its first call of a tool")
    new = next(((kind, value) for kind, value in named if not seen.has(kind, value)), None)
    if new is None:
        return StepBelief(step=step.at)
    if seen.cut:
        return StepBelief(step=step.at, why=f"observations before step {step.at} were cut when stored")
    span = step.span
    unobserved = Unobserved(
        step=step.at, span_id=span.span_id, tool=span.name, kind=new[0], value=new[1], failed=failed
    )
    return StepBelief(step=step.at, unobserved=unobserved)


class _Observed:
    """What was observed so far."""

    def __init__(self) -> None:
        self.cut = False
        self._texts: dict[str, None] = {}
        self._folded: list[str] = []

    @property
    def empty(self) -> bool:
        return not self._texts

    def add(self, text: str) -> None:
        if text:
            self._texts[text] = None  # a result is seen twice: when it comes, and when the model reads it

    def has(self, kind: BeliefKind, value: str) -> bool:
        known = self._known()
        folded = value.casefold()
        if any(folded in text for text in known):
            return True
        if kind == "file":  # a listing names the last part only, and folders are told apart from files
            last = folded.rstrip("/").rpartition("/")[2]
            return any(last in text for text in known)
        return kind == "value" and self._computed(float(value))

    def _known(self) -> list[str]:
        """The observed texts in lower case; most traces name few things, so only what is asked for is folded."""
        if len(self._folded) < len(self._texts):
            texts = list(self._texts)
            self._folded += [text.casefold() for text in texts[len(self._folded) :]]
        return self._folded

    def _computed(self, value: float) -> bool:
        """Whether a number is the sum, difference, product or quotient of two that were observed."""
        numbers: list[float] = []
        for text in self._known():
            numbers += [float(n) for n in _NUMBER.findall(text)[:_MOST_NUMBERS]]
        known = sorted(set(numbers[-_MOST_NUMBERS:]))
        for a in known:
            others = (value - a, value + a, a - value, *((value / a, value * a, a / value) if a and value else ()))
            if any(_is_among(other, known) for other in others):
                return True
        return False


def _is_among(value: float, known: list[float]) -> bool:
    """Whether a sorted list holds a number, but for rounding."""
    at = bisect_left(known, value)
    return any(math.isclose(value, near, rel_tol=1e-6, abs_tol=1e-6) for near in known[max(0, at - 1) : at + 1])


def _handles(span: Span, arguments: str) -> Iterator[tuple[BeliefKind, str]]:
    """What a call of a tool names: files, ids and values, in the order of its arguments."""
    if not MAY_NAME_NEW.isdisjoint(words_of(span.tool or span.name)):
        return
    for text in _leaves(arguments_value(arguments)):
        yield from _in_text(text)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield repr(value)


def _in_text(text: str) -> Iterator[tuple[BeliefKind, str]]:
    """Files anywhere in an argument (commands hold them too); an id or a number only where it is the whole argument."""
    whole = text.strip()
    if not whole or len(whole) > 2000 or "://" in whole:
        return
    if _NUMBER.fullmatch(whole):
        if len(whole.replace(".", "").lstrip("-0")) >= _FEWEST_DIGITS:
            yield ("id" if whole.isdigit() else "value"), whole
        return
    if _ID.fullmatch(whole) and any(c.isdigit() for c in whole) and len(whole) >= _FEWEST_DIGITS:
        yield "id", whole
        return
    for match in _FILE.finditer(whole):
        name = match.group()
        if "/" not in name and match.end() - match.start() != len(whole) and " " not in whole:
            continue  # part of a word such as module.attribute
        if not _is_file(name) or _CREATES.search(whole[: match.start()]):
            continue
        yield "file", name


def _in_code(code: str) -> Iterator[tuple[BeliefKind, str]]:
    """Files that a program names as texts to read; what it writes may be new."""
    for match in _LITERAL.finditer(code):
        name = match["text"].replace("\\", "")
        if "://" in name or not _CODE_FILE.fullmatch(name) or name.startswith(_KNOWN_PLACES):
            continue
        if not _WRITE_MODE.match(code, match.end()) and not _WRITES_TO.search(code, 0, match.start()):
            yield "file", name


def _is_file(name: str) -> bool:
    """A path with a real last part, or a bare name with an ending; places that every system has are known."""
    if name.startswith(_KNOWN_PLACES) or name.strip("./~") == "":
        return False
    return "." in name.rpartition("/")[2].lstrip(".")
