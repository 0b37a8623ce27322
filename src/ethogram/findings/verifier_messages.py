"""The verifier's messages on a trace: failed checks with expected and actual values, failed tests, errors.

This describes a failure; it is neither its cause nor an explanation. It comes from the labels of our own runs, from the
reward of tau-bench and tau2, from scores of Inspect and AgentDojo, and from test reports of SWE-bench.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ethogram.display.shorten import shortened
from ethogram.errors import EthogramError
from ethogram.traces import Label, Scored, Trace

from .finding import Finding, quoted
from .rubric import is_rubric_label
from .step_words import decoded_or_none
from .templates import template_of

_BAD_WORDS = frozenset({"i", "n", "no", "false", "fail", "failed", "incorrect", "wrong"})
_NO_VERDICT = frozenset({"stopped_by", "security", "invalidated"})
"""Labels that are no verdict on what the agent was asked: how a run ended, and whether an attack worked."""
_LESS_IS_BETTER = re.compile(r"toxic|hallucinat|bias|harm|risk|error|latency|cost|attack|inject|leak", re.IGNORECASE)
_FAILED_TEST = re.compile(r"^failed (\S+?)(?:: (.*))?$", re.MULTILINE)
_IS_NOT = re.compile(r"(?:^|: )(?P<got>[^:;]{1,200}?) is not (?P<expected>.{1,200})$", re.DOTALL)
_SAYS = re.compile(r"^the answer says (?P<got>.+?); (?P<expected>.+?) is right$", re.DOTALL)
_MOST = 20
_MOST_WORDS = 300


def verifier_findings(trace: Trace, success_at: float) -> list[Finding]:
    """The verifier's findings against a trace, at most twenty; a score below `success_at` is one."""
    found = [f for label in trace.labels for f in _of_label(trace, label, success_at)]
    found.extend(_of_rewards(trace.head.meta.get("reward_info"), success_at))
    found.extend(_of_reports(trace))
    found.extend(_of_crashes(trace))
    outcome = trace.outcome
    if not found and isinstance(outcome, Scored) and not outcome.success(success_at):
        by = outcome.by or "score"
        found.append(_said(f"score:{by}", f"{by}: {outcome.value:g}", _target(trace)))
    unique = {(f.name, f.text): f for f in found}
    return list(unique.values())[:_MOST]


def _said(name: str, text: str, detail: dict[str, Any] | None = None) -> Finding:
    return Finding(name=name, source="verifier", text=quoted(text), detail=detail or {})


def _target(trace: Trace) -> dict[str, Any]:
    """What was expected and what was answered, where the log keeps both."""
    target, answer = trace.head.meta.get("target"), trace.answer
    known = {"expected": target, "got": quoted(answer) if answer else None}
    return {k: v for k, v in known.items() if v is not None}


def _of_label(trace: Trace, label: Label, success_at: float) -> Iterator[Finding]:
    if label.source in ("hand", "heuristic") or label.span_id is not None or label.name in _NO_VERDICT:
        return
    if is_rubric_label(label.name):  # a judge of the way taken is no verifier of the outcome
        return
    if not is_bad(label.value, success_at):
        return
    if label.source != "verifier" and _is_unclear(trace, label, success_at):
        return
    why = _why(trace, label)
    tests = _FAILED_TEST.findall(why) if "failed " in why else []
    if tests:
        for test, message in tests:
            yield _said(f"test:{test}", f"{test}: {message}" if message else test, {"check": label.name})
        return
    match = _SAYS.search(why) or _IS_NOT.search(why)
    detail: dict[str, Any] = match.groupdict() if match else {} if why else _target(trace)
    yield _said(f"check:{label.name}", why or f"{label.name}: {label.value}", detail)


