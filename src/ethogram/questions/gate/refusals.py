"""What a provider refused, and a verdict: named where it stands in the way, and undecided where it could turn one."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ethogram.measures.outcomes import Outcomes, refused_words, turned
from ethogram.traces import PROVIDER_REASONS

from .results import GateResult, Needed
from .verdict import Judgement


def if_not_turned(
    found: Judgement, before: Outcomes, after: Outcomes, metric: str, judge: Callable[[Outcomes, Outcomes], Judgement]
) -> Judgement:
    """The judgement; undecided where the attempts that a provider refused could have turned it.

    Against a regression also those count that are missing; what missing attempts say against a pass is the gate's rule.
    """
    if found.verdict == "undecided":
        return found
    other = turned(before, after, found.verdict, metric)
    if other is None or judge(*other).verdict == found.verdict:
        return found
    why = f"attempts that a provider refused could turn the verdict; without them: {found.verdict}, {found.why}"
    return msgspec.structs.replace(found, verdict="undecided", decided_at=None, why=why)


def name_refusals(result: GateResult, before: Outcomes, after: Outcomes) -> None:
    """Say in a result what providers refused: first of all where nothing is decided, else as a warning."""
    words = refused_words((before, after), (result.base_run, result.candidate_run))
    if not words:
        return
    if result.verdict != "undecided":
        result.warnings.insert(0, words)
        return
    result.evidence = msgspec.structs.replace(result.evidence, why=f"{words}; {result.evidence.why}")
    sides = (result.base_run, before), (result.candidate_run, after)
    again = [name for name, o in sides if PROVIDER_REASONS & {*o.reason[~o.scored].tolist()}]
    how = " and ".join(f"ethogram run --resume {name}" for name in again) or "run again with a provider that answers"
    result.needed = Needed(runs=None, next_look_runs=None, cost_usd=None, why=f"make the refused attempts again: {how}")
