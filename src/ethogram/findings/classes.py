"""Classes of failure by rule: wrong_tool, bad_args, hallucinated_state, gave_up, budget and infrastructure; loops are
in `loops`. A run may have several; each names its step."""

from __future__ import annotations

from collections.abc import Iterator

from ethogram.traces import Missing, is_infrastructure, is_marked

from .belief import belief_of
from .changing_tools import is_hand_over, words_of
from .finding import Facts, FailureClass, Finding, quoted
from .phrases import (
    BUDGET,
    CONTEXT_FULL,
    FORM_ERROR,
    GAVE_UP,
    INFRASTRUCTURE,
    MOST_READ,
    NO_SUCH_FILE,
    NO_SUCH_TOOL,
    SCHEMA_ERROR,
    VALUE_ERROR,
)
from .step_words import StepWords, TraceWords, call_finding

_ENDED = ("termination_reason", "exit_status", "ended_by", "limit", "stop_reason", "status", "error")
"""Meta values in which logs say how a run ended."""
_CODE_TOOLS = frozenset("python bash shell terminal computer execute run code interpreter exec command sh".split())  # noqa: SIM905


def class_findings(words: TraceWords, facts: Facts) -> Iterator[Finding]:
    """Classes of failure other than loops."""
    yield from _failed_calls(words)
    yield from _unknown_tools(words, facts)
    yield from _hallucinated(words)
    yield from _gave_up(words)
    yield from _limits(words)


def _failed_calls(words: TraceWords) -> Iterator[Finding]:
    """What the errors of calls say: no such tool, wrong form, wrong value, or a fault of the world around."""
    told: set[tuple[FailureClass, str]] = set()
    for seen in words.errors:
        step, error = seen.step, seen.words[:2000]
        cls = class_of_error(error, is_call=seen.is_call and not is_code_tool(step.name))
        if cls is None or (cls, step.name) in told:
            continue
        told.add((cls, step.name))
        call = f"{step.name}({quoted(step.arguments, 120)})"
        shown = f"{quoted(error, 160)}; called as {call}" if seen.is_call else error  # a narrow screen cuts the call
        yield Finding(
            name=f"{cls}:{step.name}",
            cls=cls,
            source="class",
            step=step.at,
            text=quoted(shown),
            detail={"decided_at": step.decision},
        )


def class_of_error(error: str, *, is_call: bool = True) -> FailureClass | None:
    """The failure class of an error text; for code that an agent ran, only its form says something about arguments."""
    if CONTEXT_FULL.search(error):
        return "budget"
    if INFRASTRUCTURE.search(error):
        return "infrastructure"
    if not is_call:
        return "bad_args" if FORM_ERROR.search(error) else None
    if NO_SUCH_TOOL.search(error):
        return "wrong_tool"
    return "bad_args" if SCHEMA_ERROR.search(error) or VALUE_ERROR.search(error) else None


def is_code_tool(name: str) -> bool:
    """Whether a tool runs code or commands that the agent writes."""
    return not _CODE_TOOLS.isdisjoint(words_of(name))


def _unknown_tools(words: TraceWords, facts: Facts) -> Iterator[Finding]:
    """Calls of tools that the agent was not offered, and that did not answer that they do not exist."""
    told: set[str] = set()
    for call in words.calls:
        if call.name not in told and not_offered(call, words, facts):
            told.add(call.name)
            if call.failed and NO_SUCH_TOOL.search(call.error):
                continue
            yield call_finding(call, f"wrong_tool:{call.name}", "class", "wrong_tool")


def not_offered(call: StepWords, words: TraceWords, facts: Facts) -> bool:
    """Whether a model asked for a tool that no request offered; an agent's own code may call what it likes."""
    known = bool(facts.offered) and not is_marked(call.name)
    return known and call.name not in facts.offered and call.name in words.asked_names


def _hallucinated(words: TraceWords) -> Iterator[Finding]:
    """The first step that acts on something unobserved; else the first file that was missing and nobody had named."""
    first = belief_of(words).first
    if first is not None:
        step = words.steps[first.step]
        detail = {"kind": first.kind, "value": first.value, "failed": first.failed}
        if step.is_call:
            yield call_finding(step, f"hallucinated_state:{step.name}", "class", "hallucinated_state", **detail)
        else:
            yield Finding(
                name="hallucinated_state:code",
                cls="hallucinated_state",
                source="class",
                step=step.at,
                text=_around(step.said, first.value),
                detail={**detail, "decided_at": step.at},
            )
        return
    for error in words.errors:
        match = NO_SUCH_FILE.search(error.words[-2000:])
        name = (match["name"] or match["other"]).rstrip("/").rpartition("/")[2] if match else ""
        if name and not any(name in text for _, who, text in words.sources(error.step.at) if who != "agent"):
            yield Finding(
                name="hallucinated_state:file",
                cls="hallucinated_state",
                source="class",
                step=error.step.at,
                text=quoted(error.words[-300:]),
                detail={"kind": "file", "value": name, "failed": True, "decided_at": error.step.decision},
            )
            return


def _gave_up(words: TraceWords) -> Iterator[Finding]:
    """The last words of an agent say that it cannot, or its last call hands over to people."""
    last = words.last_said
    if last is not None and (match := GAVE_UP.search(last.said, 0, MOST_READ)) is not None:
        text = _around(last.said, match.group())
        yield Finding(name="gave_up:said", cls="gave_up", source="class", step=last.at, text=text)
    call = words.calls[-1] if words.calls else None
    if call is not None and is_hand_over(call.name):
        yield call_finding(call, f"gave_up:{call.name}", "class", "gave_up")


def _around(text: str, words: str) -> str:
    """A piece of a text in which some words stand."""
    start = max(0, text.find(words) - 100)
    return quoted(text[start : start + 400])


def _limits(words: TraceWords) -> Iterator[Finding]:
    """Runs that a limit ended, and runs that the world around spoiled; only why an outcome is missing is looked at."""
    trace = words.trace
    outcome = trace.outcome
    last = len(words.steps) - 1 if words.steps else None
    stops = [str(x.value) for x in trace.labels if x.name == "stopped_by" and str(x.value).startswith("cap.")]
    if isinstance(outcome, Missing):
        if is_infrastructure(outcome.reason):
            name = f"infrastructure:{outcome.reason.partition('.')[2]}"
            yield Finding(name=name, cls="infrastructure", source="class", step=last, text=quoted(outcome.detail))
        if outcome.reason == "cap.experiment":
            stops.append(outcome.reason)
    for name in _ENDED if not stops else ():
        value = trace.head.meta.get(name)
        if isinstance(value, str) and len(value) < 400 and BUDGET.search(value):
            stops.append(quoted(value, 60))
            break
    for stop in stops:
        yield Finding(name=f"budget:{stop}", cls="budget", source="class", step=last, text=stop)
