"""Operators on tools and prompts: which calls are hit, what the agent sees, and what is reported."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.errors import BadUsage, NotFound
from ethogram.perturbations.prompt import OPERATORS as PROMPTS
from ethogram.perturbations.prompt import paraphrases, prompt_operator
from ethogram.perturbations.tools import OPERATORS as TOOLS
from ethogram.perturbations.tools import Call, ToolFailed, ToolPerturbation, ToolTimedOut, perturb_tool, tool_operator

ORDERS = [{"id": i, "item": f"part {i}", "price": 2.5 * i} for i in range(1, 7)]
RESULTS: list[Any] = [
    "first line\nsecond line\nthird line",
    ORDERS,
    {"orders": ORDERS, "page": 1},
    json.dumps(ORDERS),
    json.dumps({"orders": ORDERS, "page": 1}, indent=2),
    ["a", "b", "c"],
]
EARLIER = (({"id": 1}, "an old answer"), ({"id": 2}, {"old": True}))


@pytest.mark.parametrize("result", RESULTS, ids=["lines", "list", "mapping", "json list", "json mapping", "words"])
@pytest.mark.parametrize("operator", TOOLS, ids=lambda o: o.name)
def test_a_hit_is_seeded_and_changes_what_the_agent_sees(operator: Any, result: Any) -> None:
    for seed in range(200):
        call = Call("orders", {"id": 2}, 3, EARLIER)
        change = perturb_tool(result, call, operator, seed)
        assert change == perturb_tool(result, call, operator, seed)
        assert change.hit
        assert change.operator == operator.name
        assert change.summary
        if operator.fails:
            assert change.error
            assert change.result is None
        else:
            assert not change.error
            CHECKS[operator.name](result, change.result)


def opened(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) and value[:1] in "[{" else value


def check_truncated(before: Any, after: Any) -> None:
    assert type(after) is type(before)
    assert 0 < len(after) < len(before)
    assert after == before[: len(after)] if not isinstance(before, dict) else after.items() <= before.items()


def check_stale(before: Any, after: Any) -> None:
    assert after == {"old": True}, "the same question is answered as it was before"


def parts(value: Any) -> list[str]:
    value = opened(value)
    if isinstance(value, dict):
        value = value["orders"]
    return value.splitlines() if isinstance(value, str) else [json.dumps(v) for v in value]


def check_reordered(before: Any, after: Any) -> None:
    assert type(after) is type(before)
    assert sorted(parts(before)) == sorted(parts(after))
    assert parts(before) != parts(after)


def check_irrelevant(before: Any, after: Any) -> None:
    assert type(after) is type(before)
    old, new = opened(before), opened(after)
    if isinstance(old, dict):
        assert {k: v for k, v in new.items() if k in old} == old
        assert len(new) == len(old) + 1
    elif isinstance(old, str):
        assert [line for line in new.splitlines() if line in old.splitlines()] == old.splitlines()
        assert len(new.splitlines()) == len(old.splitlines()) + 1
    else:
        assert len(new) == len(old) + 1
        assert [v for v in new if v in old] == old


CHECKS = {
    "truncated_result": check_truncated,
    "stale_result": check_stale,
    "reordered_result": check_reordered,
    "irrelevant_result": check_irrelevant,
}


@settings(deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**63), low=st.floats(0.01, 1.0), high=st.floats(0.01, 1.0))
def test_a_larger_intensity_hits_the_same_calls_and_more(seed: int, low: float, high: float) -> None:
    low, high = sorted((low, high))
    operator = tool_operator("tool_error")
    calls = [Call("search", {}, number) for number in range(40)]
    few = {c.number for c in calls if operator.hits(c, seed, low)}
    many = {c.number for c in calls if operator.hits(c, seed, high)}
    assert few <= many


def test_the_share_of_calls_that_are_hit_is_the_intensity() -> None:
    operator = tool_operator("truncated_result")
    hits = sum(operator.hits(Call("t", {}, n), seed, 0.3) for seed in range(40) for n in range(100))
    assert abs(hits / 4000 - 0.3) < 0.03  # four standard errors


@pytest.mark.parametrize("result", [7, None, True, 2.5])
@pytest.mark.parametrize("name", ["truncated_result", "reordered_result", "irrelevant_result"])
def test_a_single_value_stays_and_says_why(name: str, result: Any) -> None:
    change = perturb_tool(result, Call("t"), name, 1)
    assert not change.hit
    assert change.why_not
    assert change.result == result


def test_nothing_is_stale_on_the_first_call() -> None:
    change = perturb_tool("now", Call("t"), "stale_result", 1)
    assert change.why_not == "there is no earlier result of this tool that differs"


class Shop:
    """A world with an effect, so that it can be seen whether a call reached it."""

    def __init__(self) -> None:
        self.sold = 0

    def sell(self, count: int = 1) -> dict[str, int]:
        """Sell some."""
        self.sold += count
        return {"sold": self.sold, "count": count}

    async def stock(self, item: str) -> str:
        """What is left."""
        return f"{item}: {10 - self.sold}\nshelf 4"


def test_an_error_has_no_effect_and_a_timeout_has() -> None:
    for name, effect in (("tool_error", 0), ("tool_timeout", 2)):
        shop = Shop()
        bent = ToolPerturbation(name, seed=5)
        tools = bent.wrap({"sell": shop.sell})
        with pytest.raises(ToolTimedOut if effect else ToolFailed, match="sell"):
            tools["sell"](count=2)
        assert shop.sold == effect
        assert [c.tool for c in bent.log] == ["sell"]
        assert bent.log[0].error == bent.log[0].summary


def test_wrapped_tools_keep_their_signature_and_words() -> None:
    shop = Shop()
    tools = ToolPerturbation("irrelevant_result", seed=1).wrap({"sell": shop.sell, "stock": shop.stock})
    assert inspect.signature(tools["sell"]) == inspect.signature(shop.sell)
    assert tools["sell"].__doc__ == "Sell some."
    assert inspect.iscoroutinefunction(tools["stock"])
    assert not inspect.iscoroutinefunction(tools["sell"])
    assert "shelf 4" in asyncio.run(tools["stock"](item="nut"))


def test_only_the_named_tools_are_perturbed() -> None:
    shop = Shop()
    bent = ToolPerturbation("tool_error", seed=1, only=["stock"])
    tools = bent.wrap({"sell": shop.sell, "stock": shop.stock})
    assert tools["sell"](count=1) == {"sold": 1, "count": 1}
    with pytest.raises(ToolFailed):
        asyncio.run(tools["stock"](item="nut"))
    with pytest.raises(NotFound, match="no tool named 'sel'; did you mean 'sell'"):
        ToolPerturbation("tool_error", seed=1, only=["sel"]).wrap({"sell": shop.sell})


def test_a_stale_tool_answers_as_it_did_before() -> None:
    shop = Shop()
    bent = ToolPerturbation("stale_result", seed=1)
    sell = bent.wrap({"sell": shop.sell})["sell"]
    assert sell(count=1) == {"sold": 1, "count": 1}
    assert sell(count=1) == {"sold": 1, "count": 1}
    assert shop.sold == 2
    assert [bool(c.why_not) for c in bent.log] == [True, False]


def test_the_same_seed_hits_the_same_calls() -> None:
    def hits(seed: int) -> list[int]:
        bent = ToolPerturbation("truncated_result", seed, 0.4)
        look = bent.wrap({"look": lambda n: list(range(n))})["look"]
        for _ in range(30):
            look(n=10)
        return [c.number for c in bent.log]

    assert hits(1) == hits(1)
    assert hits(1) != hits(2)
    assert 3 < len(hits(1)) < 25


def test_what_does_not_exist_is_named() -> None:
    with pytest.raises(NotFound, match="did you mean 'tool_error'"):
        ToolPerturbation("tool_eror", seed=1)
    with pytest.raises(BadUsage, match="above 0"):
        ToolPerturbation("tool_error", seed=1, intensity=0)


# prompts

PROMPT = (
    "You are given a table of sales. Find the largest total per region.\n\n"
    "Please answer with the number only. How many rows were used?\n\nShow all steps after that."
)


@pytest.mark.parametrize("operator", PROMPTS, ids=lambda o: o.name)
def test_a_prompt_is_otherwise_put(operator: Any) -> None:
    seen = set()
    for seed in range(200):
        change = operator.apply(PROMPT, seed, (1.0, 0.3)[seed % 2])
        assert change == operator.apply(PROMPT, seed, (1.0, 0.3)[seed % 2])
        assert change.text != PROMPT
        assert change.places == len(change.where) > 0
        seen.add(change.text)
        if operator.name == "prompt_reorder":
            assert sorted(change.text.split("\n\n")) == sorted(PROMPT.split("\n\n"))
        else:
            assert change.text.count("\n") == PROMPT.count("\n")
        if operator.name == "prompt_typo":
            assert len(change.text.split()) == len(PROMPT.split())
    assert len(seen) > 3


def test_sentences_change_places_where_there_are_no_paragraphs() -> None:
    text = "Open the file. Read 3.5 rows! Then stop?"
    change = prompt_operator("prompt_reorder").apply(text, 3)
    assert sorted(change.text.replace("! ", "!|").replace(". ", ".|").replace("? ", "?|").split("|")) == [
        "Open the file.",
        "Read 3.5 rows!",
        "Then stop?",
    ]


def test_a_paraphrase_of_ones_own() -> None:
    operator = paraphrases("What is the sum?", "Please add the numbers.")
    assert operator.applicable("What is the sum?") is None
    assert operator.apply("What is the sum?", 1).text == "Please add the numbers."
    assert {operator.apply("Sum?", seed).text for seed in range(20)} == {"What is the sum?", "Please add the numbers."}
    assert paraphrases("Sum?").applicable("Sum?") == "no paraphrase was given that differs from the prompt"


def test_a_prompt_that_cannot_be_changed_says_why() -> None:
    assert prompt_operator("prompt_reorder").applicable("Sum up.") == "the prompt is a single sentence"
    assert "no word of four letters" in (prompt_operator("prompt_typo").applicable("1 + 2 = ?") or "")
    assert "paraphrases of your own" in (prompt_operator("prompt_paraphrase").applicable("42") or "")
    with pytest.raises(NotFound, match="did you mean 'prompt_typo'"):
        prompt_operator("prompt_tpyo")
