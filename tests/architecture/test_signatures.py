"""Options are keywords with names, types and defaults: `help(eth.gate)` shows them and type checkers know them."""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import ethogram as eth
from ethogram.decide.gate import GateSettings
from ethogram.decide.planner import PlanSettings
from ethogram.errors import BadUsage
from ethogram.lab.cost.costs import cost_of
from ethogram.lab.cost.records import CostOptions
from ethogram.lab.cost.whatif import assumed_cost
from ethogram.lab.logs.imports import ImportOptions
from ethogram.run.options import RunOptions
from ethogram.study.explore_start import ExploreOptions
from ethogram.study.fork import ForkOptions

if TYPE_CHECKING:
    from conftest import Module

OF_EPISODES = {"reprice", "condition", "agent"}
"""What `assumed_cost` leaves out: it has no episodes to choose from and no recorded costs."""
SIGNATURES: list[tuple[Callable[..., Any], type[msgspec.Struct], set[str]]] = [
    (eth.gate, GateSettings, set()),
    (eth.plan_runs, PlanSettings, set()),
    (eth.import_logs, ImportOptions, set()),
    (eth.run_suite, RunOptions, {"replay"}),  # `replay_run` sets it
    (eth.fork, ForkOptions, {"smallest"}),  # of `fork_traces`
    (eth.explore, ExploreOptions, set()),
    (cost_of, CostOptions, set()),
    (assumed_cost, CostOptions, OF_EPISODES),
]
CALLED = {"name": "run"}
"""The name of a run is `run` in every function, as it is `--run` in every verb."""
ENTRIES = ("lab", "study", "run", "suite", "show")
"""The packages whose public functions people call."""


@pytest.mark.parametrize(("function", "options", "left_out"), SIGNATURES, ids=lambda x: getattr(x, "__name__", ""))
def test_every_option_is_a_keyword_with_its_default(
    function: Callable[..., Any], options: type[msgspec.Struct], left_out: set[str]
) -> None:
    parameters = inspect.signature(function).parameters
    ours, theirs = typing.get_type_hints(function), typing.get_type_hints(options)
    defaults = options()
    for field in options.__struct_fields__:
        if field in left_out:
            assert field not in parameters
            continue
        called = CALLED.get(field, field)
        assert parameters[called].kind is inspect.Parameter.KEYWORD_ONLY, field
        assert parameters[called].default == getattr(defaults, field), field
        assert ours[called] == theirs[field], field


def test_help_shows_the_options_of_the_gate() -> None:
    shown = str(inspect.signature(eth.gate))
    assert "margin: 'float' = 0.05" in shown
    assert "missing: 'MissingRule' = 'bounds'" in shown


def test_a_misspelt_option_is_refused_by_its_name() -> None:
    with pytest.raises(TypeError, match=r"gate\(\) got an unexpected keyword argument 'margn'"):
        eth.gate("base", "candidate", margn=0.1)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", eth.__all__)
def test_a_function_of_the_front_door_has_the_name_that_people_type(name: str) -> None:
    value = getattr(eth, name)
    if inspect.isfunction(value):
        assert (value.__name__, value.__qualname__) == (name, name)


def test_what_is_no_world_and_no_caps_is_refused() -> None:
    with pytest.raises(BadUsage, match=r"world must be a world such as ethogram.worlds.toy_v1.ToyWorld\(\), not 'toy'"):
        eth.explore("toy")  # type: ignore[arg-type]
    with pytest.raises(BadUsage, match=r"caps must be an AllCaps, such as .*, not a dict"):
        eth.run_suite("suite", "agent.py:solve", caps={"usd": 1})  # type: ignore[arg-type]


def test_nothing_at_the_front_door_takes_just_any_keyword() -> None:
    for name in eth.__all__:
        value = getattr(eth, name)
        if inspect.isfunction(value):
            kinds = {p.kind for p in inspect.signature(value).parameters.values()}
            assert inspect.Parameter.VAR_KEYWORD not in kinds, name


def test_no_public_function_of_a_package_takes_just_any_keyword(modules: dict[str, Module]) -> None:
    open_ended = [
        f"{m.name}.{node.name}"
        for m in modules.values()
        if m.name.partition(".")[0] in ENTRIES
        for node in m.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.args.kwarg and node.name[0] != "_"
    ]
    assert not open_ended, f"give these a signature: {', '.join(open_ended)}"
