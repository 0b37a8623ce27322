"""Whole forks in a world whose chances are known: real clients, a real server, tools that run again in a workspace.

`ethogram run` records a failed trace; then it is forked again and again, as anybody would. The interval must cover the
true effect at its level though it stops early, find a planted cause, and not find a correlate.
Set ETHOGRAM_LONG=1 for the long form; run with -s to read the figures.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from scipy import stats as reference

from ethogram.questions.fork.buying.episodes import ForkPoint
from ethogram.questions.fork.buying.fork import ForkOptions, fork_trace, fork_traces
from ethogram.store import Home
from ethogram.wire.gateway.fork import parse_change

LONG = os.environ.get("ETHOGRAM_LONG") == "1"
FORKS = 200 if LONG else 5
RIGHT, WRONG = 0.85, 0.15
"""Success after a right order and after a wrong one."""
TEA = 'answer={"content": "Fine.", "tool_calls": [{"name": "order", "arguments": {"item": "tea"}}]}'
SILENT = 'answer={"tool_calls": [{"name": "order", "arguments": {"item": "milk"}}]}'
CAREFUL = "prompt=Order carefully."


CASES = {
    "planted cause": (TEA, WRONG, RIGHT),
    "correlate": (SILENT, WRONG, WRONG),
    "prompt": (CAREFUL, (RIGHT + WRONG) / 2, RIGHT),
}
"""The change, and success without and with it."""


def not_below(held: list[bool], rate: float) -> bool:
    """Whether something holds as often as it should; one of 2,000 sound methods fails this.

    Answers of the served model depend on which continuation asks first, so no two runs draw the same.
    """
    return float(reference.binomtest(sum(held), len(held), rate, alternative="less").pvalue) > 5e-4


@pytest.mark.parametrize(("change", "before", "after"), [CASES[name] for name in CASES if LONG or name != "prompt"])
def test_forks_of_one_trace(fork_world: Any, home: Home, change: str, before: float, after: float) -> None:
    fork_world.serve(fork_world.Shopper(170, right=RIGHT, wrong=WRONG, slips=0.5))
    fork_world.record(home, k=4)
    trace = fork_world.traces(home, "Oh.")[0]
    held, found, pairs = [], [], []
    passed = {"unchanged": [0.0, 0], "changed": [0.0, 0]}
    for _ in range(FORKS):
        done = fork_trace(trace, 2, change, ForkOptions(k=16), home=home)
        assert done.effect.low is not None
        assert done.effect.high is not None
        assert not done.missing
        held.append(done.effect.low <= after - before <= done.effect.high)
        found.append(done.verdict == "raises")
        pairs.append(done.pairs)
        for arm, rate in (("unchanged", done.unchanged), ("changed", done.changed)):
            assert rate is not None
            passed[arm][0] += (rate.value or 0.0) * (rate.n or 0)
            passed[arm][1] += rate.n or 0
    told = f"covers {np.mean(held):.3f}, found {np.mean(found):.3f}, {np.mean(pairs):.1f} pairs"
    print(f"\neffect {after - before:+.2f}: {told}")
    assert not_below(held, 0.95)
    if change == TEA:
        assert not_below(found, 0.8)
        assert np.mean(pairs) < 16
    if change == SILENT:
        assert not_below([not f for f in found], 0.975)
    # early stops favour luck, so the rates lie near those of the world only roughly: one of 10,000 worlds is this far
    for arm, truth in (("unchanged", before), ("changed", after)):
        count, of = passed[arm]
        assert reference.binomtest(round(count), int(of), truth).pvalue > 1e-4, (arm, count, of)


def test_forks_of_several_traces(fork_world: Any, home: Home) -> None:
    fork_world.serve(fork_world.Shopper(171, right=RIGHT, wrong=WRONG, slips=1.0))
    fork_world.record(home, k=12)
    for change, truth in ((TEA, RIGHT - WRONG), (SILENT, 0.0)):
        made = parse_change(*change.split("=", 1))
        points = [ForkPoint(trace=t, at=2, change=made) for t in fork_world.traces(home, "Oh.")]
        held, found = [], []
        for _ in range(max(FORKS // 3, 2)):
            done = fork_traces(points, ForkOptions(k=2, every=4), home=home)
            held.append((done.effect.low or 0.0) <= truth <= (done.effect.high or 0.0))
            found.append(done.verdict == "raises")
        print(f"\n12 traces, effect {truth:+.2f}: covers {np.mean(held):.3f}, found {np.mean(found):.3f}")
        assert not_below(held, 0.95)
        assert not_below(found, 0.8) if change == TEA else not_below([not f for f in found], 0.975)
