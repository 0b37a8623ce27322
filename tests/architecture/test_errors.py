"""Errors carry their facts: what a message says about place and need can be read by a program too."""

from __future__ import annotations

import ast
import inspect
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ethogram import errors
from ethogram.errors import BadInput, Damaged, EthogramError, MissingExtra, NotFound, Refused, Sealed
from ethogram.estimate import Estimate
from ethogram.prices.prices import own_prices
from ethogram.questions.gate.quarantine import read_quarantine
from ethogram.suites.load import load_suite

pytestmark = pytest.mark.xdist_group("architecture")  # every module is parsed once

if TYPE_CHECKING:
    from conftest import Module


def silent(modules: dict[str, Module], error: str, facts: set[str]) -> list[str]:
    """Places where an error is raised without these facts."""
    calls = [
        (f"{m.name}:{node.lineno}", node.exc)
        for m in modules.values()
        for node in ast.walk(m.tree)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) == error
    ]
    assert calls, f"{error} is raised nowhere"
    return [place for place, call in calls if not facts <= {k.arg for k in call.keywords}]


def test_every_refusal_says_what_there_is_and_what_it_takes(modules: dict[str, Module]) -> None:
    assert not silent(modules, "Refused", {"have", "need", "of"})


def test_damage_says_where(modules: dict[str, Module]) -> None:
    assert not silent(modules, "Damaged", {"where"})


NAMES = {"name", "spec", "path", "file", "where"}
"""Variables and attributes that hold the name of something."""


@pytest.mark.parametrize("error", ["BadInput", "NotFound"])
def test_an_error_that_names_something_carries_it(modules: dict[str, Module], error: str) -> None:
    """What stands as a name in the sentence is a fact too: a program reads `where` or `name`, not the sentence."""
    bare = [
        f"{m.name}:{node.lineno}"
        for m in modules.values()
        for node in ast.walk(m.tree)
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and ast.unparse(node.exc.func) == error
        and not node.exc.keywords
        and any(names_something(part) for part in ast.walk(node.exc) if isinstance(part, ast.FormattedValue))
    ]
    assert not bare, f"give these `where=` or `name=`: {', '.join(bare)}"


def names_something(part: ast.FormattedValue) -> bool:
    """Whether this is the name of something, as in `{name!r}`, `{run.name!r}` or `{path.name}`."""
    value = part.value
    last = value.id if isinstance(value, ast.Name) else value.attr if isinstance(value, ast.Attribute) else ""
    return last in NAMES


def test_the_tree_that_is_drawn_is_the_tree() -> None:
    drawn = {line.strip(" │├└─").partition(" ")[0]: line for line in (errors.__doc__ or "").splitlines()}
    assert "EthogramError" in drawn
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, EthogramError) and kind is not EthogramError:
            assert f" {kind.exit_code} " in drawn[name]
            for fact in (f for f in vars(kind("a sentence")) if not f.startswith("_")):
                assert fact in drawn[name], f"{name} has {fact}, which is not drawn"


@pytest.mark.parametrize(
    "error",
    [
        BadInput.at("suite.yaml line 3", "no id"),
        NotFound.named("run", "nigth", ["night"]),
        Refused("too few", have=1, need=2, of="traces", estimate=Estimate(value=0.5, n=1)),
        Damaged("broken", where="spans-1.parquet"),
        Sealed("no key", key="k1"),
        MissingExtra.needed("df", "a data frame"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_facts_survive_a_journey_to_another_process(error: EthogramError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), vars(back)) == (str(error), vars(error))


def test_a_suite_says_where_it_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"id": "a", "prompt": "x"}\n{"id": \n')
    with pytest.raises(BadInput, match=r"tasks.jsonl line 2 is not JSON") as caught:
        load_suite(tmp_path)
    assert caught.value.where == "tasks.jsonl line 2"


def test_prices_and_quarantine_say_where_they_are_wrong(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        own_prices({"m": {"fresh": "much", "output": 1}}, "prices.toml")
    assert caught.value.where == "the price of 'm' in prices.toml, fresh"
    resting = tmp_path / "resting.yaml"
    resting.write_text("- task: a\n  until: 2099-01-01\n  reason: flaky\n- task: b\n")
    with pytest.raises(BadInput) as caught:
        read_quarantine(str(resting))
    assert caught.value.where == f"{resting}, entry 2"


def test_a_name_that_is_not_found_carries_those_that_exist() -> None:
    error = NotFound.named("metric", "sucess", ["success", "cost"])
    assert (error.what, error.name, error.known) == ("metric", "sucess", ("success", "cost"))
    assert str(error) == "no metric named 'sucess'; did you mean 'success'?"
    many = NotFound.named("metric", "xyz", list("abcdefghij"))
    assert str(many).endswith("known: a, b, c, d, e, f, g, h and 2 more; ethogram compare --help lists all")


def test_the_first_line_of_an_error_is_what_it_says_or_what_it_is() -> None:
    said = [errors.first_line(e) for e in (ValueError("\none\ntwo"), ValueError(), KeyError("x"))]
    assert said == ["one", "ValueError", "'x'"]
    assert errors.first_line(ValueError("x" * 500), 200) == "x" * 200
