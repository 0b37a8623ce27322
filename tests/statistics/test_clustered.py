"""Limits that keep the order of tables: by hand, against every smaller table, and as properties."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.statistics import interval, passk
from ethogram.statistics.clustered import mean_limits

QUICK = settings(deadline=None, max_examples=80, derandomize=True)
tables = st.lists(
    st.integers(1, 8).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=25
)


def low_end(passes: list[int], attempts: int) -> float:
    found = passk.curve(passes, np.full(len(passes), attempts), [1], 0.95, kind="hat", target="population")
    return float(found.low[0])


def test_a_lost_run_does_not_tighten_the_interval() -> None:
    # 20 tasks of 8: the plain effective n gave 0.839, then 0.962
    whole = low_end([8] * 20, 8)
    assert whole == pytest.approx(float(interval.wilson(20, 20, 0.95).low))
    ends = [low_end([8 - (i < lost) for i in range(20)], 8) for lost in range(21)]
    assert np.all(np.diff(ends) <= 1e-12)
    assert ends[1] == pytest.approx(float(interval.wilson(159 / 160 * 20, 20, 0.95).low))


def test_where_ten_tasks_differ_it_is_the_plain_clustered_interval() -> None:
    c = np.array([6, 2, 5, 7, 1, 4, 3, 6, 2, 5, 4, 3, 6, 5, 2, 4, 3, 7, 1, 4])
    v = c / 8
    n = v.mean() * (1 - v.mean()) / (v.var(ddof=1) / 20) * (1.959963985 / 2.093024054) ** 2
    found = passk.curve(c, np.full(20, 8), [1], 0.95, kind="hat", target="population")
    np.testing.assert_allclose((found.low[0], found.high[0]), interval.wilson(v.mean() * n, n, 0.95), rtol=1e-9)


def plain_upper(v: np.ndarray, groups: float) -> float:
    """The capped rule for one table alone, written down anew."""
    tasks, mean = v.size, v.mean()
    differ = min(np.sum(v > 0), np.sum(v < 1))
    most = tasks * (groups / tasks) ** np.clip((differ - 1) / 9, 0, 1)
    variance = v.var(ddof=1) / tasks
    scale = (1.959963985 / STUDENT[tasks]) ** 2
    n = most if variance == 0 or mean in (0, 1) else np.clip(mean * (1 - mean) / variance * scale, 1, most)
    n = tasks if mean in (0, 1) else n
    return float(interval.wilson_edge(mean * n, n, 0.95).high)


STUDENT = {3: 4.302652730, 4: 3.182446305}


@pytest.mark.parametrize("passes", [(4, 4, 4), (3, 1, 0), (2, 2, 2, 2), (4, 0, 0, 1), (1, 3, 4, 4)])
def test_no_table_with_fewer_passes_has_a_higher_limit(passes: tuple[int, ...]) -> None:
    v = np.array(passes) / 4
    found = mean_limits(v[:, None], np.ones((v.size, 1)), np.array([4.0 * v.size]), 0.95)
    below = [plain_upper(np.array(y) / 4, 4 * v.size) for y in product(*(range(c + 1) for c in passes))]
    assert found.high[0] >= max(below) - 1e-9
    # and it is no wider than the tables between two counts require
    assert found.high[0] <= max(below) + 0.03


@given(tables, st.data(), st.sampled_from(["at", "hat"]))
@QUICK
def test_losing_a_pass_raises_no_end(table: list[tuple[int, int]], data: st.DataObject, kind: passk.PassKind) -> None:
    c, n = np.array(table).T
    lost = np.array([data.draw(st.integers(0, int(x))) for x in c]) * data.draw(st.sampled_from([0, 1]), "scale")
    one = data.draw(st.integers(0, c.size - 1))
    lost[one] = min(max(lost[one], 1), c[one])
    ks = np.arange(1, n.max() + 1)
    before, after = (passk.curve(x, n, ks, 0.95, kind=kind, target="population") for x in (c, c - lost))
    assert np.all(after.low <= before.low + 1e-9)
    assert np.all(after.high <= before.high + 1e-9)


@given(tables, st.sampled_from(["population", "suite"]))
@QUICK
def test_ends_follow_k_while_the_tasks_are_the_same(table: list[tuple[int, int]], target: passk.Target) -> None:
    c, n = np.array(table).T
    ks = np.arange(1, n.max() + 1)
    hat = passk.curve(c, n, ks, 0.95, kind="hat", target=target)
    at = passk.curve(c, n, ks, 0.95, kind="at", target=target)
    same = np.diff(hat.tasks) == 0
    assert np.all(np.diff(hat.high)[same] <= 1e-12)
    assert np.all(np.diff(at.low)[same] >= -1e-12)
    # an end does not depend on which other k were asked for
    alone = passk.curve(c, n, [int(ks[-1])], 0.95, kind="hat", target=target)
    np.testing.assert_allclose((alone.low[0], alone.high[0]), (hat.low[-1], hat.high[-1]), atol=1e-12)


@given(tables)
@QUICK
def test_tasks_taken_together_change_nothing(table: list[tuple[int, int]]) -> None:
    c, n = np.array(table).T
    one = passk.curve(c, n, [1, 2], 0.95, kind="hat", target="population")
    batch = passk.curve(np.stack([c, c]), n, [1, 2], 0.95, kind="hat", target="population")
    for a, b in zip(one, batch, strict=True):
        np.testing.assert_allclose(a, b[1], atol=1e-9)
