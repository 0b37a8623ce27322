"""Pictures of fields and their metrics as plain dicts of Vega-Lite, for any renderer."""

from __future__ import annotations

from typing import Any

from ethogram.display import charts as marks
from ethogram.display.chart import Chart, Spec
from ethogram.questions.field.field import Field
from ethogram.questions.field.metrics import FieldMetrics

Rows = list[dict[str, Any]]


def center_bar(m: FieldMetrics, *, width: int = 500, height: int = 250) -> Spec:
    """The mean of each dimension."""
    return _spec(_bars(m, m.center(), "mean"), width, height)


def variance_bar(m: FieldMetrics, *, width: int = 500, height: int = 250) -> Spec:
    """The variance of each dimension."""
    return _spec(_bars(m, m.variance(), "variance"), width, height)


def separation_bar(m: FieldMetrics, *, width: int = 500, height: int = 250) -> Spec:
    """Successes minus failures on each dimension."""
    return _spec(_bars(m, m.separation(), "successes − failures"), width, height)


def skew_bar(m: FieldMetrics, *, width: int = 500, height: int = 250) -> Spec:
    """The correlation of each dimension with the outcome."""
    return _spec(_bars(m, [m.skew(i) for i in range(m.d)], "correlation with the outcome"), width, height)


def compare_center_bar(
    m_a: FieldMetrics, m_b: FieldMetrics, label_a: str = "A", label_b: str = "B", *, width: int = 600, height: int = 250
) -> Spec:
    """The means of two fields side by side."""
    rows = [*_rows(m_a, m_a.center(), label_a), *_rows(m_b, m_b.center(), label_b)]
    return _spec(marks.grouped(rows, "label", "who", "mean", "the means of two fields"), width, height)


def compare_variance_bar(
    m_a: FieldMetrics, m_b: FieldMetrics, label_a: str = "A", label_b: str = "B", *, width: int = 600, height: int = 250
) -> Spec:
    """The variances of two fields side by side."""
    rows = [*_rows(m_a, m_a.variance(), label_a), *_rows(m_b, m_b.variance(), label_b)]
    return _spec(marks.grouped(rows, "label", "who", "variance", "the variances of two fields"), width, height)


def horizon_width(field: Field, *, width: int = 500, height: int = 250) -> Spec:
    """The width of the runs that visited each state."""
    rows = [{"label": s, "value": field.horizon(s).metrics().width()} for s in field.states]
    return _spec(marks.bars(rows, "label", "value", "width", "width by state"), width, height)


def horizon_convergence(field: Field, *, width: int = 500, height: int = 250) -> Spec:
    """The convergence of the runs that visited each state; infinite ones, where all succeed, are left out."""
    found = {s: field.horizon(s).metrics().convergence() for s in field.states}
    rows = [{"label": s, "value": c} for s, c in found.items() if c is not None and c != float("inf")]
    return _spec(marks.bars(rows, "label", "value", "convergence", "convergence by state"), width, height)


def horizon_drift(field: Field, *, threshold: float = 0.5, width: int = 500, height: int = 250) -> Spec:
    """How much wider all runs at a state are than the successes among them; not drawn for fewer than two successes."""
    rows = []
    for state in field.states:
        here = field.horizon(state)
        good = here.success_region(threshold)
        if good.K >= 2:
            rows.append({"label": state, "value": here.metrics().width() - good.metrics().width()})
    return _spec(marks.bars(rows, "label", "value", "drift", "drift by state"), width, height)


def _bars(m: FieldMetrics, values: Any, title: str) -> Chart:
    return marks.bars(_rows(m, values), "label", "value", title, f"{title} by dimension")


def _rows(m: FieldMetrics, values: Any, who: str = "") -> Rows:
    found = [None] * m.d if values is None else values
    return [
        {"label": name, "value": float(v), "who": who} for name, v in zip(m.names, found, strict=True) if v is not None
    ]


def _spec(chart: Chart, width: int, height: int) -> Spec:
    return {**chart.spec, "width": width, "height": height}
