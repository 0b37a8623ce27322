"""The breaker: what opens it, what it lets through, what closes it."""

from __future__ import annotations

from ethogram.traces import Reason
from ethogram.wire.gateway.breaker import FIRST_REST, Breaker
from ethogram.wire.gateway.refusals import ProviderRefusal


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def refusal(reason: Reason, status: int = 401, provider: str = "a") -> ProviderRefusal:
    return ProviderRefusal(reason=reason, provider=provider, status=status)


KEY = refusal("infrastructure.provider.key")
OVERLOAD = refusal("infrastructure.provider.overload", 429)


def test_equal_refusals_with_nothing_answered_in_between_open_it() -> None:
    breaker = Breaker(3)
    for one in (KEY, KEY, refusal("infrastructure.provider.model", 404), refusal(KEY.reason, provider="b")):
        breaker.refused(one)
    assert breaker.instead() is None
    breaker.answered()
    breaker.refused(KEY)
    breaker.refused(KEY)
    assert breaker.opened_by is None
    breaker.refused(KEY)
    assert breaker.opened_by is breaker.instead() is KEY
    breaker.answered()
    assert breaker.instead() is KEY, "it stays open"


def test_an_overload_rests_and_is_tried_one_call_at_a_time() -> None:
    clock = Clock()
    breaker = Breaker(2, lasting=10.0, clock=clock)
    breaker.refused(OVERLOAD)
    assert breaker.instead() is None
    for _ in range(5):  # those that were on their way make no rest longer
        breaker.refused(OVERLOAD)
    held = breaker.instead()
    assert held is not None
    assert held.retry_after == FIRST_REST
    clock.now += FIRST_REST
    assert breaker.instead() is None, "the call that tries"
    assert breaker.instead() is not None, "no other one meanwhile"
    breaker.refused(OVERLOAD)
    held = breaker.instead()
    assert held is not None
    assert held.retry_after == 2 * FIRST_REST
    breaker.spent()
    assert breaker.opened_by is None, "it has not lasted"
    clock.now += 2 * FIRST_REST
    assert breaker.instead() is None
    breaker.answered()
    assert breaker.instead() is breaker.opened_by is None
    clock.now += 100.0
    breaker.refused(OVERLOAD)
    breaker.refused(OVERLOAD)
    breaker.spent()
    assert breaker.opened_by is None, "what was answered since counts no longer"
    clock.now += 10.0
    breaker.spent()
    assert breaker.opened_by is OVERLOAD


def test_it_can_be_turned_off() -> None:
    breaker = Breaker(0)
    for _ in range(50):
        breaker.refused(KEY)
        breaker.refused(OVERLOAD)
    assert breaker.instead() is breaker.opened_by is None