def is_bad(value: float | bool | str | None, success_at: float) -> bool:
    """Whether the value of a verdict is bad for the agent."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value < success_at
    return isinstance(value, str) and value.strip().casefold() in _BAD_WORDS


def _is_unclear(trace: Trace, label: Label, success_at: float) -> bool:
    """Whether nobody says that a low number of a foreign log is bad: of toxicity it is good, and it may be either
    without an outcome that failed as well."""
    if isinstance(label.value, bool | str):
        return False
    outcome = trace.outcome
    failed = isinstance(outcome, Scored) and not outcome.success(success_at)
    return not failed or less_is_better(label.name)


def less_is_better(name: str) -> bool:
    """Whether a low number under this name is good, as of toxicity."""
    return _LESS_IS_BETTER.search(name) is not None


def _why(trace: Trace, label: Label) -> str:
    """The words of a label; in a label that no store has seen yet they stand in the place of the address."""
    if label.why is None:
        return ""
    try:
        return trace.text(label.why)
    except KeyError:
        return "" if label.why.startswith("b2:") else label.why


def _of_rewards(reward: Any, success_at: float) -> Iterator[Finding]:
    """The reward of tau-bench: the state of its database, and what the agent had to say."""
    read = decoded_or_none(reward)
    info = read.get("info") if isinstance(read, dict) else None
    if not isinstance(info, dict):
        return
    if is_bad(info.get("r_actions"), success_at):
        yield _said("check:r_actions", "the state of the database is not the one that the expected actions leave")
    outputs = info.get("outputs")
    for wanted, was_said in outputs.items() if isinstance(outputs, dict) else ():
        if was_said is False:
            yield _said("check:outputs", f"the agent never said {wanted!r}", {"expected": wanted})


def _of_reports(trace: Trace) -> Iterator[Finding]:
    """Test reports of SWE-bench, as logs keep them: `{FAIL_TO_PASS: {failure: […]}, …}`."""
    for value in trace.head.meta.values():
        if not isinstance(value, str) or "_TO_PASS" not in value:
            continue
        for group, tests in _reports(decoded_or_none(value)):
            for test in tests:
                yield _said(f"test:{test}", f"{group}: {test}", {"check": group})


def _reports(value: Any, depth: int = 0) -> Iterator[tuple[str, list[str]]]:
    if not isinstance(value, dict) or depth > 6:
        return
    for key, below in value.items():
        if key.endswith("_TO_PASS") and isinstance(below, dict) and isinstance(below.get("failure"), list):
            yield key, [str(t) for t in below["failure"][:_MOST]]
        else:
            yield from _reports(below, depth + 1)


def _of_crashes(trace: Trace) -> Iterator[Finding]:
    for span in trace.spans:
        if span.kind == "other" and span.name == "crash" and span.error is not None:
            error = trace.text(span.error)
            yield _said(f"crash:{template_of(error).id}", error.strip().splitlines()[-1] if error.strip() else error)
    for label in trace.labels:
        if label.name == "stopped_by" and str(label.value).startswith("crash."):
            why = _why(trace, label)
            yield _said(f"crash:{template_of(why).id}", why or str(label.value))


def what_checks_said(trace: Trace, success_at: float) -> str:
    """The messages of failed checks, a verifier's first; empty where there is none."""
    newest = {label.name: label for label in trace.labels if label.span_id is None}
    failed = [x for x in newest.values() if _fails(x, success_at)]
    told = [x for x in failed if x.source == "verifier"] or failed
    whole = "; ".join(f"{x.name}: {said}" for x in told if (said := _one_line(trace, x)))
    return shortened(whole, _MOST_WORDS)


def _fails(label: Label, success_at: float) -> bool:
    return isinstance(label.value, bool | int | float) and float(label.value) < success_at


def _one_line(trace: Trace, label: Label) -> str:
    """A label's words on one line; nothing where they are sealed or no longer kept."""
    with suppress(EthogramError, KeyError):
        return " ".join(trace.text(label.why).split()) if label.why is not None else ""
    return ""
