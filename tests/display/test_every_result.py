"""Whatever a public function answers with shows itself: HTML that is safe, ten lines, a data frame, a picture."""

from __future__ import annotations

import inspect
import pkgutil
import re
import typing
from datetime import date
from html.parser import HTMLParser
from importlib import import_module
from typing import Any

import msgspec
import msgspec.inspect as kinds
import pytest

import ethogram as eth
from ethogram.display.chart import Chart, can_draw
from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.result import Result

ATTACK = '<script>alert("x")</script> & \n more'


NUMBERED = {"pass_at", "pass_hat"}
"""Mappings whose keys are numbers, as text."""


def made(kind: type[Any], length: int) -> Any:
    """A record whose lists and mappings have this length; those inside its own records have at most two."""
    return _record(kinds.type_info(kind), length)


def _record(info: Any, length: int) -> Any:
    if info.cls is Estimate:
        return Estimate(value=0.5, low=0.25, high=0.75, method=ATTACK, n=7, of="tasks")
    fields = {f.name: _value(f.type, length) for f in info.fields if f.name != "schema_version"}
    for name in NUMBERED & fields.keys():
        fields[name] = {str(i + 1): value for i, value in enumerate(fields[name].values())}
    return info.cls(**fields)


def _value(info: Any, length: int) -> Any:
    inner = min(length, 2)
    match info:
        case kinds.StructType():
            return _record(info, inner)
        case kinds.UnionType():
            there = [t for t in info.types if not isinstance(t, kinds.NoneType)]
            return None if info.includes_none and not length else _value(there[0], length)
        case kinds.ListType() | kinds.VarTupleType():
            items = [_value(info.item_type, inner) for _ in range(length)]
            return tuple(items) if isinstance(info, kinds.VarTupleType) else items
        case kinds.TupleType():
            return tuple(_value(t, inner) for t in info.item_types)
        case kinds.DictType():
            keys = _keys(info.key_type, length)
            return {key: _value(info.value_type, inner) for key in keys}
        case kinds.LiteralType():
            return info.values[0]
        case kinds.IntType():
            return 3
        case kinds.FloatType():
            return 0.5
        case kinds.BoolType():
            return True
        case kinds.StrType() | kinds.AnyType():
            return ATTACK
        case kinds.DateType():
            return date(2026, 1, 2)
        case kinds.EnumType():
            return next(iter(info.cls))
    raise TypeError(f"no value is known for {info}")


def _keys(info: Any, length: int) -> list[Any]:
    if isinstance(info, kinds.LiteralType):
        return list(info.values[:length])
    if isinstance(info, kinds.IntType):
        return list(range(length))
    return [f"{ATTACK}{i}" for i in range(length)]


LEFT_OUT = re.compile(r"starter_files|worlds\.shop|__main__|ethogram\.cluster")
VOID = {"line", "circle", "br", "meta"}
NO_RESULT = {
    "from_langgraph": "an agent",
    "load": "a stored run, whose traces are read on demand",
    "span": "a context",
    "tool": "a decorator",
}
"""Functions of the front door that answer no question."""


def all_results() -> list[type[Result]]:
    for module in pkgutil.walk_packages(eth.__path__, "ethogram."):
        if not LEFT_OUT.search(module.name):
            import_module(module.name)
    found: list[type[Result]] = []
    waiting = [Result]
    while waiting:
        below = waiting.pop().__subclasses__()
        found += below
        waiting += below
    ours = {kind for kind in found if kind.__module__.startswith("ethogram.")}
    return sorted(ours, key=lambda kind: kind.__name__)


RESULTS = all_results()


