"""Options are keywords with names, types and defaults: `help(eth.gate)` shows them and type checkers know them."""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import ethogram as eth
from ethogram.capture.draft import Draft, DraftFields, PlacedFields, SpanFields
from ethogram.errors import BadUsage
from ethogram.harness.options import RunOptions
from ethogram.questions.cost.assumptions import assumed_cost
from ethogram.questions.cost.question import cost
from ethogram.questions.cost.records import CostOptions
from ethogram.questions.explore.buying.start import ExploreOptions
from ethogram.questions.fork.buying.fork import ForkOptions
from ethogram.questions.gate.plan import GateSettings
from ethogram.questions.gate.planner import PlanSettings
from ethogram.questions.judging.buying.session import JudgeOptions
from ethogram.questions.logs.imports import ImportOptions
from ethogram.store import open_home

if TYPE_CHECKING:
    from conftest import Module

OF_EPISODES = {"reprice", "condition", "agent"}
"""What `assumed_cost` leaves out: it has no episodes to choose from and no recorded costs."""
SIGNATURES: list[tuple[Callable[..., Any], type[msgspec.Struct], set[str]]] = [
    (eth.gate, GateSettings, set()),
    (eth.plan, PlanSettings, set()),
    (eth.judge, JudgeOptions, set()),
    (eth.import_logs, ImportOptions, set()),
    (eth.run, RunOptions, {"replay"}),  # `replay_run` sets it
    (eth.fork, ForkOptions, {"smallest"}),  # of `fork_traces`
    (eth.explore, ExploreOptions, set()),
    (cost, CostOptions, set()),
    (assumed_cost, CostOptions, OF_EPISODES),
]
CALLED = {"name": "run"}
"""The name of a run is `run` in every function, as it is `--run` in every verb."""
OPEN_ENDED = {
    "capture.held_spans.HeldSpans.amend": "`structs.replace` refuses what is no field of a span",
    "capture.pairing.OpenCalls.__init__": "facts of the caller's own, given back as they are",
    "capture.pairing.OpenCalls.add": "facts of the caller's own, given back as they are",
    "wire.recorder.Recorder.tool": "arguments of the tool that is called",
    "findings.step_words.call_finding": "the detail of a finding, whose names differ by rule",
    "testing.fixture.EpisodeFixture.tool": "arguments of the tool that is called",
    "testing.reports.make_report": "fields of pytest's report",
}
"""What takes any keyword, and why that is right. Anything else says its keywords, or `**name: Unpack[SomeFields]`."""


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
        eth.explore("toy")
    with pytest.raises(BadUsage, match=r"caps must be an AllCaps, such as .*, not a dict"):
        eth.run("suite", "agent.py:solve", caps={"usd": 1})  # type: ignore[arg-type]


def test_nothing_at_the_front_door_takes_just_any_keyword() -> None:
    for name in eth.__all__:
        value = getattr(eth, name)
        if inspect.isfunction(value):
            kinds = {p.kind for p in inspect.signature(value).parameters.values()}
            assert inspect.Parameter.VAR_KEYWORD not in kinds, name


def public(module: str, body: list[ast.stmt]) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The public functions of a module, and methods of its public classes, by their full names."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public(f"{module}.{node.name}", node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
            node.name == "__init__" or not node.name.startswith("_")
        ):
            yield f"{module}.{node.name}", node


def takes_any_keyword(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    if node.args.kwarg is None or node.args.kwarg.annotation is None:
        return node.args.kwarg is not None
    return not ast.unparse(node.args.kwarg.annotation).startswith("Unpack[")


def test_nothing_public_takes_just_any_keyword(modules: dict[str, Module]) -> None:
    """A keyword that is misspelt is refused, also where it would only have been passed on or dropped."""
    open_ended = {
        name
        for m in modules.values()
        if not any(word.startswith("_") for word in m.name.split("."))
        for name, node in public(m.name, m.tree.body)
        if takes_any_keyword(node)
    }
    more = sorted(open_ended - set(OPEN_ENDED))
    assert not more, f"give these a signature: {', '.join(more)}"
    assert open_ended == set(OPEN_ENDED), "an exception is no longer needed"


def test_fields_of_spans_are_those_of_drafts() -> None:
    drafts, given = typing.get_type_hints(Draft), typing.get_type_hints(DraftFields)
    assert given == drafts, "`DraftFields` says for type checkers what a `Draft` has"
    place = {"kind", "name", "seq", "span_id"}
    assert typing.get_type_hints(PlacedFields) == {k: v for k, v in drafts.items() if k not in place}
    assert typing.get_type_hints(SpanFields) == {k: v for k, v in drafts.items() if k not in {*place, "parent_id"}}


def test_a_privacy_setting_that_is_misspelt_makes_no_run(tmp_path: Path) -> None:
    home = open_home(str(tmp_path))
    for make in (home.create, home.run_of_kind, home.describe):
        with pytest.raises(TypeError, match="unexpected keyword argument 'redactoin'"):
            make("night", "import", redactoin="none")  # type: ignore[call-arg]
    assert home.names() == []
