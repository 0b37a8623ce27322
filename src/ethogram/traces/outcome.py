"""Outcomes: a score, or the reason why there is none. Never a number that stands for absence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

Reason = Literal[
    "infrastructure.network",
    "infrastructure.rate_limit",
    "infrastructure.timeout",
    "infrastructure.sandbox",
    "infrastructure.verifier",
    "infrastructure.other",
    "infrastructure.provider.key",
    "infrastructure.provider.permission",
    "infrastructure.provider.balance",
    "infrastructure.provider.model",
    "infrastructure.provider.address",
    "infrastructure.provider.overload",
    "infrastructure.provider.down",
    "infrastructure.provider.unreached",
    "cap.experiment",
    "killed",
    "cancelled",
    "unscored",
    "deviation",
]
"""Why an outcome is missing. The agent's own crash and its own caps are not here: they are scored."""


class ReasonFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a reason of a missing outcome means: in `words` that go on with "in 3 of 30 attempts", and what follows."""

    words: str
    infrastructure: bool = False
    """Something around the agent failed."""
    provider: bool = False
    """A provider of models refused the calls: `run --resume` makes the attempt again without being asked."""
    passes: bool = True
    """Whether it may pass by itself, so that trying again is worth it."""
    unjudged: bool = False
    """Only the verdict is missing: the episode came to its end, what it did and cost is known, a check may score it."""
    ended: bool = False
    """The attempt was ended for everybody: by the budget, the kill switch or a person."""


def _around(words: str, **more: bool) -> ReasonFacts:
    return ReasonFacts(words=words, infrastructure=True, **more)


def _refused(words: str, *, passes: bool = False) -> ReasonFacts:
    return ReasonFacts(words=words, infrastructure=True, provider=True, passes=passes)


REASON_FACTS: dict[str, ReasonFacts] = {
    "infrastructure.network": _around("a connection broke"),
    "infrastructure.rate_limit": _around("a service asked to slow down"),
    "infrastructure.timeout": _around("something beside the agent did not answer in time"),
    "infrastructure.sandbox": _around("the workspace could not be set up"),
    "infrastructure.verifier": _around("a check crashed", passes=False, unjudged=True),
    "infrastructure.other": _around("something around the agent failed"),
    "infrastructure.provider.key": _refused("the provider refused the key"),
    "infrastructure.provider.permission": _refused("the provider gave no permission"),
    "infrastructure.provider.balance": _refused("the provider wants to be paid (quota or balance used up)"),
    "infrastructure.provider.model": _refused("the provider does not know the model"),
    "infrastructure.provider.address": _refused("the provider's address is wrong"),
    "infrastructure.provider.overload": _refused("the provider was overloaded or limited the rate", passes=True),
    "infrastructure.provider.down": _refused("the provider failed", passes=True),
    "infrastructure.provider.unreached": _refused("the provider was not reached", passes=True),
    "cap.experiment": ReasonFacts(words="the experiment's budget ended it", ended=True),
    "killed": ReasonFacts(words="the kill switch ended it", ended=True),
    "cancelled": ReasonFacts(words="somebody cancelled it", ended=True),
    "unscored": ReasonFacts(words="nothing scored it", unjudged=True),
    "deviation": ReasonFacts(words="the agent asked for what its record cannot answer", passes=False),
}
"""Every reason with what it means; code that treats some reasons differently asks this table."""

REASONS: tuple[str, ...] = tuple(REASON_FACTS)


def is_infrastructure(reason: str) -> bool:
    """Whether something around the agent failed; `not_run` and the like, which no outcome has, are no reasons."""
    return reason in REASON_FACTS and REASON_FACTS[reason].infrastructure


PROVIDER_REASONS = frozenset(name for name, facts in REASON_FACTS.items() if facts.provider)
REFUSED = "provider_refused"
"""The fact of a scored attempt some of whose model calls a provider refused for good: their reasons."""


def refusal_words(missing: Mapping[str, int], attempts: int) -> str:
    """What providers refused of a number of attempts, in words; empty where they refused none.

    >>> refusal_words({"infrastructure.provider.key": 3, "unscored": 1}, 30)
    'the provider refused the key in 3 of 30 attempts'
    """
    theirs = {reason: n for reason, n in missing.items() if reason in PROVIDER_REASONS}
    return ", ".join(f"{REASON_FACTS[reason].words} in {n:,} of {attempts:,} attempts" for reason, n in theirs.items())


SUCCESS_AT = 0.5
"""From which score on an episode is a success, where no suite says otherwise."""


class Scored(msgspec.Struct, frozen=True, tag="scored", tag_field="outcome", omit_defaults=True, gc=False):
    """A verdict: `value` is finite, usually 0 to 1; `by` names the verifier, judge or log field."""

    value: float
    by: str = ""

    def __post_init__(self) -> None:
        """Refuse NaN and infinities: an absent score is `Missing`."""
        if not math.isfinite(self.value):
            raise ValueError(f"a score must be finite, not {self.value}; use Missing(reason) for an absent one")

    def success(self, threshold: float) -> bool:
        """Whether this counts as a success: `success_at` of its run is the threshold."""
        return self.value >= threshold


class Missing(msgspec.Struct, frozen=True, tag="missing", tag_field="outcome", omit_defaults=True, gc=False):
    """No verdict, and why."""

    reason: Reason
    detail: str = ""


Outcome = Scored | Missing