class Reader(HTMLParser):
    """Collects tags and words; complains about tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    return reader


def test_there_are_results_to_look_at() -> None:
    assert len(RESULTS) > 60


@pytest.mark.parametrize("length", [0, 2])
def test_html_is_whole_and_safe(length: int) -> None:
    for kind in RESULTS:
        reader = read(made(kind, length)._repr_html_())
        assert set(reader.tags) <= {
            *("style", "div", "p", "b", "span", "i", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"),
            *("details", "summary", "svg", "line", "circle"),
        }, kind


def test_html_is_bounded() -> None:
    """A notebook keeps what it shows."""
    large = {kind.__name__: len(made(kind, 300)._repr_html_()) for kind in RESULTS}
    assert {name: size for name, size in large.items() if size > 1_000_000} == {}


def test_long_parts_are_folded() -> None:
    html = made(next(k for k in RESULTS if k.__name__ == "ReliabilityResult"), 300)._repr_html_()
    before = html.partition("<details>")[0]
    assert before.count("<tr>") < 15
    assert "the first 200 of 600" in html


@pytest.mark.parametrize("length", [0, 2, 300])
def test_a_console_shows_at_most_ten_lines(length: int) -> None:
    for kind in RESULTS:
        lines = repr(made(kind, length)).splitlines()
        assert 1 <= len(lines) <= 10, kind
        assert max(map(len, lines)) <= 110, kind
        assert lines[0].startswith(kind.__name__)


def test_a_data_frame_has_the_rows_of_the_result() -> None:
    for kind in RESULTS:
        result = made(kind, 2)
        assert len(result.to_df()) == len(result.rows()), kind


@pytest.mark.skipif(not can_draw(), reason="vl-convert is not installed (pip install 'ethogram[charts]')")
def test_every_result_draws_itself_or_says_why_not() -> None:
    drawn, refusals = {}, []
    for kind in RESULTS:
        try:
            drawn[kind.__name__] = made(kind, 2).plot()
        except BadUsage as error:
            refusals.append(str(error))
    assert all("holds no estimate to draw" in refusal for refusal in refusals)
    assert all(isinstance(chart, Chart) and chart.words for chart in drawn.values())
    answers = {
        "ReliabilityResult",
        "FieldResult",
        "CostReport",
        "WhyResult",
        "CompareResult",
        "GateResult",
        "DiffResult",
    }
    assert {*answers, "DivergenceResult", "ForkResult", "ReplayResult", "PlanResult", "ExperimentResults"} <= set(drawn)
    assert drawn["WhyResult"].svg().count("<script") == 0


def test_declared_names_are_fields_or_columns() -> None:
    """A renamed field must not leave a presentation that shows nothing."""
    for kind in RESULTS:
        how, fields = kind.presentation, set(kind.__struct_fields__)
        named = {*(how.facts or ()), *(how.estimates or ()), *how.hidden, *re.findall(r"{(\w+)}", how.headline)}
        if how.drawing:
            named |= {*how.drawing.fields, *([how.drawing.source] if how.drawing.source else [])}
        assert named <= fields, kind
        columns = {path.partition(".")[0] for path in how.columns}
        if columns:
            rows = made(kind, 2).rows()
            assert columns & set(rows[0]) >= columns - OTHER_ROWS.get(kind.__name__, set()), kind


OTHER_ROWS = {"DivergenceResult": {"runs", "pairs", "mean", "max"}}
"""Columns of rows that a result has in its other form."""


def test_functions_at_the_front_door_answer_with_results() -> None:
    for name in sorted(set(eth.__all__) - {"__version__"}):
        function = getattr(eth, name)
        if not inspect.isfunction(function) or name in NO_RESULT:
            continue
        answer = typing.get_type_hints(function)["return"]
        assert issubclass(answer, Result), f"{name} gives a {answer.__name__}"


def test_json_says_what_html_leaves_out() -> None:
    from ethogram.questions.home.tokens import TokenList

    shown = TokenList(tokens=[], token="eth_secret")
    assert "eth_secret" not in shown._repr_html_() + repr(shown)
    assert msgspec.json.decode(shown.to_json())["token"] == "eth_secret"


def test_a_query_may_have_columns_of_any_name_and_type() -> None:
    from ethogram.questions.home.queries import QueryResult

    records = [
        {"name": "a", "low": "cold", "high": "hot", "share": "all", "share_low": None, "share_high": date(2026, 1, 2)},
        {"name": "b", "value": float("nan"), "low": 1, "high": 2},
        {"low": 1, "high": 2},
        {"name": "c", "value": 3, "low": float("-inf"), "high": "inf"},
    ]
    result = QueryResult(columns=["name"], records=records, more=False)
    seen = read(result._repr_html_()).words
    assert all(words in seen for words in ("cold", "hot", "2026-01-02", "unknown", "[−∞, ∞]"))
    assert "nan" not in result._repr_html_()
    assert len(repr(result).splitlines()) == 6


def test_the_attack_is_shown_as_words() -> None:
    kind = next(k for k in RESULTS if k.__name__ == "CompareResult")
    html = made(kind, 2)._repr_html_()
    assert "<script" not in html
    assert ATTACK.partition(" &")[0] in read(html).words


def test_an_estimate_is_a_sentence_in_a_notebook() -> None:
    estimate = eth.Estimate(value=0.5, low=0.2, high=0.8, method="a < b", n=4, of="tasks")
    assert estimate._repr_html_() == "<span>0.5 [0.2, 0.8] (95 %, a &lt; b, n = 4 tasks)</span>"
