"""Loops and repeats: near-identical calls that bring nothing new, cycles of two calls, the same words said again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rapidfuzz.distance import Levenshtein

from .changing_tools import changes_by_name
from .finding import Finding, quoted
from .phrases import NOTHING_FOUND
from .step_words import Observation, StepWords, TraceWords, call_finding
from .templates import template_of

FEWEST = 3
"""The smallest number of near-identical calls that is a loop."""
NEAR = 0.85
"""Arguments are near-identical from this similarity on (1 − edits / length)."""
_MOST_CHARS = 4000
_MOST_NOTHING = 600


def loop_findings(words: TraceWords) -> Iterator[Finding]:
    """Loops of calls, cycles A→B→A, agents that say the same again and again; one finding for each of them."""
    repeated = list(_call_loops(words.calls))
    yield from repeated
    yield from _said_again(words)
    if not repeated:
        yield from _fruitless(words)


def _call_loops(calls: Sequence[StepWords]) -> Iterator[Finding]:
    at = 0
    while at < len(calls):
        end = _same_run(calls, at)
        if end - at >= FEWEST:
            yield _loop(calls[at:end], f"loop:{calls[at].name}")
        elif (end := _cycle(calls, at)) > at:
            yield _loop(calls[at:end], f"loop:{calls[at].name}>{calls[at + 1].name}")
        else:
            end = at + 1
        at = end


def _fruitless(words: TraceWords) -> Iterator[Finding]:
    """Three or more results in a row that say the same, one error or that nothing was found, of code that an agent
    writes anew each time; calls whose arguments are recorded are compared by those."""
    row: list[Observation] = []
    before = ""
    for seen in [*(o for o in words.observations if not o.is_call or not o.step.arguments), None]:
        kind = "" if seen is None else _fruit(seen)
        if kind != before or not kind:
            if len(row) >= FEWEST:
                again = row[1]
                yield Finding(
                    name=f"loop:{'same_error' if again.failed else 'nothing_found'}",
                    cls="loop",
                    source="class",
                    step=again.step.at,
                    text=quoted(again.words),
                    detail={"times": len(row), "from": row[0].step.at, "to": row[-1].step.at},
                )
            row = []
        if seen is not None and kind:
            row.append(seen)
        before = kind


def _fruit(seen: Observation) -> str:
    """What a result says if it brings nothing: the template of its error, or that nothing was found."""
    if seen.failed:
        return template_of(seen.words).id
    return "nothing" if len(seen.words) <= _MOST_NOTHING and NOTHING_FOUND.search(seen.words) else ""


def repeat_findings(words: TraceWords) -> Iterator[Finding]:
    """Calls that were made before with the same arguments and had not failed; one finding for each tool."""
    seen: dict[tuple[str, str], StepWords] = {}
    told: set[str] = set()
    for call in words.calls:
        key = call.name, call.arguments
        before = seen.get(key)
        if before is not None and call.name not in told and call.arguments.strip() not in ("", "{}"):
            told.add(call.name)
            yield call_finding(call, f"repeat:{call.name}", "event", None, first_step=before.at)
        if not call.failed:
            seen.setdefault(key, call)


def _loop(calls: Sequence[StepWords], name: str) -> Finding:
    """The loop begins where the first call is made again: the first call itself was not yet a mistake."""
    again = calls[1] if calls[0].name == calls[1].name else calls[2]
    detail = {"calls": len(calls), "from": calls[0].at, "to": calls[-1].at}
    return call_finding(again, name, "class", "loop", **detail)


def _same_run(calls: Sequence[StepWords], at: int) -> int:
    """The end of the run of near-identical calls that starts here."""
    first, end = calls[at], at + 1
    while end < len(calls) and is_again(first, calls[end]):
        end += 1
    return end


def _cycle(calls: Sequence[StepWords], at: int) -> int:
    """The end of a cycle A→B→A that starts here, or `at`: three calls that only read, or two whole rounds."""
    end = at + 2
    if end >= len(calls) or (calls[at].name == calls[at + 1].name and is_again(calls[at], calls[at + 1])):
        return at
    while end < len(calls) and is_again(calls[end - 2], calls[end]):
        end += 1
    length = end - at
    if (length >= 4 and length % 2 == 0) or length >= 5:
        return end
    reads = changes_by_name(calls[at + 1].name) is False and changes_by_name(calls[at].name) is False
    return end if length == 3 and reads and calls[at].arguments == calls[at + 2].arguments else at


def is_again(one: StepWords, other: StepWords) -> bool:
    """Whether a call repeats another one: near-identical arguments, and nothing new came back."""
    if one.name != other.name:
        return False
    if one.failed != other.failed or not (one.failed or one.result == other.result):
        return False
    return _is_near(one.arguments, other.arguments)


def _is_near(one: str, other: str) -> bool:
    if one == other:
        return True
    if not one or not other or max(len(one), len(other)) > _MOST_CHARS:
        return False
    return Levenshtein.normalized_similarity(one, other, score_cutoff=NEAR) >= NEAR


def _said_again(words: TraceWords) -> Iterator[Finding]:
    """The same agent says nearly the same at least three times."""
    groups: list[list[StepWords]] = []
    for step in words.steps:
        if step.span.kind not in ("model", "handoff") or len(step.said) < 40:
            continue
        for group in groups:
            if group[0].span.agent == step.span.agent and _is_near(group[0].said, step.said):
                group.append(step)
                break
        else:
            groups.append([step])
            del groups[:-20]
    for group in groups:
        if len(group) >= FEWEST:
            again = group[1]
            yield Finding(
                name="loop:said_again",
                cls="loop",
                source="class",
                step=again.at,
                text=quoted(again.said),
                detail={
                    "times": len(group),
                    "from": group[0].at,
                    "to": group[-1].at,
                    "what": "says nearly the same three times or more",
                },
            )
