"""The one step of a failed trace that rules blame.

The principles, in this order: a call that differs from the reference; data that the agent made up, or the step that
brought the final answer, since a wrong answer was wrong when it came up, whichever is first; where there is no answer,
the first decision that led to an error, a request that had to be made again, a loop or an invented state; else the
first step in which an agent did something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from ethogram.traces import Trace

from .finding import Blamed, Finding
from .phrases import CONTROL, ENDS_TALK, ERROR_OUTPUT, FINAL_ANSWER, GAVE_UP, MADE_UP, MOST_READ
from .step_words import StepWords, TraceWords

_AGENTS = ("model", "handoff")
_VALUE = re.compile(
    r"\d[\d,]*(?:[./:]\d+)*%?|\*\*([^*\n]{2,60})\*\*|`([^`\n]{2,60})`|\"([^\"\n]{2,60})\"|\b[A-Z][\w'’-]{2,}"
)
_WORD = re.compile(r"\w+")
_COMMA = re.compile(r"(?<=\d),(?=\d{3}\b)")
_MOST_VALUES = 40


def blamed_step(trace: Trace | TraceWords, found: list[Finding]) -> Blamed | None:
    """The one step that rules blame, given the findings of a trace; None where no agent did anything.

    The step is the decision of an agent: of a wrong call the model step that asked for it.

    Example: `blamed_step(trace, findings(trace, run.success_at)).step`
    """
    words = trace if isinstance(trace, TraceWords) else TraceWords(trace)
    acts = [s for s in words.steps if _is_act(s, words)]
    if not acts:
        return None
    differing = [f for f in found if f.source == "reference" and f.step is not None]
    if differing:
        return _blamed(min(differing, key=lambda f: f.step or 0), words)
    answer = _final_answer(words, acts)
    made_up = next((s for s in acts[1:] if MADE_UP.search(s.said, 0, MOST_READ)), None)
    origin = None if answer is None else _origin(answer, words, acts)
    first = min((s for s in (made_up, origin) if s is not None), key=lambda s: s.at, default=None)
    if first is not None:
        return Blamed(step=first.at, agent=first.span.agent)
    wrong = [
        f for f in found if f.step is not None and f.cls in ("loop", "hallucinated_state", "bad_args", "wrong_tool")
    ]
    failing = (e.step for e in words.errors)
    errors = sorted({*failing, *(s for s in words.calls if ERROR_OUTPUT.search(s.result))}, key=lambda s: s.at)
    early = min(wrong, key=lambda f: f.step or 0, default=None)
    if errors and (early is None or early.step is None or errors[0].at <= early.step):
        return _decision(errors[0], words)
    unmet = _unmet(words)
    if unmet is not None:
        return Blamed(step=unmet.at, agent=unmet.span.agent)
    if early is not None:
        return _blamed(early, words)
    return Blamed(step=acts[0].at, agent=acts[0].span.agent)


def _blamed(finding: Finding, words: TraceWords) -> Blamed:
    step = words.steps[finding.step or 0]
    blamed = _decision(step, words) if step.is_call else Blamed(step=step.at, agent=step.span.agent)
    return Blamed(step=blamed.step, agent=blamed.agent, finding=finding)


def _decision(step: StepWords, words: TraceWords) -> Blamed:
    """The step of the agent that decided on a call: the last one before it in its lane, else in any."""
    at = step.decision if step.is_call else step.at
    if at is None:
        at = next((s.at for s in reversed(words.steps[: step.at]) if s.span.kind in _AGENTS), step.at)
    return Blamed(step=at, agent=words.steps[at].span.agent)


def _is_act(step: StepWords, words: TraceWords) -> bool:
    """Whether an agent did something: it called a tool, or said more than a word of control.

    The first message of a group of agents states the task; it is an act only if something was run from it.
    """
    if step.span.kind not in _AGENTS:
        return False
    follows = words.steps[step.at + 1] if step.at + 1 < len(words.steps) else None
    ran = follows is not None and follows.is_call and (follows.decision == step.at or follows.span.status != "unset")
    if ran or step.span.requested:
        return True
    return step.at > 0 and bool(step.said.strip()) and CONTROL.fullmatch(step.said.strip()) is None


def _final_answer(words: TraceWords, acts: list[StepWords]) -> str | None:
    """The answer at the end; None where the run broke off before one, or where the agent gave up.

    An answer that is marked as final counts wherever it stands at the end of the log. Otherwise only the leader of a
    group of agents answers, the one that spoke first, unless a word of control ends the talk.
    """
    if words.trace.answer:
        return words.trace.answer
    for span in reversed(words.trace.spans[-3:]):
        for ref in reversed(span.output):
            marked = FINAL_ANSWER.findall(words.trace.texts[ref][-2000:])
            if marked:
                return str(marked[-1].replace("\\n", "\n").split("\n")[0])
    spoken = [s for s in words.steps if s.span.kind in _AGENTS]
    last = words.steps[-1]
    if last.is_call or GAVE_UP.search(acts[-1].said, 0, MOST_READ):
        return None
    ended = ENDS_TALK.search(last.said) is not None
    return acts[-1].said if ended or last.span.agent == spoken[0].span.agent else None


def _unmet(words: TraceWords) -> StepWords | None:
    """The reply to the first request that had to be made again: what was asked of an agent and what is asked next have
    most words in common."""
    requests = [s for s in words.steps if s.span.kind == "handoff"]
    for one, other in pairwise(requests):
        before, after = set(_WORD.findall(one.said.casefold())), set(_WORD.findall(other.said.casefold()))
        if one.span.name == other.span.name and 2 * len(before & after) > len(before | after):
            replies = [s for s in words.steps[one.at : other.at] if s.span.agent != one.span.agent and s.said]
            if replies:
                return replies[-1]
    return None


def _origin(answer: str, words: TraceWords, acts: list[StepWords]) -> StepWords | None:
    """The step of an agent that brought the answer: the first to say it, or to run what returned it.

    Looked for are values that the task does not name: the answer as a whole if it is short, else at least half of its
    numbers and marked words, else of its names. The step that gives the answer counts if nobody said it before.
    """
    asked = _plain("\n".join(_asked(words)))
    said = [(step, _plain(_brought(step, words))) for step in acts]
    own: StepWords | None = None
    for values in _wanted(answer):
        new = [v for v in dict.fromkeys(values) if len(v) > 1 and v not in asked][:_MOST_VALUES]
        for step, text in said if new else ():
            if 2 * sum(v in text for v in new) >= len(new):
                if step is not acts[-1]:
                    return step
                own = step
    return own


def _brought(step: StepWords, words: TraceWords) -> str:
    """What a step said before any final answer, and what the call right after it returned."""
    after = words.steps[step.at + 1] if step.at + 1 < len(words.steps) else None
    own = step.said.partition("FINAL ANSWER:")[0]
    return f"{own}\n{after.result}" if after is not None and after.is_call else own


def _wanted(answer: str) -> Iterator[list[str]]:
    """The values of an answer by which its origin is looked for, best first."""
    whole = _plain(answer).strip().strip(".")
    if len(whole) <= 60:
        yield [whole]
        yield [part.strip() for part in re.split(r"[,;]", whole)]
    marked: list[str] = []
    names: list[str] = []
    for match in _VALUE.finditer(answer):
        inner = next((g for g in match.groups() if g), None)
        value = _plain(inner or match.group()).strip()
        (names if inner is None and not value[:1].isdigit() else marked).append(value)
    yield marked
    yield names


def _asked(words: TraceWords) -> Iterator[str]:
    """What was asked: the turns of people and the first message."""
    for step in words.steps:
        if step.at == 0 or step.span.kind == "user":
            yield step.said


def _plain(text: str) -> str:
    return _COMMA.sub("", text).casefold()
