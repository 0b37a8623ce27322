"""Watching for ever: evidence pass by pass, an alarm that stands, pairs that are there."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
import pytest

from ethogram.measures.outcomes import Outcomes
from ethogram.questions.gate.monitor import watch
from ethogram.questions.gate.plan import GateSettings

Made = Callable[..., Outcomes]
SETTINGS = GateSettings(margin=0.1)


def test_the_e_value_by_hand(made: Made) -> None:
    """The mean of (1 + λ)^worse (1 - λ)^better over even bets from 0.05 to 0.9."""
    base, candidate = made([[1, 1, 0, 1], [1, 0, 1, 1]]), made([[0, 1, 1, 1], [0, 0, 0, 1]])
    found = watch(base, candidate, SETTINGS, base.tasks)
    assert [(w.worse, w.better, w.same) for w in found.history] == [(1, 1, 2), (3, 1, 4)]
    bets = np.linspace(0.05, 0.9, 2001)
    for seen in found.history:
        assert seen.e == pytest.approx(np.mean((1 + bets) ** seen.worse * (1 - bets) ** seen.better), rel=0.03)
    assert found.verdict == "undecided"
    assert found.difference.value == pytest.approx((1 - 3) / 8)
    assert found.difference.n == 8


def test_an_alarm_stands_whatever_comes_later(made: Made) -> None:
    bad, good = np.zeros((2, 30)), np.ones((20, 30))
    base = made(np.vstack([np.ones((2, 30)), np.zeros((20, 30))]))
    found = watch(base, made(np.vstack([bad, good])), SETTINGS, base.tasks)
    assert (found.verdict, found.alarm_at) == ("regression", 1)
    assert found.history[-1].e < 20, "the evidence has long turned"
    assert found.anytime_p < 0.05
    assert found.difference.value > 0


def test_a_version_against_itself_is_never_an_alarm(made: Made) -> None:
    same = made(np.random.default_rng(1).random((50, 20)) < 0.6)
    found = watch(same, same, SETTINGS, same.tasks)
    assert (found.alarm_at, found.verdict) == (None, "pass")
    assert {w.e for w in found.history} == {1.0}
    assert str(found.difference.value) == "0.0"


def test_only_whole_passes_count_and_missing_attempts_make_no_pair(made: Made) -> None:
    base = made(np.ones((3, 4)))
    torn = made([[0, np.nan, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    part = torn.where(~((torn.attempt == 1) & (torn.task == 2)))
    assert [w.worse for w in watch(base, torn, SETTINGS, base.tasks).history] == [3, 7, 11]
    assert [w.worse for w in watch(base, part, SETTINGS, base.tasks).history] == [3]
    none = watch(base, torn.where(torn.attempt > 5), SETTINGS, base.tasks)
    assert (none.verdict, none.history, none.anytime_p) == ("undecided", [], 1.0)
    assert "no whole pass" in none.why
    lost = watch(base, made(np.full((3, 4), np.nan)), SETTINGS, base.tasks)
    assert lost.verdict == "undecided"
    assert lost.difference.why == "no pair of attempts has a score on both sides"


def test_asking_earlier_gives_a_part_of_the_same_history(made: Made) -> None:
    rng = np.random.default_rng(2)
    base, candidate = made(rng.random((12, 20)) < 0.8), made(rng.random((12, 20)) < 0.5)
    whole = watch(base, candidate, SETTINGS, base.tasks)
    for passes in (1, 5, 9):
        early = watch(base, candidate.where(candidate.attempt < passes), SETTINGS, base.tasks)
        assert early.history == whole.history[:passes]
        if early.alarm_at:
            assert early.alarm_at == whole.alarm_at


def test_what_one_pays_is_watched_by_which_way_pairs_went(made: Made) -> None:
    rng = np.random.default_rng(3)
    base, dear = (made(np.ones((6, 10)), cost=f * rng.gamma(9, 1, (6, 10))) for f in (1.0, 2.0))
    found = watch(base, dear, GateSettings(metric="cost"), base.tasks)
    assert found.verdict == "regression"
    assert found.difference.value is None
    assert "its size is not watched" in found.difference.why
    assert watch(dear, base, GateSettings(metric="cost"), base.tasks).verdict == "undecided"


def test_ville_by_counting_every_path(made: Made) -> None:
    """All 2^8 ways eight unchanged pairs can flip: the share that ever alarms is below alpha."""
    alpha = 0.25
    base, candidate = made(np.ones((1, 1))), made(np.zeros((1, 1)))
    assert watch(base, candidate, GateSettings(alpha=alpha), base.tasks).alarm_at is None
    alarms = 0.0
    for path in range(2**8):
        lost = np.array([(path >> i) & 1 for i in range(8)], dtype=float)[:, None]
        alarms += watch(made(lost), made(1 - lost), GateSettings(alpha=alpha), base.tasks).alarm_at is not None
    assert 0 < alarms / 2**8 <= alpha
    assert comb(8, 4) / 2**8 < 0.3


def test_missing_attempts_do_not_pass_unseen(made: Made) -> None:
    rng = np.random.default_rng(31)
    before = (rng.random((60, 20)) < 0.9).astype(float)
    after = (rng.random((60, 20)) < 0.95).astype(float)
    after[:, :3] = np.nan
    names = made(before).tasks
    ignored = watch(made(before), made(after), GateSettings(margin=0.12, missing="ignore"), names)
    assert ignored.verdict == "pass"
    found = watch(made(before), made(after), GateSettings(margin=0.12), names)
    assert found.verdict == "undecided"
    assert "missing attempts of the candidate as failures" in found.why
    assert watch(made(before), made(after), GateSettings(margin=0.12, missing="failure"), names).verdict == "regression"
