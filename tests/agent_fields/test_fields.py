"""A notebook written for the package agent_fields runs with its import changed, and gives the same numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ethogram as eth
import ethogram.agent_fields as aft
from ethogram.agent_fields import CountedAsZero, FieldMetrics
from ethogram.agent_fields import visualisations as viz

RUNS = [
    (["read", "edit", "test"], 1.0),
    (["read", "read", "edit", "test"], 1.0),
    (["read", "edit"], 0.0),
    (["read", "read", "read"], 0.0),
    (["read", "edit", "edit", "test"], 1.0),
]
STAGES = {"read": "start", "edit": "edited", "test": "tested"}


class CodeField(aft.Field[list]):
    """Written as the tutorials of that package write theirs."""

    def dimensions(self):
        return [aft.Dimension("steps", "all steps"), aft.Dimension("edits", "edits"), aft.Dimension("one", "constant")]

    def measure(self, trajectory):
        return np.array([len(trajectory), trajectory.count("edit"), 1.0])

    def trajectory_length(self, trajectory):
        return len(trajectory)

    def state(self, trajectory, t):
        return STAGES[trajectory[t]]

    def intent(self, trajectory, t):
        return "reading" if trajectory[t] == "read" else "acting"


@pytest.fixture
def field() -> CodeField:
    made = CodeField()
    made.ingest([t for t, _ in RUNS], [y for _, y in RUNS])
    return made


def test_metrics_are_those_of_numpy(field):
    points, y = field.points, field.outcomes
    m = field.metrics()
    assert isinstance(m, FieldMetrics)
    assert m.center() == pytest.approx(points.mean(axis=0))
    assert m.variance() == pytest.approx(points.var(axis=0))
    assert m.width() == pytest.approx(points.var(axis=0).sum())
    assert m.covariance() == pytest.approx(np.cov(points, rowvar=False))
    assert m.convergence() == pytest.approx(y.mean() / y.std())
    assert m.separation() == pytest.approx(points[y >= 0.5].mean(axis=0) - points[y < 0.5].mean(axis=0))
    assert m.skew("steps") == pytest.approx(np.corrcoef(y, points[:, 0])[0, 1])


def test_metrics_are_built_of_arrays(field):
    built = FieldMetrics(np.array(field.points.tolist()), np.array(field.outcomes.tolist()), field.dimensions())
    with pytest.warns(CountedAsZero, match="skew is 0"):
        summary = built.summary()
    assert summary["width"] == field.metrics().width()
    assert list(summary["dimensions"]) == ["steps", "edits", "one"]
    assert (built.K, built.d, [d.name for d in built._dimensions]) == (5, 3, ["steps", "edits", "one"])


def test_what_cannot_be_had_is_a_number_and_a_warning(field):
    m = field.success_region().metrics()
    assert m.convergence() == float("inf")
    with pytest.warns(CountedAsZero, match="no evidence of equality"):
        assert m.separation().tolist() == [0.0, 0.0, 0.0]
    with pytest.warns(CountedAsZero, match="never varies"):
        assert f"{m.skew(0):+.4f}" == "+0.0000"
    assert eth.Field.from_arrays([[1.0], [2.0]], [1.0, 1.0], ["a"]).metrics().separation() is None


def test_horizons_regimes_and_families_are_fields_again(field):
    assert field.states == ["start", "edited", "tested"]
    assert field.horizon("tested").metrics().width() == pytest.approx(np.var([3, 4, 4]) + np.var([1, 1, 2]))
    assert (field.horizon("nowhere").K, field.horizon(["edited", "nowhere"]).K, field.horizon_at(3).K) == (0, 4, 2)
    assert field.programs == [("reading", "acting"), ("reading",)]
    assert field.program_family(("reading", "acting")).regime("acting").K == 4
    assert [field.horizon("tested")._outcomes, len(field._points)] == [[1.0, 1.0, 1.0], 5]


def test_pictures_are_plain_dicts_that_another_program_accepts(field):
    altair = pytest.importorskip("altair", reason="altair validates the specifications")
    m = field.metrics()
    with pytest.warns(CountedAsZero, match="skew"):
        skew = viz.skew_bar(m)
    pictures = [viz.center_bar(m), viz.variance_bar(m), viz.separation_bar(m), skew, viz.horizon_drift(field)]
    pictures += [viz.compare_center_bar(m, m, "a", "b"), viz.compare_variance_bar(m, m)]
    pictures += [viz.horizon_width(field), viz.horizon_convergence(field, width=300)]
    for picture in pictures:
        assert altair.Chart.from_dict(picture, validate=True).to_dict()
    assert pictures[-1]["width"] == 300


def test_tasks_are_kept():
    """Three tasks of different length: within each of them successes and failures do not differ."""
    made = CodeField()
    for task, steps in (("a", 2), ("b", 4), ("c", 8)):
        for outcome in (1.0, 0.0, 1.0, 0.0):
            made.add(["read"] * steps, outcome, task=task)
    made.add(["read"] * 3, 1.0, task="a")
    report = made.metrics().report(draws=99)
    plain = eth.Field.from_arrays(made.points, made.outcomes, made.dimensions(), tasks=[*"aaaabbbbcccca"])
    assert report.tasks == 3
    assert report == plain.metrics().report(draws=99)
    width = report.estimates["width"]
    assert width.value == pytest.approx(5 / 6)
    assert (width.low, width.high) == (None, None), "one run differs from the others, and carries all of the spread"
    assert width.why is not None
    assert "one attempt causes all of the spread" in width.why


def test_the_front_door_has_generic_fields_too():
    class Mine(eth.Field[dict]):
        def dimensions(self):
            return [eth.Dimension("size")]

        def measure(self, trajectory):
            return [len(trajectory)]

    mine = Mine()
    mine.add({"a": 1}, 1.0)
    assert repr(mine) == "Mine(K=1, d=1)"
    assert mine.metrics().separation() is None


def test_what_its_docstring_names_exists() -> None:
    named = re.findall(r"`(?:aft\.)?(Field\w*)\.(\w+)", aft.__doc__ or "")
    assert named
    for owner, name in named:
        assert hasattr(getattr(aft, owner), name), f"{owner}.{name}"
