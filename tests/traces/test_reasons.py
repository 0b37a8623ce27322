"""Reasons of missing outcomes stand in one table."""

from __future__ import annotations

from typing import get_args

from ethogram.measures.outcomes import UNJUDGED
from ethogram.traces import PROVIDER_REASONS, REASON_FACTS, REASONS, Reason, is_infrastructure


def test_the_table_has_every_reason() -> None:
    assert set(REASONS) == set(get_args(Reason))
    assert all(facts.words for facts in REASON_FACTS.values())


def test_what_follows_from_a_reason() -> None:
    assert {name for name in REASONS if is_infrastructure(name)} == {n for n in REASONS if n.startswith("infra")}
    assert {name for name in REASONS if name.startswith("infrastructure.provider.")} == PROVIDER_REASONS
    assert {"unscored", "infrastructure.verifier"} == UNJUDGED
    assert {n for n in PROVIDER_REASONS if REASON_FACTS[n].passes} == {
        "infrastructure.provider.overload",
        "infrastructure.provider.down",
        "infrastructure.provider.unreached",
    }
    assert not is_infrastructure("not_run")
