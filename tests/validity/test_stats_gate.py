"""Simulated gates: false alarms at planned and at unplanned looks, power and runs as planned; naive gates fail.

Set ETHOGRAM_LONG=1 for the long form; run with -s to read the tables.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from ethogram.questions.gate import power, sequential
from ethogram.questions.gate.order import equal_attempts
from ethogram.statistics import stratified as s

LONG = os.environ.get("ETHOGRAM_LONG") == "1"
DRAWS = 12_000 if LONG else 2000
TASKS = 50
RATES = {
    "beta 1.4 0.6": lambda rng, size: rng.beta(1.4, 0.6, size),
    "beta 7 3": lambda rng, size: rng.beta(7, 3, size),
    "beta 0.5 0.5": lambda rng, size: rng.beta(0.5, 0.5, size),
    "beta 9 0.5": lambda rng, size: rng.beta(9, 0.5, size),
}
ALPHA, POWER = 0.05, 0.8


def error(rate: float, draws: int = DRAWS) -> float:
    return float(3 * np.sqrt(rate * (1 - rate) / draws))


def rates_and_effect(
    name: str, drop: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, power.DropMoments]:
    p = RATES[name](rng, (DRAWS, TASKS))
    p = p[p.mean(axis=1) > drop + 0.03]
    q = power.shifted(p, drop)
    effect = power.effect_between(p, q, TASKS)
    return p, q, effect


@pytest.mark.parametrize("stored", [0, 20])
@pytest.mark.parametrize("drop", [0.05, 0.1])
def test_false_alarms_power_and_runs(stored: int, drop: float) -> None:
    rng = np.random.default_rng([40, stored, int(100 * drop)])
    print(f"\ndrop {drop}, {f'stored {stored} passes' if stored else 'two fresh arms'}: runs, planned in brackets")
    for name in RATES if drop > 0.05 or LONG else ("beta 1.4 0.6", "beta 9 0.5"):
        p, q, effect = rates_and_effect(name, drop, rng)
        plan = power.sequential_plan(effect, ALPHA, POWER, every=0.5, delta=0.25, stored=stored)
        assert plan is not None
        n = equal_attempts(list(plan.looks), TASKS)
        attempts = (n if stored == 0 else np.full(n.shape, stored), n)
        none = power.simulate(p, p, attempts, plan, drop, rng)
        real = power.simulate(p, q, attempts, plan, drop, rng)
        per = TASKS * (1 if stored else 2)
        runs = [r.second if stored else r.first + r.second for r in (none, real)]
        print(
            f"  {name}: {plan.looks.size} looks, false alarms {none.found:.3f}, "
            f"power {real.found:.3f} ({plan.power:.3f}), undecided {none.undecided:.3f} / {real.undecided:.3f}, "
            f"runs {runs[0]:.0f} ({per * plan.expected_without:.0f}) / {runs[1]:.0f} ({per * plan.expected_with:.0f})"
        )
        assert none.found <= 0.055 + error(0.055)
        assert abs(real.found - plan.power) <= 0.03 + error(0.8) / 3
        # a drop as large as the margin passes no more often than was agreed: no silent pass
        assert real.ruled_out <= 1 - POWER + error(0.2)
        assert runs[1] == pytest.approx(per * plan.expected_with, rel=0.2)
        if name == "beta 1.4 0.6":
            wald = {(0, 0.05): 884, (0, 0.1): 227, (20, 0.05): 219, (20, 0.1): 56}[stored, drop]
            print(f"  {runs[1] / wald:.2f} × Wald's limit")
            assert runs[1] == pytest.approx(per * plan.expected_with, rel=0.05)
            assert runs[1] <= (1.65 if stored else 1.3) * wald


def test_unplanned_information_keeps_the_error() -> None:
    """Attempts go missing, looks come late, one is skipped by a crash and resume: bounds follow what was really met."""
    rng = np.random.default_rng(41)
    p, q, effect = rates_and_effect("beta 1.4 0.6", 0.1, rng)
    plan = power.sequential_plan(effect, ALPHA, POWER, every=0.5, delta=0.25, stored=0)
    assert plan is not None
    n = equal_attempts(list(plan.looks), TASKS)
    grown = np.diff(n, axis=0, prepend=0)
    first, second = (np.cumsum(rng.binomial(grown, share), axis=0) for share in (0.95, 0.75))
    kept = np.delete(np.arange(len(n)), 3)
    first, second = first[kept], second[kept]
    sizes = np.sum(first * second / np.maximum(first + second, 1), axis=1)
    upper = sequential.rebound(plan.fractions, plan.upper, sizes, last=True)
    reach = sequential.bounds_from_spending(sizes, (1 - POWER) * np.minimum(plan.fractions[kept], 1.0) ** 2)
    met = plan._replace(upper=upper, reach=reach)
    none = power.simulate(p, p, (first, second), met, 0.1, rng)
    real = power.simulate(p, q, (first, second), met, 0.1, rng)
    print(f"\nunplanned looks: false alarms {none.found:.3f}, found {real.found:.3f}, passed {real.ruled_out:.3f}")
    assert none.found <= 0.055 + error(0.055)
    assert real.ruled_out <= 0.2 + error(0.2)
    assert real.found > 0.55


def test_too_small_a_budget_is_undecided_and_never_passes_in_silence() -> None:
    rng = np.random.default_rng(42)
    p, q, effect = rates_and_effect("beta 1.4 0.6", 0.05, rng)
    plan = power.staged(effect, ALPHA, POWER, [0.5, 1.0], 0.25, 0)
    n = equal_attempts(list(plan.looks), TASKS)
    real = power.simulate(p, q, (n, n), plan, 0.05, rng)
    print(f"\none pass, drop 0.05: found {real.found:.3f}, passed {real.ruled_out:.3f}, open {real.undecided:.3f}")
    assert real.undecided > 0.5
    assert real.ruled_out <= 0.2 + error(0.2)


def test_peeking_with_a_fixed_test_fails() -> None:
    rng = np.random.default_rng(43)
    p = RATES["beta 1.4 0.6"](rng, (DRAWS, TASKS))
    a, b, alarmed, shares = np.zeros(p.shape), np.zeros(p.shape), np.zeros(DRAWS, bool), {}
    for look in range(1, 21):
        a += rng.random(p.shape) < p
        b += rng.random(p.shape) < p
        arms = s.sums_of_counts(a, look), s.sums_of_counts(b, look)
        alarmed |= s.score(*arms, equal=False, step=1.0, reach=1.64).z <= -1.644854
        shares[look] = float(alarmed.mean())
    print(f"\npeeking after every pass: {', '.join(f'{k}: {shares[k]:.3f}' for k in (1, 2, 5, 10, 20))}")
    assert shares[1] <= 0.055 + error(0.055)
    assert shares[10] > 0.14
    assert shares[20] > 0.18


def test_worse_than_one_rerun_fails() -> None:
    rng = np.random.default_rng(44)
    p = RATES["beta 1.4 0.6"](rng, (DRAWS, TASKS))
    base, again, candidate = (np.mean(rng.random(p.shape) < p, axis=1) for _ in range(3))
    worse = float(np.mean(base - candidate > np.abs(base - again)))
    any_task = float(np.mean(np.any((rng.random(p.shape) < p) & ~(rng.random(p.shape) < p), axis=1)))
    print(f"\nworse than one re-run: {worse:.3f}; some passing task now fails: {any_task:.3f}")
    assert worse > 0.15
    assert any_task > 0.95


def test_session_noise_is_carried_by_the_extra_variance() -> None:
    rng = np.random.default_rng(45)
    p = RATES["beta 1.4 0.6"](rng, (DRAWS, TASKS))
    logit = np.log(p / (1 - p))

    def session(passes: int) -> np.ndarray:
        """Passes at different times, each with its own shift of all logits."""
        shift = 0.3 * rng.standard_normal((passes, DRAWS, 1))
        return (rng.random((passes, *p.shape)) < 1 / (1 + np.exp(-logit - shift))).astype(float)

    stored, candidate = session(20), session(1).sum(axis=0)
    arms = s.sums_of_counts(stored.sum(axis=0), 20), s.sums_of_counts(candidate, 1)
    floors = [power.pass_floor(stored[:, i]) for i in range(DRAWS)]
    between, error = (21 / 20 * np.array([getattr(f, name) for f in floors]) for name in ("session", "session_error"))
    bare = s.score(*arms, equal=False, step=1.0, reach=1.64)
    plain = float(np.mean(bare.z <= -1.644854))
    extra = power.student_variance(bare.variance + between, error, 1.644854) - bare.variance
    floored = float(np.mean(s.score(*arms, equal=False, step=1.0, reach=1.64, extra=extra).z <= -1.644854))
    print(f"\nsessions differ by 4 points: binomial variance only {plain:.3f}, with the floor {floored:.3f}")
    assert plain > 0.08
    assert floored <= 0.055 + 3 * np.sqrt(0.055 * 0.945 / DRAWS)
