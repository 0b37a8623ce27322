"""A field summarised in words: names and directions, numbers in estimates, and refusals where evidence is thin."""

from __future__ import annotations

import msgspec
import numpy as np

from ethogram.questions.field.chain import Chain, ChainStep, summarise
from ethogram.questions.field.field import Field
from ethogram.questions.field.horizon import MembershipRule


def field(
    seed: int = 0, tasks: int = 10, each: int = 8, *, effect: float = 0.0, help_: float = 0.0, rate: float = 0.5
) -> Field:
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(tasks), each)
    y = rng.random(task.size) < rate
    noise = rng.normal(size=(task.size, 3)) * 0.3
    logs = 2 + rng.normal(size=tasks)[task][:, None] * 0.5 + noise
    logs[:, 0] -= effect * y
    logs[:, 1] += help_ * y
    states = ["ab" if ok or i % 2 else "a" for i, ok in enumerate(y)]
    return Field.from_arrays(np.exp(logs), y.astype(float), ["edits", "tests", "reads"], tasks=task, states=states)


def summary(field: Field, *, seed: int = 0, rule: MembershipRule = "visited") -> Chain:
    return summarise(field, field.metrics().report(seed=seed), rule=rule)


def step_of(chain: Chain, name: str) -> ChainStep:
    return next(s for s in chain.steps if s.name == name)


def test_failures_that_do_too_much_are_to_be_constrained() -> None:
    chain = summary(field(effect=0.5))
    assert chain.advice == "constrain"
    assert [f.dimension for f in chain.flags] == ["edits"]
    assert step_of(chain, "separation").answer == "yes"
    assert "higher in failures: edits." in step_of(chain, "skew").text.lower()
    assert "constrain edits" in chain.advice_text
    assert "compare the two fields" in chain.advice_text
    assert chain.flags[0].separation.high is not None
    assert chain.flags[0].separation.high < 0


def test_failures_that_do_too_little_are_to_be_given_room() -> None:
    assert summary(field(help_=0.5)).advice == "expand"
    both = summary(field(effect=0.5, help_=0.5))
    assert both.advice == "mixed"
    assert {f.dimension: f.action for f in both.flags} == {"edits": "constrain", "tests": "expand"}


def test_sentences_have_names_and_the_numbers_are_in_estimates() -> None:
    chain = summary(field(effect=0.5))
    rate = step_of(chain, "convergence").estimates["pass_rate"]
    assert rate.low is not None
    assert rate.high is not None
    assert step_of(chain, "convergence").text == "Outcomes are not stable: 39 of 80 scored attempts succeeded."
    assert [s.name for s in chain.steps] == ["width", "convergence", "separation", "skew", "stages"]
    assert step_of(chain, "separation").text.endswith(
        "differ on 1 of 3 dimensions, the largest difference first: edits."
    )
    for step in chain.steps:
        assert step.text.count(". ") == 0, "one sentence"
        assert "[" not in step.text
        assert "p =" not in step.text
    assert "(visited)" in step_of(chain, "stages").text


def test_the_dimension_that_is_named_first_leads_the_table() -> None:
    """Of equal p-values the larger difference is named."""
    chain = summary(field(3, tasks=2, each=8))
    apart = {name: abs(e.value or 0.0) for name, e in step_of(chain, "separation").estimates.items()}
    assert f"{max(apart, key=lambda name: apart[name])} has the smallest p." in step_of(chain, "separation").text


def test_thin_evidence_is_refused_with_what_is_needed() -> None:
    few = summary(field(tasks=1, each=6, rate=0.3))
    assert few.advice == "not enough evidence"
    assert step_of(few, "separation").answer == "unknown"
    assert "are needed" in few.advice_text
    thin = summary(field(3, tasks=2, each=8))
    assert thin.advice == "not enough evidence"
    assert "sd possible" in thin.advice_text
    assert "attempts would detect differences above 0.8 sd" in thin.advice_text


def test_many_runs_without_a_difference_point_elsewhere() -> None:
    chain = summary(field(5, tasks=20, each=20))
    assert chain.advice == "look elsewhere"
    assert step_of(chain, "separation").answer == "no"


def test_no_failure_is_nothing_to_fix_but_not_certainty() -> None:
    chain = summary(field(rate=1.1))
    assert chain.advice == "nothing to fix"
    assert "may still be as low as" in chain.advice_text


def test_no_variation_and_no_outcome() -> None:
    still = summary(Field.from_arrays(np.ones((6, 2)), [1, 0, 1, 0, 1, 0], ["a", "b"]))
    assert step_of(still, "width").answer == "no"
    assert still.advice == "not enough evidence"
    blind = summary(Field.from_arrays(np.arange(12.0).reshape(6, 2), None, ["a", "b"]))
    assert step_of(blind, "convergence").answer == "unknown"
    assert "score them first" in blind.text
    assert blind.missing == {"unscored": 6}


def test_a_claim_about_stages_needs_ten_successes() -> None:
    chain = summary(field(tasks=1, each=12, rate=0.4))
    assert step_of(chain, "stages").answer == "unknown"
    assert "drift has no interval" in step_of(chain, "stages").text


def test_it_survives_json_and_its_rule_is_named() -> None:
    chain = summary(field(effect=0.5), seed=4, rule="reached")
    assert msgspec.json.decode(msgspec.json.encode(chain), type=Chain) == chain
    assert (chain.rule, chain.seed) == ("reached", 4)
    assert "(reached)" in chain.text
