"""From the verdicts of several checks to labels and one outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from ethogram.traces import Label, Missing, Outcome, Ref, Scored, TraceId, cut_whole

from .checks import CheckScore

MAX_WHY = 4000
NOWHERE = TraceId("")
"""The trace of a label that is not attached yet."""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one check found; `definition` is a short hash of what it demanded."""

    name: str
    kind: str
    definition: str
    required: bool
    verdict: CheckScore

    @property
    def by(self) -> str:
        """The author of a label: the kind of check, and its settings."""
        return f"{self.kind}@{self.definition}"

    def label(self, trace: TraceId = NOWHERE) -> Label:
        """The label of this check. Its `why` is still the words themselves: the store puts an address there."""
        verdict = self.verdict
        return Label(
            trace_id=trace,
            name=self.name,
            value=verdict.score,
            by=self.by,
            source="verifier",
            why=Ref(cut_whole(verdict.why, MAX_WHY)) if verdict.why else None,
        )


def label_names(checks: Iterable[tuple[str, str]]) -> list[str]:
    """The label of each check, given (kind, name): its name, else its kind; further ones of a kind are numbered."""
    seen: Counter[str] = Counter()
    found = []
    for kind, name in checks:
        base = name or kind
        seen[base] += 1
        found.append(base if seen[base] == 1 else f"{base}-{seen[base]}")
    return found


def combine(results: Sequence[CheckResult], outcome: str | None = None) -> Outcome:
    """All required checks together: the lowest score. `outcome` names the one check that decides alone."""
    deciding = [r for r in results if (r.required if outcome is None else r.name == outcome)]
    if not deciding:
        what = f"the task has no check named {outcome!r}" if outcome else "the task has no required check"
        return Missing("unscored", what)
    unsure = next((r for r in deciding if r.verdict.score is None), None)
    if unsure is not None:
        return Missing("unscored", cut_whole(f"{unsure.name}: {unsure.verdict.why}", 500))
    value = min(r.verdict.score for r in deciding if r.verdict.score is not None)
    return Scored(value, "+".join(r.name for r in deciding))
