"""The essay's objects by its names: snippets run, null rules hold, and nothing is silently zero."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.errors import BadInput, BadUsage, NotFound, Refused
from ethogram.measures.dimension import Dimension
from ethogram.questions.field.field import Field
from ethogram.traces import Head, Missing, Scored, Span, SpanId, Trace, episode_id, trace_id


class CodeFix(Field):
    """Calls, edits and whether tests were run, of a list of tool names."""

    def __init__(self) -> None:
        self.note = "a subclass need not call its parent"

    def dimensions(self) -> list[Dimension]:
        return [Dimension("calls", "Tool calls"), Dimension("edits", "Edits"), Dimension("ran_tests", "0 or 1")]

    def measure(self, trajectory: list[str]) -> list[float]:
        return [len(trajectory), trajectory.count("edit"), float("test" in trajectory)]

    def state(self, trajectory: list[str], t: int) -> str:
        done = trajectory[: t + 1]
        if "edit" not in done:
            return "diagnosed" if "read" in done else "start"
        return "tested" if "test" in done[done.index("edit") :] else "editing"


RUNS = [
    (["list", "read", "edit", "edit", "edit", "test"], 1.0),
    (["read", "edit", "edit", "edit"], 1.0),
    (["list", "list", "edit", "edit", "edit", "edit", "test"], 0.0),
    (["list", "read"], 0.0),
]


@pytest.fixture
def field() -> Field:
    field = CodeFix()
    for trajectory, score in RUNS:
        field.add(trajectory, outcome=score)
    return field


def test_the_cloud_and_its_outcomes(field: Field) -> None:
    assert (field.K, field.d) == (4, 3)
    assert field.points.tolist() == [[6, 3, 1], [4, 3, 0], [7, 4, 1], [2, 0, 0]]
    assert field.outcomes.tolist() == [1, 1, 0, 0]
    assert field.names == ["calls", "edits", "ran_tests"]
    assert field.dimensions()[0].description == "Tool calls"


def test_metrics_by_hand(field: Field) -> None:
    m = field.metrics()
    assert m.center().tolist() == [4.75, 2.5, 0.5]
    assert m.variance() == pytest.approx([3.6875, 2.25, 0.25])
    assert m.width() == pytest.approx(6.1875)
    assert m.convergence() == pytest.approx(1.0)
    assert m.separation() == pytest.approx([0.5, 1.0, 0.0])
    assert m.skew("calls") == pytest.approx(np.corrcoef([1, 1, 0, 0], [6, 4, 7, 2])[0, 1])
    assert m.skew(1) == m.skew("edits")
    assert m.covariance() == pytest.approx(np.cov(field.points, rowvar=False))
    plain = m.covariance(ddof=0)
    assert plain is not None
    assert np.trace(plain) == pytest.approx(m.width())


def test_summary_is_keyed_by_name(field: Field) -> None:
    summary = field.metrics().summary()
    assert summary["K"] == 4
    assert summary["dimensions"]["edits"] == {
        "description": "Edits",
        "mean": 2.5,
        "variance": 2.25,
        "separation": 1.0,
        "skew": field.metrics().skew("edits"),
    }


def test_convergence_of_the_essay() -> None:
    def of(passed: int) -> float | None:
        return Field.from_arrays(np.zeros((10, 1)), np.arange(10) < passed, ["x"]).metrics().convergence()

    assert of(6) == pytest.approx(1.22, abs=0.005)
    assert of(6) == pytest.approx(math.sqrt(0.6 / 0.4))
    assert of(10) == math.inf
    assert of(0) == 0.0


def test_ingest_is_many_adds(field: Field) -> None:
    other = CodeFix()
    other.ingest([t for t, _ in RUNS], [y for _, y in RUNS])
    assert other.points.tolist() == field.points.tolist()
    with pytest.raises(BadInput, match="4 trajectories but 3 outcomes"):
        other.ingest([t for t, _ in RUNS], [1, 0, 1])


def test_from_arrays_and_subset_compose(field: Field) -> None:
    same = Field.from_arrays(field.points, field.outcomes, field.dimensions(), states=field.state_sequences)
    assert same.metrics().summary() == field.metrics().summary()
    part = same.subset(np.array([True, False, True, True])).horizon("editing").success_region()
    assert part.K == 1
    assert part.points.tolist() == [[6, 3, 1]]
    assert part.origin == ("subset", "horizon editing (visited)", "successes (outcome ≥ 0.5)")
    assert same.subset([2, 0]).points.tolist() == [[7, 4, 1], [6, 3, 1]]
    with pytest.raises(BadUsage, match="measured before"):
        part.add(["read"], 1.0)


def test_regions_leave_out_what_has_no_outcome(field: Field) -> None:
    field.add(["list"], None)
    field.add(["list"], Missing("infrastructure.timeout"))
    assert (field.success_region().K, field.failure_region().K, field.K) == (2, 2, 6)
    assert field.missing == {"unscored": 1, "infrastructure.timeout": 1}
    assert field.metrics().convergence() == pytest.approx(1.0)
    assert field.metrics().estimate("convergence").missing == field.missing
    assert field.subset([0, 5]).missing == {"infrastructure.timeout": 1}


def test_one_outcome_class_has_no_separation_and_no_skew() -> None:
    m = Field.from_arrays([[1.0], [2.0], [4.0]], [1, 1, 1], ["x"]).metrics()
    assert m.separation() is None
    assert m.skew("x") is None
    assert m.convergence() == math.inf
    estimate = m.estimate("separation", "x")
    assert estimate.value is None
    assert "no task has both" in str(estimate.why)
    bounded = m.estimate("convergence")
    assert bounded.value == math.inf
    assert bounded.low is not None
    assert 0.5 < bounded.low < 2
    assert bounded.high == math.inf


def test_no_outcome_at_all() -> None:
    m = Field.from_arrays([[1.0], [2.0], [4.0]], None, ["x"]).metrics()
    assert m.width() > 0
    assert m.convergence() is None
    assert m.separation() is None
    assert m.skew("x") is None
    assert m.estimate("convergence").value is None
    assert "no trajectory has an outcome" in str(m.estimate("convergence").why)
    assert m.report().missing == {"unscored": 3}


def test_one_trajectory() -> None:
    m = Field.from_arrays([[3.0, 1.0]], [1], ["x", "y"]).metrics()
    assert m.width() == 0.0
    assert m.covariance() is None
    for name in ("width", "drift"):
        estimate = m.estimate(name)
        assert estimate.value is None
        assert estimate.why
    assert m.estimate("center", "x").value == 3.0
    assert m.estimate("center", "x").low is None
    assert m.report().K == 1


def test_zero_variance_is_said_not_hidden() -> None:
    m = Field.from_arrays([[0.1, i] for i in range(6)], [0, 1, 0, 1, 0, 1], ["same", "x"]).metrics()
    assert m.skew("same") is None
    assert m.variance()[0] == pytest.approx(0, abs=1e-30)
    report = m.report()
    assert report.constant == ("same",)
    assert report.dimensions[0].adjusted is None
    assert "never varies" in str(report.dimensions[0].estimates["separation"].why)
    flat = Field.from_arrays(np.ones((5, 2)), [0, 1, 0, 1, 1], ["a", "b"]).metrics().estimate("spread")
    assert flat.value == 0.0
    assert flat.low is None
    assert "equal" in str(flat.why)


def test_an_empty_field_refuses_and_says_why() -> None:
    with pytest.raises(Refused, match="the field is empty, so"):
        CodeFix().metrics()
    part = Field.from_arrays([[1.0]], [0], ["x"]).success_region()
    with pytest.raises(Refused, match="successes"):
        part.metrics()


class Odd(Field):
    """Gives back what it is given."""

    def dimensions(self) -> list[Dimension]:
        return [Dimension("a"), Dimension("b")]

    def measure(self, trajectory: Any) -> Any:
        return trajectory


@pytest.mark.parametrize(
    ("trajectory", "message"),
    [
        ([1, math.nan], "nan on dimension 'b' for trajectory 0"),
        ([math.inf, 1], "inf on dimension 'a'"),
        ([1, 2, 3], r"shape \(3,\) for trajectory 0, but there are 2 dimensions \(a, b\)"),
        (["x", 1], "give 2 numbers"),
        (None, "dimension 'a'|shape"),
    ],
)
def test_bad_measurements_are_refused_by_name(trajectory: Any, message: str) -> None:
    field = Odd()
    with pytest.raises(BadInput, match=message):
        field.add(trajectory, 1.0)
    assert field.K == 0
    field.add([1, 2], 1.0)
    assert field.K == 1


@pytest.mark.parametrize("outcome", [math.nan, math.inf, "good"])
def test_bad_outcomes_are_refused(outcome: Any) -> None:
    with pytest.raises(BadInput, match="outcome of trajectory 0"):
        Odd().add([1, 2], outcome)


def test_bad_arrays_are_refused() -> None:
    with pytest.raises(BadInput, match="dimension 'y' of trajectory 1 is nan"):
        Field.from_arrays([[1, 2], [1, math.nan]], [0, 1], ["x", "y"])
    with pytest.raises(BadInput, match=r"shape \(2, 2\)"):
        Field.from_arrays([[1, 2], [1, 2]], [0, 1], ["x"])
    with pytest.raises(BadInput, match="2 points but 1 outcomes"):
        Field.from_arrays([[1], [2]], [0], ["x"])
    with pytest.raises(BadInput, match="2 points but 3 tasks"):
        Field.from_arrays([[1], [2]], [0, 1], ["x"], tasks=["a", "b", "c"])
    with pytest.raises(BadInput, match="'x' occurs twice"):
        Field.from_arrays([[1, 2]], [0], ["x", "x"])
    with pytest.raises(BadUsage, match="mask"):
        Field.from_arrays([[1], [2]], [0, 1], ["x"]).subset(np.array([True]))


def test_unknown_names_get_a_hint(field: Field) -> None:
    m = field.metrics()
    with pytest.raises(NotFound, match="did you mean 'edits'"):
        m.skew("edit")
    with pytest.raises(NotFound, match="did you mean 'width'"):
        m.estimate("widht")
    with pytest.raises(BadUsage, match="name one of calls"):
        m.estimate("skew")
    with pytest.raises(BadUsage, match="leave the dimension out"):
        m.estimate("width", "calls")
    with pytest.raises(NotFound, match="there is no dimension 7"):
        m.skew(7)


def trace(number: int, tools: list[str], outcome: Any, task: str = "t") -> Trace:
    tid = trace_id("test", str(number))
    spans = tuple(
        Span(trace_id=tid, span_id=SpanId(f"s{i}"), seq=i, kind="tool", name=name, tool=name, status="ok")
        for i, name in enumerate(tools)
    )
    head = Head(trace_id=tid, episode=episode_id("test", str(number)), task=task, outcome=outcome)
    return Trace(head, spans, {})


def test_a_trace_brings_its_outcome_task_and_length() -> None:
    class Steps(Field):
        def dimensions(self) -> list[Dimension]:
            return [Dimension("steps")]

        def measure(self, trajectory: Trace) -> list[float]:
            return [len(trajectory.steps)]

        def state(self, trajectory: Trace, t: int) -> str:
            return "late" if t > 1 else "early"

    field = Steps()
    field.add(trace(1, ["a", "b", "c"], Scored(1.0)))
    field.add(trace(2, ["a"], Missing("killed"), task="u"))
    field.add(trace(3, ["a"], Scored(1.0)), 0.0, task="mine")
    assert field.tasks == ["t", "u", "mine"]
    assert field.missing == {"killed": 1}
    assert field.outcomes[2] == 0.0
    assert field.episodes[0] == episode_id("test", "1")
    assert field.state_sequences == [["early", "early", "late"], ["early"], ["early"]]


@given(
    st.lists(
        st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.sampled_from([0.0, 1.0, 0.4])), min_size=1, max_size=40
    )
)
def test_plain_values_are_numpys(rows: list[tuple[float, float, float]]) -> None:
    points, y = np.array([r[:2] for r in rows]), np.array([r[2] for r in rows])
    m = Field.from_arrays(points, y, ["a", "b"]).metrics()
    scale = 1e-9 * (1 + float(np.abs(points).max()) ** 2)
    assert m.width() == pytest.approx(float(np.sum(np.var(points, axis=0))), rel=1e-9, abs=scale)
    assert m.center() == pytest.approx(points.mean(axis=0), rel=1e-9, abs=1e-6)
    apart = m.separation()
    if (y >= 0.5).any() and (y < 0.5).any():
        assert apart is not None
        assert apart == pytest.approx(points[y >= 0.5].mean(axis=0) - points[y < 0.5].mean(axis=0), abs=1e-6)
    else:
        assert apart is None


def test_a_field_may_name_the_type_of_its_trajectories() -> None:
    class Pages(Field[dict[str, int]]):
        def dimensions(self) -> list[Dimension]:
            return [Dimension("pages")]

        def measure(self, trajectory: dict[str, int]) -> list[float]:
            return [trajectory["pages"]]

    field = Pages()
    field.ingest([{"pages": 1}, {"pages": 3}], [1, 0])
    assert field.points.tolist() == [[1.0], [3.0]]
    assert isinstance(field.success_region(), Field)
