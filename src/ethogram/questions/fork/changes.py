"""The step and the change of a fork, from the user's input: the blamed step, words, or what another trace has there."""

from __future__ import annotations

from ethogram.errors import BadUsage
from ethogram.findings.blame import blamed_step
from ethogram.findings.findings import findings
from ethogram.reading.expected_calls import facts_for
from ethogram.reading.traces import find_trace
from ethogram.store import Home
from ethogram.traces import Scored
from ethogram.wire.gateway.fork import ForkChange, parse_change, taken_change

TAKEN = ("answer_of", "result_of")
"""Changes that are taken from another trace."""


def blamed_in(trace: str, source: str | None, home: Home) -> int:
    """The step of a failed trace that rules blame; raises `BadUsage` where there is none."""
    run, entry = find_trace(trace, run=source, home=home)
    found, outcome = run.trace(entry), entry.head.outcome
    if isinstance(outcome, Scored) and outcome.success(run.success_at):
        raise BadUsage(f"trace {trace} succeeded, so no step of it is blamed; give --at N (ethogram trace lists them)")
    blamed = blamed_step(found, findings(found, run.success_at, facts_for(run, home)(found)))
    if blamed is None:
        raise BadUsage(f"no agent did anything in trace {trace}, so no step of it is blamed; fork another trace")
    return blamed.step


def change_of(words: str, home: Home) -> ForkChange:
    """A change from its words: `what=words`, or `answer_of=TRACE:STEP` and `result_of=TRACE:STEP` for another trace's.

    Raises `BadUsage` where it is none.
    """
    what, text = _named(words)
    if what not in TAKEN:
        return parse_change(what, text)
    name, colon, step = text.rpartition(":")
    if not colon or not step.isdigit():
        raise BadUsage(f"{what}={text} names no step; write {what}=TRACE:STEP, such as {what}=4f1c22:3")
    run, entry = find_trace(name, home=home)
    taken = taken_change(run.trace(entry), int(step))
    if taken.what != what.removesuffix("_of"):
        raise BadUsage(f"step {step} of trace {name} has no {what.removesuffix('_of')}; give {taken.what}_of={text}")
    return taken


def _named(words: str) -> tuple[str, str]:
    """`what=words` apart."""
    what, equals, text = words.partition("=")
    if not equals:
        raise BadUsage(f"{words!r} changes nothing; write for example prompt=…, model=…, result=… or answer=…")
    return what.strip(), text
