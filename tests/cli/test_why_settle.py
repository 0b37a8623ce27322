"""`ethogram why --settle`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ethogram.worlds import desk
from ethogram.worlds.practice import provided

Call = Callable[..., Any]
RUN = ("run", desk.__name__, "--agent", f"{desk.__name__}:clerk", "-k", "40", "--task", "refund-ada", "--run", "night")
PRICE = ("--price", "*=2/8")


@pytest.fixture
def night(env: dict[str, str], home: Path, call: Call) -> Iterator[None]:
    with provided(desk.model):
        assert call(*RUN, *PRICE).code == 0
        yield


def test_the_effect_stands_beside_the_cause(night: None, call: Call) -> None:
    said = call("why", "night", "--settle", "--max-usd", "2", "--causes", "1", *PRICE)
    assert said.code in (0, 2), said
    line = " ".join(said.out.split())
    assert " when it asks for " in line
    assert "success " in line
    assert " attempts, $0.0" in line
    assert "look 1: " in said.err
    again = call("why", "night", "--settle", "--max-usd", "2", "--causes", "1", *PRICE, "--json")
    assert again.code == said.code
    settled = json.loads(again.out)["causes"][0]["settled"]
    assert settled["command"].startswith("ethogram why night --settle --max-usd 2")
    assert f"{settled['runs']} attempts" in line


def test_a_model_that_is_away_settles_nothing_and_is_asked_again(
    night: None, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["why", "night", "--settle", "--max-usd", "2", "--causes", "1", *PRICE, "--json"]
    with monkeypatch.context() as away:
        away.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        first = json.loads(call(*words).out)["causes"][0]["settled"]
    assert (first["status"], first["effect"]["low"], first["effect"]["high"]) == ("not_settled", -1.0, 1.0)
    assert "continuations without an outcome: infrastructure.provider.unreached" in first["why"]
    again = json.loads(call(*words).out)["causes"][0]["settled"]
    assert again["run"] == first["run"]
    assert again["effect"]["missing"] == {}
    assert again["from"]["value"] is not None


def test_the_printed_experiment_is_a_command(night: None, call: Call) -> None:
    said = call("why", "night")
    (printed, *_) = [line for line in said.out.splitlines() if "test it by an experiment: " in line]
    _, _, command = printed.partition("test it by an experiment: ")
    words = shlex.split(command.partition("  (at most 40 attempts, about $")[0])
    words[words.index("-k") + 1] = "2"
    done = call(*words[1:], "--json")
    assert done.code == 2, done
    assert json.loads(done.out)["pairs"] == 2


def test_bad_input_is_refused_in_one_sentence(night: None, call: Call) -> None:
    for words, said in (
        (["--settle"], "set a limit for their cost, such as --max-usd 2"),
        (["--max-usd", "2"], "give them with --settle"),
        (["--settle", "--max-usd", "2", "--against", "night"], "leave out --settle"),
        (["--settle", "--max-usd", "nan", *PRICE], "'nan' is not a finite number"),
        (["--settle", "--max-usd", "-1", *PRICE], "--max-usd must be more than 0, not -1"),
        (["--settle", "--max-usd", "2", "--smallest", "2", *PRICE], "not in the range 0<=x<=1"),
    ):
        done = call("why", "night", *words)
        assert done.code == 64, done
        assert said in " ".join(done.err.split())
    traces = json.loads(call("why", "night", "--json").out)["traces"]
    name = traces[0]["trace"].removeprefix("b2:")[:12]
    for change, said in (
        ("answer_of=beef", "answer_of=beef names no step; write answer_of=TRACE:STEP"),
        (f"answer_of={name}:1", f"has no answer; give result_of={name}:1"),
        (f"answer_of={name}:99", "the trace has no step 99"),
    ):
        done = call("fork", name, "--at", "0", "-k", "1", "--set", change)
        assert done.code == 64, done
        assert said in " ".join(done.err.split())
