"""The rule judge: the five standard items from a trace alone, by the detectors that `ethogram why` uses.

It says yes where no detector speaks against a step. It costs nothing and always says the same; what it cannot see is
quality that needs understanding: a defensible tool that was not the best, or a result that was misread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from ethogram.findings.asked_steps import asked_steps
from ethogram.findings.belief import StepBelief, step_beliefs
from ethogram.findings.changing_tools import Changing
from ethogram.findings.classes import class_findings, class_of_error, is_code_tool, not_offered
from ethogram.findings.events import changes_read_back, claim_after_error
from ethogram.findings.facts import known_facts
from ethogram.findings.finding import Facts, Finding, quoted
from ethogram.findings.loops import is_again, loop_findings
from ethogram.findings.phrases import CLAIMS_SUCCESS, MOST_READ, SCHEMA_ERROR
from ethogram.findings.rubric import STANDARD, ItemVerdict, Rubric, TraceVerdict
from ethogram.findings.step_words import StepWords, TraceWords
from ethogram.traces import Param, is_length_stop

from .judges import Case, Preference, prefer_by_score

VERSION = "1"
"""Changes with the rules, so that traces judged by older ones are judged again."""
NOTHING_AGAINST = "no rule found a problem"


class RuleJudge:
    """Judges by rule; items that are not standard stay unknown."""

    by = "rule"
    models: tuple[str, ...] = ()

    @property
    def settings(self) -> dict[str, Param]:
        """The version of the rules."""
        return {"judge": self.by, "rules": VERSION}

    def judge(self, case: Case, rubric: Rubric) -> TraceVerdict:
        """A verdict for every step that an item asks about.

        Raises `KeyError`, or whatever a store raises, where texts of the trace are gone or sealed.
        """
        read = _RuleReading(TraceWords(case.trace), case.facts)
        found: list[ItemVerdict] = []
        for item in rubric.items:
            # an own item may reuse a standard name for another question: only the standard one has a rule
            rule = read.rules.get(item.name) if STANDARD.item(item.name) == item else None
            for step in asked_steps(read.words, item.applies_to, case.facts):
                if rule is None:
                    found.append(ItemVerdict(item=item.name, step=step, value=None, why="no rule answers this item"))
                    continue
                found.append(rule(item.name, read.words.steps[step]))
        return TraceVerdict(verdicts=tuple(found))

    def prefer(self, first: Case, second: Case, rubric: Rubric) -> Preference:
        """The trace with the higher score."""
        return prefer_by_score(self, first, second, rubric)

    def reading_in(self, window: int) -> RuleJudge:
        """It reads whole traces."""
        return self


class _RuleReading:
    """One trace with what detectors found in it, each asked once."""

    def __init__(self, words: TraceWords, facts: Facts | None) -> None:
        self.words = words
        self.facts = known_facts(words.trace) if facts is None else facts
        self.rules: dict[str, Callable[[str, StepWords], ItemVerdict]] = {
            "tool_choice": self.tool_choice,
            "arguments_grounded": self.arguments_grounded,
            "result_read": self.result_read,
            "state_reverified": self.state_reverified,
            "termination": self.termination,
        }

    @cached_property
    def classes(self) -> list[Finding]:
        return list(class_findings(self.words, self.facts))

    @cached_property
    def loops(self) -> list[Finding]:
        return list(loop_findings(self.words))

    @cached_property
    def beliefs(self) -> dict[int, StepBelief]:
        return {b.step: b for b in step_beliefs(self.words)}

    @cached_property
    def errors(self) -> dict[int, str]:
        return {e.step.at: e.words for e in self.words.errors if e.is_call}

    @cached_property
    def read_back(self) -> dict[int, int | None]:
        origin = self.words.trace.head.origin
        changes = Changing(self.facts, origin.format if origin else "")
        return {c.call.at: c.read_at for c in changes_read_back(self.words, changes)}

    @cached_property
    def next_calls(self) -> dict[int, StepWords]:
        """The next call of the same lane."""
        found: dict[int, StepWords] = {}
        last: dict[str, StepWords] = {}
        for call in reversed(self.words.calls):
            if call.span.lane in last:
                found[call.at] = last[call.span.lane]
            last[call.span.lane] = call
        return found

    @cached_property
    def last_reply(self) -> int:
        return max((s.at for s in self.words.steps if s.span.kind == "model"), default=-1)

    def tool_choice(self, item: str, step: StepWords) -> ItemVerdict:
        error = self.errors.get(step.at)
        if error is not None and class_of_error(error[:2000], is_call=not is_code_tool(step.name)) == "wrong_tool":
            return _no(item, step, f"there is no such tool: {error}")
        if not_offered(step, self.words, self.facts):
            return _no(item, step, f"the tool {step.name!r} was not offered")
        for loop in self.loops:
            begins, ends = loop.step, loop.detail.get("to")
            if begins is not None and isinstance(ends, int) and begins <= step.at <= ends and "what" not in loop.detail:
                return _no(item, step, f"repeats a call that brings nothing new ({loop.name})")
        return _yes(item, step)

    def arguments_grounded(self, item: str, step: StepWords) -> ItemVerdict:
        error = self.errors.get(step.at, "")[:2000]
        if error and not is_code_tool(step.name) and SCHEMA_ERROR.search(error):
            return _no(item, step, f"the tool rejected the form of the arguments: {error}")
        belief = self.beliefs.get(step.at)
        if belief is not None and belief.unobserved is not None:
            new = belief.unobserved
            return _no(item, step, f"no observation returned the {new.kind} {quoted(new.value, 120)!r}")
        if belief is not None and belief.why is not None:
            return ItemVerdict(item=item, step=step.at, value=None, why=belief.why)
        return _yes(item, step)

    def result_read(self, item: str, step: StepWords) -> ItemVerdict:
        claim = claim_after_error(self.words)
        if claim is not None and claim[1].at == step.at:
            return _no(item, step, f"it failed, and step {claim[0].at} claims success: {quoted(claim[0].said, 120)}")
        after = self.next_calls.get(step.at)
        if step.failed and after is not None and step.arguments == after.arguments and is_again(step, after):
            return _no(item, step, f"it failed, and step {after.at} makes the same call again")
        if self.last_reply < step.at:
            why = "nothing follows in which the result could be read"
            return ItemVerdict(item=item, step=step.at, value=None, why=why, applies=False)
        return _yes(item, step)

    def state_reverified(self, item: str, step: StepWords) -> ItemVerdict:
        if step.failed:
            return self._failed_change(item, step)
        read_at = self.read_back.get(step.at)
        if read_at is None:
            return _no(item, step, "no later call reads the state")
        return ItemVerdict(item=item, step=step.at, value=True, why=f"step {read_at} reads the state")

    def _failed_change(self, item: str, step: StepWords) -> ItemVerdict:
        """A change that failed: it must be tried again, or not be claimed."""
        again = any(c.at > step.at and c.name == step.name and not c.failed for c in self.words.calls)
        final = self.words.last_said
        claimed = final is not None and final.at > step.at and CLAIMS_SUCCESS.search(final.said, 0, MOST_READ)
        if claimed and not again:
            assert final is not None
            return _no(item, step, f"it failed, and step {final.at} claims success: {quoted(final.said, 120)}")
        return _yes(item, step)

    def termination(self, item: str, step: StepWords) -> ItemVerdict:
        for cls in self.classes:
            if cls.cls == "gave_up":
                return _no(item, step, f"it gave up: {cls.text}")
            if cls.cls == "budget":
                return _no(item, step, f"a limit ended it: {cls.text}")
        last = self.words.calls[-1].at if self.words.calls else None
        for loop in self.loops:
            if loop.detail.get("to") in (last, step.at):
                return _no(item, step, f"it went round in a loop until the end ({loop.name})")
        claim = claim_after_error(self.words)
        if claim is not None:
            return _no(item, step, f"it claims success although step {claim[1].at} failed")
        reply = self.words.last_said
        if reply is not None and reply.at == self.last_reply and is_length_stop(reply.span.stop_reason):
            return _no(item, step, "its last reply was cut off")
        if not self.words.calls and reply is None:
            return ItemVerdict(item=item, step=step.at, value=None, why="the trace holds neither a call nor words")
        return _yes(item, step)


def _no(item: str, step: StepWords, why: str) -> ItemVerdict:
    return ItemVerdict(item=item, step=step.at, value=False, why=quoted(why))


def _yes(item: str, step: StepWords) -> ItemVerdict:
    return ItemVerdict(item=item, step=step.at, value=True, why=NOTHING_AGAINST)
