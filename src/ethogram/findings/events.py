"""Events of a trace that may differ between successes and failures: which tools were called and in which pairs, how
it ended, what was not read back, refused, cut off, claimed or left behind. An event alone is neither good nor bad."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ethogram.traces import is_length_stop

from .changing_tools import Changing, ends_by_name, reads_world
from .finding import Facts, Finding, quoted
from .loops import repeat_findings
from .phrases import CLAIMS_SUCCESS, MOST_READ, REFUSAL, REFUSAL_STOPS
from .step_words import Observation, StepWords, TraceWords, call_finding
from .templates import template_of

_START = 600
"""A refusal stands in the first characters of a reply."""
_ENDED = ("termination_reason", "exit_status", "ended_by", "limit")


def event_findings(words: TraceWords, facts: Facts) -> Iterator[Finding]:
    """Events, each at most once, at the first step where it happens."""
    yield from _called(words)
    yield from _replies(words)
    yield from repeat_findings(words)
    yield from _left_behind(words)
    yield from _ending(words, facts)


def template_findings(words: TraceWords) -> Iterator[Finding]:
    """Error templates, each once, with the number of times that it occurs and the first and last step."""
    found: dict[str, tuple[str, list[Observation]]] = {}
    for error in words.errors:
        template = template_of(error.words)
        found.setdefault(template.id, (template.words, []))[1].append(error)
    for name, (masked, errors) in found.items():
        first, last = errors[0], errors[-1]
        yield Finding(
            name=f"error:{name}",
            source="template",
            step=first.step.at,
            text=quoted(first.words),
            detail={"words": masked, "of": first.of, "count": len(errors), "last_step": last.step.at},
        )


def _called(words: TraceWords) -> Iterator[Finding]:
    before: StepWords | None = None
    told: set[str] = set()
    for call in words.calls:
        names = [f"called:{call.name}"]
        if before is not None:
            names.append(f"pair:{before.name}>{call.name}")
        for name in names:
            if name not in told:
                told.add(name)
                yield Finding(
                    name=name, source="event", step=call.at, text=quoted(f"{call.name}({call.arguments})", 120)
                )
        before = call


def _replies(words: TraceWords) -> Iterator[Finding]:
    """Replies that were cut off or refused."""
    told: set[str] = set()
    for step in words.steps:
        if step.span.kind != "model":
            continue
        stop = step.span.stop_reason
        for name, is_so in (
            ("length_stop", is_length_stop(stop)),
            (
                "refusal",
                stop in REFUSAL_STOPS or REFUSAL.search(step.said, 0, _START) is not None,
            ),
        ):
            if is_so and name not in told:
                told.add(name)
                yield Finding(name=name, source="event", step=step.at, text=quoted(step.said))


def _left_behind(words: TraceWords) -> Iterator[Finding]:
    """Calls that never returned, and failed calls of tools that never worked afterwards."""
    told: set[str] = set()
    worked: set[str] = set()
    logged = any(c.returned for c in words.calls)
    for i, call in enumerate(reversed(words.calls)):
        if not call.returned:  # nothing is returned to an agent that has ended
            name = f"no_return:{call.name}" if logged and (i or not ends_by_name(call.name)) else ""
        elif call.failed:
            name = f"abandoned:{call.name}" if call.name not in worked else ""
        else:
            worked.add(call.name)
            name = ""
        if name and name not in told:
            told.add(name)
            text = f"{call.name}({quoted(call.arguments, 120)}) {call.error}"
            yield Finding(name=name, source="event", step=call.at, text=quoted(text))


def _ending(words: TraceWords, facts: Facts) -> Iterator[Finding]:
    """How it ended: by which step or reason, with a write that nobody read back, or with a claim against an error."""
    if not words.steps:
        return
    meta, last = words.trace.head.meta, words.steps[-1]
    said = next((str(meta[k]) for k in _ENDED if isinstance(meta.get(k), str) and len(str(meta[k])) < 60), None)
    how = said or (f"call of {last.name}" if last.is_call else last.span.stop_reason or last.span.kind)
    yield Finding(name=f"ended:{how}", source="event", step=last.at, text=quoted(last.said or last.result or last.name))
    origin = words.trace.head.origin
    changes = Changing(facts, origin.format if origin else "", (c.name for c in facts.expected or ()))
    writes = changes_read_back(words, changes)
    if writes and writes[-1].read_at is None:
        yield call_finding(writes[-1].call, f"write_not_read_back:{writes[-1].call.name}", "event", None)
    claim = claim_after_error(words)
    if claim is not None:
        final, tried = claim
        yield Finding(
            name="success_claimed_after_error",
            source="event",
            step=final.at,
            text=quoted(final.said),
            detail={"error_step": tried.at, "error": quoted(tried.error)},
        )


class ReadBack(NamedTuple):
    """A call that changed the world, and the step of the first read after it, if there is one."""

    call: StepWords
    read_at: int | None


def changes_read_back(words: TraceWords, changes: Callable[[str], bool]) -> list[ReadBack]:
    """Calls that changed the world without an error, each with the first later call that looked at the world.

    A last step that ends the episode is not among them: nothing can be read after it.
    """
    last = words.steps[-1] if words.steps else None
    reads = [c.at for c in words.calls if not c.failed and c.returned and reads_world(c.name) and not changes(c.name)]
    made = [c for c in words.calls if not c.failed and changes(c.name) and not (c is last and ends_by_name(c.name))]
    return [ReadBack(c, next((at for at in reads if at > c.at), None)) for c in made]


def claim_after_error(words: TraceWords) -> tuple[StepWords, StepWords] | None:
    """The last words of an agent that claim success, and the last call, which failed; None where that is not so."""
    final = words.last_said
    tried = words.calls[-1] if words.calls else None
    if final is None or tried is None or not tried.failed or final.at < tried.at:
        return None
    return (final, tried) if CLAIMS_SUCCESS.search(final.said, 0, MOST_READ) else None
